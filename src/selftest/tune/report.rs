//! What the tuner's self-test found, as a document and as a table.

use std::fmt;

use serde::Serialize;

use super::{AFTER, LAUNCHES, NOISE, Problem, TuneRun};
use crate::search::tuner::Design;
use crate::stats::quantile::quantile;

/// Share of the best goodput that counts as reached.
const REACHED: f64 = 0.95;

/// Everything that it found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TuneTest {
    /// Version of the program.
    pub version: &'static str,
    /// Searches of each method.
    pub searches: usize,
    /// Seed of the first.
    pub first_seed: u64,
    /// Standard deviation of the log of a measured goodput.
    pub noise: f64,
    /// Settings that there are, those that crash, and those within 5 % of the best.
    pub settings: (usize, usize, usize),
    /// The methods.
    pub methods: Vec<MethodTally>,
}

/// One method over all its searches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodTally {
    /// Its name.
    pub method: String,
    /// Its searches.
    pub searches: usize,
    /// Regret of the recommendation after 10, 15 and 20 launches.
    pub after: Vec<After>,
    /// Searches that ever recommended a setting that crashes.
    pub infeasible: usize,
    /// Launches after which the recommendation stays at 95 % of the best or more: median and ninth
    /// decile; none where it does not.
    pub launches_to_reach: (Option<usize>, Option<usize>),
    /// Mean launches made: the tuner may end earlier than it must.
    pub launches: f64,
    /// Mean launches that crashed.
    pub crashes: f64,
}

/// Regret (1 - true goodput / best) after some launches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct After {
    /// The launches.
    pub launches: usize,
    /// Median regret.
    pub median_regret: f64,
    /// Ninth decile.
    pub q90_regret: f64,
}

impl MethodTally {
    /// The tally of some searches.
    pub fn of(design: Design, runs: &[TuneRun]) -> Self {
        // A search that ended by itself stays at what it recommended last; a crash is worth nothing.
        let at = |run: &TuneRun, launches: usize| {
            let index = launches.min(run.value.len());
            run.value[..index].last().copied().flatten().unwrap_or(0.0)
        };
        let after = AFTER
            .iter()
            .map(|&launches| {
                let mut regrets: Vec<f64> = runs.iter().map(|run| 1.0 - at(run, launches)).collect();
                regrets.sort_by(f64::total_cmp);
                let of = |p: f64| quantile(&regrets, p);
                After { launches, median_regret: of(0.5), q90_regret: of(0.9) }
            })
            .collect();
        let mut reached: Vec<usize> = runs
            .iter()
            .map(|run| {
                let last_below = run.value.iter().rposition(|value| value.unwrap_or(0.0) < REACHED);
                last_below.map_or(1, |index| index + 2)
            })
            .zip(runs)
            .map(|(launches, run)| if launches > run.value.len() { usize::MAX } else { launches })
            .collect();
        reached.sort_unstable();
        let rank = |p: f64| {
            let index = ((p * reached.len() as f64).ceil() as usize).clamp(1, reached.len().max(1)) - 1;
            reached.get(index).copied().filter(|&launches| launches != usize::MAX)
        };
        let mean = |of: &dyn Fn(&TuneRun) -> usize| {
            runs.iter().map(|run| of(run) as f64).sum::<f64>() / runs.len().max(1) as f64
        };
        Self {
            method: format!("{design:?}").to_lowercase(),
            searches: runs.len(),
            after,
            infeasible: runs.iter().filter(|run| run.value.iter().any(Option::is_none)).count(),
            launches_to_reach: (rank(0.5), rank(0.9)),
            launches: mean(&|run| run.value.len()),
            crashes: mean(&|run| run.crashes),
        }
    }
}

impl TuneTest {
    /// The results of all methods.
    pub fn new(problem: &Problem, searches: usize, first_seed: u64, methods: Vec<MethodTally>) -> Self {
        let worth = |least: f64| {
            problem
                .rows()
                .filter(|row| row.goodput.is_some_and(|goodput| goodput >= least * problem.best))
                .count()
        };
        let all = problem.rows().count();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            searches,
            first_seed,
            noise: NOISE,
            settings: (all, all - worth(0.0), worth(REACHED)),
            methods,
        }
    }
}

impl fmt::Display for TuneTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, crash, near) = self.settings;
        writeln!(
            f,
            "4 knobs, {all} settings: {crash} crash, {near} lie within 5 % of the best; measured with {:.0} % noise",
            100.0 * self.noise
        )?;
        writeln!(
            f,
            "regret of the recommended setting, median / ninth decile, of {} searches\n",
            self.searches
        )?;
        write!(f, "{:<8}", "method")?;
        for launches in AFTER {
            write!(f, "{:>18}", format!("after {launches}"))?;
        }
        writeln!(f, "{:>20}{:>10}{:>9}{:>12}", "to stay above 95 %", "launches", "crashes", "infeasible")?;
        for method in &self.methods {
            write!(f, "{:<8}", method.method)?;
            for after in &method.after {
                let text =
                    format!("{:.1} % / {:.1} %", 100.0 * after.median_regret, 100.0 * after.q90_regret);
                write!(f, "{text:>18}")?;
            }
            let launches = |n: Option<usize>| n.map_or(format!("> {LAUNCHES}"), |n| n.to_string());
            let (median, q90) = method.launches_to_reach;
            let reach = format!("{} / {}", launches(median), launches(q90));
            writeln!(
                f,
                "{reach:>20}{:>10.1}{:>9.1}{:>12}",
                method.launches, method.crashes, method.infeasible
            )?;
        }
        Ok(())
    }
}
