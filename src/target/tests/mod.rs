//! Each way in which an endpoint can be wrong, against small servers that are.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod described;
mod reach;

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::loadgen::{Excess, Session, SessionEvent, Wake};
use crate::plan::{Api, EndpointPlan, Engine};
use crate::target::endpoint::discover_with;
use crate::target::{Endpoint, Live, Target, TargetError};
use crate::workload::RequestSpec;

fn plan(url: impl Into<String>) -> EndpointPlan {
    EndpointPlan {
        url: url.into(),
        api: Api::Chat,
        model: None,
        streaming: true,
        engine: None,
        api_key_env: None,
        headers: BTreeMap::new(),
        ca_file: None,
        timeout_seconds: 20.0,
        extra_body: BTreeMap::new(),
    }
}

fn environment(name: &str) -> Option<String> {
    match name {
        "KEY" => Some("sk-hidden-key\n".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

async fn find(plan: &EndpointPlan) -> Result<Endpoint, TargetError> {
    discover_with(plan, (100, 50), true, &environment).await
}

/// The error, on one line with its hint.
async fn complaint(plan: &EndpointPlan) -> (TargetError, String) {
    let error = find(plan).await.expect_err("the endpoint is wrong");
    let text = format!("{error}; {}", error.hint().unwrap_or_default());
    assert!(!text.contains('\n') && !text.contains("sk-hidden-key"), "{text}");
    (error, text)
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn json_page(status: u16, value: &Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), [(header::CONTENT_TYPE, "application/json")], value.to_string())
        .into_response()
}

/// A router with a list of models.
fn listing(models: Value) -> Router {
    let list = json!({"object": "list", "data": models});
    Router::new().route("/v1/models", get(move || async move { json_page(200, &list) }))
}

/// A stream of `tokens` tokens, with usage or without.
fn stream(tokens: u32, usage: bool) -> Response {
    let mut text = String::new();
    for _ in 0..tokens {
        text += "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" yes\"}}]}\n\n";
    }
    text += "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
    if usage {
        text += &format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":13,\"completion_tokens\":{tokens}}}}}\n\n"
        );
    }
    text += "data: [DONE]\n\n";
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}

fn whole() -> Response {
    json_page(
        200,
        &json!({"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "length"}],
                "usage": {"prompt_tokens": 13, "completion_tokens": 16}}),
    )
}

/// An endpoint with one model whose chat gives `answer`.
fn chatting(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Router {
    listing(json!([{"id": "tiny"}])).route("/v1/chat/completions", post(move || async move { answer() }))
}
