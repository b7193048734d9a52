//! What a search holds against its own answer: a server that has become another one, and a fit without
//! a model that puts the boundary elsewhere.

use super::drift::{self, Pace};
use super::posterior::Crossing;
use super::{Adaptive, NEAR_ENOUGH};
use crate::search::trial::{TrialKind, TrialOutcome};

/// Trials whose pace is kept: fewer requests tell little of it.
const LEAST_REQUESTS: u32 = 40;
/// Times that a search begins its measurement anew; a server that goes on changing has no capacity.
const RESTARTS: usize = 2;
/// Measuring trials that are added where the two fits disagree.
const MORE: usize = 4;

impl Adaptive {
    /// Takes in the pace of a measuring trial. Where it shows that the server has become another one,
    /// what was measured before counts no more.
    pub(super) fn watch_pace(&mut self, outcome: &TrialOutcome) {
        let Some(time) = outcome.token_time else { return };
        if outcome.spec.kind == TrialKind::Navigate || outcome.counts.completed < LEAST_REQUESTS {
            return;
        }
        self.paces.push(Pace {
            at: outcome.settled,
            log_load: outcome.spec.load.value().max(1.0).ln(),
            log_time: time.ln(),
        });
        let Some(step) = drift::step(&self.paces) else { return };
        let began_anew = self.steps.len() < RESTARTS;
        self.steps.push((step, began_anew));
        self.paces.retain(|pace| pace.at >= step.at);
        if began_anew {
            self.evidence.forget_before(step.at);
            self.outcomes.retain(|point| point.at >= step.at);
            self.plain.forget();
            self.crossing = None;
            self.look_at = self.settings.least_trials;
            self.measured_more = false;
        }
    }

    /// Whether the isotonic fit puts the boundary outside the interval, beyond what the two methods
    /// differ by anyway; its crossing then.
    pub(super) fn disagreement(&self, crossing: &Crossing) -> Option<f64> {
        let (_, at) = self.plain.fit().crossing()?;
        let (low, high) = crossing.interval(self.settings.confidence);
        (at < low - NEAR_ENOUGH || at > high + NEAR_ENOUGH).then_some(at)
    }

    /// Puts off the end of the measurement once, where the fits disagree.
    pub(super) fn measures_more(&mut self, crossing: &Crossing) -> bool {
        if self.measured_more || self.disagreement(crossing).is_none() {
            return false;
        }
        self.measured_more = true;
        self.look_at = self.evidence.trials() + MORE;
        true
    }

    /// The doubts in words.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .steps
            .iter()
            .map(|(step, began_anew)| {
                let change = (step.change.exp() - 1.0) * 100.0;
                let word = if change > 0.0 { "slower" } else { "faster" };
                let then = if *began_anew {
                    "what was measured before does not count in the answer"
                } else {
                    "it changes too often for one answer: measure it when it is left alone"
                };
                format!(
                    "the server became {:.0} % {word} about {:.0} s into the run (drift): {then}",
                    change.abs(),
                    step.at
                )
            })
            .collect();
        if let Some(at) = self.crossing.as_ref().and_then(|crossing| self.disagreement(crossing)) {
            let apart = self.crossing.as_ref().map_or(0.0, |crossing| at - crossing.quantile(0.5));
            notes.push(format!(
                "an isotonic fit of the same trials puts the boundary {:.0} % {}, outside the interval: the curve does \
                 not have the shape that the estimate assumes",
                apart.exp_m1().abs() * 100.0,
                if apart > 0.0 { "higher" } else { "lower" }
            ));
        }
        notes
    }
}
