//! A server of raw sockets that does exactly what a test says, and helpers around the client.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use plimsoll::loadgen::{Client, ClientOptions, Outcome, RequestRecord, SessionEvent};
use plimsoll::workload::RequestSpec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came in.
pub struct Received {
    /// Number of the connection, from 0.
    pub connection: usize,
    /// Number of the request on its connection, from 0.
    pub nth: usize,
    pub head: String,
    pub body: serde_json::Value,
}

/// What becomes of a connection after a request.
#[derive(Clone, Copy, PartialEq)]
pub enum Then {
    Keep,
    Close,
}

/// A listening server; its tasks end with the runtime of the test.
pub struct Server {
    pub addr: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    pub requests: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each request by what `handler` writes.
    pub async fn start<F, Fut>(handler: F) -> Self
    where
        F: Fn(TcpStream, Received) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = (TcpStream, Then)> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (opened, served) = (connections.clone(), requests.clone());
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                socket.set_nodelay(true).unwrap();
                let connection = opened.fetch_add(1, SeqCst);
                let (handler, served) = (handler.clone(), served.clone());
                tokio::spawn(async move {
                    for nth in 0.. {
                        let Some((head, body)) = read_request(&mut socket).await else { return };
                        served.fetch_add(1, SeqCst);
                        let then;
                        (socket, then) = handler(socket, Received { connection, nth, head, body }).await;
                        if then == Then::Close {
                            return;
                        }
                    }
                });
            }
        });
        Self { addr, connections, requests }
    }

    /// Answers each request with the same bytes and keeps the connection.
    pub async fn fixed(response: impl Into<Vec<u8>>) -> Self {
        let response: Arc<Vec<u8>> = Arc::new(response.into());
        Self::start(move |mut socket, _| {
            let response = response.clone();
            async move {
                let _ = socket.write_all(&response).await;
                (socket, Then::Keep)
            }
        })
        .await
    }

    pub fn options(&self) -> ClientOptions {
        ClientOptions::new(format!("http://{}", self.addr), "m")
    }

    /// Sends one request and gives its record.
    pub async fn fetch(&self) -> RequestRecord {
        fetch(&self.options()).await
    }
}

/// Sends one request and gives its record.
pub async fn fetch(options: &ClientOptions) -> RequestRecord {
    Client::new(options, Instant::now()).unwrap().fetch(&spec(0)).await
}

pub fn spec(id: u64) -> RequestSpec {
    RequestSpec::new(id, format!("prompt {id}"), 8, 4)
}

pub fn specs() -> Box<dyn Iterator<Item = RequestSpec> + Send> {
    Box::new((0..).map(spec))
}

async fn read_request(socket: &mut TcpStream) -> Option<(String, serde_json::Value)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if bytes.len() >= end + 4 + length.parse::<usize>().unwrap() {
                return Some((head, serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default()));
            }
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Head of a chunked event stream.
pub const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk of HTTP's chunked encoding; the empty one ends the body.
pub fn http_chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// A whole chunked answer whose body comes in these pieces.
pub fn chunked(pieces: &[&[u8]]) -> Vec<u8> {
    let mut bytes = STREAM_HEAD.as_bytes().to_vec();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        bytes.extend(http_chunk(piece));
    }
    bytes.extend(http_chunk(b""));
    bytes
}

/// An answer with a length.
pub fn plain(status: &str, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// An event with one token.
pub fn token(text: &str) -> String {
    format!("data: {}\n\n", serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

/// The events that end a stream of so many tokens.
pub fn ending(tokens: u32) -> String {
    format!(
        "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        serde_json::json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}),
        serde_json::json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}}),
    )
}

/// A whole good answer of four tokens.
pub fn good_answer() -> Vec<u8> {
    let tokens: String = ["a", "b", "c", "d"].map(token).concat();
    chunked(&[tokens.as_bytes(), ending(4).as_bytes()])
}

/// The records among some events.
pub fn records(events: Vec<SessionEvent>) -> Vec<RequestRecord> {
    let record = |event| match event {
        SessionEvent::Ended(record) => Some(*record),
        SessionEvent::FirstToken { .. } => None,
    };
    events.into_iter().filter_map(record).collect()
}

/// Kind and detail of a failure.
pub fn failure(record: &RequestRecord) -> (plimsoll::loadgen::Failure, String) {
    match &record.outcome {
        Outcome::Failed { cause, detail } => (*cause, detail.clone()),
        other => panic!("not a failure: {other:?}"),
    }
}
