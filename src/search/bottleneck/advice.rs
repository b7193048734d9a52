//! The names in words, and what to try.

use super::BottleneckKind as Kind;
use crate::plan::Engine;

/// A name in words.
pub(super) fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Decode => "the step time of the batch (computing or memory bandwidth)",
        Kind::SequenceCap => "a queue for the engine's cap on running requests",
        Kind::KvMemory => "a queue for KV memory",
        Kind::Queue => "a queue (for a cap on running requests or for KV memory)",
        Kind::Prefill => "the processing of prompts (prefill)",
        Kind::Client => "the client",
        Kind::Network => "the way between client and scheduler (network, proxy or HTTP front end)",
        Kind::Floor => "the latency of a single request",
        Kind::Unknown => "cannot tell",
    }
}

/// One or two things to try next, with the engine's own settings.
pub(super) fn next(kind: Kind, engine: Option<Engine>, from_curves_alone: bool) -> Vec<String> {
    let texts: &[&str] = match kind {
        Kind::SequenceCap => &cap(engine),
        Kind::KvMemory => &memory(engine),
        Kind::Queue => &[cap(engine)[0], memory(engine)[0]],
        Kind::Prefill => &prompts(engine),
        Kind::Decode | Kind::Floor => &step(engine),
        Kind::Client => &["run plimsoll on a machine with free cores, near the server"],
        Kind::Network => &[
            "measure from the server's own machine: `--url http://127.0.0.1:PORT`",
            "look at the proxy's connection limits and at the server's HTTP workers",
        ],
        Kind::Unknown if from_curves_alone => &["let the server give its metrics (docs/telemetry.md)"],
        Kind::Unknown => &["measure more loads: `--strategy grid`"],
    };
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn cap(engine: Option<Engine>) -> [&'static str; 1] {
    [match engine {
        Some(Engine::Vllm) => "a larger `--max-num-seqs`",
        Some(Engine::Sglang) => "a larger `--max-running-requests`",
        Some(Engine::LlamaServer) => "more slots: a larger `--parallel`, with `-c` in proportion",
        Some(Engine::TensorrtLlm) => "a larger `--max_batch_size`",
        Some(Engine::Simulated) => "a preset with more seats",
        Some(Engine::Generic) | None => "a larger cap on running sequences, if the engine has one",
    }]
}

fn memory(engine: Option<Engine>) -> [&'static str; 2] {
    match engine {
        Some(Engine::Vllm) => [
            "a larger `--gpu-memory-utilization`, or a smaller KV type: `--kv-cache-dtype fp8`",
            "a smaller `--max-num-seqs`, so that fewer are preempted",
        ],
        Some(Engine::Sglang) => [
            "a larger `--mem-fraction-static`, or `--kv-cache-dtype fp8_e5m2`",
            "a smaller `--max-running-requests`",
        ],
        Some(Engine::LlamaServer) => {
            ["a larger `-c`", "a smaller KV type: `--cache-type-k q8_0 --cache-type-v q8_0`"]
        }
        Some(Engine::TensorrtLlm) => ["a larger `--kv_cache_free_gpu_memory_fraction`", "an FP8 KV cache"],
        Some(Engine::Simulated) => ["a preset with a larger KV cache", "shorter requests"],
        Some(Engine::Generic) | None => ["more memory for the KV cache", "shorter requests"],
    }
}

fn prompts(engine: Option<Engine>) -> [&'static str; 2] {
    let again = "a prefix cache, if prompts share their beginning; shorter prompts; prefill on other GPUs";
    match engine {
        Some(Engine::Vllm) => ["another `--max-num-batched-tokens` (larger: TTFT, smaller: TPOT)", again],
        Some(Engine::Sglang) => ["another `--chunked-prefill-size` (larger: TTFT, smaller: TPOT)", again],
        Some(Engine::LlamaServer) => ["larger `--batch-size` and `--ubatch-size`", again],
        Some(Engine::TensorrtLlm) => ["another `--max_num_tokens` (larger: TTFT, smaller: TPOT)", again],
        Some(Engine::Simulated | Engine::Generic) | None => {
            ["another size of prefill chunks (larger: TTFT, smaller: TPOT)", again]
        }
    }
}

fn step(engine: Option<Engine>) -> [&'static str; 2] {
    let weights = "quantised weights, or speculative decoding";
    match engine {
        Some(Engine::Vllm) => ["more GPUs a replica: `--tensor-parallel-size`", weights],
        Some(Engine::Sglang) => ["more GPUs a replica: `--tp`", weights],
        Some(Engine::LlamaServer) => ["more layers on the GPU (`-ngl`) or more threads (`-t`)", weights],
        Some(Engine::TensorrtLlm) => ["more GPUs a replica: `--tp_size`", weights],
        Some(Engine::Simulated | Engine::Generic) | None => ["a faster or a further accelerator", weights],
    }
}
