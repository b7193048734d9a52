//! What a handful of requests tells: streaming, lengths, token counts, the prefix cache.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::loadgen::RequestRecord;
use crate::plan::{EndpointPlan, Plan};
use crate::rng::Stream;
use crate::target::check::{Bench, CheckReport, Line, STEP, gauges};
use crate::target::{discover, learn};
use crate::units::{Seconds, significant};
use crate::verdict::Checks;
use crate::workload::vocabulary::common_words;
use crate::workload::{Exactness, RequestSpec};

/// Tokens that each stream asks for.
const TOKENS: u32 = 48;
/// Streams one after the other, and then at once: buffers may show only under some load.
const STREAMS: (u64, u64) = (2, 4);
/// Mean chunks that arrive together from which streams are in a few bursts, and from which their ITL
/// is not what it seems.
const TOGETHER: (f64, f64) = (8.0, 1.5);
/// Words of the prompts that are sent twice.
const LONG: u32 = 600;
/// A second answer this much quicker comes from a cache.
const CACHED: f64 = 0.6;

/// A prompt that the server has not seen: words by chance, another at every call of the program.
fn prompt(words: u32, draws: &mut Stream) -> String {
    let all: Vec<&str> = common_words().collect();
    let word = |draws: &mut Stream| all[draws.below(all.len() as u64) as usize];
    (0..words).map(|_| word(draws)).collect::<Vec<_>>().join(" ")
}

/// A stream of chance that no other call of the program has.
fn fresh() -> Stream {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    Stream::new(now ^ u64::from(std::process::id()), "check")
}

fn spec(id: u64, words: u32, osl: u32, draws: &mut Stream) -> RequestSpec {
    RequestSpec::new(id, prompt(words, draws), words, osl)
}

/// Streaming, token counts in the stream, and output length.
pub(super) async fn streams(report: &mut CheckReport, bench: &Bench) {
    let mut draws = fresh();
    let mut records: Vec<RequestRecord> = Vec::new();
    for id in 0..STREAMS.0 {
        records.push(bench.client.fetch(&spec(id, 32, TOKENS, &mut draws)).await);
    }
    let at_once: Vec<RequestSpec> =
        (0..STREAMS.1).map(|id| spec(STREAMS.0 + id, 32, TOKENS, &mut draws)).collect();
    records.extend(join_all(at_once.iter().map(|spec| bench.client.fetch(spec))).await);
    let checks = Checks::of(&records);
    let alone = &records[..STREAMS.0 as usize];
    let middle = |figure: fn(&RequestRecord) -> Option<f64>| alone.iter().filter_map(figure).reduce(f64::min);
    report.figures.ttft = middle(RequestRecord::ttft);
    report.figures.tpot = middle(RequestRecord::tpot);
    report.figures.chunks_together = (checks.told > 0).then_some(checks.chunks_together);
    if checks.completed == 0 {
        let detail = checks.detail.unwrap_or_default();
        report.push(Line::fail(
            "streaming",
            format!("no request came back whole: {detail}"),
            "look into the server's log",
        ));
        return;
    }
    report.push(streaming(bench, &records, &checks));
    report.push(usage(&records));
    report.push(length(&checks));
}

fn streaming(bench: &Bench, records: &[RequestRecord], checks: &Checks) -> Line {
    const NAME: &str = "streaming";
    if !bench.options.streaming {
        return Line::ok(NAME, "whole answers are asked for; only e2e can be judged");
    }
    if records.iter().all(|record| record.first.is_none()) {
        return Line::fail(
            NAME,
            "the server answers in one piece although a stream was asked for",
            "judge by e2e with `--no-stream`, or let the server stream",
        );
    }
    let mend = "run without the buffering proxy, let the engine send every token (stream interval 1) and leave its \
                front end a core, or judge by e2e";
    if checks.buffered > 0 {
        let seen = format!("{} of {} streams came in one burst or a few", checks.buffered, checks.streams);
        // One of many may be an accident; one of six is worth a look before a search.
        return if checks.buffered > 1 { Line::fail(NAME, seen, mend) } else { Line::warn(NAME, seen, mend) };
    }
    if checks.told == 0 {
        let seen = format!("answers of {} tokens are too short to tell", significant(checks.output_got));
        return Line::warn(NAME, seen, "name the engine (`--engine`) so that it can be told to ignore EOS");
    }
    if checks.chunks_together > TOGETHER.1 {
        let seen = format!("{} chunks arrive together on average", significant(checks.chunks_together));
        return Line::warn(NAME, seen, "judge by TPOT, or set the engine's stream interval to 1");
    }
    if checks.tokens_per_chunk > 1.05 {
        let seen = format!("a chunk holds {} tokens on average", significant(checks.tokens_per_chunk));
        return Line::warn(
            NAME,
            seen,
            "ITL is the gap spread over a chunk's tokens; judge by TPOT where that matters",
        );
    }
    let pace = records.iter().filter_map(RequestRecord::tpot).reduce(f64::min);
    let pace = pace.map_or_else(String::new, |pace| format!(", {} apart", Seconds(pace)));
    Line::ok(NAME, format!("tokens come one by one{pace}"))
}

