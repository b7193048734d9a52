//! Objectives over windows, ramps of users and traces at a speed-up, in virtual time on servers whose truth
//! is computed beside the search.

use std::sync::Arc;

use plimsoll::loadgen::session::Session;
use plimsoll::plan::{ArrivalsPlan, Budget, CurvePlan, Hold, LoadRange, StrategyPlan, TrialPlan};
use plimsoll::rng::Stream;
use plimsoll::search::adaptive::settings::Settings;
use plimsoll::search::soak::{SoakDecision, SoakFailure, SoakLimits, soaked};
use plimsoll::search::windows::trial_seconds;
use plimsoll::search::{
    Adaptive, Answer, Ask, SearchOutcome, Settle, Soak, StopRule, Strategy, TrialKind, TrialOutcome,
    TrialSpec, over_rates,
};
use plimsoll::sim::presets::SMALL;
use plimsoll::sim::scenarios::{self, Scenario};
use plimsoll::sim::session::{SimSession, ready};
use plimsoll::sim::traffic::{Sampler, Traffic};
use plimsoll::slo::Slo;
use plimsoll::trial::{OpenLoad, Trials};
use plimsoll::units::{Interval, Load};
use plimsoll::workload::{ArrivalProcess, RampShape, RateCurve, UserRamp};

const SEEDS: u64 = 20;

fn server(name: &str) -> Scenario {
    scenarios::find(name).unwrap()
}

fn session(scenario: &Scenario, seed: u64) -> SimSession {
    SimSession::new(scenario.params, scenario.traffic.clone(), seed)
}

fn fixed(load: Load, rule: StopRule) -> TrialSpec {
    let settle = Settle { completions_per_user: 1.5, truncate: false };
    TrialSpec { load, kind: TrialKind::Measure, retreat: false, settle, rule }
}

/// Runs a strategy to its end; gives every outcome.
fn run(strategy: &mut dyn Strategy, trials: &mut Trials<SimSession>) -> (Answer, Vec<TrialOutcome>) {
    let mut outcomes = Vec::new();
    while let Ask::Trial(spec) = strategy.ask() {
        let finished = ready(trials.run(&spec, &mut |_| {})).unwrap();
        strategy.tell(&finished.outcome);
        outcomes.push(finished.outcome);
        assert!(outcomes.len() < 300, "the search does not end");
    }
    (strategy.answer(), outcomes)
}

/// Where a line through the mean margins at these loads crosses the limit.
fn crossing(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0.ln()), mean(|p| p.1));
    let slope = points.iter().map(|p| (p.0.ln() - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0.ln() - x).powi(2)).sum::<f64>();
    (x - y / slope).exp()
}

/// The load at which the log of the worst window's figure is at the limit on average, over many trials as
/// long as those of a search: first roughly, then around there.
fn true_load(scenario: &Scenario, slo: &Slo) -> f64 {
    let seconds = trial_seconds(slo).unwrap();
    let points = |around: f64, factors: [f64; 5], count: u32| -> Vec<(f64, f64)> {
        let point = |(factor, seed): (f64, u64)| {
            let users = (around * factor).round() as u32;
            let mut trials = Trials::new(session(scenario, seed), slo.clone(), Budget::default(), 1, false);
            let spec = fixed(Load::Concurrency(users), StopRule::seconds(seconds));
            let margins =
                (0..count).map(|_| ready(trials.run(&spec, &mut |_| {})).unwrap().outcome.readings[0].margin);
            (f64::from(users), margins.sum::<f64>() / f64::from(count))
        };
        factors.into_iter().zip(7000..).map(point).collect()
    };
    let rough = points(f64::from(scenario.capacity), [0.7, 0.85, 1.0, 1.15, 1.3], 12);
    let near = points(crossing(&rough), [0.92, 0.96, 1.0, 1.04, 1.08], 60);
    assert!(near[0].1 < 0.0 && near[4].1 > 0.0, "the truth is not among the loads: {near:?}");
    crossing(&near)
}

