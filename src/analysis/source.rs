//! Material from a run folder, or from trials that were just run.

use super::material::{Beside, Material, Trial};
use crate::loadgen::record::{Outcome, RequestRecord};
use crate::loadgen::session::{InFlight, LevelHistory};
use crate::plan::LoadRange;
use crate::run::{Contents, RunError};
use crate::search::TrialOutcome;
use crate::verdict::{Verdict, VoidReason};

/// Ends and sendings this close belong to one user's turn, seconds: the level did not move.
const TURN: f64 = 0.02;

/// A part of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Seconds on the run's clock between which requests must have ended; trials that reach beyond are cut.
    pub window: Option<(f64, f64)>,
    /// Numbers of the trials, as ranges with both ends; all where there is none.
    pub trials: Vec<(u32, u32)>,
}

impl Part {
    /// What is left of a trial; nothing where none of what it measured lies within.
    fn of(&self, outcome: &TrialOutcome) -> Option<TrialOutcome> {
        let named = |&(first, last): &(u32, u32)| (first..=last).contains(&outcome.id);
        if !self.trials.is_empty() && !self.trials.iter().any(named) {
            return None;
        }
        let (from, to) = self.window.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let (settled, ended) = (outcome.settled.max(from), outcome.ended.min(to));
        if settled >= ended {
            return None;
        }
        let mut left = TrialOutcome { settled, ended, ..outcome.clone() };
        if (left.settled, left.ended) != (outcome.settled, outcome.ended) {
            // What was seen beside the requests is of the whole trial.
            (left.server, left.host, left.gpu) = (None, None, None);
        }
        Some(left)
    }
}

impl Material {
    /// The trials of a run folder whose records are there.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn of_run(contents: &Contents) -> Result<Self, RunError> {
        Self::of_part(contents, &Part::default())
    }

    /// The trials of a part of a run, cut to it, whose records are there.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn of_part(contents: &Contents, part: &Part) -> Result<Self, RunError> {
        let mut records = Vec::new();
        contents.for_each_record(|record| records.push(record))?;
        let lost: Vec<u32> = contents.trials_without_records().collect();
        let outcomes: Vec<TrialOutcome> = contents
            .outcomes()
            .filter(|outcome| !lost.contains(&outcome.id))
            .filter_map(|outcome| part.of(outcome))
            .collect();
        let outcomes: Vec<&TrialOutcome> = outcomes.iter().collect();
        let mut material = Self::new(&outcomes, records, contents.plan.load);
        if contents.plan.workload.has_users() {
            // Who pauses leaves no trace in the requests: the users are those that were asked for.
            material.levels = LevelHistory::default();
            for outcome in outcomes {
                material.levels.push_load(outcome.began, outcome.spec.load);
            }
        }
        Ok(material)
    }

    /// Trials with all records of their run, those of requests that were cut off at its end too.
    pub fn new(outcomes: &[&TrialOutcome], mut records: Vec<RequestRecord>, range: LoadRange) -> Self {
        // A stable sort: requests that ended together stay in the order in which they were seen.
        records.sort_by(|a, b| a.ended.total_cmp(&b.ended));
        let levels = levels(&records);
        let trials = outcomes
            .iter()
            .map(|outcome| Trial {
                id: outcome.id,
                spec: outcome.spec.clone(),
                window: (outcome.began, outcome.settled, outcome.ended),
                records: records
                    .iter()
                    .filter(|record| record.trial == outcome.id && record.ended <= outcome.ended)
                    .filter(|record| !was_in_flight(record, outcome.id, outcome.ended))
                    .cloned()
                    .collect(),
                pending: pending(&records, outcome.id, outcome.ended),
                void: match &outcome.verdict {
                    Verdict::Void(reason @ VoidReason::Client { .. }) => Some(reason.clone()),
                    _ => None,
                },
                issued_total: outcome.issued_total,
                beside: Beside { server: outcome.server, host: outcome.host, gpu: outcome.gpu },
            })
            .collect();
        Self { trials, levels, range }
    }
}

/// The number of requests in flight over time. In a closed loop each end is followed at once by the
/// next request of the same user: such a pair is no step.
pub(crate) fn levels(records: &[RequestRecord]) -> LevelHistory {
    let mut ends: Vec<f64> = records.iter().map(|record| record.ended).collect();
    let mut sent: Vec<f64> = records.iter().map(|record| record.sent).collect();
    ends.sort_unstable_by(f64::total_cmp);
    sent.sort_unstable_by(f64::total_cmp);
    let mut steps: Vec<(f64, i64)> = Vec::new();
    let mut next = 0;
    for end in ends {
        while next < sent.len() && sent[next] < end {
            steps.push((sent[next], 1));
            next += 1;
        }
        if next < sent.len() && sent[next] <= end + TURN {
            next += 1;
        } else {
            steps.push((end, -1));
        }
    }
    steps.extend(sent[next.min(sent.len())..].iter().map(|&at| (at, 1)));
    let mut levels = LevelHistory::default();
    let mut users = 0_i64;
    for (at, change) in steps {
        users += change;
        levels.push(at, users.max(0) as u32);
    }
    levels
}

/// The requests in flight at a trial's end.
fn pending(records: &[RequestRecord], trial: u32, at: f64) -> Vec<InFlight> {
    let first = records.partition_point(|record| record.ended < at);
    records[first..]
        .iter()
        .filter(|record| record.sent <= at && was_in_flight(record, trial, at))
        .map(|record| {
            let first = record.first.filter(|&first| first <= at);
            let (tokens, latest) = first.map_or((0, None), |first| received(record, first, at));
            let RequestRecord { id, scheduled, sent, turn, .. } = *record;
            InFlight { id, scheduled, sent, first, latest, tokens, turn }
        })
        .collect()
}

/// Whether a request that ended no earlier than the trial was in flight when it ended. One that was let
/// go at that very instant was: the next trial, or the end of the load, cut it off.
fn was_in_flight(record: &RequestRecord, trial: u32, at: f64) -> bool {
    let cut_off = matches!(record.outcome, Outcome::Censored | Outcome::Cancelled);
    record.ended > at || (record.ended == at && (record.trial > trial || cut_off))
}

/// Tokens received by an instant, and when the latest of them came.
fn received(record: &RequestRecord, first: f64, at: f64) -> (u32, Option<f64>) {
    let tokens_of = |chunk: usize| record.chunk_tokens.get(chunk).copied().unwrap_or(1);
    if record.gaps_us.is_empty() {
        // Without the gaps the pace of the whole request stands for that of its part.
        return match record.tpot().filter(|&tpot| tpot > 0.0) {
            Some(tpot) => {
                let further = ((at - first) / tpot).floor().max(0.0);
                (1 + further as u32, Some(first + further * tpot))
            }
            None => (1, Some(first)),
        };
    }
    let (mut tokens, mut latest) = (tokens_of(0), first);
    for (chunk, &gap) in record.gaps_us.iter().enumerate() {
        let next = latest + f64::from(gap) * 1e-6;
        if next > at {
            break;
        }
        latest = next;
        tokens += tokens_of(chunk + 1);
    }
    (tokens, Some(latest))
}
