//! Servers to try things on, with the load that they are meant for.
//!
//! The figures of the presets named after real models are roofline arithmetic on public data: a
//! decode step reads all weights and every resident KV token once, so it takes their bytes over the
//! memory bandwidth; a prompt token costs two floating-point operations a weight. Datasheet peaks
//! are taken at 80 % for reading memory and 50-55 % for computing, which well-tuned engines reach.
//! They are meant to be of the right shape and size, not to predict a given machine.

use crate::plan::Lengths;
use crate::sim::model::{Disturbance, KvPolicy, Params, StepCost};
use crate::sim::traffic::Traffic;

/// A server, its load and its SLO.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// Name, as given on the command line.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// The model's name, as the server gives it.
    pub model: &'static str,
    /// Longest context, tokens; a request beyond it is refused.
    pub max_model_len: u32,
    /// The server.
    pub params: Params,
    /// Prompt lengths of its usual load.
    pub isl: Lengths,
    /// Output lengths of its usual load.
    pub osl: Lengths,
    /// Its usual SLO.
    pub slo: &'static [&'static str],
}

impl Preset {
    /// The usual load.
    pub fn traffic(&self) -> Traffic {
        Traffic::of(self.isl.clone(), self.osl.clone())
    }
}

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// All presets, the default one first.
pub const ALL: &[Preset] = &[SMALL, LLAMA_8B, LLAMA_70B, KV_BOUND, PREFILL_BOUND];

/// Noise of a server that has the machine to itself: steps vary by a few percent, and the whole
/// server by a percent or two over tens of seconds.
const CALM: Disturbance = Disturbance { step: 0.05, slow_sd: 0.015, slow_time: 20.0, ..Disturbance::NONE };

/// The default: a small model with short requests, so that a whole search takes seconds. Its
/// requests take a fifth of a second, and its knee is the cap on running sequences.
pub const SMALL: Preset = Preset {
    name: "small",
    about: "a small model with short requests, held back by `max_num_seqs` 48; a search takes about 20 s",
    model: "simulated-small",
    max_model_len: 4096,
    params: Params {
        // Chosen, not derived: 2 ms for a step as such, so that a client on the same machine is
        // not what is measured, and 4 ms with all seats taken.
        cost: StepCost {
            base: 2.0e-3,
            per_sequence: 35e-6,
            per_kv_token: 3e-8,
            per_prefill_token: 6e-6,
            pad: 0,
            dip: None,
        },
        noise: CALM,
        max_seqs: 48,
        max_batched_tokens: 2048,
        kv: KvPolicy::Paged { blocks: 4096 },
        prefix_hit: 0.0,
        prefix_caching: true,
        speculation: None,
        failures: 0.0,
        early_stop: None,
    },
    isl: Lengths::Lognormal { mean: 128.0, cv: 0.5, min: 16, max: 512 },
    osl: Lengths::Lognormal { mean: 48.0, cv: 0.5, min: 8, max: 192 },
    slo: &["ttft p95 < 60ms", "tpot p95 < 10ms"],
};

/// Llama 3.1 8B (bf16) on one H100 SXM (3.35 TB/s, 989 TFLOP/s, 80 GB).
pub const LLAMA_8B: Preset = Preset {
    name: "llama-8b",
    about: "Llama 3.1 8B in bf16 on one H100",
    model: "simulated-llama-8b",
    max_model_len: 32_768,
    params: Params {
        cost: StepCost {
            // 8.03e9 weights x 2 B / (0.8 x 3.35e12 B/s) = 6.0 ms, and 1 ms for launches,
            // scheduling and sampling.
            base: 7.0e-3,
            // Host work and sampling of one sequence.
            per_sequence: 20e-6,
            // 32 layers x 8 KV heads x 128 x 2 (K and V) x 2 B = 131,072 B / (0.8 x 3.35e12 B/s).
            per_kv_token: 4.9e-8,
            // 2 x 8.03e9 / (0.55 x 989e12 FLOP/s).
            per_prefill_token: 29.5e-6,
            pad: 0,
            dip: None,
        },
        noise: CALM,
        max_seqs: 256,
        max_batched_tokens: 8192,
        // (0.9 x 80 GB - 16.1 GB of weights - 4 GB of activations) / 131,072 B / 16.
        kv: KvPolicy::Paged { blocks: 24_700 },
        prefix_hit: 0.0,
        prefix_caching: true,
        speculation: None,
        failures: 0.0,
        early_stop: None,
    },
    isl: Lengths::Lognormal { mean: 512.0, cv: 0.6, min: 16, max: 4096 },
    osl: Lengths::Lognormal { mean: 200.0, cv: 0.6, min: 16, max: 1024 },
    slo: &["ttft p95 < 500ms", "tpot p95 < 20ms"],
};

