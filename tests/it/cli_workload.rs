//! `plimsoll workload` shows what would be sent, and a log becomes a file of lengths.

use assert_cmd::Command;
use serde_json::Value;

fn workload(arguments: &[&str]) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("workload").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn sample(name: &str) -> String {
    format!("{}/tests/data/workload/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_trace_becomes_a_file_of_lengths_that_reads_as_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let lengths = folder.path().join("lengths.csv");
    let lengths = lengths.to_str().unwrap();
    let (code, trace, _) =
        workload(&["--dataset", &sample("azure.csv"), "--write-lengths", lengths, "--json"]);
    assert_eq!(code, 0);
    let (_, again, _) = workload(&["--dataset", lengths, "--json"]);
    let (trace, again): (Value, Value) =
        (serde_json::from_str(&trace).unwrap(), serde_json::from_str(&again).unwrap());
    for field in ["isl", "osl", "requests"] {
        assert_eq!(trace[field], again[field], "{field}");
    }
    assert_eq!(trace["schema_version"], 1);
    assert_eq!(again["dataset"]["format"], "lengths");
    let rates = (&trace["arrivals"]["mean_rate"], &again["arrivals"]["mean_rate"]);
    let (before, after) = (rates.0.as_f64().unwrap(), rates.1.as_f64().unwrap());
    assert!((before / after - 1.0).abs() < 1e-9);
}

#[test]
fn a_malformed_line_is_shown_and_refused_where_asked() {
    let (code, screen, _) = workload(&["--dataset", &sample("openai.jsonl"), "--samples", "1"]);
    assert_eq!(code, 0);
    assert!(screen.contains("line 4: it is not JSON"), "{screen}");
    let (code, _, error) = workload(&["--dataset", &sample("openai.jsonl"), "--strict"]);
    assert_eq!(code, 2);
    assert!(error.contains("openai.jsonl` line 4"), "{error}");
}
