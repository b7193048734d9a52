//! A profile over the wire: its files, and what it says again without load.

use std::path::Path;

use assert_cmd::Command;
use plimsoll::profile::ProfileFolder;
use serde_json::Value;

fn run(folder: &Path, arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_plimsoll")).current_dir(folder).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_profile_leaves_a_folder_that_reads_resumes_and_reports_itself() {
    let out = tempfile::tempdir().unwrap();
    let profile = ["profile", "prefill", "--isl", "32,128,512,2048", "--requests", "6", "--speed", "4", "-q"];
    let screen = run(out.path(), &profile);
    assert!(screen.contains("prompt tok/s") && screen.contains("  files "), "{screen}");
    let folder = out.path().join("runs/latest");
    for file in ["summary.json", "prefill.csv", "prefill.svg", "prefill.png", "profile.toml"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let summary = json(&std::fs::read_to_string(folder.join("summary.json")).unwrap());
    let ttfts: Vec<f64> = summary["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["ttft"]["p50"].as_f64().unwrap())
        .collect();
    assert_eq!(ttfts.len(), 4);
    assert_eq!(summary["trials"], serde_json::json!([4, 4]));
    // Every shape is a run like any other.
    let (opened, plan) = ProfileFolder::read(&folder).unwrap();
    for (_, shape) in plan.each() {
        let run_of = opened.run_of(shape.seed).unwrap();
        assert!(run_of.join("report.html").is_file());
        // Without an SLO every load is met, the highest too, which has an exit code of its own.
        let replay = ["replay", run_of.to_str().unwrap(), "-q", "--json"];
        let replayed = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .current_dir(out.path())
            .args(replay)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&replayed.stderr).into_owned();
        assert!(replayed.status.code() == Some(4) && stderr.contains("bit for bit"), "{stderr}");
    }
    // Asked again, the same answer; nothing is measured anew.
    assert_eq!(json(&run(out.path(), &["analyze", "runs/latest", "--json"])), summary);
    assert_eq!(json(&run(out.path(), &["resume", "runs/latest", "-q", "--json"])), summary);
    let written = run(out.path(), &["report", "runs/latest", "--out", "again"]);
    assert_eq!(written.lines().count(), 4, "{written}");
    assert_eq!(json(&std::fs::read_to_string(out.path().join("again/summary.json")).unwrap()), summary);
}
