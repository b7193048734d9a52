//! One point of the checklist.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// A measurement is valid, but its reader should know.
    Warn,
    /// A measurement would not be valid.
    Fail,
}

/// One point of the checklist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// What was looked at.
    pub name: String,
    /// How it stands.
    pub status: Status,
    /// What was seen.
    pub seen: String,
    /// What to do about it.
    pub mend: Option<String>,
}

impl Line {
    fn new(name: &str, status: Status, seen: impl Into<String>, mend: Option<String>) -> Self {
        Self { name: name.to_owned(), status, seen: seen.into(), mend }
    }

    pub(super) fn ok(name: &str, seen: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, seen, None)
    }

    pub(super) fn warn(name: &str, seen: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(name, Status::Warn, seen, Some(mend.into()))
    }

    pub(super) fn fail(name: &str, seen: impl Into<String>, mend: impl Into<String>) -> Self {
        let mend = Some(mend.into()).filter(|mend| !mend.is_empty());
        Self::new(name, Status::Fail, seen, mend)
    }
}
