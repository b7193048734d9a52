//! What the load engine costs, against a minimal client on the same server.
//!
//! `cargo bench --bench client_cpu [-- cpu|ttft|scale] [--quick]`
//!
//! - `cpu`: client CPU per streamed token, and its ratio to a minimal hyper client that reads the same
//!   bytes and takes the same timestamps without parsing anything. Rounds of both alternate, because
//!   other work on the machine disturbs both.
//! - `ttft`: what the client adds to TTFT at 1,000 streams: arrival as recorded minus the instant at
//!   which the server sent, both on `CLOCK_MONOTONIC`.
//! - `scale`: 2,000 streams of 20 tokens a second for 30 s: sends missed, memory, lag.
//!
//! The server is this program once more, in a process of its own; client and server are pinned to a
//! core each where there are two.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use plimsoll::loadgen::{
    ClientOptions, Excess, LiveOptions, LiveSession, RequestRecord, Session, SessionEvent, Wake,
    process_cpu_seconds,
};
use plimsoll::workload::RequestSpec;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Seconds over which the users of a round join.
const RAMP: f64 = 2.0;
/// When a round begins to measure, seconds after its start.
const SETTLED: f64 = 3.0;

/// Seconds of `CLOCK_MONOTONIC`, which both processes share.
fn monotonic() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn pin(core: usize) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > 1 {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core % cores);
        // A container may forbid it; the figures are then only noisier.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(role) = args.iter().position(|arg| arg == "--server") {
        pin(1);
        return server::run(args[role + 1].parse().unwrap());
    }
    pin(0);
    let quick = args.iter().any(|arg| arg == "--quick");
    let asked = |name: &str| {
        let named: Vec<&String> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
        named.is_empty() || named.iter().any(|arg| *arg == name)
    };
    plimsoll::loadgen::ensure_open_files(4096, 1).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if asked("cpu") {
            cpu(quick).await;
        }
        if asked("ttft") {
            ttft(quick).await;
        }
        if asked("scale") {
            scale(quick).await;
        }
    });
}

/// A server process; it ends with this handle.
struct Server {
    child: Child,
    lines: Arc<Mutex<std::io::Lines<BufReader<std::process::ChildStdout>>>>,
    url: String,
    authority: String,
}

