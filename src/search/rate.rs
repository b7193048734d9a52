//! The largest request rate, or the largest speed-up of a trace: any search over whole levels, run over
//! steps of a rate.
//!
//! A rate is real-valued and its scale is logarithmic, as that of concurrency is; what the strategies
//! need are levels with a logarithm. So a rate is shown to them as a whole number of steps, each a
//! thousandth of the lowest rate, which is far finer than any trial can tell. What is asked for and
//! what is answered are rates.
//!
//! Three things are an open loop's own. The server is warmed by a few users of a closed loop, whose
//! rate is where the search begins. A trial whose backlog grew misses, whatever its samples say: their
//! latency is that of a moment and would go on to rise. And the backlog of an overload is shed before
//! the next trial.
//!
//! A trace at a speed-up is that search over its mean rate. Each trial replays all of it: its quiet and its
//! busy parts are the load, and what a part of it says is not what the whole says. So a trial that only
//! finds the way counts in full too, unless it was ended early, which it is once it has missed for certain.

use crate::plan::{ArrivalsPlan, LoadRange, TrialPlan};
use crate::search::Strategy;
use crate::search::adaptive::NOT_MONOTONE;
use crate::search::answer::Answer;
use crate::search::bisect::BRACKET;
use crate::search::evidence::least_requests;
use crate::search::trial::{Ask, Settle, StopRule, TrialKind, TrialOutcome, TrialSpec};
use crate::slo::{Metric, Slo};
use crate::units::{Interval, Load, rate_figure};
use crate::verdict::Verdict;

/// Steps that the lowest rate is made of.
const STEPS: f64 = 1000.0;
/// Users that warm the server up.
const WARM_USERS: u32 = 4;
/// Completions that a measuring trial of the adaptive search counts: arrivals that vary need more of
/// them than a level that is held.
pub const REQUESTS: u32 = 400;
/// Lives of a request that a rate is left to settle: before a trial that steers, before one that
/// measures, and before one that begins from an empty server.
const LIVES: (f64, f64, f64) = (1.0, 1.5, 3.0);
/// Margin (log scale) from which a rate was an overload, whose backlog is shed.
const OVERLOAD: f64 = 0.5;
/// Margin (log scale) of a trial whose backlog grew, for the strategies.
const UNSTABLE: f64 = 1.0;

/// A search over rates.
pub struct RateSearch {
    inner: Box<dyn Strategy>,
    rates: (f64, f64),
    /// Of a search over the speed-up of a trace: the trace's own rate.
    trace_rate: Option<f64>,
    warm_users: u32,
    /// Whether the inner search is the adaptive one, which sizes its trials itself.
    adaptive: bool,
    requests: u32,
    /// Longest window of a trial of ordinary size, seconds.
    max_seconds: f64,
    slo: Slo,
    /// What the inner strategy asked for last.
    asked: Option<TrialSpec>,
    shed: bool,
    unstable: Vec<f64>,
}

impl RateSearch {
    /// The levels that a strategy within a [`RateSearch`] is given.
    pub fn levels(plan: &ArrivalsPlan) -> LoadRange {
        let step = plan.min / STEPS;
        LoadRange { min: STEPS as u32, max: (plan.max / step).round().min(f64::from(u32::MAX / 4)) as u32 }
    }

    /// The levels of the rates of a grid.
    pub fn grid(plan: &ArrivalsPlan) -> Vec<u32> {
        plan.levels.iter().map(|rate| (rate / plan.min * STEPS).round() as u32).collect()
    }

    /// Searches with the adaptive strategy over [`RateSearch::levels`].
    pub fn adaptive(inner: Box<dyn Strategy>, slo: Slo, plan: &ArrivalsPlan) -> Self {
        Self::new(inner, slo, plan, true, REQUESTS, 0.0)
    }

    /// Searches with a strategy whose trials are of the plan's size.
    pub fn sized(inner: Box<dyn Strategy>, slo: Slo, plan: &ArrivalsPlan, trial: TrialPlan) -> Self {
        let requests = trial.requests.max(least_requests(&slo));
        Self::new(inner, slo, plan, false, requests, trial.max_seconds)
    }

