//! An open loop sends what its schedule says, whatever the server makes of it, and latency counts from
//! the schedule.

use std::time::{Duration, Instant};

use plimsoll::loadgen::{Excess, InFlight, LiveOptions, LiveSession, Outcome, RequestRecord, Session, Wake};
use plimsoll::workload::{ArrivalProcess, Arrivals, RateCurve};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use crate::support::{Server, Then, good_answer, records, specs};

/// A server that answers after `wait`.
async fn server(wait: Duration) -> Server {
    Server::start(move |mut socket, _| async move {
        let open = tokio::select! {
            () = tokio::time::sleep(wait) => socket.write_all(&good_answer()).await.is_ok(),
            _ = socket.readable() => false,
        };
        (socket, if open { Then::Keep } else { Then::Close })
    })
    .await
}

fn open(server: &Server) -> (LiveSession, watch::Sender<bool>) {
    let (stop, interrupt) = watch::channel(false);
    let options = LiveOptions::new(server.options(), 256);
    (LiveSession::open(options, specs(), Instant::now(), interrupt).unwrap(), stop)
}

fn arrivals(rate: f64, cap: u32) -> Arrivals {
    let curve = RateCurve::Constant(rate);
    Arrivals { in_flight_cap: cap, ..Arrivals::new(curve, ArrivalProcess::Poisson, 11) }
}

/// The instants that the records say they were scheduled for, ascending, less the first one's offset.
fn scheduled(records: &[RequestRecord]) -> Vec<f64> {
    let mut all: Vec<f64> = records.iter().filter_map(|record| record.scheduled).collect();
    all.sort_by(f64::total_cmp);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_arrival_of_the_schedule_is_sent_once_and_reaches_the_server() {
    let server = server(Duration::from_millis(20)).await;
    let (mut load, _stop) = open(&server);
    load.set_arrivals(Some(arrivals(300.0, u32::MAX)), Excess::Retire);
    load.advance(Wake::at(load.now() + 1.0)).await.unwrap();
    load.set_arrivals(None, Excess::Retire);
    // All that was sent is answered.
    while !load.in_flight().is_empty() {
        load.advance(Wake { at: load.now() + 0.05, ended: u32::MAX, first_tokens: u32::MAX }).await.unwrap();
    }
    let ended = records(load.take_events());
    assert!(ended.iter().all(RequestRecord::is_completed));
    assert_eq!(ended.len() as u64, load.issued());
    assert_eq!(ended.len(), server.requests.load(std::sync::atomic::Ordering::SeqCst));
    let instants = scheduled(&ended);
    let offsets: Vec<f64> = arrivals(300.0, u32::MAX).schedule().take(instants.len()).collect();
    let began = instants[0] - offsets[0];
    for (instant, offset) in instants.iter().zip(&offsets) {
        assert!((instant - began - offset).abs() < 1e-9, "{instant} is not on schedule");
    }
    for record in &ended {
        assert!(record.sent >= record.scheduled.unwrap(), "{} was sent early", record.id);
        assert!(record.ttft().unwrap() >= record.first.unwrap() - record.sent);
    }
    load.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wait_at_the_cap_counts_in_the_latency_and_nothing_is_dropped() {
    let server = server(Duration::from_millis(50)).await;
    let (mut load, _stop) = open(&server);
    // Two at once carry 40 a second: of 200 a second most wait.
    load.set_arrivals(Some(arrivals(200.0, 2)), Excess::Retire);
    load.advance(Wake::at(load.now() + 0.5)).await.unwrap();
    load.set_arrivals(None, Excess::Retire);
    assert!(load.in_flight().iter().filter(|flight| flight.id != InFlight::WAITS).count() <= 2);
    while !load.in_flight().is_empty() {
        load.advance(Wake { at: load.now() + 0.05, ended: u32::MAX, first_tokens: u32::MAX }).await.unwrap();
    }
    let ended = records(load.take_events());
    assert_eq!(ended.len() as u64, load.issued());
    let offsets: Vec<f64> = arrivals(200.0, 2).schedule().take(ended.len()).collect();
    let instants = scheduled(&ended);
    assert!((instants.last().unwrap() - instants[0] - (offsets.last().unwrap() - offsets[0])).abs() < 1e-9);
    let held: Vec<&RequestRecord> = ended.iter().filter(|record| record.held.is_some()).collect();
    assert!(held.len() > ended.len() / 2, "{} of {}", held.len(), ended.len());
    for record in held {
        assert!(record.ttft().unwrap() > record.held.unwrap());
    }
    load.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_shed_at_once_and_users_can_follow() {
    let server = server(Duration::from_secs(3600)).await;
    let (mut load, _stop) = open(&server);
    load.set_arrivals(Some(arrivals(400.0, 20)), Excess::Retire);
    load.advance(Wake::at(load.now() + 0.5)).await.unwrap();
    assert!(load.in_flight().len() > 20);
    load.set_arrivals(None, Excess::Abort);
    load.advance(Wake { at: 60.0, ended: 20, first_tokens: u32::MAX }).await.unwrap();
    let ended = records(load.take_events());
    assert_eq!(ended.len(), 20);
    assert!(ended.iter().all(|record| record.outcome == Outcome::Cancelled));
    assert!(load.in_flight().is_empty());
    load.set_level(3, 0.0, Excess::Retire);
    load.advance(Wake::at(load.now() + 0.3)).await.unwrap();
    assert_eq!((load.in_flight().len(), load.levels().at(load.now())), (3, 3));
    assert_eq!(load.close().await.len(), 3);
}
