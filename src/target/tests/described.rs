//! A sound endpoint is described from what it says, and loads open on it.

use super::*;

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
        let spec = |id| RequestSpec::new(id, format!("Tell me of {id}"), 4, 16);
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
