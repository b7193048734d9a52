//! What was seen beside the requests while a trial ran: the server's own metrics, this host, GPUs.
//!
//! A source is read now and then; each look is a [`Sample`]. [`Series`] keeps them and says what a
//! trial's window held: the growth of totals, mean and maximum of states.
//!
//! ```
//! use plimsoll::observed::{Quantity, Series, Values};
//! let mut series = Series::default();
//! for (at, running, tokens) in [(0.0, 4.0, 100.0), (1.0, 8.0, 180.0), (2.0, 8.0, 300.0)] {
//!     let mut values = Values::default();
//!     values.set(Quantity::Running, running);
//!     values.set(Quantity::GenerationTokens, tokens);
//!     series.push(at, values);
//! }
//! let figures = series.server(0.5, 2.0).unwrap();
//! assert_eq!(figures.running.unwrap().max, 8.0);
//! assert_eq!(figures.generation_tokens, Some(160.0)); // 140 at 0.5 s by interpolation, 300 at 2 s
//! ```

mod figures;
mod quantity;
mod series;

pub use figures::{GaugeFigures, GpuFigures, HostFigures, ServerFigures, Spent};
pub use quantity::{Kind, Quantity, Source, Values};
pub use series::{Sample, Series};
