//! Lengths as people write them: `100`, `lognormal(mean=400, cv=0.6)`, or a table with the same
//! fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::error::closest;
use super::quantity::{Count, QuantityError, wrong};
use crate::plan::{Lengths, PartPlan};

/// [`Lengths`] as written in a recipe.
///
/// ```
/// use plimsoll::plan::Lengths;
/// use plimsoll::recipe::TokenLengths;
/// let lengths: TokenLengths = "lognormal(mean=400, cv=0.6, max=2400)".parse().unwrap();
/// assert_eq!(lengths.0, Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 1, max: 2400 });
/// assert_eq!("100".parse::<TokenLengths>().unwrap().0, Lengths::Fixed { tokens: 100 });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLengths(pub Lengths);

const EXAMPLE: &str = "`100` or `lognormal(mean=400, cv=0.6, min=4, max=2400)`";
/// The distributions that have fields, and these. `sd` may be said in vLLM's and AIPerf's word, `stddev`.
const KINDS: [(&str, &[&str]); 3] = [
    ("lognormal", &["mean", "cv", "median", "p95", "mu", "sigma", "min", "max"]),
    ("normal", &["mean", "sd", "stddev", "cv", "min", "max"]),
    ("uniform", &["min", "max"]),
];
/// What may be written, for the message that knows no better.
const NAMES: &str = "`fixed`, `lognormal`, `normal`, `uniform`, and as a text `mix(..)`, `file:..`";
/// The 95th percentile of the standard normal.
const Z95: f64 = 1.644_853_626_951_472_7;

/// A distribution as far as it is written.
struct Fields {
    kind: &'static str,
    known: &'static [&'static str],
    seen: BTreeMap<&'static str, f64>,
}

impl Fields {
    /// The distribution of this name, without any field.
    fn of(kind: &str) -> Option<Self> {
        let &(kind, known) = KINDS.iter().find(|(name, _)| *name == kind)?;
        Some(Self { kind, known, seen: BTreeMap::new() })
    }

    fn set(&mut self, field: &str, value: &str) -> Result<(), QuantityError> {
        let Some(&field) = self.known.iter().find(|known| **known == field) else {
            let list = || self.known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let mend = match closest(field, self.known.iter().copied()) {
                Some(field) => format!("did you mean `{field}`?"),
                None => format!("it has {}", list()),
            };
            return wrong(format!("a {} has no `{field}`; {mend}", self.kind));
        };
        let number = if matches!(field, "min" | "max") {
            match value.parse::<Count>() {
                Ok(Count(tokens)) => f64::from(tokens),
                Err(QuantityError(problem)) => return wrong(format!("`{field}`: {problem}")),
            }
        } else {
            match value.parse::<f64>() {
                Ok(number) if number.is_finite() => number,
                _ => return wrong(format!("`{field}` is `{value}`, which is not a number")),
            }
        };
        self.seen.insert(if field == "stddev" { "sd" } else { field }, number);
        Ok(())
    }

    fn get(&self, field: &str) -> Option<f64> {
        self.seen.get(field).copied()
    }

    fn cut(&self, default_max: f64) -> (u32, u32) {
        let whole = |field: &str| self.get(field).map(|tokens| tokens as u32);
        (whole("min").unwrap_or(1), whole("max").unwrap_or(default_max.ceil() as u32))
    }

    /// Fills in what was left out, the cut being far enough out not to move the mean by much.
    fn check(&self) -> Result<TokenLengths, QuantityError> {
        let lengths = match self.kind {
            "lognormal" => self.lognormal()?,
            "normal" => self.normal()?,
            _ => match (self.get("min"), self.get("max")) {
                (Some(min), Some(max)) => Lengths::Uniform { min: min as u32, max: max as u32 },
                _ => return wrong("a uniform needs both ends: `uniform(1000..4000)`"),
            },
        };
        let (Lengths::Lognormal { min, max, .. }
        | Lengths::Normal { min, max, .. }
        | Lengths::Uniform { min, max }) = lengths
        else {
            return Ok(TokenLengths(lengths));
        };
        if min > max {
            return wrong(format!("`min` {min} is above `max` {max}"));
        }
        if let Lengths::Lognormal { mean, .. } | Lengths::Normal { mean, .. } = lengths
            && (mean < f64::from(min) || mean > f64::from(max))
        {
            return wrong(format!("the `mean` of {mean} tokens is outside `min` {min} to `max` {max}"));
        }
        Ok(TokenLengths(lengths))
    }

