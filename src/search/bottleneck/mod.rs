//! What keeps the server from carrying more, in words.
//!
//! Two witnesses are heard: the curves (how TTFT, the time of a token and the throughput change with
//! load), which every run has, and the server's own figures, where it gives some. Each rule stands on
//! how an engine with continuous batching works: a step computes one token of every running request
//! and pieces of waiting prompts, so
//!
//! - the time of a token is the step's, and grows with the batch (decode-bound);
//! - a request that waits for longer than a few steps before its first token is queued: behind a cap
//!   on running requests, for KV memory, or behind other prompts;
//! - prompts are the limit where their processing alone, `rate x (TTFT - one step)` of a request that
//!   is alone, takes most of the time (prefill-bound).
//!
//! Where the rules do not agree with what was seen, the answer is that it cannot be told.

mod advice;
mod curve;

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::curve::{Level, Levels, ServerView};
use crate::plan::Engine;
use crate::search::{Answer, SearchOutcome, TrialKind, TrialOutcome};
use crate::slo::{Metric, Slo};
use crate::units::{Seconds, significant};
use crate::verdict::{Verdict, VoidReason};

/// Share of the time that prompts must take to be called the limit.
const PREFILL_SHARE: f64 = 0.7;
/// The same where only the curves tell that requests queue for nothing else: the share is an estimate.
const PREFILL_SURELY: f64 = 0.8;
/// The share from which prompts are named as a part of it.
const PREFILL_PART: f64 = 0.5;
/// The share from which, of a queue that only the curves show, it cannot be told whether prompts or
/// something else hold it up.
const PREFILL_MAYBE: f64 = 0.6;
/// Steps that a request may wait for its first token without being called queued.
const QUEUED_STEPS: f64 = 4.0;
/// Growth of a token's time from which the step is said to have grown.
const GROWN: f64 = 1.2;
/// The same between two loads near each other, where the server says that next to none wait.
const GROWN_NEARBY: f64 = 1.05;
/// Share of the looks at which requests must wait for a queue to be real.
const OFTEN: f64 = 0.5;
/// Share of queued looks at the largest running count from which it is a cap; a look may fall between the
/// end of a request and the start of the next.
const PINNED: f64 = 0.65;
/// Mean use of the KV cache from which it is called full, where requests wait.
const FULL: f64 = 0.85;
/// Preemptions a request from which they count.
const PREEMPTED: f64 = 0.01;
/// Share of the client's TTFT that the server must not know of for the way between to be the limit,
/// and the least of it, seconds.
const BETWEEN: (f64, f64) = (0.5, 0.02);

/// What limits a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BottleneckKind {
    /// The step time grows with the batch: computing or memory bandwidth.
    Decode,
    /// Requests queue because the engine runs so many and no more.
    SequenceCap,
    /// Requests queue for KV memory, or are preempted for want of it.
    KvMemory,
    /// Requests queue; whether for a cap or for KV memory cannot be told.
    Queue,
    /// Prompts take most of the engine's time.
    Prefill,
    /// The client was too slow.
    Client,
    /// Time is lost between client and scheduler: network, proxy, or the server's HTTP front end.
    Network,
    /// A request that is alone is too slow already: no load is the cause.
    Floor,
    /// Cannot be told.
    Unknown,
}

/// How far the name can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Seen in the server's own figures and in the curves.
    High,
    /// Seen, but something else has a part in it.
    Medium,
    /// Guessed from the curves.
    Low,
}

/// What limits the server beyond the answer's load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// Its name.
    pub kind: BottleneckKind,
    /// The name in words.
    pub words: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// What to try next.
    #[serde(rename = "try")]
    pub try_next: Vec<String>,
    /// How far the name can be relied on.
    pub confidence: Confidence,
    /// Whether the server gave no figures of its own.
    pub from_curves_alone: bool,
}

impl Bottleneck {
    /// The name with its first evidence, on one line.
    pub fn line(&self) -> String {
        let mut line = self.words.clone();
        if let Some(first) = self.evidence.first() {
            line.push_str(": ");
            line.push_str(first);
        }
        if self.from_curves_alone && !matches!(self.kind, BottleneckKind::Client | BottleneckKind::Floor) {
            line.push_str(" (from the curves alone: the server gave no figures)");
        }
        line
    }
}

/// Which part of a request's life breaks the SLO first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binding {
    First,
    Token,
}

/// What the rules have found.
struct Found {
    kind: BottleneckKind,
    evidence: Vec<String>,
    confidence: Confidence,
}

