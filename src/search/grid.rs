//! Given levels, each measured once, from the lowest up.
//!
//! A grid assumes nothing of the curve and leaves no level out: it shows a dip where a search that
//! follows the boundary passes it by.

use crate::plan::{LoadRange, TrialPlan};
use crate::search::answer::{Answer, SearchOutcome};
use crate::search::evidence::{self, Evidence, level_of, list};
use crate::search::trial::{Ask, TrialKind, TrialOutcome};
use crate::search::{Strategy, trial::TrialSpec};
use crate::slo::Slo;
use crate::verdict::Verdict;

/// Levels about evenly spaced on the log scale.
const DEFAULT: [u32; 8] = [1, 3, 7, 19, 52, 139, 373, 1000];

/// The grid for a range of loads: its ends, and the log-spaced default levels between them.
pub fn default_levels(range: LoadRange) -> Vec<u32> {
    let inside = DEFAULT.into_iter().filter(|level| (range.min..=range.max).contains(level));
    sorted([range.min, range.max].into_iter().chain(inside))
}

fn sorted(levels: impl Iterator<Item = u32>) -> Vec<u32> {
    let levels: std::collections::BTreeSet<u32> = levels.collect();
    levels.into_iter().collect()
}

/// Measures each level of a grid.
#[derive(Clone, Debug)]
pub struct Grid {
    slo: Slo,
    plan: TrialPlan,
    levels: Vec<u32>,
    left_out: Vec<u32>,
    evidence: Evidence,
    warm: bool,
    /// Index of the level that is measured next.
    next: usize,
    voids: u32,
    reruns: u32,
    void: Vec<(u32, String)>,
    last: Option<(u32, f64)>,
    stopped: bool,
    /// Nothing is warmed up and nothing measured again.
    once: bool,
}

impl Grid {
    /// A grid of `levels`, in any order. Levels outside `range` are never sent; the answer names them.
    pub fn new(slo: Slo, range: LoadRange, levels: &[u32], plan: TrialPlan) -> Self {
        let (inside, outside): (Vec<u32>, Vec<u32>) =
            levels.iter().partition(|level| (range.min..=range.max).contains(level));
        Self {
            evidence: Evidence::new(slo.clone()),
            slo,
            plan,
            levels: sorted(inside.into_iter()),
            left_out: sorted(outside.into_iter()),
            warm: false,
            next: 0,
            voids: 0,
            reruns: 0,
            void: Vec::new(),
            last: None,
            stopped: false,
            once: false,
        }
    }

    /// The same on a server that is warm already.
    #[must_use]
    pub fn warmed(self) -> Self {
        Self { warm: true, ..self }
    }

    /// The same without a warm-up, and each level exactly once: a curve of rates or a trace is a load of
    /// its own, from its first request on.
    #[must_use]
    pub fn once(self) -> Self {
        Self { once: true, warm: true, ..self }
    }

    fn advance(&mut self) {
        (self.voids, self.reruns) = (0, 0);
        self.next += 1;
    }

    fn trial(&self) -> Option<TrialSpec> {
        let &level = self.levels.get(self.next)?;
        if !self.warm {
            return Some(evidence::warm_up(self.levels[0], self.levels[self.levels.len() - 1]));
        }
        Some(evidence::fixed_trial(&self.slo, &self.plan, level, 1 << self.reruns, self.last))
    }
}

impl Strategy for Grid {
    fn ask(&mut self) -> Ask {
        if self.stopped {
            return Ask::Done;
        }
        self.trial().map_or(Ask::Done, Ask::Trial)
    }

    fn tell(&mut self, outcome: &TrialOutcome) {
        if outcome.spec.kind == TrialKind::Warmup {
            self.warm = true;
            return;
        }
        let level = level_of(outcome.spec.load);
        self.last = Some((level, evidence::worst_margin(outcome)));
        self.evidence.add(outcome);
        match &outcome.verdict {
            Verdict::Void(_) if !self.once && self.voids < evidence::RETRIES => self.voids += 1,
            Verdict::Void(reason) => {
                self.void.push((level, reason.to_string()));
                self.advance();
            }
            Verdict::Undecided if !self.once && self.reruns < evidence::RERUNS => {
                self.voids = 0;
                self.reruns += 1;
            }
            _ => self.advance(),
        }
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn answer(&self) -> Answer {
        let (largest_met, smallest_missed) = self.evidence.seen_bracket();
        // Below the first miss: what was met above it is named, not promised.
        let met = match smallest_missed {
            Some(missed) => self.evidence.largest_met_up_to(missed),
            None => largest_met,
        };
        let outcome = match (met, smallest_missed) {
            _ if self.next < self.levels.len() => SearchOutcome::Interrupted,
            (Some(_), Some(_)) => SearchOutcome::Found,
            (Some(_), None) => SearchOutcome::MetAtHighest,
            (None, Some(missed)) if self.levels.first() == Some(&missed) => SearchOutcome::MissedAtLowest,
            (None, _) => SearchOutcome::Void,
        };
        let mut answer = self.evidence.answer(outcome, met, smallest_missed);
        for (level, reason) in &self.void {
            answer.notes.push(format!("no valid measurement at {level} concurrent: {reason}"));
        }
        if !self.left_out.is_empty() {
            answer.notes.push(format!("levels outside the range were left out: {}", list(&self.left_out)));
        }
        answer
    }

    fn remaining(&self) -> u32 {
        (self.levels.len() - self.next) as u32 + u32::from(!self.warm)
    }
}
