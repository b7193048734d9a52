//! A server's own curves, whatever the SLO: TTFT over prompt length, ITL over requests in flight and
//! output length, throughput a user against throughput in all.
//!
//! A profile measures shapes of requests (a prompt and an output length) at levels of load. Each shape is a
//! run of its own in the folder of the profile, so that it can be read, reported and replayed like any
//! other; what they say together is a [`Figures`].
//!
//! ```
//! use plimsoll::profile::ProfilePlan;
//! use plimsoll::recipe::Recipe;
//! let recipe = Recipe::from_toml("[profile]\nkind = 'prefill'\nisl = [128, 512, 1024, 2048]", "example").unwrap();
//! let plan = ProfilePlan::of(recipe, None).unwrap();
//! assert_eq!(plan.each().count(), 4);
//! ```

mod cells;
mod folder;
mod plan;
pub mod prefill;
#[cfg(test)]
mod tests;

pub use cells::{Cell, Figures, Front, FrontPoint, Pace, Spread, StepTime, figures};
pub use folder::{PROFILE_FILE, ProfileFolder};
pub use plan::{ProfilePlan, Shape};
