//! The simulated engine: a continuous-batching server whose physics are known.
//!
//! [`model`] is the server itself in virtual time: no clock, no I/O, one seed. [`session`] drives it
//! as a load of closed-loop users, so that whole searches run in virtual time.

pub mod fleet;
pub mod http;
pub mod knobs;
pub mod model;
pub mod open_loop;
pub mod presets;
pub mod scenarios;
pub mod session;
pub mod traffic;
pub mod truth;