impl Found {
    fn new(kind: BottleneckKind, confidence: Confidence, evidence: impl Into<Vec<String>>) -> Self {
        Self { kind, evidence: evidence.into(), confidence }
    }
}

/// Names what limits the server beyond the load of `answer`; `None` where no limit was reached.
pub fn bottleneck<'a>(
    slo: &Slo,
    engine: Option<Engine>,
    answer: &Answer,
    outcomes: impl IntoIterator<Item = &'a TrialOutcome>,
) -> Option<Bottleneck> {
    let outcomes: Vec<&TrialOutcome> =
        outcomes.into_iter().filter(|outcome| outcome.spec.kind != TrialKind::Warmup).collect();
    let found = match client(&outcomes) {
        Some(found) => found,
        None => {
            if !outcomes.iter().any(|outcome| outcome.verdict == Verdict::Missed)
                || answer.outcome == SearchOutcome::MetAtHighest
            {
                return None;
            }
            let levels = Levels::of(slo, &outcomes);
            let load = answer.load.or(answer.largest_met).map(|load| load.value());
            match load {
                Some(load) => beyond(slo, answer, &levels, load)?,
                None => at_lowest(slo, answer, &levels)?,
            }
        }
    };
    let from_curves_alone = outcomes.iter().all(|outcome| outcome.server.is_none());
    Some(Bottleneck {
        kind: found.kind,
        words: advice::words(found.kind).to_owned(),
        evidence: found.evidence,
        try_next: advice::next(found.kind, engine, from_curves_alone),
        confidence: found.confidence,
        from_curves_alone,
    })
}

/// A client that was too slow explains everything else that was seen.
fn client(outcomes: &[&TrialOutcome]) -> Option<Found> {
    let lags = outcomes.iter().filter_map(|outcome| match outcome.verdict {
        Verdict::Void(VoidReason::Client { lag, .. } | VoidReason::LateSends { lateness: lag, .. }) => {
            Some((outcome.spec.load, lag))
        }
        _ => None,
    });
    let (load, lag) = lags.max_by(|a, b| a.1.total_cmp(&b.1))?;
    // A few that were retried with success limit nothing.
    let (void, valid) =
        outcomes.iter().filter(|outcome| outcome.spec.load >= load).fold((0, 0), |(void, valid), outcome| {
            match outcome.verdict {
                Verdict::Void(VoidReason::Client { .. } | VoidReason::LateSends { .. }) => (void + 1, valid),
                Verdict::Void(_) => (void, valid),
                _ => (void, valid + 1),
            }
        });
    (void > valid).then(|| {
        let seen = format!("at {load} the client was late by up to {}", Seconds(lag));
        Found::new(BottleneckKind::Client, Confidence::High, [seen])
    })
}

/// Even the lowest load misses.
fn at_lowest(slo: &Slo, answer: &Answer, levels: &Levels) -> Option<Found> {
    let lowest = levels.lowest()?;
    if lowest.load > 2.0 {
        return beyond(slo, answer, levels, lowest.load * 0.99);
    }
    let mut seen = Vec::new();
    if let Some(ttft) = lowest.ttft {
        seen.push(format!("{} alone has its first token after {}", users(lowest.load), Seconds(ttft)));
    }
    if let Some(token) = lowest.token {
        seen.push(format!("a token takes {}", Seconds(token)));
    }
    Some(Found::new(BottleneckKind::Floor, Confidence::High, [seen.join(", and ")]))
}

/// What is seen just beyond `load`.
fn beyond(slo: &Slo, answer: &Answer, levels: &Levels, load: f64) -> Option<Found> {
    // The smallest miss may lie farther beyond than what is looked at otherwise.
    let missed = answer.smallest_missed.map_or(0.0, |load| load.value());
    let near = levels.beyond(load, missed)?;
    let low = levels.unloaded(load);
    let server = levels.server_beyond(load, missed);
    let binding = binding(slo, answer, low, &near);
    let shares = Shares::of(low, levels.lowest(), &near, levels.best_rate(load));
    if let Some(found) = server.as_ref().and_then(|server| by_server(server, binding, &near, &shares)) {
        return Some(found);
    }
    Some(by_curves(binding, &near, &shares, server.as_ref()))
}

