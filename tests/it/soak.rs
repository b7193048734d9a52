//! A soak: no alarm on a steady server, a server that slows down is found.

use plimsoll::observed::{HostFigures, ServerFigures};
use plimsoll::plan::Budget;
use plimsoll::plan::Hold;
use plimsoll::plan::LoadRange;
use plimsoll::search::soak::*;
use plimsoll::search::{Ask, Strategy, TrialKind, TrialOutcome};
use plimsoll::sim::presets::SMALL;
use plimsoll::sim::session::{SimSession, ready};
use plimsoll::slo::Slo;
use plimsoll::trial::Trials;

fn slo() -> Slo {
    Slo::parse(["ttft p95 < 200ms", "tpot p95 < 20ms"]).unwrap()
}

const HOLD: Hold = Hold { users: 8, windows: 12, window_seconds: 4.0 };

/// A soak of the small preset, each window on a server of its own pace.
fn windows(seed: u64, pace: impl Fn(u32) -> f64) -> Vec<TrialOutcome> {
    let mut soak = Soak::new(slo(), LoadRange { min: 1, max: 64 }, HOLD);
    let mut outcomes: Vec<TrialOutcome> = Vec::new();
    let mut window = 0;
    while let Ask::Trial(mut spec) = soak.ask() {
        let mut params = SMALL.params;
        let slower = pace(window);
        params.cost.base *= slower;
        params.cost.per_sequence *= slower;
        params.cost.per_kv_token *= slower;
        params.cost.per_prefill_token *= slower;
        let session = SimSession::new(params, SMALL.traffic(), seed * 1000 + u64::from(window));
        let mut trials = Trials::new(session, slo(), Budget::default(), window + 1, true);
        spec.settle.completions_per_user = 3.0;
        let mut outcome = ready(trials.run(&spec, &mut |_| {})).unwrap().outcome;
        // On one clock, as the windows of a session are.
        let shift = outcomes.last().map_or(0.0, |last| last.ended);
        outcome.began += shift;
        outcome.settled += shift;
        outcome.ended += shift;
        window += u32::from(spec.kind == TrialKind::Measure);
        soak.tell(&outcome);
        outcomes.push(outcome);
    }
    outcomes
}

/// A soak on one session, whose load never stops.
fn held(seed: u64) -> Vec<TrialOutcome> {
    let mut soak = Soak::new(slo(), LoadRange { min: 1, max: 64 }, HOLD);
    let session = SimSession::new(SMALL.params, SMALL.traffic(), seed);
    let mut trials = Trials::new(session, slo(), Budget::default(), 1, true);
    let mut outcomes = Vec::new();
    while let Ask::Trial(spec) = soak.ask() {
        let outcome = ready(trials.run(&spec, &mut |_| {})).unwrap().outcome;
        soak.tell(&outcome);
        outcomes.push(outcome);
    }
    outcomes
}

#[test]
fn a_steady_server_holds_and_its_windows_follow_each_other_without_a_gap() {
    let mut failed = 0;
    for seed in 1..=20 {
        let outcomes = held(seed);
        let measured: Vec<&TrialOutcome> =
            outcomes.iter().filter(|outcome| outcome.spec.kind == TrialKind::Measure).collect();
        assert_eq!(measured.len(), 12);
        for pair in measured.windows(2) {
            assert!((pair[1].settled - pair[0].ended).abs() < 1e-6, "{} {}", pair[0].ended, pair[1].settled);
            assert!((pair[1].ended - pair[1].settled - 4.0).abs() < 0.1);
        }
        let soaked = soaked(&slo(), &SoakLimits::default(), &outcomes);
        assert_eq!((soaked.windows, soaked.voids), (12, 0));
        failed += usize::from(soaked.decision == SoakDecision::Failed);
    }
    // 1 % of 20 is 0.2; three or more have a chance of 0.1 %.
    assert!(failed <= 2, "{failed} of 20 failed");
}

#[test]
fn a_slow_drift_by_ten_percent_is_found() {
    let mut found = 0;
    for seed in 1..=10 {
        let outcomes = windows(seed, |window| 1.0 + 0.1 * f64::from(window) / 11.0);
        let soaked = soaked(&slo(), &SoakLimits::default(), &outcomes);
        found += usize::from(soaked.failures.iter().any(|failure| {
            matches!(failure, SoakFailure::Drift(trend) if trend.watched == Watched::TimePerOutputToken)
        }));
    }
    assert!(found >= 9, "{found} of 10 were found");
}

#[test]
fn errors_preemptions_memory_and_a_missed_slo_each_fail_with_their_name() {
    let steady = held(3);
    let limits = SoakLimits::default();
    let judged = |change: &dyn Fn(usize, &mut TrialOutcome)| {
        let mut outcomes = steady.clone();
        outcomes.iter_mut().enumerate().for_each(|(index, outcome)| change(index, outcome));
        soaked(&slo(), &limits, &outcomes)
    };
    assert_eq!(judged(&|_, _| {}).decision, SoakDecision::Held);
    let errors = judged(&|_, outcome| outcome.counts.failed = 2);
    assert!(matches!(errors.failures[..], [SoakFailure::Errors { failed: 24, .. }]), "{errors:?}");
    let preempted = judged(&|_, outcome| {
        outcome.server = Some(ServerFigures { preemptions: Some(1.0), ..ServerFigures::default() });
    });
    assert!(
        matches!(preempted.failures[..], [SoakFailure::Preemptions { count: 12.0, .. }]),
        "{preempted:?}"
    );
    let memory = |growth: f64| {
        move |index: usize, outcome: &mut TrialOutcome| {
            let used = Some(4e9 * (1.0 + growth * index as f64));
            outcome.host = Some(HostFigures { memory_used: used, ..HostFigures::default() });
        }
    };
    let creeping = judged(&memory(0.01));
    assert!(
        matches!(&creeping.failures[..], [SoakFailure::Drift(trend)] if trend.watched == Watched::HostMemory),
        "{creeping:?}"
    );
    assert_eq!(judged(&memory(0.001)).decision, SoakDecision::Held, "1 % is within what is allowed");
    let slow = judged(&|index, outcome| {
        if outcome.spec.kind == TrialKind::Measure {
            outcome.readings[0].over = outcome.readings[0].of / 12 + (index % 2) as u32;
        }
    });
    assert!(
        matches!(&slow.failures[..], [SoakFailure::Slo { objective, .. }] if objective.starts_with("ttft")),
        "{slow:?}"
    );
}

#[test]
fn too_few_windows_say_nothing() {
    let outcomes: Vec<TrialOutcome> = held(4).into_iter().take(5).collect();
    let soaked = soaked(&slo(), &SoakLimits::default(), &outcomes);
    assert_eq!((soaked.decision, soaked.windows), (SoakDecision::Undecided, 4));
    assert!(soaked.trends.is_empty());
}
