//! How an engine is brought up with a setting.

use std::path::Path;

use crate::plan::Plan;
use crate::search::tuner::FailureKind;
use crate::space::Setting;
use crate::target::Target;

/// Launches engines, one at a time.
#[allow(async_fn_in_trait)] // one task drives a tuning; no caller needs the futures to be Send
pub trait Launcher {
    /// What is measured.
    type Target: Target;

    /// Launches the engine with `setting` and waits until it can be measured as `plan` says.
    /// `folder` is the place for its log.
    ///
    /// # Errors
    /// How it failed; the search goes on with another setting.
    async fn launch(
        &mut self,
        plan: &Plan,
        setting: &Setting,
        folder: &Path,
    ) -> Result<Launched<Self::Target>, LaunchFailure>;

    /// Changes the knobs of a running engine that need no launch.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    async fn adjust(
        &mut self,
        engine: &mut Launched<Self::Target>,
        plan: &Plan,
        setting: &Setting,
    ) -> Result<(), LaunchFailure>;

    /// Ends the engine and waits until it is gone. What the engine's log says of a crash comes back.
    async fn stop(&mut self, engine: Launched<Self::Target>) -> Option<LaunchFailure>;

    /// The command that launches the engine with `setting`, to be copied; or the knobs alone.
    fn command(&self, setting: &Setting) -> String;
}

/// An engine that runs.
#[derive(Debug)]
pub struct Launched<T> {
    /// What is measured.
    pub target: T,
    /// Seconds from the launch until it could be measured.
    pub seconds: f64,
}

/// An engine that does not run.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchFailure {
    /// How it failed.
    pub kind: FailureKind,
    /// In a line.
    pub what: String,
    /// The last lines of its log.
    pub log_tail: Vec<String>,
    /// Seconds that it took to fail.
    pub seconds: f64,
}
