//! What a simulated server is made of.

use thiserror::Error;

/// Tokens in a block of the paged KV cache (vLLM's default).
pub const BLOCK: u32 = 16;

/// A simulated server. Times are seconds, rates per second, shares 0..1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// How long an engine step takes.
    pub cost: StepCost,
    /// What makes a step take longer or shorter than that.
    pub noise: Disturbance,
    /// Most sequences that run at once; others wait.
    pub max_seqs: u32,
    /// Most tokens that one step computes, prompt chunks and running sequences together.
    pub max_batched_tokens: u32,
    /// The KV cache.
    pub kv: KvPolicy,
    /// Share of each prompt that is found in the prefix cache and needs no prefill.
    pub prefix_hit: f64,
    /// Whether a turn of a conversation finds what was computed for the turn before it, as long as there
    /// is room for that.
    pub prefix_caching: bool,
    /// Speculative decoding, where it is on.
    pub speculation: Option<Speculation>,
    /// Share of requests that the server fails.
    pub failures: f64,
    /// Requests that end before their output length, where the client lets them.
    pub early_stop: Option<EarlyStop>,
}

/// The step time: `base + per_sequence * sequences + per_kv_token * resident KV tokens +
/// per_prefill_token * prompt tokens of the step`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Cost of a step as such: weights read once, launches, scheduling.
    pub base: f64,
    /// Cost of one running sequence.
    pub per_sequence: f64,
    /// Cost of one token resident in the KV cache (attention reads it).
    pub per_kv_token: f64,
    /// Cost of one prompt token computed.
    pub per_prefill_token: f64,
    /// Running sequences are padded up to a multiple of this (captured graphs); 0 or 1: not at all.
    pub pad: u32,
    /// A range of batch sizes that happens to be slow.
    pub dip: Option<Dip>,
}

/// A range of batch sizes for which the engine has no good kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dip {
    /// Smallest slow batch.
    pub low: u32,
    /// Largest slow batch.
    pub high: u32,
    /// What its step time is multiplied by.
    pub factor: f64,
}

/// What disturbs the step time; the factors multiply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disturbance {
    /// Standard deviation of the log of each step's own noise.
    pub step: f64,
    /// Standard deviation of the slow noise (log; Ornstein-Uhlenbeck).
    pub slow_sd: f64,
    /// Correlation time of the slow noise.
    pub slow_time: f64,
    /// Stalls a second of computing.
    pub stall_rate: f64,
    /// Mean length of a stall (exponential).
    pub stall_mean: f64,
    /// How much slower a cold server is at first: 1.0 takes twice as long.
    pub cold_extra: f64,
    /// Time in which the cold start fades to 1/e.
    pub cold_time: f64,
    /// Instant from which the server is another one, seconds, and the factor on its steps from then on;
    /// an infinite instant for never.
    pub swap_at: f64,
    /// See `swap_at`.
    pub swap_factor: f64,
    /// Growth of the step time: 5e-5 is 3 % in ten minutes.
    pub drift: f64,
}

/// How the KV cache is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvPolicy {
    /// A request is admitted when its prompt and whole output fit.
    Reserve {
        /// Size of the cache, tokens.
        tokens: u64,
    },
    /// Blocks of [`BLOCK`] tokens are taken as they fill; when none is left, the youngest sequence
    /// loses its blocks and is computed again later.
    Paged {
        /// Size of the cache, blocks.
        blocks: u64,
    },
}

/// Speculative decoding: a step proposes `draft` tokens and keeps those before the first that the
/// model rejects, and one of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculation {
    /// Tokens proposed a step. Each is computed, at the cost of a prompt token.
    pub draft: u32,
    /// Probability that a proposed token is accepted, given that those before it were.
    pub acceptance: f64,
}

/// Requests that end early, as with an end-of-sequence token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyStop {
    /// Share of the requests.
    pub share: f64,
    /// Share of the asked output that they produce.
    pub fraction: f64,
}

/// A server that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("simulated server: `{field}` is {value}; it must be {must}")]
pub struct ParamsError {
    field: &'static str,
    value: String,
    must: &'static str,
}

impl KvPolicy {
    /// Size of the cache in tokens.
    pub fn tokens(self) -> u64 {
        match self {
            KvPolicy::Reserve { tokens } => tokens,
            KvPolicy::Paged { blocks } => blocks * u64::from(BLOCK),
        }
    }
}

impl Disturbance {
    /// None at all: every step takes exactly its cost.
    pub const NONE: Self = Self {
        step: 0.0,
        slow_sd: 0.0,
        slow_time: 0.0,
        stall_rate: 0.0,
        stall_mean: 0.0,
        cold_extra: 0.0,
        cold_time: 0.0,
        swap_at: f64::INFINITY,
        swap_factor: 1.0,
        drift: 0.0,
    };
}

impl Speculation {
    /// Mean tokens a step: `(1 - p^(k + 1)) / (1 - p)` for `k` proposed tokens accepted with
    /// probability `p` (Leviathan et al., 2023, equation 1).
    pub fn mean_tokens(&self) -> f64 {
        if self.acceptance >= 1.0 {
            return f64::from(self.draft) + 1.0;
        }
        (1.0 - self.acceptance.powi(self.draft as i32 + 1)) / (1.0 - self.acceptance)
    }
}

impl Params {
    /// Checks that the server can run at all.
    ///
    /// # Errors
    /// Names the first field that is out of its range.
    pub fn check(&self) -> Result<(), ParamsError> {
        let positive = |field, value: f64| check(field, value, value > 0.0, "above 0");
        let amount = |field, value: f64| check(field, value, value >= 0.0, "0 or more");
        let share = |field, value: f64| check(field, value, (0.0..=1.0).contains(&value), "from 0 to 1");
        positive("cost.base", self.cost.base)?;
        amount("cost.per_sequence", self.cost.per_sequence)?;
        amount("cost.per_kv_token", self.cost.per_kv_token)?;
        amount("cost.per_prefill_token", self.cost.per_prefill_token)?;
        if let Some(dip) = self.cost.dip {
            positive("cost.dip.factor", dip.factor)?;
        }
        amount("noise.step", self.noise.step)?;
        amount("noise.slow_sd", self.noise.slow_sd)?;
        if self.noise.slow_sd > 0.0 {
            positive("noise.slow_time", self.noise.slow_time)?;
        }
        amount("noise.stall_rate", self.noise.stall_rate)?;
        amount("noise.stall_mean", self.noise.stall_mean)?;
        amount("noise.cold_extra", self.noise.cold_extra)?;
        positive("noise.swap_factor", self.noise.swap_factor)?;
        if self.noise.cold_extra > 0.0 {
            positive("noise.cold_time", self.noise.cold_time)?;
        }
        amount("noise.drift", self.noise.drift)?;
        positive("max_seqs", f64::from(self.max_seqs))?;
        positive("max_batched_tokens", f64::from(self.max_batched_tokens))?;
        positive("kv", self.kv.tokens() as f64)?;
        share("prefix_hit", self.prefix_hit)?;
        if let Some(speculation) = self.speculation {
            share("speculation.acceptance", speculation.acceptance)?;
        }
        share("failures", self.failures)?;
        if let Some(early) = self.early_stop {
            share("early_stop.share", early.share)?;
            share("early_stop.fraction", early.fraction)?;
        }
        Ok(())
    }
}

fn check(field: &'static str, value: f64, holds: bool, must: &'static str) -> Result<(), ParamsError> {
    // A NaN fails every comparison, so it is refused as well.
    if holds && value.is_finite() {
        Ok(())
    } else {
        Err(ParamsError { field, value: value.to_string(), must })
    }
}
