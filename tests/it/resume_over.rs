//! To resume a run that is over changes nothing: its answer stays in the journal.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn plimsoll(arguments: &[&str], run: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).arg(run).output().unwrap()
}

#[test]
fn a_run_that_is_over_keeps_its_answer_when_it_is_resumed() {
    let out = tempfile::tempdir().unwrap();
    let search =
        ["search", "-q", "--simulated", "small", "--speed", "2", "--strategy", "grid", "--levels", "1,2"];
    let further = ["--requests", "20", "--slo", "e2e p95 < 30s", "--out"];
    let ended = plimsoll(&[&search[..], &further[..]].concat(), out.path());
    let code = ended.status.code();
    assert!(matches!(code, Some(0 | 4)), "{}", String::from_utf8_lossy(&ended.stderr));
    let run = out.path().join("latest");
    let journal = fs::read(run.join("journal.jsonl")).unwrap();
    assert_eq!(plimsoll(&["resume", "-q"], &run).status.code(), code);
    assert_eq!(fs::read(run.join("journal.jsonl")).unwrap(), journal);
    let replayed = plimsoll(&["replay", "-q"], &run);
    assert_eq!(replayed.status.code(), code);
    assert!(String::from_utf8_lossy(&replayed.stderr).contains("bit for bit"));
}
