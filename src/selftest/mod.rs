//! How often the search is right, on simulated servers whose capacity is known.
//!
//! Thousands of whole searches run in virtual time, through the same trials that measure a live
//! endpoint. For each scenario and method the [`tally::Tally`] gives the error of the answer, the share of
//! intervals that hold the truth, and what a search costs. It is the yardstick of every change to
//! the search.
//!
//! ```
//! use plimsoll::selftest::{Options, run};
//! let scenarios = vec!["never".to_owned()];
//! let options = Options { scenarios, searches: 2, ..Options::default() };
//! let result = run(&options, &mut |_| {}).unwrap();
//! assert_eq!(result.scenarios[0].tallies[0].coverage, 1.0);
//! ```

pub mod error;
pub mod fleet;
pub mod gate;
pub mod pairs;
pub mod peers;
pub mod rate;
mod report;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod tune;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use crate::plan::{Budget, LoadRange};
use crate::search::adaptive::Adaptive;
use crate::search::adaptive::settings::Settings;
use crate::search::{Answer, Ask, SearchOutcome, Strategy, TrialOutcome};
use crate::sim::scenarios::{self, Scenario};
use crate::sim::session::{SimSession, ready};
use crate::slo::{Slo, SloError};
use crate::trial::Trials;

pub use error::SelfTestError;
pub use report::{Fewer, Group, MethodSummary, ScenarioResult, SelfTest};
use tally::{Said, Tally};

/// What the tables call the adaptive search.
pub const ADAPTIVE: &str = "adaptive";

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Names of the scenarios; none for all.
    pub scenarios: Vec<String>,
    /// Searches of each scenario.
    pub searches: usize,
    /// Seed of the first search; each further one has the next.
    pub first_seed: u64,
    /// Relative width of the interval at which a search may stop.
    pub precision: f64,
    /// Whether the peers' methods run too.
    pub peers: bool,
    /// Searches of each scenario by each of them.
    pub peer_searches: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scenarios: Vec::new(),
            searches: 200,
            first_seed: 1,
            precision: 0.2,
            peers: false,
            peer_searches: 50,
        }
    }
}

/// How far a self-test has come.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Tallies done, and how many there will be.
    pub done: (usize, usize),
    /// The latest.
    pub tally: &'a Tally,
}

/// Runs the self-test; `progress` sees each tally as it is done.
///
/// # Errors
/// When a scenario is not known.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress<'_>)) -> Result<SelfTest, SelfTestError> {
    let chosen = chosen(&options.scenarios)?;
    let rivals: &[peers::Peer] = if options.peers { &peers::ALL } else { &[] };
    let mut done = (0, chosen.len() * (1 + rivals.len()));
    let mut note = |tally: Tally, tallies: &mut Vec<Tally>| {
        done.0 += 1;
        progress(Progress { done, tally: &tally });
        tallies.push(tally);
    };
    let mut results = Vec::new();
    for (group, scenario) in &chosen {
        let mut tallies = Vec::new();
        let (seed, precision) = (options.first_seed, options.precision);
        note(adaptive(scenario, ADAPTIVE, options.searches, seed, precision, &|_| {})?, &mut tallies);
        for peer in rivals {
            let said = in_parallel(options.peer_searches, |index| {
                peer.search(scenario, options.first_seed.wrapping_add(index as u64))
            })?;
            note(Tally::of(scenario.name, peer.name, scenario.capacity, &said), &mut tallies);
        }
        results.push(ScenarioResult::new(*group, scenario, tallies));
    }
    Ok(SelfTest::new(options, results))
}

/// The scenarios of these names in the order of the list of all; all where no name is given.
fn chosen(names: &[String]) -> Result<Vec<(Group, Scenario)>, SelfTestError> {
    let all: Vec<(Group, Scenario)> = Group::ALL
        .into_iter()
        .flat_map(|group| group.scenarios().into_iter().map(move |scenario| (group, scenario)))
        .collect();
    if let Some(name) = names.iter().find(|name| scenarios::find(name).is_none()) {
        let known = all.iter().map(|(_, scenario)| scenario.name).collect();
        return Err(SelfTestError::UnknownScenario { name: name.clone(), known });
    }
    let wanted = |scenario: &Scenario| names.is_empty() || names.iter().any(|name| name == scenario.name);
    Ok(all.into_iter().filter(|(_, scenario)| wanted(scenario)).collect())
}

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
        let seed = first_seed.wrapping_add(index as u64);
        let range = LoadRange { min: 1, max: scenario.max_load };
        let mut settings = Settings::new(range, precision, seed);
        tune(&mut settings);
        let mut strategy = Adaptive::new(slo.clone(), settings);
        search(scenario, seed, &mut strategy, |_| {})
    })?;
    Ok(Tally::of(scenario.name, method, scenario.capacity, &said))
}

/// Runs `work` for each index on all cores; the results come in the order of the indices.
fn in_parallel<T: Send, E: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<(usize, Result<T, E>)> = std::thread::scope(|scope| {
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
        let joined =
            |worker: ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        workers.into_iter().flat_map(joined).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
