//! Fabricated plans, trials and records for tests: a server that carries 42 requests in flight
//! under `ttft p95 < 500 ms`.

use std::collections::BTreeMap;

use crate::loadgen::{Failure, Outcome, Phase, RequestRecord};
use crate::metrics::{Counts, Distribution, Summary};
use crate::plan::{
    Api, Budget, EndpointPlan, Lengths, LoadRange, PLAN_VERSION, Plan, StrategyPlan, TargetPlan,
    TelemetryPlan, TrialPlan, WorkloadPlan,
};
use crate::search::{
    Answer, Boundary, Goodput, Resolution, SearchOutcome, Settle, StopRule, TrialKind, TrialOutcome,
    TrialSpec,
};
use crate::slo::{Metric, Objective, Op, RequestLimit, Slo, Stat, Turns};
use crate::units::{Interval, Load};
use crate::verdict::{Checks, Reading, Verdict, VoidReason, judge};

/// `ttft p95 < 500 ms` and `itl p95 < 50 ms`.
pub(crate) fn slo() -> Slo {
    let p95 = |metric, threshold| Objective {
        metric,
        turns: Turns::All,
        stat: Stat::Percentile(95.0),
        op: Op::Less,
        threshold,
        window: None,
    };
    let limit = |metric, threshold, allowed_gaps| RequestLimit {
        metric,
        turns: Turns::All,
        op: Op::Less,
        threshold,
        allowed_gaps,
    };
    Slo {
        objectives: vec![p95(Metric::Ttft, 0.5), p95(Metric::Itl, 0.05)],
        limits: vec![limit(Metric::Ttft, 0.5, 0.0), limit(Metric::Itl, 0.05, 0.05)],
    }
}

/// A search for the concurrency of a local endpoint, from 1 to 1024.
pub(crate) fn plan() -> Plan {
    Plan {
        plan_version: PLAN_VERSION,
        name: "chat".to_owned(),
        seed: 7,
        slo: slo(),
        target: TargetPlan::Endpoint(EndpointPlan {
            url: "http://127.0.0.1:8000".to_owned(),
            api: Api::Chat,
            model: Some("tiny".to_owned()),
            streaming: true,
            engine: None,
            api_key_env: Some("API_KEY".to_owned()),
            headers: BTreeMap::new(),
            ca_file: None,
            timeout_seconds: 120.0,
            extra_body: BTreeMap::new(),
        }),
        load: LoadRange { min: 1, max: 1024 },
        arrivals: None,
        ramp: None,
        strategy: StrategyPlan::Adaptive { precision: 0.1 },
        workload: WorkloadPlan::of(
            Lengths::Fixed { tokens: 512 },
            Lengths::Lognormal { mean: 128.0, cv: 0.5, min: 8, max: 512 },
        ),
        trial: TrialPlan { requests: 200, min_seconds: 5.0, max_seconds: 60.0 },
        budget: Budget { seconds: Some(600.0), requests: None },
        engine: None,
        telemetry: TelemetryPlan::default(),
        repeats: 1,
    }
}

/// TTFT p95 of the fabricated server, seconds: flat, then a steep rise through 500 ms at 42.5.
fn ttft_p95(load: f64) -> f64 {
    0.12 + 0.002 * load + 0.295 * (load / 42.5).powi(6)
}

/// ITL p95, seconds: rises gently, 39 ms at 42 in flight.
fn itl_p95(load: f64) -> f64 {
    0.014 + 0.0006 * load
}

fn distribution(n: u64, p95: f64) -> Distribution {
    let around = |value: f64, spread: f64| {
        Some(Interval { low: value * (1.0 - spread), high: Some(value * (1.0 + spread)), confidence: 0.95 })
    };
    Distribution {
        n,
        mean: p95 * 0.68,
        min: p95 * 0.4,
        p50: p95 * 0.65,
        p90: p95 * 0.92,
        p95,
        p99: p95 * 1.2,
        p999: (n >= 1000).then_some(p95 * 1.6),
        max: p95 * 1.7,
        p50_interval: around(p95 * 0.65, 0.02),
        p95_interval: around(p95, 0.05),
        p99_interval: around(p95 * 1.2, 0.12),
    }
}

fn reading(of: u32, figure: f64, objective: &Objective, load: u32) -> Reading {
    let margin = objective.margin(figure);
    Reading {
        over: (f64::from(of) * 0.05 * (3.0 * margin).exp()).round().min(f64::from(of)) as u32,
        of,
        figure: Some(figure),
        margin,
        variance: 0.002,
        log_load: f64::from(load).ln(),
        profile: (0..20).map(|k| (margin - 0.5 + 0.05 * f64::from(k)) as f32).collect(),
        blocks: Vec::new(),
        windows: None,
    }
}

