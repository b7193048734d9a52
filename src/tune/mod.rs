//! Tuning an engine: launch it with a setting, search the load that it carries, go on with the next.
//!
//! A [`crate::search::tuner::Tuner`] says which setting is tried; for each one the engine is
//! [launched](Launcher), its capacity is searched by a run of its own (a normal run folder within the
//! tune's folder), and what came of it is written to `settings.jsonl` before the tuner is told. At the
//! end best and default are measured again in turns ([`crate::search::confirm`]).
//!
//! The launcher is the seam: [`Managed`] launches real engines, [`Virtual`] is the simulated one in
//! virtual time.

mod conduct;
mod confirmation;
mod document;
mod entry;
mod error;
mod folder;
mod front;
mod launcher;
mod managed;
mod measure;
mod plan;
mod screen;
mod simulated;

pub use conduct::{Conduct, Watcher};
pub use document::{Figures, Outcome, TUNE_VERSION, TuneDocument};
pub use entry::{Entry, Role, Told};
pub use error::TuneError;
pub use folder::{SETTINGS_FILE, TUNE_FILE, TuneFolder};
pub use front::FrontPoint;
pub use launcher::{LaunchError, LaunchFailure, Launched, Launcher};
pub use managed::{Managed, ManagedTarget};
pub use plan::TunePlan;
pub use screen::{line, screen};
pub use simulated::{Virtual, VirtualTarget};
