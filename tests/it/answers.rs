//! Finished runs answer new questions: a part of a run, several searches together.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use plimsoll::plan::Plan;
use plimsoll::run::RepeatsFolder;
use serde_json::Value;

use crate::stored_runs::{finished, finished_on, plan};

fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = output(&[arguments, &["--json"]].concat());
    assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// Searches of three servers that differ in their noise, as `search --repeats 3` leaves them.
fn repeated(out: &Path) -> PathBuf {
    let plan = Plan { repeats: 3, ..plan() };
    let folder = RepeatsFolder::create(out, &plan).unwrap();
    for (search, seed) in plan.each_search().zip(1..) {
        finished_on(&folder.runs(), &search, seed);
    }
    folder.path().to_owned()
}

#[test]
fn the_searches_of_repeats_are_one_answer_to_every_question() {
    let out = tempfile::tempdir().unwrap();
    let folder = repeated(out.path());
    let path = folder.to_str().unwrap();
    let report = json(&["report", path]);
    assert_eq!(report["repeats"]["runs"].as_array().unwrap().len(), 3);
    // Under their own SLO the searches say what they said: all but what their steering trials excluded
    // is the same, which may move the end of an interval by a user.
    let analysis = json(&["analyze", path, "--knee", "--pareto"]);
    for place in ["/answer/load/concurrency", "/answer/interval/low", "/answer/interval/high"] {
        let at = |document: &Value| document.pointer(place).and_then(Value::as_f64).unwrap();
        let (anew, said) = (at(&analysis), at(&report));
        assert!((anew - said).abs() <= 1.0, "{place}: {anew} for {said}");
    }
    let spread = |document: &Value| document["repeats"]["between_run_sd"].as_f64().unwrap();
    assert!((spread(&analysis) / spread(&report) - 1.0).abs() < 0.1);
    assert_eq!(analysis["analysis"]["place"]["is"], "within");
    let of_one = json(&["analyze", folder.join("runs/latest").to_str().unwrap(), "--pareto"]);
    let points = |document: &Value| document["analysis"]["throughputs"].as_array().unwrap().len();
    assert!(points(&analysis) > 2 * points(&of_one), "the trials of all runs are drawn");
    // Under another one each is judged anew, then put together.
    let tighter = json(&["analyze", path, "--slo", "ttft p95 < 40ms"]);
    let load = |document: &Value| document["answer"]["load"]["concurrency"].as_u64().unwrap();
    assert!(load(&tighter) < load(&analysis));
    // A plan takes the answer of all.
    let plan = json(&["plan", path, "--rate", "1000"]);
    let server = &plan["fleets"][0]["server"]["concurrency"];
    assert_eq!(server["estimate"].as_f64().unwrap() as u64, load(&report));
    assert_eq!(server["low"], report["answer"]["interval"]["low"]);
    // Held against itself nothing differs, and the runs are the replicates.
    let compared = json(&["compare", path, path]);
    assert_eq!(compared["capacity"]["ratio"], 1.0);
    let interval = &compared["capacity"]["interval"];
    assert!(interval["low"].as_f64().unwrap() < 1.0 && interval["high"].as_f64().unwrap() > 1.0);
    assert!(!compared["figures"].as_array().unwrap().is_empty());
}

#[test]
fn a_part_of_a_run_is_judged_alone() {
    let out = tempfile::tempdir().unwrap();
    let run = finished(out.path(), &plan());
    let path = run.to_str().unwrap();
    let whole = json(&["analyze", path]);
    let part = |arguments: &[&str]| json(&[&["analyze", path], arguments].concat());
    assert_eq!(part(&["--window", "0s..1h"])["answer"], whole["answer"]);
    let trials = whole["trials"].as_array().unwrap();
    let number = |index: usize| trials[index]["id"].as_u64().unwrap();
    let (first, last) = (number(0), number(trials.len() - 1));
    assert_eq!(part(&["--trials", &format!("{first}..{last}")])["answer"], whole["answer"]);
    let some = part(&["--trials", &format!("{last},{}..{}", last - 3, last - 2)]);
    let ids: Vec<u64> =
        some["trials"].as_array().unwrap().iter().map(|t| t["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [last - 3, last - 2, last]);
    assert_eq!(some["analysis"]["part"], format!("trials {last}, {}-{}", last - 3, last - 2));
    // A trial that reaches beyond the window keeps what ended within.
    let cut = &trials[trials.len() - 1];
    let requests = |document: &Value| {
        let trials = document["trials"].as_array().unwrap();
        trials.iter().find(|t| t["id"] == last).map(|t| t["measured"].as_u64().unwrap())
    };
    let seconds: f64 = trials.iter().map(|trial| trial["seconds"].as_f64().unwrap()).sum();
    let half = seconds - cut["seconds"].as_f64().unwrap() / 2.0;
    let end = format!("0s..{}ms", (half * 1000.0).round());
    let within = requests(&part(&["--window", &end])).unwrap();
    assert!(within > 0 && within < requests(&whole).unwrap(), "{within}");
    let (code, _, stderr) = output(&["analyze", path, "--window", "2h..3h"]);
    assert_eq!(code, Some(5));
    assert!(
        stderr.contains("nothing was measured in that part") && stderr.contains("hint: it ran for"),
        "{stderr}"
    );
    let (code, _, stderr) = output(&["analyze", path, "--trials", "9..3"]);
    assert!(code == Some(2) && stderr.contains("write for example 3,5..9"), "{stderr}");
}
