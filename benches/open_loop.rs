//! How exactly an open loop keeps its schedule, seen from the server.
//!
//! `cargo bench --bench open_loop [-- RATE..]`
//!
//! For each rate (0.2, 5, 200 and 2,000 requests/s where none is given) Poisson arrivals are sent to the
//! simulated engine over HTTP. Printed are the lateness of the sends (first byte to the socket against
//! schedule), the same as the server sees it (last byte of the request against schedule), and the rate at
//! the server against the schedule's own.
//!
//! The server is this program once more, in a process of its own; both share `CLOCK_MONOTONIC`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll::loadgen::{
    ClientOptions, Excess, LiveOptions, LiveSession, RequestRecord, Session, SessionEvent, Wake,
};
use plimsoll::sim::http::{Observer, Options, serve};
use plimsoll::sim::model::{Disturbance, Params, StepCost};
use plimsoll::sim::presets::{Preset, SMALL};
use plimsoll::workload::{ArrivalProcess, Arrivals, RateCurve, RequestSpec};
use rustix::time::{ClockId, clock_gettime};

/// Seconds of a rate: long enough for some 40 arrivals of the slowest.
const SECONDS: [(f64, f64); 4] = [(0.2, 200.0), (5.0, 40.0), (200.0, 20.0), (2000.0, 20.0)];

fn monotonic() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if args.iter().any(|arg| arg == "--server") {
        return runtime.block_on(server());
    }
    let asked: Vec<f64> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    println!("   rate  arrivals   sent late p50    p99    max   at server p50    p99    max   rate there");
    for (rate, seconds) in SECONDS {
        if asked.is_empty() || asked.contains(&rate) {
            runtime.block_on(one(rate, seconds));
        }
    }
}

/// An engine that answers two tokens at once, whatever the load.
fn preset() -> Preset {
    let cost = StepCost {
        base: 1e-4,
        per_sequence: 0.0,
        per_kv_token: 0.0,
        per_prefill_token: 0.0,
        pad: 0,
        dip: None,
    };
    Preset { params: Params { cost, noise: Disturbance::NONE, ..SMALL.params }, ..SMALL }
}

/// Serves; for each line on stdin prints when requests arrived since the last.
async fn server() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let observer = Observer::new();
    let epoch = monotonic() - observer.epoch().elapsed().as_secs_f64();
    println!("{}", listener.local_addr().unwrap());
    let (done, ended) = tokio::sync::oneshot::channel::<()>();
    let notes = observer.clone();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lines() {
            let arrived: Vec<f64> = notes.notes().requests.iter().map(|request| epoch + request.at).collect();
            println!("{}", serde_json::to_string(&arrived).unwrap());
            std::io::stdout().flush().unwrap();
        }
        drop(done);
    });
    let options = Options { observer: Some(observer), ..Options::default() };
    serve(listener, preset(), options, async {
        let _ = ended.await;
    })
    .await
    .unwrap();
}

/// A server process; it ends with this handle.
struct Server {
    child: Child,
    lines: BufReader<ChildStdout>,
    orders: Option<ChildStdin>,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut address = String::new();
        lines.read_line(&mut address).unwrap();
        let orders = child.stdin.take();
        Self { child, lines, orders, url: format!("http://{}", address.trim()) }
    }

    fn arrived(&mut self) -> Vec<f64> {
        writeln!(self.orders.as_mut().unwrap()).unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.child.wait();
    }
}

async fn one(rate: f64, seconds: f64) {
    let mut server = Server::start();
    let origin = Instant::now();
    let zero = monotonic() - origin.elapsed().as_secs_f64();
    let requests = (0..).map(|id| RequestSpec::new(id, format!("Tell me of {id}"), 4, 2));
    let options = LiveOptions::new(ClientOptions::new(&server.url, SMALL.model), 1024);
    let (_stop, interrupt) = tokio::sync::watch::channel(false);
    let mut load = LiveSession::open(options, Box::new(requests), origin, interrupt).unwrap();
    let arrivals = Arrivals::new(RateCurve::Constant(rate), ArrivalProcess::Poisson, 7);
    load.set_arrivals(Some(arrivals.clone()), Excess::Retire);
    load.advance(Wake::at(load.now() + seconds)).await.unwrap();
    load.set_arrivals(None, Excess::Retire);
    tokio::time::sleep(Duration::from_millis(500)).await;
    load.advance(Wake::at(load.now())).await.unwrap();
    let mut records: Vec<RequestRecord> = load
        .take_events()
        .into_iter()
        .filter_map(|event| if let SessionEvent::Ended(record) = event { Some(*record) } else { None })
        .collect();
    load.close().await;
    let mut arrived = server.arrived();
    assert!(records.iter().all(RequestRecord::is_completed));
    assert_eq!(records.len(), arrived.len(), "the server saw another number of requests");
    records.sort_by(|a, b| a.scheduled.unwrap().total_cmp(&b.scheduled.unwrap()));
    arrived.sort_by(f64::total_cmp);
    let offsets: Vec<f64> = arrivals.schedule().take(records.len()).collect();
    let began = records[0].scheduled.unwrap() - offsets[0];
    for (record, offset) in records.iter().zip(&offsets) {
        assert!((record.scheduled.unwrap() - began - offset).abs() < 1e-9, "not on schedule");
    }
    let sent = sorted(records.iter().map(|record| record.lateness().unwrap()));
    let seen = sorted(arrived.iter().zip(&offsets).map(|(at, offset)| at - zero - began - offset));
    let span = |times: &[f64]| (times.len() - 1) as f64 / (times[times.len() - 1] - times[0]);
    let us = |late: &[f64], p: f64| late[((late.len() - 1) as f64 * p) as usize] * 1e6;
    println!(
        "{rate:>7}{:>10}{:>13.0} µs{:>6.0}{:>7.0}{:>13.0} µs{:>6.0}{:>7.0}{:>+12.3} %",
        records.len(),
        us(&sent, 0.5),
        us(&sent, 0.99),
        us(&sent, 1.0),
        us(&seen, 0.5),
        us(&seen, 0.99),
        us(&seen, 1.0),
        (span(&arrived) / span(&offsets) - 1.0) * 100.0
    );
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
