//! What the turns of conversations show: the first one, whose prompt nothing was computed of before, apart
//! from the later ones, whose history a prefix cache may hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::record::{Phase, RequestRecord};
use crate::metrics::Distribution;
use crate::slo::Turns;
use crate::stats::quantile::quantile;

/// Turns that are told one by one, at the most.
const TOLD: u32 = 24;

/// The conversations of one trial, over its measured requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionFigures {
    /// First turns.
    pub first: TurnFigures,
    /// All others.
    pub later: TurnFigures,
    /// Turn by turn, as far as there are requests and 24 turns at the most.
    pub by_turn: Vec<OneTurn>,
    /// Conversations that ended because their next turn would not have fitted the context.
    pub context_full: u32,
}

/// Some turns of all conversations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnFigures {
    /// Completed requests.
    pub requests: u32,
    /// Mean prompt length, tokens, with all that was said before.
    pub isl: f64,
    /// Time to first token, seconds; null without any.
    pub ttft: Option<Distribution>,
}

/// One turn of all conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneTurn {
    /// The turn, from 1.
    pub turn: u32,
    /// Completed requests.
    pub requests: u32,
    /// Mean prompt length, tokens.
    pub isl: f64,
    /// Median time to first token, seconds; null without any.
    pub ttft_p50: Option<f64>,
    /// Its 95th percentile, seconds.
    pub ttft_p95: Option<f64>,
}

impl SessionFigures {
    /// The figures of requests in the order in which they ended; none where none is a turn of a
    /// conversation.
    pub fn of(records: &[RequestRecord]) -> Option<Self> {
        let done = || {
            records.iter().filter(|record| {
                record.phase == Phase::Measured && record.turn.is_some() && record.is_completed()
            })
        };
        let last = done().filter_map(|record| record.turn).max()?;
        let by_turn = (1..=last.min(TOLD))
            .filter_map(|turn| OneTurn::of(turn, done().filter(|record| record.turn == Some(turn))));
        Some(Self {
            first: TurnFigures::of(done().filter(|record| Turns::First.hold(record.turn))),
            later: TurnFigures::of(done().filter(|record| Turns::Later.hold(record.turn))),
            by_turn: by_turn.collect(),
            context_full: done().filter(|record| record.context_full).count() as u32,
        })
    }
}

fn prompt(record: &RequestRecord) -> f64 {
    f64::from(record.isl_server.unwrap_or(record.isl))
}

impl TurnFigures {
    fn of<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> Self {
        let records: Vec<&RequestRecord> = records.collect();
        let ttfts: Vec<f64> = records.iter().filter_map(|record| record.ttft()).collect();
        let tokens: f64 = records.iter().map(|record| prompt(record)).sum();
        Self {
            requests: records.len() as u32,
            isl: tokens / records.len().max(1) as f64,
            ttft: Distribution::of(&ttfts),
        }
    }
}

impl OneTurn {
    fn of<'a>(turn: u32, records: impl Iterator<Item = &'a RequestRecord>) -> Option<Self> {
        let records: Vec<&RequestRecord> = records.collect();
        let mut ttfts: Vec<f64> = records.iter().filter_map(|record| record.ttft()).collect();
        ttfts.sort_unstable_by(f64::total_cmp);
        let at = |p| (!ttfts.is_empty()).then(|| quantile(&ttfts, p));
        (!records.is_empty()).then(|| Self {
            turn,
            requests: records.len() as u32,
            isl: records.iter().map(|record| prompt(record)).sum::<f64>() / records.len() as f64,
            ttft_p50: at(0.5),
            ttft_p95: at(0.95),
        })
    }
}
