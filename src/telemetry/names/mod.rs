//! What engines and exporters call the things that are read: one table, a line a name.
//!
//! Of several names of one quantity the first that is on the page counts, so newer names stand
//! before older ones. A new engine takes a block of lines here and a sample page in the tests.

use crate::observed::{Quantity as Q, Values};
use crate::telemetry::prometheus::{Row, page, rows};

/// How several series of one name (engines, ranks, GPUs) become one value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fold {
    Sum,
    Mean,
    Max,
    /// Share of the series that are above 0 in these bits.
    Share(u64),
}

/// A name.
struct Name {
    metric: &'static str,
    /// A label that a series must bear.
    label: Option<(&'static str, &'static str)>,
    means: Q,
    /// What the value is multiplied by.
    scale: f64,
    fold: Fold,
}

const fn name(metric: &'static str, means: Q, fold: Fold) -> Name {
    Name { metric, label: None, means, scale: 1.0, fold }
}

const fn sum(metric: &'static str, means: Q) -> Name {
    name(metric, means, Fold::Sum)
}

const fn with(label: (&'static str, &'static str), name: Name) -> Name {
    Name { label: Some(label), ..name }
}

const fn scaled(scale: f64, name: Name) -> Name {
    Name { scale, ..name }
}

/// Bits of the throttle reasons that hold the clocks back against the wish of the work: power cap,
/// hardware slowdown, thermal slowdown (software, hardware), power brake. Idle clocks and clocks set
/// by the operator are none.
pub const HELD_BACK: u64 = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

/// One mebibyte, bytes.
const MIB: f64 = 1_048_576.0;

/// The names of servers.
const SERVERS: &[Name] = &[
    // vLLM, and the simulated engine. Queue, prefill and decode times are noted when a request ends.
    sum("vllm:num_requests_running", Q::Running),
    sum("vllm:num_requests_waiting", Q::Waiting),
    name("vllm:kv_cache_usage_perc", Q::KvUse, Fold::Max),
    name("vllm:gpu_cache_usage_perc", Q::KvUse, Fold::Max),
    sum("vllm:num_preemptions_total", Q::Preemptions),
    sum("vllm:prefix_cache_queries_total", Q::PrefixQueries),
    sum("vllm:gpu_prefix_cache_queries_total", Q::PrefixQueries),
    sum("vllm:prefix_cache_hits_total", Q::PrefixHits),
    sum("vllm:gpu_prefix_cache_hits_total", Q::PrefixHits),
    sum("vllm:prompt_tokens_total", Q::PromptTokens),
    sum("vllm:generation_tokens_total", Q::GenerationTokens),
    sum("vllm:request_queue_time_seconds_sum", Q::QueueSeconds),
    sum("vllm:request_queue_time_seconds_count", Q::QueueCount),
    sum("vllm:request_prefill_time_seconds_sum", Q::PrefillSeconds),
    sum("vllm:request_prefill_time_seconds_count", Q::PrefillCount),
    sum("vllm:request_decode_time_seconds_sum", Q::DecodeSeconds),
    sum("vllm:request_decode_time_seconds_count", Q::DecodeCount),
    sum("vllm:time_to_first_token_seconds_sum", Q::TtftSeconds),
    sum("vllm:time_to_first_token_seconds_count", Q::TtftCount),
    sum("vllm:spec_decode_num_draft_tokens_total", Q::DraftTokens),
    sum("vllm:spec_decode_num_accepted_tokens_total", Q::AcceptedTokens),
    // SGLang (with --enable-metrics).
    sum("sglang:num_running_reqs", Q::Running),
    sum("sglang:num_queue_reqs", Q::Waiting),
    name("sglang:token_usage", Q::KvUse, Fold::Max),
    sum("sglang:num_retracted_requests_total", Q::Preemptions),
    name("sglang:cache_hit_rate", Q::PrefixHitRate, Fold::Mean),
    sum("sglang:prompt_tokens_total", Q::PromptTokens),
    sum("sglang:generation_tokens_total", Q::GenerationTokens),
    sum("sglang:queue_time_seconds_sum", Q::QueueSeconds),
    sum("sglang:queue_time_seconds_count", Q::QueueCount),
    sum("sglang:time_to_first_token_seconds_sum", Q::TtftSeconds),
    sum("sglang:time_to_first_token_seconds_count", Q::TtftCount),
    name("sglang:spec_accept_length", Q::AcceptedLength, Fold::Mean),
    // llama-server (with --metrics): no counts of requests, and times only in sum.
    sum("llamacpp:requests_processing", Q::Running),
    sum("llamacpp:requests_deferred", Q::Waiting),
    name("llamacpp:kv_cache_usage_ratio", Q::KvUse, Fold::Max),
    sum("llamacpp:prompt_tokens_total", Q::PromptTokens),
    sum("llamacpp:tokens_predicted_total", Q::GenerationTokens),
    sum("llamacpp:prompt_seconds_total", Q::PrefillSeconds),
    sum("llamacpp:tokens_predicted_seconds_total", Q::DecodeSeconds),
    sum("llamacpp:spec_decode_num_draft_tokens_total", Q::DraftTokens),
    sum("llamacpp:spec_decode_num_accepted_tokens_total", Q::AcceptedTokens),
    // TensorRT-LLM: trtllm-serve, and behind Triton.
    sum("trtllm_num_requests_running", Q::Running),
    sum("trtllm_num_requests_waiting", Q::Waiting),
    name("trtllm_kv_cache_utilization", Q::KvUse, Fold::Max),
    name("trtllm_kv_cache_hit_rate", Q::PrefixHitRate, Fold::Mean),
    sum("trtllm_request_queue_time_seconds_sum", Q::QueueSeconds),
    sum("trtllm_request_queue_time_seconds_count", Q::QueueCount),
    sum("trtllm_time_to_first_token_seconds_sum", Q::TtftSeconds),
    sum("trtllm_time_to_first_token_seconds_count", Q::TtftCount),
    with(("request_type", "scheduled"), sum("nv_trt_llm_request_metrics", Q::Running)),
    with(("request_type", "waiting"), sum("nv_trt_llm_request_metrics", Q::Waiting)),
    with(("kv_cache_block_type", "fraction"), name("nv_trt_llm_kv_cache_block_metrics", Q::KvUse, Fold::Max)),
    // TGI.
    sum("tgi_batch_current_size", Q::Running),
    sum("tgi_queue_size", Q::Waiting),
    sum("tgi_request_input_length_sum", Q::PromptTokens),
    sum("tgi_request_generated_tokens_sum", Q::GenerationTokens),
    sum("tgi_request_queue_duration_sum", Q::QueueSeconds),
    sum("tgi_request_queue_duration_count", Q::QueueCount),
    // Any process.
    name("process_start_time_seconds", Q::Started, Fold::Max),
];

