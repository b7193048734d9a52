//! One request before any load: does the call work as it will be made?

use std::time::{Duration, Instant};

use crate::loadgen::{Client, ClientOptions, Failure, Outcome, RequestRecord};
use crate::plan::{Api, Engine};
use crate::target::TargetError;
use crate::target::web::{Page, Web};
use crate::workload::RequestSpec;

/// Longest wait for the answer: a cold server may take a while, a dead one should be told.
const LIMIT: Duration = Duration::from_secs(120);
/// Output tokens asked for.
const TOKENS: u32 = 16;
/// Requests whose natural answer is much shorter than [`TOKENS`]: where all of them come, the length
/// is obeyed. The second one is for models that have no word for the first.
const PROMPTS: [&str; 2] = ["Answer with the single word yes.", "What is the capital of France?"];

/// What one answer showed.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    /// Whether the answer came as a stream.
    pub(super) streamed: bool,
    /// Words in the prompt.
    pub(super) words: u32,
    /// Tokens of the prompt, by the server's count.
    pub(super) prompt_tokens: Option<u32>,
    /// Tokens of the answer, by the server's count.
    pub(super) output_tokens: Option<u32>,
}

impl Probe {
    /// Whether the answer had the length asked for, where the server counts it.
    pub(super) fn obeyed(&self) -> Option<bool> {
        self.output_tokens.map(|tokens| tokens == TOKENS)
    }

    /// Output tokens asked for.
    pub(super) fn asked() -> u32 {
        TOKENS
    }
}

/// `POST /v1/...` of an API.
pub(super) fn call_of(api: Api) -> &'static str {
    match api {
        Api::Chat => "POST /v1/chat/completions",
        Api::Completions => "POST /v1/completions",
    }
}

/// Sends one short request, made as the load will make its own.
pub(super) async fn probe(web: &Web, options: &ClientOptions) -> Result<Probe, TargetError> {
    let client = Client::new(options, Instant::now())?;
    let mut last = String::new();
    for (id, prompt) in PROMPTS.iter().enumerate() {
        let words = prompt.split(' ').count() as u32;
        let spec = RequestSpec::new(id as u64, (*prompt).to_owned(), words, TOKENS);
        let record = ask(web, options, &client, &spec).await?;
        match record.outcome {
            Outcome::Completed { .. } => {
                return Ok(Probe {
                    streamed: record.first.is_some(),
                    words,
                    prompt_tokens: record.isl_server,
                    output_tokens: record.osl_server,
                });
            }
            // A model may begin with a token that shows no text, and end there.
            Outcome::Failed { cause: Failure::Malformed, detail } if record.osl_server.is_some() => {
                last = detail;
            }
            Outcome::Failed { cause: Failure::InStream, detail } => {
                return Err(TargetError::Refused {
                    call: call_of(options.api).to_owned(),
                    answer: format!("an error within the answer: {}", web.words(&detail)),
                    hint: hint(options.api, options.engine, &detail),
                });
            }
            Outcome::Failed { detail, .. } => {
                last = detail;
                break;
            }
            Outcome::Censored | Outcome::Cancelled => break,
        }
    }
    Err(TargetError::Answer { call: call_of(options.api).to_owned(), reason: web.words(&last) })
}

/// Sends one request as the load would, and reads its answer.
pub(super) async fn ask(
    web: &Web,
    options: &ClientOptions,
    client: &Client,
    spec: &RequestSpec,
) -> Result<RequestRecord, TargetError> {
    let call = match options.api {
        Api::Chat => "chat/completions",
        Api::Completions => "completions",
    };
    let request = client.prepare(spec);
    let mut intake = client.intake(&request);
    let limit = LIMIT.min(options.timeout);
    let mut response = web.post(call, request.body.clone(), limit).await?;
    if !response.status().is_success() {
        let page = web.page_of(response).await;
        return Err(refusal(web, options, &page));
    }
    let outcome = loop {
        match response.chunk().await {
            Ok(Some(bytes)) => intake.on_bytes(client.now(), &bytes),
            Ok(None) => break intake.on_end(client.now()),
            Err(error) => return Err(web.failure(&error, limit)),
        }
        // Some servers leave the connection open after the end.
        if intake.is_over() {
            break intake.on_end(client.now());
        }
    };
    Ok(intake.into_record(client.now(), outcome))
}

/// A status that is not 2xx, by what it means for a single request.
fn refusal(web: &Web, options: &ClientOptions, page: &Page) -> TargetError {
    let call = call_of(options.api);
    if let Some(refusal) = web.common_refusal(call, page) {
        return refusal;
    }
    let answer = web.answer(page);
    let call = call.to_owned();
    match page.status.as_u16() {
        404 if answer.to_lowercase().contains("model") => {
            TargetError::ModelRefused { name: options.model.clone(), answer }
        }
        404 | 405 | 501 => {
            let other = if options.api == Api::Chat { "completions" } else { "chat" };
            TargetError::NoCall { call, answer, other }
        }
        _ => {
            let hint = hint(options.api, options.engine, &answer);
            TargetError::Refused { call, answer, hint }
        }
    }
}

/// The mend of a refusal, where the server's words tell it.
fn hint(api: Api, engine: Engine, words: &str) -> Option<&'static str> {
    let words = words.to_lowercase();
    let names = |name: &str| words.contains(name);
    if api == Api::Chat && names("chat template") {
        return Some("the model has no chat template: measure the other call with `--api completions`");
    }
    if engine != Engine::Generic && (names("ignore_eos") || names("min_tokens")) {
        return Some(
            "the server does not take what asks for an exact length: tell it with `--engine generic`",
        );
    }
    if names("stream_options") {
        return Some("the server does not take what asks for token counts in a stream: use `--no-stream`");
    }
    Some("check `--model`, `--engine` and `target.extra_body` against the server's words")
}
