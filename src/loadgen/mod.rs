//! The measurement engine: when a request may be sent, how it is sent, and what is kept of it.
//!
//! [`LiveSession`] is a load over the wire; [`Client`] sends single requests. Both keep raw instants
//! in [`RequestRecord`]s.

mod board;
pub mod body;
pub mod calibration;
pub mod client;
pub mod delta;
mod dispatcher;
mod engine;
pub(crate) mod failure;
mod flight;
mod gate;
pub mod health;
pub mod host;
pub mod intake;
pub mod limits;
pub mod live;
pub mod options;
mod pacer;
pub mod ports;
pub mod record;
mod repeat;
pub mod session;
pub mod sse;
mod supply;
pub(crate) mod talk;
mod tally;
pub mod wire;

pub use body::{Prepared, TurnOf};
pub use client::{Client, Connects};
pub use health::{ClientHealth, process_cpu_seconds};
pub use limits::{LimitError, ensure_open_files};
pub use live::{LiveOptions, LiveSession, OpenError};
pub use options::{Address, ClientError, ClientOptions, Secret, build_http_client};
pub use record::{Failure, Outcome, Phase, RequestRecord};
pub use session::{Excess, InFlight, LevelHistory, Session, SessionError, SessionEvent, Wake};
