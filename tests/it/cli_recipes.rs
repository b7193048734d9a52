//! The ready recipes can be listed, shown, copied and checked.

use assert_cmd::Command;
use plimsoll::recipe::READY;

fn stdout(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_ready_recipe_is_listed_with_its_description() {
    insta::assert_snapshot!(stdout(&["recipes", "list"]));
}

#[test]
fn a_shown_recipe_can_be_saved_and_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    for ready in READY {
        let path = folder.path().join("copy.toml");
        let text = stdout(&["recipes", "show", ready.name]);
        assert_eq!(text, ready.text);
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(stdout(&["recipes", "validate", path]), format!("`{path}` is valid\n"));
    }
}

#[test]
fn a_recipe_that_leaves_the_server_to_the_flags_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, "[target]\nmodel = \"m\"\n").unwrap();
    assert!(stdout(&["recipes", "validate", path.to_str().unwrap()]).ends_with(" is valid\n"));
}

#[test]
fn the_committed_schema_is_current() {
    let committed =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes/recipe.schema.json"));
    assert!(
        committed.unwrap() == stdout(&["recipes", "schema"]),
        "renew it: cargo run -- recipes schema > recipes/recipe.schema.json"
    );
}
