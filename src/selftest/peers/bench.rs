//! How a peer measures one level: a trial of so many requests, then the load is drained.

use crate::loadgen::record::RequestRecord;
use crate::loadgen::session::{Excess, Session, SessionEvent, Wake};
use crate::selftest::error::SelfTestError;
use crate::sim::scenarios::Scenario;
use crate::sim::session::{SimSession, ready};
use crate::slo::{Metric, Objective, Slo, Stat};
use crate::stats::quantile::quantile;

/// How a trial begins, and what of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Users come one by one over a second; after `max(2 N, 60)` requests the count begins without a
    /// break. The best that can be made of a trial of a fixed size.
    Seamless,
    /// A warm-up of 60 s at the first visit of a level and of 30 s at further ones, a drain, then all
    /// `N` at once; each request from there on counts.
    WarmThenBurst,
    /// All `N` at once, and each request counts.
    Burst,
}

/// What a trial gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// For each objective the distance of its figure from the threshold, positive when missed: in
    /// milliseconds, or tokens a second.
    pub margins: Vec<f64>,
    /// Requests within every limit.
    pub good: u32,
    /// Requests counted.
    pub of: u32,
}

impl Measured {
    /// Whether every figure keeps its threshold.
    pub fn is_met(&self) -> bool {
        self.margins.iter().all(|&margin| margin <= 0.0)
    }
}

/// A simulated server on which a peer runs its trials.
pub struct Bench {
    session: SimSession,
    slo: Slo,
    limits: Vec<(Objective, f64)>,
    start: Start,
    requests: u32,
    visited: Vec<u32>,
    trials: u32,
}

impl Bench {
    /// Trials of `requests` counted requests on a scenario's server.
    ///
    /// # Errors
    /// When the scenario's SLO cannot be read, or asks for more than percentiles.
    pub fn new(scenario: &Scenario, seed: u64, start: Start, requests: u32) -> Result<Self, SelfTestError> {
        let slo = Slo::parse(scenario.slo.iter().copied())?;
        let limit = |objective: &Objective| match objective.stat {
            Stat::Percentile(p) if objective.metric != Metric::Itl => Ok((*objective, p / 100.0)),
            _ => Err(SelfTestError::NotAPercentile(objective.to_string())),
        };
        Ok(Self {
            session: SimSession::new(scenario.params, scenario.traffic.clone(), seed),
            limits: slo.objectives.iter().map(limit).collect::<Result<_, _>>()?,
            slo,
            start,
            requests,
            visited: Vec::new(),
            trials: 0,
        })
    }

    /// Trials so far.
    pub fn trials(&self) -> u32 {
        self.trials
    }

    /// Requests issued so far.
    pub fn issued(&self) -> u64 {
        self.session.issued()
    }

    /// Virtual seconds so far.
    pub fn seconds(&self) -> f64 {
        self.session.now()
    }

    /// Runs one trial at `users` and drains the server.
    pub fn measure(&mut self, users: u32) -> Measured {
        self.trials += 1;
        let records = match self.start {
            Start::Seamless => self.seamless(users),
            Start::WarmThenBurst => {
                self.warm_up(users);
                self.burst(users)
            }
            Start::Burst => self.burst(users),
        };
        self.judge(&records)
    }

    fn seamless(&mut self, users: u32) -> Vec<RequestRecord> {
        self.session.set_level(users, 1.0, Excess::Retire);
        self.run(after((2 * users).max(60)));
        self.session.take_events();
        self.run(after(self.requests));
        let mut records = self.ended();
        records.truncate(self.requests as usize);
        self.drain();
        records
    }

    fn warm_up(&mut self, users: u32) {
        let seconds = if self.visited.contains(&users) { 30.0 } else { 60.0 };
        self.visited.push(users);
        self.session.set_level(users, 0.0, Excess::Retire);
        self.run(Wake::at(self.session.now() + seconds));
        self.drain();
    }

