//! The value of a knob.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The value of a knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KnobValue {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// One of several words.
    Choice(String),
    /// On or off.
    Flag(bool),
}

impl fmt::Display for KnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnobValue::Int(value) => value.fmt(f),
            KnobValue::Float(value) => value.fmt(f),
            KnobValue::Choice(value) => value.fmt(f),
            KnobValue::Flag(value) => value.fmt(f),
        }
    }
}
