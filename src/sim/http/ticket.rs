//! A request that the server has taken on: told to the pump when its client goes away.

use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sim::http::api::Call;
use crate::sim::http::observer::Observer;
use crate::sim::http::pump::Command;

/// Held as long as a request is being answered. Dropped before the answer is complete, it cancels
/// the request.
#[derive(Debug)]
pub(super) struct Ticket {
    number: u64,
    created: u64,
    commands: Sender<Command>,
    observer: Option<Observer>,
    open: bool,
}

impl Ticket {
    pub(super) fn new(
        number: u64,
        client_id: Option<String>,
        commands: Sender<Command>,
        observer: Option<Observer>,
    ) -> Self {
        if let Some(observer) = &observer {
            observer.arrived(number, client_id);
        }
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { number, created, commands, observer, open: true }
    }

    /// The response's id.
    pub(super) fn name(&self, call: Call) -> String {
        format!("{}-{}", call.id_prefix(), self.number)
    }

    /// When the request came, Unix seconds.
    pub(super) fn created(&self) -> u64 {
        self.created
    }

    /// Notes a chunk with tokens.
    pub(super) fn chunk(&self) {
        if let Some(observer) = &self.observer {
            observer.chunk(self.number);
        }
    }

    /// The answer is complete; what is left is to hand its last bytes to the connection.
    pub(super) fn answered(&mut self) {
        if std::mem::take(&mut self.open)
            && let Some(observer) = &self.observer
        {
            observer.answered();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open {
            self.answered();
            // The pump may be gone when the server closes; then there is nothing left to cancel.
            drop(self.commands.send(Command::Cancel(self.number)));
        }
    }
}