#[test]
fn the_load_of_the_worst_window_is_within_its_interval() {
    for (name, text) in
        [("decode", "tpot p95 < 33ms over 4s worst"), ("prefill", "ttft p90 < 2s over 4s worst")]
    {
        let (scenario, slo) = (server(name), Slo::parse([text]).unwrap());
        let truth = true_load(&scenario, &slo);
        let mut covered = 0;
        let mut said = Vec::new();
        for seed in 0..SEEDS {
            let settings = Settings::new(LoadRange { min: 1, max: scenario.max_load }, 0.2, seed);
            let mut search = Adaptive::new(slo.clone(), settings);
            let mut trials = Trials::new(session(&scenario, seed), slo.clone(), Budget::default(), 1, false);
            let (answer, outcomes) = run(&mut search, &mut trials);
            assert_eq!(answer.outcome, SearchOutcome::Found, "{name} seed {seed}: {answer:?}");
            let counts: Vec<u32> = outcomes
                .iter()
                .filter(|outcome| outcome.spec.kind != TrialKind::Warmup)
                .filter_map(|outcome| outcome.readings.first()?.windows.map(|windows| windows.count))
                .collect();
            assert!(counts.len() >= 5 && counts.iter().all(|&count| count == 5), "{name}: {counts:?}");
            let Interval { low, high, .. } = answer.interval.unwrap();
            // A load is a whole number of users: the one below the crossing.
            let within = low <= truth && truth < high.unwrap() + 1.0;
            covered += u64::from(within);
            said.push((answer.load.unwrap().value(), low, high.unwrap(), outcomes.len()));
        }
        println!("{name}: true {truth:.1}, within {covered} of {SEEDS}: {said:?}");
        assert!(covered * 10 >= SEEDS * 8, "{name}: true {truth:.1}, within {covered} of {SEEDS}: {said:?}");
    }
}

/// The prefill-bound server with the lengths of a trace, the same in each replay.
fn of_trace(name: &str) -> Scenario {
    let mut sampler = Sampler::new(server(name).traffic, 5);
    let lengths: Vec<(u32, u32)> = (0..400).map(|_| sampler.draw()).collect();
    Scenario { traffic: Traffic::listed(lengths), ..server(name) }
}

/// A trace of a minute: quiet, then twenty seconds that are three times as busy, then quiet again.
fn trace() -> Arc<[f64]> {
    let mut stream = Stream::new(3, "trace");
    let mut at = 0.0;
    let mut instants = Vec::new();
    while at < 60.0 {
        instants.push(at);
        at += stream.exponential(if (20.0..40.0).contains(&at) { 3.0 } else { 1.0 });
    }
    instants.into()
}

/// A replay of the trace at a speed-up, on a server of its own.
fn replay(scenario: &Scenario, slo: &Slo, instants: &Arc<[f64]>, factor: f64, seed: u64) -> TrialOutcome {
    let mut trials = Trials::new(session(scenario, seed), slo.clone(), Budget::default(), 1, false)
        .with_open_loop(Some(open(instants)));
    let rule = StopRule::Fixed { requests: u32::MAX, min_seconds: 0.0, max_seconds: 0.0 };
    ready(trials.run(&fixed(Load::SpeedUp(factor), rule), &mut |_| {})).unwrap().outcome
}

fn open(instants: &Arc<[f64]>) -> OpenLoad {
    let open = OpenLoad { process: ArrivalProcess::Poisson, in_flight_cap: u32::MAX, seed: 1, curve: None };
    open.at(Some(instants.clone()))
}

