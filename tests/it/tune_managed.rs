//! A tuning that launches real processes learns from those that crash, and leaves none behind.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// Longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// One small load, few requests and an SLO that holds: a search takes a moment.
const QUICK: &str = "
slo = ['e2e p95 < 60s']
[target]
streaming = false
[load]
concurrency = '1..4'
[workload]
isl = 16
osl = 8
[strategy]
kind = 'grid'
levels = [4]
[trial]
requests = 20
";

fn recipe(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("quick.toml");
    fs::write(&path, format!("{QUICK}{text}")).unwrap();
    path
}

fn entries(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The only folder below `out`, once it is there.
fn folder_in(out: &Path) -> Option<PathBuf> {
    let mut folders = fs::read_dir(out).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    folders.find(|path| path.join("tune.toml").is_file())
}

/// The processes that were launched, with their supervisors.
fn launched(tuning: &Path) -> Vec<i64> {
    let lines = entries(&tuning.join("launches.jsonl"));
    let launched = lines.iter().filter_map(|line| line.get("launched"));
    launched.flat_map(|one| [one["pid"].as_i64().unwrap(), one["supervisor"].as_i64().unwrap()]).collect()
}

fn is_there(pid: &i64) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what} did not come to pass");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn finished(arguments: &[&str]) -> (Value, String) {
    let output = Command::new(PLIMSOLL).args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    (serde_json::from_slice(&output.stdout).unwrap(), stderr)
}

#[test]
fn a_tuning_that_was_killed_goes_on_without_what_crashed_and_leaves_no_process() {
    let home = tempfile::tempdir().unwrap();
    // No memory holds the steps of a million sequences: that setting ends at its start.
    let recipe = recipe(
        home.path(),
        "
[engine]
launch = ['{{ plimsoll }}', 'simulate', '--port', '{{ port }}', '--max-num-seqs', '{{ knobs.max_num_seqs }}']
[knobs.max_num_seqs]
type = 'int'
values = [1, 4, 1000000]
default = 1
[tune]
settings = [{ max_num_seqs = 1000000 }, { max_num_seqs = 4 }]
confirmations = 1
",
    );
    let out = home.path().join("runs");
    let mut first = Command::new(PLIMSOLL)
        .args(["tune", "--quiet", "--recipe", recipe.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // In the middle of the third setting.
    wait_for("a third launch", || folder_in(&out).is_some_and(|tuning| launched(&tuning).len() == 6));
    first.kill().unwrap();
    first.wait().unwrap();
    let tuning = folder_in(&out).unwrap();
    assert_eq!(entries(&tuning.join("settings.jsonl")).len(), 2);

    let (document, stderr) = finished(&["resume", tuning.to_str().unwrap(), "--json"]);
    assert!(stderr.contains("going on after 2 settings\n"), "{stderr}");
    let settings = document["settings"].as_array().unwrap();
    let crashed = &settings[1];
    assert_eq!(crashed["setting"]["max_num_seqs"], 1_000_000);
    assert_eq!(
        (&crashed["told"]["outcome"], &crashed["told"]["kind"]),
        (&"failed".into(), &"out_of_memory".into())
    );
    let tail = crashed["told"]["log_tail"].to_string();
    assert!(tail.contains("out of memory"), "{tail}");
    assert!(tuning.join(crashed["log"].as_str().unwrap()).is_file());
    assert_eq!(settings.iter().filter(|entry| entry["told"]["outcome"] == "measured").count(), 4);
    assert_eq!(document["best"]["setting"]["max_num_seqs"], 4);
    assert!(document["command"].as_str().unwrap().contains(" simulate --port "), "{}", document["command"]);
    for entry in settings.iter().filter(|entry| entry["told"]["outcome"] == "measured") {
        assert!(tuning.join(entry["run"].as_str().unwrap()).join("journal.jsonl").is_file(), "{entry}");
    }
    let processes = launched(&tuning);
    assert_eq!(processes.len(), 2 * 6, "default, crash, two tries of the third, and the pair");
    wait_for("the end of every process", || !processes.iter().any(is_there));
}

#[test]
fn knobs_that_need_no_restart_are_set_on_the_engine_that_runs() {
    let home = tempfile::tempdir().unwrap();
    let told = home.path().join("told");
    let text = format!(
        "
[engine]
launch = ['{{{{ plimsoll }}}}', 'simulate', '--port', '{{{{ port }}}}', '--speed', '20']
reset = ['sh', '-c', 'echo {{{{ knobs.level }}}} >> {}']
[knobs.level]
type = 'int'
range = [1, 3]
default = 2
restart = false
[tune]
design = 'zip'
confirmations = 0
",
        told.display()
    );
    let recipe = recipe(home.path(), &text);
    let out = home.path().join("runs");
    let arguments = ["tune", "--json", "--recipe", recipe.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let (document, _) = finished(&arguments);
    assert_eq!(document["settings"].as_array().unwrap().len(), 3);
    let tuning = folder_in(&out).unwrap();
    assert_eq!(launched(&tuning).len(), 2, "one engine and its supervisor");
    let mut levels: Vec<String> = fs::read_to_string(&told).unwrap().lines().map(str::to_owned).collect();
    levels.dedup();
    assert_eq!(levels[0], "2", "the default comes first");
    levels.sort();
    assert_eq!(levels, ["1", "2", "3"]);
}
