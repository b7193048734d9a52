//! The simulated engine as a server of its own: the model played in real time, or faster, behind
//! the OpenAI API.
//!
//! It serves `/v1/chat/completions`, `/v1/completions` (streamed and whole), `/v1/models`,
//! `/tokenize`, `/health`, `/version` and `/metrics` (vLLM's names). Its tokenizer counts words,
//! see [`api`]. An answer has the length that `max_tokens` asks for; without it, the length that the
//! preset's usual load has, and the finish reason `stop`.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use plimsoll::sim::http::{Options, serve};
//! use plimsoll::sim::presets::SMALL;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! println!("http://{}", listener.local_addr()?);
//! serve(listener, SMALL, Options::default(), std::future::pending()).await
//! # }
//! ```

pub mod api;
mod faults;
mod listener;
mod metrics;
mod observer;
mod pump;
mod stream;
mod ticket;

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

use crate::rng::Stream;
use crate::sim::model::{Job, Model};
use crate::sim::presets::Preset;
use crate::sim::traffic::Shape;
use api::{Call, Refusal, Request, Tokenize};
use faults::Fate;
use pump::{Command, Pump, Snapshot, Update};
use stream::{Answer, StreamPlan};
use ticket::Ticket;

pub use faults::{Faults, Stalls};
pub use observer::{Arrived, Chunk, Notes, Observer};

/// Longest request body, bytes.
const BODY_LIMIT: usize = 64 << 20;

/// How a preset is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Virtual seconds that pass in a second of the wall clock.
    pub speed: f64,
    /// Seed of the server's noise and faults.
    pub seed: u64,
    /// Misbehaviour.
    pub faults: Faults,
    /// Key that requests must bear, if any.
    pub api_key: Option<String>,
    /// Where the server notes what it sees, if anyone wants to know.
    pub observer: Option<Observer>,
}

impl Default for Options {
    fn default() -> Self {
        Self { speed: 1.0, seed: 0, faults: Faults::default(), api_key: None, observer: None }
    }
}

/// What all handlers share.
struct Server {
    preset: Preset,
    options: Options,
    commands: Sender<Command>,
    snapshot: Arc<Mutex<Snapshot>>,
    /// Unix time of its beginning, seconds.
    started: f64,
    next: AtomicU64,
    draws: Mutex<Draws>,
}

/// The face's own random streams.
struct Draws {
    fates: Stream,
    lengths: Stream,
}

/// Serves `preset` on `listener` until `shutdown` is ready; then streams that still run are cut.
///
/// # Errors
/// When the preset or the speed cannot be simulated, or the engine's thread cannot be started.
pub async fn serve(
    listener: TcpListener,
    preset: Preset,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    if !(options.speed.is_finite() && options.speed > 0.0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`speed` is {}; it must be above 0", options.speed),
        ));
    }
    let mut preset = preset;
    preset.params = options.faults.apply_to(preset.params);
    let params = preset.params;
    params.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let snapshot = Arc::new(Mutex::new(Snapshot::default()));
    let commands = Pump::start(Model::new(params, options.seed), options.speed, Arc::clone(&snapshot))?;
    let stop = commands.clone();
    let listener = listener::Listener::new(listener, options.faults.refused_connections, options.seed);
    let draws = Draws {
        fates: Stream::new(options.seed, "http.fates"),
        lengths: Stream::new(options.seed, "http.lengths"),
    };
    let server = Arc::new(Server {
        preset,
        options,
        commands,
        snapshot,
        // A clock before 1970 is no reason not to serve.
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
        next: AtomicU64::new(0),
        draws: Mutex::new(draws),
    });
    axum::serve(listener, router(server))
        .with_graceful_shutdown(async move {
            shutdown.await;
            // Streams end with the pump; else the server would wait for them. Where the pump has
            // gone already, there is nothing to stop.
            drop(stop.send(Command::Stop));
        })
        .await
}

fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/models", get(models))
        .route("/tokenize", post(tokenize))
        .route("/health", get(|| async {}))
        .route("/version", get(version))
        .route("/metrics", get(metrics_page))
        .fallback(|| async { (StatusCode::NOT_FOUND, Json(json!({ "detail": "Not Found" }))) })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(server)
}

type Shared = State<Arc<Server>>;

async fn chat(State(server): Shared, headers: HeaderMap, body: Bytes) -> Response {
    server.generate(Call::Chat, &headers, &body).await.unwrap_or_else(Refusal::into_response)
}

async fn completion(State(server): Shared, headers: HeaderMap, body: Bytes) -> Response {
    server.generate(Call::Completion, &headers, &body).await.unwrap_or_else(Refusal::into_response)
}

