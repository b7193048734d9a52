//! What was seen over the window of one trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A state over a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GaugeFigures {
    /// Mean of the looks.
    pub mean: f64,
    /// Largest of them.
    pub max: f64,
}

/// Time that requests spent in some state, over those that left it in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// Sum over the requests, seconds.
    pub seconds: f64,
    /// Requests.
    pub count: f64,
}

impl Spent {
    /// Mean of a request, seconds; `None` for no requests.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count)
    }
}

/// What the server said of itself over a trial's measured window. A figure is null where the engine
/// does not give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerFigures {
    /// Looks at the metrics within the window.
    pub looks: u32,
    /// Requests being computed.
    pub running: Option<GaugeFigures>,
    /// Requests in the queue.
    pub waiting: Option<GaugeFigures>,
    /// Share of the looks at which requests waited.
    pub waiting_share: Option<f64>,
    /// Of the looks at which requests waited, the share at which as many ran as ever in the window
    /// (within 5 %): near 1 where a cap on running requests holds them back.
    pub pinned: Option<f64>,
    /// Share of the KV cache in use.
    pub kv_use: Option<GaugeFigures>,
    /// Sequences that lost their KV cache.
    pub preemptions: Option<f64>,
    /// Share of the prompt tokens looked up that were in the prefix cache.
    pub prefix_hit_rate: Option<f64>,
    /// Prompt tokens processed.
    pub prompt_tokens: Option<f64>,
    /// Tokens produced.
    pub generation_tokens: Option<f64>,
    /// Time in the queue.
    pub queue: Option<Spent>,
    /// Admission to first token.
    pub prefill: Option<Spent>,
    /// First to last token.
    pub decode: Option<Spent>,
    /// Arrival to first token, as the server sees it.
    pub ttft: Option<Spent>,
    /// Share of the tokens proposed by speculative decoding that were kept.
    pub acceptance: Option<f64>,
    /// Mean tokens a step of speculative decoding, where the server gives that instead.
    pub accepted_length: Option<f64>,
    /// When the server's process started, Unix time.
    pub started: Option<f64>,
    /// Whether the server started anew during the trial (its start time moved or totals went back).
    pub restarted: bool,
}

/// This machine over a trial's measured window. Shares are of all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFigures {
    /// Looks within the window.
    pub looks: u32,
    /// Share of the processors that was busy.
    pub cpu: Option<f64>,
    /// Share that this process took (the embedded engine runs in it too).
    pub cpu_own: Option<f64>,
    /// Share that other processes took: an engine on the same machine, or a disturbance.
    pub cpu_others: Option<f64>,
    /// Memory in use, bytes.
    pub memory_used: Option<f64>,
    /// Memory of the machine, bytes.
    pub memory_total: Option<f64>,
    /// Bytes a second received on all interfaces but loopback.
    pub net_received: Option<f64>,
    /// Bytes a second sent on all interfaces but loopback.
    pub net_sent: Option<f64>,
}

/// GPUs over a trial's measured window: sums over the GPUs for power, energy and memory, means for
/// the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GpuFigures {
    /// Looks within the window.
    pub looks: u32,
    /// GPUs that were read.
    pub gpus: Option<f64>,
    /// Power, watts.
    pub power: Option<GaugeFigures>,
    /// Energy over the window, joules.
    pub energy: Option<f64>,
    /// Memory in use, bytes.
    pub memory_used: Option<GaugeFigures>,
    /// Memory, bytes.
    pub memory_total: Option<f64>,
    /// Clock of the multiprocessors, hertz.
    pub sm_clock: Option<f64>,
    /// Clock of the memory, hertz.
    pub memory_clock: Option<f64>,
    /// Highest temperature, degrees Celsius.
    pub temperature: Option<f64>,
    /// Share of time and multiprocessors with work on them.
    pub sm_activity: Option<f64>,
    /// Share of the memory's bandwidth that was used.
    pub memory_activity: Option<f64>,
    /// Share of time in which any kernel ran (`utilization.gpu`); 1 does not mean that the chip is
    /// busy.
    pub kernel_time: Option<f64>,
    /// Share of GPUs and looks at which clocks were held back.
    pub throttled: Option<f64>,
}

impl GpuFigures {
    /// Joules for each of `tokens` output tokens produced within the window.
    pub fn energy_per_token(&self, tokens: f64) -> Option<f64> {
        self.energy.filter(|_| tokens > 0.0).map(|energy| energy / tokens)
    }
}
