//! Quantities that print themselves.
//!
//! Times inside the crate are seconds (`f64`), rates per second, shares 0..1; these types carry a
//! unit across an interface and know how many digits a reader can use.
//!
//! ```
//! use plimsoll::units::{Load, Seconds};
//! assert_eq!(Seconds(0.0123).to_string(), "12.3 ms");
//! assert_eq!(Load::Concurrency(8).to_string(), "8 concurrent");
//! ```

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A duration or an instant on a run's own clock, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    /// Three significant digits in the unit that a person would choose.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0;
        let text = if !s.is_finite() {
            "-".to_owned()
        } else if s.abs() < 1e-3 && s != 0.0 {
            format!("{} µs", significant(s * 1e6))
        } else if s.abs() < 1.0 {
            format!("{} ms", significant(s * 1e3))
        } else if s.abs() < 120.0 {
            format!("{} s", significant(s))
        } else if s.abs() < 2.0 * 3600.0 {
            let whole = s.round() as i64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        } else {
            let minutes = (s / 60.0).round() as i64;
            format!("{} h {:02} min", minutes / 60, minutes % 60)
        };
        f.pad(&text)
    }
}

/// A number with three significant digits, without an exponent.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let magnitude = value.abs();
    let digits = if magnitude >= 99.95 || magnitude == 0.0 {
        0
    } else if magnitude >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

/// A rate with three significant digits, those below 1 among them, without an exponent and without
/// trailing zeros: `12.5`, `200`, `0.0123`.
pub fn rate_figure(rate: f64) -> String {
    if !rate.is_finite() || rate == 0.0 {
        return significant(rate);
    }
    let digits = (2 - rate.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{rate:.digits$}");
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

/// A load level that a trial is run at.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Load {
    /// Requests in flight, closed loop: a user sends the next request when the last one ends.
    Concurrency(u32),
    /// Arrivals a second, open loop: a request is sent when its time has come, whatever became of the
    /// earlier ones.
    RequestRate(f64),
    /// A trace replayed so many times as fast as it was taken, open loop.
    SpeedUp(f64),
}

impl Load {
    /// The level as a number: requests in flight, requests a second, or the factor of a speed-up.
    pub fn value(self) -> f64 {
        match self {
            Load::Concurrency(n) => f64::from(n),
            Load::RequestRate(rate) => rate,
            Load::SpeedUp(factor) => factor,
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Concurrency(n) => f.pad(&format!("{n} concurrent")),
            Load::RequestRate(rate) => f.pad(&format!("{} requests/s", rate_figure(*rate))),
            Load::SpeedUp(factor) => f.pad(&format!("{} x", rate_figure(*factor))),
        }
    }
}

/// A closed interval with the probability that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end; absent where the data give no upper bound.
    pub high: Option<f64>,
    /// Stated probability of coverage, 0..1.
    pub confidence: f64,
}

/// Keeps a number that need not be finite (the variance of a single sample) in JSON, which has no
/// word for those: they are written as the texts `inf`, `-inf` and `NaN`.
///
/// For use as `#[serde(with = "crate::units::any_number")]`.
pub mod any_number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes the number, or its name where it is not finite.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { serializer.serialize_f64(*value) } else { serializer.collect_str(value) }
    }

    /// Reads a number or a name.
    ///
    /// # Errors
    /// When it is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Name(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(value) => Ok(value),
            Written::Name(name) => {
                name.parse().map_err(|_| D::Error::custom(format!("`{name}` is not a number")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn seconds_choose_the_unit_a_person_would() {
        let cases = [
            (0.0, "0 ms"),
            (0.000_25, "250 µs"),
            (0.0123, "12.3 ms"),
            (0.5, "500 ms"),
            (1.5, "1.50 s"),
            (90.0, "90.0 s"),
            (200.0, "3 min 20 s"),
            (9000.0, "2 h 30 min"),
        ];
        for (seconds, text) in cases {
            assert_eq!(Seconds(seconds).to_string(), text);
        }
    }

    #[test]
    fn rates_below_one_keep_their_digits() {
        for (rate, text) in
            [(0.0123, "0.0123"), (0.5, "0.5"), (12.5, "12.5"), (20.0, "20"), (1234.0, "1234"), (0.0, "0")]
        {
            assert_eq!(rate_figure(rate), text);
        }
        assert_eq!(Load::RequestRate(12.5).to_string(), "12.5 requests/s");
        assert_eq!(serde_json::to_string(&Load::RequestRate(0.5)).unwrap(), r#"{"request_rate":0.5}"#);
        assert_eq!(Load::SpeedUp(3.4).to_string(), "3.4 x");
        assert_eq!(serde_json::to_string(&Load::SpeedUp(3.4)).unwrap(), r#"{"speed_up":3.4}"#);
    }

    #[test]
    fn significant_digits_do_not_jump_at_a_power_of_ten() {
        assert_eq!(significant(9.996), "10.0");
        assert_eq!(significant(99.96), "100");
        assert_eq!(significant(0.5), "0.50");
    }
}
