//! A trial of an open loop: arrivals at a rate, whatever the server makes of them.

use std::sync::Arc;

use super::{GLANCE, Glance, Running, Trials, expected};
use crate::loadgen::session::{Excess, Session, SessionError, Wake};
use crate::metrics::arrivals::{ArrivalFigures, is_unstable};
use crate::plan::{ArrivalsPlan, CurvePlan};
use crate::search::trial::{ClearRule, StopRule, TrialKind, TrialSpec};
use crate::slo::{Metric, Slo};
use crate::units::Load;
use crate::verdict::{Verdict, VoidReason};
use crate::workload::{ArrivalProcess, Arrivals, RateCurve};

/// Lateness at p99 that voids a trial, as a share of the tightest limit on TTFT or E2E: it counts in
/// these latencies, so that much of a limit would be the client's own.
const LATE_SHARE: f64 = 0.1;
/// Arrivals at the first look for growth; each further look is at twice as many, so that there are
/// few of them.
const FIRST_LOOK: u32 = 64;
/// Longest settling before the life of a request is known, seconds.
const LONGEST_SETTLING: f64 = 60.0;
/// Ends from which the life of a request is known.
const KNOWN: usize = 8;

/// Longest that the last requests of a curve are waited for, seconds, and how often it is seen whether
/// they have ended.
const LONGEST_TAIL: f64 = 600.0;
const TAIL_LOOK: f64 = 0.05;

/// What the open loops of a run have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoad {
    /// How arrivals are spaced.
    pub process: ArrivalProcess,
    /// Most requests in flight.
    pub in_flight_cap: u32,
    /// Seed of the run.
    pub seed: u64,
    /// How the rate moves within a trial, where it does: a trial has this curve, brought to its rate.
    pub curve: Option<RateCurve>,
}

impl OpenLoad {
    /// As a plan says. Of a curve at a trace's timestamps these are still to be given: see
    /// [`OpenLoad::at`].
    pub fn of(plan: &ArrivalsPlan, seed: u64) -> Self {
        let curve = match &plan.curve {
            Some(CurvePlan::Rates { curve }) => Some(curve.clone()),
            Some(CurvePlan::Trace { .. }) | None => None,
        };
        Self { process: plan.process, in_flight_cap: plan.in_flight_cap, seed, curve }
    }

    /// The same with arrivals at these instants, where there are some.
    #[must_use]
    pub fn at(mut self, instants: Option<Arc<[f64]>>) -> Self {
        if let Some(instants) = instants {
            self.process = ArrivalProcess::Constant;
            self.curve = Some(RateCurve::Instants(instants));
        }
        self
    }

    /// The curve of a trial at a mean rate, or at a speed-up of the curve.
    fn curve(&self, load: Load) -> RateCurve {
        match (&self.curve, load) {
            (Some(curve), Load::SpeedUp(factor)) => curve.faster(factor),
            (Some(curve), load) => curve.faster(load.value() / curve.mean()),
            (None, load) => RateCurve::Constant(load.value()),
        }
    }
}

/// Looks for growth at a doubling number of arrivals.
struct Watch {
    next: u32,
}

impl<S: Session> Trials<S> {
    /// The same, with open loops as `open` says; without it they are Poisson's and have no cap.
    #[must_use]
    pub fn with_open_loop(mut self, open: Option<OpenLoad>) -> Self {
        self.open = open.unwrap_or(self.open);
        self
    }