    fn new(
        inner: Box<dyn Strategy>,
        slo: Slo,
        plan: &ArrivalsPlan,
        adaptive: bool,
        requests: u32,
        max_seconds: f64,
    ) -> Self {
        Self {
            inner,
            rates: (plan.min, plan.max),
            trace_rate: plan.trace_rate(),
            warm_users: WARM_USERS.min(plan.in_flight_cap),
            adaptive,
            requests,
            max_seconds,
            slo,
            asked: None,
            shed: false,
            unstable: Vec::new(),
        }
    }

    fn step(&self) -> f64 {
        self.rates.0 / STEPS
    }

    fn rate(&self, load: Load) -> f64 {
        (load.value() * self.step()).clamp(self.rates.0, self.rates.1)
    }

    /// The load of a step: a rate, or the speed-up that brings the trace to that mean rate.
    fn load(&self, step: Load) -> Load {
        let rate = self.rate(step);
        match self.trace_rate {
            Some(trace_rate) => Load::SpeedUp(rate / trace_rate),
            None => Load::RequestRate(rate),
        }
    }

    /// What a step is in the unit of the answer.
    fn unit(&self) -> f64 {
        self.step() / self.trace_rate.unwrap_or(1.0)
    }

    fn level(&self, rate: f64) -> Load {
        Load::Concurrency((rate.clamp(self.rates.0, self.rates.1) / self.step()).round() as u32)
    }

    /// The trial of rates for one of steps.
    fn outward(&self, spec: &TrialSpec) -> TrialSpec {
        if spec.kind == TrialKind::Warmup {
            return TrialSpec { load: Load::Concurrency(self.warm_users), ..spec.clone() };
        }
        if self.trace_rate.is_some() {
            // Whole, whatever it is for: a part of a trace is no sample of it.
            return TrialSpec {
                load: self.load(spec.load),
                kind: spec.kind,
                retreat: true,
                settle: Settle { completions_per_user: 0.0, truncate: false },
                rule: StopRule::Fixed { requests: u32::MAX, min_seconds: 0.0, max_seconds: 0.0 },
            };
        }
        let lives = match spec.kind {
            _ if self.shed => LIVES.2,
            TrialKind::Navigate => LIVES.0,
            _ => LIVES.1,
        };
        let rule = match spec.rule {
            StopRule::Fixed { min_seconds, max_seconds, .. } => {
                let longer = if self.adaptive { 1.0 } else { max_seconds / self.max_seconds };
                let requests = (f64::from(self.requests) * longer.max(1.0)).round() as u32;
                StopRule::Fixed { requests, min_seconds, max_seconds }
            }
            rule => rule,
        };
        TrialSpec {
            load: self.load(spec.load),
            kind: spec.kind,
            retreat: self.shed,
            settle: Settle { completions_per_user: lives, truncate: false },
            rule,
        }
    }

    /// The outcome at a rate as the inner strategy asked for it.
    fn inward(&self, outcome: &TrialOutcome, spec: TrialSpec) -> TrialOutcome {
        let mut told = TrialOutcome { spec, mean_ttft: None, ..outcome.clone() };
        if told.spec.kind == TrialKind::Warmup {
            told.spec.load = self.level(outcome.completion_rate);
            return told;
        }
        if self.trace_rate.is_some() {
            // The rate moves within the trace; its speed-up is what the trial was run at.
            let log_load = told.spec.load.value().ln();
            told.readings.iter_mut().for_each(|reading| reading.log_load = log_load);
            let whole = !outcome.arrivals.is_some_and(|arrivals| arrivals.cut);
            if whole && told.spec.kind == TrialKind::Navigate {
                // As good as any: its size was fixed beforehand.
                told.spec.kind = TrialKind::Measure;
            }
            return told;
        }
        let shift = self.step().ln();
        told.readings.iter_mut().for_each(|reading| reading.log_load -= shift);
        if is_unstable(outcome) {
            told.verdict = Verdict::Missed;
            // A sign for the adaptive search, as its counts are those of a moment; for the others,
            // which go by counts, a miss of all.
            if self.adaptive && told.spec.kind == TrialKind::Measure {
                told.spec.kind = TrialKind::Navigate;
            }
            let waits = |metric: Metric| matches!(metric, Metric::Ttft | Metric::E2e);
            let any_waits = self.slo.objectives.iter().any(|objective| waits(objective.metric));
            for (objective, reading) in self.slo.objectives.iter().zip(&mut told.readings) {
                if waits(objective.metric) || !any_waits {
                    reading.margin = reading.margin.max(UNSTABLE);
                    reading.variance = reading.variance.min(0.01);
                    if !self.adaptive {
                        reading.over = reading.of;
                    }
                }
            }
        }
        told
    }

