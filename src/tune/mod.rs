//! Tuning an engine: launch it with a setting, search the load that it carries, go on with the next; with
//! several slots (GPUs, hosts) a setting on each at the same time.
//!
//! A [`crate::search::tuner::Tuner`] says which setting is tried; for each one the engine is
//! [launched](Launcher), its capacity is searched by a run of its own (a normal run folder within the
//! tune's folder), and what came of it is written to `settings.jsonl` before the tuner is told. At the
//! end best and default are measured again in turns ([`crate::search::confirm`]).
//!
//! The launcher is the seam: [`Managed`] launches real engines, [`Virtual`] is the simulated one in
//! virtual time.

mod attempt;
mod conduct;
mod confirmation;
mod crew;
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
mod slots;

pub use conduct::{Conduct, Trying, Watcher};
pub use document::{Conducted, Figures, Outcome, TUNE_VERSION, TuneCost, TuneDocument};
pub use entry::{Entry, Role, Told};
pub use error::TuneError;
pub use folder::{SETTINGS_FILE, TUNE_FILE, TuneFolder};
pub use front::FrontPoint;
pub use launcher::{LaunchError, LaunchFailure, Launched, Launcher};
pub use managed::{Managed, ManagedTarget};
pub use plan::TunePlan;
pub use screen::{announcement, line, screen};
pub use simulated::{Virtual, VirtualTarget};
pub use slots::SlotFigures;
