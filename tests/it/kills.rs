//! A search that is killed at any instant goes on where it was, with every request of its finished
//! trials, and ends with an answer that its journal leads to.
//!
//! `PLIMSOLL_KILLS=50 cargo test --test it kills -- --ignored` kills at 50 random instants instead of a few.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll::loadgen::RequestRecord;
use plimsoll::rng::Stream;
use plimsoll::run::{Contents, RepeatsFolder};

/// Instants of the form that every change has to pass.
const QUICK: u64 = 3;
/// Exit codes of a search that has an answer: found, missed at the lowest, met at the highest.
const ANSWERS: [i32; 3] = [0, 3, 4];

fn plimsoll(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A search of the embedded engine with an SLO that a few users miss, so that it is short.
fn search(out: &Path, seed: u64, repeats: u32) -> Command {
    let mut command = plimsoll(&["search", "--simulated", "llama-70b", "--speed", "5", "--quiet", "--out"]);
    command.arg(out).args(["--seed", &seed.to_string(), "--repeats", &repeats.to_string()]);
    command.args(["--slo", "e2e p95 < 110ms", "--isl", "64", "--osl", "16", "--concurrency", "1..64"]);
    command.args(["--budget", "60s", "--precision", "50%"]);
    command
}

/// The run folders in a folder, those of several searches among them.
fn runs(out: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(out) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        let hidden = path.file_name().unwrap().to_string_lossy().starts_with('.');
        if hidden || path.is_symlink() {
            continue;
        }
        match RepeatsFolder::is_one(&path) {
            true => found.extend(runs(&path.join("runs"))),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// The trials of a run with the requests of each; every trial has all of its requests.
fn kept(run: &Path) -> Vec<(u32, Vec<RequestRecord>)> {
    let contents = Contents::read(run).unwrap();
    assert_eq!(contents.trials_without_records().count(), 0);
    let of = |outcome: &plimsoll::search::TrialOutcome| {
        let records = contents.records_of(outcome.id).unwrap();
        assert_eq!(records.len(), outcome.counts.issued as usize, "trial {}", outcome.id);
        (outcome.id, records)
    };
    contents.outcomes().map(of).collect()
}

fn told(output: &Output) -> String {
    format!(
        "{:?}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// What became of one kill.
#[derive(Debug, Default)]
struct Tally {
    /// Before a run folder was there.
    before: u32,
    /// While the search went on.
    within: u32,
    /// After it had ended.
    after: u32,
    /// Trials that had ended when the search was killed.
    trials: usize,
    /// Their requests.
    requests: usize,
}

fn kill_at(instant: Duration, seed: u64, repeats: u32, tally: &mut Tally) {
    let out = tempfile::tempdir().unwrap();
    let mut child = search(out.path(), seed, repeats).spawn().unwrap();
    std::thread::sleep(instant);
    let over = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    child.wait().unwrap();
    let latest = out.path().join("latest");
    if !latest.exists() {
        tally.before += 1;
        return;
    }
    *(if over { &mut tally.after } else { &mut tally.within }) += 1;
    let before: Vec<(PathBuf, Vec<_>)> =
        runs(out.path()).into_iter().map(|run| (run.clone(), kept(&run))).collect();
    for (_, trials) in &before {
        tally.trials += trials.len();
        tally.requests += trials.iter().map(|(_, records)| records.len()).sum::<usize>();
    }
    let resumed = plimsoll(&["resume", "--quiet", "--json"]).arg(&latest).output().unwrap();
    let code = resumed.status.code().unwrap();
    assert!(ANSWERS.contains(&code), "killed after {instant:?}: {}", told(&resumed));
    let summary: serde_json::Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_ne!(summary["outcome"], "interrupted");
    for (run, trials) in &before {
        let now = kept(run);
        assert!(now.len() >= trials.len() && now[..trials.len()] == trials[..], "{}", run.display());
    }
    let replayed = plimsoll(&["replay", "--quiet", "--json"]).arg(&latest).output().unwrap();
    let both = || format!("resumed: {}\nreplayed: {}", told(&resumed), told(&replayed));
    assert_eq!(replayed.status.code(), Some(code), "{}", both());
    assert!(String::from_utf8_lossy(&replayed.stderr).contains("bit for bit"), "{}", told(&replayed));
    let again: serde_json::Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(again["answer"], summary["answer"]);
}

#[test]
#[ignore = "takes minutes, and its clock does not bear the other tests beside it; see docs/search.md"]
fn a_search_killed_at_any_instant_is_resumed_to_a_valid_answer_and_loses_no_request() {
    let kills = std::env::var("PLIMSOLL_KILLS").map_or(QUICK, |count| count.parse().unwrap());
    let out = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let whole = search(out.path(), 0, 1).output().unwrap();
    let length = started.elapsed();
    assert!(ANSWERS.contains(&whole.status.code().unwrap()), "{}", told(&whole));
    let mut instants = Stream::new(1, "kills");
    let mut tally = Tally::default();
    for kill in 0..kills {
        // Every third one kills two searches that are to be put together.
        let repeats = 1 + u32::from(kill % 3 == 2);
        let instant = length.mul_f64(f64::from(repeats) * instants.uniform());
        kill_at(instant, kill, repeats, &mut tally);
    }
    println!("{kills} kills over {length:.2?}: {tally:?}");
    assert!(tally.within > 0, "{tally:?}");
}
