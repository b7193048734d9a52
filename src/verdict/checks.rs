//! What the requests of a trial show of the measurement itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::record::{Outcome, RequestRecord};
use crate::slo::Turns;

/// Fewest tokens of a stream whose arrival tells anything.
const LONG: u32 = 8;
/// A stream whose tokens after the first come faster than this was handed on in one burst, seconds
/// a token: no engine decodes at 5,000 tokens a second for one user.
const BURST_TPOT: f64 = 0.2e-3;
/// Fewest gaps by which clumps are told from chance.
const LEAST_GAPS: usize = 15;
/// A chunk that comes sooner after the last than this share of the stream's mean gap came with it.
/// Of gaps that are spread like waiting times (exponential) one in ten is so short.
const TOGETHER: f64 = 0.1;
/// Longest such gap, microseconds.
const TOGETHER_US: f64 = 500.0;
/// Mean chunks that come together from which a stream counts as buffered. Speculative decoding sends
/// two to five tokens at a time.
const CLUMP: f64 = 8.0;

/// What the measured requests of a trial show of the measurement itself: whether it can be believed,
/// and what the reader should know of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Checks {
    /// Requests that completed or failed.
    pub requests: u32,
    /// Requests lost on the way (refused, cut, without TLS, answered by a gateway that has no server).
    /// They say nothing of the load and count neither way.
    pub lost: u32,
    /// Requests that the server failed with a status of 5xx other than 503 and 504.
    pub server_failed: u32,
    /// Requests that the server turned away or gave up for its load: 429, 503, 504.
    pub turned_away: u32,
    /// The most frequent message of lost and failed requests.
    pub detail: Option<String>,
    /// Completed streams long enough to tell whether tokens came one by one.
    pub streams: u32,
    /// Of these, how many came in one burst or a few.
    pub buffered: u32,
    /// Streams whose chunks could be told apart.
    pub told: u32,
    /// Mean number of their chunks that arrived together; 1 where each came alone.
    pub chunks_together: f64,
    /// Mean output tokens a chunk; above 1 the gap before a chunk is spread over its tokens.
    pub tokens_per_chunk: f64,
    /// Completed requests.
    pub completed: u32,
    /// Mean output tokens asked for.
    pub output_asked: f64,
    /// Mean output tokens that came: the server's count where it gives one.
    pub output_got: f64,
    /// Mean prompt tokens as the client built them.
    pub prompt_built: f64,
    /// Mean prompt tokens as the server counted them, where it does.
    pub prompt_counted: Option<f64>,
    /// What the server counts beyond the client: the chat template, and any disagreement.
    pub overhead: Option<Overhead>,
    /// Completed requests by finish reason (`length`, `stop`, `none`).
    pub finish: BTreeMap<String, u32>,
}

/// Prompt tokens by the server's count less those by the client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// Smallest difference, tokens.
    pub min: i64,
    /// Median difference, tokens.
    pub median: i64,
    /// Largest difference, tokens.
    pub max: i64,
}

