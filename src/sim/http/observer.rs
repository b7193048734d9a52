//! What the server itself sees of the load: for tests and benchmarks of a client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Notes of a running server, shared with whoever wants to compare them with a client's.
#[derive(Clone, Debug)]
pub struct Observer {
    epoch: Instant,
    notes: Arc<Mutex<Notes>>,
}

/// The notes. Instants are seconds since the observer was made, on the monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Requests in flight at the server, each time that it changed: from the request's last byte
    /// to just before the response's last chunk.
    pub in_flight: Vec<(f64, u32)>,
    /// The requests, in order of arrival.
    pub requests: Vec<Arrived>,
    /// Chunks with tokens, as they were handed to the connection.
    pub chunks: Vec<Chunk>,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// The server's number of it; responses are called `chatcmpl-<number>` or `cmpl-<number>`.
    pub number: u64,
    /// When.
    pub at: f64,
    /// Its `x-request-id` header.
    pub client_id: Option<String>,
}

/// A chunk with tokens.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// The server's number of the request.
    pub number: u64,
    /// When it was handed to the connection.
    pub at: f64,
}

impl Observer {
    /// Begins now.
    pub fn new() -> Self {
        Self { epoch: Instant::now(), notes: Arc::default() }
    }

    /// The instant that the notes count from.
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// The notes so far; the server waits while they are held.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    pub(super) fn arrived(&self, number: u64, client_id: Option<String>) {
        let mut notes = self.notes();
        let at = self.now();
        let flying = notes.in_flight.last().map_or(0, |&(_, flying)| flying);
        notes.in_flight.push((at, flying + 1));
        notes.requests.push(Arrived { number, at, client_id });
    }

    pub(super) fn answered(&self) {
        let mut notes = self.notes();
        let at = self.now();
        let flying = notes.in_flight.last().map_or(0, |&(_, flying)| flying);
        notes.in_flight.push((at, flying.saturating_sub(1)));
    }

    pub(super) fn chunk(&self, number: u64) {
        let mut notes = self.notes();
        let at = self.now();
        notes.chunks.push(Chunk { number, at });
    }
}

impl Default for Observer {
    fn default() -> Self {
        Self::new()
    }
}