async fn models(State(server): Shared, headers: HeaderMap) -> Result<Json<Value>, Refusal> {
    server.authorize(&headers)?;
    Ok(Json(json!({ "object": "list", "data": [{
        "id": server.preset.model, "object": "model", "created": 0, "owned_by": "plimsoll",
        "max_model_len": server.preset.max_model_len,
    }]})))
}

async fn tokenize(State(server): Shared, headers: HeaderMap, body: Bytes) -> Result<Json<Value>, Refusal> {
    server.authorize(&headers)?;
    parse::<Tokenize>(&body)?.answer(server.preset.max_model_len).map(Json)
}

async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION"), "engine": "plimsoll-simulated" }))
}

async fn metrics_page(State(server): Shared) -> Response {
    let snapshot = *server.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
    let page = metrics::page(&snapshot, server.preset.model, server.options.speed, server.started);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(None, format!("the body cannot be read: {error}")))
}

impl Server {
    fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(key) = &self.options.api_key else { return Ok(()) };
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match bearer.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(given) if given == key => Ok(()),
            _ => Err(Refusal::unauthorized()),
        }
    }

    async fn generate(&self, call: Call, headers: &HeaderMap, body: &[u8]) -> Result<Response, Refusal> {
        let arrived = Instant::now();
        self.authorize(headers)?;
        let (fate, natural) = self.draw();
        match fate {
            Fate::Throttled => return Err(Refusal::throttled()),
            Fate::Html => return Ok(bad_gateway()),
            _ => {}
        }
        let request: Request = parse(body)?;
        request.check(self.preset.model)?;
        let prompt_tokens = request.prompt_tokens(call)?;
        let room = self.room(prompt_tokens, request.max_tokens())?;
        let osl = match request.max_tokens() {
            Some(tokens) => tokens,
            None if request.ignore_eos => room,
            None => natural.max(request.min_tokens).min(room),
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let client_id = headers.get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let mut ticket = Ticket::new(number, client_id, self.commands.clone(), self.options.observer.clone());
        let (sender, mut updates) = unbounded_channel();
        // Where the engine would stop before the least that the client takes, it does not stop.
        let earliest = self.preset.params.early_stop.map_or(1.0, |early| early.fraction) * f64::from(osl);
        let may_stop = !request.ignore_eos && f64::from(request.min_tokens) <= earliest;
        let (after, keep) = request.names(call);
        let job = Job { id: number, arrival: 0.0, isl: prompt_tokens, osl, may_stop, after, keep };
        let submit = Command::Submit { job, arrived, updates: sender };
        self.commands.send(submit).map_err(|_| Refusal::closing())?;
        let plan = StreamPlan {
            fate,
            prompt_tokens,
            osl,
            asked: request.max_tokens().is_some() || request.ignore_eos,
            tokens_per_chunk: self.options.faults.tokens_per_chunk,
            usage: request.wants_usage(),
        };
        let model = self.preset.model;
        if !request.stream {
            return Ok(Json(stream::whole(ticket, updates, call, model, plan).await?).into_response());
        }
        // A status can only be given before the body begins, so the head waits for the first token.
        let first = updates.recv().await.ok_or_else(Refusal::closing)?;
        if matches!(first, Update::Failed) {
            ticket.answered();
            return Err(Refusal::failed());
        }
        let answer = Answer::new(ticket, updates, first, call, model, plan);
        let head =
            [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
        Ok((head, Body::from_stream(answer)).into_response())
    }

    /// What befalls the next request, and the length of its answer where the client gives none.
    fn draw(&self) -> (Fate, u32) {
        let mut draws = self.draws.lock().unwrap_or_else(PoisonError::into_inner);
        let fate = self.options.faults.draw(&mut draws.fates);
        (fate, Shape::from(self.preset.osl.clone()).sample(&mut draws.lengths))
    }

    /// Tokens that fit into the context after the prompt.
    fn room(&self, prompt: u32, asked: Option<u32>) -> Result<u32, Refusal> {
        let most = self.preset.max_model_len;
        if prompt.saturating_add(asked.unwrap_or(1)) > most {
            let wanted = asked.map_or(String::new(), |tokens| format!(" and asks for {tokens} more"));
            return Err(Refusal::bad_request(
                None,
                format!(
                    "This model's maximum context length is {most} tokens, but the request holds {prompt} prompt tokens{wanted}."
                ),
            ));
        }
        Ok(most - prompt)
    }
}

/// What a proxy answers whose upstream is gone.
fn bad_gateway() -> Response {
    let page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n";
    (StatusCode::BAD_GATEWAY, [(header::CONTENT_TYPE, "text/html")], page).into_response()
}
