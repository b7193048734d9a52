//! `plimsoll check` says what is wrong before any load, and two runs never share an endpoint by accident.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use plimsoll::sim::http::{Faults, Options};
use plimsoll::sim::presets;
use plimsoll::target::EndpointLock;
use serde_json::Value;

use crate::simulator_client::Server;
use crate::support;

/// Runs the program with a runtime folder of its own.
async fn plimsoll(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.current_dir(folder).env("XDG_RUNTIME_DIR", folder).args(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn check(server: &Server, arguments: &[&str]) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}", server.address);
    let output = plimsoll(folder.path(), &[&["check", &url, "--json"], arguments].concat()).await;
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a check leaves no file behind");
    (output.status.code(), report)
}

fn line<'a>(report: &'a Value, name: &str) -> &'a Value {
    let lines = report["lines"].as_array().unwrap();
    lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no `{name}` in {report:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_server_passes_every_point() {
    let server = Server::start(presets::SMALL, Options::default()).await;
    let (code, report) = check(&server, &["--concurrency", "1..64"]).await;
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!((&report["schema_version"], &report["valid"]), (&1.into(), &true.into()));
    for name in [
        "reachable",
        "clock",
        "model",
        "other load",
        "streaming",
        "usage",
        "output length",
        "tokens",
        "prefix cache",
        "connections",
    ] {
        assert_eq!(line(&report, name)["status"], "ok", "{report:#}");
    }
    // How much a client can hold is the machine's; that it is told is the promise.
    assert!(report["figures"]["client"]["holds"].as_u64().unwrap() > 0);
    assert!(report["figures"]["round_trip"].as_f64().unwrap() > 0.0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buffered_stream_fails_with_its_mend() {
    let faults = Faults { buffered: 1.0, ..Faults::default() };
    let server = Server::start(presets::SMALL, Options { faults, ..Options::default() }).await;
    let (code, report) = check(&server, &[]).await;
    assert_eq!(code, Some(5), "{report:#}");
    assert_eq!(line(&report, "streaming")["status"], "fail");
    assert!(line(&report, "streaming")["mend"].as_str().unwrap().contains("proxy"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let output = plimsoll(folder.path(), &["check", &format!("http://127.0.0.1:{port}")]).await;
    assert_eq!(output.status.code(), Some(6));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("fail  reachable") && text.contains("refused"), "{text}");
    assert!(text.contains("the server cannot be reached"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_run_on_an_endpoint_stops_before_it_sends_anything_and_names_the_first() {
    let server = support::Server::fixed(support::good_answer()).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}", server.addr);
    let first =
        EndpointLock::take_in(&folder.path().join("plimsoll"), &url, Path::new("/runs/first")).unwrap();
    let arguments = ["measure", "--url", &url, "--concurrency", "1", "--requests", "1"];
    let output = plimsoll(folder.path(), &arguments).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let pid = format!("process {}", std::process::id());
    for part in [pid.as_str(), "/runs/first", "--force"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    assert_eq!(server.requests.load(std::sync::atomic::Ordering::SeqCst), 0);
    // Told to, it goes ahead; this server does not even list a model.
    let output = plimsoll(folder.path(), &[arguments.as_slice(), &["--force"]].concat()).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("warning: ") && stderr.contains("/runs/first"), "{stderr}");
    assert!(server.requests.load(std::sync::atomic::Ordering::SeqCst) > 0);
    drop(first);
}
