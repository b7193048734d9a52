//! `plimsoll tune` measures the default first, learns from crashes, proves its gain and can be resumed.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn plimsoll(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn tuned(out: &Path, further: &[&str]) -> (Value, PathBuf) {
    let mut arguments = vec!["tune", "--recipe", "simulated-tune", "--json", "--out", out.to_str().unwrap()];
    arguments.extend(further);
    let (code, stdout, stderr) = plimsoll(&arguments);
    assert_eq!(code, 0, "{stderr}");
    let folder = fs::read_dir(out).unwrap().next().unwrap().unwrap().path();
    (serde_json::from_str(&stdout).unwrap(), folder)
}

#[test]
fn it_measures_the_default_first_and_proves_a_gain_with_its_interval() {
    let out = tempfile::tempdir().unwrap();
    let (document, folder) = tuned(out.path(), &["--launches", "9", "--confirmations", "2"]);
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["outcome"], "tuned");
    let settings = document["settings"].as_array().unwrap();
    assert_eq!(settings[0]["setting"]["max_num_seqs"], 32, "the default comes first");
    assert_eq!(settings.iter().filter(|entry| entry["role"]["stage"] == "explore").count(), 9);
    let gain = &document["gain"];
    assert_eq!(gain["pairs"], 2);
    assert!(gain["low"].as_f64().unwrap() <= gain["estimate"].as_f64().unwrap());
    assert!(document["command"].as_str().unwrap().contains("--max-num-seqs "));
    // Nothing that failed is recommended, and every measured setting has a run folder of its own.
    let recommended = &document["recommended"]["setting"];
    for entry in settings {
        if entry["told"]["outcome"] == "failed" {
            assert_ne!(&entry["setting"], recommended);
            assert!(!entry["told"]["what"].as_str().unwrap().is_empty());
        } else {
            let run = folder.join(entry["run"].as_str().unwrap());
            assert!(run.join("plan.toml").is_file() && run.join("journal.jsonl").is_file(), "{entry}");
        }
    }
    let picture = fs::read_to_string(folder.join("importance.svg")).unwrap();
    assert!(picture.contains("max_num_seqs"));
    let kept: Value = serde_json::from_str(&fs::read_to_string(folder.join("tune.json")).unwrap()).unwrap();
    assert_eq!(kept, document);
    assert_eq!(fs::read_to_string(folder.join("settings.jsonl")).unwrap().lines().count(), settings.len());
}

