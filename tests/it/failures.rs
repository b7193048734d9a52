//! Every way to fail has its kind and words that help.

use std::time::{Duration, Instant};

use plimsoll::loadgen::Failure::{self, *};
use plimsoll::loadgen::{ClientOptions, Excess, LiveOptions, LiveSession, Session, SessionError, Wake};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::support::{
    STREAM_HEAD, Server, Then, chunked, failure, fetch, http_chunk, plain, records, specs, token,
};

async fn fixed(response: impl Into<Vec<u8>>) -> (Failure, String) {
    failure(&Server::fixed(response).await.fetch().await)
}

#[tokio::test]
async fn each_bad_answer_has_its_kind() {
    let json = "application/json";
    let error = r#"{"error":{"message":"The model `x` does not exist.","code":404}}"#;
    let page = "<!DOCTYPE html><html><head><title>Welcome to nginx</title></head></html>";
    let cases: Vec<(Vec<u8>, Failure, &str)> = vec![
        (plain("404 Not Found", json, error).into(), Client, "The model `x` does not exist."),
        (plain("401 Unauthorized", json, "").into(), Client, "HTTP 401"),
        (plain("429 Too Many Requests", json, r#"{"detail":"slow down"}"#).into(), Throttled, "slow down"),
        (plain("503 Service Unavailable", "text/plain", "busy").into(), Server, "busy"),
        (plain("502 Bad Gateway", "text/html", page).into(), Server, "HTML page (`Welcome to nginx`)"),
        (plain("302 Found", json, "").into(), Malformed, "HTTP 302"),
        (plain("200 OK", "text/html", page).into(), Malformed, "HTML page (`Welcome to nginx`), not the API"),
        (plain("200 OK", json, r#"{"status":"ok"}"#).into(), Malformed, "no `choices`"),
        (plain("200 OK", json, error).into(), InStream, "does not exist"),
        (plain("200 OK", json, "").into(), Malformed, "empty"),
        (chunked(&[b"data: {broken\n\n"]), Malformed, "{broken"),
        (chunked(&[b"data: [DONE]\n\n"]), Malformed, "no token"),
        (chunked(&[token("a").as_bytes()]), Reset, "without a finish reason"),
        (
            chunked(&[token("a").as_bytes(), b"data: {\"error\":{\"message\":\"CUDA out of memory\"}}\n\n"]),
            InStream,
            "CUDA out of memory",
        ),
        (chunked(&[b"event: error\ndata: \"overloaded\"\n\n"]), InStream, "overloaded"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec(), Malformed, "not HTTP"),
    ];
    for (response, cause, words) in cases {
        let (kind, detail) = fixed(response).await;
        assert_eq!(kind, cause, "{detail}");
        assert!(detail.contains(words), "{detail:?} should hold {words:?}");
    }
}

#[tokio::test]
async fn a_connection_cut_in_mid_stream_is_a_reset_and_keeps_what_came() {
    let server = Server::start(|mut socket, _| async move {
        let body = http_chunk([token("a"), token("b")].concat().as_bytes());
        let _ = socket.write_all(&[STREAM_HEAD.as_bytes(), &body].concat()).await;
        (socket, Then::Close)
    })
    .await;
    let record = server.fetch().await;
    assert_eq!(failure(&record).0, Reset);
    assert_eq!((record.first.is_some(), record.gaps_us.len(), record.last), (true, 1, None));
    assert_eq!(server.requests.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn silence_and_a_stall_are_timeouts() {
    for head in ["", STREAM_HEAD] {
        let server = Server::start(move |mut socket, _| async move {
            let _ = socket.write_all(head.as_bytes()).await;
            std::future::pending::<()>().await;
            (socket, Then::Keep)
        })
        .await;
        let mut options = server.options();
        options.timeout = Duration::from_millis(80);
        let record = fetch(&options).await;
        assert_eq!(failure(&record).0, Timeout);
        assert!(record.ended - record.sent > 0.05);
    }
}

/// A port of this machine on which nothing listens.
async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn a_closed_port_and_an_unknown_host_are_failures_to_connect() {
    let port = closed_port().await;
    let (kind, detail) = failure(&fetch(&ClientOptions::new(format!("http://127.0.0.1:{port}"), "m")).await);
    assert_eq!((kind, detail), (Connect, format!("127.0.0.1:{port}: connection refused")));
    let (kind, detail) = failure(&fetch(&ClientOptions::new("http://no-such-host.invalid:80", "m")).await);
    assert_eq!(kind, Connect);
    assert!(detail.contains("no-such-host.invalid"), "{detail}");
}

#[tokio::test]
async fn tls_to_a_plain_port_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let mut options = ClientOptions::new(format!("https://127.0.0.1:{port}"), "m");
    options.ca_pem = Some(include_bytes!("../data/ca.pem").to_vec());
    let (kind, detail) = failure(&fetch(&options).await);
    assert_eq!(kind, Tls, "{detail}");
    assert!(detail.contains("plain http"), "{detail}");
}

#[tokio::test]
async fn an_unreachable_target_ends_the_load_and_is_not_hammered() {
    let url = format!("http://127.0.0.1:{}", closed_port().await);
    let (_stop, interrupt) = watch::channel(false);
    let options = LiveOptions::new(ClientOptions::new(url, "m"), 8);
    let mut load = LiveSession::open(options, specs(), Instant::now(), interrupt).unwrap();
    load.set_level(4, 0.0, Excess::Retire);
    let error = load.advance(Wake::at(60.0)).await.unwrap_err();
    assert!(matches!(&error, SessionError::Unreachable { cause: Connect, .. }), "{error}");
    assert!(error.to_string().contains("connection refused"), "{error}");
    let ended = records([load.take_events(), load.close().await].concat());
    assert_eq!(ended.len() as u64, load.issued());
    // Pauses of 50, 100, 200, 400, 800 and 1600 ms make at most 7 tries of each user in 3 s.
    assert!(load.now() > 2.0 && ended.len() <= 4 * (7 + load.now() as usize), "{} tries", ended.len());
}

#[tokio::test]
async fn a_failing_server_is_not_hammered() {
    let server = Server::fixed(plain("500 Internal Server Error", "text/plain", "no")).await;
    let (_stop, interrupt) = watch::channel(false);
    let options = LiveOptions::new(server.options(), 8);
    let mut load = LiveSession::open(options, specs(), Instant::now(), interrupt).unwrap();
    load.set_level(2, 0.0, Excess::Retire);
    load.advance(Wake::at(1.0)).await.unwrap();
    // 0, 50, 150, 350, 750 ms: five tries of each user within the first second.
    let tries = records(load.take_events()).len();
    assert!((2..=10).contains(&tries), "{tries} tries");
    load.close().await;
}
