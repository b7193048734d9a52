#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::sim::presets;
use crate::workload::{ArrivalProcess, RateCurve};

fn session(seed: u64) -> SimSession {
    SimSession::new(presets::SMALL.params, presets::SMALL.traffic(), seed)
}

fn records(events: &[SessionEvent]) -> Vec<&RequestRecord> {
    events
        .iter()
        .filter_map(|event| if let SessionEvent::Ended(record) = event { Some(&**record) } else { None })
        .collect()
}

#[test]
fn keeps_exactly_its_level_in_flight() {
    let mut session = session(1);
    session.set_level(20, 2.0, Excess::Retire);
    ready(session.advance(Wake::at(3.0))).unwrap();
    for _ in 0..200 {
        ready(session.advance(Wake { at: 1e9, ended: 1, first_tokens: u32::MAX })).unwrap();
        assert_eq!(session.in_flight().len(), 20);
    }
    assert_eq!(session.issued(), 20 + records(&session.take_events()).len() as u64);
}

#[test]
fn additions_are_sent_evenly_over_the_spread() {
    let mut session = session(1);
    session.set_level(10, 5.0, Excess::Retire);
    ready(session.advance(Wake::at(8.0))).unwrap();
    let events = session.take_events();
    // A user's first request is the one with which the number of users rose.
    for user in 0..10 {
        let due = 0.5 * f64::from(user);
        assert_eq!(session.levels().at(due), user + 1);
        assert_eq!(session.levels().at(due - 1e-9), user.max(1));
        let sent =
            |event: &SessionEvent| matches!(event, SessionEvent::FirstToken { sent, .. } if *sent == due);
        assert!(events.iter().any(sent), "nothing was sent at {due}");
    }
}

#[test]
fn surplus_users_retire_as_their_requests_end() {
    let mut session = session(1);
    session.set_level(30, 0.0, Excess::Retire);
    ready(session.advance(Wake::at(2.0))).unwrap();
    session.take_events();
    let issued = session.issued();
    session.set_level(10, 0.0, Excess::Retire);
    assert_eq!(session.in_flight().len(), 30);
    ready(session.advance(Wake { at: 1e9, ended: 20, first_tokens: u32::MAX })).unwrap();
    assert_eq!(session.in_flight().len(), 10);
    let events = session.take_events();
    assert!(records(&events).iter().all(|record| record.is_completed()));
    // Those that ended in the same step as the twentieth were followed by a new request.
    assert_eq!(session.issued() - issued, records(&events).len() as u64 - 20);
}

#[test]
fn aborted_users_go_at_once_youngest_first() {
    let mut session = session(1);
    session.set_level(60, 3.0, Excess::Retire);
    ready(session.advance(Wake::at(6.0))).unwrap();
    session.take_events();
    let mut sent: Vec<f64> = session.in_flight().iter().map(|request| request.sent).collect();
    sent.sort_by(f64::total_cmp);
    session.set_level(15, 0.0, Excess::Abort);
    let now = session.now();
    let events = session.take_events();
    let gone = records(&events);
    assert_eq!((gone.len(), session.in_flight().len()), (45, 15));
    assert!(gone.iter().all(|record| record.outcome == Outcome::Cancelled && record.ended == now));
    assert!(gone.iter().all(|record| record.sent >= sent[14]));
    assert_eq!(session.levels().at(now), 15);
}

#[test]
fn every_request_ends_in_exactly_one_record() {
    let params = Params { failures: 0.05, ..presets::SMALL.params };
    let mut session = SimSession::new(params, presets::SMALL.traffic(), 4);
    let mut events = Vec::new();
    for (level, excess) in
        [(40, Excess::Retire), (90, Excess::Retire), (5, Excess::Abort), (30, Excess::Retire)]
    {
        session.set_level(level, 0.5, excess);
        ready(session.advance(Wake { at: 1e9, ended: 150, first_tokens: u32::MAX })).unwrap();
        events.extend(session.take_events());
    }
    events.extend(ready(session.close()));
    let all = records(&events);
    let mut ids: Vec<u64> = all.iter().map(|record| record.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..session.issued()).collect::<Vec<u64>>());
    assert_eq!(all.iter().filter(|record| record.outcome == Outcome::Censored).count(), 30);
    assert!(all.iter().any(|record| record.failure() == Some(Failure::Server)));
    assert!(session.in_flight().is_empty());
}

#[test]
fn events_come_in_order_of_time() {
    let mut session = session(2);
    session.set_level(60, 1.0, Excess::Retire);
    ready(session.advance(Wake::at(10.0))).unwrap();
    let times: Vec<f64> = session
        .take_events()
        .iter()
        .map(|event| match event {
            SessionEvent::FirstToken { at, .. } => *at,
            SessionEvent::Ended(record) => record.ended,
        })
        .collect();
    assert!(times.len() > 1000 && times.is_sorted());
}

