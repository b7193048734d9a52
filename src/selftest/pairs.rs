//! Pairs of runs in virtual time: how often a gate errs, and whether a run judged anew agrees with a
//! fresh search.

use serde::Serialize;

use super::in_parallel;
use crate::analysis::Material;
use crate::loadgen::record::RequestRecord;
use crate::plan::{Budget, LoadRange};
use crate::search::adaptive::Adaptive;
use crate::search::adaptive::settings::Settings;
use crate::search::gate::{Gate, known};
use crate::search::{Ask, Judged, Place, Strategy, TrialOutcome, judge};
use crate::sim::scenarios::Scenario;
use crate::sim::session::{SimSession, ready};
use crate::slo::{Slo, SloError};
use crate::stats::sequential::{GateDecision, GateTest};
use crate::trial::Trials;
use crate::units::Interval;

/// What a gate is tried with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateOptions {
    /// Pairs of a baseline and a gate.
    pub pairs: usize,
    /// Seed of the first.
    pub first_seed: u64,
    /// Relative width at which the baseline's search may stop.
    pub precision: f64,
    /// Share of the capacity that may be lost.
    pub max_loss: f64,
    /// Rates of error that the gate states.
    pub rates: (f64, f64),
    /// Longest the gate may measure, seconds.
    pub budget: f64,
    /// How many times as long every step of the gated server takes.
    pub slower: f64,
}

/// How gates ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateTally {
    /// The scenario.
    pub scenario: String,
    /// How many times as long every step of the gated server took.
    pub slower: f64,
    /// Pairs whose baseline had a capacity to compare with.
    pub pairs: usize,
    /// Gates that passed, failed and did not decide.
    pub passed: usize,
    /// Gates that failed.
    pub failed: usize,
    /// Gates that did not decide.
    pub undecided: usize,
    /// Mean of the present capacity relative to the baseline's.
    pub change: f64,
    /// Mean trials and seconds of a gate.
    pub trials: f64,
    /// Mean seconds of a gate.
    pub seconds: f64,
}

/// Gates a scenario's server, slowed down by `slower`, against baselines of the scenario itself.
///
/// # Errors
/// When the scenario's SLO cannot be read.
pub fn gates(scenario: &Scenario, options: &GateOptions) -> Result<GateTally, SloError> {
    let slo = Slo::parse(scenario.slo.iter().copied())?;
    let range = LoadRange { min: 1, max: scenario.max_load };
    let ends = in_parallel(options.pairs, |index| -> Result<_, SloError> {
        let seed = options.first_seed.wrapping_add(index as u64);
        let mut search = Adaptive::new(slo.clone(), Settings::new(range, options.precision, seed));
        let (outcomes, _) = run(scenario, 1.0, &slo, seed, &mut search, Budget::default(), false);
        let judged = judge(&slo, range, &outcomes);
        let Some(crossing) = judged.crossing.filter(|_| judged.place == Place::Within) else {
            return Ok(None);
        };
        let test = GateTest {
            baseline: known(&crossing),
            max_loss: options.max_loss,
            false_alarms: options.rates.0,
            misses: options.rates.1,
        };
        let budget = Budget { seconds: Some(options.budget), requests: None };
        // Another day: other requests, and the server in another mood.
        let seed = seed.wrapping_add(1_000_003);
        let mut gate = Gate::new(slo.clone(), range, test, budget, seed);
        let (outcomes, _) = run(scenario, options.slower, &slo, seed, &mut gate, budget, false);
        let seconds = outcomes.last().map_or(0.0, |outcome| outcome.ended);
        let change = gate.known().map_or(0.0, |now| now.capacity / test.baseline.capacity - 1.0);
        Ok(Some((gate.decision(), change, outcomes.len(), seconds)))
    })?;
    let ends: Vec<_> = ends.into_iter().flatten().collect();
    let count = |wanted| ends.iter().filter(|(decision, ..)| *decision == wanted).count();
    let n = ends.len().max(1) as f64;
    Ok(GateTally {
        scenario: scenario.name.to_owned(),
        slower: options.slower,
        pairs: ends.len(),
        passed: count(GateDecision::Passed),
        failed: count(GateDecision::Failed),
        undecided: count(GateDecision::Undecided),
        change: ends.iter().map(|end| end.1).sum::<f64>() / n,
        trials: ends.iter().map(|end| end.2 as f64).sum::<f64>() / n,
        seconds: ends.iter().map(|end| end.3).sum::<f64>() / n,
    })
}

