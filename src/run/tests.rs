//! What a run folder promises, whatever happens to its process or its disk.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::tempdir;

use super::sample;
use super::*;
use crate::plan::{Plan, TargetPlan};
use crate::search::{TrialKind, TrialOutcome};

fn cost_at(outcome: &TrialOutcome) -> Cost {
    Cost {
        seconds: outcome.ended,
        requests: outcome.issued_total,
        client_cpu_seconds: 0.1 * f64::from(outcome.id),
    }
}

/// A run of three trials with five records each, killed before it had an answer.
fn killed_run(base: &Path) -> (PathBuf, Vec<TrialOutcome>) {
    let mut folder = RunFolder::create(Some(base), "chat", &sample::plan()).unwrap();
    let path = folder.path().to_owned();
    folder.target_described(serde_json::json!({"model": "tiny"})).unwrap();
    let outcomes: Vec<_> = (1..=3).map(|id| sample::outcome(id, 8 * id, TrialKind::Measure)).collect();
    for outcome in &outcomes {
        folder.trial_asked(&outcome.spec).unwrap();
        let records = (0..5).map(|k| sample::record(u64::from(outcome.id) * 5 + k, outcome.id)).collect();
        folder.trial_ended(outcome, cost_at(outcome), records).unwrap();
    }
    folder.close().unwrap();
    (path, outcomes)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in [PLAN_FILE, JOURNAL_FILE, RECORDS_FILE] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

fn truncate(path: &Path, len: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// Adds a fourth trial, closes, and reads all back.
fn go_on(path: &Path) -> Contents {
    let (mut folder, _) = RunFolder::open(path).unwrap();
    let outcome = sample::outcome(4, 99, TrialKind::Measure);
    folder.trial_ended(&outcome, cost_at(&outcome), vec![sample::record(77, 4)]).unwrap();
    folder.close().unwrap();
    let contents = Contents::read(path).unwrap();
    assert_eq!(contents.trials.last().unwrap().outcome, outcome);
    assert_eq!(contents.records_of(4).unwrap(), vec![sample::record(77, 4)]);
    contents
}

#[test]
fn a_run_reads_back_as_it_was_written() {
    let base = tempdir().unwrap();
    let (path, outcomes) = killed_run(base.path());
    let (mut folder, past) = RunFolder::open(&path).unwrap();
    assert_eq!(past.plan, sample::plan());
    assert!(past.ended.is_none());
    folder.warn("the clock is slow").unwrap();
    folder.warn("the clock is slow").unwrap();
    let cost = Cost { seconds: 40.5, requests: 12, client_cpu_seconds: 1.5 };
    folder.ended(&sample::answer(), cost, vec![sample::record(90, 0)]).unwrap();

    let contents = Contents::read(&path).unwrap();
    assert_eq!(contents.outcomes().cloned().collect::<Vec<_>>(), outcomes);
    assert_eq!(contents.target, Some(serde_json::json!({"model": "tiny"})));
    assert_eq!(contents.warnings, ["the clock is slow"]);
    assert_eq!(contents.cost, cost);
    assert_eq!(contents.clock(), 40.5);
    assert_eq!(contents.ended.as_ref().unwrap().answer, sample::answer());
    let mut ids = Vec::new();
    contents.for_each_record(|record| ids.push(record.id)).unwrap();
    assert_eq!(ids, (5..20).chain([90]).collect::<Vec<_>>());
}

#[test]
fn a_journal_cut_at_any_byte_keeps_every_trial_that_was_whole_and_goes_on() {
    let base = tempdir().unwrap();
    let (path, outcomes) = killed_run(base.path());
    let journal = fs::read(path.join(JOURNAL_FILE)).unwrap();
    let line_ends: Vec<usize> = (1..=journal.len()).filter(|&end| journal[end - 1] == b'\n').collect();
    // Lines: started, described, then asked and ended three times.
    assert_eq!(line_ends.len(), 8);
    let torn = base.path().join("torn");
    for len in 0..=journal.len() {
        // Bytes in the middle of a line are all alike: look at a few of them and at all the edges.
        let near_an_edge = line_ends.iter().chain([&0]).any(|&end| len.abs_diff(end) <= 2);
        if !near_an_edge && !len.is_multiple_of(97) {
            continue;
        }
        let _ = fs::remove_dir_all(&torn);
        copy(&path, &torn);
        truncate(&torn.join(JOURNAL_FILE), len as u64);
        if len < line_ends[0] {
            assert!(matches!(RunFolder::open(&torn), Err(RunError::Damaged { line: 1, .. })), "cut at {len}");
            continue;
        }
        let ended = [3, 5, 7].into_iter().filter(|&line| line_ends[line] <= len).count();
        let contents = go_on(&torn);
        assert_eq!(contents.trials.len(), ended + 1, "cut at {len}");
        for (stored, outcome) in contents.trials.iter().zip(&outcomes[..ended]) {
            assert_eq!(&stored.outcome, outcome);
            assert_eq!(contents.records_of(outcome.id).unwrap().len(), 5);
        }
        let whole = zstd::decode_all(fs::File::open(torn.join(RECORDS_FILE)).unwrap()).unwrap();
        assert_eq!(whole.iter().filter(|&&byte| byte == b'\n').count(), 5 * ended + 1);
    }
}

#[test]
fn records_cut_at_any_byte_keep_the_trials_and_the_frames_that_were_whole() {
    let base = tempdir().unwrap();
    let (path, outcomes) = killed_run(base.path());
    let frames: Vec<Frame> =
        Contents::read(&path).unwrap().trials.iter().map(|trial| trial.records.unwrap()).collect();
    let torn = base.path().join("torn");
    for len in 0..=frames[2].end {
        let near_an_edge = frames.iter().any(|frame| len.abs_diff(frame.end) <= 2);
        if !near_an_edge && !len.is_multiple_of(53) {
            continue;
        }
        let _ = fs::remove_dir_all(&torn);
        copy(&path, &torn);
        truncate(&torn.join(RECORDS_FILE), len);
        let whole = frames.iter().filter(|frame| frame.end <= len).count();
        let contents = go_on(&torn);
        assert_eq!(contents.trials.len(), 4, "cut at {len}");
        for (index, outcome) in outcomes.iter().enumerate() {
            assert_eq!(&contents.trials[index].outcome, outcome);
            assert_eq!(contents.records_of(outcome.id).unwrap().len(), if index < whole { 5 } else { 0 });
        }
        let lost: Vec<u32> = contents.trials_without_records().collect();
        assert_eq!(lost, (whole as u32 + 1..=3).collect::<Vec<_>>());
        let bytes = zstd::decode_all(fs::File::open(torn.join(RECORDS_FILE)).unwrap()).unwrap();
        assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), 5 * whole + 1);
    }
}

