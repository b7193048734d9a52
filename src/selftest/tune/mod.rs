//! How near to the best setting the tuner comes in how many launches, on a problem whose every
//! answer is known.
//!
//! The search within a setting is represented by its result: the log of the true goodput at the
//! capacity plus normal noise of [`NOISE`], which is what restarts and the inner interval leave. A
//! setting in the crashing region fails and costs its launch.

mod problem;
mod report;

pub use problem::{Problem, Row};
pub use report::{After, MethodTally, TuneTest};

use std::convert::Infallible;

use crate::rng::Stream;
use crate::search::tuner::{Design, FailureKind, TrialCost, Tried, TunerAsk, tuner};
use crate::selftest::in_parallel;

/// Standard deviation of the log of a measured goodput.
pub const NOISE: f64 = 0.04;
/// Launches that a search has.
pub const LAUNCHES: usize = 20;
/// Launches after which the recommendation is judged.
pub const AFTER: [usize; 3] = [10, 15, 20];
/// The designs that are compared, the tuner first.
pub const DESIGNS: [Design; 4] = [Design::Bayes, Design::Sobol, Design::Random, Design::Grid];

/// One search.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneRun {
    /// True goodput of what is recommended after each launch, as a share of the best; 0 before
    /// anything works, none where what is recommended crashes.
    pub value: Vec<Option<f64>>,
    /// Launches that crashed.
    pub crashes: usize,
}

/// Runs `searches` searches of `problem` with each design; `progress` sees each tally as it is done.
pub fn compare(
    problem: &Problem,
    searches: usize,
    first_seed: u64,
    progress: &mut dyn FnMut(&MethodTally),
) -> TuneTest {
    let mut tallies = Vec::new();
    for design in DESIGNS {
        let one = |index| Ok::<_, Infallible>(search(problem, design, first_seed.wrapping_add(index as u64)));
        let Ok(runs) = in_parallel(searches, one);
        let tally = MethodTally::of(design, &runs);
        progress(&tally);
        tallies.push(tally);
    }
    TuneTest::new(problem, searches, first_seed, tallies)
}

/// Searches once.
pub fn search(problem: &Problem, design: Design, seed: u64) -> TuneRun {
    let mut run = TuneRun { value: Vec::new(), crashes: 0 };
    // None of the designs compared pairs values, which is all that could go wrong.
    let Ok(mut tuner) = tuner(design, &problem.space, LAUNCHES, seed) else { return run };
    let mut noise = Stream::new(seed, "measurement");
    while let TunerAsk::Try(point) = tuner.ask() {
        let tried = match problem.goodput(&problem.space.setting(&point)) {
            Some(goodput) => {
                Tried::Measured { log_value: goodput.ln() + NOISE * noise.normal(), variance: NOISE * NOISE }
            }
            None => {
                run.crashes += 1;
                Tried::Failed(FailureKind::Crash)
            }
        };
        tuner.tell(&point, tried, TrialCost { launch: 60.0, measure: 120.0 });
        run.value.push(match tuner.recommend() {
            None => Some(0.0),
            Some(best) => {
                problem.goodput(&problem.space.setting(&best.point)).map(|goodput| goodput / problem.best)
            }
        });
    }
    run
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_tuner_comes_nearer_than_designs_without_a_model_and_nobody_recommends_a_crash() {
        let problem = Problem::compute().unwrap();
        assert_eq!(problem.rows().count(), 11 * 7 * 3 * 4);
        let result = compare(&problem, 10, 1, &mut |_| {});
        let bayes = &result.methods[0];
        assert_eq!(bayes.method, "bayes");
        let best_other =
            result.methods[1..].iter().map(|other| other.after[2].median_regret).fold(1.0, f64::min);
        assert!(bayes.after[2].median_regret < best_other, "{result}");
        assert!(bayes.after[2].median_regret <= 0.02, "{result}");
        assert!(bayes.crashes < result.methods[1].crashes, "{result}");
        assert!(result.methods.iter().all(|method| method.infeasible == 0), "{result}");
    }
}