#[test]
fn the_speed_up_that_a_trace_bears_is_within_its_interval() {
    let scenario = of_trace("prefill");
    let slo = Slo::parse(["ttft p90 < 2s"]).unwrap();
    let instants = trace();
    let mean = RateCurve::Instants(instants.clone()).mean();
    // The truth: where the share of requests over the limit, over many replays, is the allowed one.
    let share = |factor: f64| {
        let replays =
            (0..24).map(|seed| replay(&scenario, &slo, &instants, factor, 900 + seed).readings[0].clone());
        let (over, of) = replays.fold((0, 0), |(over, of), r| (over + r.over, of + r.of));
        f64::from(over) / f64::from(of)
    };
    let (mut low, mut high) = (0.5_f64, 20.0_f64);
    for _ in 0..9 {
        let middle = (low * high).sqrt();
        if share(middle) <= 0.1 { low = middle } else { high = middle }
    }
    let truth = (low * high).sqrt();
    let plan = ArrivalsPlan {
        min: 0.5 * mean,
        max: 20.0 * mean,
        process: ArrivalProcess::Poisson,
        in_flight_cap: 4096,
        levels: Vec::new(),
        curve: Some(CurvePlan::Trace { speed_up: 0.5, fastest: Some(20.0) }),
    };
    let trial = TrialPlan { requests: 250, min_seconds: 1.0, max_seconds: 120.0 };
    let mut covered = 0;
    let mut said = Vec::new();
    for seed in 0..SEEDS {
        let strategy = StrategyPlan::Adaptive { precision: 0.2 };
        let mut search = over_rates(&slo, &plan, &strategy, trial, Budget::default(), seed);
        let mut trials = Trials::new(session(&scenario, seed), slo.clone(), Budget::default(), 1, false)
            .with_open_loop(Some(open(&instants)));
        let (answer, outcomes) = run(search.as_mut(), &mut trials);
        let Some(Load::SpeedUp(factor)) = answer.load else { panic!("{answer:?}") };
        for outcome in outcomes.iter().filter(|outcome| outcome.spec.kind != TrialKind::Warmup) {
            assert!((0.5..=20.0).contains(&outcome.spec.load.value()), "{:?}", outcome.spec);
            let arrivals = outcome.arrivals.unwrap();
            // Every trial that counts replays the whole of the trace.
            assert!(arrivals.cut || arrivals.due == instants.len() as u32, "{arrivals:?}");
            assert!(!arrivals.cut || outcome.spec.kind == TrialKind::Navigate);
        }
        let Interval { low, high, .. } = answer.interval.unwrap();
        covered += u64::from((low..=high.unwrap()).contains(&truth));
        said.push((factor, low, high.unwrap(), outcomes.len()));
    }
    println!("true {truth:.2} x, within {covered} of {SEEDS}: {said:?}");
    assert!(covered * 10 >= SEEDS * 8, "true {truth:.2} x, within {covered} of {SEEDS}: {said:?}");
}

#[test]
fn bisection_and_a_grid_search_a_speed_up_too() {
    let (scenario, slo) = (of_trace("prefill-quiet"), Slo::parse(["ttft p90 < 2s"]).unwrap());
    let instants = trace();
    let mean = RateCurve::Instants(instants.clone()).mean();
    let plan = |levels: &[f64]| ArrivalsPlan {
        min: mean,
        max: 16.0 * mean,
        process: ArrivalProcess::Poisson,
        in_flight_cap: 4096,
        levels: levels.iter().map(|factor| factor * mean).collect(),
        curve: Some(CurvePlan::Trace { speed_up: 1.0, fastest: Some(16.0) }),
    };
    let trial = TrialPlan { requests: 250, min_seconds: 1.0, max_seconds: 120.0 };
    let found = |strategy: StrategyPlan, levels: &[f64]| {
        let mut search = over_rates(&slo, &plan(levels), &strategy, trial, Budget::default(), 1);
        let mut trials = Trials::new(session(&scenario, 1), slo.clone(), Budget::default(), 1, false)
            .with_open_loop(Some(open(&instants)));
        run(search.as_mut(), &mut trials)
    };
    let (answer, _) = found(StrategyPlan::Bisect { precision: 0.05 }, &[]);
    let (Some(Load::SpeedUp(met)), Some(Load::SpeedUp(missed))) = (answer.load, answer.smallest_missed)
    else {
        panic!("{answer:?}")
    };
    assert!(met < missed && missed / met < 1.06, "{answer:?}");
    assert!(answer.notes.iter().all(|note| !note.contains("concurrent")), "{:?}", answer.notes);
    let (_, outcomes) = found(StrategyPlan::Grid { levels: Vec::new(), warm: false }, &[1.0, 2.0, 8.0]);
    let tried: Vec<Load> = outcomes.iter().skip(1).map(|outcome| outcome.spec.load).collect();
    assert_eq!(tried.len(), 3, "{tried:?}");
    for (load, factor) in tried.iter().zip([1.0, 2.0, 8.0]) {
        assert!((load.value() / factor - 1.0).abs() < 1e-3, "{tried:?}");
    }
}

