//! Telemetry of small servers.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;

use super::*;
use crate::loadgen::Secret;
use crate::plan::SimulatedPlan;
use crate::recipe::{Purpose, Recipe};

const PAGE: &str = include_str!("../../tests/data/metrics/vllm.txt");

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn plan(dcgm: Option<String>, gpu: GpuChoice) -> TelemetryPlan {
    TelemetryPlan { gpu, dcgm }
}

fn simulated() -> TargetPlan {
    TargetPlan::Simulated(SimulatedPlan { preset: "small".to_owned(), speed: 1.0 })
}

/// Waits until `done` holds.
async fn until(done: impl Fn() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not come about");
}

#[tokio::test]
async fn a_trial_gets_what_the_server_and_this_machine_said_and_the_file_every_look() {
    let router = Router::new().route(
        "/prometheus/metrics",
        get(|headers: HeaderMap| async move {
            match headers.get("authorization").and_then(|key| key.to_str().ok()) {
                Some("Bearer hidden") => (StatusCode::OK, PAGE),
                _ => (StatusCode::UNAUTHORIZED, ""),
            }
        }),
    );
    let mut client = ClientOptions::new(serve(router).await, "m");
    client.api_key = Some(Secret::new("hidden"));
    let telemetry = Telemetry::start(&client, &plan(None, GpuChoice::Auto), &simulated()).await.unwrap();
    telemetry.set_clock(100.0);
    until(|| telemetry.log().server.last().is_some_and(|look| look.at >= 100.0)).await;
    let figures = telemetry.figures(100.0, 200.0);
    let server = figures.server.unwrap();
    assert_eq!(server.running.unwrap().max, 4.0);
    assert_eq!(server.waiting_share, Some(1.0));
    assert_eq!(figures.gpu, None);
    let lines = String::from_utf8(telemetry.take_lines()).unwrap();
    assert!(!lines.contains("hidden"));
    let looks: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_server = looks.iter().find(|look| look["source"] == "server").unwrap();
    assert_eq!(of_server["values"]["waiting"], 6.0);
    assert!(of_server["at"].is_number());
    assert_eq!(looks.iter().any(|look| look["source"] == "host"), cfg!(target_os = "linux"));
    assert!(telemetry.take_lines().is_empty());
}

#[tokio::test]
async fn a_server_without_metrics_is_asked_a_few_times_and_then_left_alone() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let router = Router::new().fallback(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        async { (StatusCode::NOT_FOUND, "nothing here") }
    });
    let mut metrics = Metrics::new(&ClientOptions::new(serve(router).await, "m")).unwrap();
    let mut looks = 0;
    while metrics.is_worth_asking() {
        assert_eq!(metrics.look().await, None);
        looks += 1;
    }
    assert_eq!((looks, asked.load(Ordering::SeqCst)), (3, 9));
}

#[tokio::test]
async fn an_exporter_gives_the_figures_of_remote_gpus_and_sees_no_key() {
    const GPUS: &str = include_str!("../../tests/data/metrics/dcgm.txt");
    let router = Router::new().route(
        "/metrics",
        get(
            |headers: HeaderMap| async move { if headers.contains_key("authorization") { "" } else { GPUS } },
        ),
    );
    let url = serve(router).await;
    let exporter = Exporter::find(&url).await.unwrap();
    assert_eq!(exporter.look().await.unwrap().get(crate::observed::Quantity::Power), Some(700.0));
    assert!(Exporter::find(&format!("{url}/metrics")).await.is_ok());
}

#[tokio::test]
async fn an_exporter_that_tells_of_no_gpu_is_named() {
    let url = serve(Router::new().route("/metrics", get(|| async { PAGE }))).await;
    let error = Exporter::find(&url).await.unwrap_err().to_string();
    assert!(error.contains(&format!("`{url}/metrics` cannot be used: its page names no GPU")), "{error}");
    let error = Exporter::find("http://127.0.0.1:9").await.unwrap_err().to_string();
    assert!(error.contains("cannot be reached"), "{error}");
}

#[test]
fn local_gpus_say_nothing_of_a_remote_or_simulated_server() {
    let remote = ClientOptions::new("http://192.0.2.1:8000", "m");
    let recipe = Recipe::from_toml("[target]\nurl = \"http://127.0.0.1:8000\"", "test").unwrap();
    let endpoint = recipe.into_plan(None, Purpose::Measure).unwrap().target;
    assert!(gpus(&remote, &plan(None, GpuChoice::Auto), &endpoint).unwrap().is_none());
    let here = ClientOptions::new("http://127.0.0.1:8000", "m");
    assert!(gpus(&here, &plan(None, GpuChoice::Auto), &simulated()).unwrap().is_none());
    assert!(gpus(&here, &plan(None, GpuChoice::Off), &endpoint).unwrap().is_none());
    assert!(is_loopback("localhost") && is_loopback("::1") && !is_loopback("10.0.0.1"));
}
