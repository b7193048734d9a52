//! Each way in which an endpoint can be wrong, against small servers that are.
#![allow(clippy::unwrap_used, clippy::expect_used)]

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

#[tokio::test]
async fn a_sound_endpoint_is_described_from_what_it_says() {
    let router = listing(json!([{"id": "tiny", "owned_by": "vllm", "max_model_len": 2048}]))
        .route("/version", get(|| async { json_page(200, &json!({"version": "0.32.0"})) }))
        .route("/v1/chat/completions", post(|| async { stream(16, true) }));
    let url = serve(router).await;
    let found = find(&plan(format!("{url}/v1/"))).await.unwrap();
    let description = &found.description;
    assert_eq!(
        description.to_string(),
        format!("{url}: vLLM 0.32.0, model tiny, chat, streamed, context 2048 tokens")
    );
    assert!(description.usage);
    assert_eq!(description.notes, ["a prompt of 6 words counts 13 tokens with the chat template"]);
    assert_eq!((found.options.engine, found.options.model.as_str()), (Engine::Vllm, "tiny"));
    assert_eq!(serde_json::to_value(description).unwrap()["engine"], "vllm");
}

#[tokio::test]
async fn the_embedded_engine_is_found_for_what_it_is() {
    use crate::sim::http::{Options, serve};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let options = Options { speed: 50.0, ..Options::default() };
    tokio::spawn(serve(listener, crate::sim::presets::SMALL, options, std::future::pending()));
    let found = find(&plan(url)).await.unwrap().description;
    assert_eq!(found.engine, Engine::Simulated);
    assert_eq!(found.engine_version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(found.max_context, Some(crate::sim::presets::SMALL.max_model_len));
    assert!(found.usage && found.streaming);
    assert_eq!(found.notes, ["a prompt of 6 words counts 13 tokens with the chat template"]);
}

#[tokio::test]
async fn engines_are_told_by_their_own_pages_where_the_list_is_silent() {
    let page = |path: &'static str, body: &'static str| {
        chatting(|| stream(16, true)).route(path, get(move || async move { body }))
    };
    let cases = [
        (page("/version", r#"{"version":"0.9"}"#), Engine::Vllm, Some("0.9"), None),
        (
            page("/version", r#"{"version":"1","engine":"plimsoll-simulated"}"#),
            Engine::Simulated,
            Some("1"),
            None,
        ),
        (page("/version", r#"{"version":"1","commit":"x"}"#), Engine::Generic, None, None),
        (page("/metrics", "# x\nvllm:num_requests_running 0\n"), Engine::Vllm, None, None),
        (
            page(
                "/props",
                r#"{"default_generation_settings":{"n_ctx":2048},"total_slots":8,"build_info":"b1"}"#,
            ),
            Engine::LlamaServer,
            Some("b1"),
            Some(2048),
        ),
        (
            page("/server_info", r#"{"version":"0.5","context_length":4096}"#),
            Engine::Sglang,
            Some("0.5"),
            Some(4096),
        ),
        (page("/other", ""), Engine::Generic, None, None),
    ];
    for (router, engine, version, context) in cases {
        let found = find(&plan(serve(router).await)).await.unwrap().description;
        assert_eq!(found.engine, engine, "{found:?}");
        assert_eq!((found.engine_version.as_deref(), found.max_context), (version, context), "{found:?}");
    }
}

#[tokio::test]
async fn an_engine_that_is_told_is_believed_and_the_difference_is_noted() {
    let router = listing(json!([{"id": "tiny", "owned_by": "sglang"}]))
        .route("/v1/chat/completions", post(|| async { stream(16, true) }));
    let told = EndpointPlan { engine: Some(Engine::Generic), ..plan(serve(router).await) };
    let found = find(&told).await.unwrap();
    assert_eq!(found.options.engine, Engine::Generic);
    assert!(found.description.notes.iter().any(|note| note.contains("looks like SGLang")));
}

#[tokio::test]
async fn a_url_that_is_none_says_how_to_write_it() {
    let (error, text) = complaint(&plan("localhost:8000")).await;
    assert!(text.ends_with("did you mean `http://localhost:8000`?") && !error.is_unreachable(), "{text}");
    let (_, text) = complaint(&plan("http://me:sk-hidden-key@host")).await;
    assert!(text.contains("credentials"), "{text}");
}

#[tokio::test]
async fn secrets_come_from_the_environment_and_a_missing_variable_is_named() {
    let url = serve(Router::new().route(
        "/v1/models",
        get(|headers: HeaderMap| async move {
            let told = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            let right = told("authorization").as_deref() == Some("Bearer sk-hidden-key")
                && told("x-team").as_deref() == Some("a-sk-hidden-key-b");
            let refusal = json!({"error": {"message": format!("wrong: {:?}", told("authorization"))}});
            if right { json_page(200, &json!({"data": []})) } else { json_page(401, &refusal) }
        }),
    ))
    .await;
    let mut with = plan(url);
    let (_, text) = complaint(&with).await;
    assert!(text.contains("HTTP 401") && text.ends_with("`--api-key-env NAME`"), "{text}");
    with.api_key_env = Some("KEY".to_owned());
    let (_, text) = complaint(&with).await;
    assert!(text.contains("***") && text.ends_with("check the key in `KEY`"), "{text}");
    with.headers.insert("x-team".to_owned(), "a-${KEY}-b".to_owned());
    let (_, text) = complaint(&with).await;
    assert!(text.contains("list of models is empty"), "{text}");
    for (name, problem) in [("ABSENT", "is not set"), ("EMPTY", "is empty")] {
        with.headers.insert("x-team".to_owned(), format!("${{{name}}}"));
        let (error, text) = complaint(&with).await;
        assert!(text.contains(&format!("`x-team` names the environment variable `{name}`, which {problem}")));
        assert!(!error.is_unreachable());
    }
    with.api_key_env = Some("ABSENT".to_owned());
    let (_, text) = complaint(&with).await;
    assert!(text.contains("`api_key_env`") && text.contains("export ABSENT=..."), "{text}");
}

#[tokio::test]
async fn a_certificate_file_that_is_absent_or_none_is_refused() {
    let absent = EndpointPlan { ca_file: Some("/absent/ca.pem".to_owned()), ..plan("https://127.0.0.1:1") };
    let (_, text) = complaint(&absent).await;
    assert!(text.contains("`/absent/ca.pem`") && text.contains("--ca-file"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, "hello").unwrap();
    let (error, text) =
        complaint(&EndpointPlan { ca_file: Some(path.display().to_string()), ..plan("https://127.0.0.1:1") })
            .await;
    assert!(text.contains("PEM") && !error.is_unreachable(), "{text}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (error, text) = complaint(&plan(format!("http://{address}"))).await;
    assert!(text.contains("refused") && text.contains("port"), "{text}");
    assert!(error.is_unreachable());
    let (error, text) = complaint(&plan("http://no-such-host.invalid:8000")).await;
    assert!(text.contains("`no-such-host.invalid` is not known") && error.is_unreachable(), "{text}");
}

#[tokio::test]
async fn a_port_that_speaks_something_else_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                let _ = socket.read(&mut buffer).await;
                let _ = socket.write_all(b"SSH-2.0-server\r\n").await;
            });
        }
    });
    let (error, text) = complaint(&plan(format!("http://{address}"))).await;
    assert!(text.contains("does not speak HTTP") && text.contains("https://"), "{text}");
    assert!(error.is_unreachable());
}

#[tokio::test]
async fn tls_to_a_plain_port_is_told() {
    let url = serve(chatting(|| stream(16, true))).await.replace("http://", "https://");
    // An authority of its own, so that the test does not depend on the system's.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, AUTHORITY).unwrap();
    let (error, text) =
        complaint(&EndpointPlan { ca_file: Some(path.display().to_string()), ..plan(url) }).await;
    assert!(matches!(error, TargetError::Tls { plain: true, .. }), "{error:?}");
    assert!(text.contains("`http://`"), "{text}");
}

#[tokio::test]
async fn the_model_is_found_named_or_asked_for() {
    let two = serve(listing(json!([{"id": "first"}, {"id": "second"}]))).await;
    let (_, text) = complaint(&plan(&two)).await;
    assert!(text.contains("`first`, `second`") && text.contains("--model NAME"), "{text}");
    let (_, text) = complaint(&EndpointPlan { model: Some("third".to_owned()), ..plan(two) }).await;
    assert!(text.contains("no model `third`") && text.contains("`first`, `second`"), "{text}");
    let none = Router::new().route("/v1/chat/completions", post(|| async { stream(16, true) }));
    let url = serve(none).await;
    let (_, text) = complaint(&plan(&url)).await;
    assert!(text.contains("keeps no list") && text.contains("--model NAME"), "{text}");
    let found = find(&EndpointPlan { model: Some("named".to_owned()), ..plan(url) }).await.unwrap();
    assert_eq!(found.options.model, "named");
    let aliased = listing(json!([{"id": "a.gguf", "aliases": ["short"]}]))
        .route("/v1/chat/completions", post(|| async { stream(16, true) }));
    let found = find(&EndpointPlan { model: Some("short".to_owned()), ..plan(serve(aliased).await) }).await;
    assert_eq!(found.unwrap().description.model, "short");
}

#[tokio::test]
async fn what_is_no_openai_api_is_told() {
    let models =
        |answer: fn() -> Response| Router::new().route("/v1/models", get(move || async move { answer() }));
    let cases = [
        (models(|| Html("<html><title>My router</title></html>").into_response()), "My router"),
        (models(|| json_page(200, &json!({"status": "ok"}))), "no list of models: {\"status\":\"ok\"}"),
        (models(|| "pong".into_response()), "not JSON: pong"),
        (models(|| ().into_response()), "nothing"),
        (models(|| json_page(400, &json!({"detail": "what?"}))), "HTTP 400 Bad Request: what?"),
    ];
    for (router, words) in cases {
        let (error, text) = complaint(&plan(serve(router).await)).await;
        assert!(matches!(error, TargetError::NotTheApi { .. }), "{error:?}");
        assert!(text.contains(words) && text.contains("check the host, the port"), "{text}");
    }
    let (_, text) =
        complaint(&plan(serve(models(|| Redirect::permanent("/elsewhere").into_response())).await)).await;
    assert!(text.contains("redirected to `/elsewhere`"), "{text}");
    let loading = models(|| json_page(503, &json!({"error": {"message": "Loading model"}})));
    let (error, text) = complaint(&plan(serve(loading).await)).await;
    assert!(text.contains("503") && text.contains("Loading model") && error.is_unreachable(), "{text}");
}

#[tokio::test]
async fn a_request_longer_than_the_context_is_refused_before_it_is_sent() {
    let url = serve(listing(json!([{"id": "tiny", "max_model_len": 149}]))).await;
    let (error, text) = complaint(&plan(url)).await;
    assert!(matches!(error, TargetError::TooLong { isl: 100, osl: 50, context: 149 }), "{error:?}");
    assert!(text.contains("--isl") && text.contains("--osl"), "{text}");
    let fits = listing(json!([{"id": "tiny", "max_model_len": 150}]))
        .route("/v1/chat/completions", post(|| async { stream(16, true) }));
    let found = find(&plan(serve(fits).await)).await.unwrap().description;
    assert!(found.notes.iter().any(|note| note.contains("it may be refused")), "{found:?}");
}

#[tokio::test]
async fn a_refused_probe_says_why_in_the_servers_words() {
    let refuse = |status: u16, message: &'static str| {
        chatting(move || json_page(status, &json!({"error": {"message": message}})))
    };
    let cases = [
        (refuse(401, "no key"), "401 Unauthorized: no key", "--api-key-env NAME", false),
        (refuse(403, "not yours"), "403 Forbidden: not yours", "--api-key-env NAME", false),
        (refuse(404, "The model `tiny` does not exist."), "model `tiny` is refused", "--model NAME", false),
        (refuse(404, "Not Found"), "no `POST /v1/chat/completions`", "--api completions", false),
        (refuse(400, "top_k must be -1"), "400 Bad Request: top_k must be -1", "extra_body", false),
        (refuse(400, "no chat template is defined"), "no chat template", "--api completions", false),
        (refuse(400, "unknown field stream_options"), "stream_options", "--no-stream", false),
        (refuse(429, "slow down"), "429", "limit on the rate", true),
        (refuse(500, "out of memory"), "out of memory", "log", true),
    ];
    for (router, seen, mend, unreachable) in cases {
        let (error, text) = complaint(&plan(serve(router).await)).await;
        let said = error.to_string();
        assert!(said.contains(seen) && text.contains(mend), "{text}");
        assert_eq!(error.is_unreachable(), unreachable, "{text}");
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_told() {
    let cases: [(Router, &str); 4] = [
        (chatting(|| Html("<html><title>Sign in</title></html>").into_response()), "Sign in"),
        (chatting(|| json_page(200, &json!({"status": "ok"}))), "chat/completions"),
        (chatting(|| ().into_response()), "empty"),
        (chatting(|| "data: {\"error\":{\"message\":\"no memory\"}}\n\n".into_response()), "no memory"),
    ];
    for (router, words) in cases {
        let (error, text) = complaint(&plan(serve(router).await)).await;
        assert!(text.contains(words) && !error.is_unreachable(), "{text}");
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_cannot_be_judged_by_when_tokens_arrive() {
    let url = serve(chatting(whole)).await;
    let (error, text) = complaint(&plan(&url)).await;
    assert!(matches!(error, TargetError::NotStreamed { .. }), "{error:?}");
    assert!(text.contains("judge by `e2e` with `--no-stream`"), "{text}");
    let found = discover_with(&plan(&url), (100, 50), false, &environment).await.unwrap();
    assert!(!found.options.streaming && !found.description.streaming);
    assert!(found.description.notes[0].contains("measured without streaming"), "{:?}", found.description);
    let unasked = EndpointPlan { streaming: false, ..plan(&url) };
    assert!(matches!(find(&unasked).await, Err(TargetError::NotStreamed { .. })));
    let found = discover_with(&unasked, (100, 50), false, &environment).await.unwrap().description;
    assert_eq!((found.streaming, found.usage), (false, true));
}

#[tokio::test]
async fn missing_token_counts_and_ignored_lengths_are_noted() {
    let silent = find(&plan(serve(chatting(|| stream(16, false))).await)).await.unwrap().description;
    assert!(!silent.usage && silent.notes[0].contains("no token counts"), "{silent:?}");
    let brief = find(&plan(serve(chatting(|| stream(2, true))).await)).await.unwrap().description;
    assert!(brief.notes[0].contains("2 tokens came where 16 were asked for"), "{brief:?}");
}

#[tokio::test]
async fn a_load_opens_at_the_clock_and_number_given() {
    let url = serve(chatting(|| stream(16, true))).await;
    let endpoint = find(&plan(url)).await.unwrap();
    let requests = Box::new(|first: u64| {
        let spec = |id| RequestSpec { id, prompt: format!("Tell me of {id}"), isl: 4, osl: 16 };
        Box::new((first..).map(spec)) as Box<dyn Iterator<Item = RequestSpec> + Send>
    });
    let (_stop, interrupt) = tokio::sync::watch::channel(false);
    let mut live = Live::new(endpoint, 2, requests, interrupt);
    assert_eq!(live.describe()["model"], "tiny");
    let mut load = live.open(1000.0, 70).await.unwrap();
    load.set_level(1, 0.0, Excess::Retire);
    load.advance(Wake { at: 1020.0, ended: 3, first_tokens: u32::MAX }).await.unwrap();
    let ended: Vec<_> = load
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            SessionEvent::Ended(record) => Some(record),
            SessionEvent::FirstToken { .. } => None,
        })
        .collect();
    assert!(ended.len() >= 3);
    assert_eq!(ended.iter().take(3).map(|record| record.id).collect::<Vec<_>>(), [70, 71, 72]);
    assert!(ended.iter().all(|record| record.sent >= 1000.0 && record.is_completed()), "{ended:?}");
    load.close().await;
}

/// A certificate authority that signed nothing (`openssl req -x509`, its key thrown away).
const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUIkF4T3rPsZZHZdwxGfByTrVagbowCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXcGxpbXNvbGwgdGVzdCBhdXRob3JpdHkwIBcNMjYxMTI5MTc1
MzMxWhgPMjEyNjExMDUxNzUzMzFaMCIxIDAeBgNVBAMMF3BsaW1zb2xsIHRlc3Qg
YXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETXiZGa4F173nMKW0
fm69dZ04uzkZV0oGRavBegENNxx6+8AIhapDdn2lK8hzN8T9EyukId/JeELSw3gf
qR812KNTMFEwHQYDVR0OBBYEFMLlUkP1ZBvDOJQVAYxlfjYjoxH1MB8GA1UdIwQY
MBaAFMLlUkP1ZBvDOJQVAYxlfjYjoxH1MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZI
zj0EAwIDRwAwRAIgZdnt3pZN6KF40waHKKG3gPegEe8qdzfBp8OkunocnfYCIBir
+9UigjiGMsRvkXr61wXBNsj9/ADCaXEUyC17WjLv
-----END CERTIFICATE-----
";
