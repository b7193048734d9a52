#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::slo::Slo;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/peers").join(name)
}

#[test]
fn an_aiperf_export_gives_its_profiled_requests_and_names_the_broken_line() {
    let read = read(&[sample("aiperf/profile_export.jsonl")]).unwrap();
    assert_eq!(read.tool, "AIPerf");
    let trial = &read.material.trials[0];
    assert_eq!((trial.records.len(), trial.spec.load), (4, Load::Concurrency(2)));
    let ttfts: Vec<f64> = trial.records.iter().filter_map(RequestRecord::ttft).collect();
    assert!((ttfts[0] - 0.040).abs() < 1e-6 && ttfts.len() == 3, "{ttfts:?}");
    assert_eq!(trial.records.iter().filter(|record| record.failure().is_some()).count(), 1);
    assert_eq!(trial.records[0].gaps_us, [10_000, 12_000, 11_000]);
    assert!((trial.records[0].tpot().unwrap() - 0.011).abs() < 1e-6);
    assert_eq!(read.warnings.len(), 1);
    assert!(read.warnings[0].contains("line 4"), "{:?}", read.warnings);
}

#[test]
fn an_aiperf_history_brings_its_iterations_its_slo_and_its_claim() {
    let read = read(&[sample("aiperf/search_history.json")]).unwrap();
    assert_eq!((read.claimed, read.slo.as_slice()), (Some(2), &["ttft p95 < 200 ms".to_owned()][..]));
    assert_eq!(read.material.fixed_loads(), [2, 4]);
    assert!(read.warnings.iter().any(|text| text.contains("iteration 2")), "{:?}", read.warnings);
}

#[test]
fn a_guidellm_file_gives_one_trial_a_benchmark() {
    let read = read(&[sample("guidellm.json")]).unwrap();
    assert_eq!((read.tool, read.url.as_deref()), ("guidellm", Some("http://127.0.0.1:8000")));
    assert_eq!(read.material.fixed_loads(), [1, 4]);
    let record = &read.material.trials[1].records[0];
    assert!((record.ttft().unwrap() - 0.1).abs() < 1e-6 && (record.tpot().unwrap() - 0.02).abs() < 1e-6);
    assert!(read.warnings.iter().any(|text| text.contains("request_start_time")), "{:?}", read.warnings);
}

#[test]
fn a_vllm_result_gives_its_gaps_and_appended_results_are_all_read() {
    let read = read(&[sample("vllm.json")]).unwrap();
    assert_eq!((read.tool, read.model.as_deref()), ("vllm bench", Some("tiny")));
    assert_eq!(read.material.fixed_loads(), [2, 8]);
    let first = &read.material.trials[0];
    assert_eq!(first.records.len(), 3);
    let mut itls = Vec::new();
    first.records[0].for_each_itl(|gap| itls.push(gap));
    assert!(itls.iter().zip([0.01, 0.02]).all(|(a, b)| (a - b).abs() < 1e-9) && itls.len() == 2);
    assert_eq!(first.records.iter().filter(|record| record.failure().is_some()).count(), 1);
    // Two users: the third request is sent when the first of them is free.
    assert!((first.records.iter().map(|record| record.sent).fold(0.0, f64::max) - 0.06).abs() < 1e-9);
}

#[test]
fn a_file_of_no_known_kind_and_one_without_requests_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    std::fs::write(&path, "{\"a\": 1}").unwrap();
    assert!(matches!(read(std::slice::from_ref(&path)), Err(ForeignError::Unknown(_))));
    std::fs::write(&path, "{\"request_throughput\": 1.5, \"model_id\": \"m\"}").unwrap();
    let error = read(&[path]).unwrap_err().to_string();
    assert!(error.contains("--save-detailed"), "{error}");
}

#[test]
fn few_requests_give_a_wide_interval_around_their_own_answer() {
    // Requests drawn from a server whose TTFT p95 crosses 200 ms at 8 in flight; ten a load, as a
    // short search of another tool would run.
    let mut stream = crate::rng::Stream::new(3, "peer");
    let batches = [2_u32, 4, 6, 8, 10, 12, 16]
        .into_iter()
        .map(|load| {
            let records = (0..20).map(|index| {
                let ttft = 0.1 * (f64::from(load) / 8.0).powf(1.2) * (0.42 * stream.normal()).exp();
                let sent = f64::from(index / load) * 0.5;
                let mut found = record(sent, sent + 0.5, Outcome::Completed { finish: None });
                found.first = Some(sent + ttft);
                found.last = Some(sent + 0.5);
                found.osl = 20;
                found.osl_server = Some(20);
                found
            });
            Batch { load: Some(load), records: records.collect() }
        })
        .collect();
    let judged = assemble(batches).judged(&Slo::parse(["ttft p95 < 200ms"]).unwrap()).judged;
    let interval = judged.answer.interval.unwrap();
    assert!(interval.low <= 8.0 && interval.high.unwrap() >= 8.0, "{interval:?}");
    assert!(interval.high.unwrap() - interval.low >= 3.0, "{interval:?}");
}