    fn lognormal(&self) -> Result<Lengths, QuantityError> {
        let given: Vec<&str> =
            self.seen.keys().copied().filter(|name| !matches!(*name, "min" | "max")).collect();
        let value = |field: &str| self.get(field).unwrap_or(0.0);
        // Of a lognormal: median = exp(mu), mean = exp(mu + sigma^2 / 2), p95 = exp(mu + z sigma),
        // cv^2 = exp(sigma^2) - 1.
        let spread = |sigma: f64| ((sigma * sigma).exp() - 1.0).sqrt();
        let (mean, cv) = match given.as_slice() {
            ["cv", "mean"] => (value("mean"), value("cv")),
            ["mu", "sigma"] if value("sigma") >= 0.0 => {
                let sigma = value("sigma");
                ((value("mu") + sigma * sigma / 2.0).exp(), spread(sigma))
            }
            ["median", "p95"] if value("p95") >= value("median") && value("median") > 0.0 => {
                let sigma = (value("p95") / value("median")).ln() / Z95;
                (value("median") * (sigma * sigma / 2.0).exp(), spread(sigma))
            }
            ["mean", "p95"] if value("p95") >= value("mean") && value("mean") > 0.0 => {
                // z sigma - sigma^2 / 2 = ln(p95 / mean); the larger root is that of a far heavier tail.
                let rest = Z95 * Z95 - 2.0 * (value("p95") / value("mean")).ln();
                if rest < 0.0 {
                    return wrong(format!(
                        "no lognormal has a `p95` of {} at a `mean` of {}; the most is {:.0}",
                        value("p95"),
                        value("mean"),
                        value("mean") * (Z95 * Z95 / 2.0).exp()
                    ));
                }
                (value("mean"), spread(Z95 - rest.sqrt()))
            }
            ["median", "p95"] | ["mean", "p95"] => {
                return wrong("the `p95` is below the `mean` or `median`, or that is not above 0");
            }
            _ => {
                return wrong(
                    "a lognormal needs `mean` (tokens) and `cv` (standard deviation / mean), or `mean` and `p95`, \
                     or `median` and `p95`, or `mu` and `sigma`",
                );
            }
        };
        self.in_reach(mean, cv)?;
        let (min, max) = self.cut(mean * (1.0 + 8.0 * cv));
        Ok(Lengths::Lognormal { mean, cv, min, max })
    }

    fn normal(&self) -> Result<Lengths, QuantityError> {
        let (mean, sd) = match (self.get("mean"), self.get("sd"), self.get("cv")) {
            (Some(mean), Some(sd), None) => (mean, sd),
            (Some(mean), None, Some(cv)) => (mean, mean * cv),
            _ => return wrong("a normal needs `mean` and `sd` (tokens), or `mean` and `cv`"),
        };
        self.in_reach(mean, sd / mean.max(1e-9))?;
        let (min, max) = self.cut(mean + 8.0 * sd);
        Ok(Lengths::Normal { mean, sd, min, max })
    }

    fn in_reach(&self, mean: f64, cv: f64) -> Result<(), QuantityError> {
        if !(1.0..=1e8).contains(&mean) {
            return wrong(format!("a `mean` of {mean} tokens is outside 1 to 100,000,000"));
        }
        if !(0.0..=10.0).contains(&cv) {
            return wrong(format!("a `cv` of {cv} is outside 0 to 10; 0.6 is usual for chat"));
        }
        Ok(())
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
        if let Some(file) = text.strip_prefix("file:").map(str::trim).filter(|file| !file.is_empty()) {
            let (tokens, up_to) = (Vec::new(), Vec::new());
            return Ok(Self(Lengths::Empirical { file: file.to_owned(), tokens, up_to }));
        }
        let unknown = || wrong(format!("`{text}` is not a length in tokens; write {EXAMPLE}"));
        // `lognormal:mean=400,cv=0.6` spares the shell's quotes.
        let Some((kind, rest)) = text.find(['(', ':']).map(|at| text.split_at(at)) else { return unknown() };
        let inside =
            match (rest.strip_prefix(':'), rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))) {
                (Some(inside), _) | (_, Some(inside)) => inside.trim(),
                _ => return unknown(),
            };
        match kind.trim() {
            "fixed" => return Ok(Self(Lengths::Fixed { tokens: inside.parse::<Count>()?.0 })),
            "mix" => return mixture(inside),
            _ => {}
        }
        let Some(mut fields) = Fields::of(kind.trim()) else { return unknown() };
        if let (Some((min, max)), "uniform") = (inside.split_once(".."), fields.kind) {
            fields.set("min", min.trim())?;
            fields.set("max", max.trim())?;
            return fields.check();
        }
        for field in inside.split(',') {
            match field.split_once('=') {
                Some((name, value)) => fields.set(name.trim(), value.trim())?,
                None => return wrong(format!("`{}` is not `name=value`; write {EXAMPLE}", field.trim())),
            }
        }
        fields.check()
    }
}

