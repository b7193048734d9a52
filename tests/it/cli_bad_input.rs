//! Bad input gives one clear line with the mend, exit code 2, and nothing is written.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

/// What the program says to stderr, run in an empty folder that must stay as it is.
fn complaint_in(folder: &Path, arguments: &[&str]) -> String {
    let listing =
        || fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let before = listing();
    let output =
        Command::new(env!("CARGO_BIN_EXE_plimsoll")).current_dir(folder).args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert_eq!(listing(), before, "{arguments:?} wrote a file");
    stderr
}

fn complaint(arguments: &[&str]) -> String {
    complaint_in(tempfile::tempdir().unwrap().path(), arguments)
}

/// Asserts that the complaint is a line `error: ...` that holds `error`, and then, where `hint` is
/// not empty, a line `hint: ...` that holds it.
#[track_caller]
fn assert_complaint(arguments: &[&str], error: &str, hint: &str) {
    let stderr = complaint(arguments);
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].starts_with("error: ") && lines[0].contains(error), "{arguments:?}: {stderr}");
    match hint {
        "" => assert_eq!(lines.len(), 1, "{arguments:?}: {stderr}"),
        hint => {
            assert_eq!(lines.len(), 2, "{arguments:?}: {stderr}");
            assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{arguments:?}: {stderr}");
        }
    }
}

#[test]
fn an_unknown_command_or_flag_is_answered_with_the_likely_one() {
    assert_complaint(&["serach"], "unrecognized subcommand 'serach'", "'search'");
    assert_complaint(&["search", "--slos", "x"], "unexpected argument '--slos'", "'--slo'");
    assert_complaint(&["measure", "--banana"], "unexpected argument '--banana'", "plimsoll measure --help");
}

#[test]
fn a_missing_or_contradictory_flag_is_named() {
    assert_complaint(
        &["measure"],
        "not provided: <--concurrency <N>|--rate <RATE>",
        "plimsoll measure --help",
    );
    let both = ["measure", "--concurrency", "4", "--requests", "3", "--duration", "3s"];
    assert_complaint(&both, "'--requests <K>' cannot be used with '--duration", "plimsoll measure --help");
    let both = ["search", "--url", "http://127.0.0.1:1", "--simulated", "small"];
    assert_complaint(&both, "'--url <URL>' cannot be used with '--simulated", "plimsoll search --help");
}

#[test]
fn a_value_that_cannot_be_read_is_shown_with_the_mend() {
    for (flag, value, expected) in [
        ("--concurrency", "9..1", "`--concurrency`: `9..1` runs backwards; write `1..9`"),
        ("--concurrency", "0..8", "the lower end of `0..8`: `0` is too few"),
        ("--concurrency", "8", "measure --concurrency 8"),
        ("--precision", "10", "`10` is above 1; did you mean `10%`?"),
        ("--budget", "5", "`5` has no unit; write `5s` for seconds or `5m` for minutes"),
        ("--isl", "lots", "`lots` is not a length in tokens; write `100`"),
        ("--engine", "vlm", "did you mean `vllm`?"),
        ("--strategy", "magic", "there are `adaptive`, `bisect`, `grid`"),
        ("--levels", "1,two", "`two` is not a whole number"),
        ("--speed", "0", "outside 0.01 to 1000"),
    ] {
        assert_complaint(&["search", flag, value], expected, "");
    }
}

#[test]
fn an_objective_that_cannot_be_read_points_at_the_character() {
    let stderr = complaint(&["search", "--slo", "ttft p95 500ms"]);
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].starts_with("error: SLO: expected `<`"), "{stderr}");
    assert_eq!(lines[1..], ["  ttft p95 500ms", "           ^"]);
}

#[test]
fn flags_that_do_not_go_together_are_named() {
    let url = "http://127.0.0.1:1";
    assert_complaint(&["search", "--url", url], "no SLO is given", "--slo 'ttft p95 < 500ms'");
    assert_complaint(&["search", "--url", "localhost:8000"], "no `http://`", "`http://localhost:8000`");
    assert_complaint(
        &["search", "--model", "m"],
        "`target.model` is given, but no `target.url` (`--url`)",
        "leave",
    );
    let arguments = ["search", "--url", url, "--no-stream", "--slo", "ttft p95 < 1s"];
    assert_complaint(&arguments, "not streamed", "`e2e`");
    let arguments = ["search", "--levels", "1,99", "--concurrency", "1..8"];
    assert_complaint(&arguments, "level 99 of `strategy.levels` (`--levels`) is outside", "widen");
    assert_complaint(
        &["search", "--strategy", "bisect", "--levels", "1"],
        "the strategy is not `grid`",
        "--strategy grid",
    );
    assert_complaint(&["search", "--simulated", "smal"], "has no preset `smal`", "did you mean `small`?");
    assert_complaint(&["search", "--isl", "5000"], "do not fit the context of 4096 tokens", "--isl");
    assert_complaint(&["simulate", "--preset", "huge"], "has no preset `huge`", "`small`");
}

