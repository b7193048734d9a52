//! Pages as engines send them, read.
#![allow(clippy::unwrap_used)]

use super::*;

const VLLM: &str = include_str!("../../../tests/data/metrics/vllm.txt");
const LLAMA: &str = include_str!("../../../tests/data/metrics/llama-server.txt");
const SGLANG: &str = include_str!("../../../tests/data/metrics/sglang.txt");
const TENSORRT: &str = include_str!("../../../tests/data/metrics/tensorrt-llm.txt");
const TGI: &str = include_str!("../../../tests/data/metrics/tgi.txt");
const DCGM: &str = include_str!("../../../tests/data/metrics/dcgm.txt");

fn assert_seen(values: &Values, expected: &[(Q, f64)]) {
    let seen: Vec<(Q, f64)> = values.iter().collect();
    let mut expected = expected.to_vec();
    expected.sort_by_key(|(quantity, _)| *quantity);
    assert_eq!(seen.len(), expected.len(), "{seen:?}");
    for (found, wanted) in seen.iter().zip(&expected) {
        assert_eq!(found.0, wanted.0);
        assert!((found.1 - wanted.1).abs() <= 1e-9 * wanted.1.abs(), "{found:?} and {wanted:?}");
    }
}

#[test]
fn vllm_is_read() {
    assert_seen(
        &server(VLLM),
        &[
            (Q::Running, 4.0),
            (Q::Waiting, 6.0),
            (Q::KvUse, 0.003910068426197455),
            (Q::Started, 1.79598217991e9),
            (Q::Preemptions, 0.0),
            (Q::PrefixQueries, 40.0),
            (Q::PrefixHits, 0.0),
            (Q::PromptTokens, 40.0),
            (Q::GenerationTokens, 341.0),
            (Q::QueueSeconds, 15.495149237003716),
            (Q::QueueCount, 10.0),
            (Q::PrefillSeconds, 0.5554729089944885),
            (Q::PrefillCount, 10.0),
            (Q::DecodeSeconds, 19.623209690002113),
            (Q::DecodeCount, 10.0),
            (Q::TtftSeconds, 16.949009656906128),
            (Q::TtftCount, 10.0),
        ],
    );
}

#[test]
fn llama_server_is_read_plain_and_in_quotation_marks() {
    let expected = [
        (Q::Running, 8.0),
        (Q::Waiting, 2.0),
        (Q::PromptTokens, 80.0),
        (Q::GenerationTokens, 0.0),
        (Q::PrefillSeconds, 0.404563),
        (Q::DecodeSeconds, 0.0),
        (Q::DraftTokens, 0.0),
        (Q::AcceptedTokens, 0.0),
    ];
    assert_seen(&server(LLAMA), &expected);
    assert_seen(&server(&serde_json::to_string(LLAMA).unwrap()), &expected);
}

#[test]
fn of_the_ranks_of_one_engine_the_first_counts() {
    assert_seen(
        &server(SGLANG),
        &[
            (Q::Running, 17.0),
            (Q::Waiting, 3.0),
            (Q::KvUse, 0.97),
            (Q::PrefixHitRate, 0.25),
            (Q::PromptTokens, 8.128902e6),
            (Q::GenerationTokens, 7.557572e6),
            (Q::TtftSeconds, 2351.9),
            (Q::TtftCount, 11008.0),
        ],
    );
}

#[test]
fn tensorrt_llm_is_read_under_either_prefix() {
    let expected = [
        (Q::KvUse, 0.75),
        (Q::PrefixHitRate, 0.5),
        (Q::QueueSeconds, 2.5),
        (Q::QueueCount, 1270.0),
        (Q::TtftSeconds, 89.5),
        (Q::TtftCount, 1270.0),
    ];
    assert_seen(&server(TENSORRT), &expected);
    assert_seen(&server(&TENSORRT.replace("trtllm_", "trtllm:")), &expected);
    let triton = "nv_trt_llm_request_metrics{model=\"m\",request_type=\"scheduled\",version=\"1\"} 7\n\
                  nv_trt_llm_request_metrics{model=\"m\",request_type=\"waiting\",version=\"1\"} 2\n\
                  nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\",model=\"m\"} 0.5\n\
                  nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\",model=\"m\"} 50\n";
    assert_seen(&server(triton), &[(Q::Running, 7.0), (Q::Waiting, 2.0), (Q::KvUse, 0.5)]);
}

#[test]
fn tgi_is_read() {
    assert_seen(
        &server(TGI),
        &[
            (Q::Running, 4.0),
            (Q::Waiting, 2.0),
            (Q::GenerationTokens, 5700.0),
            (Q::QueueSeconds, 12.5),
            (Q::QueueCount, 57.0),
        ],
    );
}

#[test]
fn gpus_of_an_exporter_are_added_up_in_plain_units() {
    assert_seen(
        &dcgm(DCGM),
        &[
            (Q::Gpus, 2.0),
            (Q::Power, 700.0),
            (Q::Energy, 3500.0),
            (Q::GpuMemoryUsed, 2.0 * 1024.0 * 1_048_576.0),
            (Q::SmClock, 1.73e9),
            (Q::KernelTime, 0.75),
            (Q::SmActivity, 0.375),
            (Q::Throttled, 0.5),
        ],
    );
}

#[test]
fn engines_behind_one_page_are_added_up_and_the_fullest_cache_counts() {
    let page = "vllm:num_requests_running{engine=\"0\"} 4\nvllm:num_requests_running{engine=\"1\"} 3\n\
                vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n\
                vllm:gpu_cache_usage_perc{engine=\"0\"} 0.1\n";
    assert_seen(&server(page), &[(Q::Running, 7.0), (Q::KvUse, 0.75)]);
}

#[test]
fn a_page_of_something_else_says_nothing() {
    for page in
        ["", "<html>hello</html>", "process_start_time_seconds 5\ngo_goroutines 8\n", "{\"detail\":1}"]
    {
        assert!(server(page).is_empty(), "{page}");
        assert!(dcgm(page).is_empty(), "{page}");
    }
}

#[test]
fn the_table_names_each_thing_once() {
    for table in [SERVERS, GPUS] {
        let mut names: Vec<_> = table.iter().map(|name| (name.metric, name.label)).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