/// `0.8: fixed(100), 0.2: uniform(1000..4000)`.
fn mixture(text: &str) -> Result<TokenLengths, QuantityError> {
    let example = "write `mix(0.8: fixed(100), 0.2: uniform(1000..4000))`";
    let mut parts = Vec::new();
    for part in outside_brackets(text) {
        let Some((weight, lengths)) = part.split_once(':') else {
            return wrong(format!("`{}` is not `weight: lengths`; {example}", part.trim()));
        };
        let weight = weight_of(weight)?;
        let TokenLengths(lengths) = lengths.parse()?;
        parts.push(PartPlan { weight, lengths });
    }
    if parts.is_empty() {
        return wrong(format!("a mixture needs parts; {example}"));
    }
    Ok(TokenLengths(Lengths::Mixture { parts }))
}

/// A weight: a number above 0, or a percentage.
pub(super) fn weight_of(text: &str) -> Result<f64, QuantityError> {
    let text = text.trim();
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(weight) if weight > 0.0 && weight.is_finite() => Ok(weight),
        _ => wrong(format!("the weight `{text}` is not a number above 0")),
    }
}

/// The parts between commas that no brackets hold.
fn outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

impl<'de> Deserialize<'de> for TokenLengths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LengthsVisitor)
    }
}

struct LengthsVisitor;

/// The fields of a distribution in a table: `{ lognormal = { mean = 400, cv = 0.6 } }`.
struct FieldsVisitor(Fields);

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
            Some("fixed") => TokenLengths(Lengths::Fixed { tokens: map.next_value::<Count>()?.0 }),
            Some(kind) => match Fields::of(kind) {
                Some(fields) => map.next_value_seed(FieldsVisitor(fields))?,
                None => {
                    return Err(de::Error::custom(format!(
                        "no distribution is called `{kind}`; there are {NAMES}"
                    )));
                }
            },
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

