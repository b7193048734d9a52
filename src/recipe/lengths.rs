//! Lengths as people write them: `100`, `lognormal(mean=400, cv=0.6)`, or a table with the same
//! fields.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::error::closest;
use super::quantity::{Count, QuantityError, wrong};
use crate::plan::Lengths;

/// [`Lengths`] as written in a recipe.
///
/// ```
/// use plimsoll::plan::Lengths;
/// use plimsoll::recipe::TokenLengths;
/// let lengths: TokenLengths = "lognormal(mean=400, cv=0.6, max=2400)".parse().unwrap();
/// assert_eq!(lengths.0, Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 1, max: 2400 });
/// assert_eq!("100".parse::<TokenLengths>().unwrap().0, Lengths::Fixed { tokens: 100 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLengths(pub Lengths);

const EXAMPLE: &str = "`100` or `lognormal(mean=400, cv=0.6, min=4, max=2400)`";
const FIELDS: [&str; 4] = ["mean", "cv", "min", "max"];

/// A lognormal as far as it is written.
#[derive(Clone, Copy, Debug, Default)]
struct Lognormal {
    mean: Option<f64>,
    cv: Option<f64>,
    min: Option<u32>,
    max: Option<u32>,
}

impl Lognormal {
    fn set(&mut self, field: &str, value: &str) -> Result<(), QuantityError> {
        let number = || match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => wrong(format!("`{field}` is `{value}`, which is not a number")),
        };
        let tokens = || match value.parse::<Count>() {
            Ok(Count(tokens)) => Ok(tokens),
            Err(QuantityError(problem)) => wrong(format!("`{field}`: {problem}")),
        };
        match field {
            "mean" => self.mean = Some(number()?),
            "cv" => self.cv = Some(number()?),
            "min" => self.min = Some(tokens()?),
            "max" => self.max = Some(tokens()?),
            other => {
                let mend = match closest(other, FIELDS) {
                    Some(field) => format!("did you mean `{field}`?"),
                    None => "it has `mean`, `cv`, `min`, `max`".to_owned(),
                };
                return wrong(format!("a lognormal has no `{other}`; {mend}"));
            }
        }
        Ok(())
    }

    /// Fills in what was left out, the cut being far enough out not to move the mean by much.
    fn check(self) -> Result<TokenLengths, QuantityError> {
        let (Some(mean), Some(cv)) = (self.mean, self.cv) else {
            return wrong("a lognormal needs `mean` (tokens) and `cv` (standard deviation / mean)");
        };
        if !(1.0..=1e8).contains(&mean) {
            return wrong(format!("a `mean` of {mean} tokens is outside 1 to 100,000,000"));
        }
        if !(0.0..=10.0).contains(&cv) {
            return wrong(format!("a `cv` of {cv} is outside 0 to 10; 0.6 is usual for chat"));
        }
        let min = self.min.unwrap_or(1);
        let max = self.max.unwrap_or_else(|| (mean * (1.0 + 8.0 * cv)).ceil() as u32);
        if min > max {
            return wrong(format!("`min` {min} is above `max` {max}"));
        }
        if mean < f64::from(min) || mean > f64::from(max) {
            return wrong(format!("the `mean` of {mean} tokens is outside `min` {min} to `max` {max}"));
        }
        Ok(TokenLengths(Lengths::Lognormal { mean, cv, min, max }))
    }
}

impl FromStr for TokenLengths {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let Count(tokens) = text.parse()?;
            return Ok(Self(Lengths::Fixed { tokens }));
        }
        let Some(fields) = text.strip_prefix("lognormal") else {
            return wrong(format!("`{text}` is not a length in tokens; write {EXAMPLE}"));
        };
        // `lognormal:mean=400,cv=0.6` spares the shell's quotes.
        let fields =
            match (fields.strip_prefix(':'), fields.strip_prefix('(').and_then(|f| f.strip_suffix(')'))) {
                (Some(fields), _) | (_, Some(fields)) => fields,
                _ => return wrong(format!("`{text}` is not a length in tokens; write {EXAMPLE}")),
            };
        let mut lognormal = Lognormal::default();
        for field in fields.split(',') {
            match field.split_once('=') {
                Some((name, value)) => lognormal.set(name.trim(), value.trim())?,
                None => return wrong(format!("`{}` is not `name=value`; write {EXAMPLE}", field.trim())),
            }
        }
        lognormal.check()
    }
}

impl<'de> Deserialize<'de> for TokenLengths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LengthsVisitor)
    }
}

struct LengthsVisitor;

/// The fields of a lognormal in a table: `{ lognormal = { mean = 400, cv = 0.6 } }`.
struct FieldsVisitor;

