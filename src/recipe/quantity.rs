//! Quantities as people write them: `30s`, `10%`, `1..1024`.
//!
//! Each type reads the same text in a recipe and on the command line, checks all that can be checked
//! of one value alone, and says what it would have taken.
//!
//! ```
//! use plimsoll::recipe::{Bounds, Duration};
//! assert_eq!("1h30m".parse::<Duration>().unwrap().0, 5400.0);
//! let error = "64..8".parse::<Bounds>().unwrap_err();
//! assert_eq!(error.to_string(), "`64..8` runs backwards; write `8..64`");
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use thiserror::Error;

use crate::units::significant;

/// A text that is not the quantity asked for. It says what was seen and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct QuantityError(pub(super) String);

pub(super) fn wrong<T>(problem: impl Into<String>) -> Result<T, QuantityError> {
    Err(QuantityError(problem.into()))
}

/// A span of time in seconds, longer than zero: `500ms`, `30s`, `20m`, `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Duration(pub f64);

impl FromStr for Duration {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let example = "a duration such as `500ms`, `30s`, `20m` or `1h30m`";
        let mut rest = text.trim();
        if rest.parse::<f64>().is_ok_and(|number| number > 0.0) {
            return wrong(format!(
                "`{rest}` has no unit; write `{rest}s` for seconds or `{rest}m` for minutes"
            ));
        }
        let mut seconds = 0.0;
        while !rest.is_empty() {
            let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(number_end);
            let after = after.trim_start();
            let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_end);
            let in_seconds = match unit {
                "ms" => 1e-3,
                "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
                "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
                "h" | "hour" | "hours" => 3600.0,
                _ => return wrong(format!("`{text}` is not {example}")),
            };
            let Ok(number) = number.parse::<f64>() else {
                return wrong(format!("`{text}` is not {example}"));
            };
            seconds += number * in_seconds;
            rest = after.trim_start();
        }
        if seconds > 0.0 && seconds.is_finite() {
            Ok(Self(seconds))
        } else {
            wrong(format!("`{text}` is no time at all; give {example}"))
        }
    }
}

/// A share in (0, 1]: `10%` or `0.1`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        let (number, percent) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        let Ok(value) = number.parse::<f64>() else {
            return wrong(format!("`{text}` is not a share such as `10%` or `0.1`"));
        };
        let share = if percent { value / 100.0 } else { value };
        if share > 0.0 && share <= 1.0 {
            Ok(Self(share))
        } else if !percent && share > 1.0 && share <= 100.0 {
            wrong(format!("`{text}` is above 1; did you mean `{text}%`?"))
        } else {
            wrong(format!("`{text}` is outside the range above 0% up to 100%"))
        }
    }
}

/// How fine an answer must be: a share from 1 % to 100 %.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Precision(pub f64);

impl FromStr for Precision {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let Share(share) = text.parse()?;
        if share < 0.01 {
            return wrong(format!(
                "a precision of {}% is finer than requests can tell; give 1% to 100%",
                significant(share * 100.0)
            ));
        }
        Ok(Self(share))
    }
}

/// A factor of time: `1`, `10`, `0.5`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Speed(pub f64);

impl FromStr for Speed {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        match text.trim().trim_end_matches(['x', 'X']).parse::<f64>() {
            Ok(factor) if (0.01..=1000.0).contains(&factor) => Ok(Self(factor)),
            Ok(_) => wrong(format!("a speed of `{text}` is outside 0.01 to 1000; 1 is real time")),
            Err(_) => wrong(format!("`{text}` is not a speed such as `1` (real time) or `10`")),
        }
    }
}

/// A whole number from 1 up: users, requests, tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u32);