/// A trial of the fabricated server.
pub(crate) fn outcome(id: u32, load: u32, kind: TrialKind) -> TrialOutcome {
    let plan = plan();
    let requests = if kind == TrialKind::Navigate { 24 } else { 200 };
    let n = f64::from(load);
    let (ttft, itl) = (ttft_p95(n), itl_p95(n));
    let e2e = ttft * 0.68 + 127.0 * itl * 0.68;
    let rate = n / e2e;
    let readings = vec![
        reading(requests, ttft, &plan.slo.objectives[0], load),
        reading(requests * 127, itl, &plan.slo.objectives[1], load),
    ];
    let attainment = 1.0 - f64::from(readings[0].over) / f64::from(requests);
    let began = 10.0 * f64::from(id - 1);
    let spec = TrialSpec {
        load: Load::Concurrency(load),
        kind,
        retreat: false,
        settle: Settle { completions_per_user: 1.0, truncate: true },
        rule: StopRule::Fixed { requests, min_seconds: 5.0, max_seconds: 60.0 },
    };
    let mut metrics = BTreeMap::new();
    metrics.insert("ttft".to_owned(), distribution(requests.into(), ttft));
    metrics.insert("itl".to_owned(), distribution(u64::from(requests) * 127, itl));
    metrics.insert("e2e".to_owned(), distribution(requests.into(), e2e * 1.3));
    metrics.insert("osl".to_owned(), distribution(requests.into(), 188.0));
    TrialOutcome {
        id,
        verdict: judge(&plan.slo, &readings),
        spec,
        readings,
        began,
        settled: began + 2.0,
        ended: began + 9.5,
        counts: Counts {
            issued: requests + load,
            completed: requests + load - 1,
            failed: 1,
            censored: 0,
            cancelled: 0,
        },
        issued_total: u64::from(id) * u64::from(requests + load),
        completion_rate: rate,
        mean_ttft: Some(ttft * 0.68),
        mean_e2e: Some(e2e),
        token_time: None,
        cold_start: None,
        slices: Vec::new(),
        good_rate: 1.0,
        arrivals: None,
        summary: Summary {
            requests,
            window: 7.5,
            metrics,
            requests_per_second: rate,
            input_tokens_per_second: rate * 512.0,
            output_tokens_per_second: rate * 128.0,
            goodput: rate * attainment,
            attainment,
            error_rate: 1.0 / f64::from(requests),
            errors: BTreeMap::from([(Failure::Reset, 1)]),
            little_concurrency: n * 0.99,
            tokens_per_chunk: 1.0,
            sessions: None,
        },
        server: None,
        host: None,
        gpu: None,
        checks: Checks::default(),
        client: None,
    }
}

/// A trial whose streams came in one burst.
pub(crate) fn void(id: u32, load: u32) -> TrialOutcome {
    let mut outcome = outcome(id, load, TrialKind::Measure);
    outcome.verdict = Verdict::Void(VoidReason::BufferedStream { share: 0.9 });
    outcome
}

/// The trials of a whole search that finds 42.
pub(crate) fn trials() -> Vec<TrialOutcome> {
    let mut outcomes = vec![outcome(1, 1, TrialKind::Warmup)];
    for load in [1, 4, 16, 64] {
        outcomes.push(outcome(outcomes.len() as u32 + 1, load, TrialKind::Navigate));
    }
    outcomes.push(void(6, 32));
    for load in [32, 48, 40, 44, 42, 43, 41] {
        outcomes.push(outcome(outcomes.len() as u32 + 1, load, TrialKind::Measure));
    }
    outcomes.push(outcome(outcomes.len() as u32 + 1, 40, TrialKind::Confirm));
    outcomes
}

/// The answer of that search.
pub(crate) fn answer() -> Answer {
    let at = Load::Concurrency;
    Answer {
        outcome: SearchOutcome::Found,
        load: Some(at(42)),
        interval: Some(Interval { low: 40.0, high: Some(44.0), confidence: 0.95 }),
        safe_load: Some(at(40)),
        largest_met: Some(at(42)),
        smallest_missed: Some(at(43)),
        boundary: Some(Boundary::Smooth),
        binding_objective: Some("ttft p95 < 500 ms".to_owned()),
        binding_probability: Some(0.98),
        goodput: Some(Goodput {
            requests_per_second: 10.4,
            interval: Some(Interval { low: 10.1, high: Some(10.8), confidence: 0.95 }),
        }),
        resolution: Some(Resolution {
            width: 0.095,
            measured_seconds: 70.0,
            floor: Some(0.061),
            slow_noise: Some(0.021),
            slow_noise_seconds: Some(10.0),
        }),
        notes: vec!["the server drifted by 1.2 % during the search; the interval allows for it".to_owned()],
    }
}

/// A request of a trial.
pub(crate) fn record(id: u64, trial: u32) -> RequestRecord {
    let sent = 1.0 + id as f64 * 0.1 + 1.0 / 3.0;
    let gaps_us: Vec<u32> = (0..16).map(|k| 15_000 + 37 * ((id as u32 + k) % 100)).collect();
    let first = sent + 0.123_456_789;
    let last = first + gaps_us.iter().map(|&gap| f64::from(gap) * 1e-6).sum::<f64>();
    RequestRecord {
        id,
        trial,
        phase: if id.is_multiple_of(5) { Phase::Transient } else { Phase::Measured },
        scheduled: None,
        held: None,
        sent,
        first: Some(first),
        last: Some(last),
        ended: last + 1e-5,
        gaps_us,
        chunk_tokens: Vec::new(),
        isl: 512,
        isl_server: Some(527),
        osl: 17,
        osl_server: Some(17),
        outcome: Outcome::Completed { finish: Some("length".to_owned()) },
        resends: 0,
        queued: None,
        session: None,
        turn: None,
        context_full: false,
    }
}
