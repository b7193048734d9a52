//! Whether a server still carries what it carried: trials around the baseline's capacity until
//! [`crate::stats::sequential`] decides.
//!
//! The posterior of the present capacity is fitted over the noise between trials, not only within
//! them, so the test's rates of error are those of the trials themselves.

use crate::plan::{Budget, LoadRange};
use crate::rng::Stream;
use crate::search::Strategy;
use crate::search::adaptive::navigation::users;
use crate::search::adaptive::posterior::{Crossing, Evidence};
use crate::search::adaptive::settings::{SETTLE, Settings};
use crate::search::answer::{Answer, SearchOutcome};
use crate::search::judge::judge;
use crate::search::trial::{Ask, Settle, StopRule, TrialKind, TrialOutcome, TrialSpec};
use crate::search::windows;
use crate::slo::Slo;
use crate::stats::sequential::{GateDecision, GateTest, Known};
use crate::stats::special::normal_quantile;
use crate::units::Load;
use crate::verdict::Verdict;

/// Trials before the first look: fewer show little of the noise between them.
const FIRST_LOOK: usize = 4;
/// Most trials.
const MOST_TRIALS: usize = 60;
/// Void trials in a row after which the gate gives up.
const VOIDS: u32 = 3;
/// Smallest sd of a capacity (log scale): a boundary lies between whole users.
const LEAST_SD: f64 = 0.004;
/// Margin (log scale) of a trial that was an overload, to be left by cancelling requests.
const OVERLOAD: f64 = 0.7;

/// What a posterior knows of the capacity.
pub fn known(crossing: &Crossing) -> Known {
    let settings = Settings::new(LoadRange { min: 1, max: 1 }, 0.0, 0);
    let mass = if crossing.counted { settings.mass.0 } else { settings.mass.1 };
    let (low, high) = crossing.interval(mass);
    let log_sd = (high - low) / (2.0 * normal_quantile(0.5 + settings.confidence / 2.0));
    Known { capacity: crossing.quantile(0.5).exp(), log_sd: log_sd.max(LEAST_SD) }
}

/// Trials of a fixed size around the baseline's capacity until the test decides.
#[derive(Clone, Debug)]
pub struct Gate {
    slo: Slo,
    range: LoadRange,
    budget: Budget,
    test: GateTest,
    settings: Settings,
    evidence: Evidence,
    crossing: Option<Crossing>,
    outcomes: Vec<TrialOutcome>,
    placement: Stream,
    side: f64,
    next: u32,
    look_at: usize,
    void_in_a_row: u32,
    asked: Option<TrialSpec>,
    done: bool,
}

impl Gate {
    /// A gate around the baseline of `test`.
    pub fn new(slo: Slo, range: LoadRange, test: GateTest, budget: Budget, seed: u64) -> Self {
        let settings = Settings::new(range, 0.0, seed);
        let next = (test.baseline.capacity.round() as u32).clamp(range.min, range.max);
        Self {
            evidence: Evidence::new(&slo, &settings),
            placement: Stream::new(seed, "gate"),
            crossing: None,
            outcomes: Vec::new(),
            side: 1.0,
            look_at: FIRST_LOOK,
            void_in_a_row: 0,
            asked: None,
            done: false,
            slo,
            range,
            budget,
            test,
            settings,
            next,
        }
    }

    /// The present capacity, once two trials tell.
    pub fn known(&self) -> Option<Known> {
        self.crossing.as_ref().map(known)
    }

    /// What the test says of the trials so far.
    pub fn decision(&self) -> GateDecision {
        match self.known() {
            Some(now) if self.evidence.trials() >= FIRST_LOOK => self.test.decide(now),
            _ => GateDecision::Undecided,
        }
    }

