//! The report's page, in a real browser: it draws without a fault, and what it says is the summary.

use std::path::Path;
use std::process::Command;

use plimsoll::recipe::{Purpose, Recipe};
use plimsoll::run::RunFolder;
use serde_json::Value;

use crate::stored_runs::{finished, plan, search};

/// A headless browser, if this machine has one.
fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
}

/// The page as the browser has it after its script has run, and what the script told the console.
fn open(browser: &str, page: &Path, profile: &Path) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let console: String = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    (String::from_utf8(output.stdout).unwrap(), console)
}

/// The value that the page's headline shows for a field of the answer.
fn shown<'a>(dom: &'a str, field: &str) -> &'a str {
    let (_, rest) = dom.split_once(&format!("data-field=\"{field}\" data-value=\"")).unwrap();
    rest.split_once('"').unwrap().0
}

#[test]
fn the_page_draws_without_a_fault_and_says_what_the_summary_says() {
    let out = tempfile::tempdir().unwrap();
    let mut plan = plan();
    plan.name = "</script><img src=x onerror=\"document.title='pwned'\">".to_owned();
    let run = finished(out.path(), &plan);
    let written =
        assert_cmd::Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("report").arg(&run).output().unwrap();
    assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
    let paths = String::from_utf8(written.stdout).unwrap();
    let page = run.join("report.html");
    assert_eq!(paths.lines().last(), page.to_str());
    let Some(browser) = browser() else {
        println!("skipped: no chromium, chromium-browser or google-chrome on this machine");
        return;
    };
    let (dom, console) = open(browser, &page, &out.path().join("profile"));
    assert_eq!(console, "");
    assert!(dom.contains("data-ready=\"yes\""), "the script came to no end");
    assert!(dom.contains("<div id=\"errors\" role=\"alert\" hidden=\"\"></div>"));
    assert!(!dom.contains("<img") && !dom.contains("<title>pwned"), "a name became markup");

    let summary: Value = serde_json::from_slice(&std::fs::read(run.join("summary.json")).unwrap()).unwrap();
    let answer = &summary["answer"];
    let number = |field: &str| shown(&dom, field).parse::<f64>().unwrap();
    assert_eq!(Some(number("load")), answer["load"]["concurrency"].as_f64());
    assert_eq!(Some(number("safe_load")), answer["safe_load"]["concurrency"].as_f64());
    assert_eq!(Some(number("goodput")), answer["goodput"]["requests_per_second"].as_f64());
    assert_eq!(shown(&dom, "outcome"), summary["outcome"]);
    let binding = answer["binding_objective"].as_str().unwrap();
    assert_eq!(shown(&dom, "binding_objective").replace("&lt;", "<"), binding);
    let trials = summary["trials"].as_array().unwrap().len();
    let (_, table) = dom.split_once("<tbody>").unwrap();
    assert_eq!(table.split_once("</tbody>").unwrap().0.matches("<tr").count(), trials);
    // A chart for each objective, throughput, the course, a trial, and TTFT and ITL where there are samples.
    let has = |metric: &str| {
        let samples = |trial: &Value| trial["metrics"][metric]["n"].as_u64().unwrap_or(0);
        usize::from(summary["trials"].as_array().unwrap().iter().any(|trial| samples(trial) > 0))
    };
    let objectives = summary["slo"].as_array().unwrap().len();
    assert_eq!(dom.matches("<figure").count(), objectives + 3 + has("ttft") + has("itl"));
}

#[test]
fn a_hundred_thousand_requests_are_a_page_of_less_than_ten_megabytes() {
    let out = tempfile::tempdir().unwrap();
    let recipe = "[strategy]\nlevels = [48]\n[trial]\nrequests = 100_000\nmax_duration = '2h'";
    let recipe = Recipe::from_toml(recipe, "large").unwrap();
    let plan = recipe.into_plan(Some("large"), Purpose::Measure).unwrap();
    let mut folder = RunFolder::create(Some(out.path()), "large", &plan).unwrap();
    let found = search(&plan, &mut folder, &[], 1);
    assert!(found.cost.requests > 100_000);
    let run = folder.path().to_owned();
    folder.close().unwrap();
    let report =
        assert_cmd::Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("report").arg(&run).output().unwrap();
    assert_eq!(report.status.code(), Some(0), "{}", String::from_utf8_lossy(&report.stderr));
    let page = run.join("report.html");
    let bytes = std::fs::metadata(&page).unwrap().len();
    assert!(bytes < 10_000_000, "{bytes} bytes");
    let Some(browser) = browser() else {
        println!("skipped: no browser on this machine to open it in");
        return;
    };
    let (dom, console) = open(browser, &page, &out.path().join("profile"));
    assert_eq!(console, "");
    assert!(dom.contains("data-ready=\"yes\""), "the script came to no end");
}
