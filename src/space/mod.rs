//! Knobs of an engine, the settings that they allow, and where a setting lies among the others.
//!
//! A [`Space`] is made of [`Knob`]s and constraints between them. Inside a search a setting is a
//! [`Point`] (one number a knob); outside it is a [`Setting`] (names and values, without the knobs
//! that do not apply).
//!
//! ```
//! use plimsoll::space::{KnobSection, Space};
//! let knobs = r#"
//!     [max_num_seqs]
//!     type = "int"
//!     range = [16, 512]
//!     scale = "log"
//!     step = 2
//!     default = 256
//!     [chunked_prefill]
//!     type = "flag"
//!     default = true
//! "#;
//! let sections: std::collections::BTreeMap<String, KnobSection> = toml::from_str(knobs).unwrap();
//! let space = Space::from_sections(&sections, &["max_num_seqs <= 256 or chunked_prefill".to_owned()]).unwrap();
//! let points = space.enumerate(100).unwrap();
//! assert_eq!(points.len(), 6 * 2 - 1);
//! assert_eq!(space.setting(&space.default_point())["max_num_seqs"].to_string(), "256");
//! ```

pub(crate) mod candidates;
mod error;
pub mod expression;
mod knob;
mod points;
mod section;
mod value;

pub use error::SpaceError;
pub use expression::Expression;
pub use knob::{Axis, Domain, Knob};
pub use points::{Point, Setting, Space, show};
pub use section::{KnobKind, KnobSection, ScaleName};
pub use value::KnobValue;