#[test]
fn records_whose_trial_did_not_reach_the_journal_are_dropped() {
    let base = tempdir().unwrap();
    let (path, _) = killed_run(base.path());
    let mut records = fs::read(path.join(RECORDS_FILE)).unwrap();
    let whole = records.len();
    records.extend_from_within(..whole / 2);
    fs::write(path.join(RECORDS_FILE), &records).unwrap();
    let contents = go_on(&path);
    assert_eq!(contents.trials_without_records().count(), 0);
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error_that_names_it() {
    let base = tempdir().unwrap();
    let (path, _) = killed_run(base.path());
    let journal = fs::read_to_string(path.join(JOURNAL_FILE)).unwrap();
    fs::write(path.join(JOURNAL_FILE), journal.replacen("target_described", "target_lost", 1)).unwrap();
    let error = Contents::read(&path).unwrap_err();
    assert!(error.to_string().contains("line 2: not an event of this version"), "{error}");
}

#[test]
fn two_processes_never_write_to_one_run() {
    let base = tempdir().unwrap();
    let folder = RunFolder::create(Some(base.path()), "chat", &sample::plan()).unwrap();
    let path = folder.path().to_owned();
    assert!(matches!(RunFolder::open(&path), Err(RunError::InUse { .. })));
    assert!(Contents::read(&path).is_ok(), "looking on is allowed");
    drop(folder);
    assert!(RunFolder::open(&path).is_ok());
}

#[test]
fn a_changed_plan_is_not_gone_on_with() {
    let base = tempdir().unwrap();
    let (path, _) = killed_run(base.path());
    let plan = fs::read_to_string(path.join(PLAN_FILE)).unwrap();
    fs::write(path.join(PLAN_FILE), plan.replacen("seed = 7", "seed = 8", 1)).unwrap();
    assert!(matches!(RunFolder::open(&path), Err(RunError::PlanChanged { .. })));
    assert!(Contents::read(&path).unwrap().plan_changed);
}

#[test]
fn runs_of_the_same_second_have_folders_of_their_own_and_latest_is_the_last() {
    let base = tempdir().unwrap();
    let folders: Vec<_> =
        (0..3).map(|_| RunFolder::create(Some(base.path()), "a b/c", &sample::plan()).unwrap()).collect();
    let mut paths: Vec<_> = folders.iter().map(|folder| folder.path().to_owned()).collect();
    let last = paths[2].clone();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 3);
    assert!(paths[0].file_name().unwrap().to_str().unwrap().ends_with("Z-a-b-c"), "{}", paths[0].display());
    let latest = fs::canonicalize(base.path().join("latest")).unwrap();
    assert_eq!(latest, fs::canonicalize(last).unwrap());
    let hidden = fs::read_dir(base.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

#[test]
fn a_folder_that_cannot_be_made_leaves_nothing_behind() {
    let base = tempdir().unwrap();
    let file = base.path().join("file");
    fs::write(&file, "").unwrap();
    let error = RunFolder::create(Some(&file), "chat", &sample::plan()).unwrap_err();
    assert!(matches!(error, RunError::Create { .. }), "{error}");
    assert!(error.to_string().ends_with("give a folder that can be written (`--out`)"), "{error}");

    // A plan that TOML cannot say fails after the folder was begun.
    let mut plan = sample::plan();
    let TargetPlan::Endpoint(endpoint) = &mut plan.target else { unreachable!() };
    endpoint.extra_body.insert("user".to_owned(), serde_json::Value::Null);
    let out = base.path().join("new");
    assert!(matches!(RunFolder::create(Some(&out), "chat", &plan), Err(RunError::Plan { .. })));
    assert!(!out.exists());
}

#[test]
fn secrets_reach_no_file_and_are_asked_for_again() {
    let base = tempdir().unwrap();
    let mut plan = sample::plan();
    let TargetPlan::Endpoint(endpoint) = &mut plan.target else { unreachable!() };
    endpoint.url = "http://me:hunter2@127.0.0.1:8000".to_owned();
    endpoint.headers.insert("X-Api-Key".to_owned(), "hunter2".to_owned());
    endpoint.headers.insert("X-Team".to_owned(), "blue".to_owned());
    endpoint.extra_body.insert("auth_token".to_owned(), "hunter2".into());
    let mut folder = RunFolder::create(Some(base.path()), "chat", &plan).unwrap();
    folder.target_described(serde_json::json!({"headers": {"authorization": "hunter2"}})).unwrap();
    let path = folder.path().to_owned();
    folder.close().unwrap();
    for name in [PLAN_FILE, JOURNAL_FILE] {
        let text = fs::read_to_string(path.join(name)).unwrap();
        assert!(!text.contains("hunter2"), "{name}: {text}");
    }
    let contents = Contents::read(&path).unwrap();
    let places = ["the password or key in the URL", "header `X-Api-Key`", "body field `auth_token`"];
    assert_eq!(contents.secrets_left_out(), places);
}

#[test]
fn a_file_of_the_report_is_whole_or_as_it_was() {
    let base = tempdir().unwrap();
    let folder = RunFolder::create(Some(base.path()), "chat", &sample::plan()).unwrap();
    let path = write_file(folder.path(), "summary.json", b"{}").unwrap();
    fs::create_dir(folder.path().join("curve.csv")).unwrap();
    assert!(matches!(write_file(folder.path(), "curve.csv", b"x"), Err(RunError::Write { .. })));
    assert_eq!(fs::read(path).unwrap(), b"{}");
    let partial = fs::read_dir(folder.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".partial"));
    assert_eq!(partial.count(), 0);
}

/// The half of the next test that runs in a process of its own, under a limit on file sizes.
#[cfg(unix)]
#[test]
#[ignore = "run by a_full_disk_is_a_clean_error_and_keeps_what_was_written"]
fn writes_until_the_disk_is_full() {
    let base = PathBuf::from(std::env::var_os("PLIMSOLL_TEST_BASE").unwrap());
    let mut folder = RunFolder::create(Some(&base), "chat", &sample::plan()).unwrap();
    for id in 1..1000 {
        let outcome = sample::outcome(id, 8, TrialKind::Measure);
        let written = folder
            .trial_ended(&outcome, cost_at(&outcome), vec![sample::record(id.into(), id)])
            .and_then(|()| folder.flush());
        if let Err(error) = written {
            assert!(matches!(error, RunError::Write { .. }), "{error}");
            assert_eq!(folder.warn("too late").unwrap_err(), error, "nothing is written behind a gap");
            fs::write(base.join("kept"), (id - 1).to_string()).unwrap();
            return;
        }
    }
    panic!("no write failed");
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_a_clean_error_and_keeps_what_was_written() {
    let base = tempdir().unwrap();
    let itself = std::env::current_exe().unwrap();
    // The signal ignored, a write beyond the limit fails half-way as on a full disk.
    let script =
        "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact run::tests::writes_until_the_disk_is_full --ignored";
    let status = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(itself)
        .env("PLIMSOLL_TEST_BASE", base.path())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let kept: usize = fs::read_to_string(base.path().join("kept")).unwrap().parse().unwrap();
    assert!(kept > 3, "{kept}");
    let path = fs::canonicalize(base.path().join("latest")).unwrap();
    let journal = fs::read(path.join(JOURNAL_FILE)).unwrap();
    assert_eq!(journal.last(), Some(&b'\n'), "the half-written line was taken back");
    let contents = Contents::read(&path).unwrap();
    assert_eq!(contents.trials.len(), kept);
    let (mut folder, _) = RunFolder::open(&path).unwrap();
    let outcome = sample::outcome(kept as u32 + 1, 8, TrialKind::Measure);
    folder.trial_ended(&outcome, cost_at(&outcome), Vec::new()).unwrap();
    folder.close().unwrap();
    assert_eq!(Contents::read(&path).unwrap().trials.len(), kept + 1);
}

/// The half of the next test that runs in a process of its own, until it is killed.
#[cfg(unix)]
#[test]
#[ignore = "run by a_killed_process_loses_no_trial_that_it_said_was_kept"]
fn writes_until_it_is_killed() {
    let base = PathBuf::from(std::env::var_os("PLIMSOLL_TEST_BASE").unwrap());
    let mut folder = RunFolder::create(Some(&base), "chat", &sample::plan()).unwrap();
    for id in 1_u32.. {
        let outcome = sample::outcome(id, 8, TrialKind::Measure);
        let records = (0..50).map(|k| sample::record(u64::from(id) * 50 + k, id)).collect();
        folder.trial_ended(&outcome, cost_at(&outcome), records).unwrap();
        folder.flush().unwrap();
        eprintln!("kept {id}");
    }
}

#[cfg(unix)]
#[test]
fn a_killed_process_loses_no_trial_that_it_said_was_kept() {
    use std::io::BufRead;
    let base = tempdir().unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "run::tests::writes_until_it_is_killed", "--ignored", "--nocapture"])
        .env("PLIMSOLL_TEST_BASE", base.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let kept = lines.map_while(Result::ok).filter(|line| line.starts_with("kept ")).take(7).count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(kept, 7);
    let path = fs::canonicalize(base.path().join("latest")).unwrap();
    let (folder, past) = RunFolder::open(&path).unwrap();
    drop(folder);
    assert!(past.trials.len() >= kept, "{} trials", past.trials.len());
    for outcome in past.outcomes() {
        assert_eq!(past.records_of(outcome.id).unwrap().len(), 50);
    }
}

#[test]
fn a_figure_that_could_not_be_read_back_is_refused_at_once() {
    let base = tempdir().unwrap();
    let mut folder = RunFolder::create(Some(base.path()), "chat", &sample::plan()).unwrap();
    let mut outcome = sample::outcome(1, 8, TrialKind::Measure);
    outcome.summary.goodput = f64::NAN;
    folder.trial_ended(&outcome, Cost::default(), Vec::new()).unwrap();
    assert!(matches!(folder.close(), Err(RunError::Unrecordable { .. })));
}

fn any_finite() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |value| value.is_finite())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn figures_of_the_journal_come_back_bit_for_bit(
        times in prop::array::uniform4(any_finite()),
        variance in any::<u64>().prop_map(f64::from_bits),
        profile in prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 0..50),
    ) {
        let mut outcome = sample::outcome(1, 8, TrialKind::Measure);
        [outcome.began, outcome.settled, outcome.ended, outcome.completion_rate] = times;
        outcome.readings[0].variance = variance;
        outcome.readings[0].profile = profile.into_iter().filter(|point| point.is_finite()).collect();
        let frame = Frame { start: 0, end: 0, count: 0 };
        let event = Event::TrialEnded { outcome: Box::new(outcome.clone()), cost: Cost::default(), records: frame };
        let line = journal::to_line(&event).unwrap();
        let (events, len) = journal::from_bytes(Path::new("x"), &line).unwrap();
        prop_assert_eq!(len, line.len() as u64);
        let [Event::TrialEnded { outcome: back, .. }] = &events[..] else { panic!("{events:?}") };
        let bits = |outcome: &TrialOutcome| {
            let times = [outcome.began, outcome.settled, outcome.ended, outcome.completion_rate];
            let points: Vec<u32> = outcome.readings[0].profile.iter().map(|point| point.to_bits()).collect();
            (times.map(f64::to_bits), points)
        };
        prop_assert_eq!(bits(back), bits(&outcome));
        let back = back.readings[0].variance;
        prop_assert!(back.to_bits() == variance.to_bits() || (back.is_nan() && variance.is_nan()));
    }

    #[test]
    fn a_plan_comes_back_from_its_file(seed in 0..=i64::MAX as u64, timeout in 1e-3..1e6_f64) {
        let mut plan: Plan = sample::plan();
        plan.seed = seed;
        let TargetPlan::Endpoint(endpoint) = &mut plan.target else { unreachable!() };
        endpoint.timeout_seconds = timeout;
        endpoint.extra_body.insert("options".to_owned(), serde_json::json!({"a": [1, 2.5], "b": true}));
        let text = toml::to_string_pretty(&plan).unwrap();
        prop_assert_eq!(toml::from_str::<Plan>(&text).unwrap(), plan);
    }
}
