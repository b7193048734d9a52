//! Doubling until the SLO is missed, then probes at the interpolated crossing until the bracket is
//! narrow.
//!
//! All trials are of a fixed size and all of them count: each objective's margin is fitted over
//! `ln load` by isotonic regression, and the fit, not the last verdict, says where the bracket lies.
//! The ends of the last bracket are measured twice where they are close to the threshold, as one
//! unlucky trial on the way up would otherwise decide the answer.

use crate::plan::{LoadRange, TrialPlan};
use crate::search::Strategy;
use crate::search::answer::{Answer, SearchOutcome};
use crate::search::evidence::{self, Evidence, Fit, level_of};
use crate::search::trial::{Ask, TrialKind, TrialOutcome};
use crate::slo::Slo;
use crate::verdict::Verdict;

/// Margin (log scale) below which an end of the last bracket is measured a second time.
const CLOSE: f64 = 0.25;
/// Trials of a search at the most; a server so restless that they do not do has no crossing.
const MOST_TRIALS: u32 = 64;

/// Ends the note that names the ends of the last bracket.
pub(crate) const BRACKET: &str = "is the bracket that was measured, not an interval with a stated confidence";

/// A search by bracket, isotonic regression and interpolation.
#[derive(Clone, Debug)]
pub struct Bisect {
    slo: Slo,
    range: LoadRange,
    plan: TrialPlan,
    precision: f64,
    evidence: Evidence,
    warm: bool,
    trials: u32,
    /// Void trials in a row.
    voids: u32,
    void: Option<String>,
    /// The level whose samples did not tell, and how often it was measured again for it.
    undecided: Option<(u32, u32)>,
    /// Width of the bracket (log scale) when the crossing was probed last.
    probed: Option<f64>,
    last: Option<(u32, f64)>,
    stopped: bool,
}

/// What a search does next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Measure(u32),
    Done,
}

impl Bisect {
    /// A search within `range` that ends when the bracket is narrower than `precision`, relative to
    /// its upper end.
    pub fn new(slo: Slo, range: LoadRange, precision: f64, plan: TrialPlan) -> Self {
        Self {
            evidence: Evidence::new(slo.clone()),
            slo,
            range,
            plan,
            precision: precision.clamp(0.0, 0.5),
            warm: false,
            trials: 0,
            voids: 0,
            void: None,
            undecided: None,
            probed: None,
            last: None,
            stopped: false,
        }
    }

    fn step(&self) -> Step {
        let fit = self.evidence.fit();
        let (met, missed) = fit.bracket();
        if self.trials >= MOST_TRIALS {
            return Step::Done;
        }
        if let Some((level, reruns)) = self.undecided
            && reruns <= evidence::RERUNS
        {
            return Step::Measure(level);
        }
        let more = match (met, missed) {
            (None, None) => Some(self.range.min),
            (None, Some(missed)) => self.confirm(&fit, missed),
            (Some(met), None) if met < self.range.max => Some(met.saturating_mul(2).min(self.range.max)),
            (Some(met), None) => self.confirm(&fit, met),
            (Some(met), Some(missed)) if self.is_narrow(met, missed) => {
                self.confirm(&fit, met).or_else(|| self.confirm(&fit, missed))
            }
            (Some(met), Some(missed)) => Some(self.probe(&fit, met, missed)),
        };
        more.map_or(Step::Done, Step::Measure)
    }

    fn is_narrow(&self, met: u32, missed: u32) -> bool {
        missed - met <= 1 || f64::from(missed - met) < self.precision * f64::from(missed)
    }

    /// The level itself where it was measured only once and lies close to the threshold.
    fn confirm(&self, fit: &Fit, level: u32) -> Option<u32> {
        let close = fit.margin(level).is_some_and(|margin| margin.abs() < CLOSE);
        (close && self.evidence.trials_at(level) < 2).then_some(level)
    }

    /// The level to measure inside a bracket that is still wide.
    fn probe(&self, fit: &Fit, met: u32, missed: u32) -> u32 {
        let (inner_low, inner_high) = (met + 1, missed - 1);
        let middle = (f64::from(met) * f64::from(missed)).sqrt().round() as u32;
        // Interpolation that did not halve the bracket is no guide here (a cliff): halve it.
        let shrinks = self.probed.is_none_or(|before| width(met, missed) <= 0.5 * before + 1e-9);
        let crossing = fit.crossing().filter(|_| shrinks);
        let level = match crossing {
            None => middle,
            Some((_, at)) => {
                let at = at.exp();
                // Beside an end, the step is as long as the bracket may be: one probe can then end it.
                let beside_met = (f64::from(met) / (1.0 - self.precision)).ceil() as u32 - 1;
                let beside_missed = (f64::from(missed) * (1.0 - self.precision)).floor() as u32 + 1;
                let near = 0.5 * self.precision * at;
                if at - f64::from(met) < near {
                    beside_met
                } else if f64::from(missed) - at < near {
                    beside_missed
                } else {
                    at as u32
                }
            }
        };
        level.clamp(inner_low, inner_high)
    }
}

