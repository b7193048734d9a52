//! Where the command line hands over: one function a command.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::bail;
use plimsoll::plan::Plan;
use plimsoll::sim::presets::Preset;

use super::exit::ExitCode;

/// Where results go.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder in which the run's folder is made.
    pub out: PathBuf,
    /// Whether the result is printed as JSON instead of the screen.
    pub json: bool,
    /// Whether progress is kept quiet.
    pub quiet: bool,
}

/// The simulated engine as a server of its own.
#[derive(Clone, Debug)]
pub struct SimulateSettings {
    /// What to play.
    pub preset: &'static Preset,
    /// Where to listen.
    pub address: SocketAddr,
    /// Seconds of its time that pass in a second.
    pub speed: f64,
    /// Seed of its noise.
    pub seed: u64,
}

/// Searches as `plan` says.
pub async fn search(plan: Plan, settings: Settings) -> anyhow::Result<ExitCode> {
    bail!("search of `{}` into `{}`: not wired yet", plan.name, settings.out.display())
}

/// Measures the one load of `plan` (`load.min`), with a trial of the size of `plan.trial`.
pub async fn measure(plan: Plan, settings: Settings) -> anyhow::Result<ExitCode> {
    bail!("measurement of `{}` into `{}`: not wired yet", plan.name, settings.out.display())
}

/// Serves until interrupted.
pub async fn simulate(settings: SimulateSettings) -> anyhow::Result<ExitCode> {
    bail!("simulation of `{}` at {}: not wired yet", settings.preset.name, settings.address)
}
