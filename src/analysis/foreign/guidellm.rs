//! guidellm: one JSON file with a benchmark for each load.

use std::path::Path;

use serde_json::Value;

use super::{Batch, Parsed, record};
use crate::loadgen::record::{Failure, Outcome, RequestRecord};

pub(super) fn parse(path: &Path, whole: &Value) -> Parsed {
    let mut parsed = Parsed::default();
    let spec = &whole["config"]["spec"]["backend"];
    parsed.url = spec["target"].as_str().map(str::to_owned);
    parsed.model = spec["model"].as_str().map(str::to_owned);
    for (number, benchmark) in whole["benchmarks"].as_array().into_iter().flatten().enumerate() {
        let config = if benchmark["config"].is_null() { &benchmark["args"] } else { &benchmark["config"] };
        let strategy = &config["strategy"];
        let load = strategy["streams"].as_u64().or_else(|| strategy["max_concurrency"].as_u64());
        let load = match strategy["type_"].as_str() {
            Some("synchronous") => Some(1),
            Some("concurrent") => load.map(|load| load as u32),
            kind => {
                parsed.notes.push(format!(
                    "benchmark {} is of the kind `{}`: its load is taken as the most requests in flight",
                    number + 1,
                    kind.unwrap_or("unknown")
                ));
                None
            }
        };
        let mut batch = Batch { load, records: Vec::new() };
        for (list, failed) in [("successful", false), ("errored", true)] {
            let requests = benchmark["requests"][list].as_array().into_iter().flatten();
            for (index, request) in requests.enumerate() {
                match read(request, failed) {
                    Ok(record) => batch.records.push(record),
                    Err(problem) => parsed.complaints.push(format!(
                        "`{}` benchmark {}, {list} request {}: {problem}",
                        path.display(),
                        number + 1,
                        index + 1
                    )),
                }
            }
        }
        parsed.batches.push(batch);
    }
    parsed
        .notes
        .push("guidellm keeps no gap between tokens: `itl` is judged by each request's mean".to_owned());
    parsed
}

fn read(request: &Value, failed: bool) -> Result<RequestRecord, String> {
    let timings = &request["info"]["timings"];
    let number = |value: &Value| value.as_f64();
    let sent = number(&request["request_start_time"])
        .or_else(|| number(&timings["request_start"]))
        .ok_or("`request_start_time` is missing")?;
    let ended = number(&request["request_end_time"])
        .or_else(|| number(&timings["request_end"]))
        .ok_or("`request_end_time` is missing")?;
    if failed {
        let detail = request["info"]["error"].as_str().unwrap_or("failed").to_owned();
        return Ok(record(sent, ended, Outcome::Failed { cause: Failure::Server, detail }));
    }
    let mut found = record(sent, ended, Outcome::Completed { finish: None });
    found.first = number(&timings["first_token_iteration"])
        .or_else(|| number(&request["time_to_first_token_ms"]).map(|ttft| sent + ttft * 1e-3));
    let tokens = number(&request["output_tokens"]).map(|tokens| tokens.round() as u32);
    let pace = number(&request["inter_token_latency_ms"]).zip(found.first).zip(tokens);
    found.last = number(&timings["last_token_iteration"])
        .or_else(|| pace.map(|((itl, first), n)| first + itl * 1e-3 * f64::from(n.saturating_sub(1))))
        .or(Some(ended));
    found.osl_server = tokens;
    found.osl = tokens.unwrap_or(0);
    found.isl_server = number(&request["prompt_tokens"]).map(|tokens| tokens.round() as u32);
    found.isl = found.isl_server.unwrap_or(0);
    Ok(found)
}