impl FromStr for Count {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        match text.trim().replace('_', "").parse::<u64>() {
            Ok(0) => wrong("`0` is too few; give 1 or more"),
            Ok(number) => match u32::try_from(number) {
                Ok(number) => Ok(Self(number)),
                Err(_) => wrong(format!("`{text}` is too large; give at most {}", u32::MAX)),
            },
            Err(_) => wrong(format!("`{text}` is not a whole number from 1 up")),
        }
    }
}

/// An interval of whole numbers from 1 up, both ends included: `1..1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lower end.
    pub min: u32,
    /// Upper end.
    pub max: u32,
}

impl FromStr for Bounds {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let Some((low, high)) = text.split_once("..") else {
            return match text.parse::<Count>() {
                Ok(Count(n)) => wrong(format!(
                    "`{n}` is one load, not a range; write `1..{n}`, or measure that load alone with \
                     `plimsoll measure --concurrency {n}`"
                )),
                Err(_) => wrong(format!("`{text}` is not a range such as `1..1024`")),
            };
        };
        let high = high.strip_prefix('=').unwrap_or(high);
        let end = |end: &str, name: &str| match end.trim() {
            "" => wrong(format!("`{text}` has no {name} end; write a range such as `1..1024`")),
            end => match end.parse::<Count>() {
                Ok(Count(n)) => Ok(n),
                Err(QuantityError(problem)) => wrong(format!("the {name} end of `{text}`: {problem}")),
            },
        };
        let (min, max) = (end(low, "lower")?, end(high, "upper")?);
        if min > max {
            return wrong(format!("`{text}` runs backwards; write `{max}..{min}`"));
        }
        Ok(Self { min, max })
    }
}

/// An interval of rates above 0, requests a second, both ends included: `0.5..200`; or one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Lower end.
    pub min: f64,
    /// Upper end.
    pub max: f64,
}

/// Lowest and highest rate, requests a second: a request an hour, and more than any client sends.
const RATES: (f64, f64) = (1.0 / 3600.0, 1e6);

impl FromStr for Rates {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let rate = |part: &str| {
            let part = part.trim();
            let number = part.strip_suffix("/s").unwrap_or(part).trim_end();
            match number.parse::<f64>() {
                Ok(rate) if (RATES.0..=RATES.1).contains(&rate) => Ok(rate),
                Ok(_) => wrong(format!(
                    "the rate `{part}` is outside 0.000278 (one an hour) to 1000000 requests/s"
                )),
                Err(_) => wrong(format!(
                    "`{part}` is not a rate in requests/s; write `20`, or a range such as `0.5..200`"
                )),
            }
        };
        let Some((low, high)) = text.split_once("..") else {
            let rate = rate(text)?;
            return Ok(Self { min: rate, max: rate });
        };
        let (min, max) = (rate(low)?, rate(high.strip_prefix('=').unwrap_or(high))?);
        if min > max {
            return wrong(format!("`{text}` runs backwards; write `{}..{}`", high.trim(), low.trim()));
        }
        Ok(Self { min, max })
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.min, self.max)
    }
}

/// Reads a value in a recipe by its text form, so that `0.1` and `"10%"` take the same way.
struct ByText<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for ByText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

pub(super) fn by_text<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(ByText(PhantomData))
}

/// Lets recipes hold a type in its text form, and the recipe's JSON schema describe it.
macro_rules! written_as_text {
    ($($type:ident: $schema:tt),+ $(,)?) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::recipe::quantity::by_text(deserializer)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )+};
}
pub(super) use written_as_text;

