//! Loads on a live endpoint.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::loadgen::{ClientOptions, LiveOptions, LiveSession, OpenError};
use crate::target::{Endpoint, Target, TargetError};
use crate::workload::RequestSpec;

/// Makes the requests of a load, from the number given on.
pub type Requests = Box<dyn FnMut(u64) -> Box<dyn Iterator<Item = RequestSpec> + Send> + Send>;

/// A live endpoint on which loads are opened.
pub struct Live {
    endpoint: Endpoint,
    options: LiveOptions,
    requests: Requests,
    interrupt: watch::Receiver<bool>,
}

impl Live {
    /// Loads of up to `most_users` on `endpoint`. `interrupt` turns true when the operator asks to
    /// stop.
    pub fn new(
        endpoint: Endpoint,
        most_users: u32,
        requests: Requests,
        interrupt: watch::Receiver<bool>,
    ) -> Self {
        let options = LiveOptions::new(endpoint.options.clone(), most_users);
        Self { endpoint, options, requests, interrupt }
    }

    /// The same, with the load run as `change` wants it (threads, a server within this process).
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut LiveOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// What is measured.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Target for Live {
    type Session = LiveSession;

    async fn open(&mut self, clock: f64, first_request: u64) -> Result<LiveSession, TargetError> {
        let origin =
            Duration::try_from_secs_f64(clock).ok().and_then(|past| Instant::now().checked_sub(past));
        let origin = origin.ok_or_else(|| {
            let reason = format!("the clock cannot start at {clock} s");
            TargetError::Open(OpenError::System(io::Error::other(reason)))
        })?;
        let requests = (self.requests)(first_request);
        let options = LiveOptions { first_request, ..self.options.clone() };
        Ok(LiveSession::open(options, requests, origin, self.interrupt.clone())?)
    }

    fn client(&self) -> Option<&ClientOptions> {
        Some(&self.options.client)
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!(self.endpoint.description)
    }
}