/// Llama 3.1 70B (bf16) on four H100 SXM with tensor parallelism.
pub const LLAMA_70B: Preset = Preset {
    name: "llama-70b",
    about: "Llama 3.1 70B in bf16 on four H100 with tensor parallelism",
    model: "simulated-llama-70b",
    max_model_len: 32_768,
    params: Params {
        cost: StepCost {
            // 70.6e9 weights x 2 B / 4 / (0.8 x 3.35e12 B/s) = 13.2 ms, 160 all-reduces of about
            // 12 us, and 1.5 ms for launches, scheduling and sampling.
            base: 16.6e-3,
            per_sequence: 30e-6,
            // 80 layers x 8 KV heads x 128 x 2 x 2 B = 327,680 B, a quarter on each GPU.
            per_kv_token: 3.06e-8,
            // 2 x 70.6e9 / (4 x 0.5 x 989e12 FLOP/s).
            per_prefill_token: 71e-6,
            pad: 0,
            dip: None,
        },
        noise: CALM,
        max_seqs: 256,
        max_batched_tokens: 8192,
        // (0.9 x 80 GB - 35.3 GB of weights - 4 GB of activations) / 81,920 B / 16.
        kv: KvPolicy::Paged { blocks: 24_900 },
        prefix_hit: 0.0,
        prefix_caching: true,
        speculation: None,
        failures: 0.0,
        early_stop: None,
    },
    isl: Lengths::Lognormal { mean: 512.0, cv: 0.6, min: 16, max: 4096 },
    osl: Lengths::Lognormal { mean: 200.0, cv: 0.6, min: 16, max: 1024 },
    slo: &["ttft p95 < 1s", "tpot p95 < 40ms"],
};

/// Llama 3.1 8B (bf16) on one L4 (300 GB/s, 121 TFLOP/s, 24 GB): the weights leave little room for
/// the KV cache, so long requests preempt each other.
pub const KV_BOUND: Preset = Preset {
    name: "kv-bound",
    about: "Llama 3.1 8B in bf16 on one 24 GB L4, held back by its KV cache",
    model: "simulated-kv-bound",
    max_model_len: 8192,
    params: Params {
        cost: StepCost {
            // 16.06 GB / (0.8 x 300e9 B/s), and 1 ms as above.
            base: 68e-3,
            per_sequence: 50e-6,
            // 131,072 B / (0.8 x 300e9 B/s).
            per_kv_token: 5.5e-7,
            // 2 x 8.03e9 / (0.5 x 121e12 FLOP/s).
            per_prefill_token: 265e-6,
            pad: 0,
            dip: None,
        },
        noise: CALM,
        max_seqs: 256,
        max_batched_tokens: 2048,
        // (0.9 x 24 GB - 16.1 GB of weights - 1.4 GB of activations) / 131,072 B / 16.
        kv: KvPolicy::Paged { blocks: 1950 },
        prefix_hit: 0.0,
        prefix_caching: true,
        speculation: None,
        failures: 0.0,
        early_stop: None,
    },
    isl: Lengths::Lognormal { mean: 1000.0, cv: 0.6, min: 32, max: 4096 },
    osl: Lengths::Lognormal { mean: 300.0, cv: 0.6, min: 16, max: 1024 },
    slo: &["ttft p95 < 3s", "tpot p95 < 250ms"],
};

/// Long documents, short answers, on the server of [`LLAMA_8B`]: prompts take nearly all the time.
pub const PREFILL_BOUND: Preset = Preset {
    name: "prefill-bound",
    about: "Llama 3.1 8B on one H100 with prompts of 6,000 tokens and short answers",
    model: "simulated-prefill-bound",
    max_model_len: 32_768,
    params: Params { max_batched_tokens: 4096, ..LLAMA_8B.params },
    isl: Lengths::Lognormal { mean: 6000.0, cv: 0.4, min: 512, max: 16_384 },
    osl: Lengths::Lognormal { mean: 80.0, cv: 0.5, min: 8, max: 320 },
    slo: &["ttft p95 < 2s", "tpot p95 < 250ms"],
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::slo::Slo;

    #[test]
    fn every_preset_can_run_and_has_a_valid_slo() {
        for preset in ALL {
            preset.params.check().unwrap();
            Slo::parse(preset.slo.iter().copied()).unwrap();
            assert_eq!(find(preset.name), Some(preset));
        }
        assert_eq!(find("none"), None);
    }
}
