//! An SLO as text that reads back as the same SLO.

use std::fmt;

use super::grammar::implied_limits;
use super::threshold::{OVER, WORST};
use super::{Metric, Objective, Op, Slo, SloError, Stat};

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stat::Mean => f.write_str("mean"),
            Stat::Percentile(p) => write!(f, "p{p}"),
            Stat::Max => f.write_str("max"),
            Stat::Value => Ok(()),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Less => "<",
            Op::AtMost => "<=",
            Op::Greater => ">",
            Op::AtLeast => ">=",
        })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.metric.name(), self.turns.suffix())?;
        if self.stat != Stat::Value {
            write!(f, " {}", self.stat)?;
        }
        write!(f, " {} ", self.op)?;
        if self.metric.is_time() {
            f.write_str(&exact_time(self.threshold))?;
        } else if matches!(self.metric, Metric::Attainment | Metric::Errors) {
            f.write_str(&exact_share(self.threshold))?;
        } else {
            write!(f, "{}", self.threshold)?;
        }
        match self.window {
            Some(window) => write!(f, " {OVER} {} {WORST}", exact_time(window)),
            None => Ok(()),
        }
    }
}

/// A time that reads back as exactly the same number.
fn exact_time(seconds: f64) -> String {
    let scaled = |factor: f64| (seconds * factor * 1e6).round() / 1e6;
    let units = [(1e-3, 1e6, "µs"), (1.0, 1e3, "ms")];
    for (below, factor, unit) in units {
        if seconds < below && scaled(factor) / factor == seconds {
            return format!("{} {unit}", scaled(factor));
        }
    }
    format!("{seconds} s")
}

/// A share that reads back as exactly the same number.
fn exact_share(share: f64) -> String {
    let percent = (share * 1e11).round() / 1e9;
    if percent / 100.0 == share || share >= 1.0 { format!("{percent}%") } else { share.to_string() }
}

impl TryFrom<Vec<String>> for Slo {
    type Error = SloError;
    fn try_from(texts: Vec<String>) -> Result<Self, SloError> {
        if texts.is_empty() {
            // The plan of a measurement that is not judged.
            return Ok(Slo::none());
        }
        Slo::parse(texts.iter().map(String::as_str))
    }
}

impl From<&Slo> for Vec<String> {
    /// Texts that read back as the same SLO.
    fn from(slo: &Slo) -> Self {
        let implied = implied_limits(&slo.objectives);
        let given = slo.limits.iter().filter(|limit| limit.metric != Metric::Itl && !implied.contains(limit));
        let given = given.map(|limit| {
            format!("{}{}:{}", limit.metric.name(), limit.turns.suffix(), exact_time(limit.threshold))
        });
        given.chain(slo.objectives.iter().map(Objective::to_string)).collect()
    }
}

impl From<Slo> for Vec<String> {
    fn from(slo: Slo) -> Self {
        (&slo).into()
    }
}

impl fmt::Display for Slo {
    /// The objectives, set apart by `; `.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&Vec::from(self).join("; "))
    }
}