    fn spec(&self) -> TrialSpec {
        let warm = self.outcomes.is_empty();
        if warm {
            return TrialSpec {
                load: Load::Concurrency(self.next.min(8).max(self.range.min)),
                kind: TrialKind::Warmup,
                retreat: false,
                settle: Settle { completions_per_user: 0.0, truncate: false },
                rule: StopRule::Warm { window: 4.0, improvement: 0.02, windows: 40 },
            };
        }
        let binding = match &self.crossing {
            Some(crossing) => crossing.binding,
            None => self.evidence.worst_objective(),
        };
        let least = match self.evidence.is_counted(binding) {
            true => self.settings.counted_requests,
            false => self.settings.line_requests,
        };
        let before = self.outcomes.last();
        let jump = before.map_or(1.0, |last| (f64::from(self.next) / last.spec.load.value()).ln().abs());
        let worst = before.map_or(0.0, worst);
        TrialSpec {
            load: Load::Concurrency(self.next),
            kind: TrialKind::Measure,
            retreat: worst > OVERLOAD && before.is_some_and(|last| self.next < users(last.spec.load)),
            settle: Settle {
                completions_per_user: if jump < 0.3 { SETTLE.0 } else { SETTLE.1 },
                truncate: false,
            },
            rule: match windows::trial_seconds(&self.slo) {
                Some(seconds) => StopRule::seconds(seconds),
                None => {
                    StopRule::Fixed { requests: least.max(self.next), min_seconds: 0.0, max_seconds: 600.0 }
                }
            },
        }
    }

    /// Alternately a little below and above where the boundary is thought to be.
    fn place(&mut self, outcome: &TrialOutcome) {
        let here = outcome.spec.load.value().max(1.0).ln();
        let (centre, distance) = match &self.crossing {
            Some(crossing) => {
                let distance = (0.6 / crossing.steepness).clamp(0.008, 0.15);
                (crossing.quantile(0.5).clamp(here - 0.3, here + 0.3), distance)
            }
            None => (here - (worst(outcome) / 4.0).clamp(-0.15, 0.15), 0.06),
        };
        self.side = -self.side;
        let mut offset = distance * (0.4 + 0.9 * self.placement.uniform());
        if centre < 2.5 {
            // Among few users a step is a whole one.
            offset = offset.max(0.6 / centre.max(0.0).exp());
        }
        let level = (centre + self.side * offset).exp().round() as u32;
        self.next = level.clamp(self.range.min, self.range.max);
    }
}

fn worst(outcome: &TrialOutcome) -> f64 {
    outcome.readings.iter().map(|reading| reading.margin).fold(f64::NEG_INFINITY, f64::max)
}

impl Strategy for Gate {
    fn ask(&mut self) -> Ask {
        if self.done {
            return Ask::Done;
        }
        let spec = self.asked.take().unwrap_or_else(|| self.spec());
        self.asked = Some(spec.clone());
        Ask::Trial(spec)
    }

    fn tell(&mut self, outcome: &TrialOutcome) {
        self.asked = None;
        let started = self.outcomes.first().map_or(outcome.began, |first| first.began);
        self.outcomes.push(outcome.clone());
        let spent = self.budget.seconds.is_some_and(|most| outcome.ended - started >= most)
            || self.budget.requests.is_some_and(|most| outcome.issued_total >= most);
        if matches!(outcome.verdict, Verdict::Void(_)) {
            self.void_in_a_row += 1;
            self.done = spent || self.void_in_a_row > VOIDS;
            return;
        }
        self.void_in_a_row = 0;
        if outcome.spec.kind == TrialKind::Warmup {
            self.done = spent;
            return;
        }
        self.evidence.add(outcome);
        let trials = self.evidence.trials();
        self.crossing = self.evidence.crossing(self.range);
        let mut decided = false;
        if trials >= self.look_at {
            self.look_at = trials + (trials / 8).max(1);
            decided = self.decision() != GateDecision::Undecided;
        }
        self.done = decided || spent || trials >= MOST_TRIALS;
        self.place(outcome);
    }

    fn stop(&mut self) {
        self.done = true;
    }

    fn answer(&self) -> Answer {
        let mut answer = judge(&self.slo, self.range, &self.outcomes).answer;
        if !self.done {
            answer.outcome = SearchOutcome::Interrupted;
        }
        answer
    }

    fn remaining(&self) -> u32 {
        if self.done { 0 } else { self.look_at.saturating_sub(self.evidence.trials()).max(1) as u32 }
    }
}
