//! vllm bench serve: one JSON object a benchmark, with lists over its requests.

use std::path::Path;

use serde_json::Value;

use super::{Batch, Parsed, record};
use crate::loadgen::record::{Failure, Outcome, RequestRecord};

pub(super) fn parse(path: &Path, text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    // `--append-result` writes one object after another.
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for (index, document) in documents.enumerate() {
        let number = index + 1;
        match document {
            Ok(document) => benchmark(path, number, &document, &mut parsed),
            Err(error) => {
                parsed.complaints.push(format!("`{}` result {number}: {error}", path.display()));
                break;
            }
        }
    }
    parsed
}

fn benchmark(path: &Path, number: usize, document: &Value, parsed: &mut Parsed) {
    let at = |problem: &str| format!("`{}` result {number}{problem}", path.display());
    let list = |key: &str| document[key].as_array().map_or(&[][..], Vec::as_slice);
    let (ttfts, itls) = (list("ttfts"), list("itls"));
    if ttfts.is_empty() {
        parsed.complaints.push(at(": no requests are kept; run vllm bench with `--save-detailed`"));
        return;
    }
    parsed.model = parsed.model.take().or_else(|| document["model_id"].as_str().map(str::to_owned));
    let load = document["max_concurrency"].as_u64().map(|load| load as u32);
    if document["request_rate"].is_number() {
        parsed.notes.push(
            "a result has a request rate: its load is taken as the concurrency limit or the most requests in flight"
                .to_owned(),
        );
    }
    let mut batch = Batch { load, records: Vec::new() };
    let starts = list("start_times");
    // Without start times the requests are dealt to users in order, each to the one free first.
    let mut free = vec![0.0_f64; load.unwrap_or(ttfts.len() as u32).max(1) as usize];
    for (index, ttft) in ttfts.iter().enumerate() {
        let Some(ttft) = ttft.as_f64() else {
            parsed.complaints.push(at(&format!(", request {}: its TTFT is no number", index + 1)));
            continue;
        };
        let gaps: Vec<f64> = itls
            .get(index)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect();
        let span = ttft + gaps.iter().sum::<f64>();
        let user = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap_or(0);
        let sent = starts.get(index).and_then(Value::as_f64).unwrap_or(free[user]);
        free[user] = sent + span;
        let count = |key: &str| list(key).get(index).and_then(Value::as_u64).map(|count| count as u32);
        batch.records.push(request(
            (sent, ttft, &gaps),
            list("errors").get(index).and_then(Value::as_str).unwrap_or_default(),
            (count("input_lens"), count("output_lens")),
        ));
    }
    parsed.batches.push(batch);
}

fn request(
    (sent, ttft, gaps): (f64, f64, &[f64]),
    error: &str,
    (isl, osl): (Option<u32>, Option<u32>),
) -> RequestRecord {
    let ended = sent + ttft + gaps.iter().sum::<f64>();
    if !error.is_empty() {
        let detail = error.lines().last().unwrap_or(error).to_owned();
        return record(sent, ended, Outcome::Failed { cause: Failure::Server, detail });
    }
    let mut found = record(sent, ended, Outcome::Completed { finish: None });
    found.first = (ttft > 0.0).then_some(sent + ttft);
    found.last = Some(ended);
    found.gaps_us = gaps.iter().map(|gap| (gap * 1e6).round() as u32).collect();
    found.isl = isl.unwrap_or(0);
    found.isl_server = isl;
    found.osl = osl.unwrap_or(0);
    found.osl_server = osl;
    found
}
