//! Data flows one way: a module uses those above it, and the pure core does no I/O and reads no clock.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules, top to bottom: each may use those above it.
const ORDER: [&str; 26] = [
    "units",
    "rng",
    "stats",
    "observed",
    "space",
    "slo",
    "workload",
    "loadgen",
    "verdict",
    "metrics",
    "plan",
    "search",
    "sim",
    "recipe",
    "target",
    "telemetry",
    "run",
    "trial",
    "controller",
    "analysis",
    "profile",
    "tune",
    "capacity",
    "report",
    "selftest",
    "cli",
];

/// Modules that any other may use, and what else may be used against the order.
const AGAINST_THE_ORDER: [(&str, &str); 2] = [("*", "plan"), ("slo", "loadgen::record")];

/// Modules without I/O, clocks, environment and threads: same input, same answer.
const PURE: [&str; 16] = [
    "units",
    "rng",
    "stats",
    "observed",
    "space",
    "slo",
    "verdict",
    "metrics",
    "plan",
    "search",
    "capacity",
    "sim/fleet",
    "sim/model",
    "sim/session",
    "sim/presets",
    "telemetry/prometheus",
];

/// What those must not name.
const IMPURE: [&str; 13] = [
    "tokio",
    "reqwest",
    "axum",
    "hyper",
    "rustix",
    "std::fs",
    "std::env",
    "std::thread",
    "std::net",
    "std::process",
    "std::os",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Tests that may: a file and what it names.
const ALLOWED_IN_TESTS: [(&str, &str); 0] = [];

fn sources() -> Vec<(String, String)> {
    fn visit(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    visit(&root, &mut files);
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
    files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// The module that a file belongs to; none for the crate roots.
fn module_of(file: &str) -> Option<&str> {
    let module = file.split('/').next().unwrap().trim_end_matches(".rs");
    (!matches!(module, "lib" | "main")).then_some(module)
}

/// Code without comments. `://` of a URL does not begin one.
fn without_comments(text: &str) -> String {
    let code = |line: &str| {
        let starts = line.match_indices("//").find(|&(at, _)| !line[..at].ends_with(':'));
        starts.map_or(line, |(at, _)| &line[..at]).to_owned()
    };
    text.lines().map(|line| code(line) + "\n").collect()
}

/// Every path with a `::` in the code, groups in braces written out: `a::{b, c::d}` gives `a::b`, `a::c::d`.
fn paths(code: &str) -> BTreeSet<String> {
    let code: String =
        code.split_whitespace().collect::<Vec<_>>().join(" ").replace(":: ", "::").replace(" ::", "::");
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = BTreeSet::new();
    let mut prefixes = vec![String::new()];
    let mut rest = code.as_str();
    while let Some(next) = rest.chars().next() {
        if is_path(next) {
            let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
            let path = format!("{}{}", prefixes.last().unwrap(), &rest[..end]);
            rest = &rest[end..];
            if path.ends_with("::") && rest.starts_with('{') {
                prefixes.push(path);
                rest = &rest[1..];
            } else if path.contains("::") {
                found.insert(path.trim_start_matches(':').to_owned());
            }
            continue;
        }
        match next {
            '{' => prefixes.push(String::new()),
            '}' if prefixes.len() > 1 => drop(prefixes.pop()),
            _ => {}
        }
        rest = &rest[next.len_utf8()..];
    }
    found
}

fn is_within(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn a_module_uses_only_those_above_it() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let Some(module) = module_of(&file) else { continue };
        let Some(place) = ORDER.iter().position(|name| *name == module) else {
            wrong.push(format!("src/{file}: `{module}` has no place in the order"));
            continue;
        };
        for path in paths(&without_comments(&text)) {
            let Some(used) = path.strip_prefix("crate::") else { continue };
            let excepted = AGAINST_THE_ORDER
                .iter()
                .any(|(user, what)| (*user == "*" || *user == module) && is_within(used, what));
            let name = used.split("::").next().unwrap();
            match ORDER.iter().position(|other| *other == name) {
                Some(other) if other <= place || excepted => {}
                _ => wrong.push(format!("src/{file}: `{module}` must not use `{path}`")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_pure_core_does_no_io_and_reads_no_clock() {
    let mut wrong = Vec::new();
    let mut needed = BTreeSet::new();
    for (file, text) in sources() {
        let place = file.trim_end_matches(".rs");
        if !PURE.iter().any(|pure| place == *pure || place.starts_with(&format!("{pure}/"))) {
            continue;
        }
        for path in paths(&without_comments(&text)) {
            if !IMPURE.iter().any(|impure| is_within(&path, impure)) {
                continue;
            }
            match ALLOWED_IN_TESTS.iter().find(|(test, what)| *test == file && is_within(&path, what)) {
                Some(entry) => drop(needed.insert(*entry)),
                None => wrong.push(format!("src/{file}: `{path}` in a pure place")),
            }
        }
    }
    wrong.extend(
        ALLOWED_IN_TESTS
            .iter()
            .filter(|entry| !needed.contains(*entry))
            .map(|entry| format!("{entry:?}: not needed")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn paths_are_found_in_groups_and_in_code() {
    let code = "use std::{fs, time::{Duration, Instant}};\nfn f() { let a = crate::plan::Plan::new(); tokio::spawn(b) }";
    let found: Vec<String> = paths(code).into_iter().collect();
    let expected =
        ["crate::plan::Plan::new", "std::fs", "std::time::Duration", "std::time::Instant", "tokio::spawn"];
    assert_eq!(found, expected);
    assert_eq!(without_comments("let url = \"http://a\"; // crate::cli"), "let url = \"http://a\"; \n");
}