fn binding(slo: &Slo, answer: &Answer, low: Option<&Level>, near: &Level) -> Binding {
    let named = answer.binding_objective.as_ref().and_then(|text| {
        slo.objectives
            .iter()
            .find(|objective| objective.to_string() == *text)
            .map(|objective| objective.metric)
    });
    match named {
        Some(Metric::Ttft) => Binding::First,
        Some(
            Metric::Tpot | Metric::Itl | Metric::OutputTokensPerSecondPerUser | Metric::Ttst | Metric::Stall,
        ) => Binding::Token,
        // Of the whole life that part counts which has grown more.
        _ => {
            let grown =
                |value: fn(&Level) -> Option<f64>| Some(value(near)? - low.and_then(value).unwrap_or(0.0));
            let first = grown(|level| level.ttft).unwrap_or(0.0);
            let rest = grown(|level| Some(level.e2e? - level.ttft?)).unwrap_or(0.0);
            if first > rest { Binding::First } else { Binding::Token }
        }
    }
}

/// What the curves say in numbers.
struct Shares {
    /// Share of the engine's time that prompts take.
    prefill: Option<f64>,
    /// Steps that a request waits for its first token, its own prompt not counted.
    waited: Option<f64>,
    /// A token's time near the limit over that of a request alone.
    growth: Option<f64>,
    /// Time of a prompt that is alone, seconds.
    prompt: Option<f64>,
    /// The load that this is compared with.
    low: Option<f64>,
    /// Whether that one is far below the limit.
    far: bool,
}

impl Shares {
    fn of(low: Option<&Level>, lowest: Option<&Level>, near: &Level, rate: f64) -> Self {
        let prompt = low.and_then(|low| Some((low.ttft? - low.token.unwrap_or(0.0)).max(0.0)));
        let waited = near
            .ttft
            .zip(near.token)
            .map(|(ttft, token)| (ttft - prompt.unwrap_or(0.0)).max(0.0) / token.max(1e-9));
        let below = low.or(lowest.filter(|lowest| lowest.load < 0.8 * near.load));
        let growth =
            below.and_then(|below| below.token).zip(near.token).map(|(low, near)| near / low.max(1e-9));
        Self {
            prefill: prompt.map(|prompt| (prompt * rate).min(1.0)),
            waited,
            growth,
            prompt,
            low: below.map(|below| below.load),
            far: low.is_some(),
        }
    }

    fn prompts_take(&self, share: f64) -> bool {
        self.prefill.is_some_and(|taken| taken >= share)
    }

    fn words_of_prompts(&self) -> Option<String> {
        let (share, prompt) = (self.prefill?, self.prompt?);
        Some(format!(
            "prompts alone take about {} of the engine's time ({} each when nothing else runs)",
            percent(share),
            Seconds(prompt)
        ))
    }

    fn words_of_growth(&self, near: &Level) -> Option<String> {
        Some(format!(
            "a token takes {} at {}, {} times as long as at {}",
            Seconds(near.token?),
            users(near.load),
            significant(self.growth?),
            users(self.low?)
        ))
    }
}

/// The rules on the server's own figures; `None` where they do not tell.
fn by_server(server: &ServerView, binding: Binding, near: &Level, shares: &Shares) -> Option<Found> {
    use BottleneckKind::{KvMemory, Network, Prefill, SequenceCap};
    let queued = server.waiting_share.is_some_and(|share| share >= OFTEN);
    let preempted = server.preempted.is_some_and(|rate| rate >= PREEMPTED);
    let full = server.kv_mean.is_some_and(|kv| kv >= FULL);
    let pinned =
        queued && server.pinned.is_some_and(|share| share >= PINNED) && server.running_max < near.load;
    if (full && queued) || (preempted && server.kv_max.is_none_or(|kv| kv >= FULL)) {
        let mut seen = Vec::new();
        if let Some(kv) = server.kv_mean {
            seen.push(format!("the KV cache is {} full on average", percent(kv)));
        }
        if queued && let Some(waiting) = server.waiting_mean {
            seen.push(format!("{} requests wait", count(waiting)));
        }
        let mut evidence = vec![seen.join(" while ")];
        if let Some(rate) = server.preempted.filter(|rate| *rate > 0.0) {
            evidence.push(format!("{} preemptions for 100 requests", significant(rate * 100.0)));
        }
        // A cap that lies where the memory ends looks the same.
        let certain = preempted || !pinned;
        let confidence = if certain { Confidence::High } else { Confidence::Medium };
        return Some(Found::new(KvMemory, confidence, evidence));
    }
    if pinned && binding == Binding::First {
        let mut evidence = vec![format!(
            "the server runs {} at most while {} wait: its own cap",
            count(server.running_max),
            server.waiting_mean.map_or_else(|| "others".to_owned(), count)
        )];
        if let Some(kv) = server.kv_mean {
            evidence.push(format!("the KV cache is only {} full", percent(kv)));
        }
        evidence
            .extend(server.queue.map(|queue| format!("a request queues for {} on average", Seconds(queue))));
        return Some(Found::new(SequenceCap, Confidence::High, evidence));
    }
    // Where requests wait in the server, what it tells lags behind what is in flight.
    if binding == Binding::First
        && !queued
        && let (Some(seen), Some(told)) = (near.ttft, server.ttft)
        && seen - told > (BETWEEN.0 * seen).max(BETWEEN.1)
    {
        let evidence = format!(
            "of a mean TTFT of {} at {} the server knows of {}",
            Seconds(seen),
            users(near.load),
            Seconds(told)
        );
        return Some(Found::new(Network, Confidence::Medium, [evidence]));
    }
    // Nothing else keeps prompts waiting: each step takes as many of their tokens as it may.
    let held_up = queued && !pinned && !full && binding == Binding::First && server.kv_mean.is_some();
    if shares.prompts_take(if held_up { PREFILL_PART } else { PREFILL_SHARE }) {
        let mut evidence: Vec<String> = shares.words_of_prompts().into_iter().collect();
        if let Some(waiting) = server.waiting_mean.filter(|_| queued) {
            evidence.push(format!(
                "{} prompts wait although at most {} run and {}",
                count(waiting),
                count(server.running_max),
                server.kv_mean.map_or("no cap is reached".to_owned(), |kv| format!(
                    "the KV cache is {} full",
                    percent(kv)
                ))
            ));
        }
        return Some(Found::new(Prefill, Confidence::High, evidence));
    }
    None
}

