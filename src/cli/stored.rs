//! `plimsoll resume` and `plimsoll replay`: runs that are on the disk.

use std::path::PathBuf;

use clap::Args;

use super::engine::{self, Settings};
use super::exit::ExitCode;
use super::{block_on, tune};

/// Go on with a run that was killed or interrupted.
///
/// Trials that had ended are not run again; the search goes on from there.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  plimsoll resume runs/latest")]
pub struct Resume {
    #[command(flatten)]
    stored: Stored,
}

/// Decide again from a run's journal, without any load.
///
/// Says whether the stored trials lead to the stored answer, and prints it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  plimsoll replay runs/latest")]
pub struct Replay {
    #[command(flatten)]
    stored: Stored,
}

#[derive(Debug, Args)]
struct Stored {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Print the summary as JSON instead of the screen.
    #[arg(long)]
    json: bool,

    /// No progress on stderr.
    #[arg(short, long)]
    quiet: bool,
}

impl Stored {
    fn settings(&self) -> Settings {
        Settings { out: PathBuf::new(), json: self.json, quiet: self.quiet }
    }
}

impl Resume {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if tune::is_tuning(&self.stored.run) {
            return tune::resume(&self.stored.run, self.stored.settings());
        }
        block_on(engine::resume(&self.stored.run, self.stored.settings()))
    }
}

impl Replay {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        engine::replay(&self.stored.run, &self.stored.settings())
    }
}