impl<'de> Visitor<'de> for LengthsVisitor {
    type Value = TokenLengths;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a length in tokens: {EXAMPLE}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<TokenLengths, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, tokens: i64) -> Result<TokenLengths, E> {
        self.visit_str(&tokens.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TokenLengths, A::Error> {
        let lengths = match map.next_key::<String>()?.as_deref() {
            Some("lognormal") => map.next_value::<FieldsOnly>()?.0,
            Some("fixed") => {
                return Ok(TokenLengths(Lengths::Fixed { tokens: map.next_value::<Count>()?.0 }));
            }
            Some(other) => {
                return Err(de::Error::custom(format!(
                    "no distribution is called `{other}`; there are `fixed`, `lognormal`"
                )));
            }
            None => {
                return Err(de::Error::custom(format!("an empty table is not a length; write {EXAMPLE}")));
            }
        };
        match map.next_key::<String>()? {
            None => Ok(lengths),
            Some(other) => Err(de::Error::custom(format!("`{other}` is one distribution too many"))),
        }
    }
}

struct FieldsOnly(TokenLengths);

impl<'de> Deserialize<'de> for FieldsOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = TokenLengths;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fields of a lognormal: `{ mean = 400, cv = 0.6, min = 4, max = 2400 }`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TokenLengths, A::Error> {
        let mut lognormal = Lognormal::default();
        while let Some(field) = map.next_key::<String>()? {
            let value: serde_json::Number = map.next_value()?;
            lognormal.set(&field, &value.to_string()).map_err(de::Error::custom)?;
        }
        lognormal.check().map_err(de::Error::custom)
    }
}

impl JsonSchema for TokenLengths {
    fn schema_name() -> Cow<'static, str> {
        "TokenLengths".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A distribution of lengths in tokens.",
            "anyOf": [
                { "description": "Always the same.", "type": "integer", "minimum": 1 },
                { "description": "As on the command line.", "type": "string",
                  "pattern": "^ *([0-9_]+|lognormal *[(:].*) *$" },
                { "type": "object", "additionalProperties": false, "required": ["fixed"], "properties": {
                    "fixed": { "type": "integer", "minimum": 1 }
                } },
                { "type": "object", "additionalProperties": false, "required": ["lognormal"], "properties": {
                    "lognormal": {
                        "description": "Lognormal, cut to min..max.",
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["mean", "cv"],
                        "properties": {
                            "mean": { "description": "Arithmetic mean before the cut, tokens.", "type": "number", "minimum": 1 },
                            "cv": { "description": "Standard deviation / mean.", "type": "number", "minimum": 0, "maximum": 10 },
                            "min": { "description": "Shortest; 1 if left out.", "type": "integer", "minimum": 1 },
                            "max": { "description": "Longest; mean * (1 + 8 cv) if left out.", "type": "integer", "minimum": 1 }
                        }
                    }
                } }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Holder {
        isl: TokenLengths,
    }

    fn in_toml(text: &str) -> Result<Lengths, String> {
        match toml::from_str::<Holder>(text) {
            Ok(holder) => Ok(holder.isl.0),
            Err(error) => Err(error.message().to_owned()),
        }
    }

    #[test]
    fn a_number_a_text_and_a_table_say_the_same() {
        let lognormal = Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 4, max: 2400 };
        assert_eq!(in_toml("isl = 100"), Ok(Lengths::Fixed { tokens: 100 }));
        assert_eq!(in_toml("isl = { fixed = 100 }"), Ok(Lengths::Fixed { tokens: 100 }));
        assert_eq!(
            in_toml("isl = { lognormal = { mean = 400, cv = 0.6, min = 4, max = 2400 } }"),
            Ok(lognormal)
        );
        assert_eq!(in_toml("isl = 'lognormal(mean=400, cv=0.6, min=4, max=2400)'"), Ok(lognormal));
        assert_eq!(in_toml("isl = 'lognormal:mean=400,cv=0.6,min=4,max=2400'"), Ok(lognormal));
    }

    #[test]
    fn what_is_left_out_of_a_lognormal_does_not_bind() {
        let lengths = "lognormal(mean=100,cv=0.5)".parse::<TokenLengths>().unwrap().0;
        assert_eq!(lengths, Lengths::Lognormal { mean: 100.0, cv: 0.5, min: 1, max: 500 });
    }

    #[test]
    fn each_slip_is_named() {
        for (text, problem) in [
            ("isl = 0", "`0` is too few; give 1 or more"),
            ("isl = 1.5", "invalid type: floating point `1.5`, expected a length in tokens"),
            ("isl = 'many'", "`many` is not a length in tokens; write `100` or"),
            ("isl = 'lognormal(mean=400)'", "a lognormal needs `mean` (tokens) and `cv`"),
            ("isl = 'lognormal(mean=400, cv)'", "`cv` is not `name=value`"),
            ("isl = 'lognormal(mean=400, cv=lots)'", "`cv` is `lots`, which is not a number"),
            (
                "isl = { lognormal = { meen = 400, cv = 1 } }",
                "a lognormal has no `meen`; did you mean `mean`?",
            ),
            ("isl = { lognormal = { mean = 400, cv = 1, min = 0 } }", "`min`: `0` is too few"),
            ("isl = { lognormal = { mean = 4, cv = 1, min = 9, max = 8 } }", "`min` 9 is above `max` 8"),
            ("isl = { lognormal = { mean = 4, cv = 1, min = 8 } }", "the `mean` of 4 tokens is outside"),
            ("isl = { lognormal = { mean = 4, cv = 99 } }", "a `cv` of 99 is outside 0 to 10"),
            ("isl = { normal = { mean = 4 } }", "no distribution is called `normal`"),
            ("isl = {}", "an empty table"),
        ] {
            let error = in_toml(text).unwrap_err();
            assert!(error.starts_with(problem), "{text}: {error}");
        }
    }
}