impl Server {
    /// Streams a token every `gap` to each request.
    fn start(gap: Duration) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--server", &gap.as_micros().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let authority = lines.next().unwrap().unwrap();
        Self { child, lines: Arc::new(Mutex::new(lines)), url: format!("http://{authority}"), authority }
    }

    /// Ends the server; gives when it sent the first token of each request.
    fn first_tokens(mut self) -> HashMap<u64, f64> {
        drop(self.child.stdin.take());
        let lines = self.lines.clone();
        let mut lines = lines.lock().unwrap();
        let mut sent = HashMap::new();
        for line in lines.by_ref() {
            let line = line.unwrap();
            let (id, at) = line.split_once(' ').unwrap();
            sent.insert(id.parse().unwrap(), at.parse().unwrap());
        }
        sent
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not asked to end: nobody would read the log that it prints then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spec(id: u64, osl: u32) -> RequestSpec {
    RequestSpec::new(id, format!("request {id} of a load that is measured"), 8, osl)
}

fn open(server: &Server, streams: u32, osl: u32, origin: Instant) -> LiveSession {
    let options = LiveOptions::new(ClientOptions::new(server.url.as_str(), "mock"), streams);
    let (_never, interrupt) = tokio::sync::watch::channel(false);
    LiveSession::open(options, Box::new((0..).map(move |id| spec(id, osl))), origin, interrupt).unwrap()
}

fn records(events: Vec<SessionEvent>) -> Vec<RequestRecord> {
    let record = |event| match event {
        SessionEvent::Ended(record) => Some(*record),
        SessionEvent::FirstToken { .. } => None,
    };
    events.into_iter().filter_map(record).collect()
}

fn tokens(records: &[RequestRecord]) -> usize {
    records.iter().map(|record| record.gaps_us.len() + usize::from(record.first.is_some())).sum()
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}

/// What a round of a client gave.
#[derive(Default)]
struct Round {
    cpu_seconds: f64,
    tokens: usize,
    /// Arrival of the first token of each request, seconds of `CLOCK_MONOTONIC`.
    first: Vec<(u64, f64)>,
}

/// A round of the load engine; measures for so many seconds after the first one.
async fn engine_round(server: &Server, streams: u32, osl: u32, seconds: f64) -> Round {
    let (origin, offset) = (Instant::now(), monotonic());
    let mut load = open(server, streams, osl, origin);
    load.set_level(streams, RAMP, Excess::Retire);
    load.advance(Wake::at(SETTLED)).await.unwrap();
    let flying =
        |load: &LiveSession| load.in_flight().iter().map(|request| request.tokens as usize).sum::<usize>();
    let (cpu, before) = (process_cpu_seconds(), flying(&load));
    load.take_events();
    load.advance(Wake::at(SETTLED + seconds)).await.unwrap();
    let (cpu_seconds, after) = (process_cpu_seconds() - cpu, flying(&load));
    let ended = records(load.take_events());
    assert!(ended.iter().all(RequestRecord::is_completed));
    load.close().await;
    let first = ended.iter().map(|record| (record.id, record.first.unwrap() + offset)).collect();
    Round { cpu_seconds, tokens: tokens(&ended) + after - before, first }
}

/// The same by a minimal client: sends, reads, takes a timestamp for each piece, and no more.
async fn minimal_round(server: &Server, streams: u32, osl: u32, seconds: f64) -> Round {
    let counted = Arc::new(AtomicUsize::new(0));
    let next = Arc::new(AtomicU64::new(0));
    let first = Arc::new(Mutex::new(Vec::new()));
    let (origin, offset) = (Instant::now(), monotonic());
    let mut tasks = tokio::task::JoinSet::new();
    for user in 0..streams {
        let authority = server.authority.clone();
        let (counted, next, first) = (counted.clone(), next.clone(), first.clone());
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_secs_f64(RAMP * f64::from(user) / f64::from(streams))).await;
            let socket = TcpStream::connect(&authority).await.unwrap();
            socket.set_nodelay(true).unwrap();
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
            tokio::spawn(connection);
            loop {
                let id = next.fetch_add(1, Relaxed);
                let body = format!(
                    r#"{{"messages":[{{"role":"user","content":"request {id} of a load that is measured"}}],"max_tokens":{osl}}}"#
                );
                let request = hyper::Request::post("/v1/chat/completions")
                    .header("host", &authority)
                    .header("content-type", "application/json")
                    .body(Full::new(Bytes::from(body)))
                    .unwrap();
                sender.ready().await.unwrap();
                let mut answer = sender.send_request(request).await.unwrap();
                let mut at = Vec::with_capacity(osl as usize + 2);
                while let Some(frame) = answer.frame().await {
                    frame.unwrap();
                    at.push(Instant::now());
                    counted.fetch_add(1, Relaxed);
                }
                first.lock().unwrap().push((id, (at[0] - origin).as_secs_f64() + offset));
            }
        });
    }
    tokio::time::sleep(Duration::from_secs_f64(SETTLED)).await;
    first.lock().unwrap().clear();
    let (cpu, before) = (process_cpu_seconds(), counted.load(Relaxed));
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let (cpu_seconds, tokens) = (process_cpu_seconds() - cpu, counted.load(Relaxed) - before);
    let first = std::mem::take(&mut *first.lock().unwrap());
    Round { cpu_seconds, tokens, first }
}

async fn cpu(quick: bool) {
    let (streams, osl) = (200, 128);
    let (rounds, seconds) = if quick { (1, 2.0) } else { (4, 5.0) };
    let server = Server::start(Duration::from_millis(20));
    let (mut ours, mut minimal) = (Round::default(), Round::default());
    for _ in 0..rounds {
        for (sum, round) in [
            (&mut minimal, minimal_round(&server, streams, osl, seconds).await),
            (&mut ours, engine_round(&server, streams, osl, seconds).await),
        ] {
            sum.cpu_seconds += round.cpu_seconds;
            sum.tokens += round.tokens;
        }
    }
    let per_token = |round: &Round| round.cpu_seconds * 1e6 / round.tokens as f64;
    println!(
        "client CPU per streamed token, {streams} streams of 50 tokens/s, {rounds} rounds of {seconds} s each"
    );
    println!("  minimal hyper client  {:6.2} µs  ({} tokens)", per_token(&minimal), minimal.tokens);
    println!("  load engine           {:6.2} µs  ({} tokens)", per_token(&ours), ours.tokens);
    println!(
        "  ratio                 {:6.2}     (must be at most 1.5)",
        per_token(&ours) / per_token(&minimal)
    );
}

async fn ttft(quick: bool) {
    let (streams, osl, seconds) = (1000, 40, if quick { 4.0 } else { 15.0 });
    println!("TTFT added by the client at {streams} streams of 20 tokens/s");
    for name in ["minimal hyper client", "load engine"] {
        let server = Server::start(Duration::from_millis(50));
        let round = match name {
            "load engine" => engine_round(&server, streams, osl, seconds).await,
            _ => minimal_round(&server, streams, osl, seconds).await,
        };
        let sent = server.first_tokens();
        let mut added: Vec<f64> = round.first.iter().map(|(id, at)| (at - sent[id]) * 1e3).collect();
        added.sort_by(f64::total_cmp);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|q| quantile(&added, q));
        println!("  {name:20}  p50 {p50:.3} ms, p99 {p99:.3} ms, max {max:.3} ms ({} requests)", added.len());
    }
    println!("  (the load engine's p99 must be below 1 ms)");
}

