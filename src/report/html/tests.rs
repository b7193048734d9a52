#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::{Value, json};

use super::*;
use crate::loadgen::RequestRecord;
use crate::plan::TargetPlan;
use crate::run::{Cost, RunFolder, sample};
use crate::search::TrialKind;

/// Requests of trial `id` of the fabricated search, sent while it ran.
fn requests_of(id: u32, count: u64) -> Vec<RequestRecord> {
    (0..count)
        .map(|k| {
            let record = sample::record(u64::from(id) * 1_000_000 + k, id);
            let shift = 10.0 * f64::from(id - 1) + 8.0 * k as f64 / count as f64 - record.sent;
            RequestRecord {
                sent: record.sent + shift,
                first: record.first.map(|first| first + shift + 0.001 * (k % 91) as f64),
                last: record.last.map(|last| last + shift),
                ended: record.ended + shift,
                ..record
            }
        })
        .collect()
}

/// A finished run with so many requests a trial, read back.
fn stored(plan: &crate::plan::Plan, target: Value, each: u64) -> (tempfile::TempDir, Contents) {
    let base = tempfile::tempdir().unwrap();
    let mut folder = RunFolder::create(Some(base.path()), "chat", plan).unwrap();
    folder.target_described(target).unwrap();
    let mut cost = Cost::default();
    for outcome in sample::trials() {
        let records = requests_of(outcome.id, each);
        cost = Cost { seconds: outcome.ended, requests: cost.requests + each, client_cpu_seconds: 1.5 };
        folder.trial_ended(&outcome, cost, records).unwrap();
    }
    folder.ended(&sample::answer(), cost, Vec::new()).unwrap();
    let path = folder.path().to_owned();
    folder.close().unwrap();
    let contents = Contents::read(&path).unwrap();
    (base, contents)
}

fn data_of(html: &str) -> Value {
    let (_, rest) = html.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_holds_the_document_whole_and_its_figures_in_words() {
    let (_base, contents) = stored(&sample::plan(), json!({"model": "tiny"}), 60);
    let document = Document::of_run(&contents);
    let html = render(&contents, &document);
    let data = data_of(&html);
    assert_eq!(data["document"], serde_json::to_value(&document).unwrap());
    let headline = "max concurrency 42 under the SLO (95 % CI 40-44, safe: 40)";
    assert_eq!(data["headline"], headline);
    assert!(html.contains(&format!("<title>{headline}</title>")));
    assert_eq!(data["facts"][0], json!(["goodput there", "10.4 requests/s (95 % CI 10.1-10.8)"]));
    assert_eq!(data["remarks"][0][0], "void");
    assert_eq!(data["objectives"][0]["binding"], true);
    assert_eq!(data["objectives"][0]["intervals"].as_array().unwrap().len(), 14);
    assert_eq!(data["loads"].as_array().unwrap().len(), 11, "one a load, the void trial in none");
    let trials = data["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 14);
    assert_eq!(trials[8]["dots"]["of"], 60);
    assert_eq!(data["plan"], std::fs::read_to_string(contents.path.join("plan.toml")).unwrap());
}

#[test]
fn nothing_in_a_run_can_become_part_of_the_page() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{script}}";
    let mut plan = sample::plan();
    plan.name = evil.to_owned();
    let TargetPlan::Endpoint(endpoint) = &mut plan.target else { unreachable!() };
    endpoint.model = Some(evil.to_owned());
    let (_base, mut contents) = stored(&plan, json!({"model": evil, "engine": evil}), 5);
    contents.warnings.push(evil.to_owned());
    let document = Document::of_run(&contents);
    let html = render(&contents, &document);
    assert!(!html.contains("<img"), "markup of the run is in the page");
    assert!(!html.contains("alert(1)</script>"));
    let clean = {
        let (_base, contents) = stored(&sample::plan(), Value::Null, 5);
        render(&contents, &Document::of_run(&contents))
    };
    let scripts = |html: &str| (html.matches("<script").count(), html.matches("</script").count());
    assert_eq!(scripts(&html), scripts(&clean));
    assert_eq!(data_of(&html)["document"]["provenance"]["target"]["model"], evil, "and the text is kept");
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let (_base, contents) = stored(&sample::plan(), Value::Null, 5);
    // What is within the page may be named.
    let html = render(&contents, &Document::of_run(&contents)).replace("url(#", "");
    for way in ["src=", "@import", "url(", "href=\"http", "import("] {
        assert!(!html.contains(way), "{way}");
    }
}

#[test]
fn a_hundred_thousand_requests_stay_below_ten_megabytes() {
    let (_base, contents) = stored(&sample::plan(), Value::Null, 100_000 / 14 + 1);
    let html = render(&contents, &Document::of_run(&contents));
    let data = data_of(&html);
    let of: u64 = data["trials"].as_array().unwrap().iter().map(|t| t["dots"]["of"].as_u64().unwrap()).sum();
    assert!(of >= 100_000);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
}

#[test]
fn a_run_that_was_cut_or_has_lost_its_requests_still_has_a_page() {
    let base = tempfile::tempdir().unwrap();
    let mut folder = RunFolder::create(Some(base.path()), "chat", &sample::plan()).unwrap();
    let render_now = |path: &std::path::Path| {
        let contents = Contents::read(path).unwrap();
        data_of(&render(&contents, &Document::of_run(&contents)))
    };
    let path = folder.path().to_owned();
    folder.flush().unwrap();
    let data = render_now(&path);
    assert_eq!(data["headline"], "interrupted before there was an answer");
    assert_eq!(data["trials"], json!([]));
    let outcome = sample::outcome(1, 8, TrialKind::Measure);
    folder.trial_ended(&outcome, Cost::default(), requests_of(1, 20)).unwrap();
    folder.close().unwrap();
    let data = render_now(&path);
    assert_eq!(data["ended"], false);
    assert!(data["notes"][0].as_str().unwrap().contains("has not ended"), "{}", data["notes"]);
    std::fs::write(path.join("requests.jsonl.zst"), b"").unwrap();
    let data = render_now(&path);
    assert_eq!(data["trials"], json!([]));
    assert!(data["notes"][0].as_str().unwrap().contains("were lost"), "{}", data["notes"]);
}

#[test]
fn drawn_values_have_few_digits() {
    for (value, places, text) in
        [(0.123_456_7, 3, "0.123"), (123_456.0, 2, "120000.0"), (0.0, 3, "0.0"), (f64::INFINITY, 3, "0.0")]
    {
        assert_eq!(format!("{:?}", digits(value, places)), text);
    }
}
