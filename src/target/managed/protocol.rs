//! What this program and a supervisor say to each other: one JSON line each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::failure::Exit;

/// The first line to the supervisor. Any further line tells it to stop the engine; the end of its input
/// without one says that the program is gone. Secrets go this way, since arguments of a process can be read by anybody.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) launch: u32,
    pub(super) id: String,
    pub(super) command: Vec<String>,
    /// The command as it may be shown.
    pub(super) shown: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) folder: Option<PathBuf>,
    pub(super) log: PathBuf,
    /// The file that keeps what was launched.
    pub(super) launches: PathBuf,
    pub(super) stop: Option<Vec<String>>,
    pub(super) stop_seconds: f64,
    /// Texts that must not reach the log.
    pub(super) secrets: Vec<String>,
}

/// What the supervisor tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The command runs.
    Launched { pid: i32 },
    /// The command could not be run.
    Refused { reason: String },
    /// The process that was launched has ended; others of its tree may go on.
    Exited(Exit),
    /// Nothing of it is left, but for so many processes that could not be killed.
    Gone { left: usize },
}
