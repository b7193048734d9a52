//! A closed loop of N keeps exactly N requests in flight, seen from the server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll::loadgen::{Excess, LiveOptions, LiveSession, Outcome, Session, SessionError, Wake};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use crate::support::{STREAM_HEAD, Server, Then, ending, http_chunk, records, specs, token};

/// Requests in flight over time, as the server sees them.
#[derive(Clone, Default)]
struct Gauge(Arc<Mutex<Vec<(Instant, i64)>>>);

impl Gauge {
    fn add(&self, change: i64) {
        let mut steps = self.0.lock().unwrap();
        let before = steps.last().map_or(0, |step| step.1);
        steps.push((Instant::now(), before + change));
    }

    /// Most requests in flight from `from` on.
    fn most_since(&self, from: Instant) -> i64 {
        let steps = self.0.lock().unwrap();
        let at = steps.partition_point(|step| step.0 <= from).saturating_sub(1);
        steps[at..].iter().map(|step| step.1).max().unwrap_or(0)
    }

    /// Share of the time from `from` to `to` during which exactly `n` were in flight.
    fn share_at(&self, n: i64, from: Instant, to: Instant) -> f64 {
        let steps = self.0.lock().unwrap();
        let ends = steps.iter().skip(1).map(|step| step.0).chain([to]);
        let at_n: Duration = steps
            .iter()
            .zip(ends)
            .filter(|(step, _)| step.1 == n)
            .map(|(step, end)| end.min(to).saturating_duration_since(step.0.max(from)))
            .sum();
        at_n.as_secs_f64() / (to - from).as_secs_f64()
    }
}

/// A server that streams four tokens over `life`, and counts a request until just before it writes
/// the end of the answer: whatever comes after that may already be the user's next request.
async fn server(gauge: Gauge, life: Duration) -> Server {
    Server::start(move |mut socket, request| {
        let gauge = gauge.clone();
        async move {
            gauge.add(1);
            // Lives differ, as those of real requests do.
            let step = life.mul_f64(0.75 + 0.05 * (request.connection % 11) as f64) / 4;
            let mut alive = socket.write_all(STREAM_HEAD.as_bytes()).await.is_ok();
            for _ in 0..4 {
                tokio::select! {
                    () = tokio::time::sleep(step) => {}
                    // The client hangs up: the request is over.
                    _ = socket.readable() => alive = false,
                }
                alive = alive && socket.write_all(&http_chunk(token("a").as_bytes())).await.is_ok();
                if !alive {
                    break;
                }
            }
            gauge.add(-1);
            let _ = socket.write_all(&[http_chunk(ending(4).as_bytes()), http_chunk(b"")].concat()).await;
            (socket, if alive { Then::Keep } else { Then::Close })
        }
    })
    .await
}

fn open(server: &Server, most: u32) -> (LiveSession, watch::Sender<bool>) {
    let (stop, interrupt) = watch::channel(false);
    let options = LiveOptions::new(server.options(), most);
    (LiveSession::open(options, specs(), Instant::now(), interrupt).unwrap(), stop)
}

