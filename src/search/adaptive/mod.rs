//! The default search: navigate cheaply, measure honestly near the boundary.
//!
//! 1. *Warm-up* until the time a token takes stops falling.
//! 2. *Navigation* ([`navigation`]): sequentially stopped probes that only steer.
//! 3. *Measurement*: trials of a size fixed beforehand on both sides of the crossing; for each
//!    objective a posterior of its crossing, from counts ([`counts`]) or from a line ([`mod@line`]),
//!    whichever suits its data; the objective that is crossed first is the boundary.
//! 4. *Doubts* ([`drift`], an isotonic cross-check): a server that changed begins the measurement anew.
//! 5. *Confirmation* at the safe load.
//!
//! The method and its figures: docs/search.md.

pub(crate) mod compose;
pub mod counts;
mod doubts;
pub mod drift;
pub mod line;
pub mod navigation;
pub mod noise;
pub mod posterior;
pub mod settings;

use crate::plan::Budget;
use crate::rng::Stream;
use crate::search::Strategy;
use crate::search::answer::{Answer, Boundary, Goodput, Resolution, SearchOutcome};
use crate::search::evidence::Evidence as PlainEvidence;
use crate::search::trial::{Ask, Settle, StopRule, TrialKind, TrialOutcome, TrialSpec};
use crate::search::windows;
use crate::slo::{Metric, Slo};
use crate::units::{Interval, Load};
use crate::verdict::Verdict;

use navigation::{Navigation, Probe, Step, users};
use posterior::{Crossing, Evidence};
use settings::{NAVIGATION, NAVIGATION_SETTLE, SETTLE, Settings};

/// Times a void trial is run again before the search gives up.
const RETRIES: u32 = 3;

/// Begins the note that names levels in a dip.
pub(crate) const NOT_MONOTONE: &str = "not monotone:";

/// Margin (log scale) from which a measuring trial plainly meets or misses.
pub(super) const PLAIN: f64 = 0.2;
/// Below this level a counted trial is smaller: a user more is a large step, so misses come in
/// masses or not at all.
const FEW_USERS: u32 = 16;
/// Requests of such a trial.
const FEW_REQUESTS: u32 = 60;

/// How far (log scale) the two fits of the boundary differ without either being wrong.
const NEAR_ENOUGH: f64 = 0.1;

/// Measuring trials that are enough where they lie on two neighbouring levels, one of which plainly
/// meets the SLO while the other plainly misses it.
const LEAST_BETWEEN_NEIGHBOURS: usize = 4;

/// The adaptive search.
#[derive(Clone, Debug)]
pub struct Adaptive {
    slo: Slo,
    settings: Settings,
    stage: Stage,
    asked: Option<TrialSpec>,
    navigation: Navigation,
    evidence: Evidence,
    /// The same trials for the isotonic fit.
    plain: PlainEvidence,
    /// Paces of the measuring trials, and the steps that they have shown: whether the measurement began
    /// anew.
    paces: Vec<drift::Pace>,
    steps: Vec<(drift::Step, bool)>,
    measured_more: bool,
    crossing: Option<Crossing>,
    /// Measuring trials at which the posterior is evaluated next: not after each, as looking often
    /// makes a search stop on luck.
    look_at: usize,
    level: u32,
    side: f64,
    placement: Stream,
    void_in_a_row: u32,
    last_void: Option<String>,
    outcomes: Vec<Point>,
    started: Option<f64>,
    confirmed: Option<bool>,
    spent: Spent,
}

/// What is kept of each trial for the answer.
#[derive(Clone, Debug)]
struct Point {
    /// When its measured window began, seconds.
    at: f64,
    users: u32,
    kind: TrialKind,
    verdict: Verdict,
    /// The largest margin of its objectives.
    worst: f64,
    good_rate: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    seconds: f64,
    requests: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Warm,
    Navigate(u32),
    /// The lowest level misses: one trial of a fixed size confirms it.
    ConfirmLowest,
    Measure(u32),
    Confirm(u32),
    Done(SearchOutcome),
}

impl Adaptive {
    /// A search for the largest load that meets `slo`.
    pub fn new(slo: Slo, settings: Settings) -> Self {
        let ttft = slo
            .objectives
            .iter()
            .position(|objective| objective.metric == Metric::Ttft)
            .map(|index| (index, slo.objectives[index].threshold));
        let start = settings.start.clamp(settings.range.min, settings.range.max);
        Self {
            navigation: Navigation::new(settings.range.min, settings.range.max, ttft),
            evidence: Evidence::new(&slo, &settings),
            plain: PlainEvidence::new(slo.clone()),
            paces: Vec::new(),
            steps: Vec::new(),
            measured_more: false,
            placement: Stream::new(settings.seed, "placement"),
            stage: Stage::Warm,
            asked: None,
            crossing: None,
            look_at: settings.least_trials,
            level: start,
            side: 1.0,
            void_in_a_row: 0,
            last_void: None,
            outcomes: Vec::new(),
            started: None,
            confirmed: None,
            spent: Spent::default(),
            slo,
            settings,
        }
    }

