//! Trials on a server whose every latency is known: it answers in 10 ms, whatever the load, and stands
//! still for the first half second of each ten.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::loadgen::record::Outcome;
use crate::loadgen::session::{InFlight, LevelHistory};
use crate::search::trial::Settle;
use crate::sim::session::ready;
use crate::verdict::VoidReason;
use crate::workload::{ArrivalProcess, Arrivals, Schedule};

const SERVICE: f64 = 0.01;
const STALL: f64 = 0.5;
const EVERY: f64 = 10.0;

#[derive(Default)]
struct Stalling {
    now: f64,
    issued: u64,
    users: u32,
    arrivals: Option<(Schedule, f64)>,
    due: Option<f64>,
    /// `(ends, record)`, unordered.
    flying: Vec<(f64, RequestRecord)>,
    events: Vec<SessionEvent>,
    levels: LevelHistory,
    /// How late the client is with each send of an open loop, seconds.
    late: f64,
    /// Served a second, where the server is not as quick as the load; in order of arrival.
    capacity: Option<f64>,
    free: f64,
}

impl Stalling {
    /// When a request that is sent at an instant ends.
    fn ends(&mut self, sent: f64) -> f64 {
        if let Some(capacity) = self.capacity {
            self.free = self.free.max(sent) + 1.0 / capacity;
            return self.free;
        }
        let stalled = |at: f64| at.rem_euclid(EVERY) < STALL;
        let end = sent + SERVICE;
        if stalled(sent) || stalled(end) { (end / EVERY).floor() * EVERY + STALL + SERVICE } else { end }
    }

    fn send(&mut self, scheduled: Option<f64>, sent: f64) {
        let ended = self.ends(sent);
        let record = RequestRecord {
            id: self.issued,
            trial: 0,
            phase: Phase::Transient,
            scheduled,
            held: None,
            sent,
            first: Some(ended),
            last: Some(ended),
            ended,
            gaps_us: Vec::new(),
            chunk_tokens: Vec::new(),
            isl: 1,
            isl_server: None,
            osl: 1,
            osl_server: None,
            outcome: Outcome::Completed { finish: None },
            resends: 0,
            queued: None,
            session: None,
            turn: None,
            context_full: false,
        };
        self.issued += 1;
        self.flying.push((ended, record));
    }

    fn draw(&mut self) {
        self.due = self
            .arrivals
            .as_mut()
            .and_then(|(schedule, began)| schedule.next().map(|offset| *began + offset));
    }
}

impl Session for Stalling {
    fn now(&self) -> f64 {
        self.now
    }

    fn set_level(&mut self, users: u32, _: f64, _: Excess) {
        for _ in self.users..users {
            self.send(None, self.now);
        }
        self.users = users;
        self.levels.push(self.now, users);
    }

    fn set_arrivals(&mut self, arrivals: Option<Arrivals>, _: Excess) {
        self.arrivals = arrivals.map(|arrivals| (arrivals.schedule(), self.now));
        self.draw();
    }

    async fn advance(&mut self, wake: Wake) -> Result<(), SessionError> {
        let mut ended = 0;
        while ended < wake.ended.min(wake.first_tokens) {
            let next_end = self.flying.iter().map(|(ends, _)| *ends).fold(f64::INFINITY, f64::min);
            let due = self.due.unwrap_or(f64::INFINITY);
            let next = next_end.min(due);
            if next > wake.at {
                self.now = self.now.max(wake.at);
                return Ok(());
            }
            self.now = next;
            if due <= next_end {
                self.send(Some(due), due + self.late);
                self.draw();
                continue;
            }
            let index = self.flying.iter().position(|(ends, _)| *ends == next_end).unwrap();
            let (_, record) = self.flying.swap_remove(index);
            let of_user = record.scheduled.is_none();
            self.events.push(SessionEvent::Ended(Box::new(record)));
            ended += 1;
            if of_user && self.users > 0 {
                self.send(None, self.now);
            }
        }
        Ok(())
    }

    fn take_events(&mut self) -> Vec<SessionEvent> {
        std::mem::take(&mut self.events)
    }

    fn in_flight(&self) -> Vec<InFlight> {
        let flight = |(_, record): &(f64, RequestRecord)| InFlight {
            id: record.id,
            scheduled: record.scheduled,
            sent: record.sent,
            first: None,
            latest: None,
            tokens: 0,
            turn: None,
        };
        self.flying.iter().map(flight).collect()
    }

    fn levels(&self) -> &LevelHistory {
        &self.levels
    }

    fn issued(&self) -> u64 {
        self.issued
    }

    async fn close(&mut self) -> Vec<SessionEvent> {
        self.take_events()
    }
}