/// Runs for so many seconds.
async fn run(load: &mut LiveSession, seconds: f64) -> Instant {
    load.advance(Wake::at(load.now() + seconds)).await.unwrap();
    Instant::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_sends_more_than_n_at_once_and_keeps_n_for_99_percent_of_the_time() {
    // Other work on the machine may hold either side up for a while: what must never happen is
    // checked in each round, the share of the time in the best of five.
    let mut best: f64 = 0.0;
    for _ in 0..5 {
        let gauge = Gauge::default();
        let server = server(gauge.clone(), Duration::from_millis(600)).await;
        let (mut load, _stop) = open(&server, 8);
        let start = Instant::now();
        load.set_level(8, 0.2, Excess::Retire);
        let from = run(&mut load, 0.4).await;
        let to = run(&mut load, 1.6).await;
        best = best.max(gauge.share_at(8, from, to));
        assert!(gauge.most_since(start) <= 8, "more than 8 in flight");
        load.close().await;
        if best >= 0.99 {
            return;
        }
    }
    panic!("8 in flight for only {:.1} % of the time", best * 100.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_moves_up_and_down_without_burst_or_drain() {
    let gauge = Gauge::default();
    let server = server(gauge.clone(), Duration::from_millis(200)).await;
    let (mut load, _stop) = open(&server, 12);
    let mut stages = Vec::new();
    for (level, excess) in
        [(4, Excess::Retire), (12, Excess::Retire), (6, Excess::Retire), (9, Excess::Retire)]
    {
        let from = Instant::now();
        load.set_level(level, 0.1, excess);
        let settled = run(&mut load, 0.6).await;
        let to = run(&mut load, 0.4).await;
        stages.push((i64::from(level), from, settled, to));
    }
    let mut before = 0;
    for (level, from, settled, to) in stages {
        // Above the level only those who are leaving, and never more than there were.
        assert!(gauge.most_since(from) <= 12);
        assert!(gauge.share_at(level, settled, to) > 0.5, "level {level} is not held");
        let more: f64 = (level + 1..=12).map(|n| gauge.share_at(n, settled, to)).sum();
        assert_eq!(more, 0.0, "more than {level} in flight once settled");
        // No drain on the way: at least the smaller of both levels is always being served.
        let less: f64 = (0..level.min(before) - 3).map(|n| gauge.share_at(n, from, to)).sum();
        assert_eq!(less, 0.0, "the load was drained on its way from {before} to {level}");
        before = level;
    }
    assert_eq!(load.levels().at(load.now()), 9);
    let ended = records([load.take_events(), load.close().await].concat());
    assert!(ended.iter().all(|record| record.is_completed() || record.outcome == Outcome::Censored));
    assert_eq!(ended.len() as u64, load.issued());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_cancels_the_youngest_at_once() {
    let gauge = Gauge::default();
    let server = server(gauge.clone(), Duration::from_secs(3600)).await;
    let (mut load, _stop) = open(&server, 10);
    load.set_level(10, 0.2, Excess::Retire);
    run(&mut load, 0.5).await;
    assert_eq!(load.in_flight().len(), 10);
    load.set_level(3, 0.0, Excess::Abort);
    load.advance(Wake { at: 60.0, ended: 7, first_tokens: u32::MAX }).await.unwrap();
    let ended = records(load.take_events());
    assert_eq!(ended.len(), 7);
    assert!(ended.iter().all(|record| record.outcome == Outcome::Cancelled));
    let youngest_left = load.in_flight().iter().map(|request| request.sent).fold(0.0, f64::max);
    assert!(ended.iter().all(|record| record.sent > youngest_left));
    assert_eq!((load.in_flight().len(), load.levels().at(load.now())), (3, 3));
    let rest = records(load.close().await);
    assert_eq!(rest.len(), 3);
    assert!(rest.iter().all(|record| record.outcome == Outcome::Censored));
    assert!(load.in_flight().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_join_one_by_one() {
    let gauge = Gauge::default();
    let server = server(gauge.clone(), Duration::from_secs(3600)).await;
    let (mut load, _stop) = open(&server, 5);
    load.set_level(5, 0.5, Excess::Retire);
    load.advance(Wake::at(load.now() + 1.0)).await.unwrap();
    let mut sent: Vec<f64> = load.in_flight().iter().map(|request| request.sent).collect();
    sent.sort_by(f64::total_cmp);
    assert_eq!(sent.len(), 5);
    for (user, at) in sent.iter().enumerate() {
        assert!(at - sent[0] >= 0.1 * user as f64 - 0.02, "user {user} was early: {sent:?}");
    }
    load.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_ends_the_wait_and_loses_no_record() {
    let server = server(Gauge::default(), Duration::from_millis(150)).await;
    let (mut load, stop) = open(&server, 6);
    load.set_level(6, 0.0, Excess::Retire);
    run(&mut load, 0.4).await;
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.send(true).unwrap();
        std::future::pending::<()>().await;
    });
    let error = load.advance(Wake::at(f64::INFINITY)).await.unwrap_err();
    assert!(matches!(error, SessionError::Interrupted));
    let ended = records([load.take_events(), load.close().await].concat());
    assert_eq!(ended.len() as u64, load.issued());
    assert!(ended.iter().any(|record| record.outcome == Outcome::Cancelled));
    assert!(ended.iter().any(|record| record.is_completed()));
    let mut ids: Vec<u64> = ended.iter().map(|record| record.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), ended.len(), "a request has two records");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_first_tokens_ends_with_them() {
    let server = server(Gauge::default(), Duration::from_millis(400)).await;
    let (mut load, _stop) = open(&server, 4);
    load.set_level(4, 0.0, Excess::Retire);
    load.advance(Wake { at: 60.0, ended: u32::MAX, first_tokens: 4 }).await.unwrap();
    assert!(load.take_events().len() >= 4);
    assert!(load.in_flight().iter().filter(|request| request.first.is_some()).count() >= 3);
    assert!(load.now() < 30.0);
    load.close().await;
}

#[tokio::test]
async fn a_workload_that_runs_out_says_so() {
    let server = Server::fixed(crate::support::good_answer()).await;
    let (_stop, interrupt) = watch::channel(false);
    let few = Box::new((0..5).map(crate::support::spec));
    let options = LiveOptions::new(server.options(), 2);
    let mut load = LiveSession::open(options, few, Instant::now(), interrupt).unwrap();
    load.set_level(2, 0.0, Excess::Retire);
    let error = load.advance(Wake::at(60.0)).await.unwrap_err();
    assert!(error.to_string().contains("no more requests"), "{error}");
    assert_eq!(records(load.take_events()).len(), 5);
    assert!(load.close().await.is_empty());
}
