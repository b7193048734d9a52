//! The simulated server misbehaves as it is told to.

use plimsoll::sim::http::{Faults, Options};
use plimsoll::sim::model::EarlyStop;
use plimsoll::sim::presets::SMALL;
use serde_json::{Value, json};

use crate::simulator_client::{Answer, Server, send};

/// The answer of a server with these faults to a streamed chat of 12 tokens.
async fn answer(faults: Faults, extra: Value) -> Answer {
    let server = Server::start(SMALL, Options { speed: 50.0, faults, ..Options::default() }).await;
    let mut body = json!({
        "stream": true, "stream_options": { "include_usage": true }, "max_tokens": 12,
        "messages": [{ "role": "user", "content": "a b c" }],
    });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let answer = server.post("/v1/chat/completions", &body).await;
    server.stop().await;
    answer
}

#[tokio::test]
async fn errors_come_with_their_status() {
    let cases = [
        (Faults { server_errors: 1.0, ..Faults::default() }, 500),
        (Faults { throttled: 1.0, ..Faults::default() }, 429),
        (Faults { html_errors: 1.0, ..Faults::default() }, 502),
    ];
    for (faults, status) in cases {
        let answer = answer(faults, json!({})).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.text().starts_with("<html>"), status == 502);
    }
}

#[tokio::test]
async fn a_reset_cuts_the_stream_half_way() {
    let answer = answer(Faults { resets: 1.0, ..Faults::default() }, json!({})).await;
    assert!(answer.broken.is_some());
    // A role and six tokens.
    assert_eq!(answer.chunks().len(), 7);
}

#[tokio::test]
async fn a_stream_error_is_an_error_object_in_a_stream_that_began_well() {
    let answer = answer(Faults { stream_errors: 1.0, ..Faults::default() }, json!({})).await;
    let chunks = answer.chunks();
    assert_eq!(answer.status, 200);
    assert!(chunks[..7].iter().all(|chunk| chunk["choices"].is_array()));
    assert_eq!(chunks[7]["error"]["code"], 500);
    assert!(!answer.is_done() && answer.broken.is_none());
}

#[tokio::test]
async fn a_buffered_stream_comes_in_one_burst() {
    let answer = answer(Faults { buffered: 1.0, ..Faults::default() }, json!({})).await;
    assert_eq!(answer.chunks().len(), 15);
    let first = std::str::from_utf8(&answer.frames[0].1).unwrap();
    assert_eq!((answer.frames.len(), first.ends_with("data: [DONE]\n\n")), (1, true));
}

#[tokio::test]
async fn several_tokens_may_share_a_chunk() {
    let answer = answer(Faults { tokens_per_chunk: 5, ..Faults::default() }, json!({})).await;
    let words: Vec<usize> = answer
        .chunks()
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .map(|content| content.split_whitespace().count())
        .collect();
    assert_eq!(words, [0, 5, 5, 2]);
    assert_eq!(answer.chunks().last().unwrap()["usage"]["completion_tokens"], 12);
}

#[tokio::test]
async fn an_early_stop_is_overruled_by_ignore_eos_and_min_tokens() {
    let early_stop = Some(EarlyStop { share: 1.0, fraction: 0.5 });
    let cases = [
        (json!({}), 6, "stop"),
        (json!({ "ignore_eos": true }), 12, "length"),
        (json!({ "min_tokens": 12 }), 12, "length"),
    ];
    for (extra, tokens, reason) in cases {
        let answer = answer(Faults { early_stop, ..Faults::default() }, extra).await;
        let chunks = answer.chunks();
        assert_eq!(chunks[chunks.len() - 1]["usage"]["completion_tokens"], tokens);
        assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], reason);
    }
}

#[tokio::test]
async fn a_refused_connection_is_closed_without_an_answer() {
    let faults = Faults { refused_connections: 1.0, ..Faults::default() };
    let server = Server::start(SMALL, Options { faults, ..Options::default() }).await;
    let mut connection = server.connect().await;
    assert!(send(&mut connection, "/v1/completions", &json!({ "prompt": "a" })).await.is_err());
    server.stop().await;
}
