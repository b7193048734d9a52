//! Takes connections in, or turns them away on request.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

use crate::rng::Stream;

/// A listener that closes a share of its connections as soon as they are open.
pub(super) struct Listener {
    inner: TcpListener,
    refused: f64,
    draws: Stream,
}

impl Listener {
    pub(super) fn new(inner: TcpListener, refused: f64, seed: u64) -> Self {
        Self { inner, refused, draws: Stream::new(seed, "http.connections") }
    }
}

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = axum::serve::Listener::accept(&mut self.inner).await;
            if self.draws.uniform() < self.refused {
                continue;
            }
            // A chunk is a small packet that must not wait for the next. Where the option cannot be
            // set the connection is broken already, and serving it will say so.
            if stream.set_nodelay(true).is_ok() {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}