    fn spec(&self) -> Option<TrialSpec> {
        let (level, kind, settle, rule) = match self.stage {
            Stage::Warm => {
                let rule = StopRule::Warm { window: 4.0, improvement: 0.02, windows: 40 };
                (self.level, TrialKind::Warmup, Settle { completions_per_user: 0.0, truncate: false }, rule)
            }
            Stage::Navigate(level) => {
                (level, TrialKind::Navigate, NAVIGATION_SETTLE, StopRule::Clear(NAVIGATION))
            }
            Stage::ConfirmLowest => self.fixed(self.settings.range.min, TrialKind::Measure),
            Stage::Measure(level) => self.fixed(level, TrialKind::Measure),
            Stage::Confirm(level) => self.fixed(level, TrialKind::Confirm),
            Stage::Done(_) => return None,
        };
        let retreat = kind == TrialKind::Navigate && level < self.level;
        Some(TrialSpec { load: Load::Concurrency(level), kind, retreat, settle, rule })
    }

    fn fixed(&self, level: u32, kind: TrialKind) -> (u32, TrialKind, Settle, StopRule) {
        let jump = (f64::from(level) / f64::from(self.level)).ln().abs();
        let per_user = if jump < 0.3 { SETTLE.0 } else { SETTLE.1 };
        let least = match self.binding_is_counted() {
            true if level < FEW_USERS => FEW_REQUESTS,
            true => self.settings.counted_requests,
            false => self.settings.line_requests,
        };
        let rule = match windows::trial_seconds(&self.slo) {
            Some(seconds) => StopRule::seconds(seconds),
            None => StopRule::Fixed { requests: least.max(level), min_seconds: 0.0, max_seconds: 600.0 },
        };
        (level, kind, Settle { completions_per_user: per_user, truncate: false }, rule)
    }

    fn binding_is_counted(&self) -> bool {
        let binding = match &self.crossing {
            Some(crossing) => crossing.binding,
            None => self.evidence.worst_objective(),
        };
        self.evidence.is_counted(binding)
    }

    fn out_of_budget(&self) -> bool {
        let Budget { seconds, requests } = self.settings.budget;
        seconds.is_some_and(|most| self.spent.seconds >= most)
            || requests.is_some_and(|most| self.spent.requests >= most)
    }

    fn follow(&mut self, step: Step) {
        self.stage = match step {
            Step::Probe(level) => Stage::Navigate(level),
            Step::Near(level) => Stage::Measure(level),
            Step::MetAtHighest if self.settings.confirm => Stage::Confirm(self.settings.range.max),
            Step::MetAtHighest => Stage::Done(SearchOutcome::MetAtHighest),
            Step::MissedAtLowest => Stage::ConfirmLowest,
        };
    }

    fn tell_measured(&mut self, outcome: &TrialOutcome) {
        self.evidence.add(outcome);
        self.plain.add(outcome);
        self.watch_pace(outcome);
        let trials = self.evidence.trials();
        if trials >= self.look_at.min(2) {
            self.crossing = self.evidence.crossing(self.settings.range);
        }
        let between_neighbours = trials >= LEAST_BETWEEN_NEIGHBOURS
            && self.crossing.as_ref().is_some_and(|crossing| crossing.is_between_neighbours(&self.settings));
        if trials >= self.look_at || between_neighbours {
            self.look_at = trials + (trials / 10).max(1);
            if let Some(crossing) = &self.crossing
                && (between_neighbours
                    || crossing.is_narrow(&self.settings)
                    || trials >= self.settings.most_trials)
            {
                let crossing = crossing.clone();
                if !self.measures_more(&crossing) {
                    self.conclude();
                    return;
                }
            }
        }
        self.stage = Stage::Measure(self.next_level(outcome));
    }

    /// Where the next measuring trial goes: alternately a little below and above the median.
    fn next_level(&mut self, outcome: &TrialOutcome) -> u32 {
        if let Some(level) = self.untried_between() {
            return level;
        }
        let here = f64::from(users(outcome.spec.load)).ln();
        let (centre, distance) = match &self.crossing {
            Some(crossing) => {
                let centre = crossing.quantile(0.5).clamp(here - 0.3, here + 0.3);
                (centre, (0.6 / crossing.steepness).clamp(0.008, 0.15))
            }
            None => {
                let worst = outcome.readings.iter().map(|r| r.margin).fold(f64::NEG_INFINITY, f64::max);
                (here - (worst / 4.0).clamp(-0.15, 0.15), 0.08)
            }
        };
        self.side = -self.side;
        let mut offset = distance * (0.4 + 0.9 * self.placement.uniform());
        if centre < 2.5 {
            offset = offset.max(0.6 / centre.max(0.0).exp());
        }
        let level = (centre + self.side * offset).exp().round() as u32;
        level.clamp(self.settings.range.min, self.settings.range.max)
    }

