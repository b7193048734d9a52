//! A plan: everything a run will do, resolved and checked, with every default explicit.
//!
//! A recipe and the command line are resolved into a plan once; the controller reads nothing else,
//! and `plan.toml` in the run folder is the plan as it was used (secrets are named, never written).

mod command;
mod engine;
mod secret;
mod traffic;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::slo::Slo;
use crate::stats::sequential::GateTest;
use crate::workload::{ArrivalProcess, RateCurve, UserRamp};

pub use command::{Launching, TemplateError, shown};
pub use engine::{Argument, EnginePlan, Reset, When};
pub use secret::{hide_in_arguments, hide_in_words, names_a_secret};
pub use traffic::{
    ClassPlan, DatasetFormat, PartPlan, PoolPlan, PrefixPlan, SessionPlan, SourcePlan, Times, WindowPlan,
};

/// Version of the plan's schema.
pub const PLAN_VERSION: u32 = 1;

/// What a run will do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this schema.
    pub plan_version: u32,
    /// Name of the recipe, used for the run folder.
    pub name: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// The objectives.
    pub slo: Slo,
    /// The server.
    pub target: TargetPlan,
    /// The loads that may be tried.
    pub load: LoadRange,
    /// Open loop: the rates that may be tried instead, and how requests arrive. The load's highest
    /// level is the cap on requests in flight then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalsPlan>,
    /// Closed loop: how the number of users moves within a measurement, where it does. The load's highest
    /// level is the most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp: Option<UserRamp>,
    /// How to search.
    pub strategy: StrategyPlan,
    /// What is sent.
    pub workload: WorkloadPlan,
    /// Size of the trials.
    pub trial: TrialPlan,
    /// What the search may cost.
    pub budget: Budget,
    /// The engine that is launched for the run; its place is the target's URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EnginePlan>,
    /// What is looked at beside the requests.
    #[serde(default)]
    pub telemetry: TelemetryPlan,
    /// Whole searches, each with a seed of its own, that are put together to one answer.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeats: u32,
}

fn once() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde asks for it.
fn is_once(repeats: &u32) -> bool {
    *repeats == once()
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde asks for it.
fn is_cold(warm: &bool) -> bool {
    !*warm
}

impl Plan {
    /// The plan of each of the plan's searches: the same, with seeds that count up from the plan's.
    pub fn each_search(&self) -> impl Iterator<Item = Plan> {
        // A seed is written as a TOML integer, which has a sign.
        let seed = |index: u32| self.seed.wrapping_add(u64::from(index)) & (u64::MAX >> 1);
        (0..self.repeats).map(move |index| Plan { seed: seed(index), repeats: 1, ..self.clone() })
    }
}

/// What is looked at beside the requests. The server's metrics and this machine always are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryPlan {
    /// Whether the GPUs of this machine are read.
    pub gpu: GpuChoice,
    /// URL of a DCGM exporter that tells of the server's GPUs instead.
    pub dcgm: Option<String>,
}

/// Whether the GPUs of this machine are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuChoice {
    /// Where the endpoint is on this machine and a driver is there.
    #[default]
    Auto,
    /// Always; a run without them is refused.
    Required,
    /// Never.
    Off,
}

/// The server under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum TargetPlan {
    /// A live endpoint.
    Endpoint(EndpointPlan),
    /// The embedded engine, started for the run.
    Simulated(SimulatedPlan),
}

/// A live endpoint that speaks the OpenAI API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointPlan {
    /// Base URL, with or without `/v1`: `http://127.0.0.1:8000`.
    pub url: String,
    /// Which call is measured.
    pub api: Api,
    /// The model; found by `GET /v1/models` where absent.
    pub model: Option<String>,
    /// Whether the response is streamed.
    pub streaming: bool,
    /// The engine, where it should not be found out.
    pub engine: Option<Engine>,
    /// Environment variable that holds the API key.
    pub api_key_env: Option<String>,
    /// Further headers.
    pub headers: BTreeMap<String, String>,
    /// PEM file with the certificate authority to trust instead of the built-in ones.
    pub ca_file: Option<String>,
    /// Longest a request may take, seconds.
    pub timeout_seconds: f64,
    /// Fields added to the body of each request.
    pub extra_body: BTreeMap<String, serde_json::Value>,
}

/// Which call is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `POST /v1/chat/completions`
    #[default]
    Chat,
    /// `POST /v1/completions`
    Completions,
}

/// A kind of server, which decides how an exact output length is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// vLLM: `ignore_eos`, `min_tokens`.
    Vllm,
    /// SGLang: `ignore_eos`.
    Sglang,
    /// llama.cpp's server: `ignore_eos`; drops kept-alive connections.
    LlamaServer,
    /// TensorRT-LLM's server: `ignore_eos`, `min_tokens`.
    TensorrtLlm,
    /// The embedded simulated engine.
    Simulated,
    /// Anything else that speaks the OpenAI API: only `max_tokens` is sent.
    Generic,
}

/// The embedded engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulatedPlan {
    /// Name of the preset.
    pub preset: String,
    /// Virtual seconds that pass in a second of the wall clock.
    pub speed: f64,
}

/// The loads that may be tried; nothing outside is ever sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadRange {
    /// Fewest requests in flight.
    pub min: u32,
    /// Most requests in flight.
    pub max: u32,
}