/// Width of a bracket on the log scale.
fn width(met: u32, missed: u32) -> f64 {
    evidence::log(missed) - evidence::log(met)
}

impl Strategy for Bisect {
    fn ask(&mut self) -> Ask {
        if self.stopped || self.void.is_some() {
            return Ask::Done;
        }
        if !self.warm {
            return Ask::Trial(evidence::warm_up(self.range.min, self.range.max));
        }
        match self.step() {
            Step::Measure(level) => {
                let factor = 1 << self.undecided.map_or(0, |(_, reruns)| reruns);
                Ask::Trial(evidence::fixed_trial(&self.slo, &self.plan, level, factor, self.last))
            }
            Step::Done => Ask::Done,
        }
    }

    fn tell(&mut self, outcome: &TrialOutcome) {
        if outcome.spec.kind == TrialKind::Warmup {
            self.warm = true;
            return;
        }
        let level = level_of(outcome.spec.load);
        if let Verdict::Void(reason) = &outcome.verdict {
            self.voids += 1;
            if self.voids > evidence::RETRIES {
                self.void = Some(format!("no valid measurement at {level} concurrent: {reason}"));
            }
            return;
        }
        self.voids = 0;
        self.trials += 1;
        self.last = Some((level, evidence::worst_margin(outcome)));
        if let (Some(met), Some(missed)) = self.evidence.fit().bracket() {
            // Every other probe inside a bracket may be interpolated; those that halve keep no note.
            let halved = self.probed.is_some_and(|before| width(met, missed) > 0.5 * before + 1e-9);
            self.probed = (!halved).then(|| width(met, missed));
        }
        self.evidence.add(outcome);
        self.undecided = match (&outcome.verdict, self.undecided) {
            (Verdict::Undecided, Some((before, reruns))) if before == level => {
                (reruns < evidence::RERUNS).then_some((level, reruns + 1))
            }
            (Verdict::Undecided, _) => Some((level, 1)),
            _ => None,
        };
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn answer(&self) -> Answer {
        let (met, missed) = self.evidence.fit().bracket();
        let done = self.warm && self.step() == Step::Done;
        // The answer is the fit's, but never at a level whose samples did not tell.
        let judged = |level: &u32| self.evidence.own_verdict(*level).is_some();
        let met =
            met.and_then(|met| Some(met).filter(judged).or_else(|| self.evidence.largest_met_up_to(met)));
        let outcome = match (met, missed) {
            _ if self.void.is_some() => SearchOutcome::Void,
            _ if !done => SearchOutcome::Interrupted,
            (Some(_), Some(_)) => SearchOutcome::Found,
            (Some(_), None) => SearchOutcome::MetAtHighest,
            (None, Some(missed)) if missed == self.range.min => SearchOutcome::MissedAtLowest,
            (None, _) => SearchOutcome::Void,
        };
        let mut answer = match outcome {
            SearchOutcome::Void => self.evidence.answer(outcome, None, None),
            _ => self.evidence.answer(outcome, met, missed),
        };
        if let (SearchOutcome::Found, Some(met), Some(missed)) = (outcome, met, missed) {
            answer.notes.push(format!("{met} to {missed} concurrent {BRACKET}"));
            if self.trials >= MOST_TRIALS {
                answer.notes.push(format!(
                    "the bracket was not narrow after {MOST_TRIALS} trials: the server's latency changes too much from \
                     trial to trial; use more requests a trial"
                ));
            }
        }
        answer.notes.extend(self.void.clone());
        answer
    }

    fn remaining(&self) -> u32 {
        if self.void.is_some() || self.step() == Step::Done {
            return 0;
        }
        let warm_up = u32::from(!self.warm);
        let halvings = |width: f64| (width / self.precision.max(1e-3)).log2().ceil().max(0.0) as u32;
        let (met, missed) = self.evidence.fit().bracket();
        let rest = match (met, missed) {
            // Half of the doublings that are left, and the way back between two of them.
            (met, None) => {
                let lowest = met.unwrap_or(self.range.min);
                let doublings = (evidence::log(self.range.max) - evidence::log(lowest)) / 2_f64.ln();
                if met == Some(self.range.max) {
                    0
                } else {
                    (doublings / 2.0).ceil() as u32 + halvings(2_f64.ln()) / 2
                }
            }
            (None, Some(_)) => 0,
            (Some(met), Some(missed)) if self.is_narrow(met, missed) => 0,
            (Some(met), Some(missed)) => halvings(width(met, missed)).min(missed - met),
        };
        // At least the one that is asked for.
        warm_up + rest.max(1)
    }
}
