//! Choices as people write them: the name of an API, an engine, a strategy, a way to count tokens.

use std::str::FromStr;

use super::error::closest;
use super::quantity::{QuantityError, written_as_text, wrong};
use crate::plan::{Api, DatasetFormat, Engine, TokenizerPlan};
use crate::workload::ArrivalProcess;

/// Names of the calls that can be measured.
pub const APIS: [(&str, Api); 2] = [("chat", Api::Chat), ("completions", Api::Completions)];

/// Names of the engines that are known.
pub const ENGINES: [(&str, Engine); 6] = [
    ("vllm", Engine::Vllm),
    ("sglang", Engine::Sglang),
    ("llama-server", Engine::LlamaServer),
    ("tensorrt-llm", Engine::TensorrtLlm),
    ("simulated", Engine::Simulated),
    ("generic", Engine::Generic),
];

/// Names of the strategies.
pub const STRATEGIES: [(&str, StrategyName); 3] =
    [("adaptive", StrategyName::Adaptive), ("bisect", StrategyName::Bisect), ("grid", StrategyName::Grid)];

/// Names of the formats of datasets and traces.
pub const DATASET_FORMATS: [(&str, DatasetFormat); 6] = [
    ("sharegpt", DatasetFormat::Sharegpt),
    ("openai", DatasetFormat::Openai),
    ("lengths", DatasetFormat::Lengths),
    ("mooncake", DatasetFormat::Mooncake),
    ("azure", DatasetFormat::Azure),
    ("burstgpt", DatasetFormat::Burstgpt),
];

/// A way to search, without its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyName {
    /// A posterior over the boundary.
    Adaptive,
    /// Bracket and interpolation.
    Bisect,
    /// Given levels.
    Grid,
}

/// [`Api`] as written in a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiName(pub Api);

/// [`Engine`] as written in a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineName(pub Engine);

/// [`TokenizerPlan`] as written in a recipe: `auto`, `server`, `usage`, or the path of a
/// `tokenizer.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokenizer(pub TokenizerPlan);

/// [`ArrivalProcess`] as written in a recipe: `constant`, `poisson` or `gamma(0.25)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrivalsName(pub ArrivalProcess);

/// Smallest and largest shape of gamma gaps.
const SHAPES: (f64, f64) = (0.01, 1000.0);

impl FromStr for ArrivalsName {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let plain = text.trim().to_lowercase();
        let shape = plain.strip_prefix("gamma").map(|rest| {
            let inside = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            inside.unwrap_or("").trim().trim_start_matches("shape=").parse::<f64>()
        });
        match (plain.as_str(), shape) {
            ("constant", _) => Ok(Self(ArrivalProcess::Constant)),
            ("poisson", _) => Ok(Self(ArrivalProcess::Poisson)),
            (_, Some(Ok(shape))) if (SHAPES.0..=SHAPES.1).contains(&shape) => {
                Ok(Self(ArrivalProcess::Gamma { shape }))
            }
            (_, Some(_)) => wrong(format!(
                "`{text}` has no shape from 0.01 to 1000; write `gamma(0.25)` for bursts (1 is Poisson)"
            )),
            _ => wrong(format!(
                "no arrivals are called `{text}`; there are `constant`, `poisson` and `gamma(SHAPE)`"
            )),
        }
    }
}

/// Finds `text` among the names of `table`, whatever its case and dashes.
pub(super) fn choose<T: Copy>(what: &str, text: &str, table: &[(&str, T)]) -> Result<T, QuantityError> {
    let plain = text.trim().to_lowercase().replace('_', "-");
    if let Some(&(_, value)) = table.iter().find(|(name, _)| *name == plain) {
        return Ok(value);
    }
    let names = || table.iter().map(|(name, _)| *name);
    let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match closest(&plain, names()) {
        Some(name) => {
            wrong(format!("no {what} is called `{text}`; did you mean `{name}`? (there are {list})"))
        }
        None => wrong(format!("no {what} is called `{text}`; there are {list}")),
    }
}

impl FromStr for ApiName {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        choose("API", text, &APIS).map(Self)
    }
}

