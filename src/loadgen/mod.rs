//! The measurement engine: when a request may be sent, how it is sent, and what is kept of it.

pub mod delta;
pub mod record;
pub mod session;
pub mod sse;

pub use record::{Failure, Outcome, Phase, RequestRecord};
pub use session::{Excess, InFlight, LevelHistory, Session, SessionError, SessionEvent, Wake};
