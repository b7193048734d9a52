//! The rules, on made-up trials; on simulated servers see `tests/it/bottleneck.rs`.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::metrics::{Counts, Summary};
use crate::observed::{GaugeFigures, ServerFigures, Spent};
use crate::search::{Settle, StopRule, TrialSpec};
use crate::units::Load;
use crate::verdict::{Checks, Reading};

fn slo() -> Slo {
    Slo::parse([TTFT, ITL]).unwrap()
}

fn reading(figure: f64) -> Reading {
    Reading {
        over: 0,
        of: 100,
        figure: Some(figure),
        margin: 0.0,
        variance: 0.01,
        log_load: 0.0,
        profile: Vec::new(),
        blocks: Vec::new(),
        windows: None,
    }
}

/// A trial at `load` with mean TTFT and the time of a token, seconds.
fn trial(id: u32, load: u32, ttft: f64, token: f64, rate: f64) -> TrialOutcome {
    let rule = StopRule::Fixed { requests: 100, min_seconds: 1.0, max_seconds: 60.0 };
    TrialOutcome {
        id,
        spec: TrialSpec {
            load: Load::Concurrency(load),
            kind: TrialKind::Measure,
            retreat: false,
            settle: Settle { completions_per_user: 1.0, truncate: true },
            rule,
        },
        verdict: if ttft > 0.5 || token > 0.05 { Verdict::Missed } else { Verdict::Met },
        readings: vec![reading(ttft), reading(token)],
        began: 0.0,
        settled: 2.0,
        ended: 102.0 / rate,
        counts: Counts { issued: 100, completed: 100, ..Counts::default() },
        issued_total: 100,
        completion_rate: rate,
        mean_ttft: Some(ttft),
        mean_e2e: Some(ttft + 128.0 * token),
        token_time: None,
        cold_start: None,
        slices: Vec::new(),
        good_rate: rate,
        summary: Summary::default(),
        server: None,
        host: None,
        gpu: None,
        arrivals: None,
        checks: Checks::default(),
        client: None,
    }
}

fn gauge(mean: f64, max: f64) -> Option<GaugeFigures> {
    Some(GaugeFigures { mean, max })
}

fn answer(load: u32, binding: &str) -> Answer {
    Answer {
        load: Some(Load::Concurrency(load)),
        binding_objective: Some(binding.to_owned()),
        ..Answer::bare(SearchOutcome::Found)
    }
}

fn named(answer: &Answer, engine: Engine, trials: &[TrialOutcome]) -> Bottleneck {
    bottleneck(&slo(), Some(engine), answer, trials).unwrap()
}

const TTFT: &str = "ttft p95 < 500 ms";
const ITL: &str = "itl p95 < 50 ms";

/// A server that runs four at most.
fn capped() -> Vec<TrialOutcome> {
    vec![trial(1, 1, 0.02, 0.01, 0.8), trial(2, 4, 0.03, 0.012, 2.5), trial(3, 6, 0.8, 0.012, 2.5)]
}

#[test]
fn a_cap_is_named_with_its_number_and_the_engines_setting() {
    let mut trials = capped();
    trials[2].server = Some(ServerFigures {
        looks: 10,
        running: gauge(4.0, 4.0),
        waiting: gauge(2.0, 2.0),
        waiting_share: Some(1.0),
        pinned: Some(1.0),
        kv_use: gauge(0.1, 0.12),
        preemptions: Some(0.0),
        queue: Some(Spent { seconds: 7.0, count: 10.0 }),
        ..ServerFigures::default()
    });
    let found = named(&answer(4, TTFT), Engine::Vllm, &trials);
    assert_eq!((found.kind, found.confidence), (BottleneckKind::SequenceCap, Confidence::High));
    assert!(found.line().contains("the server runs 4 at most while 2 wait: its own cap"), "{}", found.line());
    assert_eq!(found.try_next, ["a larger `--max-num-seqs`"]);
    assert!(!found.from_curves_alone);
}

#[test]
fn without_the_servers_figures_a_queue_is_named_as_such_and_marked() {
    let found = named(&answer(4, TTFT), Engine::Vllm, &capped());
    assert_eq!(found.kind, BottleneckKind::Queue);
    assert!(found.from_curves_alone && found.line().contains("from the curves alone"));
    assert_eq!(found.try_next.len(), 2);
}

