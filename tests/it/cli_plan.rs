//! `plimsoll plan` counts servers from a stored summary, and refuses what it cannot use.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

fn plan(arguments: &[&str]) -> (Option<i32>, String, String) {
    let summary = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/summary-v1.json");
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("plan")
        .arg(summary)
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn refused(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = plan(arguments);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    stderr
}

#[test]
fn a_plan_is_a_screen_a_document_a_manifest_and_files() {
    let (code, screen, _) = plan(&["--rate", "100", "--redundancy", "1"]);
    assert_eq!(code, Some(0));
    assert!(screen.contains("by goodput  by throughput"), "{screen}");
    let (_, json, _) = plan(&["--rate", "100", "--redundancy", "1", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let servers = json["fleets"][0]["fleet"]["servers"].as_u64().unwrap();
    assert!(screen.starts_with(&format!("{servers} servers for 100 requests/s")), "{screen}");
    let (_, manifest, _) = plan(&["--rate", "100", "--redundancy", "1", "--kubernetes", "keda"]);
    assert!(manifest.contains(&format!("maxReplicaCount: {servers}")), "{manifest}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("plans");
    assert_eq!(plan(&["--rate", "100", "--out", out.to_str().unwrap()]).0, Some(0));
    assert!(fs::read_to_string(out.join("plan.svg")).unwrap().starts_with("<svg"));
    assert!(out.join("plan.json").exists());
}

#[test]
fn a_series_is_read_and_a_malformed_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.csv");
    fs::write(&path, "hour,rate\n0,20\n1,200\n").unwrap();
    let (code, screen, _) = plan(&["--series", path.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(screen.contains("200 requests/s at the peak"), "{screen}");
    fs::write(&path, "hour,rate\n0,20\n1,many\n").unwrap();
    let error = refused(&["--series", path.to_str().unwrap()]);
    assert!(error.contains("day.csv`: line 3: `many` is not a rate") && error.contains("hint: "), "{error}");
}

#[test]
fn bad_input_is_refused_with_what_would_be_right() {
    for (arguments, expected) in [
        (vec![], "--rate"),
        (vec!["--rate", "0"], "`0` is not a number above 0"),
        (vec!["--rate", "5", "--users", "5"], "cannot be used with"),
        (vec!["--rate", "5", "--headroom", "20"], "did you mean `20%`?"),
        (vec!["--rate", "5", "--burst", "uniform"], "`uniform` is not one of `poisson`"),
        (vec!["--rate", "5", "--within", "100%"], "`100%` is not a share between 0 and 1"),
        (vec!["--rate", "5", "--cost", "1", "--cost", "2"], "2 prices (`--cost`) for 1 runs"),
        (vec!["/nonexistent", "--rate", "5"], "`/nonexistent` is no run"),
    ] {
        let error = refused(&arguments);
        assert!(error.starts_with("error: ") && error.contains(expected), "{arguments:?}: {error}");
    }
}
