//! The simulated server speaks the OpenAI API as engines do.

use http_body_util::BodyExt;
use plimsoll::sim::http::{Observer, Options};
use plimsoll::sim::presets::SMALL;
use serde_json::{Value, json};

use crate::simulator_client::{Server, send};

fn fast() -> Options {
    Options { speed: 50.0, ..Options::default() }
}

fn chat(content: &str, tokens: u32) -> Value {
    json!({
        "model": SMALL.model, "stream": true, "stream_options": { "include_usage": true },
        "messages": [{ "role": "user", "content": content }], "max_tokens": tokens, "ignore_eos": true,
    })
}

#[tokio::test]
async fn a_chat_streams_a_role_then_one_chunk_a_token_then_usage() {
    let server = Server::start(SMALL, fast()).await;
    let answer = server.post("/v1/chat/completions", &chat("one two three", 5)).await;
    let chunks = answer.chunks();
    assert_eq!(chunks.len(), 8);
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    for chunk in &chunks[1..6] {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        let content = chunk["choices"][0]["delta"]["content"].as_str().unwrap();
        assert_eq!(content.split_whitespace().count(), 1);
    }
    assert_eq!(chunks[6]["choices"][0]["finish_reason"], "length");
    assert_eq!(chunks[7]["choices"], json!([]));
    assert_eq!(chunks[7]["usage"]["completion_tokens"], 5);
    assert_eq!(chunks[7]["usage"]["prompt_tokens"], 3 + 4 + 3);
    assert!(answer.is_done() && answer.broken.is_none());
    server.stop().await;
}

#[tokio::test]
async fn a_completion_without_stream_comes_whole() {
    let server = Server::start(SMALL, fast()).await;
    let body = json!({ "model": SMALL.model, "prompt": "one two three four", "max_tokens": 7 });
    let answer = server.post("/v1/completions", &body).await.json();
    assert_eq!(answer["usage"]["prompt_tokens"], 4);
    assert_eq!(answer["usage"]["completion_tokens"], 7);
    assert_eq!(answer["choices"][0]["text"].as_str().unwrap().split_whitespace().count(), 7);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    server.stop().await;
}

#[tokio::test]
async fn without_a_length_the_answer_ends_by_itself() {
    let server = Server::start(SMALL, fast()).await;
    let body = json!({ "prompt": [1, 2, 3], "stream": false });
    let answer = server.post("/v1/completions", &body).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["prompt_tokens"], 3);
    server.stop().await;
}

#[tokio::test]
async fn the_tokenizer_agrees_with_usage() {
    let server = Server::start(SMALL, fast()).await;
    let words = "the load of a ship is marked on its hull";
    let messages = json!([{ "role": "system", "content": words }, { "role": "user", "content": [{ "type": "text", "text": words }] }]);
    let count = server.post("/tokenize", &json!({ "messages": messages })).await.json();
    assert_eq!(count["tokens"].as_array().unwrap().len() as u64, count["count"].as_u64().unwrap());
    let body = json!({ "messages": messages, "max_completion_tokens": 1 });
    let answer = server.post("/v1/chat/completions", &body).await.json();
    assert_eq!(answer["usage"]["prompt_tokens"], count["count"]);
    let plain = server.post("/tokenize", &json!({ "prompt": words })).await.json();
    assert_eq!((&plain["count"], &plain["max_model_len"]), (&json!(10), &json!(SMALL.max_model_len)));
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_in_the_apis_words() {
    let server = Server::start(SMALL, fast()).await;
    let long = vec!["word"; 5000].join(" ");
    let cases = [
        (
            "/v1/completions",
            json!({ "prompt": long, "max_tokens": 1 }),
            400,
            "maximum context length is 4096",
        ),
        ("/v1/completions", json!({ "prompt": "a b", "max_tokens": 4095 }), 400, "maximum context length"),
        ("/v1/completions", json!({ "prompt": "", "max_tokens": 1 }), 400, "`prompt` is missing or empty"),
        (
            "/v1/completions",
            json!({ "prompt": "a", "max_tokens": 0 }),
            400,
            "`max_tokens` must be at least 1",
        ),
        ("/v1/chat/completions", json!({ "messages": [] }), 400, "`messages` is missing or empty"),
        ("/v1/chat/completions", json!({ "messages": "a" }), 400, "the body cannot be read"),
        ("/v1/completions", json!({ "model": "gpt", "prompt": "a" }), 404, "`gpt` does not exist"),
        ("/v2/none", json!({}), 404, ""),
    ];
    for (path, body, status, words) in cases {
        let answer = server.post(path, &body).await;
        assert_eq!(answer.status, status, "{path}");
        let error = answer.json();
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{message}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_key_is_asked_for_where_one_is_set() {
    let server = Server::start(SMALL, Options { api_key: Some("secret".to_owned()), ..fast() }).await;
    assert_eq!(server.get("/v1/models").await.status, 401);
    assert_eq!(server.post("/v1/chat/completions", &chat("a", 1)).await.status, 401);
    assert_eq!(server.get("/health").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_seat() {
    // At this speed the answer would take hours.
    let server = Server::start(SMALL, Options { speed: 0.1, ..Options::default() }).await;
    let mut connection = server.connect().await;
    let response = send(&mut connection, "/v1/chat/completions", &chat("a b c", 4000)).await.unwrap();
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(server.metric("num_requests_running").await, 1.0);
    drop((body, connection));
    let mut polls = 0;
    while server.metric("num_requests_running").await > 0.0 {
        polls += 1;
        assert!(polls < 1000, "the seat is still taken");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn the_metrics_page_counts_what_was_served() {
    let server = Server::start(SMALL, fast()).await;
    for _ in 0..3 {
        server.post("/v1/chat/completions", &chat("a b c", 11)).await;
    }
    assert_eq!(server.metric("request_success_total").await, 3.0);
    assert_eq!(server.metric("generation_tokens_total").await, 33.0);
    assert_eq!(server.metric("prompt_tokens_total").await, 30.0);
    assert_eq!(server.metric("time_to_first_token_seconds_count").await, 3.0);
    assert!(server.metric("e2e_request_latency_seconds_sum").await > 0.0);
    assert_eq!(server.metric("num_requests_running").await, 0.0);
    assert_eq!(server.metric("kv_cache_usage_perc").await, 0.0);
    let models = server.get("/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], SMALL.model);
    assert!(server.get("/version").await.json()["version"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn a_closing_server_cuts_its_streams_and_ends() {
    let server = Server::start(SMALL, Options { speed: 0.1, ..Options::default() }).await;
    let mut connection = server.connect().await;
    let response = send(&mut connection, "/v1/chat/completions", &chat("a", 4000)).await.unwrap();
    server.stop().await;
    let answer = crate::simulator_client::read(response).await;
    assert!(answer.broken.is_some() && !answer.is_done());
}

#[tokio::test]
async fn the_observer_sees_each_request_and_chunk() {
    let observer = Observer::new();
    let server = Server::start(SMALL, Options { observer: Some(observer.clone()), ..fast() }).await;
    for tokens in [3, 4] {
        server.post("/v1/chat/completions", &chat("a", tokens)).await;
    }
    let notes = observer.notes().clone();
    assert_eq!((notes.requests.len(), notes.chunks.len()), (2, 7));
    let levels: Vec<u32> = notes.in_flight.iter().map(|&(_, level)| level).collect();
    assert_eq!(levels, [1, 0, 1, 0]);
    assert!(notes.chunks.is_sorted_by_key(|chunk| chunk.at));
    server.stop().await;
}