/// The names of NVIDIA's DCGM exporter.
const GPUS: &[Name] = &[
    sum("DCGM_FI_DEV_POWER_USAGE", Q::Power),
    scaled(1e-3, sum("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Q::Energy)),
    scaled(MIB, sum("DCGM_FI_DEV_FB_USED", Q::GpuMemoryUsed)),
    scaled(MIB, sum("DCGM_FI_DEV_FB_TOTAL", Q::GpuMemoryTotal)),
    scaled(1e6, name("DCGM_FI_DEV_SM_CLOCK", Q::SmClock, Fold::Mean)),
    scaled(1e6, name("DCGM_FI_DEV_MEM_CLOCK", Q::MemoryClock, Fold::Mean)),
    name("DCGM_FI_DEV_GPU_TEMP", Q::Temperature, Fold::Max),
    name("DCGM_FI_PROF_SM_ACTIVE", Q::SmActivity, Fold::Mean),
    name("DCGM_FI_PROF_DRAM_ACTIVE", Q::MemoryActivity, Fold::Mean),
    scaled(1e-2, name("DCGM_FI_DEV_GPU_UTIL", Q::KernelTime, Fold::Mean)),
    name("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", Q::Throttled, Fold::Share(HELD_BACK)),
    name("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", Q::Throttled, Fold::Share(HELD_BACK)),
];

/// What a server's metrics page says; empty where it holds no known name.
pub fn server(body: &str) -> Values {
    let mut values = read(body, SERVERS);
    // A start time alone may be any process's.
    if values.iter().all(|(quantity, _)| quantity == Q::Started) {
        values = Values::default();
    }
    values
}

/// What the page of a DCGM exporter says; empty where it holds no known name.
pub fn dcgm(body: &str) -> Values {
    let mut values = read(body, GPUS);
    let text = page(body);
    let gpus = rows(&text, |name| name == "DCGM_FI_DEV_POWER_USAGE").len();
    if gpus > 0 {
        values.set(Q::Gpus, gpus as f64);
    }
    values
}

/// The name as the table has it: some front ends put `trtllm:` for `trtllm_`.
fn canonical(name: &str) -> std::borrow::Cow<'_, str> {
    match name.strip_prefix("trtllm:") {
        Some(rest) => format!("trtllm_{rest}").into(),
        None => name.into(),
    }
}

fn read(body: &str, table: &[Name]) -> Values {
    let text = page(body);
    let known = |metric: &str| {
        let metric = canonical(metric);
        table.iter().any(|name| name.metric == metric)
    };
    // Ranks of one engine repeat its figures: the first speaks for all.
    let first_rank =
        |row: &Row| ["tp_rank", "pp_rank"].iter().all(|rank| row.label(rank).is_none_or(|rank| rank == "0"));
    let rows: Vec<Row> = rows(&text, known).into_iter().filter(first_rank).collect();
    let mut values = Values::default();
    for name in table {
        if values.get(name.means).is_some() {
            continue;
        }
        let is_it = |row: &&Row| {
            canonical(row.name) == name.metric
                && name.label.is_none_or(|(label, value)| row.label(label) == Some(value))
        };
        let seen: Vec<f64> =
            rows.iter().filter(is_it).map(|row| row.value).filter(|value| value.is_finite()).collect();
        if seen.is_empty() {
            continue;
        }
        let total: f64 = seen.iter().sum();
        let value = match name.fold {
            Fold::Sum => total,
            Fold::Mean => total / seen.len() as f64,
            Fold::Max => seen.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Fold::Share(bits) => {
                seen.iter().filter(|&&value| value as u64 & bits != 0).count() as f64 / seen.len() as f64
            }
        };
        values.set(name.means, value * name.scale);
    }
    values
}

#[cfg(test)]
mod tests;
