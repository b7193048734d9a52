//! What the server and the machines said of themselves: `telemetry.jsonl`, drawn beside the trials.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::digits;

/// Name of the file within a run folder.
const FILE: &str = "telemetry.jsonl";
/// Points of a series at the most; neighbours beyond that are averaged.
const POINTS: usize = 2_000;
/// Series at the most: those that people look at first, then others.
const SERIES: usize = 16;

/// Parts of names by what people look at first, and the heading under which they are drawn.
const WANTED: [(&[&str], &str); 8] = [
    (&["running"], "running requests"),
    (&["waiting", "queue"], "waiting requests"),
    (&["kv_", "kv-", "cache_usage"], "KV cache in use"),
    (&["preempt"], "preemptions"),
    (&["gpu_util", "utilization", "sm_"], "GPU use"),
    (&["cpu"], "CPU"),
    (&["power"], "power"),
    (&["memory", "mem_", "rss"], "memory"),
];

#[derive(Deserialize)]
struct Line {
    at: f64,
    #[serde(default)]
    source: String,
    #[serde(default)]
    values: BTreeMap<String, serde_json::Value>,
}

/// One quantity over the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TelemetrySeries {
    /// What people call it, where its name tells.
    pub heading: Option<&'static str>,
    /// Where it comes from.
    pub source: String,
    /// Its own name.
    pub name: String,
    /// Instants on the run's clock, seconds.
    pub at: Vec<f64>,
    /// The values.
    pub values: Vec<f64>,
}

/// The series of a run folder; none where there is no file. Lines that cannot be understood are
/// passed over: the last one may be half written.
pub(crate) fn read(folder: &Path) -> Vec<TelemetrySeries> {
    let Ok(file) = File::open(folder.join(FILE)) else { return Vec::new() };
    let mut found: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let Ok(Line { at, source, values }) = serde_json::from_str(&line) else { continue };
        for (name, value) in values {
            let value = value.as_f64().or_else(|| value.as_bool().map(|yes| f64::from(u8::from(yes))));
            if let Some(value) = value {
                found.entry((source.clone(), name)).or_default().push((at, value));
            }
        }
    }
    let mut series: Vec<(usize, TelemetrySeries)> = found
        .into_iter()
        .filter(|(_, points)| points.len() > 1)
        .map(|((source, name), points)| {
            let lower = name.to_lowercase();
            let rank = WANTED.iter().position(|(parts, _)| parts.iter().any(|part| lower.contains(part)));
            let heading = rank.map(|rank| WANTED[rank].1);
            let (at, values) = thin(points);
            (rank.unwrap_or(WANTED.len()), TelemetrySeries { heading, source, name, at, values })
        })
        // What nobody asked for is drawn only if something happens in it.
        .filter(|(_, series)| {
            series.heading.is_some() || series.values.iter().any(|v| *v != series.values[0])
        })
        .collect();
    series.sort_by_key(|(rank, _)| *rank);
    series.into_iter().take(SERIES).map(|(_, series)| series).collect()
}

/// In order of time, neighbours averaged.
fn thin(mut points: Vec<(f64, f64)>) -> (Vec<f64>, Vec<f64>) {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
        .chunks(points.len().div_ceil(POINTS).max(1))
        .map(|group| {
            let mean = |of: fn(&(f64, f64)) -> f64| group.iter().map(of).sum::<f64>() / group.len() as f64;
            ((mean(|point| point.0) * 1e3).round() / 1e3, digits(mean(|point| point.1), 5))
        })
        .unzip()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn what_people_look_at_first_comes_first_and_broken_lines_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = String::new();
        for k in 0..5 {
            text.push_str(&format!(
                "{{\"at\": {k}.5, \"source\": \"server\", \"values\": {{\"aaa\": {k}, \"constant\": 1, \
                 \"vllm:num_requests_waiting\": {k}, \"vllm:num_requests_running\": 8, \"text\": \"x\"}}}}\n"
            ));
        }
        text.push_str("{\"at\": 9.5, \"sour");
        std::fs::write(folder.path().join(FILE), text).unwrap();
        let series = read(folder.path());
        let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["vllm:num_requests_running", "vllm:num_requests_waiting", "aaa"]);
        assert_eq!(series[1].at, [0.5, 1.5, 2.5, 3.5, 4.5]);
        assert_eq!(series[1].values, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(series[0].heading, Some("running requests"));
    }

    #[test]
    fn a_run_without_telemetry_has_none() {
        assert!(read(tempfile::tempdir().unwrap().path()).is_empty());
    }

    #[test]
    fn many_points_are_averaged_in_groups() {
        let (at, values) = thin((0..10_000).map(|k| (f64::from(k), f64::from(k % 5))).collect());
        assert_eq!((at.len(), values.len()), (2_000, 2_000));
        assert!(values.iter().all(|&value| value == 2.0));
    }
}
