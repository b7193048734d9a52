//! A simulated server of a test's own, and a client that does nothing but read.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use plimsoll::sim::http::{Options, serve};
use plimsoll::sim::presets::Preset;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server.
pub struct Server {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

/// A whole answer.
pub struct Answer {
    pub status: StatusCode,
    /// The body; its frames as they arrived.
    pub frames: Vec<(Instant, Bytes)>,
    /// How the body broke off, if it did.
    pub broken: Option<String>,
}

impl Server {
    pub async fn start(preset: Preset, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { drop(stopped.await) };
        let task = tokio::spawn(serve(listener, preset, options, shutdown));
        Self { address, stop, task }
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    pub async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        let response = send(&mut self.connect().await, path, body).await.unwrap();
        read(response).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        let request = Request::get(path).header("host", "simulated").body(Full::default()).unwrap();
        read(self.connect().await.send_request(request).await.unwrap()).await
    }

    /// The value of a line of the metrics page.
    pub async fn metric(&self, name: &str) -> f64 {
        let page = self.get("/metrics").await.text();
        let line = page.lines().find(|line| line.starts_with(&format!("vllm:{name}{{")));
        let line = line.unwrap_or_else(|| panic!("`{name}` is not in\n{page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Answer {
    pub fn text(&self) -> String {
        self.frames.iter().map(|(_, frame)| std::str::from_utf8(frame).unwrap()).collect()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The payloads of the server-sent events, `[DONE]` not among them.
    pub fn chunks(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    pub fn is_done(&self) -> bool {
        self.text().ends_with("data: [DONE]\n\n")
    }
}

/// Sends a request; returns as soon as the head of the answer is there.
pub async fn send(
    sender: &mut SendRequest<Full<Bytes>>,
    path: &str,
    body: &Value,
) -> hyper::Result<Response<hyper::body::Incoming>> {
    let request = Request::post(path)
        .header("host", "simulated")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    sender.ready().await?;
    sender.send_request(request).await
}

/// Reads an answer to its end.
pub async fn read(response: Response<hyper::body::Incoming>) -> Answer {
    let mut answer = Answer { status: response.status(), frames: Vec::new(), broken: None };
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => answer.frames.push((Instant::now(), frame.into_data().unwrap_or_default())),
            Err(error) => answer.broken = Some(error.to_string()),
        }
    }
    answer
}
