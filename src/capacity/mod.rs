//! How many servers a load needs, from what a finished run measured on one of them.
//!
//! The count is that of goodput under the SLO, taken at the lower end of its interval, with room for
//! forecast errors, for the bursts of open arrivals and for servers that are lost. The count that a
//! throughput figure would give stands beside it: it is too small, because a server's throughput goes
//! on rising, or stays, where its latency has left the SLO. `docs/plan.md` has the formulas.
//!
//! ```
//! use plimsoll::capacity::{Level, Policy, Server, fleet};
//! // 500 requests a second on servers that complete 13.3 a second at their best, 3.72 in the SLO.
//! let server = Server::of_rates(Level::exact(3.72), 13.3);
//! let fleet = fleet(&server, 500.0, &Policy::bare()).unwrap();
//! assert_eq!((fleet.by_throughput.servers, fleet.servers), (38, 135));
//! ```

mod burst;
mod curve;
mod demand;
mod fleet;
mod policy;
mod relax;
mod series;
mod server;
#[cfg(test)]
mod tests;

pub use burst::{Burst, share_above};
pub use curve::Curve;
pub use demand::{Demand, DemandError};
pub use fleet::{ByThroughput, CapacityError, Fleet, Range, Steps, fleet};
pub use policy::Policy;
pub use relax::{Relaxed, relaxations};
pub use series::{Hour, Series, SeriesError, SeriesPlan, series_plan};
pub use server::{Level, ObjectiveCurve, Server};
