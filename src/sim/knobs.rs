//! The simulated engine's knobs, so that it can be tuned like a real one.
//!
//! A pool of KV blocks is shared by the cache and by what a step computes: large steps and many
//! sequences leave less for the cache, and too large ones do not fit at all, as on a GPU.

use thiserror::Error;

use super::model::{KvPolicy, Params, Speculation, StepCost};
use crate::space::{KnobValue, Setting};

/// The knobs, and what each does.
pub const KNOBS: [(&str, &str); 6] = [
    ("max_num_seqs", "most sequences that run at once"),
    ("max_num_batched_tokens", "most tokens that one step computes"),
    ("num_speculative_tokens", "tokens proposed a step, of which 7 in 10 are right; 0 is off"),
    ("kernels", "`plain`, `long-context` (cheap attention) or `prefill` (cheap prompts)"),
    ("enable_prefix_caching", "whether a turn of a conversation finds what the turn before it left"),
    ("swap_space", "nothing"),
];

/// KV blocks that a token of the largest step, and as many as a sequence, take.
const BLOCKS_PER_STEP_TOKEN: f64 = 0.25;
const TOKENS_PER_SEQUENCE: f64 = 32.0;
/// Share of the pool that steps may take.
const MOST_FOR_STEPS: f64 = 0.4267;
/// Probability that a proposed token is right.
const ACCEPTANCE: f64 = 0.7;

/// A setting that the simulated engine does not start with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KnobError {
    /// No such knob.
    #[error("the simulated engine has no knob `{name}`; it has {}", KNOBS.map(|(name, _)| name).join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// A value that the knob cannot have.
    #[error("the simulated engine's knob `{name}` cannot be {value}")]
    Value {
        /// The knob.
        name: String,
        /// The value.
        value: String,
    },
    /// The setting needs more memory than there is.
    #[error(
        "simulated: out of memory: {needed} of {pool} KV blocks are needed for steps of {tokens} tokens and {seqs} \
         sequences, {most} may be"
    )]
    OutOfMemory {
        /// Blocks that steps need.
        needed: u64,
        /// Blocks that there are.
        pool: u64,
        /// Blocks that steps may have.
        most: u64,
        /// Largest step.
        tokens: u32,
        /// Most sequences.
        seqs: u32,
    },
}

/// The server `base` with the knobs of `setting`. The KV cache of `base` is the whole pool.
///
/// # Errors
/// When a knob or its value is unknown, or the setting does not fit into memory.
pub fn apply(base: Params, setting: &Setting) -> Result<Params, KnobError> {
    let mut params = base;
    for (name, value) in setting {
        let wrong = || KnobError::Value { name: name.clone(), value: value.to_string() };
        let whole = |least: i64| match value {
            KnobValue::Int(value) if *value >= least => u32::try_from(*value).map_err(|_| wrong()),
            _ => Err(wrong()),
        };
        match name.as_str() {
            "max_num_seqs" => params.max_seqs = whole(1)?,
            "max_num_batched_tokens" => params.max_batched_tokens = whole(1)?,
            "num_speculative_tokens" => {
                let draft = whole(0)?;
                params.speculation = (draft > 0).then_some(Speculation { draft, acceptance: ACCEPTANCE });
            }
            "kernels" => {
                let KnobValue::Choice(word) = value else { return Err(wrong()) };
                params.cost = kernels(base.cost, word).ok_or_else(wrong)?;
            }
            "enable_prefix_caching" => {
                let KnobValue::Flag(on) = value else { return Err(wrong()) };
                params.prefix_caching = *on;
            }
            "swap_space" => {}
            _ => return Err(KnobError::Unknown { name: name.clone() }),
        }
    }
    let pool = base.kv.tokens() / u64::from(super::model::BLOCK);
    let (tokens, seqs) = (params.max_batched_tokens, params.max_seqs);
    let needed =
        (BLOCKS_PER_STEP_TOKEN * (f64::from(tokens) + TOKENS_PER_SEQUENCE * f64::from(seqs))).ceil() as u64;
    let most = (MOST_FOR_STEPS * pool as f64) as u64;
    if needed > most {
        return Err(KnobError::OutOfMemory { needed, pool, most, tokens, seqs });
    }
    params.kv = KvPolicy::Paged { blocks: pool - needed };
    Ok(params)
}

fn kernels(cost: StepCost, word: &str) -> Option<StepCost> {
    Some(match word {
        "plain" => cost,
        "long-context" => {
            StepCost { base: 1.25 * cost.base, per_kv_token: 0.375 * cost.per_kv_token, ..cost }
        }
        "prefill" => StepCost {
            per_sequence: 1.5 * cost.per_sequence,
            per_prefill_token: 0.76 * cost.per_prefill_token,
            ..cost
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::sim::presets::SMALL;

    fn setting(knobs: &[(&str, KnobValue)]) -> Setting {
        knobs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    #[test]
    fn knobs_change_the_server_and_their_memory_is_taken_from_the_cache() {
        let knobs = [
            ("max_num_seqs", KnobValue::Int(64)),
            ("max_num_batched_tokens", KnobValue::Int(1024)),
            ("kernels", KnobValue::Choice("prefill".to_owned())),
            ("swap_space", KnobValue::Int(8)),
        ];
        let params = apply(SMALL.params, &setting(&knobs)).unwrap();
        assert_eq!((params.max_seqs, params.max_batched_tokens), (64, 1024));
        assert_eq!(params.kv, KvPolicy::Paged { blocks: 4096 - 256 - 512 });
        assert!(params.cost.per_prefill_token < SMALL.params.cost.per_prefill_token);
        params.check().unwrap();
    }

    #[test]
    fn what_does_not_fit_or_is_unknown_does_not_start() {
        let error = |name: &str, value| apply(SMALL.params, &setting(&[(name, value)])).unwrap_err();
        let text = error("max_num_seqs", KnobValue::Int(512)).to_string();
        assert!(text.contains("out of memory"), "{text}");
        assert!(error("max_seqs", KnobValue::Int(5)).to_string().contains("it has max_num_seqs, "));
        assert!(matches!(error("kernels", KnobValue::Choice("x".to_owned())), KnobError::Value { .. }));
        assert!(matches!(error("max_num_seqs", KnobValue::Int(0)), KnobError::Value { .. }));
    }
}
