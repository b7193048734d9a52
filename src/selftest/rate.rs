//! The search over rates, held against simulated servers whose largest rate long runs tell.

use std::fmt;

use serde::Serialize;

use super::tally::{HEADS, Said, Tally};
use super::{ADAPTIVE, in_parallel};
use crate::plan::{ArrivalsPlan, Budget, StrategyPlan, TrialPlan};
use crate::search::{self, Ask, SearchOutcome};
use crate::sim::open_loop::{self, OpenScenario};
use crate::sim::session::{SimSession, ready};
use crate::slo::{Slo, SloError};
use crate::trial::{OpenLoad, Trials};

/// Version of the result's schema.
const VERSION: u32 = 1;
/// Tallies count in whole numbers: thousandths of a request a second.
const MILLI: f64 = 1000.0;

/// Requests of each run from which a true rate is computed, and the seed of the first of them.
const TRUTH_REQUESTS: usize = 100_000;
const TRUTH_SEED: u64 = 11;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateOptions {
    /// Searches of each scenario.
    pub searches: usize,
    /// Seed of the first search; each further one has the next.
    pub first_seed: u64,
    /// Relative width of the interval at which a search may stop.
    pub precision: f64,
}

/// The result of a self-test over rates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateSelfTest {
    /// Version of this schema.
    pub schema_version: u32,
    /// One a scenario.
    pub cases: Vec<RateCase>,
}

/// One scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateCase {
    /// What is particular about it.
    pub about: String,
    /// Its true largest rate, requests a second.
    pub requests_per_second: f64,
    /// How the searches did; its capacity is in thousandths of a request a second.
    pub tally: Tally,
}

/// Searches each scenario of [`open_loop::all`]; `progress` sees each case as it is done.
///
/// # Errors
/// When a scenario's SLO cannot be read.
pub fn run(options: RateOptions, progress: &mut dyn FnMut(&RateCase)) -> Result<RateSelfTest, SloError> {
    let mut cases = Vec::new();
    for open in open_loop::all() {
        let capacity = open_loop::capacity(&open, TRUTH_REQUESTS, TRUTH_SEED)?;
        let said = in_parallel(options.searches, |index| {
            search(&open, options.first_seed.wrapping_add(index as u64), options.precision)
        })?;
        let tally = Tally::of(open.name, ADAPTIVE, milli(capacity), &said);
        let case = RateCase { about: open.about.to_owned(), requests_per_second: capacity, tally };
        progress(&case);
        cases.push(case);
    }
    Ok(RateSelfTest { schema_version: VERSION, cases })
}

fn milli(rate: f64) -> u32 {
    (rate * MILLI).round() as u32
}

/// Searches one server once.
fn search(open: &OpenScenario, seed: u64, precision: f64) -> Result<Said, SloError> {
    let slo = Slo::parse(open.scenario.slo.iter().copied())?;
    let (min, max) = open.rates;
    let arrivals = ArrivalsPlan {
        min,
        max,
        process: open.process,
        in_flight_cap: 4096,
        levels: Vec::new(),
        curve: None,
    };
    let trial = TrialPlan { requests: 250, min_seconds: 1.0, max_seconds: 120.0 };
    let strategy = StrategyPlan::Adaptive { precision };
    let mut strategy = search::over_rates(&slo, &arrivals, &strategy, trial, Budget::default(), seed);
    let session = SimSession::new(open.scenario.params, open.scenario.traffic.clone(), seed);
    let mut trials = Trials::new(session, slo, Budget::default(), 1, false)
        .with_open_loop(Some(OpenLoad::of(&arrivals, seed)));
    let (mut count, mut requests) = (0, 0);
    while let Ask::Trial(spec) = strategy.ask() {
        let Ok(finished) = ready(trials.run(&spec, &mut |_| {})) else { break };
        count += 1;
        requests = finished.outcome.issued_total;
        strategy.tell(&finished.outcome);
    }
    let answer = strategy.answer();
    let missed = answer.outcome == SearchOutcome::MissedAtLowest;
    let load = answer.load.map_or(0.0, |load| load.value());
    Ok(Said {
        estimate: if missed { 0 } else { milli(load) },
        low: answer.interval.map_or(0, |interval| milli(interval.low)),
        high: answer.interval.map_or(Some(milli(load)), |interval| interval.high.map(milli)),
        safe: answer.safe_load.map_or(0, |safe| milli(safe.value())),
        trials: count,
        requests,
        seconds: trials.now(),
    })
}

impl fmt::Display for RateSelfTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<10}{:>7}{HEADS}", "scenario", "true/s")?;
        for case in &self.cases {
            writeln!(
                f,
                "{:<10}{:>7.3}{}",
                case.tally.scenario,
                case.requests_per_second,
                case.tally.figures()
            )?;
        }
        Ok(())
    }
}
