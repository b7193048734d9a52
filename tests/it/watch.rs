//! `plimsoll watch` and `plimsoll report` on runs that have ended or were cut.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use plimsoll::run::Contents;

use crate::stored_runs::{finished, plan};

fn plimsoll(arguments: &[&str], run: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).arg(run).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_finished_run_is_told_trial_by_trial_and_then_its_answer() {
    let out = tempfile::tempdir().unwrap();
    let run = finished(out.path(), &plan());
    let trials = Contents::read(&run).unwrap().trials.len();
    let (code, told, _) = plimsoll(&["watch"], &run);
    assert_eq!(code, Some(0));
    assert_eq!(told.lines().filter(|line| line.starts_with("trial ")).count(), trials);
    let (_, screen) = told.split_once("\n\n").unwrap();
    assert!(screen.starts_with("max concurrency "), "{screen}");
    let (code, json, _) = plimsoll(&["watch", "--json"], &run);
    assert_eq!(code, Some(0));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["outcome"], "found");
}

#[test]
fn a_run_that_was_cut_is_told_as_far_as_it_went() {
    let out = tempfile::tempdir().unwrap();
    let run = finished(out.path(), &plan());
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    let kept: String = journal.split_inclusive('\n').take(8).collect();
    fs::write(run.join("journal.jsonl"), kept).unwrap();
    let (code, told, _) = plimsoll(&["watch"], &run);
    assert_eq!(code, Some(130));
    assert!(told.contains("interrupted before there was an answer"), "{told}");
    assert!(told.contains("plimsoll resume "), "{told}");

    let elsewhere = out.path().join("a/b");
    let (code, paths, error) = plimsoll(&["report", "--out", elsewhere.to_str().unwrap()], &run);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(paths.lines().all(|path| Path::new(path).starts_with(&elsewhere) && Path::new(path).is_file()));
    assert!(elsewhere.join("report.html").is_file() && !run.join("report.html").exists());
    let (_, json, _) = plimsoll(&["report", "--json"], &run);
    assert_eq!(json, fs::read_to_string(run.join("summary.json")).unwrap());
}

#[test]
fn a_folder_that_is_no_run_is_named() {
    let out = tempfile::tempdir().unwrap();
    for command in ["watch", "report"] {
        let (code, told, error) = plimsoll(&[command], out.path());
        assert_eq!((code, told.as_str()), (Some(2), ""));
        assert!(error.contains("is not a run folder"), "{error}");
    }
}