fn usage(records: &[RequestRecord]) -> Line {
    const NAME: &str = "usage";
    let completed = || records.iter().filter(|record| record.is_completed());
    match completed().filter(|record| record.osl_server.is_some()).count() {
        0 => Line::warn(
            NAME,
            "answers bear no token counts; chunks are counted instead",
            "let the server send `usage` (`stream_options.include_usage`)",
        ),
        n if n < completed().count() => Line::warn(
            NAME,
            format!("only {n} of {} answers bear token counts", completed().count()),
            "look into the server's log",
        ),
        _ => Line::ok(NAME, "every answer bears the server's token counts"),
    }
}

fn length(checks: &Checks) -> Line {
    const NAME: &str = "output length";
    let (asked, got) = (checks.output_asked, checks.output_got);
    let ends: Vec<String> = checks.finish.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let seen = format!(
        "{} tokens came where {} were asked for (finish: {})",
        significant(got),
        significant(asked),
        ends.join(", ")
    );
    let mend =
        "name the engine (`--engine`) so that it is told to ignore EOS, or give the true lengths (`--osl`)";
    if (got - asked).abs() < 0.5 {
        Line::ok(NAME, seen)
    } else if got < 0.5 * asked || got > 1.5 * asked {
        Line::fail(NAME, seen, mend)
    } else {
        Line::warn(NAME, seen, mend)
    }
}

/// Whether prompts of an exact length can be made.
pub(super) async fn tokens(report: &mut CheckReport, endpoint: &EndpointPlan, plan: &Plan) {
    const NAME: &str = "tokens";
    let counting = async {
        let found = discover(endpoint, (1, 1), false).await?;
        learn(&found, &plan.workload, plan.seed).await
    };
    let line = match timeout(STEP, counting).await {
        Err(_) => Line::warn(
            NAME,
            format!("how prompts are counted was not settled within {} s", STEP.as_secs()),
            "name the model's own tokenizer: `--tokenizer tokenizer.json`",
        ),
        Ok(Err(error)) => Line::fail(NAME, error.to_string(), error.hint().unwrap_or_default()),
        Ok(Ok(prompts)) => {
            let seen = [prompts.counting.to_string()].into_iter().chain(prompts.notes.iter().cloned());
            let seen = seen.collect::<Vec<_>>().join("; ");
            let off = matches!(prompts.counting.exactness, Exactness::Within { .. } | Exactness::Unknown);
            if off || !prompts.notes.is_empty() {
                Line::warn(NAME, seen, "name the model's own tokenizer: `--tokenizer tokenizer.json`")
            } else {
                Line::ok(NAME, seen)
            }
        }
    };
    report.push(line);
}

/// Whether a prompt that was sent before is answered sooner.
pub(super) async fn prefix_cache(report: &mut CheckReport, bench: &Bench) {
    const NAME: &str = "prefix cache";
    let words = bench.context.map_or(LONG, |context| LONG.min(context / 4)).max(16);
    let mut draws = fresh();
    let before = gauges::prefix_hits(&bench.web).await;
    let mut ratios = Vec::new();
    let twice = async {
        for id in 0..2 {
            let spec = spec(id, words, 2, &mut draws);
            let (first, second) = (bench.client.fetch(&spec).await, bench.client.fetch(&spec).await);
            let latency = |record: &RequestRecord| record.ttft().or(record.e2e());
            if let (Some(first), Some(second)) = (latency(&first), latency(&second)) {
                ratios.push(second / first.max(1e-6));
            }
        }
    };
    let done = timeout(STEP, twice).await.is_ok();
    let hits = gauges::prefix_hits(&bench.web).await.zip(before).map(|(after, before)| after - before);
    let ratio = (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64);
    report.figures.repeat_ttft = ratio;
    let line = match ratio {
        None => Line::warn(NAME, "two equal prompts were not answered in time", "assume that it is on"),
        Some(ratio) => {
            let told = match hits {
                Some(hits) if hits > 0.0 => format!("; the server counts {hits:.0} tokens found in it"),
                Some(_) => "; the server counts no hit".to_owned(),
                None => String::new(),
            };
            let on = hits.map_or(ratio < CACHED, |hits| hits > 0.0);
            let state = if on { "on" } else { "off" };
            let how = if done { "" } else { " (one pair only)" };
            let seen = format!(
                "{state}: an equal prompt takes {} of the first one's time{how}{told}; prompts of a search all differ",
                format_args!("{:.0} %", ratio * 100.0)
            );
            Line::ok(NAME, seen)
        }
    };
    report.push(line);
}