    fn outward_load(&self, load: Option<Load>) -> Option<Load> {
        load.map(|load| self.load(load))
    }
}

fn is_unstable(outcome: &TrialOutcome) -> bool {
    outcome.arrivals.is_some_and(|arrivals| arrivals.unstable)
}

impl Strategy for RateSearch {
    fn ask(&mut self) -> Ask {
        match self.inner.ask() {
            Ask::Trial(spec) => {
                let outward = self.outward(&spec);
                self.asked = Some(spec);
                Ask::Trial(outward)
            }
            Ask::Done => Ask::Done,
        }
    }

    fn tell(&mut self, outcome: &TrialOutcome) {
        let Some(spec) = self.asked.take() else { return };
        let told = self.inward(outcome, spec);
        if is_unstable(outcome) {
            self.unstable.push(outcome.spec.load.value());
        }
        let worst = told.readings.iter().map(|reading| reading.margin).fold(f64::NEG_INFINITY, f64::max);
        self.shed = told.verdict == Verdict::Missed && worst > OVERLOAD;
        self.inner.tell(&told);
    }

    fn stop(&mut self) {
        self.inner.stop();
    }

    fn answer(&self) -> Answer {
        let mut answer = self.inner.answer();
        let unit = self.unit();
        for load in
            [&mut answer.load, &mut answer.safe_load, &mut answer.largest_met, &mut answer.smallest_missed]
        {
            *load = self.outward_load(*load);
        }
        answer.interval = answer.interval.map(|interval| Interval {
            low: interval.low * unit,
            high: interval.high.map(|high| high * unit),
            ..interval
        });
        // These name levels, which are steps here.
        let bracket = answer.notes.iter().any(|note| note.ends_with(BRACKET));
        answer.notes.retain(|note| !note.starts_with(NOT_MONOTONE) && !note.contains(" concurrent"));
        if let (true, Some(met), Some(missed)) = (bracket, answer.load, answer.smallest_missed) {
            answer.notes.push(format!("{} to {missed} {BRACKET}", rate_figure(met.value())));
        }
        if let Some(lowest) = self.unstable.iter().copied().reduce(f64::min) {
            answer.notes.push(format!(
                "from {} requests/s on a backlog was seen to grow: that is more than the server can carry",
                rate_figure(lowest)
            ));
        }
        answer
    }

