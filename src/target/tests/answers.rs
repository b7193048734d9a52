//! What a server answers, and what is made of it.

use super::*;

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