fn run(session: Stalling, load: Load, seconds: f64, slo: &str) -> TrialOutcome {
    let slo = Slo::parse([slo]).unwrap();
    let open = OpenLoad { process: ArrivalProcess::Constant, in_flight_cap: u32::MAX, seed: 1, curve: None };
    let mut trials = Trials::new(session, slo, Budget::default(), 1, true).with_open_loop(Some(open));
    let spec = TrialSpec {
        load,
        kind: TrialKind::Measure,
        retreat: false,
        settle: Settle { completions_per_user: 1.0, truncate: false },
        rule: StopRule::Fixed { requests: 1, min_seconds: seconds, max_seconds: seconds },
    };
    ready(trials.run(&spec, &mut |_| {})).unwrap().outcome
}

#[test]
fn an_open_loop_shows_a_stall_that_a_closed_loop_hides() {
    // 100 a second: of the 1,000 of each 10 s those that are due up to 10 ms before the stall or within
    // it wait for its end, 520 ms, 510 ms, 500 ms and so on. Ten of a thousand wait 430 ms or longer,
    // the eleventh 420 ms: there is the 99th percentile.
    let open = run(Stalling::default(), Load::RequestRate(100.0), 400.0, "ttft p99 < 1s");
    let p99 = open.summary.metrics["ttft"].p99;
    assert!((p99 - 0.425).abs() < 0.0051, "{p99}");
    // A user sends one request into each stall and then waits for it: 1 of some 950.
    let closed = run(Stalling::default(), Load::Concurrency(1), 400.0, "ttft p99 < 1s");
    let p99 = closed.summary.metrics["ttft"].p99;
    assert!((p99 - SERVICE).abs() < 1e-6, "{p99}");
}

#[test]
fn a_late_client_voids_the_trial_and_its_lateness_counts_in_the_latency() {
    for (late, void) in [(0.04, false), (0.06, true)] {
        let session = Stalling { late, ..Stalling::default() };
        let outcome = run(session, Load::RequestRate(20.0), 30.0, "ttft p99 < 500ms");
        let lateness = outcome.arrivals.unwrap().lateness_p99;
        assert!((lateness - late).abs() < 1e-9, "{lateness}");
        assert_eq!(matches!(outcome.verdict, Verdict::Void(VoidReason::LateSends { .. })), void);
        assert!((outcome.summary.metrics["ttft"].min - SERVICE - late).abs() < 1e-9);
    }
}

#[test]
fn a_rate_above_the_capacity_is_called_unstable_long_before_the_limit_is_broken() {
    // The queue grows by 6 s a minute: the limit of an hour would be broken after ten.
    let slow = || Stalling { capacity: Some(20.0), ..Stalling::default() };
    let outcome = run(slow(), Load::RequestRate(22.0), 600.0, "ttft p99 < 3600s");
    let arrivals = outcome.arrivals.unwrap();
    assert_eq!(outcome.verdict, Verdict::Missed);
    assert!(arrivals.unstable && (arrivals.growth - 2.0).abs() < 0.3, "{arrivals:?}");
    assert!(outcome.ended < 60.0, "{}", outcome.ended);
    let outcome = run(slow(), Load::RequestRate(19.0), 600.0, "ttft p99 < 3600s");
    assert_eq!((outcome.verdict, outcome.arrivals.unwrap().unstable), (Verdict::Met, false));
}

#[test]
fn a_trace_is_sent_whole_at_its_instants_and_measured_to_its_last_answer() {
    let instants: std::sync::Arc<[f64]> = [0.0, 0.5, 0.5, 3.0].into();
    for speed_up in [1.0, 4.0] {
        let open =
            OpenLoad { process: ArrivalProcess::Poisson, in_flight_cap: u32::MAX, seed: 1, curve: None };
        let slo = Slo::parse(["ttft p95 < 1s"]).unwrap();
        let mut trials = Trials::new(Stalling::default(), slo, Budget::default(), 1, true)
            .with_open_loop(Some(open.at(Some(instants.clone()))));
        let spec = TrialSpec {
            load: Load::RequestRate(4.0 / 3.0 * speed_up),
            kind: TrialKind::Measure,
            retreat: false,
            settle: Settle { completions_per_user: 1.5, truncate: false },
            rule: StopRule::Fixed { requests: u32::MAX, min_seconds: 1.0, max_seconds: 2.0 },
        };
        let finished = ready(trials.run(&spec, &mut |_| {})).unwrap();
        let mut scheduled: Vec<f64> = finished.records.iter().filter_map(|record| record.scheduled).collect();
        scheduled.sort_unstable_by(f64::total_cmp);
        let offsets: Vec<f64> = scheduled.iter().map(|at| at - scheduled[0]).collect();
        assert_eq!(offsets.len(), 4, "{offsets:?}");
        for (offset, instant) in offsets.iter().zip(&*instants) {
            assert!((offset - instant / speed_up).abs() < 1e-9, "{offsets:?}");
        }
        assert_eq!(finished.outcome.arrivals.unwrap().due, 4);
    }
}