    fn remaining(&self) -> u32 {
        self.inner.remaining()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::metrics::arrivals::ArrivalFigures;
    use crate::search::SearchOutcome;
    use crate::search::adaptive::Adaptive;
    use crate::search::adaptive::settings::Settings;
    use crate::verdict::Reading;
    use crate::workload::ArrivalProcess;

    fn plan(min: f64, max: f64) -> ArrivalsPlan {
        let process = ArrivalProcess::Poisson;
        ArrivalsPlan { min, max, process, in_flight_cap: 4096, levels: Vec::new(), curve: None }
    }

    fn rates(min: f64, max: f64) -> RateSearch {
        let slo = Slo::parse(["ttft p95 < 500ms"]).unwrap();
        let settings = Settings::new(RateSearch::levels(&plan(min, max)), 0.1, 7);
        RateSearch::adaptive(Box::new(Adaptive::new(slo.clone(), settings)), slo, &plan(min, max))
    }

    /// A server that misses above `capacity`: the share of slow requests grows with the log rate, and
    /// above one and a half times it the backlog grows.
    fn outcome(id: u32, spec: TrialSpec, capacity: f64) -> TrialOutcome {
        let rate = spec.load.value();
        let beyond = (rate / capacity).ln();
        let of = 400_u32;
        let share = crate::stats::special::normal_cdf(-1.645 + 12.0 * beyond);
        let over = (share * f64::from(of)).round() as u32;
        let reading = Reading {
            over,
            of,
            figure: Some(0.5 * (3.0 * beyond).exp()),
            margin: (3.0 * beyond).clamp(-4.0, 4.0),
            variance: 0.001,
            log_load: rate.ln(),
            profile: (0..100).map(|k| (3.0 * beyond) as f32 + 0.4 * (k as f32 - 95.0) / 50.0).collect(),
            blocks: Vec::new(),
            windows: None,
        };
        let unstable = beyond > 0.4;
        TrialOutcome {
            id,
            verdict: if over * 20 > of || unstable { Verdict::Missed } else { Verdict::Met },
            readings: vec![reading],
            began: f64::from(id) * 10.0,
            settled: f64::from(id) * 10.0 + 1.0,
            ended: f64::from(id) * 10.0 + 9.0,
            counts: Default::default(),
            issued_total: u64::from(id) * 400,
            completion_rate: rate.min(capacity * 1.3),
            mean_ttft: Some(0.1),
            mean_e2e: Some(1.0),
            token_time: None,
            cold_start: None,
            slices: Vec::new(),
            good_rate: rate,
            summary: Default::default(),
            arrivals: Some(ArrivalFigures { unstable, ..ArrivalFigures::default() }),
            checks: Default::default(),
            client: None,
            server: None,
            host: None,
            gpu: None,
            spec,
        }
    }

    fn found(mut search: RateSearch, capacity: f64) -> (Answer, Vec<TrialSpec>) {
        let mut specs = Vec::new();
        while let Ask::Trial(spec) = search.ask() {
            specs.push(spec.clone());
            let id = specs.len() as u32;
            search.tell(&outcome(id, spec, capacity));
            assert!(id < 400, "does not end");
        }
        (search.answer(), specs)
    }

    #[test]
    fn a_rate_is_found_on_either_side_of_one_a_second() {
        for (min, max, capacity) in [(0.01, 2.0, 0.137), (0.5, 200.0, 23.4), (10.0, 10_000.0, 1500.0)] {
            let (answer, specs) = found(rates(min, max), capacity);
            let Some(Load::RequestRate(rate)) = answer.load else { panic!("{answer:?}") };
            assert_eq!(answer.outcome, SearchOutcome::Found);
            assert!((rate / capacity).ln().abs() < 0.06, "{rate} for {capacity}");
            let interval = answer.interval.unwrap();
            assert!(interval.low <= rate && interval.high.unwrap() >= rate);
            for spec in specs.iter().filter(|spec| spec.kind != TrialKind::Warmup) {
                assert!((min..=max).contains(&spec.load.value()), "{:?}", spec.load);
            }
        }
    }

    #[test]
    fn an_overload_is_shed_before_the_next_trial_and_named_in_the_answer() {
        let mut search = rates(0.5, 200.0);
        let mut sheds = 0;
        let mut id = 0;
        while let Ask::Trial(spec) = search.ask() {
            id += 1;
            let overload = spec.kind != TrialKind::Warmup && spec.load.value() > 1.5 * 8.0;
            search.tell(&outcome(id, spec, 8.0));
            if overload && let Ask::Trial(next) = search.ask() {
                assert!(next.retreat && next.settle.completions_per_user == LIVES.2);
                sheds += 1;
            }
        }
        assert!(sheds > 0);
        assert!(search.answer().notes.iter().any(|note| note.contains("a backlog was seen to grow")));
    }

    #[test]
    fn the_ends_of_the_range_are_answers_too() {
        assert_eq!(found(rates(0.5, 20.0), 100.0).0.outcome, SearchOutcome::MetAtHighest);
        let (answer, _) = found(rates(5.0, 20.0), 1.0);
        assert_eq!(answer.outcome, SearchOutcome::MissedAtLowest);
        assert!(answer.load.is_none());
    }
}
