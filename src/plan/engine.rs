//! An engine that is launched for the run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::space::KnobValue;

/// How the server under test is launched, watched and stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnginePlan {
    /// The command, as templates: the program first.
    pub launch: Vec<Argument>,
    /// Whether the command is one text for `sh -c`.
    pub shell: bool,
    /// `{{ model }}` of the templates.
    pub model: Option<String>,
    /// `{{ host }}`: the address that the engine is to listen on.
    pub host: String,
    /// `{{ port }}`; a free one of this machine where absent.
    pub port: Option<u16>,
    /// Working folder.
    pub folder: Option<String>,
    /// Environment beside the caller's. Values are templates; `${NAME}` stands for the caller's
    /// variable.
    pub env: BTreeMap<String, String>,
    /// `{{ knobs.<name> }}` where no tuner gives them.
    pub knobs: BTreeMap<String, KnobValue>,
    /// Paths that are asked until one is answered with success; one that is not there (404) is
    /// passed over.
    pub ready: Vec<String>,
    /// Longest from the launch to the first good completion, seconds.
    pub start_seconds: f64,
    /// A command that ends what the first one started elsewhere.
    pub stop: Option<Vec<Argument>>,
    /// Time for a clean end (the stop command's, and after `SIGTERM`), seconds.
    pub stop_seconds: f64,
    /// Whether the command may end while the engine goes on elsewhere.
    pub detached: bool,
    /// Requests sent one after the other before the first load.
    pub warmup: u32,
    /// What is done before each load, while nothing is in flight.
    pub reset: Option<Reset>,
}

/// Part of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Argument {
    /// One argument; left out when it names a knob that has no value.
    Word(String),
    /// Arguments that are left out together when one of them names a knob that has no value.
    Group(Vec<String>),
    /// Arguments that depend on a condition.
    When(When),
}

/// Arguments that depend on a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// An expression such as `knobs.prefix_caching`; where it names a knob that has no value, neither
    /// list is used.
    #[serde(rename = "when")]
    pub condition: String,
    /// Arguments where it holds.
    pub args: Vec<String>,
    /// Arguments where it does not.
    #[serde(rename = "else", default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<String>,
}

/// What is done between two loads, so that the second one does not profit from the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reset {
    /// `POST` to this path of the server.
    Post(String),
    /// A command.
    Command(Vec<Argument>),
}
