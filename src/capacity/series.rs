//! A demand that changes over the day.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::fleet::{CapacityError, Fleet, fleet};
use super::policy::Policy;
use super::server::Server;

/// Rates by time, evenly spaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name of each interval as written, and its rate, requests a second.
    pub points: Vec<(String, f64)>,
    /// Length of an interval, hours.
    pub step_hours: f64,
}

/// A text that is no series.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SeriesError {
    /// The first line.
    #[error("line 1: expected the header `hour,rate` or `time,rate`, found `{found}`")]
    Header {
        /// What is there.
        found: String,
    },
    /// A line that cannot be read.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// No rate at all.
    #[error("there are no rates below the header")]
    Empty,
}

/// The fleet of one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hour {
    /// The interval, as written.
    pub time: String,
    /// Its fleet; the rate is in it.
    #[serde(flatten)]
    pub fleet: Fleet,
}

/// The fleets of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesPlan {
    /// Each interval.
    pub hours: Vec<Hour>,
    /// Fewest servers of any interval.
    pub min: u32,
    /// Most servers of any interval: what a fleet without autoscaling needs.
    pub max: u32,
    /// Server-hours a day where the fleet follows the series.
    pub server_hours_per_day: f64,
    /// Server-hours a day of `max` servers.
    pub static_server_hours_per_day: f64,
}

impl Series {
    /// Reads `hour,rate` (hours of the day, 0 to 23) or `time,rate` (`HH:MM`), one interval a line,
    /// evenly spaced and ascending; rates are requests a second.
    ///
    /// # Errors
    /// Names the first line that cannot be read, and why.
    pub fn from_csv(text: &str) -> Result<Self, SeriesError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let fields = |line: &str| -> Vec<String> {
            line.split(',').map(|field| field.trim().trim_matches('"').to_owned()).collect()
        };
        let names = fields(lines.next().ok_or(SeriesError::Empty)?.1);
        let column = names[0].to_ascii_lowercase();
        if names.len() != 2
            || !matches!(column.as_str(), "hour" | "time")
            || !names[1].eq_ignore_ascii_case("rate")
        {
            return Err(SeriesError::Header { found: names.join(",") });
        }
        let mut points = Vec::new();
        let mut step = None;
        let mut last: Option<u32> = None;
        for (line, row) in lines {
            let wrong = |problem: String| SeriesError::Line { line, problem };
            let row = fields(row);
            let [time, rate] = row.as_slice() else {
                return Err(wrong(format!("expected 2 fields (`{column},rate`), found {}", row.len())));
            };
            let minutes = minutes(&column, time).map_err(wrong)?;
            let value = rate.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
            let value = value
                .ok_or_else(|| wrong(format!("`{rate}` is not a rate (requests a second, 0 or more)")))?;
            if let Some(last) = last {
                if minutes <= last {
                    return Err(wrong(format!("`{time}` does not come after the line before")));
                }
                if *step.get_or_insert(minutes - last) != minutes - last {
                    return Err(wrong(format!("`{time}` breaks the even spacing of the lines before")));
                }
            }
            last = Some(minutes);
            points.push((time.clone(), value));
        }
        if points.is_empty() {
            return Err(SeriesError::Empty);
        }
        Ok(Self { points, step_hours: f64::from(step.unwrap_or(60)) / 60.0 })
    }

    /// The highest rate.
    pub fn peak(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }
}

/// Minutes since midnight.
fn minutes(column: &str, text: &str) -> Result<u32, String> {
    if column == "hour" {
        let hour = text.parse::<u32>().ok().filter(|hour| *hour < 24);
        return hour.map(|hour| 60 * hour).ok_or_else(|| format!("`{text}` is not an hour from 0 to 23"));
    }
    let parsed = text.split_once(':').and_then(|(hour, minute)| {
        let hour = hour.parse::<u32>().ok().filter(|hour| *hour < 24)?;
        let minute = minute.parse::<u32>().ok().filter(|minute| *minute < 60)?;
        Some(60 * hour + minute)
    });
    parsed.ok_or_else(|| format!("`{text}` is not a time of day such as `08:30`"))
}

/// The fleets that carry a series. A rate of 0 takes one server and the spare ones.
///
/// # Errors
/// When a fleet cannot be built.
pub fn series_plan(server: &Server, series: &Series, policy: &Policy) -> Result<SeriesPlan, CapacityError> {
    let hours = series
        .points
        .iter()
        .map(|(time, rate)| Ok(Hour { time: time.clone(), fleet: fleet(server, *rate, policy)? }))
        .collect::<Result<Vec<Hour>, CapacityError>>()?;
    let counts = || hours.iter().map(|hour| hour.fleet.servers);
    let (min, max) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let mean = counts().map(f64::from).sum::<f64>() / hours.len().max(1) as f64;
    Ok(SeriesPlan {
        min,
        max,
        server_hours_per_day: 24.0 * mean,
        static_server_hours_per_day: 24.0 * f64::from(max),
        hours,
    })
}
