//! AIPerf: one JSON object a request, in `profile_export.jsonl`; one folder an iteration of a search.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Batch, Parsed, record};
use crate::loadgen::record::{Failure, Outcome, RequestRecord};

/// Reads `search_history.json` and the exports of its iterations, which lie in folders beside it.
pub(super) fn history(path: &Path, whole: &Value) -> Parsed {
    let mut parsed = Parsed { slo: slo(whole), claimed: claimed(whole), ..Parsed::default() };
    let folder = path.parent().unwrap_or(Path::new("."));
    for iteration in whole["iterations"].as_array().into_iter().flatten() {
        let index = iteration["iteration_idx"].as_u64().unwrap_or(0);
        let load = iteration["variation_values"].as_object().and_then(|values| {
            let concurrency = values.iter().find(|(path, _)| path.ends_with("concurrency"));
            concurrency.and_then(|(_, value)| value.as_f64()).map(|value| value.round() as u32)
        });
        let exports = exports(&folder.join(format!("search_iter_{index:04}")));
        if exports.is_empty() {
            parsed
                .complaints
                .push(format!("iteration {index}: no `profile_export.jsonl` beside the history"));
        }
        for export in exports {
            let text = match fs::read_to_string(&export) {
                Ok(text) => text,
                Err(error) => {
                    parsed.complaints.push(format!("`{}`: {error}", export.display()));
                    continue;
                }
            };
            let mut of = self::export(&export, &text);
            of.batches.iter_mut().for_each(|batch| batch.load = load.or(batch.load));
            parsed.batches.append(&mut of.batches);
            parsed.complaints.append(&mut of.complaints);
        }
    }
    parsed
}

/// The exports of an iteration's runs, in order.
fn exports(iteration: &Path) -> Vec<PathBuf> {
    let runs = fs::read_dir(iteration.join("profile_runs")).into_iter().flatten().flatten();
    let mut exports: Vec<PathBuf> = runs
        .map(|run| run.path().join("profile_export.jsonl"))
        .chain([iteration.join("profile_export.jsonl")])
        .filter(|path| path.is_file())
        .collect();
    exports.sort();
    exports
}

/// The objectives of the search's filters that have a counterpart.
fn slo(whole: &Value) -> Vec<String> {
    let filters = whole["config"]["sla_filters"].as_array().into_iter().flatten();
    filters
        .filter_map(|filter| {
            let metric = match filter["metric_tag"].as_str()? {
                "time_to_first_token" => "ttft",
                "time_to_second_token" => "ttst",
                // Its inter-token latency is a mean of each request.
                "inter_token_latency" => "tpot",
                "request_latency" => "e2e",
                _ => return None,
            };
            let stat = match filter["stat"].as_str()? {
                "avg" => "mean",
                stat => stat,
            };
            let op = match filter["op"].as_str()? {
                "lt" => "<",
                "le" => "<=",
                _ => return None,
            };
            Some(format!("{metric} {stat} {op} {} ms", filter["threshold"].as_f64()?))
        })
        .collect()
}

fn claimed(whole: &Value) -> Option<u32> {
    let value = whole["boundary_summary"]["feasible_max"]["value"].as_f64()?;
    Some(value.round() as u32)
}

/// Reads `profile_export.jsonl`: the requests of the profiling phase.
pub(super) fn export(path: &Path, text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let mut batch = Batch::default();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |problem: &str| format!("`{}` line {}: {problem}", path.display(), index + 1);
        match serde_json::from_str::<Value>(line) {
            Err(error) => parsed.complaints.push(at(&error.to_string())),
            Ok(value) => {
                let phase = value["metadata"]["benchmark_phase"].as_str();
                if phase.is_some_and(|phase| phase != "profiling") {
                    continue;
                }
                match request(&value) {
                    Ok(record) => batch.records.push(record),
                    Err(problem) => parsed.complaints.push(at(&problem)),
                }
            }
        }
    }
    parsed.batches.push(batch);
    parsed
}

fn request(value: &Value) -> Result<RequestRecord, String> {
    let metadata = &value["metadata"];
    let instant = |key: &str| {
        metadata[key].as_f64().map(|ns| ns * 1e-9).ok_or_else(|| format!("`metadata.{key}` is missing"))
    };
    let (sent, ended) = (instant("request_start_ns")?, instant("request_end_ns")?);
    let metrics = &value["metrics"];
    let error = &value["error"];
    if !error.is_null() {
        let detail = error["message"].as_str().or(error.as_str()).unwrap_or("failed").to_owned();
        let code = error["code"].as_u64();
        let cause = match code {
            Some(429) => Failure::Throttled,
            Some(400..=499) => Failure::Client,
            _ if error["type"].as_str().is_some_and(|name| name.contains("Timeout")) => Failure::Timeout,
            _ => Failure::Server,
        };
        return Ok(record(sent, ended, Outcome::Failed { cause, detail }));
    }
    if metadata["was_cancelled"].as_bool() == Some(true) {
        return Ok(record(sent, ended, Outcome::Cancelled));
    }
    let seconds =
        |key: &str| metrics[key]["value"].as_f64().map(|value| value * unit(metrics[key]["unit"].as_str()));
    let latency =
        seconds("request_latency").ok_or_else(|| "`metrics.request_latency` is missing".to_owned())?;
    let mut found = record(sent, sent + latency, Outcome::Completed { finish: None });
    found.last = Some(sent + latency);
    found.first = seconds("time_to_first_token").map(|ttft| sent + ttft);
    let count = |key: &str| metrics[key]["value"].as_f64().map(|value| value.round() as u32);
    found.osl_server = count("output_sequence_length");
    found.osl = found.osl_server.unwrap_or(0);
    found.isl_server = count("input_sequence_length");
    found.isl = found.isl_server.unwrap_or(0);
    let gaps = &metrics["inter_chunk_latency"];
    let factor = unit(gaps["unit"].as_str()) * 1e6;
    found.gaps_us = gaps["value"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .map(|gap| (gap * factor).round() as u32)
        .collect();
    Ok(found)
}

/// Seconds in a unit; times are in milliseconds where none is named.
fn unit(name: Option<&str>) -> f64 {
    match name {
        Some("s" | "sec") => 1.0,
        Some("us") => 1e-6,
        Some("ns") => 1e-9,
        _ => 1e-3,
    }
}
