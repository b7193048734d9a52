//! Engines that are launched for a run: started, waited for, watched, and stopped with all their
//! processes, also when this program is killed.
//!
//! Each launch has a supervisor: this program again, as a process of its own ([`supervise`]), which is
//! the parent of the engine and of whatever the engine starts. It stops the engine when it is told to,
//! or when this program is gone, whatever became of it. A launch keeps its output in
//! `engine-001.log` of the run folder, and [`LAUNCHES_FILE`] there says what was launched, so that what
//! even the supervisor could not stop is found by the next one ([`stop_leftovers`]).
//!
//! ```no_run
//! # async fn example(plan: plimsoll::plan::Plan) -> Result<(), plimsoll::target::managed::LaunchFailure> {
//! use plimsoll::target::managed::{Launcher, stop_leftovers, was_launched};
//! let (_tell, interrupt) = tokio::sync::watch::channel(false);
//! let launcher = Launcher::new(&plan, "runs/latest".as_ref(), interrupt)?;
//! stop_leftovers("runs/latest".as_ref()).await;
//! let engine = plan.engine.as_ref().expect("a plan with an engine");
//! let mut running = launcher.launch(&engine.knobs, &mut |line| eprintln!("{line}")).await?;
//! println!("{} is up after {:.1} s", running.url, running.started_seconds);
//! running.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A program that uses this library must run the supervisor when it is started as one: it calls
//! [`supervise`] at the start of `main` where [`is_supervisor`] says so, as `plimsoll` does.

mod attended;
mod failure;
mod launch;
mod launches;
mod log;
mod output;
mod protocol;
mod ready;
mod running;
mod supervisor;
mod tree;

pub use attended::Attended;
pub use failure::{Cause, EngineFailure, Exit, LaunchFailure, Phase, classify};
pub use launch::Launcher;
pub use launches::{LAUNCHES_FILE, Leftover, stop_leftovers, was_launched};
pub use running::Running;
pub use supervisor::supervise;

/// The argument that makes this program a supervisor.
pub const SUPERVISOR: &str = "engine-supervisor";

/// Whether these arguments of the program make it a supervisor.
pub fn is_supervisor(args: &[std::ffi::OsString]) -> bool {
    args.get(1).is_some_and(|arg| arg == SUPERVISOR) && args.len() == 2
}