impl<'de> DeserializeSeed<'de> for FieldsVisitor {
    type Value = TokenLengths;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TokenLengths, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = TokenLengths;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fields of a {}: `{{ mean = 400, cv = 0.6, min = 4, max = 2400 }}`", self.0.kind)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TokenLengths, A::Error> {
        let mut fields = self.0;
        while let Some(field) = map.next_key::<String>()? {
            let value: serde_json::Number = map.next_value()?;
            fields.set(&field, &value.to_string()).map_err(de::Error::custom)?;
        }
        fields.check().map_err(de::Error::custom)
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
                  "pattern": "^ *([0-9_]+|(fixed|lognormal|normal|uniform|mix|file) *[(:].*) *$" },
                { "type": "object", "additionalProperties": false, "required": ["fixed"], "properties": {
                    "fixed": { "type": "integer", "minimum": 1 }
                } },
                { "type": "object", "additionalProperties": false, "required": ["lognormal"], "properties": {
                    "lognormal": {
                        "description": "Lognormal, cut to min..max, by `mean` and `cv`, `mean` and `p95`, `median` and `p95`, or `mu` and `sigma`.",
                        "type": "object",
                        "additionalProperties": false,
                        "properties": {
                            "mean": { "description": "Arithmetic mean before the cut, tokens.", "type": "number", "minimum": 1 },
                            "cv": { "description": "Standard deviation / mean.", "type": "number", "minimum": 0, "maximum": 10 },
                            "median": { "description": "Tokens.", "type": "number", "exclusiveMinimum": 0 },
                            "p95": { "description": "Before the cut, tokens.", "type": "number", "exclusiveMinimum": 0 },
                            "mu": { "description": "Mean of the logarithm.", "type": "number" },
                            "sigma": { "description": "Standard deviation of the logarithm.", "type": "number", "minimum": 0 },
                            "min": { "description": "Shortest; 1 if left out.", "type": "integer", "minimum": 1 },
                            "max": { "description": "Longest; mean * (1 + 8 cv) if left out.", "type": "integer", "minimum": 1 }
                        }
                    }
                } },
                { "type": "object", "additionalProperties": false, "required": ["normal"], "properties": {
                    "normal": {
                        "description": "Normal, truncated to min..max.",
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["mean"],
                        "properties": {
                            "mean": { "description": "Before the truncation, tokens.", "type": "number", "minimum": 1 },
                            "sd": { "description": "Standard deviation before the truncation, tokens.", "type": "number", "minimum": 0 },
                            "stddev": { "description": "The same as `sd`.", "type": "number", "minimum": 0 },
                            "cv": { "description": "Standard deviation / mean, instead of `sd`.", "type": "number", "minimum": 0, "maximum": 10 },
                            "min": { "description": "Shortest; 1 if left out.", "type": "integer", "minimum": 1 },
                            "max": { "description": "Longest; mean + 8 sd if left out.", "type": "integer", "minimum": 1 }
                        }
                    }
                } },
                { "type": "object", "additionalProperties": false, "required": ["uniform"], "properties": {
                    "uniform": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["min", "max"],
                        "properties": {
                            "min": { "type": "integer", "minimum": 1 },
                            "max": { "type": "integer", "minimum": 1 }
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
            Ok(lognormal.clone())
        );
        assert_eq!(in_toml("isl = 'lognormal(mean=400, cv=0.6, min=4, max=2400)'"), Ok(lognormal.clone()));
        assert_eq!(in_toml("isl = 'lognormal:mean=400,cv=0.6,min=4,max=2400'"), Ok(lognormal));
    }

    #[test]
    fn what_is_left_out_of_a_lognormal_does_not_bind() {
        let lengths = "lognormal(mean=100,cv=0.5)".parse::<TokenLengths>().unwrap().0;
        assert_eq!(lengths, Lengths::Lognormal { mean: 100.0, cv: 0.5, min: 1, max: 500 });
    }

    #[test]
    fn every_distribution_reads_back_what_it_shows() {
        for text in [
            "fixed(100)",
            "uniform(1000..4000)",
            "normal(mean=200, sd=50, min=1, max=400)",
            "lognormal(median=300, p95=900, max=4000)",
            "mix(0.8: fixed(100), 20%: mix(1: uniform(1000..4000), 2: normal(mean=50, cv=0.1)))",
        ] {
            let lengths = text.parse::<TokenLengths>().unwrap().0;
            assert_eq!(lengths.to_string().parse::<TokenLengths>().unwrap().0, lengths, "{text}");
        }
        assert_eq!(
            in_toml("isl = { uniform = { min = 3, max = 9 } }"),
            Ok(Lengths::Uniform { min: 3, max: 9 })
        );
        assert_eq!(
            in_toml("isl = 'normal(mean=9, stddev=3)'"),
            in_toml("isl = { normal = { mean = 9, sd = 3 } }")
        );
    }

    #[test]
    fn a_lognormal_may_be_given_by_what_is_known_of_it() {
        // scipy 1.17: s, mu = 0.5, 6; lognorm(s, scale=exp(mu)): mean, std/mean, median, ppf(0.95)
        let (mean, cv, median, p95) =
            (457.144_713_268_908_9, 0.532_940_350_027_788_2, 403.428_793_492_735_1, 918.210_634_342_357_7);
        for text in [
            "lognormal(mu=6, sigma=0.5)".to_owned(),
            format!("lognormal(median={median}, p95={p95})"),
            format!("lognormal(mean={mean}, p95={p95})"),
        ] {
            let Lengths::Lognormal { mean: found, cv: spread, .. } = text.parse::<TokenLengths>().unwrap().0
            else {
                panic!("{text}")
            };
            assert!(
                (found / mean - 1.0).abs() < 1e-9 && (spread / cv - 1.0).abs() < 1e-9,
                "{text}: {found} {spread}"
            );
        }
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
            ("isl = { normal = { mean = 4 } }", "a normal needs `mean` and `sd`"),
            ("isl = { gauss = { mean = 4 } }", "no distribution is called `gauss`"),
            ("isl = 'mix(0.5: 10, many)'", "`many` is not `weight: lengths`"),
            ("isl = 'mix(-1: 10)'", "the weight `-1` is not a number above 0"),
            ("isl = 'uniform(9..3)'", "`min` 9 is above `max` 3"),
            (
                "isl = 'lognormal(mean=100, p95=500)'",
                "no lognormal has a `p95` of 500 at a `mean` of 100; the most is 387",
            ),
            ("isl = {}", "an empty table"),
        ] {
            let error = in_toml(text).unwrap_err();
            assert!(error.starts_with(problem), "{text}: {error}");
        }
    }
}
