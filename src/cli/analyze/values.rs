//! What the flags of `plimsoll analyze` take.

use std::str::FromStr;

use plimsoll::analysis::frontier::Limits;
use plimsoll::slo::Slo;

/// `name=objectives`.
#[derive(Clone, Debug)]
pub struct TierFlag {
    /// Its name.
    pub name: String,
    /// Its objectives.
    pub slo: Slo,
}

impl FromStr for TierFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, objectives) = text
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty() && !name.contains('<'))
            .ok_or_else(|| format!("`{text}` has no name; write for example gold='ttft p95 < 300ms'"))?;
        let slo = Slo::parse([objectives]).map_err(|error| error.to_string())?;
        Ok(Self { name: name.trim().to_owned(), slo })
    }
}

/// `200ms..2s`.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Limits);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no range of times; write for example 200ms..2s");
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        // The SLO grammar reads times; a limit of TTFT is one.
        let time = |text: &str| {
            let slo = Slo::parse([format!("ttft p95 < {}", text.trim()).as_str()]).map_err(|_| wrong())?;
            slo.objectives.first().map(|objective| objective.threshold).ok_or_else(wrong)
        };
        let (from, to) = (time(from)?, time(to)?);
        if from > 0.0 && from < to { Ok(Self(Limits { from, to })) } else { Err(wrong()) }
    }
}

/// `100%`.
#[derive(Clone, Copy, Debug)]
pub struct Degradation(pub f64);

impl FromStr for Degradation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        match number {
            Some(percent) if percent > 0.0 && percent.is_finite() => Ok(Self(percent / 100.0)),
            _ => Err(format!("`{text}` is no percentage above 0; write for example 50%")),
        }
    }
}

/// `7`, or `5..9` with both ends.
#[derive(Clone, Copy, Debug)]
pub struct TrialNumbers(pub u32, pub u32);

impl FromStr for TrialNumbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&number| number > 0);
        let ends = match text.split_once("..") {
            Some((first, last)) => number(first).zip(number(last)),
            None => number(text).map(|number| (number, number)),
        };
        match ends {
            Some((first, last)) if first <= last => Ok(Self(first, last)),
            _ => Err(format!(
                "`{text}` is no number of a trial, nor a range of them; write for example 3,5..9"
            )),
        }
    }
}
