//! Simulated servers whose true capacity is known, to hold a search against.
//!
//! The capacities were computed by [`crate::sim::truth::capacity`] from runs of 200,000 requests and
//! more at each level, with the slow noise on: they are those of the percentile over a long run, to
//! about half a percent. To compute them again, in some minutes:
//!
//! ```text
//! cargo test --release --lib sim::truth -- --ignored --nocapture
//! ```

use crate::sim::model::{Dip, Disturbance, KvPolicy, Params, Speculation, StepCost};
use crate::sim::traffic::{Class, Shape, Traffic};

/// A server, its load, its SLO and the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name.
    pub name: &'static str,
    /// What is particular about it.
    pub about: &'static str,
    /// The server.
    pub params: Params,
    /// The load.
    pub traffic: Traffic,
    /// The objectives.
    pub slo: Vec<&'static str>,
    /// Highest load a search may try.
    pub max_load: u32,
    /// The largest load that meets the SLO: 0 where none does, `max_load` where all do.
    pub capacity: u32,
}

/// The scenario of this name.
pub fn find(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}

/// All scenarios.
pub fn all() -> Vec<Scenario> {
    let mut all = tuning();
    all.extend(held_out());
    all.extend(features());
    all.extend(quiet());
    all
}

/// The server that most scenarios are variations of.
const BASE: Params = Params {
    cost: StepCost {
        base: 6e-3,
        per_sequence: 60e-6,
        per_kv_token: 4e-8,
        per_prefill_token: 50e-6,
        pad: 0,
        dip: None,
    },
    noise: Disturbance {
        step: 0.08,
        slow_sd: 0.04,
        slow_time: 30.0,
        stall_rate: 1.0 / 60.0,
        stall_mean: 0.25,
        ..Disturbance::NONE
    },
    max_seqs: 1024,
    max_batched_tokens: 2048,
    kv: KvPolicy::Reserve { tokens: 4_000_000 },
    prefix_hit: 0.0,
    prefix_caching: true,
    speculation: None,
    failures: 0.0,
    early_stop: None,
};

/// Lognormal lengths as all scenarios have them: from 4 tokens to a multiple of the mean.
const fn isl(mean: u32, cv: f64) -> Shape {
    Shape::Lognormal { mean: mean as f64, cv, min: 4, max: 6 * mean }
}

const fn osl(mean: u32, cv: f64) -> Shape {
    Shape::Lognormal { mean: mean as f64, cv, min: 4, max: 5 * mean }
}

/// The usual load: 400 tokens in, 180 out.
fn chat() -> Traffic {
    Traffic::of(isl(400, 0.6), osl(180, 0.6))
}