#[test]
fn a_tuning_that_was_cut_goes_on_to_the_same_answer() {
    let out = tempfile::tempdir().unwrap();
    let (whole, folder) = tuned(out.path(), &["--launches", "7", "--confirmations", "2"]);
    let journal = folder.join("settings.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    // Cut in the middle of the sixth line, as a kill may leave it.
    let end = text.match_indices('\n').nth(4).unwrap().0 + 1;
    fs::write(&journal, &text[..end + 40]).unwrap();
    let (code, stdout, stderr) = plimsoll(&["resume", folder.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let resumed: Value = serde_json::from_str(&stdout).unwrap();
    assert!(stderr.starts_with("going on after 5 settings\n"), "{stderr}");
    let told = |document: &Value| -> Vec<(Value, Value)> {
        let settings = document["settings"].as_array().unwrap();
        settings.iter().map(|entry| (entry["setting"].clone(), entry["told"].clone())).collect()
    };
    assert_eq!(told(&resumed), told(&whole));
    assert_eq!(resumed["gain"], whole["gain"]);
}

/// The ready recipe on two slots, in virtual time.
fn on_two_slots(folder: &Path, tune: &str) -> PathBuf {
    let (code, text, stderr) = plimsoll(&["recipes", "show", "simulated-tune"]);
    assert_eq!(code, 0, "{stderr}");
    let recipe = folder.join("two-slots.toml");
    fs::write(
        &recipe,
        text.replace("[tune]", &format!("[tune]\n{tune}slots = [{{ gpu = 0 }}, {{ gpu = 1 }}]")),
    )
    .unwrap();
    recipe
}

#[test]
fn two_slots_try_two_settings_at_a_time_and_pairs_are_compared_within_one_slot() {
    let home = tempfile::tempdir().unwrap();
    let recipe = on_two_slots(home.path(), "");
    let run = |out: &str, further: &[&str]| {
        let out = home.path().join(out);
        let mut arguments = vec!["tune", recipe.to_str().unwrap(), "--json", "--out", out.to_str().unwrap()];
        arguments.extend(["--launches", "9", "--confirmations", "3"]);
        arguments.extend(further);
        let (code, stdout, stderr) = plimsoll(&arguments);
        assert_eq!(code, 0, "{stderr}");
        let folder = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
        (serde_json::from_str::<Value>(&stdout).unwrap(), folder, stderr)
    };
    let (document, folder, stderr) = run("runs", &["--budget", "5h"]);
    assert!(stderr.contains("setting 1 of at most 9, 0 s of 5 h 00 min, on slot 1 (gpu=0): "), "{stderr}");
    assert!(stderr.contains("setting 2 of at most 9, 0 s of 5 h 00 min, on slot 2 (gpu=1): "), "{stderr}");
    let settings = document["settings"].as_array().unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let span = |entry: &Value| {
        let began = number(&entry["began"]);
        (began, began + number(&entry["cost"]["launch"]) + number(&entry["cost"]["measure"]))
    };
    for slot in [1, 2] {
        let own: Vec<_> = settings.iter().filter(|entry| entry["slot"] == slot).map(span).collect();
        assert!(own.len() > 4, "slot {slot}: {own:?}");
        assert!(own.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one after the other: {own:?}");
    }
    // They are told in the order of their ends.
    assert!(settings.windows(2).all(|pair| span(&pair[0]).1 <= span(&pair[1]).1));
    let distinct: std::collections::BTreeSet<String> = settings
        .iter()
        .filter(|e| e["role"]["stage"] == "explore")
        .map(|e| e["setting"].to_string())
        .collect();
    assert_eq!(distinct.len(), 9, "none is tried twice");
    let elapsed = number(&document["cost"]["elapsed_seconds"]);
    assert!(elapsed < 0.75 * number(&document["cost"]["seconds"]), "{}", document["cost"]);
    let mut turns = 0;
    for turn in 0..3 {
        let mut slots = settings
            .iter()
            .filter(|entry| entry["role"]["stage"] != "explore" && entry["role"]["turn"] == turn)
            .map(|entry| &entry["slot"]);
        let first = slots.next().unwrap();
        assert!(slots.all(|slot| slot == first), "turn {turn}");
        turns += 1;
    }
    assert_eq!((turns, &document["gain"]["pairs"]), (3, &3.into()));
    assert_eq!(document["slots"][1]["values"]["gpu"], 1);

    // The same again, and after a kill: what was under way is chosen anew, from all that is known.
    assert_eq!(run("again", &["--budget", "5h"]).0["settings"], document["settings"]);
    let journal = folder.join("settings.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let end = text.match_indices('\n').nth(4).unwrap().0 + 1;
    fs::write(&journal, &text[..end + 40]).unwrap();
    let (code, stdout, stderr) = plimsoll(&["resume", folder.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let resumed: Value = serde_json::from_str(&stdout).unwrap();
    let after = resumed["settings"].as_array().unwrap();
    assert_eq!(after[..5], settings[..5]);
    let ids: std::collections::BTreeSet<u64> = after.iter().map(|e| e["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), after.len(), "every try has a number of its own");
    assert_eq!(after.iter().filter(|entry| entry["role"]["stage"] == "explore").count(), 9);
    let last = |settings: &[Value], slot: i32| {
        settings.iter().rev().find(|entry| entry["slot"] == slot).map(|entry| span(entry).1).unwrap()
    };
    for slot in [1, 2] {
        let next = after[5..].iter().find(|entry| entry["slot"] == slot).unwrap();
        assert!(span(next).0 >= last(&after[..5], slot), "the clock goes on");
    }
}

#[test]
fn the_budget_is_time_on_the_clock() {
    let home = tempfile::tempdir().unwrap();
    let recipe = on_two_slots(home.path(), "budget = '20m'\n");
    let out = home.path().join("runs");
    let (code, stdout, stderr) =
        plimsoll(&["tune", recipe.to_str().unwrap(), "--json", "--out", out.to_str().unwrap()]);
    assert_eq!(code, 0, "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let cost = &document["cost"];
    let (elapsed, all) = (cost["elapsed_seconds"].as_f64().unwrap(), cost["seconds"].as_f64().unwrap());
    assert!(elapsed < 1260.0 && all > 1260.0, "{cost}");
    assert_eq!(document["ended"]["because"], "out_of_time");
}

#[test]
fn what_cannot_be_tuned_is_said_in_a_line_with_the_mend() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("mine.toml");
    let out = folder.path().join("runs");
    let problem = |text: &str| {
        fs::write(&recipe, text).unwrap();
        let (code, stdout, stderr) =
            plimsoll(&["tune", "--recipe", recipe.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        assert!(!out.exists(), "nothing is left behind");
        stderr
    };
    assert!(problem("").starts_with("error: the recipe has no `[knobs.<name>]`"));
    let knob = "[knobs.max_num_seqs]\ntype = 'int'\nrange = [8, 64]\n";
    assert!(problem(knob).starts_with("error: knob `max_num_seqs`: `default` is missing"));
    let knob = format!("{knob}default = 32\n");
    assert!(
        problem(&format!("{knob}[knobs.nix]\ntype='flag'\ndefault=true"))
            .contains("has no knob `nix`; it has max_num_seqs")
    );
    let endpoint = format!("slo = ['ttft p95 < 1s']\n{knob}[target]\nurl = 'http://127.0.0.1:1'");
    assert!(problem(&endpoint).starts_with("error: a server that runs already cannot be launched"));
}
