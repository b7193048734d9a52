//! One HTTP/1.1 connection that is driven by the request that uses it.
//!
//! The connection is polled within the task of its user, not in a task of its own: a token costs
//! one wake-up and no hand-over between tasks. The socket notes when bytes went out and came in, so
//! that an instant is that of the socket and not that of whoever got round to the bytes later.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::loadgen::gate::Gate;

/// When bytes moved on a socket, seconds since the origin.
#[derive(Debug)]
pub(crate) struct Stamp {
    origin: Instant,
    /// First write since [`Stamp::arm`]; not a number before it.
    wrote: AtomicU64,
    /// Latest read since [`Stamp::arm`] that brought something; not a number before it.
    read: AtomicU64,
}

impl Stamp {
    fn new(origin: Instant) -> Self {
        let stamp = Self { origin, wrote: AtomicU64::new(0), read: AtomicU64::new(0) };
        stamp.arm();
        stamp
    }

    /// Forgets what was, for the next request.
    fn arm(&self) {
        self.wrote.store(f64::NAN.to_bits(), Relaxed);
        self.read.store(f64::NAN.to_bits(), Relaxed);
    }

    fn now(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    fn note_write(&self) {
        if f64::from_bits(self.wrote.load(Relaxed)).is_nan() {
            self.wrote.store(self.now().to_bits(), Relaxed);
        }
    }

    fn note_read(&self) {
        self.read.store(self.now().to_bits(), Relaxed);
    }

    fn wrote(&self) -> Option<f64> {
        Some(f64::from_bits(self.wrote.load(Relaxed))).filter(|at| !at.is_nan())
    }

    fn read(&self) -> Option<f64> {
        Some(f64::from_bits(self.read.load(Relaxed))).filter(|at| !at.is_nan())
    }
}

/// A socket, with or without TLS.
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A socket that notes when bytes moved.
struct Stamped {
    socket: Socket,
    stamp: Arc<Stamp>,
}

impl AsyncRead for Stamped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Socket::Tls(socket) => Pin::new(socket).poll_read(cx, buf),
        };
        if buf.filled().len() > before {
            self.stamp.note_read();
        }
        polled
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stamp.note_write();
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Socket::Tls(socket) => Pin::new(socket).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stamp.note_write();
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Socket::Tls(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(socket) => socket.is_write_vectored(),
            Socket::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Socket::Tls(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Socket::Tls(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

type Connection = Pin<Box<http1::Connection<TokioIo<Stamped>, Full<Bytes>>>>;

/// One open connection, used by one request at a time.
pub struct Link {
    sender: http1::SendRequest<Full<Bytes>>,
    /// None once it has ended; it must go then, as only that tells the sender.
    connection: Option<Connection>,
    /// What the connection failed with.
    failed: Option<hyper::Error>,
    stamp: Arc<Stamp>,
    gate: Gate,
    /// Whether a request was already sent on it.
    used: bool,
}

impl Link {
    /// Speaks HTTP/1.1 on an open socket.
    pub(crate) async fn open(socket: Socket, origin: Instant) -> Result<Self, hyper::Error> {
        let stamp = Arc::new(Stamp::new(origin));
        let stamped = Stamped { socket, stamp: stamp.clone() };
        let (sender, connection) = http1::Builder::new().handshake(TokioIo::new(stamped)).await?;
        Ok(Self {
            sender,
            connection: Some(Box::pin(connection)),
            failed: None,
            stamp,
            gate: Gate::new(),
            used: false,
        })
    }

    /// Whether a request was sent on it before the present one.
    pub(crate) fn is_reused(&self) -> bool {
        self.used
    }

    /// Whether any byte came back since the request was sent.
    pub(crate) fn has_answered(&self) -> bool {
        self.stamp.read().is_some()
    }

    /// Arrival of the bytes that were handed out last; now, where none came.
    pub(crate) fn arrival(&self) -> f64 {
        self.stamp.read().unwrap_or_else(|| self.stamp.now())
    }

    /// Waits until the connection can take a request; false where it is closed.
    pub(crate) async fn ready(&mut self) -> bool {
        let Self { sender, connection, failed, gate, .. } = self;
        let ready = poll_fn(|cx| {
            gate.poll(cx, |cx| {
                drive(connection, failed, cx);
                sender.poll_ready(cx)
            })
        });
        ready.await.is_ok()
    }

    /// Sends a request and waits for the head of the answer; tells when the first byte went out.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        on_sent: impl Fn(f64),
    ) -> Result<Response<Incoming>, hyper::Error> {
        self.stamp.arm();
        let Self { sender, connection, failed, stamp, gate, .. } = self;
        let mut response = pin!(sender.send_request(request));
        let mut told = false;
        let answer = poll_fn(|cx| {
            gate.poll(cx, |cx| {
                drive(connection, failed, cx);
                if !told && let Some(at) = stamp.wrote() {
                    told = true;
                    on_sent(at);
                }
                response.as_mut().poll(cx)
            })
        })
        .await;
        answer.map_err(|error| self.reason(error))
    }

    /// Marks the connection as used, once its request has ended well.
    pub(crate) fn release(&mut self) {
        self.used = true;
    }

    /// The next piece of an answer's body.
    pub(crate) async fn data(&mut self, body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            let Self { connection, failed, gate, .. } = &mut *self;
            let frame = poll_fn(|cx| {
                gate.poll(cx, |cx| {
                    drive(connection, failed, cx);
                    Pin::new(&mut *body).poll_frame(cx)
                })
            });
            match frame.await {
                None => return None,
                Some(Err(error)) => return Some(Err(self.reason(error))),
                // A frame that is not data is trailers: nothing in them is measured.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
            }
        }
    }

    /// The connection's own error says more than "channel closed".
    fn reason(&mut self, error: hyper::Error) -> hyper::Error {
        self.failed.take().unwrap_or(error)
    }
}

/// Lets the connection read and write what it can.
fn drive(connection: &mut Option<Connection>, failed: &mut Option<hyper::Error>, cx: &mut Context<'_>) {
    let Some(running) = connection else { return };
    if let Poll::Ready(end) = running.as_mut().poll(cx) {
        *failed = end.err();
        *connection = None;
    }
}
