//! How often the search is right, on simulated servers whose capacity is known.
//!
//! Thousands of whole searches run in virtual time, through the same trials that measure a live
//! endpoint. For each scenario and method the [`tally::Tally`] gives the error of the answer, the share of
//! intervals that hold the truth, and what a search costs. It is the yardstick of every change to
//! the search.

pub mod tally;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::plan::{Budget, LoadRange};
use crate::search::adaptive::Adaptive;
use crate::search::adaptive::settings::Settings;
use crate::search::{Answer, Ask, SearchOutcome, Strategy, TrialOutcome};
use crate::sim::scenarios::Scenario;
use crate::sim::session::{SimSession, ready};
use crate::slo::{Slo, SloError};
use crate::trial::Trials;

use tally::{Said, Tally};

/// Searches a scenario once with `strategy`; `watch` sees each trial.
///
/// # Errors
/// When the scenario's SLO cannot be read.
pub fn search(
    scenario: &Scenario,
    seed: u64,
    strategy: &mut dyn Strategy,
    mut watch: impl FnMut(&TrialOutcome),
) -> Result<Said, SloError> {
    let slo = Slo::parse(scenario.slo.iter().copied())?;
    let session = SimSession::new(scenario.params, scenario.traffic.clone(), seed);
    let mut trials = Trials::new(session, slo, Budget::default(), 1, false);
    let (mut count, mut requests) = (0, 0);
    while let Ask::Trial(spec) = strategy.ask() {
        let Ok(finished) = ready(trials.run(&spec, &mut |_| {})) else { break };
        count += 1;
        requests = finished.outcome.issued_total;
        watch(&finished.outcome);
        strategy.tell(&finished.outcome);
    }
    Ok(said(&strategy.answer(), count, requests, trials.now()))
}

/// An answer in the tally's terms.
fn said(answer: &Answer, trials: u32, requests: u64, seconds: f64) -> Said {
    let whole = |value: f64| value as u32;
    let missed_at_lowest = answer.outcome == SearchOutcome::MissedAtLowest;
    let estimate = if missed_at_lowest { 0 } else { answer.load.map_or(0, |load| whole(load.value())) };
    let low = answer.interval.map_or(estimate, |interval| whole(interval.low));
    let high = match answer.interval {
        Some(interval) => interval.high.map(whole),
        None => Some(answer.smallest_missed.map_or(estimate, |load| whole(load.value()))),
    };
    Said {
        estimate,
        low: if missed_at_lowest { 0 } else { low },
        high: if missed_at_lowest {
            Some(answer.interval.and_then(|i| i.high).map_or(0, whole))
        } else {
            high
        },
        safe: answer.safe_load.map_or(0, |load| whole(load.value())),
        trials,
        requests,
        seconds,
    }
}

/// Runs `searches` adaptive searches of a scenario on all cores. `tune` may change the settings.
///
/// # Errors
/// When the scenario's SLO cannot be read.
pub fn adaptive(
    scenario: &Scenario,
    method: &str,
    searches: usize,
    first_seed: u64,
    precision: f64,
    tune: &(dyn Fn(&mut Settings) + Sync),
) -> Result<Tally, SloError> {
    let slo = Slo::parse(scenario.slo.iter().copied())?;
    let said = in_parallel(searches, |index| {
        let seed = first_seed + index as u64;
        let range = LoadRange { min: 1, max: scenario.max_load };
        let mut settings = Settings::new(range, precision, seed);
        tune(&mut settings);
        let mut strategy = Adaptive::new(slo.clone(), settings);
        search(scenario, seed, &mut strategy, |_| {})
    })?;
    Ok(Tally::of(scenario.name, method, scenario.capacity, &said))
}

/// Runs `work` for each index on all cores; the results come in the order of the indices.
fn in_parallel(
    count: usize,
    work: impl Fn(usize) -> Result<Said, SloError> + Sync,
) -> Result<Vec<Said>, SloError> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<(usize, Result<Said, SloError>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut own = Vec::new();
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= count {
                            return own;
                        }
                        own.push((index, work(index)));
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, said)| said).collect()
}