#[test]
fn a_ramp_adds_and_retires_users_one_by_one_and_its_slices_tell_the_latency_of_each_level() {
    let scenario = server("prefill-quiet");
    for (from, to) in [(2, 40), (40, 2)] {
        let ramp = UserRamp { from, to, seconds: 120.0, shape: RampShape::Linear };
        let slo = Slo::parse(["ttft p95 < 2s"]).unwrap();
        let mut trials =
            Trials::new(session(&scenario, 4), slo, Budget::default(), 1, true).with_user_ramp(Some(ramp));
        let spec = fixed(
            Load::Concurrency(40),
            StopRule::Fixed { requests: u32::MAX, min_seconds: 0.0, max_seconds: 0.0 },
        );
        let finished = ready(trials.run(&spec, &mut |_| {})).unwrap();
        let outcome = finished.outcome;
        assert!(
            (outcome.ended - outcome.settled - 120.0).abs() < 1.0,
            "{} s",
            outcome.ended - outcome.settled
        );
        let levels: Vec<u32> =
            (0..=120).map(|at| trials.session().levels().at(outcome.settled + f64::from(at))).collect();
        // A user who leaves ends the request first: on the way down the level may lag.
        assert_eq!(levels[0], from);
        assert!(levels.iter().max() == Some(&40), "{levels:?}");
        if to > from {
            assert!(levels.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1), "{levels:?}");
        }
        let slices = outcome.slices;
        assert_eq!(slices.len(), 12);
        let (light, heavy) = if to > from { (&slices[1], &slices[11]) } else { (&slices[11], &slices[0]) };
        assert!(heavy.in_flight > 3.0 * light.in_flight, "{slices:?}");
        assert!(heavy.ttft.unwrap().p50 > light.ttft.unwrap().p50, "{slices:?}");
        // What is sent by the time a level holds is never more than it: no bursts.
        let sent =
            |from: f64, to: f64| finished.records.iter().filter(|r| r.sent >= from && r.sent < to).count();
        let busiest = (0..1200)
            .map(|k| sent(outcome.settled + 0.1 * f64::from(k), outcome.settled + 0.1 * f64::from(k + 1)));
        assert!(busiest.max().unwrap() <= 12, "a burst");
    }
}

#[test]
fn a_cold_server_is_told_from_a_warm_one() {
    let slo = Slo::parse(["ttft p95 < 1s"]).unwrap();
    let warm_up = TrialSpec {
        kind: TrialKind::Warmup,
        rule: StopRule::Warm { window: 4.0, improvement: 0.02, windows: 40 },
        ..fixed(Load::Concurrency(8), StopRule::seconds(1.0))
    };
    let cold_start = |scenario: &Scenario| {
        let mut trials = Trials::new(session(scenario, 2), slo.clone(), Budget::default(), 1, true);
        ready(trials.run(&warm_up, &mut |_| {})).unwrap().outcome.cold_start.unwrap()
    };
    let warm = cold_start(&server("decode"));
    let cold = cold_start(&server("coldstart"));
    assert!(cold.first / cold.steady > warm.first / warm.steady, "{cold:?} {warm:?}");
    assert!(cold.steady < cold.first && cold.of > warm.of / 2, "{cold:?} {warm:?}");
    // It is kept where a run is summarised, and costs nothing where searches are only simulated.
    let mut trials = Trials::new(session(&server("decode"), 2), slo.clone(), Budget::default(), 1, false);
    assert_eq!(ready(trials.run(&warm_up, &mut |_| {})).unwrap().outcome.cold_start, None);
}

#[test]
fn a_soak_fails_on_one_missed_window_and_says_which() {
    let slo = Slo::parse(["tpot p95 < 20ms over 2s worst"]).unwrap();
    let hold = Hold { users: 8, windows: 8, window_seconds: 4.0 };
    let mut soak = Soak::new(slo.clone(), LoadRange { min: 1, max: 64 }, hold);
    let session = SimSession::new(SMALL.params, SMALL.traffic(), 3);
    let mut trials = Trials::new(session, slo.clone(), Budget::default(), 1, true);
    let (_, mut outcomes) = run(&mut soak, &mut trials);
    let judged = |outcomes: &[TrialOutcome]| soaked(&slo, &SoakLimits::default(), outcomes);
    assert_eq!(judged(&outcomes).decision, SoakDecision::Held, "{:?}", judged(&outcomes));
    let start = outcomes.iter().find(|outcome| outcome.spec.kind == TrialKind::Measure).unwrap().settled;
    let sixth = outcomes.iter_mut().filter(|outcome| outcome.spec.kind == TrialKind::Measure).nth(5).unwrap();
    let reading = &mut sixth.readings[0];
    (reading.figure, reading.margin) = (Some(0.03), 0.4);
    reading.windows.as_mut().unwrap().missed = 1;
    let expected = sixth.settled + reading.windows.unwrap().worst_from.unwrap() - start;
    let found = judged(&outcomes);
    let [SoakFailure::Windows { missed: 1, of: 16, worst: 0.03, at, .. }] = found.failures[..] else {
        panic!("{found:?}")
    };
    assert_eq!((at, found.decision), (expected, SoakDecision::Failed));
}