    /// A level that was not measured yet between the highest that plainly meets the SLO and the lowest
    /// that plainly misses it, where these are near each other: at a cliff, and among few users, the
    /// whole numbers between them are the question.
    fn untried_between(&self) -> Option<u32> {
        let measured = || self.outcomes.iter().filter(|point| point.kind == TrialKind::Measure);
        let missed = measured().filter(|point| point.worst > PLAIN).map(|point| point.users).min()?;
        let below = |point: &&Point| point.worst < -PLAIN && point.users < missed;
        let met = measured().filter(below).map(|point| point.users).max()?;
        let middle = met + (missed - met) / 2;
        let near = f64::from(missed - met) <= (0.2 * f64::from(met)).max(4.0);
        (near && middle > met && !measured().any(|point| point.users == middle)).then_some(middle)
    }

    fn conclude(&mut self) {
        let Some(crossing) = &self.crossing else {
            self.stage = Stage::Done(SearchOutcome::Interrupted);
            return;
        };
        let report = crossing.report(&self.settings);
        self.stage = match (report.outcome, report.safe) {
            (SearchOutcome::Found, Some(safe)) if self.settings.confirm && !self.out_of_budget() => {
                Stage::Confirm(safe)
            }
            (outcome, _) => Stage::Done(outcome),
        };
    }
}

impl Strategy for Adaptive {
    fn ask(&mut self) -> Ask {
        if self.asked.is_none() {
            self.asked = self.spec();
        }
        self.asked.clone().map_or(Ask::Done, Ask::Trial)
    }

    fn tell(&mut self, outcome: &TrialOutcome) {
        self.asked = None;
        let level = users(outcome.spec.load);
        self.level = level;
        let started = *self.started.get_or_insert(outcome.began);
        self.spent = Spent { seconds: outcome.ended - started, requests: outcome.issued_total };
        self.outcomes.push(Point {
            at: outcome.settled,
            users: level,
            kind: outcome.spec.kind,
            verdict: outcome.verdict.clone(),
            worst: outcome.readings.iter().map(|r| r.margin).fold(f64::NEG_INFINITY, f64::max),
            good_rate: outcome.good_rate,
        });
        if let Verdict::Void(reason) = &outcome.verdict {
            self.void_in_a_row += 1;
            self.last_void = Some(reason.to_string());
            if self.void_in_a_row > RETRIES {
                self.stage = Stage::Done(SearchOutcome::Void);
            }
            return;
        }
        self.void_in_a_row = 0;
        match self.stage.clone() {
            Stage::Warm => self.stage = Stage::Navigate(level),
            Stage::Navigate(_) => {
                self.evidence.add(outcome);
                let probe = Probe {
                    users: level,
                    margins: outcome.readings.iter().map(|reading| reading.margin).collect(),
                    rate: outcome.completion_rate,
                    mean_ttft: outcome.mean_ttft,
                };
                let dips = self.navigation.dips.len();
                let step = self.navigation.next(probe);
                if let Some(&dip) = self.navigation.dips.get(dips) {
                    self.evidence.forget_misses_to(f64::from(dip).ln());
                }
                self.follow(step);
            }
            Stage::ConfirmLowest => {
                let worst = outcome.readings.iter().map(|r| r.margin).fold(f64::NEG_INFINITY, f64::max);
                if worst > 0.1 {
                    self.stage = Stage::Done(SearchOutcome::MissedAtLowest);
                } else {
                    self.tell_measured(outcome);
                }
            }
            Stage::Measure(_) => self.tell_measured(outcome),
            Stage::Confirm(level) => self.tell_confirmed(level, outcome),
            Stage::Done(_) => {}
        }
        if self.out_of_budget() && !matches!(self.stage, Stage::Done(_)) {
            self.finish_on_budget();
        }
    }

    fn stop(&mut self) {
        if !matches!(self.stage, Stage::Done(_)) {
            self.finish_on_budget();
        }
    }

    fn answer(&self) -> Answer {
        self.compose()
    }

    fn remaining(&self) -> u32 {
        match self.stage {
            Stage::Warm => 12,
            Stage::Navigate(_) => 10,
            Stage::ConfirmLowest | Stage::Confirm(_) => 1,
            Stage::Measure(_) => {
                self.settings.least_trials.saturating_sub(self.evidence.trials()).max(2) as u32 + 1
            }
            Stage::Done(_) => 0,
        }
    }
}
