//! What `plimsoll profile` measures: shapes of requests and levels of load, as people write them.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::quantity::{Bounds, Count, QuantityError, wrong};
use super::resolve::log_spaced;

/// Steps that a range is cut into.
const STEPS: usize = 8;
/// Most steps: each is measured.
const MOST: usize = 64;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfileKind {
    /// TTFT over prompt length, one request at a time.
    Prefill,
    /// ITL over requests in flight and output length.
    Decode,
    /// Throughput a user against throughput in all, for each shape of requests.
    Pareto,
}

/// How `plimsoll profile` measures a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileSection {
    /// `prefill`, `decode` or `pareto`.
    pub kind: Option<ProfileKind>,
    /// Prompt lengths, tokens: `[128, 512, 2048]`, or `"128..8192"` for eight between.
    pub isl: Option<Steps>,
    /// Output lengths, tokens.
    pub osl: Option<Steps>,
    /// Requests in flight.
    pub concurrency: Option<Steps>,
    /// GPUs of the server: figures a GPU are given too.
    pub gpus: Option<Count>,
}

/// Whole numbers from 1 up, ascending, each once: `1,4,16`, or `1..64` for eight evenly apart on the log
/// scale.
///
/// ```
/// use plimsoll::recipe::Steps;
/// assert_eq!("512,128".parse::<Steps>().unwrap().0, [128, 512]);
/// assert_eq!("1..128".parse::<Steps>().unwrap().0, [1, 2, 4, 8, 16, 32, 64, 128]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(pub Vec<u32>);

impl Steps {
    fn of(mut steps: Vec<u32>) -> Result<Self, QuantityError> {
        steps.sort_unstable();
        steps.dedup();
        match steps.len() {
            0 => wrong("no step is given; write for example `128,512,2048`"),
            n if n > MOST => wrong(format!("{n} steps are too many; give at most {MOST}, each is measured")),
            _ => Ok(Self(steps)),
        }
    }
}

impl FromStr for Steps {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.contains("..") {
            return Self::of(log_spaced(text.parse::<Bounds>()?, STEPS));
        }
        let steps: Result<Vec<u32>, QuantityError> =
            text.split(',').map(|step| step.parse::<Count>().map(|Count(step)| step)).collect();
        Self::of(steps?)
    }
}

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;

        impl<'de> Visitor<'de> for Written {
            type Value = Steps;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list such as `[128, 512, 2048]`, or a range such as \"128..8192\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Steps, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Steps, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Steps, A::Error> {
                let mut steps = Vec::new();
                while let Some(Count(step)) = seq.next_element()? {
                    steps.push(step);
                }
                Steps::of(steps).map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Written)
    }
}

impl JsonSchema for Steps {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Steps".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Whole numbers from 1 up, or a range that is cut into eight evenly apart on the log scale.",
            "anyOf": [
                { "type": "array", "items": { "type": "integer", "minimum": 1 }, "minItems": 1, "maxItems": 64 },
                { "type": "string", "pattern": "^ *[0-9_]+ *((\\.\\.=?|,) *[0-9_]+ *)*$" },
                { "type": "integer", "minimum": 1 }
            ],
            "examples": [[128, 512, 2048], "128..8192"]
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn steps_are_a_list_or_a_range_in_a_recipe_and_on_the_command_line() {
        let read = |text: &str| toml::from_str::<ProfileSection>(text).unwrap().isl.unwrap().0;
        assert_eq!(read("isl = [2048, 128, 128]"), [128, 2048]);
        assert_eq!(read("isl = 128"), [128]);
        assert_eq!(read("isl = '1..4'"), [1, 2, 3, 4]);
        assert_eq!("64".parse::<Steps>().unwrap().0, [64]);
        for (text, mend) in [("", "not a whole number"), ("4..1", "`1..4`"), ("1,0", "too few"), ("a", "`a`")]
        {
            let error = text.parse::<Steps>().unwrap_err().to_string();
            assert!(error.contains(mend), "{text}: {error}");
        }
        let many = (1..=65).map(|n: u32| n.to_string()).collect::<Vec<_>>().join(",");
        assert!(many.parse::<Steps>().unwrap_err().to_string().contains("at most 64"));
    }
}
