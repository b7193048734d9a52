//! Sends one request and takes in its answer.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Instant;
//! use plimsoll::loadgen::{Client, ClientOptions};
//! use plimsoll::workload::RequestSpec;
//!
//! let client = Client::new(&ClientOptions::new("http://127.0.0.1:8000", "tiny"), Instant::now())?;
//! let spec = RequestSpec::new(0, "Once upon a time".to_owned(), 4, 64);
//! let record = client.fetch(&spec).await;
//! println!("TTFT {:?} s, {:?}", record.ttft(), record.outcome);
//! # Ok(())
//! # }
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::pki_types::ServerName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::loadgen::body::{BodyTemplate, Prepared};
use crate::loadgen::failure::{self, Fault};
use crate::loadgen::intake::Intake;
use crate::loadgen::options::{Address, ClientError, ClientOptions, Secret, tls_config};
use crate::loadgen::record::{Failure, Outcome, RequestRecord};
use crate::loadgen::wire::{Link, Socket};
use crate::plan::Api;
use crate::workload::RequestSpec;

/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Longest wait for the end of a body after `[DONE]`: some servers leave the connection open.
const CLOSING_LIMIT: Duration = Duration::from_secs(2);
/// What is read of the body of an error.
const ERROR_BODY: usize = 16 << 10;

/// The client of one endpoint, shared by all requests of a run.
pub struct Client {
    address: Address,
    uri: Uri,
    headers: HeaderMap,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    template: BodyTemplate,
    streaming: bool,
    fresh: bool,
    timeout: Duration,
    origin: Instant,
    secrets: Vec<Secret>,
    /// Where the host's name led; looked up again once a connection fails.
    resolved: Mutex<Option<Arc<[SocketAddr]>>>,
    opened: AtomicU64,
    slowest_us: AtomicU64,
}

/// What opening connections has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connects {
    /// Connections opened.
    pub opened: u64,
    /// The longest that one took to open, seconds. It is not part of any latency: a request counts
    /// as sent when its first byte is handed to the socket.
    pub slowest: f64,
}

/// How far an attempt got before it failed.
struct Broken {
    fault: Fault,
    /// Nothing had come back, on a connection that had served a request before.
    stale: bool,
}