/// How runs that were judged anew compare with fresh searches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnewTally {
    /// The scenario, whose SLO is the new one.
    pub scenario: String,
    /// The SLO that the stored runs were searched for.
    pub searched: Vec<String>,
    /// Pairs.
    pub pairs: usize,
    /// Answers of the stored runs that lie within measured loads.
    pub within: usize,
    /// Pairs whose two intervals have a load in common.
    pub agree: usize,
    /// Intervals of the judged runs, and of the fresh searches, that hold the true capacity.
    pub anew_covers: usize,
    /// Intervals of the fresh searches that hold it.
    pub fresh_covers: usize,
    /// Mean difference of the two estimates, relative to the true capacity.
    pub bias: f64,
}

/// Searches a scenario for `searched`, judges the run anew under the scenario's own SLO, and searches
/// afresh for that.
///
/// # Errors
/// When an SLO cannot be read.
pub fn anew(
    scenario: &Scenario,
    searched: &[&str],
    pairs: usize,
    first_seed: u64,
) -> Result<AnewTally, SloError> {
    let wanted = Slo::parse(scenario.slo.iter().copied())?;
    let stored = Slo::parse(searched.iter().copied())?;
    let range = LoadRange { min: 1, max: scenario.max_load };
    let results = in_parallel(pairs, |index| -> Result<_, SloError> {
        let seed = first_seed.wrapping_add(index as u64);
        let mut search = Adaptive::new(stored.clone(), Settings::new(range, 0.2, seed));
        let (outcomes, records) = run(scenario, 1.0, &stored, seed, &mut search, Budget::default(), true);
        let material = Material::new(&outcomes.iter().collect::<Vec<_>>(), records, range);
        let judged = material.answered(&wanted);
        let seed = seed.wrapping_add(1_000_003);
        let mut search = Adaptive::new(wanted.clone(), Settings::new(range, 0.2, seed));
        run(scenario, 1.0, &wanted, seed, &mut search, Budget::default(), false);
        Ok((judged, search.answer()))
    })?;
    let truth = f64::from(scenario.capacity);
    let holds = |interval: Option<Interval>| {
        interval.is_some_and(|i| i.low <= truth && i.high.is_none_or(|high| truth <= high))
    };
    let common = |a: Option<Interval>, b: Option<Interval>| {
        let high = |interval: Interval| interval.high.unwrap_or(f64::INFINITY);
        a.zip(b).is_some_and(|(a, b)| a.low <= high(b) && b.low <= high(a))
    };
    let estimate = |load: Option<crate::units::Load>| load.map_or(0.0, |load| load.value());
    let count = |test: &dyn Fn(&(Judged, crate::search::Answer)) -> bool| {
        results.iter().filter(|result| test(result)).count()
    };
    let differences: f64 =
        results.iter().map(|(anew, fresh)| estimate(anew.answer.load) - estimate(fresh.load)).sum();
    Ok(AnewTally {
        scenario: scenario.name.to_owned(),
        searched: stored.into(),
        pairs: results.len(),
        within: count(&|(anew, _)| anew.place == Place::Within),
        agree: count(&|(anew, fresh)| common(anew.answer.interval, fresh.interval)),
        anew_covers: count(&|(anew, _)| holds(anew.answer.interval)),
        fresh_covers: count(&|(_, fresh)| holds(fresh.interval)),
        bias: differences / (results.len().max(1) as f64 * truth.max(1.0)),
    })
}

/// Runs a strategy on a scenario's server to its end; gives the trials and, if wanted, the requests.
fn run(
    scenario: &Scenario,
    slower: f64,
    slo: &Slo,
    seed: u64,
    strategy: &mut dyn Strategy,
    budget: Budget,
    keep: bool,
) -> (Vec<TrialOutcome>, Vec<RequestRecord>) {
    let mut params = scenario.params;
    params.cost.base *= slower;
    params.cost.per_sequence *= slower;
    params.cost.per_kv_token *= slower;
    params.cost.per_prefill_token *= slower;
    let session = SimSession::new(params, scenario.traffic.clone(), seed);
    let mut trials = Trials::new(session, slo.clone(), budget, 1, false);
    let (mut outcomes, mut records) = (Vec::new(), Vec::new());
    while let Ask::Trial(spec) = strategy.ask() {
        let Ok(mut finished) = ready(trials.run(&spec, &mut |_| {})) else {
            strategy.stop();
            break;
        };
        strategy.tell(&finished.outcome);
        outcomes.push(finished.outcome);
        if keep {
            records.append(&mut finished.records);
        }
    }
    if keep {
        records.append(&mut ready(trials.close()));
    }
    (outcomes, records)
}