#[test]
fn preemptions_tell_memory_from_a_cap() {
    let mut trials = capped();
    trials[2].server = Some(ServerFigures {
        looks: 10,
        running: gauge(4.0, 4.0),
        waiting: gauge(2.0, 2.0),
        waiting_share: Some(1.0),
        pinned: Some(1.0),
        kv_use: gauge(0.96, 1.0),
        preemptions: Some(5.0),
        ..ServerFigures::default()
    });
    let found = named(&answer(4, TTFT), Engine::Vllm, &trials);
    assert_eq!((found.kind, found.confidence), (BottleneckKind::KvMemory, Confidence::High));
    assert!(found.evidence[1].contains("preemptions"), "{:?}", found.evidence);
}

#[test]
fn time_that_the_server_does_not_know_of_is_lost_between() {
    let mut trials = capped();
    trials[2].server = Some(ServerFigures {
        looks: 10,
        running: gauge(3.0, 5.0),
        waiting: gauge(0.0, 0.0),
        waiting_share: Some(0.0),
        ttft: Some(Spent { seconds: 1.0, count: 20.0 }),
        ..ServerFigures::default()
    });
    let found = named(&answer(4, TTFT), Engine::Vllm, &trials);
    assert_eq!(found.kind, BottleneckKind::Network);
}

#[test]
fn a_longer_step_is_decode_and_prompts_that_fill_the_time_are_prefill() {
    let decode =
        [trial(1, 1, 0.02, 0.01, 0.8), trial(2, 40, 0.06, 0.049, 6.0), trial(3, 48, 0.07, 0.06, 6.2)];
    let found = named(&answer(40, ITL), Engine::Sglang, &decode);
    assert_eq!(found.kind, BottleneckKind::Decode);
    let prefill = [trial(1, 1, 0.25, 0.01, 0.7), trial(2, 8, 0.4, 0.04, 3.8), trial(3, 10, 1.2, 0.045, 3.9)];
    let found = named(&answer(8, TTFT), Engine::Sglang, &prefill);
    assert_eq!(found.kind, BottleneckKind::Prefill);
    assert!(found.try_next[0].contains("--chunked-prefill-size"));
}

#[test]
fn a_client_that_was_too_slow_explains_everything_else() {
    let mut trials = capped();
    trials[2].verdict =
        Verdict::Void(VoidReason::Client { lag: 0.2, limit: None, pressure: 1.0, waiting: 0.0 });
    let found = named(&answer(4, TTFT), Engine::Vllm, &trials);
    assert_eq!(found.kind, BottleneckKind::Client);
    trials.push(trial(4, 6, 0.8, 0.012, 2.5));
    trials.push(trial(5, 8, 1.6, 0.012, 2.5));
    assert_eq!(named(&answer(4, TTFT), Engine::Vllm, &trials).kind, BottleneckKind::Queue);
}

#[test]
fn a_miss_without_load_is_not_blamed_on_load() {
    let trials = [trial(1, 1, 0.9, 0.01, 0.5)];
    let lowest =
        Answer { outcome: SearchOutcome::MissedAtLowest, load: None, largest_met: None, ..answer(1, TTFT) };
    assert_eq!(named(&lowest, Engine::Vllm, &trials).kind, BottleneckKind::Floor);
}

#[test]
fn what_nothing_explains_cannot_be_told() {
    let trials = [trial(1, 40, 0.3, 0.02, 6.0), trial(2, 48, 0.55, 0.3, 6.0)];
    let found = named(&answer(40, ITL), Engine::Generic, &trials);
    assert_eq!((found.kind, found.confidence), (BottleneckKind::Unknown, Confidence::Low));
    assert!(found.evidence[0].contains("no load far below"), "{:?}", found.evidence);
}

#[test]
fn where_no_limit_was_reached_none_is_named() {
    let met = Answer { outcome: SearchOutcome::MetAtHighest, ..answer(4, TTFT) };
    assert_eq!(bottleneck(&slo(), None, &met, &capped()), None);
    let all_met = [trial(1, 1, 0.02, 0.01, 0.8)];
    assert_eq!(bottleneck(&slo(), None, &answer(1, TTFT), &all_met), None);
}
