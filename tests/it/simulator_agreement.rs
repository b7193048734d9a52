//! Virtual time and the HTTP face tell the same: the model's numbers are those a client measures.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use plimsoll::loadgen::session::{Excess, Session, SessionEvent, Wake};
use plimsoll::plan::Lengths;
use plimsoll::sim::http::Options;
use plimsoll::sim::model::{Disturbance, Params};
use plimsoll::sim::presets::{LLAMA_8B, Preset};
use plimsoll::sim::session::{SimSession, ready};
use plimsoll::sim::traffic::Sampler;
use serde_json::json;

use crate::simulator_client::{Server, send};

const USERS: u32 = 48;
const SETTLE: usize = 200;
const REQUESTS: usize = 1200;
/// Fast, and still slow enough that a millisecond of this test's own counts for little.
const SPEED: f64 = 5.0;

/// A server with a queue: TTFT is mostly the wait for one of 24 seats.
fn preset() -> Preset {
    let noise = Disturbance { step: 0.05, ..Disturbance::NONE };
    Preset {
        params: Params { max_seqs: 24, noise, ..LLAMA_8B.params },
        isl: Lengths::Lognormal { mean: 256.0, cv: 0.5, min: 16, max: 1024 },
        osl: Lengths::Lognormal { mean: 40.0, cv: 0.5, min: 8, max: 160 },
        ..LLAMA_8B
    }
}

/// What a load at `USERS` measured: TTFT p95 in seconds, and completions a second.
#[derive(Debug)]
struct Figures {
    ttft_p95: f64,
    rate: f64,
}

/// From `(sent, first, ended)` of all requests in order of their end.
fn figures(mut requests: Vec<(f64, f64, f64)>) -> Figures {
    requests.sort_by(|a, b| a.2.total_cmp(&b.2));
    let counted = &requests[SETTLE..SETTLE + REQUESTS];
    let window = counted[REQUESTS - 1].2 - requests[SETTLE - 1].2;
    let mut ttft: Vec<f64> = counted.iter().map(|(sent, first, _)| first - sent).collect();
    ttft.sort_by(f64::total_cmp);
    Figures { ttft_p95: ttft[REQUESTS * 95 / 100], rate: REQUESTS as f64 / window }
}

fn in_virtual_time() -> Figures {
    let mut session = SimSession::new(preset().params, preset().traffic(), 1);
    session.set_level(USERS, 1.0, Excess::Retire);
    let wake = Wake { at: 1e9, ended: (SETTLE + REQUESTS) as u32, first_tokens: u32::MAX };
    ready(session.advance(wake)).unwrap();
    let ended = session.take_events().into_iter().filter_map(|event| match event {
        SessionEvent::Ended(record) => Some((record.sent, record.first.unwrap(), record.ended)),
        SessionEvent::FirstToken { .. } => None,
    });
    figures(ended.collect())
}

async fn over_http() -> Figures {
    let server = Arc::new(Server::start(preset(), Options { speed: SPEED, ..Options::default() }).await);
    let sampler = Arc::new(Mutex::new(Sampler::new(preset().traffic(), 1)));
    let all = Arc::new(Mutex::new(Vec::new()));
    let epoch = Instant::now();
    let users: Vec<_> = (0..USERS)
        .map(|user| {
            let (server, sampler, all) = (Arc::clone(&server), Arc::clone(&sampler), Arc::clone(&all));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs_f64(f64::from(user) / f64::from(USERS) / SPEED)).await;
                let mut connection = server.connect().await;
                while all.lock().unwrap().len() < SETTLE + REQUESTS {
                    let (isl, osl) = sampler.lock().unwrap().draw();
                    let prompt = vec!["word"; isl as usize].join(" ");
                    let body =
                        json!({ "prompt": prompt, "max_tokens": osl, "ignore_eos": true, "stream": true });
                    let at = || epoch.elapsed().as_secs_f64() * SPEED;
                    let sent = at();
                    let response = send(&mut connection, "/v1/completions", &body).await.unwrap();
                    let mut body = response.into_body();
                    body.frame().await.unwrap().unwrap();
                    let first = at();
                    while let Some(frame) = body.frame().await {
                        frame.unwrap();
                    }
                    all.lock().unwrap().push((sent, first, at()));
                }
            })
        })
        .collect();
    for user in users {
        user.await.unwrap();
    }
    let requests = all.lock().unwrap().clone();
    figures(requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_time_and_the_wire_agree_within_5_percent() {
    let expected = in_virtual_time();
    // A busy machine can only make the wire slower: the best of three is the server's own.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let measured = over_http().await;
        let off = |measured: f64, expected: f64| (measured / expected - 1.0).abs();
        if off(measured.ttft_p95, expected.ttft_p95) < 0.05 && off(measured.rate, expected.rate) < 0.05 {
            return;
        }
        seen.push(measured);
    }
    panic!("virtual time says {expected:?}, the wire {seen:?}");
}
