//! Connections: one for each user, kept as long as the server keeps it.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use plimsoll::loadgen::{Client, Excess, Failure, LiveOptions, LiveSession, Session, Wake};
use plimsoll::plan::Engine;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use crate::support::{Server, Then, failure, good_answer, records, spec, specs};

fn open(options: LiveOptions) -> (LiveSession, watch::Sender<bool>) {
    let (stop, interrupt) = watch::channel(false);
    (LiveSession::open(options, specs(), Instant::now(), interrupt).unwrap(), stop)
}

/// Sends so many requests one after the other on one link.
async fn sequence(server: &Server, count: u64) -> Vec<plimsoll::loadgen::RequestRecord> {
    let client = Client::new(&server.options(), Instant::now()).unwrap();
    let mut link = None;
    let mut all = Vec::new();
    for id in 0..count {
        let request = client.prepare(&spec(id));
        let mut intake = client.intake(&request);
        let outcome = client.perform(&mut link, &request, &mut intake, |_, _| {}).await;
        all.push(intake.into_record(client.now(), outcome));
    }
    all
}

#[tokio::test]
async fn a_kept_connection_is_used_again() {
    let server = Server::fixed(good_answer()).await;
    let records = sequence(&server, 5).await;
    assert!(records.iter().all(|record| record.is_completed() && record.resends == 0));
    assert_eq!(server.connections.load(SeqCst), 1);
}

#[tokio::test]
async fn each_user_keeps_one_connection() {
    let server = Server::fixed(good_answer()).await;
    let (mut load, _stop) = open(LiveOptions::new(server.options(), 4));
    load.set_level(4, 0.0, Excess::Retire);
    load.advance(Wake { at: 60.0, ended: 200, first_tokens: u32::MAX }).await.unwrap();
    load.close().await;
    assert_eq!(server.connections.load(SeqCst), 4);
    assert_eq!(load.health().unwrap().connects.opened, 4);
}

#[tokio::test]
async fn a_request_lost_on_a_kept_connection_is_sent_once_more_and_counted() {
    // The server drops the second request of each connection without a word.
    let server = Server::start(|mut socket, request| async move {
        if request.nth > 0 {
            return (socket, Then::Close);
        }
        let _ = socket.write_all(&good_answer()).await;
        (socket, Then::Keep)
    })
    .await;
    let records = sequence(&server, 4).await;
    assert!(records.iter().all(plimsoll::loadgen::RequestRecord::is_completed), "{records:?}");
    assert_eq!(records.iter().map(|record| record.resends).collect::<Vec<_>>(), [0, 1, 1, 1]);
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_in_between_costs_nothing() {
    let server = Server::start(|mut socket, _| async move {
        let _ = socket.write_all(&good_answer()).await;
        (socket, Then::Close)
    })
    .await;
    let client = Client::new(&server.options(), Instant::now()).unwrap();
    let mut link = None;
    for id in 0..3 {
        let request = client.prepare(&spec(id));
        let mut intake = client.intake(&request);
        let outcome = client.perform(&mut link, &request, &mut intake, |_, _| {}).await;
        let record = intake.into_record(client.now(), outcome);
        assert!(record.is_completed() && record.resends == 0, "{record:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.requests.load(SeqCst), 3);
}

#[tokio::test]
async fn a_request_lost_on_a_new_connection_is_a_failure_and_is_not_repeated() {
    let server = Server::start(|socket, _| async move { (socket, Then::Close) }).await;
    let record = server.fetch().await;
    assert_eq!(failure(&record).0, Failure::Reset);
    assert_eq!((record.resends, server.requests.load(SeqCst)), (0, 1));
}

#[tokio::test]
async fn a_request_of_which_something_came_back_is_not_repeated() {
    let server = Server::start(|mut socket, request| async move {
        if request.nth > 0 {
            let _ = socket.write_all(b"HTTP/1.1 2").await;
            return (socket, Then::Close);
        }
        let _ = socket.write_all(&good_answer()).await;
        (socket, Then::Keep)
    })
    .await;
    let records = sequence(&server, 2).await;
    assert_eq!((failure(&records[1]).0, records[1].resends), (Failure::Reset, 0));
    assert_eq!(server.requests.load(SeqCst), 2);
}

#[tokio::test]
async fn llama_server_gets_each_request_on_a_connection_of_its_own() {
    let server = Server::start(|mut socket, request| async move {
        assert!(request.head.contains("connection: close"), "{}", request.head);
        assert_eq!(request.body["ignore_eos"], true);
        let _ = socket.write_all(&good_answer()).await;
        (socket, Then::Close)
    })
    .await;
    let mut options = server.options();
    options.engine = Engine::LlamaServer;
    let (mut load, _stop) = open(LiveOptions::new(options, 2));
    load.set_level(2, 0.0, Excess::Retire);
    load.advance(Wake { at: 60.0, ended: 20, first_tokens: u32::MAX }).await.unwrap();
    let ended = records([load.take_events(), load.close().await].concat());
    assert!(ended.iter().filter(|record| record.is_completed()).count() >= 20);
    assert!(ended.iter().all(|record| record.resends == 0 && record.failure().is_none()), "{ended:?}");
    assert!(server.connections.load(SeqCst) >= 20);
    assert_eq!(server.connections.load(SeqCst), server.requests.load(SeqCst));
}
