//! What a plan says of traffic that is more than two distributions of lengths.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lengths, TokenizerPlan, WorkloadPlan};

/// One kind of request of a mixture: its prompt and output lengths are drawn together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// How many of the requests are of this kind, relative to the other classes.
    pub weight: f64,
    /// Prompt lengths, tokens.
    pub isl: Lengths,
    /// Output lengths, tokens.
    pub osl: Lengths,
}

/// A part of a mixture of lengths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartPlan {
    /// How many of the draws are of this part, relative to the other parts.
    pub weight: f64,
    /// Its lengths.
    pub lengths: Lengths,
}

/// A file whose entries are the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourcePlan {
    /// Path of the file.
    pub path: String,
    /// What it holds.
    pub format: DatasetFormat,
    /// Whether one malformed entry is reason to refuse the file.
    #[serde(default)]
    pub strict: bool,
    /// Output lengths of entries that tell none.
    pub osl: Lengths,
    /// Whether an entry is a whole conversation, turn by turn, and not one request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conversations: bool,
    /// The entries that are taken, in the file's order; without it all of them, shuffled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowPlan>,
}

/// A part of a trace, seconds from its first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowPlan {
    /// Where it begins.
    pub from: f64,
    /// Where it ends; the trace's end where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
}

/// What a file of requests holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DatasetFormat {
    /// A JSON array of conversations: the first question is the prompt, its answer gives the output
    /// length.
    Sharegpt,
    /// JSON lines with `messages` or `prompt`.
    Openai,
    /// CSV or JSON lines with prompt and output lengths, and timestamps where there are some.
    Lengths,
    /// Mooncake's trace: JSON lines with timestamps, lengths and prefix blocks.
    Mooncake,
    /// Azure's LLM inference trace: CSV with timestamps and lengths.
    Azure,
    /// BurstGPT: CSV with timestamps and lengths.
    Burstgpt,
}

/// Prefixes that synthetic prompts share. Their tokens come before those of `isl`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefixPlan {
    /// Tokens that all prompts begin with.
    #[serde(default)]
    pub shared_tokens: u32,
    /// Prefixes of which each prompt has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolPlan>,
}

/// A pool of prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolPlan {
    /// Prefixes in the pool.
    pub count: u32,
    /// Tokens of each.
    pub tokens: u32,
    /// Share of the prompts that take theirs from the pool; the others have one of their own.
    pub hit_rate: f64,
}

/// Conversations: each user sends several turns, each with all that was said before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionPlan {
    /// Turns of a conversation; the file's own where `as_recorded` is true.
    pub turns: Lengths,
    /// Whether each conversation of the file is replayed to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_recorded: bool,
    /// Tokens of prompt and answer together that a conversation may reach; it ends before a turn that
    /// would exceed it. The server's own limit where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context: Option<u32>,
}

impl SessionPlan {
    /// The turns in words: `5`, `uniform(2..8)`, `as recorded`.
    pub fn in_words(&self) -> String {
        if self.as_recorded { "as recorded".to_owned() } else { self.turns.to_string() }
    }
}

/// A distribution of times, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Times {
    /// Always the same.
    Fixed {
        /// Seconds.
        seconds: f64,
    },
    /// Exponential: it tells nothing how long it has lasted already.
    Exponential {
        /// Mean, seconds.
        mean: f64,
    },
    /// Lognormal.
    Lognormal {
        /// Arithmetic mean, seconds.
        mean: f64,
        /// Coefficient of variation.
        cv: f64,
    },
    /// Normal, truncated at 0: what lies below is drawn again.
    Normal {
        /// Mean before the truncation, seconds.
        mean: f64,
        /// Standard deviation before the truncation, seconds.
        sd: f64,
    },
    /// Every time of the range alike.
    Uniform {
        /// Shortest, seconds.
        min: f64,
        /// Longest, seconds.
        max: f64,
    },
}

impl PrefixPlan {
    /// Tokens that they add to each prompt.
    pub fn tokens(&self) -> u32 {
        self.shared_tokens.saturating_add(self.pool.map_or(0, |pool| pool.tokens))
    }

    /// Tokens of a prompt that others share, on average.
    pub fn shared_mean(&self) -> f64 {
        let pooled = self.pool.map_or(0.0, |pool| f64::from(pool.tokens) * pool.hit_rate);
        f64::from(self.shared_tokens) + pooled
    }
}

impl WorkloadPlan {
    /// Synthetic prompts of these lengths, each of them unique.
    pub fn of(isl: Lengths, osl: Lengths) -> Self {
        Self {
            isl,
            osl,
            tokenizer: TokenizerPlan::Auto,
            classes: Vec::new(),
            source: None,
            prefixes: PrefixPlan::default(),
            sessions: None,
            think: None,
        }
    }

    /// Whether users pause or hold conversations, so that a user is not always a request in flight.
    pub fn has_users(&self) -> bool {
        self.think.is_some() || self.sessions.is_some()
    }

    /// Mean turns of a conversation; 1 without.
    pub fn mean_turns(&self) -> f64 {
        self.sessions.as_ref().map_or(1.0, |sessions| sessions.turns.mean())
    }

    /// Mean pause after an answer, seconds.
    pub fn mean_think(&self) -> f64 {
        self.think.map_or(0.0, |think| think.mean())
    }

    /// The longest prompt there can be, with its prefixes, and the longest output, tokens; of conversations
    /// those of the first turn.
    pub fn longest(&self) -> (u32, u32) {
        (self.isl.longest().saturating_add(self.prefixes.tokens()), self.osl.longest())
    }
}