    fn burst(&mut self, users: u32) -> Vec<RequestRecord> {
        let first = self.session.issued();
        let beyond = first + u64::from(self.requests);
        let users = users.min(self.requests);
        self.session.set_level(users, 0.0, Excess::Retire);
        // Each request that ends is followed by one: after this many the last one is on its way.
        self.run(after(self.requests - users));
        self.session.set_level(0, 0.0, Excess::Retire);
        self.run(Wake::at(f64::INFINITY));
        let mut records = self.ended();
        // Those that end in one engine step are followed all at once: now and then one too many.
        records.retain(|record| (first..beyond).contains(&record.id));
        records
    }

    /// Lets the requests in flight end; none follows.
    fn drain(&mut self) {
        self.session.set_level(0, 0.0, Excess::Retire);
        self.run(Wake::at(f64::INFINITY));
        self.session.take_events();
    }

    fn run(&mut self, wake: Wake) {
        if wake.ended > 0 {
            // The one error is that nothing is left to wait for: the server is drained.
            drop(ready(self.session.advance(wake)));
        }
    }

    /// The requests that ended since the last look, in the order in which they did.
    fn ended(&mut self) -> Vec<RequestRecord> {
        let ended = |event| match event {
            SessionEvent::Ended(record) => Some(*record),
            SessionEvent::FirstToken { .. } => None,
        };
        self.session.take_events().into_iter().filter_map(ended).collect()
    }

    fn judge(&self, records: &[RequestRecord]) -> Measured {
        let margin = |(objective, p): &(Objective, f64)| {
            // Failed requests have no latency: the peers leave them out of the percentiles.
            let completed = records.iter().filter(|record| record.is_completed());
            let mut values: Vec<f64> =
                completed.filter_map(|record| objective.metric.of_request(record)).collect();
            values.sort_unstable_by(f64::total_cmp);
            if values.is_empty() {
                return f64::INFINITY;
            }
            let sign = if objective.op.wants_large() { -1.0 } else { 1.0 };
            let unit = if objective.metric.is_time() { 1e3 } else { 1.0 };
            sign * unit * (percentile(&values, *p) - objective.threshold)
        };
        Measured {
            margins: self.limits.iter().map(margin).collect(),
            good: records.iter().filter(|record| self.slo.is_good(record)).count() as u32,
            of: records.len() as u32,
        }
    }
}

/// After so many requests have ended.
fn after(ended: u32) -> Wake {
    Wake { at: f64::INFINITY, ended, first_tokens: u32::MAX }
}

/// The percentile as the peers take it, NumPy's default (type 7): the crate's own type 8 at the `p`
/// for which both fall on the same rank.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let n = sorted.len() as f64;
    quantile(sorted, ((n - 1.0) * p + 2.0 / 3.0) / (n + 1.0 / 3.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::sim::scenarios;

    #[test]
    fn the_percentile_is_numpys_default() {
        // numpy 2.4.6: np.percentile([1, 2, 4, 8, 16, 32, 64, 128, 256, 512], 95) and of [3, 5].
        let powers: Vec<f64> = (0..10).map(|k| f64::from(1 << k)).collect();
        assert!((percentile(&powers, 0.95) - 396.8).abs() < 1e-9);
        assert!((percentile(&[3.0, 5.0], 0.95) - 4.9).abs() < 1e-12);
        assert_eq!(percentile(&[7.0], 0.95), 7.0);
    }

    #[test]
    fn each_start_counts_exactly_its_requests_and_leaves_the_server_empty() {
        let scenario = scenarios::find("decode").unwrap();
        for start in [Start::Seamless, Start::WarmThenBurst, Start::Burst] {
            for (users, requests) in [(1, 10), (24, 10), (24, 100)] {
                let mut bench = Bench::new(&scenario, 3, start, requests).unwrap();
                assert_eq!(bench.measure(users).of, requests, "{start:?} {users} {requests}");
                assert!(bench.session.in_flight().is_empty());
            }
        }
    }

    #[test]
    fn a_burst_makes_first_tokens_late() {
        let scenario = scenarios::find("decode").unwrap();
        let ttft = |start| Bench::new(&scenario, 3, start, 200).unwrap().measure(64).margins[0];
        assert!(ttft(Start::Burst) > ttft(Start::Seamless) + 100.0);
        assert!(ttft(Start::WarmThenBurst) > ttft(Start::Seamless) + 100.0);
    }
}