#[test]
fn recorded_gaps_add_up_and_change_nothing_else() {
    let params = presets::SMALL.params;
    let mut plain = SimSession::new(params, presets::SMALL.traffic(), 3);
    let mut with_gaps = SimSession::with_gaps(params, presets::SMALL.traffic(), 3);
    let mut both = [Vec::new(), Vec::new()];
    for (session, events) in [&mut plain, &mut with_gaps].into_iter().zip(&mut both) {
        session.set_level(12, 0.2, Excess::Retire);
        ready(session.advance(Wake::at(5.0))).unwrap();
        *events = session.take_events();
    }
    let [plain, with_gaps] = &both;
    for (plain, recorded) in records(plain).into_iter().zip(records(with_gaps)) {
        assert_eq!((plain.ttft(), plain.tpot(), plain.osl), (recorded.ttft(), recorded.tpot(), recorded.osl));
        assert_eq!(recorded.gaps_us.len() as u32 + 1, recorded.osl);
        let sum: f64 = recorded.gaps_us.iter().map(|&gap| f64::from(gap) * 1e-6).sum();
        assert!((sum - (recorded.e2e().unwrap() - recorded.ttft().unwrap())).abs() < 1e-4);
    }
    assert!(records(plain).len() > 100);
}

#[test]
fn the_same_seed_gives_the_same_session() {
    let run = |seed| {
        let mut session = session(seed);
        session.set_level(25, 1.0, Excess::Retire);
        ready(session.advance(Wake::at(5.0))).unwrap();
        let events = session.take_events();
        records(&events).into_iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_empty_load_waits_until_the_instant_asked_for() {
    let mut session = session(1);
    ready(session.advance(Wake::at(7.5))).unwrap();
    assert_eq!(session.now(), 7.5);
    let forever = Wake { at: f64::INFINITY, ended: 1, first_tokens: 1 };
    assert!(ready(session.advance(forever)).is_err());
}

fn arrivals(rate: f64, process: ArrivalProcess, cap: u32) -> Arrivals {
    Arrivals { in_flight_cap: cap, ..Arrivals::new(RateCurve::Constant(rate), process, 5) }
}

#[test]
fn an_open_loop_sends_exactly_on_schedule() {
    for rate in [0.2, 5.0, 100.0] {
        let open = arrivals(rate, ArrivalProcess::Poisson, u32::MAX);
        let mut session = session(3);
        session.set_arrivals(Some(open.clone()), Excess::Retire);
        ready(session.advance(Wake::at(500.0 / rate))).unwrap();
        let mut events = session.take_events();
        events.extend(ready(session.close()));
        let mut scheduled: Vec<f64> =
            records(&events).iter().map(|record| record.scheduled.unwrap()).collect();
        scheduled.sort_by(f64::total_cmp);
        let expected: Vec<f64> = open.schedule().take(scheduled.len()).collect();
        assert_eq!(scheduled, expected);
        assert!(open.schedule().nth(scheduled.len()).unwrap() > 500.0 / rate);
        assert!(
            records(&events).iter().all(|record| record.lateness() == Some(0.0) && record.held.is_none())
        );
    }
}

#[test]
fn waiting_at_the_cap_counts_in_the_latency() {
    let mut session = session(3);
    session.set_arrivals(Some(arrivals(50.0, ArrivalProcess::Constant, 2)), Excess::Retire);
    ready(session.advance(Wake::at(4.0))).unwrap();
    assert_eq!(session.in_flight().iter().filter(|flight| flight.id != InFlight::WAITS).count(), 2);
    let events = session.take_events();
    let held: Vec<&RequestRecord> =
        records(&events).into_iter().filter(|record| record.held.is_some()).collect();
    assert!(held.len() > 10);
    for record in held {
        let held = record.held.unwrap();
        assert!((record.sent - record.scheduled.unwrap() - held).abs() < 1e-12);
        assert!(record.ttft().unwrap() > held && record.lateness() == Some(0.0));
    }
    session.set_arrivals(None, Excess::Abort);
    assert!(session.in_flight().is_empty(), "the backlog is shed");
}

#[test]
fn users_and_arrivals_follow_each_other_and_every_request_has_one_record() {
    let mut session = session(9);
    let mut events = Vec::new();
    session.set_level(6, 0.5, Excess::Retire);
    ready(session.advance(Wake::at(3.0))).unwrap();
    session.set_level(0, 0.0, Excess::Retire);
    session.set_arrivals(Some(arrivals(30.0, ArrivalProcess::Gamma { shape: 0.5 }, 64)), Excess::Retire);
    ready(session.advance(Wake::at(9.0))).unwrap();
    assert!((session.levels().mean_log(4.0, 8.0) - 30.0_f64.ln()).abs() < 1e-12);
    session.set_arrivals(None, Excess::Retire);
    session.set_level(3, 0.0, Excess::Retire);
    ready(session.advance(Wake::at(20.0))).unwrap();
    assert_eq!(session.in_flight().len(), 3);
    events.extend(session.take_events());
    events.extend(ready(session.close()));
    let mut ids: Vec<u64> = records(&events).iter().map(|record| record.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..session.issued()).collect::<Vec<u64>>());
}
