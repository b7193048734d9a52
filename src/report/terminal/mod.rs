//! The terminal's screens: one for a search, one for a single trial.
//!
//! Rendering is pure: a screen is a text made from the document, the plan and a [`Style`].

mod arrivals;
mod check;
mod curve;
mod metrics;
mod screen;
mod slices;
pub(super) mod style;
mod table;
mod trial;

pub use arrivals::rate_at_answer;
pub use check::check;
pub use metrics::metrics;
pub use screen::{Screen, search};
pub(crate) use screen::{facts, remarks};
pub use style::Style;
pub use trial::trial;
