//! Engine settings (knobs) and their values.

mod value;

pub use value::KnobValue;