written_as_text! {
    Duration: {
        "description": "A duration with its unit.",
        "type": "string",
        "examples": ["500ms", "30s", "20m", "1h30m"]
    },
    Precision: {
        "description": "A share from 1% to 100%.",
        "anyOf": [
            { "type": "string", "pattern": "^ *[0-9.]+ *%? *$" },
            { "type": "number", "minimum": 0.01, "maximum": 1 }
        ],
        "examples": ["10%", 0.1]
    },
    Speed: {
        "description": "Seconds of the server's time that pass in a second.",
        "type": "number",
        "minimum": 0.01,
        "maximum": 1000
    },
    Count: { "description": "A whole number from 1 up.", "type": "integer", "minimum": 1, "maximum": 4_294_967_295_u32 },
    Bounds: {
        "description": "Lower and upper end, both included.",
        "type": "string",
        "pattern": "^ *[0-9_]+ *\\.\\.=? *[0-9_]+ *$",
        "examples": ["1..1024"]
    },
    Rates: {
        "description": "Requests a second: a range, both ends included, or one rate.",
        "anyOf": [
            { "type": "string", "pattern": "^ *[0-9.]+ *(/s)? *(\\.\\.=? *[0-9.]+ *(/s)?)? *$" },
            { "type": "number", "exclusiveMinimum": 0 }
        ],
        "examples": ["0.5..200", 20]
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn durations_are_read_with_any_usual_unit() {
        for (text, seconds) in [
            ("500ms", 0.5),
            ("30s", 30.0),
            ("1.5 min", 90.0),
            ("20m", 1200.0),
            ("1h30m", 5400.0),
            ("2 h 5 s", 7205.0),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap().0, seconds, "{text}");
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_not_guessed() {
        let error = "30".parse::<Duration>().unwrap_err().to_string();
        assert_eq!(error, "`30` has no unit; write `30s` for seconds or `30m` for minutes");
        for text in ["", "0s", "-3s", "s", "3 fortnights", "1h30", "1..2s", "∞s"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_may_be_a_percentage_or_a_fraction_but_not_a_bare_percentage() {
        assert_eq!("10%".parse::<Share>().unwrap().0, 0.1);
        assert_eq!(" 0.1 ".parse::<Share>().unwrap().0, 0.1);
        let error = "10".parse::<Share>().unwrap_err().to_string();
        assert_eq!(error, "`10` is above 1; did you mean `10%`?");
        for text in ["0", "0%", "101%", "-5%", "NaN", "ten", "%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_precision_below_one_percent_is_refused() {
        assert_eq!("1%".parse::<Precision>().unwrap().0, 0.01);
        assert!("0.5%".parse::<Precision>().unwrap_err().to_string().contains("0.50%"));
    }

    #[test]
    fn bounds_hold_both_ends_and_never_zero() {
        assert_eq!("1..1024".parse::<Bounds>().unwrap(), Bounds { min: 1, max: 1024 });
        assert_eq!("8 ..= 8".parse::<Bounds>().unwrap(), Bounds { min: 8, max: 8 });
        for (text, mend) in [
            ("0..8", "too few"),
            ("64..8", "`8..64`"),
            ("8", "measure --concurrency 8"),
            ("1..", "no upper end"),
            ("a..8", "`a` is not a whole number"),
            ("1..99999999999", "too large"),
        ] {
            let error = text.parse::<Bounds>().unwrap_err().to_string();
            assert!(error.contains(mend), "{text}: {error}");
        }
    }

    #[test]
    fn rates_below_one_a_second_are_rates_like_any_other() {
        assert_eq!("0.5..200".parse::<Rates>().unwrap(), Rates { min: 0.5, max: 200.0 });
        assert_eq!("0.02/s".parse::<Rates>().unwrap(), Rates { min: 0.02, max: 0.02 });
        for (text, mend) in [
            ("0..5", "outside"),
            ("20..5", "`5..20`"),
            ("fast", "not a rate"),
            ("-1", "outside"),
            ("NaN", "outside"),
        ] {
            let error = text.parse::<Rates>().unwrap_err().to_string();
            assert!(error.contains(mend), "{text}: {error}");
        }
    }

    #[test]
    fn speeds_are_factors_of_real_time() {
        assert_eq!("10x".parse::<Speed>().unwrap().0, 10.0);
        assert!("0".parse::<Speed>().is_err());
        assert!("fast".parse::<Speed>().is_err());
    }
}
