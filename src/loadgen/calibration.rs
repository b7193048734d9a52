//! What this client can do: streams from a tiny server in this process, over the loopback.
//!
//! The server sends the first token of a stream at once, so all of its TTFT is the client's own (and
//! the loopback's); what a token costs the client's thread says how many streams it can hold.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use crate::loadgen::live::{LiveOptions, LiveSession, OpenError};
use crate::loadgen::options::ClientOptions;
use crate::loadgen::session::{Excess, Session, SessionError, SessionEvent, Wake};
use crate::stats::quantile::quantile;
use crate::workload::RequestSpec;

/// Tokens a second of each stream.
const PACE: f64 = 20.0;
/// Tokens of a stream.
const TOKENS: u32 = 20;
/// Streams that are held for the calibration: 4,000 tokens a second.
const STREAMS: u32 = 200;
/// How long they are measured, after all have begun, seconds.
const WINDOW: f64 = 1.0;
/// Share of a core up to which the client's own delays stay small.
const FULL: f64 = 0.7;

/// What this client can do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Streams that were held at once.
    pub streams: u32,
    /// Tokens a second of each.
    pub tokens_per_second: f64,
    /// TTFT of a server that answers at once: what the client adds, p50, seconds.
    pub added_ttft_p50: f64,
    /// The same, p95.
    pub added_ttft_p95: f64,
    /// CPU time that a token costs the client's thread, seconds.
    pub cpu_per_token: f64,
    /// Streams of that pace at which the thread would use 70 % of a core.
    pub holds: u32,
}

/// A client that cannot be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The server could not be started.
    #[error("no server can be started on the loopback: {0}")]
    Server(#[from] io::Error),
    /// The load could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The load could not go on.
    #[error(transparent)]
    Load(#[from] SessionError),
    /// No token came.
    #[error("no token came over the loopback within the calibration's second")]
    Nothing,
}

/// Holds streams from a server in this process for about a second and a half.
///
/// # Errors
/// When this machine allows no such load.
pub async fn calibrate() -> Result<Calibration, CalibrationError> {
    let server = Loopback::start()?;
    let options = ClientOptions::new(format!("http://127.0.0.1:{}", server.port), "calibration");
    let requests = (0..).map(|id| RequestSpec::new(id, "calibrate".to_owned(), 1, TOKENS));
    let (_stop, interrupt) = watch::channel(false);
    let options = LiveOptions { files_each: 2, ..LiveOptions::new(options, STREAMS) };
    let mut load = LiveSession::open(options, Box::new(requests), Instant::now(), interrupt)?;
    load.set_level(STREAMS, 0.4, Excess::Retire);
    load.advance(Wake::at(load.now() + 0.5)).await?;
    load.take_events();
    let before = (load.health().unwrap_or_default().cpu_seconds, server.tokens.load(Relaxed));
    load.advance(Wake::at(load.now() + WINDOW)).await?;
    let cpu = load.health().unwrap_or_default().cpu_seconds - before.0;
    let tokens = server.tokens.load(Relaxed) - before.1;
    let first = |event: &SessionEvent| match event {
        SessionEvent::FirstToken { sent, at, .. } => Some(at - sent),
        SessionEvent::Ended(_) => None,
    };
    let mut ttfts: Vec<f64> = load.take_events().iter().filter_map(first).collect();
    load.close().await;
    ttfts.sort_unstable_by(f64::total_cmp);
    if ttfts.is_empty() || tokens == 0 {
        return Err(CalibrationError::Nothing);
    }
    let cpu_per_token = cpu / tokens as f64;
    Ok(Calibration {
        streams: STREAMS,
        tokens_per_second: PACE,
        added_ttft_p50: quantile(&ttfts, 0.5),
        added_ttft_p95: quantile(&ttfts, 0.95),
        cpu_per_token,
        holds: (FULL / (cpu_per_token.max(1e-7) * PACE)) as u32,
    })
}

/// The server, on a thread of its own; it ends when this is dropped.
struct Loopback {
    port: u16,
    tokens: Arc<AtomicU64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Loopback {
    fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let tokens = Arc::new(AtomicU64::new(0));
        let counter = tokens.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                let accepting = async {
                    while let Ok((socket, _)) = listener.accept().await {
                        tokio::spawn(serve(socket, counter.clone()));
                    }
                };
                // A dropped sender means the same as a sent word.
                tokio::select! { () = accepting => {}, _ = stopped => {} }
            });
        };
        let thread = thread::Builder::new().name("calibration".to_owned()).spawn(run)?;
        Ok(Self { port, tokens, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by itself.
            let _ = thread.join();
        }
    }
}

/// Answers the requests of one connection until it is closed.
async fn serve(mut socket: TcpStream, tokens: Arc<AtomicU64>) {
    let _ = socket.set_nodelay(true);
    let mut seen = Vec::new();
    while read_request(&mut socket, &mut seen).await.is_some() {
        if answer(&mut socket, &tokens).await.is_err() {
            return;
        }
    }
}

/// Reads to the end of a request's body; none where the connection has ended.
async fn read_request(socket: &mut TcpStream, seen: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
            let whole = end + 4 + length.trim().parse::<usize>().ok()?;
            if seen.len() >= whole {
                seen.drain(..whole);
                return Some(());
            }
        }
        match socket.read(&mut buffer).await {
            Ok(read) if read > 0 => seen.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}

async fn answer(socket: &mut TcpStream, tokens: &AtomicU64) -> io::Result<()> {
    const HEAD: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n";
    const END: &str =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    let chunk = |data: &str| format!("{:x}\r\n{data}\r\n", data.len());
    socket.write_all((HEAD.to_owned() + &chunk(TOKEN)).as_bytes()).await?;
    tokens.fetch_add(1, Relaxed);
    let began = tokio::time::Instant::now();
    let token = chunk(TOKEN);
    for number in 1..TOKENS {
        tokio::time::sleep_until(began + Duration::from_secs_f64(f64::from(number) / PACE)).await;
        socket.write_all(token.as_bytes()).await?;
        tokens.fetch_add(1, Relaxed);
    }
    socket.write_all((chunk(END) + "0\r\n\r\n").as_bytes()).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_client_says_what_a_token_costs_it() {
        let calibration = calibrate().await.unwrap();
        assert!(calibration.added_ttft_p50 > 0.0 && calibration.added_ttft_p50 <= calibration.added_ttft_p95);
        assert!(calibration.cpu_per_token > 0.0 && calibration.holds > 0, "{calibration:?}");
    }
}