impl Client {
    /// A client whose instants are seconds since `origin`.
    ///
    /// # Errors
    /// When the URL, a header, the certificate authority or an extra field is not usable.
    pub fn new(options: &ClientOptions, origin: Instant) -> Result<Self, ClientError> {
        let address = Address::parse(&options.url)?;
        let call = match options.api {
            Api::Chat => "chat/completions",
            Api::Completions => "completions",
        };
        let url_error = |reason: String| ClientError::Url { url: options.url.clone(), reason };
        let uri = address
            .path(call)
            .parse()
            .map_err(|error: http::uri::InvalidUri| url_error(error.to_string()))?;
        let mut headers = HeaderMap::new();
        let authority =
            HeaderValue::from_str(&address.authority).map_err(|error| url_error(error.to_string()))?;
        headers.insert(HOST, authority);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = if options.streaming { "text/event-stream" } else { "application/json" };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("plimsoll/", env!("CARGO_PKG_VERSION"))));
        if options.opens_fresh() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        headers.extend(options.header_map()?);
        let tls = if address.tls {
            let name =
                ServerName::try_from(address.host.clone()).map_err(|error| url_error(error.to_string()))?;
            Some((TlsConnector::from(Arc::new(tls_config(options.ca_pem.as_deref())?)), name))
        } else {
            None
        };
        Ok(Self {
            uri,
            headers,
            tls,
            template: BodyTemplate::new(options)?,
            streaming: options.streaming,
            fresh: options.opens_fresh(),
            timeout: options.timeout,
            origin,
            secrets: options.secrets(),
            resolved: Mutex::new(None),
            opened: AtomicU64::new(0),
            slowest_us: AtomicU64::new(0),
            address,
        })
    }

    /// Seconds since the origin.
    pub fn now(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    /// Makes a request's bytes.
    pub fn prepare(&self, spec: &RequestSpec) -> Prepared {
        self.template.prepare(spec)
    }

    /// What makes a request's bytes, to be used on another thread.
    pub(crate) fn template(&self) -> BodyTemplate {
        self.template.clone()
    }

    /// What opening connections has cost so far.
    pub fn connects(&self) -> Connects {
        Connects { opened: self.opened.load(Relaxed), slowest: self.slowest_us.load(Relaxed) as f64 * 1e-6 }
    }

    /// An intake for a request whose turn is now.
    pub fn intake(&self, request: &Prepared) -> Intake {
        let intake = Intake::new(request.id, request.isl, request.osl, self.streaming, self.now());
        match request.turn {
            Some(turn) => intake.of_turn(turn),
            None => intake,
        }
    }

    /// Sends a single request on a connection of its own.
    pub async fn fetch(&self, spec: &RequestSpec) -> RequestRecord {
        let request = self.prepare(spec);
        let mut intake = self.intake(&request);
        let outcome = self.perform(&mut None, &request, &mut intake, |_, _| {}).await;
        intake.into_record(self.now(), outcome)
    }

    /// Sends a request on `link`, or on a new connection where there is none that lives, and takes
    /// its answer in until it has ended. `on_first` hears when the request was sent and when its
    /// first token came. The link is left open where it can serve another request.
    ///
    /// Dropping the future gives the request up; what has come is in `intake`.
    pub async fn perform(
        &self,
        link: &mut Option<Link>,
        request: &Prepared,
        intake: &mut Intake,
        mut on_first: impl FnMut(f64, f64),
    ) -> Outcome {
        let attempts = self.attempts(link, request, intake, &mut on_first);
        let result = match timeout(self.timeout, attempts).await {
            Ok(result) => result,
            Err(_) => {
                *link = None;
                Err((Failure::Timeout, format!("no whole answer within {} s", self.timeout.as_secs_f64())))
            }
        };
        if self.fresh {
            *link = None;
        }
        let mut outcome = result.unwrap_or_else(failure::outcome);
        if let Outcome::Failed { detail, .. } = &mut outcome {
            *detail = failure::words(&self.redacted(detail));
        }
        outcome
    }

    async fn attempts(
        &self,
        link: &mut Option<Link>,
        request: &Prepared,
        intake: &mut Intake,
        on_first: &mut impl FnMut(f64, f64),
    ) -> Result<Outcome, Fault> {
        let mut resent = false;
        loop {
            let mut kept = link.take().filter(|_| !resent);
            if let Some(old) = &mut kept
                && !old.ready().await
            {
                kept = None;
            }
            let mut current = match kept {
                Some(old) => old,
                None => self.connect().await?,
            };
            match self.exchange(&mut current, request, intake, on_first).await {
                Ok((outcome, reusable)) => {
                    if reusable {
                        current.release();
                        *link = Some(current);
                    }
                    return Ok(outcome);
                }
                Err(broken) if broken.stale && !resent => {
                    resent = true;
                    intake.resend();
                }
                Err(broken) => return Err(broken.fault),
            }
        }
    }

    /// One try on one connection: the outcome, and whether the connection can be used again.
    async fn exchange(
        &self,
        link: &mut Link,
        request: &Prepared,
        intake: &mut Intake,
        on_first: &mut impl FnMut(f64, f64),
    ) -> Result<(Outcome, bool), Broken> {
        let response = link.send(self.http_request(request), |at| intake.sent(at)).await;
        let response = response.map_err(|error| Broken {
            fault: failure::of_exchange(&error),
            stale: link.is_reused() && !link.has_answered(),
        })?;
        let status = response.status();
        if let Some(queued) = queue_header(response.headers()) {
            intake.queued(queued);
        }
        let mut body = response.into_body();
        if !status.is_success() {
            return Ok(self.refusal(link, status, &mut body).await);
        }
        let mut heard = false;
        let whole = loop {
            let data = if intake.is_over() {
                match timeout(CLOSING_LIMIT, link.data(&mut body)).await {
                    Ok(data) => data,
                    Err(_) => break false,
                }
            } else {
                link.data(&mut body).await
            };
            match data {
                Some(Ok(data)) => intake.on_bytes(link.arrival(), &data),
                None => break true,
                Some(Err(_)) if intake.is_over() => break false,
                Some(Err(error)) => return Err(Broken { fault: failure::of_exchange(&error), stale: false }),
            }
            if !heard && let Some(first) = intake.first() {
                heard = true;
                on_first(intake.sent_at(), first);
            }
        };
        let outcome = intake.on_end(link.arrival());
        Ok((outcome, whole))
    }

    /// An answer that is not 2xx: its kind, and the first words of its body.
    async fn refusal(&self, link: &mut Link, status: StatusCode, body: &mut Incoming) -> (Outcome, bool) {
        let mut words = Vec::new();
        let mut whole = false;
        let reading = async {
            while words.len() < ERROR_BODY {
                match link.data(body).await {
                    Some(Ok(data)) => words.extend_from_slice(&data),
                    Some(Err(_)) => return,
                    None => {
                        whole = true;
                        return;
                    }
                }
            }
        };
        let _ = timeout(CLOSING_LIMIT, reading).await;
        (failure::outcome(failure::of_status(status, &words)), whole)
    }

    fn http_request(&self, request: &Prepared) -> Request<Full<Bytes>> {
        let mut http = Request::new(Full::new(request.body.clone()));
        *http.method_mut() = Method::POST;
        *http.uri_mut() = self.uri.clone();
        *http.headers_mut() = self.headers.clone();
        http
    }

    async fn connect(&self) -> Result<Link, Fault> {
        let began = Instant::now();
        let opening = async {
            let socket = self.open_socket().await?;
            let socket = match &self.tls {
                None => Socket::Plain(socket),
                Some((connector, name)) => {
                    let stream = connector.connect(name.clone(), socket).await;
                    Socket::Tls(Box::new(
                        stream.map_err(|error| failure::of_tls(&error, &self.address.authority))?,
                    ))
                }
            };
            Link::open(socket, self.origin).await.map_err(|error| (Failure::Connect, error.to_string()))
        };
        let limit = CONNECT_LIMIT.min(self.timeout);
        let opened = timeout(limit, opening).await.unwrap_or_else(|_| {
            let detail =
                format!("{}: no connection within {} s", self.address.authority, limit.as_secs_f64());
            Err((Failure::Connect, detail))
        });
        match &opened {
            Ok(_) => {
                self.opened.fetch_add(1, Relaxed);
                self.slowest_us.fetch_max(began.elapsed().as_micros() as u64, Relaxed);
            }
            Err(_) => *self.resolved() = None,
        }
        opened
    }

    /// Opens a socket to the first address that takes it.
    async fn open_socket(&self) -> Result<TcpStream, Fault> {
        let authority = self.address.authority.as_str();
        let known = self.resolved().clone();
        let addresses = match known {
            Some(addresses) => addresses,
            None => {
                let found = tokio::net::lookup_host((self.address.host.as_str(), self.address.port))
                    .await
                    .map_err(|error| failure::of_connect(&error, authority))?;
                let found: Arc<[SocketAddr]> = found.collect();
                *self.resolved() = Some(found.clone());
                found
            }
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in addresses.iter() {
            match TcpStream::connect(address)
                .await
                .and_then(|socket| socket.set_nodelay(true).map(|()| socket))
            {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(failure::of_connect(&last, authority))
    }

    fn resolved(&self) -> std::sync::MutexGuard<'_, Option<Arc<[SocketAddr]>>> {
        self.resolved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes secrets out of a text: servers like to repeat the key that they refuse.
    fn redacted(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "***"))
    }
}

/// Time in the server's queue by Text Generation Inference's header, seconds.
fn queue_header(headers: &HeaderMap) -> Option<f64> {
    let ms: f64 = headers.get("x-queue-time")?.to_str().ok()?.trim().parse().ok()?;
    (ms.is_finite() && ms >= 0.0).then_some(ms * 1e-3)
}
