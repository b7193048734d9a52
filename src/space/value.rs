//! The value of a knob.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The value of an engine setting, written as TOML and JSON write it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KnobValue {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// One of several words.
    Choice(String),
    /// A flag: set or not.
    Flag(bool),
}

impl fmt::Display for KnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Choice(value) => value.fmt(f),
            Self::Flag(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_value_keeps_its_kind_through_a_file() {
        let values = [
            KnobValue::Flag(true),
            KnobValue::Int(-3),
            KnobValue::Float(1.0),
            KnobValue::Choice("fp8".to_owned()),
        ];
        for value in values {
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<KnobValue>(&json).unwrap(), value, "{json}");
        }
    }
}
