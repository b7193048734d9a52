//! The help of each command says what it does, plainly, with an example.

use assert_cmd::Command;

fn help(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_plimsoll")).env_remove("COLUMNS").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    // Blank lines within an option's text keep its indent; editors would strip it from the snapshot.
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[test]
fn help_of_the_program() {
    insta::assert_snapshot!(help(&["--help"]));
}

#[test]
fn help_of_search() {
    insta::assert_snapshot!(help(&["search", "--help"]));
}

#[test]
fn help_of_measure() {
    insta::assert_snapshot!(help(&["measure", "--help"]));
}

#[test]
fn help_of_check() {
    insta::assert_snapshot!(help(&["check", "--help"]));
}

#[test]
fn help_of_tune() {
    insta::assert_snapshot!(help(&["tune", "--help"]));
}

#[test]
fn help_of_profile() {
    insta::assert_snapshot!(help(&["profile", "--help"]));
}

#[test]
fn help_of_simulate() {
    insta::assert_snapshot!(help(&["simulate", "--help"]));
}

#[test]
fn help_of_recipes() {
    insta::assert_snapshot!(help(&["recipes", "--help"]));
}

#[test]
fn help_of_selftest() {
    insta::assert_snapshot!(help(&["selftest", "--help"]));
}

#[test]
fn help_of_report() {
    insta::assert_snapshot!(help(&["report", "--help"]));
}

#[test]
fn help_of_watch() {
    insta::assert_snapshot!(help(&["watch", "--help"]));
}

#[test]
fn each_commands_help_has_an_example() {
    for command in [
        "search", "measure", "check", "tune", "plan", "analyze", "compare", "gate", "soak", "simulate",
        "recipes", "selftest", "report", "watch",
    ] {
        assert!(help(&[command, "--help"]).contains(&format!("  plimsoll {command}")), "{command}");
    }
}
