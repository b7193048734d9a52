//! What a workload would send: lengths, arrivals, shared prefixes, samples of prompts.

mod growth;
mod screen;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{DatasetFormat, WorkloadPlan};
use crate::stats::quantile::quantile;
use crate::workload::RequestSpec;
use crate::workload::dataset::Dataset;

pub use screen::screen;

/// Version of [`TrafficDocument`]'s schema.
pub const TRAFFIC_VERSION: u32 = 1;
/// Bars of a histogram.
const BINS: usize = 12;
/// Window over which the busiest time of a trace is looked for, seconds.
const BUSY: f64 = 60.0;

/// What a workload would send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficDocument {
    /// Version of this schema.
    pub schema_version: u32,
    /// What is sent, in a line.
    pub workload: String,
    /// Requests that were looked at.
    pub requests: u64,
    /// Prompt lengths, tokens.
    pub isl: LengthFigures,
    /// Output lengths, tokens.
    pub osl: LengthFigures,
    /// Correlation of prompt and output lengths (Pearson's); none where one of them does not vary.
    pub correlation: Option<f64>,
    /// Share of the prompts' tokens that stand in prefixes of other prompts too.
    pub shared_prefix_share: f64,
    /// When the entries of a trace came.
    pub arrivals: Option<TraceFigures>,
    /// The file that the requests are taken from.
    pub dataset: Option<DatasetFigures>,
    /// The conversations; null where requests stand alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversations: Option<ConversationFigures>,
    /// How long a user pauses after each answer; null where nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkFigures>,
    /// The first prompts.
    pub samples: Vec<Sample>,
}

/// Conversations, with answers as long as asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationFigures {
    /// Turns that were looked at.
    pub turns: u64,
    /// Turns of a conversation.
    pub turns_each: LengthFigures,
    /// Length of each message of a user, tokens.
    pub message: LengthFigures,
    /// Turn by turn, as far as there are any and 24 at the most.
    pub by_turn: Vec<TurnGrowth>,
    /// Share of all prompts' tokens that were part of the turn before or of its answer: what a prefix cache
    /// can spare that keeps each conversation.
    pub history_share: f64,
    /// Conversations that end before their last turn, for want of context.
    pub cut_by_context: u64,
    /// Tokens that a conversation may reach, where the plan bounds it.
    pub max_context: Option<u32>,
}

/// The prompts of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnGrowth {
    /// The turn, from 1.
    pub turn: u32,
    /// Conversations that have it.
    pub count: u64,
    /// Mean prompt length, tokens.
    pub isl: f64,
    /// Share of its prompts' tokens that were said before.
    pub history_share: f64,
}

/// Pauses after answers, seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThinkFigures {
    /// The distribution as written.
    pub written: String,
    /// Its mean.
    pub mean: f64,
}

/// A distribution of lengths, tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LengthFigures {
    /// Arithmetic mean.
    pub mean: f64,
    /// Shortest.
    pub min: u32,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: u32,
    /// Counts within bounds that are evenly spaced on the log scale.
    pub histogram: Vec<Bin>,
}

/// A bar of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bin {
    /// Shortest length in it, tokens.
    pub from: u32,
    /// Longest length in it, tokens.
    pub to: u32,
    /// Requests.
    pub count: u64,
}

/// Arrivals of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceFigures {
    /// From the first to the last, seconds.
    pub seconds: f64,
    /// Mean rate, requests a second.
    pub mean_rate: f64,
    /// Mean rate in the busiest minute, requests a second; none for a trace that is shorter.
    pub busiest_minute_rate: Option<f64>,
    /// Coefficient of variation of the gaps: 1 for Poisson's arrivals, more for bursts.
    pub gap_cv: f64,
}

/// A file of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetFigures {
    /// Its path.
    pub path: String,
    /// What it holds.
    pub format: DatasetFormat,
    /// Entries that can be sent.
    pub entries: u64,
    /// Entries that tell an output length.
    pub with_osl: u64,
    /// Entries without a question or without tokens.
    pub left_out: u64,
    /// Entries that cannot be read.
    pub malformed: u64,
    /// The first of these: line and what is wrong.
    pub malformed_shown: Vec<(u64, String)>,
    /// Whether lengths were estimated from words: the file holds texts, and no tokenizer was at hand.
    pub lengths_estimated: bool,
}