impl FromStr for EngineName {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        choose("engine", text, &ENGINES).map(Self)
    }
}

impl FromStr for StrategyName {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        choose("strategy", text, &STRATEGIES)
    }
}

impl FromStr for Tokenizer {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Ok(Self(match text.trim() {
            "auto" => TokenizerPlan::Auto,
            "server" => TokenizerPlan::Server,
            "usage" => TokenizerPlan::Usage,
            path if path.contains(['/', '\\']) || path.ends_with(".json") => {
                TokenizerPlan::File { path: path.to_owned() }
            }
            _ => {
                return wrong(format!(
                    "`{text}` is not `auto`, `server`, `usage` or the path of a `tokenizer.json`"
                ));
            }
        }))
    }
}

written_as_text! {
    ApiName: { "description": "Which call is measured.", "enum": ["chat", "completions"] },
    EngineName: {
        "description": "A kind of server, which decides how an exact output length is asked for.",
        "enum": ["vllm", "sglang", "llama-server", "tensorrt-llm", "simulated", "generic"]
    },
    StrategyName: { "description": "A way to search.", "enum": ["adaptive", "bisect", "grid"] },
    ArrivalsName: {
        "description": "How arrivals are spaced: `constant`, `poisson`, or `gamma(SHAPE)`, where a shape below 1 is \
                        bursty (as vLLM's burstiness).",
        "type": "string",
        "pattern": "^ *(constant|poisson|gamma *\\( *[0-9.]+ *\\)) *$",
        "examples": ["poisson", "gamma(0.25)"]
    },
    Tokenizer: {
        "description": "How prompt tokens are counted: `auto`, `server` (its /tokenize), `usage` (calibrated from \
                        its usage), or the path of a tokenizer.json.",
        "type": "string",
        "examples": ["auto", "server", "usage", "models/tokenizer.json"]
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use schemars::schema_for;

    #[test]
    fn a_name_is_found_whatever_its_case_and_dashes() {
        assert_eq!("Llama_Server".parse::<EngineName>().unwrap().0, Engine::LlamaServer);
        assert_eq!("chat".parse::<ApiName>().unwrap().0, Api::Chat);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_likely_one_and_the_list() {
        let error = "vlm".parse::<EngineName>().unwrap_err().to_string();
        assert!(
            error.starts_with("no engine is called `vlm`; did you mean `vllm`? (there are `vllm`, "),
            "{error}"
        );
        let error = "magic".parse::<StrategyName>().unwrap_err().to_string();
        assert_eq!(error, "no strategy is called `magic`; there are `adaptive`, `bisect`, `grid`");
    }

    #[test]
    fn the_schema_lists_exactly_the_names_that_are_read() {
        let listed = |schema: schemars::Schema| schema.get("enum").unwrap().to_string();
        let table = |names: Vec<&str>| serde_json::json!(names).to_string();
        assert_eq!(listed(schema_for!(ApiName)), table(APIS.map(|(name, _)| name).to_vec()));
        assert_eq!(listed(schema_for!(EngineName)), table(ENGINES.map(|(name, _)| name).to_vec()));
        assert_eq!(listed(schema_for!(StrategyName)), table(STRATEGIES.map(|(name, _)| name).to_vec()));
    }

    #[test]
    fn arrivals_have_a_name_and_bursts_a_shape() {
        let shape = |text: &str| text.parse::<ArrivalsName>().unwrap().0;
        assert_eq!(shape("Poisson"), ArrivalProcess::Poisson);
        assert_eq!(shape("gamma(0.25)"), ArrivalProcess::Gamma { shape: 0.25 });
        for text in ["gamma", "gamma(0)", "gamma(x)", "uniform"] {
            assert!(text.parse::<ArrivalsName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_tokenizer_is_a_keyword_or_a_path() {
        assert_eq!("server".parse::<Tokenizer>().unwrap().0, TokenizerPlan::Server);
        let file = TokenizerPlan::File { path: "a/tokenizer.json".to_owned() };
        assert_eq!("a/tokenizer.json".parse::<Tokenizer>().unwrap().0, file);
        assert!("gpt2".parse::<Tokenizer>().is_err());
    }
}
