#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::fs;
use std::path::Path;

use super::*;
use crate::report::sample_document;
use crate::run::{RunFolder, sample};

/// Compares a generated file of the repository with what it should be. With
/// `PLIMSOLL_WRITE_DOCS=1` it is written instead.
fn assert_generated(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("PLIMSOLL_WRITE_DOCS").is_some() {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "`{}` is stale: run `PLIMSOLL_WRITE_DOCS=1 cargo test` and commit it",
        path.display()
    );
}

#[test]
fn the_schema_in_the_docs_is_that_of_the_document() {
    let schema = schemars::schema_for!(Document);
    assert_generated("docs/summary-schema.json", &to_json(&schema));
}

#[test]
fn the_document_has_the_fields_that_are_promised() {
    let json: serde_json::Value = serde_json::from_str(&sample_document().to_json()).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["outcome"], "found");
    assert_eq!(json["answer"]["load"], serde_json::json!({"concurrency": 42}));
    assert_eq!(
        json["answer"]["interval"],
        serde_json::json!({"low": 40.0, "high": 44.0, "confidence": 0.95})
    );
    assert_eq!(json["answer"]["safe_load"]["concurrency"], 40);
    assert_eq!(json["answer"]["goodput"]["requests_per_second"], 10.4);
    assert!(
        json["answer"]["bottleneck"]
            .as_str()
            .unwrap()
            .starts_with(json["bottleneck"]["words"].as_str().unwrap())
    );
    for key in ["kind", "evidence", "try", "confidence"] {
        assert!(!json["bottleneck"][key].is_null(), "{key}");
    }
    assert_eq!(json["slo"][0], "ttft p95 < 500 ms");
    let void = &json["trials"][5];
    assert_eq!(void["verdict"], "void");
    assert_eq!(void["void_cause"], "buffered_stream");
    assert!(void["void_reason"].as_str().unwrap().contains("one burst"));
    let trial = &json["trials"][6];
    assert_eq!(trial["kind"], "measure");
    assert_eq!(trial["requests"]["issued"], 232);
    assert!(trial["metrics"]["ttft"]["p95"].as_f64().unwrap() > 0.2);
    assert_eq!(trial["seconds"], 9.5);
    for key in ["seconds", "requests", "client_cpu_seconds"] {
        assert!(json["cost"][key].is_number(), "{key}");
    }
}

#[test]
fn a_summary_of_the_first_version_still_parses() {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/summary-v1.json")).unwrap();
    let document: Document = serde_json::from_str(&text).unwrap();
    assert_eq!(document.answer.load, Some(Load::Concurrency(42)));
    assert_eq!(document.trials.len(), 14);
}

#[test]
fn one_trial_is_an_element_of_the_trials_with_slo_and_warnings() {
    let outcome = sample::outcome(1, 8, TrialKind::Measure);
    let document = TrialDocument::new(&sample::plan(), &outcome, &["slow clock".to_owned()]);
    let json: serde_json::Value = serde_json::from_str(&document.to_json()).unwrap();
    assert_eq!(json["load"]["concurrency"], 8);
    assert_eq!(json["warnings"][0], "slow clock");
    assert_eq!(json["slo"][0], "ttft p95 < 500 ms");
    assert_eq!(serde_json::from_value::<TrialDocument>(json).unwrap(), document);
}

#[test]
fn a_killed_run_tells_what_it_has_met_and_missed_so_far() {
    let base = tempfile::tempdir().unwrap();
    let mut folder = RunFolder::create(Some(base.path()), "chat", &sample::plan()).unwrap();
    for outcome in sample::trials().iter().take(7) {
        folder.trial_ended(outcome, Cost::default(), Vec::new()).unwrap();
    }
    let path = folder.path().to_owned();
    folder.close().unwrap();
    let document = Document::of_run(&Contents::read(&path).unwrap());
    assert_eq!(document.outcome, SearchOutcome::Interrupted);
    assert_eq!(document.answer.largest_met, Some(Load::Concurrency(32)));
    assert_eq!(document.answer.smallest_missed, Some(Load::Concurrency(64)));
    assert_eq!(document.provenance.seed, 7);
}
