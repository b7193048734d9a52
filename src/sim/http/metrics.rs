//! The metrics page, under vLLM's names.

use std::fmt::Write;

use crate::sim::http::pump::Snapshot;

/// The page. Times are those of the wall clock: virtual seconds over `speed`. `started` is the Unix
/// time at which the server began.
pub(super) fn page(snapshot: &Snapshot, model: &str, speed: f64, started: f64) -> String {
    let Snapshot { counters, gauges } = snapshot;
    let mut page = Page { text: String::new(), model };
    page.gauge("num_requests_running", "Requests being computed.", f64::from(gauges.running));
    page.gauge("num_requests_waiting", "Requests in the queue.", f64::from(gauges.waiting));
    page.gauge("kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1.", gauges.kv_usage);
    page.counter("num_preemptions", "Sequences that lost their KV cache.", counters.preemptions);
    page.counter(
        "prefix_cache_queries",
        "Prompt tokens looked up in the prefix cache.",
        counters.prefix_queries,
    );
    page.counter("prefix_cache_hits", "Prompt tokens found in the prefix cache.", counters.prefix_hits);
    page.counter("prompt_tokens", "Prompt tokens processed.", counters.prompt_tokens);
    page.counter("generation_tokens", "Tokens produced.", counters.generation_tokens);
    page.counter("request_success", "Requests finished.", counters.finished);
    let firsts = counters.first_tokens;
    let finished = counters.finished;
    let histograms = [
        ("time_to_first_token_seconds", "Arrival to first token.", counters.ttft_seconds, firsts),
        ("request_queue_time_seconds", "Time in the queue.", counters.queue_seconds, counters.admitted),
        ("request_prefill_time_seconds", "Admission to first token.", counters.prefill_seconds, firsts),
        ("request_decode_time_seconds", "First to last token.", counters.decode_seconds, finished),
        ("e2e_request_latency_seconds", "Arrival to last token.", counters.e2e_seconds, finished),
    ];
    for (name, help, sum, count) in histograms {
        page.histogram(name, help, sum / speed, count);
    }
    // Like the rest of what a process says of itself it has no labels.
    let name = "process_start_time_seconds";
    let _ = writeln!(
        page.text,
        "# HELP {name} Start time of the process since unix epoch in seconds.\n# TYPE {name} gauge\n{name} {started:.3}"
    );
    page.text
}

struct Page<'a> {
    text: String,
    model: &'a str,
}

impl Page<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.line(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("{name}_total");
        self.head(&name, help, "counter");
        self.line(&name, "", value as f64);
    }

    /// A histogram whose only bucket is the last: its sum and count are what is known.
    fn histogram(&mut self, name: &str, help: &str, sum: f64, count: u64) {
        self.head(name, help, "histogram");
        self.line(&format!("{name}_bucket"), ",le=\"+Inf\"", count as f64);
        self.line(&format!("{name}_sum"), "", sum);
        self.line(&format!("{name}_count"), "", count as f64);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }

    fn line(&mut self, name: &str, label: &str, value: f64) {
        let _ =
            writeln!(self.text, "vllm:{name}{{engine=\"0\",model_name=\"{}\"{label}}} {value}", self.model);
    }
}