/// One prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the request.
    pub id: u64,
    /// Prompt length, tokens.
    pub isl: u32,
    /// Output length, tokens.
    pub osl: u32,
    /// The prompt.
    pub prompt: String,
}

impl TrafficDocument {
    /// Looks at requests of a workload; the first `samples` are shown. `counted` says whether a tokenizer
    /// was at hand.
    pub fn of(
        plan: &WorkloadPlan,
        dataset: Option<&Dataset>,
        requests: impl Iterator<Item = RequestSpec>,
        samples: usize,
        counted: bool,
    ) -> Self {
        let (mut isl, mut osl, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        let mut growth = growth::Growth::new(plan);
        for request in requests {
            match request.conversation.as_deref() {
                Some(conversation) => growth.add(conversation, &mut isl, &mut osl),
                None => {
                    isl.push(request.isl);
                    osl.push(request.osl);
                }
            }
            if shown.len() < samples {
                let RequestSpec { id, prompt, isl, osl, .. } = request;
                shown.push(Sample { id, isl, osl, prompt });
            }
        }
        let correlation = correlation(&isl, &osl);
        let mean_isl = isl.iter().copied().map(f64::from).sum::<f64>() / isl.len().max(1) as f64;
        let shared_prefix_share = match dataset {
            Some(dataset) => {
                let (blocks, known) = dataset.findings().blocks;
                known as f64 / blocks.max(1) as f64
            }
            None => plan.prefixes.shared_mean() / mean_isl.max(1.0),
        };
        Self {
            schema_version: TRAFFIC_VERSION,
            workload: in_words(plan),
            requests: isl.len() as u64,
            isl: LengthFigures::of(isl),
            osl: LengthFigures::of(osl),
            correlation,
            shared_prefix_share,
            arrivals: dataset.and_then(|dataset| TraceFigures::of(&dataset.times().ok()?)),
            dataset: dataset.map(|dataset| DatasetFigures::of(dataset, counted)),
            conversations: growth.figures(),
            think: plan.think.map(|think| ThinkFigures { written: think.to_string(), mean: think.mean() }),
            samples: shown,
        }
    }

    /// The document as JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn in_words(plan: &WorkloadPlan) -> String {
    if let Some(source) = &plan.source {
        return match &plan.sessions {
            Some(sessions) if sessions.as_recorded => format!("the conversations of {}", source.path),
            Some(sessions) => {
                format!("the conversations of {}, of {} turns at the most", source.path, sessions.turns)
            }
            None => format!("the requests of {}", source.path),
        };
    }
    let mut text = if plan.classes.is_empty() {
        format!("ISL {}, OSL {}", plan.isl, plan.osl)
    } else {
        let total: f64 = plan.classes.iter().map(|class| class.weight).sum();
        let class = |class: &crate::plan::ClassPlan| {
            format!("{:.0}% ISL {}, OSL {}", 100.0 * class.weight / total, class.isl, class.osl)
        };
        plan.classes.iter().map(class).collect::<Vec<_>>().join("; ")
    };
    if plan.prefixes.shared_tokens > 0 {
        text.push_str(&format!("; {} tokens shared by all", plan.prefixes.shared_tokens));
    }
    if let Some(pool) = plan.prefixes.pool {
        let share = 100.0 * pool.hit_rate;
        text.push_str(&format!("; {} prefixes of {} tokens, hit by {share:.0}%", pool.count, pool.tokens));
    }
    if let Some(sessions) = &plan.sessions {
        text.push_str(&format!("; conversations of {} turns", sessions.in_words()));
    }
    text
}

impl LengthFigures {
    fn of(mut lengths: Vec<u32>) -> Self {
        lengths.sort_unstable();
        let (Some(&min), Some(&max)) = (lengths.first(), lengths.last()) else { return Self::default() };
        let sorted: Vec<f64> = lengths.iter().copied().map(f64::from).collect();
        Self {
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            min,
            p50: quantile(&sorted, 0.5),
            p90: quantile(&sorted, 0.9),
            p95: quantile(&sorted, 0.95),
            p99: quantile(&sorted, 0.99),
            max,
            histogram: histogram(&lengths, min.max(1), max.max(1)),
        }
    }
}

/// Bars between the ends, each as many times longer than the one before; of a narrow range fewer.
fn histogram(sorted: &[u32], min: u32, max: u32) -> Vec<Bin> {
    let growth = f64::from(max) / f64::from(min);
    let mut bins: Vec<Bin> = Vec::new();
    let mut from = min;
    for index in 1..=BINS {
        let to = if index == BINS {
            max
        } else {
            (f64::from(min) * growth.powf(index as f64 / BINS as f64)).floor() as u32
        };
        if to < from {
            continue;
        }
        let below = sorted.partition_point(|&length| length < from);
        let count = sorted.partition_point(|&length| length <= to) - below;
        bins.push(Bin { from, to, count: count as u64 });
        from = to + 1;
    }
    bins
}

fn correlation(a: &[u32], b: &[u32]) -> Option<f64> {
    let n = a.len() as f64;
    let mean = |values: &[u32]| values.iter().copied().map(f64::from).sum::<f64>() / n;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (&a, &b) in a.iter().zip(b) {
        let (a, b) = (f64::from(a) - mean_a, f64::from(b) - mean_b);
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

impl TraceFigures {
    fn of(times: &[f64]) -> Option<Self> {
        let (&first, &last) = (times.first()?, times.last()?);
        let seconds = last - first;
        if seconds <= 0.0 {
            return None;
        }
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = seconds / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let (mut end, mut most) = (0, 0);
        for (begin, &at) in times.iter().enumerate() {
            while times.get(end).is_some_and(|&other| other < at + BUSY) {
                end += 1;
            }
            most = most.max(end - begin);
        }
        Some(Self {
            seconds,
            mean_rate: times.len() as f64 / last.max(1e-9),
            busiest_minute_rate: (seconds >= BUSY).then_some(most as f64 / BUSY),
            gap_cv: variance.sqrt() / mean,
        })
    }
}

impl DatasetFigures {
    fn of(dataset: &Dataset, counted: bool) -> Self {
        let findings = dataset.findings();
        Self {
            path: dataset.path().to_owned(),
            format: dataset.format(),
            entries: dataset.len() as u64,
            with_osl: findings.with_osl,
            left_out: findings.left_out,
            malformed: findings.malformed,
            malformed_shown: findings.shown.clone(),
            lengths_estimated: findings.has_texts && !counted,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::plan::{Lengths, PrefixPlan};
    use crate::workload::Workload;

    fn document(plan: &WorkloadPlan) -> TrafficDocument {
        TrafficDocument::of(plan, None, Workload::lengths_only(plan, 1).take(5000), 0, false)
    }

    #[test]
    fn a_histogram_holds_every_request_once() {
        for lengths in [
            Lengths::Uniform { min: 1, max: 5 },
            Lengths::Fixed { tokens: 64 },
            Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 4, max: 2400 },
        ] {
            let document = document(&WorkloadPlan::of(lengths, Lengths::Fixed { tokens: 9 }));
            for figures in [&document.isl, &document.osl] {
                assert_eq!(figures.histogram.iter().map(|bin| bin.count).sum::<u64>(), 5000);
                assert!(figures.histogram.windows(2).all(|pair| pair[0].to + 1 == pair[1].from));
            }
        }
    }

    #[test]
    fn the_shared_share_is_that_of_the_prompts_tokens() {
        let mut plan = WorkloadPlan::of(Lengths::Fixed { tokens: 500 }, Lengths::Fixed { tokens: 9 });
        plan.prefixes = PrefixPlan { shared_tokens: 500, pool: None };
        let document = document(&plan);
        assert_eq!((document.isl.mean, document.shared_prefix_share), (1000.0, 0.5));
        assert_eq!(document.correlation, None);
    }

    #[test]
    fn the_busiest_minute_of_a_trace_is_found() {
        let times: Vec<f64> =
            (0..100).map(f64::from).chain((0..30).map(|i| 100.0 + f64::from(i) / 30.0)).collect();
        let figures = TraceFigures::of(&times).unwrap();
        // 59 of the even ones and the 30 of the burst.
        assert_eq!(figures.busiest_minute_rate, Some(89.0 / 60.0));
        assert!(figures.gap_cv > 0.3);
    }
}
