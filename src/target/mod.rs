//! The server under test, and how a load is opened on it.
//!
//! [`discover`] finds out all that can be known of a live endpoint before any load; [`Live`] opens
//! loads on what was found.
//!
//! ```no_run
//! # async fn example(plan: plimsoll::plan::EndpointPlan) -> Result<(), plimsoll::target::TargetError> {
//! use plimsoll::target::discover;
//! let endpoint = discover(&plan, (512, 128), true).await?;
//! println!("{}", endpoint.description);
//! # Ok(())
//! # }
//! ```

mod access;
pub mod check;
mod embedded;
mod endpoint;
mod engine;
mod error;
mod live;
mod lock;
pub mod managed;
mod models;
mod prepare;
mod probe;
mod prompts;
mod web;

#[cfg(test)]
mod tests;

pub use embedded::Embedded;
pub use endpoint::{Description, Endpoint, discover};
pub use error::TargetError;
pub use live::{Live, Requests};
pub use lock::{EndpointLock, Holder, LockError};
pub use prepare::{Prepared, prepare};
pub use prompts::{Prompts, learn};

use crate::loadgen::{ClientOptions, Session};

/// A server on which a load can be opened.
#[allow(async_fn_in_trait)] // one thread drives a run; no caller needs the future to be Send
pub trait Target {
    /// The load.
    type Session: Session;

    /// Opens a load of nobody. Its clock starts at `clock` seconds of the run's; its first request
    /// has the number `first_request`.
    ///
    /// # Errors
    /// When this machine or the server does not allow the load.
    async fn open(&mut self, clock: f64, first_request: u64) -> Result<Self::Session, TargetError>;

    /// How the endpoint is reached, where there is one: its metrics are looked for there.
    fn client(&self) -> Option<&ClientOptions>;

    /// What is measured, for the run folder. It holds no secrets.
    fn describe(&self) -> serde_json::Value;
}