/// Arrivals of an open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrivalsPlan {
    /// Lowest rate that may be tried, requests a second.
    pub min: f64,
    /// Highest rate that may be tried, requests a second.
    pub max: f64,
    /// How arrivals are spaced.
    pub process: ArrivalProcess,
    /// Most requests in flight at once; an arrival beyond waits, and its waiting counts in its
    /// latency.
    pub in_flight_cap: u32,
    /// The rates of a grid, ascending; empty for a search.
    #[serde(default)]
    pub levels: Vec<f64>,
    /// How the rate moves within a trial, where it does; a trial's rate is its mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<CurvePlan>,
}

/// How the rate of arrivals moves within a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum CurvePlan {
    /// Along a curve, from its start in each trial.
    Rates {
        /// The curve.
        curve: RateCurve,
    },
    /// At the timestamps of the workload's file.
    Trace {
        /// How many times faster than they were taken; of a search over it, the least that may be tried.
        speed_up: f64,
        /// Of a search over the speed-up: the most that may be tried.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fastest: Option<f64>,
    },
}

impl ArrivalsPlan {
    /// The mean rate of the trace as it was taken, requests a second, where its speed-up is searched.
    pub fn trace_rate(&self) -> Option<f64> {
        match self.curve {
            Some(CurvePlan::Trace { speed_up, fastest: Some(_) }) => Some(self.min / speed_up),
            _ => None,
        }
    }
}

/// How to search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum StrategyPlan {
    /// Cheap navigation, then trials of a fixed size at the boundary and a posterior over it.
    Adaptive {
        /// Relative width of the 95 % interval at which the search may stop.
        precision: f64,
    },
    /// Geometric bracket, isotonic regression, interpolation, probes at the crossing.
    Bisect {
        /// Relative width of the bracket at which the search ends.
        precision: f64,
    },
    /// Given levels, each measured once.
    Grid {
        /// The levels, ascending.
        levels: Vec<u32>,
        /// Whether the server is warm already: nothing is warmed up.
        #[serde(default, skip_serializing_if = "is_cold")]
        warm: bool,
    },
    /// Trials around a baseline's capacity until a sequential test decides whether it is kept.
    Gate {
        /// The test.
        test: GateTest,
    },
    /// One load, held for consecutive windows.
    Soak {
        /// What is held.
        hold: Hold,
    },
}

/// What is held, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Requests in flight.
    pub users: u32,
    /// Consecutive windows.
    pub windows: u32,
    /// Length of each, seconds.
    pub window_seconds: f64,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadPlan {
    /// Prompt lengths, tokens.
    pub isl: Lengths,
    /// Output lengths, tokens.
    pub osl: Lengths,
    /// How prompt tokens are counted.
    pub tokenizer: TokenizerPlan,
    /// Kinds of requests whose lengths are drawn together; `isl` and `osl` are their marginals then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassPlan>,
    /// The file that the requests are taken from; `isl` and `osl` are its lengths then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourcePlan>,
    /// What synthetic prompts share.
    #[serde(default, skip_serializing_if = "no_prefixes")]
    pub prefixes: PrefixPlan,
    /// Conversations of several turns; `isl` is the length of each message of a user then, `osl` that of
    /// each answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionPlan>,
    /// How long a user pauses after each answer; not at all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Times>,
}

fn no_prefixes(prefixes: &PrefixPlan) -> bool {
    *prefixes == PrefixPlan::default()
}

/// A distribution of lengths in tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Lengths {
    /// Always the same.
    Fixed {
        /// Tokens.
        tokens: u32,
    },
    /// Lognormal, cut to `min..=max`.
    Lognormal {
        /// Arithmetic mean before the cut, tokens.
        mean: f64,
        /// Coefficient of variation.
        cv: f64,
        /// Shortest.
        min: u32,
        /// Longest.
        max: u32,
    },
    /// Every length of `min..=max` alike.
    Uniform {
        /// Shortest.
        min: u32,
        /// Longest.
        max: u32,
    },
    /// Normal, truncated to `min..=max`: what lies beyond is drawn again.
    Normal {
        /// Mean before the truncation, tokens.
        mean: f64,
        /// Standard deviation before the truncation, tokens.
        sd: f64,
        /// Shortest.
        min: u32,
        /// Longest.
        max: u32,
    },
    /// One of several distributions.
    Mixture {
        /// The distributions.
        parts: Vec<PartPlan>,
    },
    /// As often as in a file.
    Empirical {
        /// The file that they were taken from.
        file: String,
        /// The lengths, ascending; empty before the file is read.
        tokens: Vec<u32>,
        /// How many of the file's lengths are this long or shorter.
        up_to: Vec<u64>,
    },
}

/// How prompt tokens are counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "by", deny_unknown_fields)]
pub enum TokenizerPlan {
    /// The server's `/tokenize` where there is one, else calibrated from its `usage`.
    #[default]
    Auto,
    /// A local Hugging Face `tokenizer.json`.
    File {
        /// Path of the file.
        path: String,
    },
    /// The server's own `/tokenize`.
    Server,
    /// Calibrated from the `prompt_tokens` of the server's `usage`.
    Usage,
}

/// Size of the trials.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialPlan {
    /// Completions to count in a trial of fixed size; at least two for each user are counted.
    pub requests: u32,
    /// Shortest measured window, seconds.
    pub min_seconds: f64,
    /// Longest measured window, seconds.
    pub max_seconds: f64,
}

/// What a search may cost; hard bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Seconds on the run's clock.
    pub seconds: Option<f64>,
    /// Requests issued.
    pub requests: Option<u64>,
}
