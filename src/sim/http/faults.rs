//! Misbehaviour on request: what proxies, networks and engines do to a client.

use crate::rng::Stream;
use crate::sim::model::{EarlyStop, Params};

/// Which faults the server has. Shares are of the requests, 0..1; the default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Requests answered with a plain 500, after their wait in the queue.
    pub server_errors: f64,
    /// Requests answered with 429.
    pub throttled: f64,
    /// Requests answered with a proxy's HTML page and status 502.
    pub html_errors: f64,
    /// Streams that are cut half-way.
    pub resets: f64,
    /// Streams that end half-way with an `error` object.
    pub stream_errors: f64,
    /// Streams that are held back and come in one burst at their end.
    pub buffered: f64,
    /// Connections that are closed as soon as they are opened.
    pub refused_connections: f64,
    /// Requests that end before their length, where the client does not ask to ignore EOS.
    pub early_stop: Option<EarlyStop>,
    /// Pauses of the whole server.
    pub stalls: Option<Stalls>,
    /// Tokens put together in one chunk of a stream; 0 and 1 both mean one.
    pub tokens_per_chunk: u32,
}

/// Pauses of the whole server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// Pauses a second of computing.
    pub rate: f64,
    /// Mean length, seconds (exponential).
    pub mean: f64,
}

/// What befalls one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing.
    Served,
    Throttled,
    Html,
    Reset,
    StreamError,
    Buffered,
}

impl Faults {
    /// The server with those faults that are the engine's own.
    pub(super) fn apply_to(&self, params: Params) -> Params {
        let mut params = params;
        if self.server_errors > 0.0 {
            params.failures = self.server_errors;
        }
        if self.early_stop.is_some() {
            params.early_stop = self.early_stop;
        }
        if let Some(stalls) = self.stalls {
            params.noise.stall_rate = stalls.rate;
            params.noise.stall_mean = stalls.mean;
        }
        params
    }

    /// Draws what befalls the next request; at most one thing does.
    pub(super) fn draw(&self, stream: &mut Stream) -> Fate {
        let mut at = stream.uniform();
        let shares = [
            (self.throttled, Fate::Throttled),
            (self.html_errors, Fate::Html),
            (self.resets, Fate::Reset),
            (self.stream_errors, Fate::StreamError),
            (self.buffered, Fate::Buffered),
        ];
        for (share, fate) in shares {
            at -= share;
            if at < 0.0 {
                return fate;
            }
        }
        Fate::Served
    }
}