async fn scale(quick: bool) {
    let (streams, osl, seconds) = (2000, 100, if quick { 5.0 } else { 30.0 });
    let server = Server::start(Duration::from_millis(50));
    let mut load = open(&server, streams, osl, Instant::now());
    load.set_level(streams, 4.0, Excess::Retire);
    load.advance(Wake::at(5.0)).await.unwrap();
    load.take_events();
    load.health();
    let (mut all, mut lowest) = (Vec::new(), u32::MAX);
    let flying =
        |load: &LiveSession| load.in_flight().iter().map(|request| request.tokens as usize).sum::<usize>();
    let before = flying(&load);
    let mut at = 5.0;
    while at < 5.0 + seconds {
        at += 0.05;
        load.advance(Wake::at(at)).await.unwrap();
        lowest = lowest.min(load.in_flight().len() as u32);
        all.extend(records(load.take_events()));
    }
    let received = tokens(&all) + flying(&load) - before;
    let health = load.health().unwrap_or_default();
    let failed = all.iter().filter(|record| !record.is_completed()).count();
    load.close().await;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown").to_owned();
    println!("{streams} streams of 20 tokens/s for {seconds} s");
    println!(
        "  tokens {received} ({:.1} % of what the server's timer allows), failed requests {failed}",
        received as f64 / (f64::from(streams) * 20.0 * seconds) * 100.0
    );
    println!("  in flight at the least, seen every 50 ms: {lowest} of {streams}");
    println!("  {} (must be below 200 MB)", peak.split_whitespace().collect::<Vec<_>>().join(" "));
    println!(
        "  event loop: lag p99 {:.2} ms, max {:.2} ms, busy {:.0} %",
        health.lag_p99 * 1e3,
        health.lag_max * 1e3,
        health.busy * 100.0
    );
}

/// A server that costs as little as it can: raw sockets, one thread, answers made ahead.
mod server {
    use super::*;

    const HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

    /// When the first token of each request was sent.
    type Log = Arc<Mutex<Vec<(u64, f64)>>>;

    pub fn run(gap_us: u64) {
        plimsoll::loadgen::ensure_open_files(4096, 1).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let log: Log = Arc::default();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            println!("{}", listener.local_addr().unwrap());
            let (closed, mut over) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                // The client closes our standard input when it is done.
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                let _ = closed.send(());
            });
            loop {
                tokio::select! {
                    _ = &mut over => return,
                    accepted = listener.accept() => {
                        let (socket, _) = accepted.unwrap();
                        socket.set_nodelay(true).unwrap();
                        tokio::spawn(serve(socket, Duration::from_micros(gap_us), log.clone()));
                    }
                }
            }
        });
        for (id, at) in log.lock().unwrap().iter() {
            println!("{id} {at:.9}");
        }
    }

    fn chunk(data: &str) -> Vec<u8> {
        format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
    }

    async fn serve(mut socket: TcpStream, gap: Duration, log: Log) {
        let token = |text: &str| {
            chunk(&format!(
                "data: {{\"id\":\"chatcmpl-8d1f7a0c9b5e4d3f\",\"object\":\"chat.completion.chunk\",\
                 \"created\":1700000000,\"model\":\"mock\",\"choices\":[{{\"index\":0,\"delta\":\
                 {{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
            ))
        };
        // As in real text, now and then a token needs an escape.
        let words = [" the", " load", " line", ",", " of", " a", " ship", "."].map(token);
        let line_end = token("\\n");
        let mut buffer = vec![0; 16384];
        loop {
            let mut filled = 0;
            let text = loop {
                match socket.read(&mut buffer[filled..]).await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => filled += read,
                }
                let text = std::str::from_utf8(&buffer[..filled]).unwrap();
                if text.ends_with('}') {
                    break text;
                }
            };
            let number = |after: &str| -> u64 {
                let from = text.find(after).unwrap() + after.len();
                text[from..].split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
            };
            let (id, osl) = (number("\"content\":\"request "), number("\"max_tokens\":"));
            if socket.write_all(HEAD).await.is_err() {
                return;
            }
            let mut due = tokio::time::Instant::now();
            for n in 0..osl {
                due += gap;
                tokio::time::sleep_until(due).await;
                if n == 0 {
                    log.lock().unwrap().push((id, monotonic()));
                }
                let token = if n % 16 == 15 { &line_end } else { &words[n as usize % words.len()] };
                if socket.write_all(token).await.is_err() {
                    return;
                }
            }
            let end = chunk(&format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"length\"}}]}}\n\n\
                 data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":8,\"completion_tokens\":{osl}}}}}\n\ndata: [DONE]\n\n"
            ));
            if socket.write_all(&[&end[..], b"0\r\n\r\n"].concat()).await.is_err() {
                return;
            }
        }
    }
}