/// The rules on the curves. The server's figures, where there are some, have excluded a queue for
/// memory or a cap by now.
fn by_curves(binding: Binding, near: &Level, shares: &Shares, server: Option<&ServerView>) -> Found {
    use BottleneckKind::{Decode, Prefill, Queue, Unknown};
    let sure = if server.is_some() { Confidence::High } else { Confidence::Medium };
    let queued = server.and_then(|server| server.waiting_share).is_some_and(|share| share >= OFTEN);
    let waits = shares.waited.is_some_and(|steps| steps > QUEUED_STEPS);
    if shares.prompts_take(if waits && binding == Binding::First { PREFILL_SURELY } else { PREFILL_SHARE }) {
        return Found::new(Prefill, sure, shares.words_of_prompts().into_iter().collect::<Vec<_>>());
    }
    let calm = server.and_then(|server| server.waiting_share).is_some_and(|share| share < OFTEN);
    let least = if calm && !shares.far { GROWN_NEARBY } else { GROWN };
    let grown = shares.growth.is_some_and(|growth| growth >= least);
    if waits {
        let steps = shares.waited.unwrap_or_default();
        let evidence = format!(
            "at {} a request waits {} for its first token, {} steps of the batch",
            users(near.load),
            Seconds(near.ttft.unwrap_or_default()),
            count(steps.round())
        );
        // Prompts may hold the queue up; and where the time of a token binds, the queue is not all.
        if shares.prompts_take(PREFILL_MAYBE) || (binding == Binding::Token && grown) {
            let more = if binding == Binding::Token {
                shares.words_of_growth(near)
            } else {
                shares.words_of_prompts()
            };
            let evidence: Vec<String> = std::iter::once(evidence).chain(more).collect();
            return Found::new(Unknown, Confidence::Low, evidence);
        }
        // The server's figures have shown neither a cap nor full memory: then it is something else.
        let told = server.is_some_and(|server| server.waiting_share.is_some());
        let kind = if told && !queued { Unknown } else { Queue };
        let confidence = if told { Confidence::Low } else { Confidence::Medium };
        return Found::new(kind, confidence, [evidence]);
    }
    if grown && (binding == Binding::Token || !queued) {
        let mut evidence: Vec<String> = shares.words_of_growth(near).into_iter().collect();
        let mut confidence = if shares.far { sure } else { Confidence::Medium };
        if let Some(server) = server
            && !queued
        {
            evidence.push(format!("{} run and next to none wait", count(server.running_max)));
        }
        if shares.prompts_take(PREFILL_PART) {
            evidence.extend(shares.words_of_prompts());
            confidence = Confidence::Medium;
        }
        return Found::new(Decode, confidence, evidence);
    }
    let missing = match (shares.far, near.token) {
        (false, _) => "no load far below the limit was measured to compare with",
        (_, None) => "the time of a token was not seen",
        _ => "neither a queue nor a longer step explains the latency",
    };
    Found::new(Unknown, Confidence::Low, [missing.to_owned()])
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A count or a mean of counts.
fn count(value: f64) -> String {
    if (value - value.round()).abs() < 0.05 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn users(load: f64) -> String {
    format!("{} concurrent", count(load))
}
