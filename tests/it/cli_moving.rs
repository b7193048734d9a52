//! The program on the embedded engine: objectives over windows, ramps of users, the speed-up of a trace.

use std::fmt::Write;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn plimsoll(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_plimsoll")).current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = plimsoll(folder, &[arguments, &["--json", "--quiet"]].concat());
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{code} {error}: {stdout}{stderr}"))
}

/// The one run folder there is.
fn run_of(folder: &Path) -> std::path::PathBuf {
    let mut runs = std::fs::read_dir(folder.join("runs")).unwrap().map(|entry| entry.unwrap().path());
    runs.find(|path| !path.is_symlink()).unwrap()
}

#[test]
fn a_measurement_holds_whole_windows_and_names_the_worst() {
    let folder = tempfile::tempdir().unwrap();
    let measure = ["measure", "--concurrency", "8", "--slo", "e2e p95 < 10s over 2s worst", "--speed", "4"];
    let document = json(folder.path(), &[&measure[..], &["--duration", "7s"]].concat());
    let objective = &document["objectives"][0];
    assert_eq!(objective["objective"], "e2e p95 < 10 s over 2 s worst");
    assert_eq!((&objective["windows"]["count"], &objective["windows"]["missed"]), (&3.into(), &0.into()));
    assert_eq!(objective["met"], true);
    // Where nothing says how long, it is long enough for five.
    let document = json(folder.path(), &measure);
    assert_eq!(document["objectives"][0]["windows"]["count"], 10, "20 s at least");
    let (code, _, error) = plimsoll(folder.path(), &[&measure[..], &["--duration", "1s"]].concat());
    assert_eq!(code, 2);
    assert!(error.contains("less than a window of `e2e p95 < 10 s over 2 s worst`"), "{error}");
    let search = ["search", "--slo", "ttft p95 < 1s over 30s", "--budget", "2m"];
    let (code, _, error) = plimsoll(folder.path(), &search);
    assert_eq!(code, 2);
    assert!(error.contains("does not hold two trials of 2 min 30 s"), "{error}");
}

#[test]
fn a_ramp_of_users_is_told_slice_by_slice() {
    let folder = tempfile::tempdir().unwrap();
    let ramp = ["measure", "--ramp-users", "linear(1..24 in 24s)", "--slo", "e2e p95 < 60s", "--speed", "4"];
    let document = json(folder.path(), &ramp);
    let slices = document["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 12);
    let in_flight: Vec<f64> = slices.iter().map(|slice| slice["in_flight"].as_f64().unwrap()).collect();
    assert!(in_flight.windows(2).all(|pair| pair[1] > pair[0]), "{in_flight:?}");
    assert!(in_flight[0] < 3.5 && in_flight[11] > 21.0, "{in_flight:?}");
    assert!(slices.iter().all(|slice| slice["ttft"]["p95"].is_number()), "{slices:?}");
    let run = run_of(folder.path());
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("\"slices\":[{\"from\":0.0"), "the page has no slices");
    let plan = std::fs::read_to_string(run.join("plan.toml")).unwrap();
    assert!(plan.contains("[ramp]") && plan.contains("shape = \"linear\""), "{plan}");
    let (code, _, error) = plimsoll(folder.path(), &["measure", "--ramp-users", "linear(1..5/s in 9s)"]);
    assert_eq!(code, 2);
    assert!(error.contains("a ramp of rates is written"), "{error}");
}

#[test]
fn a_trace_is_searched_over_its_speed_up_and_the_run_is_read_by_the_other_commands() {
    let folder = tempfile::tempdir().unwrap();
    // 120 requests within 15 s, half of them within a third of the time. All at once they take some 1.5 s.
    let mut trace = String::from("timestamp,isl,osl\n");
    let mut at = 0.0;
    for k in 0..120 {
        writeln!(trace, "{at:.3},{},{}", 60 + 7 * (k % 20), 130 + 3 * (k % 15)).unwrap();
        at += if (30..90).contains(&k) { 0.08 } else { 0.17 };
    }
    std::fs::write(folder.path().join("t.csv"), trace).unwrap();
    let search = [
        "search",
        "--trace",
        "t.csv",
        "--speed-up",
        "0.5..200",
        "--slo",
        "e2e p90 < 600ms",
        "--speed",
        "2",
        "--precision",
        "60%",
        "--budget",
        "3m",
    ];
    let (code, screen, error) = plimsoll(folder.path(), &[&search[..], &["--quiet"]].concat());
    assert_eq!(code, 0, "{screen}{error}");
    assert!(screen.starts_with("this trace at "), "{screen}");
    assert!(screen.contains(" x under the SLO (95 % CI "), "{screen}");
    assert!(screen.contains("plimsoll measure --trace t.csv --speed-up "), "{screen}");
    let run = run_of(folder.path());
    let path = run.to_str().unwrap();
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(run.join("summary.json")).unwrap()).unwrap();
    let found = summary["answer"]["load"]["speed_up"].as_f64().unwrap();
    assert!((0.5..=200.0).contains(&found), "{found}");
    for trial in summary["trials"].as_array().unwrap().iter().filter(|trial| trial["kind"] != "warmup") {
        assert!(trial["load"]["speed_up"].is_number(), "{trial}");
        let whole = trial["arrivals"]["cut"] == true || trial["arrivals"]["due"] == 120;
        assert!(whole, "{trial}");
    }
    let curve = std::fs::read_to_string(run.join("curve.csv")).unwrap();
    assert!(curve.starts_with("trial,kind,concurrency,request_rate,speed_up,"), "{curve}");
    let (code, again, error) = plimsoll(folder.path(), &["replay", path, "--json"]);
    assert_eq!(code, 0, "{error}");
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["answer"], summary["answer"]);
    let (code, _, _) = plimsoll(folder.path(), &["resume", path, "--quiet"]);
    assert_eq!(code, 0);
    for (arguments, problem) in [
        (vec!["plan", path, "--rate", "5"], "says how many times faster one trace may come"),
        (vec!["analyze", path], "holds speed-ups of a trace"),
        (vec!["search", "--trace", "t.csv", "--speed-up", "2"], "needs a range of speed-ups"),
        (vec!["measure", "--trace", "t.csv", "--speed-up", "1..2"], "and one is measured"),
    ] {
        let (code, _, error) = plimsoll(folder.path(), &arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(problem), "{arguments:?}: {error}");
    }
}