impl Checks {
    /// What some requests show.
    pub fn of(records: &[RequestRecord]) -> Self {
        let mut checks = Self::default();
        let mut details: BTreeMap<&str, u32> = BTreeMap::new();
        let mut overheads = Vec::new();
        let mut with_counts = 0_u32;
        let (mut together, mut chunks, mut chunked_tokens, mut counted) = (0.0, 0_u64, 0_u64, 0.0);
        for record in records {
            match &record.outcome {
                Outcome::Completed { finish } => {
                    checks.completed += 1;
                    let reason = finish.as_deref().unwrap_or("none");
                    if let Some(count) = checks.finish.get_mut(reason) {
                        *count += 1;
                    } else {
                        checks.finish.insert(reason.to_owned(), 1);
                    }
                }
                Outcome::Failed { detail, .. } => {
                    checks.requests += 1;
                    match record.http_status() {
                        _ if record.is_lost() => checks.lost += 1,
                        Some(429 | 503 | 504) => checks.turned_away += 1,
                        Some(500..=599) => checks.server_failed += 1,
                        _ => {}
                    }
                    *details.entry(detail.as_str()).or_insert(0) += 1;
                    continue;
                }
                Outcome::Censored | Outcome::Cancelled => continue,
            }
            checks.requests += 1;
            let tokens = record.output_tokens();
            checks.output_asked += f64::from(record.osl);
            checks.output_got += f64::from(tokens);
            checks.prompt_built += f64::from(record.isl);
            if let Some(server) = record.isl_server {
                counted += f64::from(server);
                with_counts += 1;
                // Each message of a conversation brings the template's tokens once more, and an answer may
                // be cut into other tokens than it was made of: only first turns tell the template.
                if Turns::First.hold(record.turn) {
                    overheads.push(i64::from(server) - i64::from(record.isl));
                }
            }
            if record.first.is_none() {
                continue;
            }
            chunks += record.gaps_us.len() as u64 + 1;
            chunked_tokens += u64::from(tokens);
            if tokens < LONG {
                continue;
            }
            checks.streams += 1;
            let burst = is_burst(record);
            let at_once = if burst { None } else { chunks_at_once(&record.gaps_us) };
            if let Some(at_once) = at_once {
                checks.told += 1;
                together += at_once;
            }
            checks.buffered += u32::from(burst || at_once.is_some_and(|at_once| at_once >= CLUMP));
        }
        let completed = f64::from(checks.completed.max(1));
        checks.output_asked /= completed;
        checks.output_got /= completed;
        checks.prompt_built /= completed;
        checks.prompt_counted = (with_counts > 0).then(|| counted / f64::from(with_counts));
        checks.chunks_together = if checks.told > 0 { together / f64::from(checks.told) } else { 1.0 };
        // Records without gaps (virtual time) tell nothing of chunks.
        let told = records.iter().any(|record| !record.gaps_us.is_empty());
        checks.tokens_per_chunk = if told { chunked_tokens as f64 / chunks.max(1) as f64 } else { 1.0 };
        checks.detail = details.into_iter().max_by_key(|&(_, count)| count).map(|(text, _)| text.to_owned());
        overheads.sort_unstable();
        checks.overhead = match (overheads.first(), overheads.last()) {
            (Some(&min), Some(&max)) => Some(Overhead { min, median: overheads[overheads.len() / 2], max }),
            _ => None,
        };
        checks
    }

    /// Share of the requests that were lost on the way.
    pub fn lost_share(&self) -> f64 {
        share(self.lost, self.requests)
    }

    /// Share of the streams that were buffered.
    pub fn buffered_share(&self) -> f64 {
        share(self.buffered, self.streams)
    }

    /// Share of the completed requests that ended by themselves.
    pub fn stopped_share(&self) -> f64 {
        share(self.finish.get("stop").copied().unwrap_or(0), self.completed)
    }
}

/// A count as a share of another; 0 of none.
pub(super) fn share(count: u32, of: u32) -> f64 {
    f64::from(count) / f64::from(of.max(1))
}

/// Whether a whole response came in one burst after a wait that was far longer.
fn is_burst(record: &RequestRecord) -> bool {
    match (record.tpot(), record.ttft(), record.e2e()) {
        (Some(tpot), Some(ttft), Some(e2e)) => tpot < BURST_TPOT && e2e - ttft < 0.1 * ttft,
        _ => false,
    }
}

/// Mean number of chunks that came together; none where there are too few to tell.
fn chunks_at_once(gaps_us: &[u32]) -> Option<f64> {
    if gaps_us.len() < LEAST_GAPS {
        return None;
    }
    let mean = gaps_us.iter().map(|&gap| f64::from(gap)).sum::<f64>() / gaps_us.len() as f64;
    let limit = (TOGETHER * mean).min(TOGETHER_US);
    let apart = gaps_us.iter().filter(|&&gap| f64::from(gap) >= limit).count();
    Some((gaps_us.len() + 1) as f64 / (apart + 1) as f64)
}