fn scenario(name: &'static str, about: &'static str, slo: [&'static str; 2], capacity: u32) -> Scenario {
    Scenario { name, about, params: BASE, traffic: chat(), slo: slo.to_vec(), max_load: 1024, capacity }
}

/// Those that the search was developed on.
pub fn tuning() -> Vec<Scenario> {
    let cost = BASE.cost;
    let noise = BASE.noise;
    vec![
        scenario("decode", "step time binds, smoothly", ["ttft p95 < 1s", "tpot p95 < 30ms"], 109),
        Scenario {
            params: Params { max_seqs: 96, ..BASE },
            ..scenario(
                "seqcliff",
                "the queue begins at 96 running",
                ["ttft p95 < 500ms", "tpot p95 < 60ms"],
                102,
            )
        },
        Scenario {
            params: Params { kv: KvPolicy::Reserve { tokens: 60_000 }, ..BASE },
            ..scenario("kvcliff", "the KV cache is full", ["ttft p95 < 500ms", "tpot p95 < 60ms"], 94)
        },
        Scenario {
            traffic: Traffic::of(isl(3000, 0.6), osl(80, 0.6)),
            ..scenario("prefill", "prompts queue for prefill", ["ttft p95 < 1.5s", "tpot p95 < 200ms"], 46)
        },
        scenario("twometric", "both objectives bind at once", ["ttft p95 < 91.5ms", "tpot p95 < 30ms"], 108),
        Scenario {
            params: Params {
                cost: StepCost { per_sequence: 8e-6, per_kv_token: 1e-8, per_prefill_token: 12e-6, ..cost },
                max_batched_tokens: 8192,
                ..BASE
            },
            max_load: 10_000,
            ..scenario("big", "a large server, a wide range", ["ttft p95 < 1s", "tpot p95 < 30ms"], 540)
        },
        Scenario {
            params: Params { cost: StepCost { pad: 32, ..cost }, ..BASE },
            ..scenario("pad32", "step time rises in stairs of 32", ["ttft p95 < 1s", "tpot p95 < 30ms"], 100)
        },
        Scenario {
            params: Params { noise: Disturbance { cold_extra: 1.0, cold_time: 20.0, ..noise }, ..BASE },
            ..scenario("coldstart", "twice as slow at first", ["ttft p95 < 1s", "tpot p95 < 30ms"], 109)
        },
        Scenario {
            params: Params {
                cost: StepCost { dip: Some(Dip { low: 15, high: 20, factor: 1.7 }), ..cost },
                ..BASE
            },
            ..scenario(
                "dip",
                "fails at 15 to 20, holds again up to 45",
                ["ttft p95 < 1s", "tpot p95 < 16.5ms"],
                45,
            )
        },
        Scenario {
            params: Params { cost: StepCost { base: 9e-3, per_kv_token: 2e-7, ..cost }, ..BASE },
            traffic: Traffic::of(isl(1500, 0.6), osl(250, 0.6)),
            ..scenario("smallN", "a handful of users", ["ttft p95 < 500ms", "tpot p95 < 13.5ms"], 4)
        },
        scenario("infeasible", "missed by one user alone", ["ttft p95 < 1s", "tpot p95 < 5.5ms"], 0),
        Scenario {
            max_load: 256,
            ..scenario("never", "met at every load allowed", ["ttft p95 < 2s", "tpot p95 < 200ms"], 256)
        },
        Scenario {
            params: Params { noise: Disturbance { slow_time: 120.0, ..noise }, ..BASE },
            ..scenario("decodeOU120", "very slow noise", ["ttft p95 < 1s", "tpot p95 < 30ms"], 108)
        },
        Scenario {
            params: Params {
                noise: Disturbance { stall_rate: 1.0 / 15.0, stall_mean: 0.5, ..noise },
                ..BASE
            },
            ..scenario(
                "stally",
                "a stall of half a second every 15 s",
                ["ttft p95 < 1s", "tpot p95 < 30ms"],
                96,
            )
        },
    ]
}

/// Those that the search was not developed on.
pub fn held_out() -> Vec<Scenario> {
    let noise = BASE.noise;
    vec![
        Scenario {
            traffic: Traffic::of(isl(400, 0.6), osl(400, 1.5)),
            ..scenario("H1", "long outputs with a heavy tail", ["ttft p95 < 1s", "tpot p95 < 16.2ms"], 57)
        },
        Scenario {
            params: Params { max_batched_tokens: 512, ..BASE },
            traffic: Traffic::of(isl(1500, 0.6), osl(100, 0.6)),
            ..scenario("H2", "prompts cut into pieces of 512", ["ttft p95 < 1s", "tpot p95 < 200ms"], 32)
        },
        Scenario {
            params: Params { kv: KvPolicy::Reserve { tokens: 142_000 }, ..BASE },
            traffic: Traffic::of(isl(2500, 0.6), osl(250, 0.6)),
            ..scenario("H3", "long prompts fill the KV cache", ["ttft p95 < 3s", "tpot p95 < 200ms"], 55)
        },
        Scenario {
            params: Params { noise: Disturbance { slow_sd: 0.06, ..noise }, ..BASE },
            ..scenario("H4", "more slow noise", ["ttft p95 < 2s", "tpot p95 < 39ms"], 148)
        },
        Scenario {
            params: Params {
                cost: StepCost {
                    per_sequence: 8e-6,
                    per_kv_token: 1e-8,
                    per_prefill_token: 12e-6,
                    ..BASE.cost
                },
                max_seqs: 256,
                max_batched_tokens: 8192,
                ..BASE
            },
            ..scenario("H5", "the queue begins at 256 running", ["ttft p95 < 260ms", "tpot p95 < 60ms"], 272)
        },
    ]
}

/// What real engines do beyond the plain model.
pub fn features() -> Vec<Scenario> {
    let speculation = Speculation { draft: 3, acceptance: 0.7 };
    let short = Class { weight: 0.8, isl: isl(200, 0.4), osl: osl(150, 0.4) };
    let long = Class { weight: 0.2, isl: isl(2500, 0.3), osl: osl(350, 0.4) };
    vec![
        Scenario {
            params: Params { kv: KvPolicy::Paged { blocks: 3750 }, ..BASE },
            ..scenario(
                "preempt",
                "sequences preempt each other",
                ["ttft p95 < 500ms", "tpot p95 < 60ms"],
                112,
            )
        },
        Scenario {
            params: Params { prefix_hit: 0.7, kv: KvPolicy::Paged { blocks: 250_000 }, ..BASE },
            traffic: Traffic::of(isl(3000, 0.6), osl(80, 0.6)),
            ..scenario(
                "prefix",
                "70 % of each prompt is cached",
                ["ttft p95 < 800ms", "tpot p95 < 200ms"],
                147,
            )
        },
        Scenario {
            params: Params { speculation: Some(speculation), ..BASE },
            ..scenario("speculative", "2.5 tokens a step", ["ttft p95 < 1s", "tpot p95 < 20ms"], 72)
        },
        Scenario {
            params: Params { failures: 0.02, ..BASE },
            ..scenario("errors", "2 % of the requests fail", ["ttft p95 < 200ms", "tpot p95 < 30ms"], 106)
        },
        Scenario {
            traffic: Traffic::mix([short, long]),
            ..scenario(
                "bimodal",
                "short chats and long documents",
                ["ttft p95 < 500ms", "tpot p95 < 40ms"],
                99,
            )
        },
    ]
}

/// Twins of scenarios on a server that has the machine to itself: slow noise of 1 % that fades in
/// 10 s, no stalls.
pub fn quiet() -> Vec<Scenario> {
    let twins = [
        ("decode", "decode-quiet", 113),
        ("seqcliff", "seqcliff-quiet", 102),
        ("kvcliff", "kvcliff-quiet", 94),
        ("prefill", "prefill-quiet", 46),
        ("pad32", "pad32-quiet", 106),
        ("smallN", "smallN-quiet", 4),
        ("twometric", "twometric-quiet", 112),
    ];
    let mut quiet = Vec::new();
    for scenario in tuning() {
        for &(loud, name, capacity) in &twins {
            if scenario.name == loud {
                let noise =
                    Disturbance { slow_sd: 0.01, slow_time: 10.0, stall_rate: 0.0, ..scenario.params.noise };
                let params = Params { noise, ..scenario.params };
                quiet.push(Scenario { name, params, capacity, ..scenario.clone() });
            }
        }
    }
    quiet
}
