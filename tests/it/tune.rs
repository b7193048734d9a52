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
