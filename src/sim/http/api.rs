//! The OpenAI API as this server speaks it: what requests ask, and what is answered.
//!
//! Its tokenizer is made to be simple and exact: one token for each word between blanks. A chat
//! adds [`TEMPLATE_TOKENS_PER_MESSAGE`] for each message and [`TEMPLATE_TOKENS`] to begin the answer.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

/// Tokens that the chat template puts around each message.
pub const TEMPLATE_TOKENS_PER_MESSAGE: u32 = 4;
/// Tokens with which the chat template begins the answer.
pub const TEMPLATE_TOKENS: u32 = 3;

/// Body of a completion request, chat or plain.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) model: Option<String>,
    #[serde(default)]
    messages: Vec<Message>,
    prompt: Option<Prompt>,
    #[serde(default)]
    pub(super) stream: bool,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    pub(super) min_tokens: u32,
    #[serde(default)]
    pub(super) ignore_eos: bool,
    n: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
}

/// Body of a `/tokenize` request.
#[derive(Debug, Deserialize)]
pub(super) struct Tokenize {
    #[serde(default)]
    messages: Vec<Message>,
    prompt: Option<String>,
}

/// Which of the two calls it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Chat,
    Completion,
}

impl Call {
    /// Beginning of a response's id.
    pub(super) fn id_prefix(self) -> &'static str {
        match self {
            Call::Chat => "chatcmpl",
            Call::Completion => "cmpl",
        }
    }
}

/// A request that cannot be served, in the shape of the API's errors.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    param: Option<&'static str>,
    message: String,
}

impl Refusal {
    pub(super) fn bad_request(param: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind: "BadRequestError", param, message: message.into() }
    }

    pub(super) fn unknown_model(name: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            param: Some("model"),
            message: format!("The model `{name}` does not exist."),
        }
    }

    pub(super) fn unauthorized() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            kind: "AuthenticationError",
            param: None,
            message: "Missing or wrong API key.".to_owned(),
        }
    }

    pub(super) fn throttled() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            kind: "RateLimitError",
            param: None,
            message: "Too many requests.".to_owned(),
        }
    }

    pub(super) fn failed() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "InternalServerError",
            param: None,
            message: "Simulated failure.".to_owned(),
        }
    }

    pub(super) fn closing() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "ServiceUnavailableError",
            param: None,
            message: "The server is shutting down.".to_owned(),
        }
    }

    /// The error as it stands in a body or inside a stream.
    pub(super) fn body(&self) -> Value {
        json!({ "error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.status.as_u16(),
        }})
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, axum::Json(self.body())).into_response()
    }
}

/// Tokens of a text: its words.
fn count(text: &str) -> u32 {
    text.split_whitespace().count() as u32
}

fn template(messages: usize) -> u32 {
    messages as u32 * TEMPLATE_TOKENS_PER_MESSAGE + TEMPLATE_TOKENS
}

impl Message {
    fn words(&self) -> impl Iterator<Item = &str> {
        let (text, parts) = match &self.content {
            None => ("", [].as_slice()),
            Some(Content::Text(text)) => (text.as_str(), [].as_slice()),
            Some(Content::Parts(parts)) => ("", parts.as_slice()),
        };
        text.split_whitespace().chain(parts.iter().flat_map(|part| part.text.split_whitespace()))
    }
}

/// A name for some messages: equal ones have the same.
fn name_of(messages: &[Message]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for message in messages {
        message.role.hash(&mut hasher);
        message.words().for_each(|word| word.hash(&mut hasher));
    }
    hasher.finish()
}

impl Request {
    /// Prompt length, tokens.
    pub(super) fn prompt_tokens(&self, call: Call) -> Result<u32, Refusal> {
        let missing = |field| Refusal::bad_request(Some(field), format!("`{field}` is missing or empty"));
        let tokens = match call {
            Call::Chat if self.messages.is_empty() => return Err(missing("messages")),
            Call::Chat => {
                let words: usize = self.messages.iter().map(|message| message.words().count()).sum();
                words as u32 + template(self.messages.len())
            }
            Call::Completion => match &self.prompt {
                Some(Prompt::Text(text)) => count(text),
                Some(Prompt::Tokens(tokens)) => tokens.len() as u32,
                Some(Prompt::Texts(texts)) if texts.len() == 1 => count(&texts[0]),
                Some(Prompt::Texts(_)) => {
                    return Err(Refusal::bad_request(Some("prompt"), "only one prompt a request is served"));
                }
                None => 0,
            },
        };
        if tokens == 0 { Err(missing("prompt")) } else { Ok(tokens) }
    }

    /// Names of the turn that a chat goes on with, and of the chat itself: a turn sends the messages of the
    /// turn before, its answer, and one message more.
    pub(super) fn names(&self, call: Call) -> (Option<u64>, Option<u64>) {
        if call == Call::Completion {
            return (None, None);
        }
        let answered = self.messages.len().checked_sub(2).filter(|&at| self.messages[at].role == "assistant");
        (answered.map(|at| name_of(&self.messages[..at])), Some(name_of(&self.messages)))
    }

    /// Checks what this server cannot do.
    pub(super) fn check(&self, model: &str) -> Result<(), Refusal> {
        if let Some(name) = &self.model
            && name != model
        {
            return Err(Refusal::unknown_model(name));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(Refusal::bad_request(Some("n"), "`n` must be 1"));
        }
        if self.max_tokens() == Some(0) {
            return Err(Refusal::bad_request(Some("max_tokens"), "`max_tokens` must be at least 1"));
        }
        if self.max_tokens().is_some_and(|most| self.min_tokens > most) {
            return Err(Refusal::bad_request(
                Some("min_tokens"),
                "`min_tokens` must not exceed `max_tokens`",
            ));
        }
        Ok(())
    }

    /// Most tokens the client wants.
    pub(super) fn max_tokens(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.max_tokens)
    }

    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }
}

impl Tokenize {
    /// The answer, in vLLM's shape.
    pub(super) fn answer(&self, max_model_len: u32) -> Result<Value, Refusal> {
        // A token's number is a hash of its word: equal words have equal numbers.
        let number = |word: &str| {
            word.bytes()
                .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
                % 32_000
        };
        let tokens: Vec<u32> = match &self.prompt {
            Some(prompt) => prompt.split_whitespace().map(number).collect(),
            None if self.messages.is_empty() => {
                return Err(Refusal::bad_request(None, "either `prompt` or `messages` must be given"));
            }
            None => {
                let marks = (0..template(self.messages.len())).map(|mark| 32_000 + mark);
                self.messages.iter().flat_map(Message::words).map(number).chain(marks).collect()
            }
        };
        Ok(json!({
            "count": tokens.len(), "max_model_len": max_model_len, "tokens": tokens, "token_strs": null,
        }))
    }
}

/// The `usage` object.
pub(super) fn usage(prompt: u32, completion: u32, cached: u32) -> Value {
    json!({
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        "prompt_tokens_details": { "cached_tokens": cached },
    })
}

/// The text of tokens number `from` to `to` of an answer, one word each.
pub(super) fn text(from: u32, to: u32) -> String {
    const WORDS: [&str; 8] = ["the", "ship", "carries", "cargo", "to", "its", "load", "line"];
    let mut text = String::with_capacity(8 * (to - from) as usize);
    for token in from..to {
        if token > 0 {
            text.push(' ');
        }
        text.push_str(WORDS[token as usize % WORDS.len()]);
    }
    text
}
