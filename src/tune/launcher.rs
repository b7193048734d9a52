//! How an engine is brought up with a setting.

use thiserror::Error;

use crate::plan::Plan;
use crate::search::tuner::FailureKind;
use crate::space::Setting;
use crate::target::{Target, managed};

/// Launches engines, one at a time.
#[allow(async_fn_in_trait)] // one task drives a tuning; no caller needs the futures to be Send
pub trait Launcher {
    /// What is measured.
    type Target: Target;

    /// Launches the engine with `setting` and waits until it can be measured as `plan` says.
    ///
    /// # Errors
    /// When no engine came of it that can be measured; nothing of it is left running then.
    async fn launch(&mut self, plan: &Plan, setting: &Setting)
    -> Result<Launched<Self::Target>, LaunchError>;

    /// Changes the knobs of a running engine that need no launch.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    async fn adjust(
        &mut self,
        engine: &mut Launched<Self::Target>,
        plan: &Plan,
        setting: &Setting,
    ) -> Result<(), LaunchError>;

    /// Whether the engine still serves; if not, what became of it.
    async fn check(&mut self, engine: &Launched<Self::Target>) -> Option<LaunchFailure>;

    /// Ends the engine and waits until it is gone.
    async fn stop(&mut self, engine: Launched<Self::Target>);

    /// `plan` with the address of the engine, where it has one of its own.
    fn measured_plan(&self, _engine: &Launched<Self::Target>, plan: &Plan) -> Plan {
        plan.clone()
    }

    /// The command that launches the engine with `setting`, to be copied; or the knobs alone.
    fn command(&self, plan: &Plan, setting: &Setting) -> String;
}

/// An engine that runs.
#[derive(Debug)]
pub struct Launched<T> {
    /// What is measured.
    pub target: T,
    /// Seconds from the launch until it could be measured, the stop of the one before included.
    pub seconds: f64,
    /// Name of the file with its output, within the tuning's folder.
    pub log: Option<String>,
}

/// A launch of which no engine came.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The setting does not work, which the tuner learns from.
    #[error("{}", .0.what)]
    Failed(LaunchFailure),
    /// The operator asked to stop.
    #[error("interrupted while the engine started")]
    Interrupted,
    /// No other setting would mend it.
    #[error(transparent)]
    Cannot(managed::LaunchFailure),
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
    /// Name of the file with its output, within the tuning's folder.
    pub log: Option<String>,
}
