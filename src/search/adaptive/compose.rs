//! The answer in words and figures, from the state of the search.

use super::posterior::Report;
use super::*;

/// Slope of the probit line, and elasticity of the quantile, from which a boundary is a cliff.
const CLIFF: (f64, f64) = (25.0, 5.0);
/// Trials this near the answer (log scale) tell the goodput there.
pub(crate) const AT_ANSWER: f64 = 0.12;

impl Adaptive {
    pub(super) fn tell_confirmed(&mut self, level: u32, outcome: &TrialOutcome) {
        let met = outcome.verdict == Verdict::Met;
        self.confirmed = Some(met);
        self.evidence.add(outcome);
        let steps = self.steps.len();
        self.watch_pace(outcome);
        if self.steps.len() > steps && self.steps.last().is_some_and(|(_, anew)| *anew) {
            self.stage = Stage::Measure(self.next_level(outcome));
            return;
        }
        if self.crossing.is_none() && met && level >= self.settings.range.max {
            self.stage = Stage::Done(SearchOutcome::MetAtHighest);
            return;
        }
        self.crossing = self.evidence.crossing(self.settings.range);
        let report = self.crossing.as_ref().map(|crossing| crossing.report(&self.settings));
        let many = self.evidence.trials() >= self.settings.most_trials;
        self.stage = match report {
            // The safe load missed: the interval has moved; measure on where it now lies.
            _ if !met && !many => {
                self.look_at = self.evidence.trials() + 2;
                Stage::Measure(self.next_level(outcome))
            }
            Some(report) => Stage::Done(report.outcome),
            None => Stage::Measure(level),
        };
    }

    /// Ends the search where the budget ends.
    pub(super) fn finish_on_budget(&mut self) {
        self.crossing = self.evidence.crossing(self.settings.range);
        let outcome = self.crossing.as_ref().map(|crossing| crossing.report(&self.settings).outcome);
        self.stage = Stage::Done(outcome.unwrap_or(SearchOutcome::Interrupted));
    }

    pub(super) fn compose(&self) -> Answer {
        let outcome = match self.stage {
            Stage::Done(outcome) => outcome,
            _ => SearchOutcome::Interrupted,
        };
        let report = self.crossing.as_ref().map(|crossing| crossing.report(&self.settings));
        let range = self.settings.range;
        let (load, interval, safe) = match (outcome, report) {
            (SearchOutcome::Found | SearchOutcome::Interrupted, Some(report)) => {
                (Some(report.estimate), Some((report.interval.0, Some(report.interval.1))), report.safe)
            }
            (SearchOutcome::MetAtHighest, _) => (Some(range.max), Some((range.max, None)), Some(range.max)),
            (SearchOutcome::MissedAtLowest, Some(report)) => {
                (None, Some((report.interval.0, Some(report.interval.1))), None)
            }
            _ => (None, None, None),
        };
        let binding = self.crossing.as_ref().map(|crossing| (crossing.binding, crossing.binding_probability));
        let binding = binding.or_else(|| {
            (outcome == SearchOutcome::MissedAtLowest).then(|| (self.evidence.worst_objective(), 1.0))
        });
        Answer {
            outcome,
            load: load.map(Load::Concurrency),
            interval: interval.map(|(low, high)| Interval {
                low: f64::from(low),
                high: high.map(f64::from),
                confidence: self.settings.confidence,
            }),
            safe_load: safe.map(Load::Concurrency),
            largest_met: self.extreme(&Verdict::Met).map(Load::Concurrency),
            smallest_missed: self.extreme(&Verdict::Missed).map(Load::Concurrency),
            boundary: self.crossing.as_ref().map(boundary),
            binding_objective: binding.map(|(index, _)| self.slo.objectives[index].to_string()),
            // Where there is but one objective, there is nothing to be sure of.
            binding_probability: binding
                .filter(|_| self.slo.objectives.len() > 1)
                .map(|(_, probability)| probability),
            goodput: load.and_then(|load| self.goodput_at(load)),
            resolution: report.filter(|_| load.is_some()).and_then(|report| self.resolution(&report)),
            notes: self.notes(),
        }
    }

    /// The largest level that met, or the smallest that missed.
    fn extreme(&self, verdict: &Verdict) -> Option<u32> {
        let levels = self
            .outcomes
            .iter()
            .filter(|point| point.verdict == *verdict && point.kind != TrialKind::Warmup)
            .map(|point| point.users);
        if *verdict == Verdict::Met { levels.max() } else { levels.min() }
    }

    /// Mean of the trials near the answer; its interval from their spread (Student's t).
    fn goodput_at(&self, load: u32) -> Option<Goodput> {
        let near = |point: &&Point| {
            (f64::from(point.users) / f64::from(load.max(1))).ln().abs() < AT_ANSWER
                && !matches!(point.kind, TrialKind::Warmup | TrialKind::Navigate)
                && !matches!(point.verdict, Verdict::Void(_))
        };
        let rates: Vec<f64> = self.outcomes.iter().filter(near).map(|point| point.good_rate).collect();
        goodput_of(&rates)
    }

    /// How finely the boundary is known, and what finer would cost.
    fn resolution(&self, report: &Report) -> Option<Resolution> {
        let crossing = self.crossing.as_ref()?;
        let measured = self.evidence.seconds();
        let (low, high) = report.interval;
        let width = f64::from(high - low.min(high)) / f64::from(report.estimate.max(1));
        // sd(ln N) >= (s / k) sqrt(2 tc / T): slow noise of sd s and correlation time tc, seen for T
        // seconds through a latency that rises as N^k (variance of the mean of an Ornstein-Uhlenbeck
        // process).
        let floor = crossing.slow.zip(crossing.elasticity).map(|((sd, time), elasticity)| {
            2.0 * 1.96 * sd / elasticity.max(0.05) * (2.0 * time / measured.max(time)).sqrt()
        });
        (measured > 0.0).then_some(Resolution {
            width,
            measured_seconds: measured,
            floor,
            slow_noise: crossing.slow.map(|(sd, _)| sd),
            slow_noise_seconds: crossing.slow.map(|(_, time)| time),
        })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(reason) = &self.last_void {
            notes.push(format!("a trial was void and was run again: {reason}"));
        }
        if !self.navigation.dips.is_empty() {
            notes.push(format!(
                "{NOT_MONOTONE} the SLO is missed at {} and met again above",
                self.navigation.dips.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
            ));
        }
        if self.confirmed == Some(false) {
            notes.push("the trial at the safe load missed the SLO: prefer a load below it".to_owned());
        }
        notes.extend(self.doubts());
        notes
    }
}

/// Mean of trials' rates of good requests, with its interval (Student's t) from three trials on.
pub(crate) fn goodput_of(rates: &[f64]) -> Option<Goodput> {
    if rates.is_empty() {
        return None;
    }
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let interval = (rates.len() >= 3).then(|| {
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = crate::stats::special::student_quantile(0.975, n - 1.0) * (variance / n).sqrt();
        Interval { low: (mean - half).max(0.0), high: Some(mean + half), confidence: 0.95 }
    });
    Some(Goodput { requests_per_second: mean, interval })
}

/// Shape of the curve at the boundary.
pub(crate) fn boundary(crossing: &Crossing) -> Boundary {
    let steep = crossing.elasticity.map_or(crossing.steepness > CLIFF.0, |slope| slope > CLIFF.1);
    if steep { Boundary::Cliff } else { Boundary::Smooth }
}