#[test]
fn a_header_that_may_hold_a_key_is_not_shown() {
    let stderr = complaint(&["search", "--url", "http://127.0.0.1:1", "--header", "sk-hunter2"]);
    assert!(stderr.contains("`--header`") && !stderr.contains("hunter2"), "{stderr}");
}

#[test]
fn a_recipe_that_cannot_be_used_is_named_with_file_line_and_field() {
    assert_complaint(&["search", "--recipe", "caht"], "no recipe is called `caht`", "did you mean `chat`?");
    assert_complaint(&["search", "--recipe", "none.toml"], "cannot read recipe `none.toml`", "");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("my.toml"), "seed = 1\n[load]\nconcurency = \"1..8\"\n").unwrap();
    let stderr = complaint_in(folder.path(), &["search", "--recipe", "my.toml"]);
    assert_eq!(
        stderr,
        "error: recipe `my.toml`, line 3: `[load]` has no field `concurency`\n\
         hint: did you mean `concurrency`? (`[load]` has `concurrency`, `rate`, `arrivals`, `in_flight_cap`, `series`, `ramp`, `ramp_users`, `replay`, `think`)\n"
    );
    fs::write(folder.path().join("my.toml"), "[load]\nconcurrency = \"8..1\"\n").unwrap();
    let stderr = complaint_in(folder.path(), &["recipes", "validate", "my.toml"]);
    assert_eq!(
        stderr,
        "error: recipe `my.toml`, line 2, `load.concurrency`: `8..1` runs backwards; write `1..8`\n"
    );
    fs::write(folder.path().join("my.toml"), "[target]\nsimulated = \"smal\"\n").unwrap();
    let stderr = complaint_in(folder.path(), &["recipes", "validate", "my.toml"]);
    assert!(
        stderr
            .starts_with("error: recipe `my.toml`: the simulated engine has no preset `smal`\nhint: did you"),
        "{stderr}"
    );
}

#[test]
fn a_folder_that_is_no_run_is_told_from_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let hint = |arguments: &[&str]| {
        let stderr = complaint_in(path, arguments);
        let lines: Vec<&str> = stderr.lines().collect();
        assert!(lines[0].starts_with("error: ") && lines.len() == 2, "{arguments:?}: {stderr}");
        lines[1].strip_prefix("hint: ").unwrap().to_owned()
    };
    for run in [
        &["report"][..],
        &["watch"],
        &["replay"],
        &["resume"],
        &["soak"],
        &["analyze"],
        &["gate", "--baseline"],
    ] {
        let nowhere = [run, &["nowhere"]].concat();
        assert!(hint(&nowhere).contains("there is no such folder"), "{run:?}");
    }
    assert!(hint(&["compare", "nowhere", "nowhere"]).contains("`runs/latest`"));
    fs::create_dir_all(path.join("runs/one")).unwrap();
    fs::write(path.join("runs/one/plan.toml"), "").unwrap();
    fs::write(path.join("runs/one/summary.json"), "").unwrap();
    assert_eq!(hint(&["report", "runs"]), "it holds runs; name one of them, such as `runs/one`");
    assert_eq!(
        hint(&["report", "runs/one/summary.json"]),
        "it is a file of a run; give the folder: `runs/one`"
    );
    for (file, what) in [("profile.toml", "it is a profile"), ("tune.toml", "it is a tuning")] {
        fs::create_dir(path.join(file.replace('.', "-"))).unwrap();
        fs::write(path.join(file.replace('.', "-")).join(file), "").unwrap();
        assert!(hint(&["watch", &file.replace('.', "-")]).starts_with(what), "{file}");
    }
    fs::create_dir(path.join("several")).unwrap();
    fs::write(path.join("several/repeats.toml"), "").unwrap();
    let several = hint(&["watch", "several"]);
    assert!(several.contains("name one of the runs in `") && several.ends_with("several/runs`"), "{several}");
}

#[test]
fn a_profile_that_cannot_be_drawn_is_refused_before_any_load() {
    assert_complaint(&["profile"], "not provided: <WHAT>", "plimsoll profile --help");
    assert_complaint(&["profile", "prefill", "--isl", "1,2"], "a curve needs 4", "--isl 128..8192");
    assert_complaint(&["profile", "decode", "--isl", "1,x"], "`x` is not a whole number", "");
    assert_complaint(
        &["profile", "pareto", "--isl", "4096"],
        "do not fit the context of 4096 tokens",
        "--isl",
    );
    assert_complaint(&["profile", "--recipe", "chat"], "it is not said what is profiled", "prefill");
}
