//! The journal: what happened in a run, one JSON event a line.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::RunError;
use super::records::Frame;
use crate::search::{Answer, TrialOutcome, TrialSpec};

/// Version of the events' form.
pub const JOURNAL_VERSION: u32 = 1;

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The run began; the first line of every journal.
    RunStarted(Started),
    /// The run was taken up again after its process had ended.
    RunResumed {
        /// Version of the program that goes on.
        version: String,
        /// When, RFC 3339.
        utc: String,
        /// The latest instant on the run's clock that the journal knows, seconds.
        clock: f64,
        /// Length of the requests' records that were whole; those of trials beyond are lost.
        records_end: u64,
    },
    /// What the target said of itself.
    TargetDescribed(serde_json::Value),
    /// A trial is about to be run.
    TrialAsked(TrialSpec),
    /// A trial has ended, and the records of its requests are on the disk.
    TrialEnded {
        /// What came of it.
        outcome: Box<TrialOutcome>,
        /// What the run has taken so far.
        cost: Cost,
        /// Where its records are.
        records: Frame,
    },
    /// Something that the reader of the answer should know.
    Warning(String),
    /// The run has an answer, or was ended without one.
    RunEnded {
        /// The answer.
        answer: Box<Answer>,
        /// What the run took, the times before it was resumed among it.
        cost: Cost,
        /// Records of requests that ended after the last trial.
        records: Frame,
    },
}

/// How a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// [`JOURNAL_VERSION`] of the program that made the journal.
    pub journal_version: u32,
    /// Version of the program.
    pub version: String,
    /// When, RFC 3339.
    pub utc: String,
    /// The run clock's zero in seconds since 1970 (Unix time).
    pub clock_origin: f64,
    /// Hash of `plan.toml` (FNV-1a, 64 bits, hexadecimal).
    pub plan_hash: String,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Seconds on the run's clock.
    pub seconds: f64,
    /// Requests issued.
    pub requests: u64,
    /// CPU time of this program, user and system, seconds.
    pub client_cpu_seconds: f64,
}

/// An event as a line of the journal. A line that could not be read back (a figure that is not
/// finite) is an error now rather than when the run is resumed.
pub(super) fn to_line(event: &Event) -> Result<Vec<u8>, RunError> {
    let refuse = |error: serde_json::Error| RunError::Unrecordable { problem: error.to_string() };
    let mut line = serde_json::to_vec(event).map_err(refuse)?;
    serde_json::from_slice::<Event>(&line).map_err(refuse)?;
    line.push(b'\n');
    Ok(line)
}

/// The events of a journal and the length of its whole lines. A last line that was cut short is
/// left out; any other that cannot be read is an error.
pub(super) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<(Vec<Event>, u64), RunError> {
    let mut events = Vec::new();
    let mut whole = 0;
    let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    for (index, line) in lines.iter().enumerate() {
        let is_last = index + 1 == lines.len();
        if is_last && line.last() != Some(&b'\n') {
            break;
        }
        match serde_json::from_slice(line) {
            Ok(event) => events.push(event),
            Err(_) if is_last => break,
            Err(error) => {
                let problem = format!("not an event of this version ({error})");
                return Err(RunError::Damaged { path: path.to_owned(), line: index + 1, problem });
            }
        }
        whole += line.len() as u64;
    }
    Ok((events, whole))
}
