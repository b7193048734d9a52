//! What can be wrong with an endpoint, as it was seen, and how to mend it.

use thiserror::Error;

use crate::loadgen::{ClientError, OpenError};
use crate::target::managed::EngineFailure;
use crate::workload::TokenizerError;
use crate::workload::dataset::DatasetError;

/// A target that cannot be measured. Its text says on one line what was seen; the mend stands
/// apart, in [`TargetError::hint`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The URL is not one.
    #[error("the URL `{url}` cannot be used: {reason}")]
    Url {
        /// As given, without credentials.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An environment variable that is to hold a secret is not there.
    #[error("{place} names the environment variable `{name}`, which {problem}")]
    Variable {
        /// The variable.
        name: String,
        /// Where it is named.
        place: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file that the requests are taken from cannot be used.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The file of the certificate authority cannot be read.
    #[error("the certificate authority's file `{path}` cannot be read: {reason}")]
    CaFile {
        /// Its path.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// No client can be made of the options.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The load cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nobody answers there.
    #[error("`{url}` cannot be reached: {reason}")]
    Unreachable {
        /// The server's root.
        url: String,
        /// Why.
        reason: String,
        /// How to mend it.
        hint: &'static str,
    },
    /// The server answers, but not with service: it starts, is overloaded or fails.
    #[error("`{call}` is answered with {answer}")]
    NotServing {
        /// The call.
        call: String,
        /// Status and words.
        answer: String,
        /// Whether it is for a limit on the rate of requests (HTTP 429).
        throttled: bool,
    },
    /// TLS cannot be agreed.
    #[error("no TLS with `{url}`: {reason}")]
    Tls {
        /// The server's root.
        url: String,
        /// Why.
        reason: String,
        /// Whether the other side seems to speak plain HTTP.
        plain: bool,
    },
    /// The key is missing or refused.
    #[error("`{call}` is refused with {answer}")]
    Unauthorized {
        /// The call.
        call: String,
        /// Status and words.
        answer: String,
        /// The variable that the key was read from, if there was a key.
        key: Option<String>,
    },
    /// Whatever answers is no OpenAI-compatible API.
    #[error("`{url}` is not an OpenAI-compatible API: `{call}` is answered with {answer}")]
    NotTheApi {
        /// The server's root.
        url: String,
        /// The call.
        call: String,
        /// What came.
        answer: String,
    },
    /// The server sends elsewhere.
    #[error("`{call}` is redirected to `{to}`, and a load follows no redirects")]
    Redirected {
        /// The call.
        call: String,
        /// Where to.
        to: String,
    },
    /// No model is named, and the server lists none.
    #[error("no model is named, and {reason}")]
    NoModel {
        /// Why none was found.
        reason: String,
    },
    /// No model is named, and the server has several.
    #[error("no model is named, and the server has several: {}", listed(.names))]
    SeveralModels {
        /// Their names.
        names: Vec<String>,
    },
    /// The model named is not there.
    #[error("the server has no model `{name}`; it has {}", listed(.names))]
    UnknownModel {
        /// As asked for.
        name: String,
        /// What is there.
        names: Vec<String>,
    },
    /// The model named was refused by the call itself.
    #[error("the model `{name}` is refused: {answer}")]
    ModelRefused {
        /// As asked for.
        name: String,
        /// Status and words.
        answer: String,
    },
    /// The workload's longest request does not fit into the context.
    #[error(
        "the longest request, {isl} tokens in and {osl} out, exceeds the context length of {context} tokens"
    )]
    TooLong {
        /// Longest prompt, tokens.
        isl: u32,
        /// Longest output, tokens.
        osl: u32,
        /// Context length, tokens.
        context: u32,
    },
    /// The server does not have the call that is to be measured.
    #[error("the server has no `{call}`: {answer}")]
    NoCall {
        /// The call.
        call: String,
        /// Status and words.
        answer: String,
        /// The other call, if that may be the one.
        other: &'static str,
    },
    /// A single request was refused.
    #[error("a single request to `{call}` is refused with {answer}")]
    Refused {
        /// The call.
        call: String,
        /// Status and words.
        answer: String,
        /// How to mend it.
        hint: Option<&'static str>,
    },
    /// A single request was answered with something else than the API promises.
    #[error("a single request to `{call}` went wrong: {reason}")]
    Answer {
        /// The call.
        call: String,
        /// What was wrong with the answer.
        reason: String,
    },
    /// A local tokenizer that cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The server counts no tokens for us.
    #[error("the server's `/tokenize` gives no count: {seen}")]
    NoTokenize {
        /// Status and words.
        seen: String,
    },
    /// Answers bear no `usage`.
    #[error("the server's answers bear no token counts (`usage`)")]
    NoUsage,
    /// Counts that cannot be used to build prompts.
    #[error("prompts cannot be built by the counts of {counter}: {detail}")]
    Counts {
        /// Who counts.
        counter: &'static str,
        /// What was seen.
        detail: String,
    },
    /// The engine that was launched for the run failed.
    #[error(transparent)]
    Engine(#[from] Box<EngineFailure>),
    /// What is to be done before each load failed.
    #[error("the reset before a load failed: {0}")]
    Reset(String),
    /// The embedded engine could not be started.
    #[error("the embedded engine cannot be started: {0}")]
    Embedded(String),
    /// The SLO judges when tokens arrive, which an answer in one piece does not show.
    #[error("the SLO judges when tokens arrive (TTFT, ITL, TPOT and the like), but {seen}")]
    NotStreamed {
        /// What was seen.
        seen: String,
    },
}

impl TargetError {
    /// How to mend it, where the message does not already say so.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Url { url, reason } if reason.contains("scheme is missing") => {
                return Some(format!("did you mean `http://{url}`?"));
            }
            Self::Url { .. } => "write it as `http://host:port`, for example `http://127.0.0.1:8000`",
            Self::Variable { name, .. } => {
                return Some(format!("set it: `export {name}=...`, in the shell that starts plimsoll"));
            }
            Self::CaFile { .. } => "give the path of a PEM file with `--ca-file`",
            Self::Client(_) | Self::Open(_) | Self::Tokenizer(_) | Self::Dataset(_) | Self::Embedded(_) => {
                return None;
            }
            Self::Engine(failure) => return Some(failure.hint()),
            Self::Reset(_) => "check `engine.reset`, or leave it out",
            Self::NoTokenize { .. } => {
                "leave `--tokenizer` out, or name a local file: `--tokenizer tokenizer.json`"
            }
            Self::NoUsage | Self::Counts { .. } => {
                "name the model's own tokenizer: `--tokenizer tokenizer.json`"
            }
            Self::Unreachable { hint, .. } => hint,
            Self::NotServing { throttled: true, .. } => {
                "a limit on the rate of requests would be measured, not the server: lift it, or wait until it allows more"
            }
            Self::NotServing { .. } => "wait until the server is ready, or look into its log",
            Self::Tls { plain: true, .. } => {
                "does this port speak plain HTTP? then write the URL with `http://`"
            }
            Self::Tls { .. } => {
                "name the file of the certificate authority that signed the server's certificate: `--ca-file FILE`"
            }
            Self::Unauthorized { key: None, .. } => {
                "name the environment variable that holds the API key: `--api-key-env NAME`"
            }
            Self::Unauthorized { key: Some(name), .. } => return Some(format!("check the key in `{name}`")),
            Self::NotTheApi { .. } => "check the host, the port and the path of the URL",
            Self::Redirected { .. } => "give the URL that it leads to",
            Self::NoModel { .. } => "name it: `--model NAME`",
            Self::SeveralModels { .. } => "name one of them: `--model NAME`",
            Self::UnknownModel { names, .. } if names.len() == 1 => {
                "leave `--model` out, or give the name that is there"
            }
            Self::UnknownModel { .. } => "give one of those names: `--model NAME`",
            Self::ModelRefused { .. } => "check the model's name: `--model NAME`",
            Self::TooLong { .. } => {
                "use a smaller `--isl` or `--osl`, or start the server with a longer context"
            }
            Self::NoCall { other, .. } => {
                return Some(format!(
                    "check the path of the URL, or measure the other call: `--api {other}`"
                ));
            }
            Self::Refused { hint, .. } => return hint.map(str::to_owned),
            Self::Answer { .. } => "check the port and what stands between here and the server (a proxy?)",
            Self::NotStreamed { .. } => "judge by `e2e` with `--no-stream`, or let the server stream",
        };
        Some(hint.to_owned())
    }

    /// Whether the server does not serve now: it cannot be reached, or has nothing but failures for
    /// a single request. Everything else is to be mended on this side.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::NotServing { .. } | Self::Tls { .. } | Self::Engine(_)
        )
    }
}

/// Names in backticks; long lists are cut.
fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    let shown: Vec<String> = names.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => "none".to_owned(),
        n if n > MOST => format!("{} and {} more", shown.join(", "), n - MOST),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_models_is_cut() {
        let names: Vec<String> = (0..40).map(|n| format!("m{n}")).collect();
        let message = TargetError::SeveralModels { names }.to_string();
        assert!(message.contains("`m11` and 28 more") && !message.contains("m12"), "{message}");
    }
}