    pub(super) async fn measure_open(
        &mut self,
        load: Load,
        spec: &TrialSpec,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<Option<Verdict>, SessionError> {
        if self.level > 0 {
            self.session.set_level(0, 0.0, Excess::Retire);
            self.level = 0;
        }
        let excess = if spec.retreat { Excess::Abort } else { Excess::Retire };
        let curve = self.open.curve(load);
        let length = curve.length();
        if length.is_some() {
            self.clear(excess, trial, watch).await?;
        }
        // How many come is known of given instants alone.
        let given = if let RateCurve::Instants(instants) = &curve { instants.len() as u64 } else { 0 };
        let last = self.session.issued() + given;
        let about = curve.arrivals().round() as u32;
        // Before the schedule begins, so that what is due at its very start lies within.
        let start = self.session.now();
        self.session.set_arrivals(Some(self.arrivals(curve)), excess);
        self.is_open = true;
        if let (Some(length), StopRule::Fixed { requests, .. }) = (length, spec.rule) {
            trial.moves = true;
            trial.settled = Some(start);
            let steers = spec.kind == TrialKind::Navigate;
            self.measure_curve((length, last, about), (requests, steers), trial, watch).await?;
            return Ok(None);
        }
        self.settle_open(spec.settle.completions_per_user, trial, watch).await?;
        trial.settled = Some(self.session.now());
        let mut growth = Watch { next: FIRST_LOOK };
        match spec.rule {
            StopRule::Fixed { requests, min_seconds, max_seconds } => {
                let (start, first) = (self.session.now(), trial.records.len());
                loop {
                    let (now, seen) = (self.session.now(), (trial.records.len() - first) as u32);
                    if now >= start + max_seconds || (seen >= requests && now >= start + min_seconds) {
                        return Ok(None);
                    }
                    let left = requests.saturating_sub(seen);
                    let ended = if left > 0 { left } else { u32::MAX };
                    let at = (now + GLANCE).min(start + max_seconds);
                    let at = if left > 0 { at } else { at.min(start + min_seconds) };
                    self.advance(Wake { at, ended, first_tokens: u32::MAX }, trial).await?;
                    if self.summarise {
                        let so_far = self.read(trial, false);
                        let seen = (trial.records.len() - first) as u32;
                        let wanted = expected(seen, requests, self.session.now() - start, min_seconds);
                        self.glance(trial, (seen, wanted), &so_far, watch);
                    }
                    if self.grows(&mut growth, trial) {
                        return Ok(Some(Verdict::Missed));
                    }
                }
            }
            StopRule::Clear(rule) => Ok(Some(self.navigate_open(rule, &mut growth, trial, watch).await?)),
            // Whatever warms up has no verdict; an open loop has no step time of its own to watch.
            StopRule::Warm { window, .. } => {
                let until = self.session.now() + window;
                self.advance_to(until, trial, watch).await?;
                Ok(Some(Verdict::Undecided))
            }
        }
    }

    /// Measures a curve from its first arrival on, until all of its requests have ended. There is
    /// nothing to settle: the curve is the load, its beginning and its peaks too. Its backlog may grow for a
    /// time, so growth is no reason to end it.
    async fn measure_curve(
        &mut self,
        (length, last, about): (f64, u64, u32),
        (requests, steers): (u32, bool),
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        let start = self.session.now();
        // What the session shows is from when it was last looked at: only a look after the end can tell
        // that nothing is left. A client that is late may have some still to send.
        let mut looked_after = false;
        loop {
            let now = self.session.now();
            let is_sent = looked_after && self.session.issued() >= last;
            let is_over = is_sent && self.present() == 0;
            if is_over || now >= start + length + LONGEST_TAIL || trial.records.len() as u32 >= requests {
                return Ok(());
            }
            let end = start + length + TAIL_LOOK;
            let at = if now < end { (now + GLANCE).min(end) } else { now + TAIL_LOOK };
            self.advance(Wake { at, ended: u32::MAX, first_tokens: u32::MAX }, trial).await?;
            looked_after = at >= end;
            if steers && self.is_lost(trial, about) {
                trial.cut = true;
                return Ok(());
            }
            if self.summarise {
                let so_far = self.read(trial, false);
                self.glance(trial, (trial.records.len() as u32, requests.min(about)), &so_far, watch);
            }
        }
    }

    /// Waits until nothing of an earlier load is in flight: a trace begins on a server that has nothing else
    /// to do.
    async fn clear(
        &mut self,
        excess: Excess,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        if self.session.in_flight().is_empty() {
            return Ok(());
        }
        self.session.set_arrivals(None, excess);
        let deadline = self.session.now() + LONGEST_TAIL;
        while !self.session.in_flight().is_empty() && self.session.now() < deadline {
            self.advance(Wake::at(self.session.now() + TAIL_LOOK), trial).await?;
            self.glance(trial, (0, 0), &[], watch);
        }
        Ok(())
    }

    /// Whether the `all` requests of a trace miss the SLO whatever becomes of those that are still to come:
    /// more than may be over already are.
    fn is_lost(&self, trial: &Running, all: u32) -> bool {
        let readings = self.read(trial, false);
        self.slo.objectives.iter().zip(&readings).any(|(objective, reading)| {
            // A request has many gaps: how many will come is not known.
            let counted = objective.allowed_misses().filter(|_| objective.metric != Metric::Itl);
            counted.is_some_and(|allowed| f64::from(reading.over) > allowed * f64::from(all) + 1e-9)
                || reading.windows.is_some_and(|windows| windows.missed > 0)
        })
    }

    /// Ends the open loop, where one runs.
    pub(super) fn leave_open_loop(&mut self, spec: &TrialSpec) {
        if std::mem::take(&mut self.is_open) {
            let excess = if spec.retreat { Excess::Abort } else { Excess::Retire };
            self.session.set_arrivals(None, excess);
        }
    }

    fn arrivals(&self, curve: RateCurve) -> Arrivals {
        let OpenLoad { process, in_flight_cap, seed, .. } = self.open;
        // By the trial's number: its offsets are the same whatever was run before it.
        let number = u64::from(self.next_id.saturating_sub(1));
        Arrivals { curve, process, seed, number, in_flight_cap }
    }

    /// Waits for so many lives of a request: then those in flight are of this rate.
    async fn settle_open(
        &mut self,
        lives: f64,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        let start = self.session.now();
        loop {
            let ended: Vec<f64> = trial.records.iter().filter_map(|record| record.e2e()).collect();
            let seen = (ended.len() >= KNOWN).then(|| ended.iter().sum::<f64>() / ended.len() as f64);
            let until = match seen.or(self.life) {
                // Of conversations as many must have ended as are there at a time.
                Some(life) => {
                    let life = self.habits.0 * (life + self.habits.1) - self.habits.1;
                    start + (lives * life).min(LONGEST_SETTLING.max(4.0 * life))
                }
                None => start + LONGEST_SETTLING,
            };
            let now = self.session.now();
            if now >= until {
                return Ok(());
            }
            let at = until.min(now + GLANCE);
            self.advance(Wake { at, ended: KNOWN as u32, first_tokens: u32::MAX }, trial).await?;
            self.glance(trial, (0, 0), &[], watch);
        }
    }

    async fn navigate_open(
        &mut self,
        rule: ClearRule,
        growth: &mut Watch,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<Verdict, SessionError> {
        let start = self.session.now();
        loop {
            let at = (self.session.now() + self.patience()).min(start + rule.max_seconds);
            self.advance(Wake { at, ended: u32::MAX, first_tokens: 8 }, trial).await?;
            let so_far = self.read(trial, true);
            let seen = so_far.iter().map(|reading| reading.of).min().unwrap_or(0);
            self.glance(trial, (seen, rule.give_up), &so_far, watch);
            if let Some(verdict) = rule.judge(&self.slo, &so_far) {
                return Ok(verdict);
            }
            if self.grows(growth, trial) {
                return Ok(Verdict::Missed);
            }
            if self.session.now() >= start + rule.max_seconds {
                return Ok(Verdict::Undecided);
            }
        }
    }

    /// Whether a look is due, and shows that the backlog grows.
    fn grows(&self, watch: &mut Watch, trial: &mut Running) -> bool {
        let (from, now) = (trial.settled.unwrap_or(trial.began), self.session.now());
        let pending = self.session.in_flight();
        let due = trial.records.iter().filter_map(|record| record.scheduled);
        let due = due.chain(pending.iter().filter_map(|flight| flight.scheduled));
        if (due.filter(|&at| at >= from).count() as u32) < watch.next {
            return false;
        }
        watch.next *= 2;
        trial.unstable = is_unstable(&trial.records, &pending, from, now);
        trial.unstable
    }

    /// What the trial says of its open loop from `from` on; none for a closed one.
    pub(super) fn arrival_figures(&self, trial: &Running, from: f64) -> Option<ArrivalFigures> {
        self.is_open.then(|| {
            let pending = self.session.in_flight();
            let figures = ArrivalFigures::of(&trial.records, &pending, from, self.session.now());
            ArrivalFigures { unstable: trial.unstable, cut: trial.cut, ..figures }
        })
    }
}

/// Why the client's lateness makes a trial void, if it does.
pub(super) fn too_late(slo: &Slo, figures: Option<&ArrivalFigures>) -> Option<VoidReason> {
    let lateness = figures?.lateness_p99;
    let tightest = slo
        .limits
        .iter()
        .filter(|limit| matches!(limit.metric, Metric::Ttft | Metric::E2e))
        .map(|limit| limit.threshold)
        .reduce(f64::min)?;
    (lateness > LATE_SHARE * tightest).then_some(VoidReason::LateSends { lateness, limit: tightest })
}
