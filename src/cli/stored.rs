//! `plimsoll resume` and `plimsoll replay`: runs that are on the disk.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll::run::{Contents, RepeatsFolder};

use super::complaint::Complaint;
use super::engine::{self, Settings};
use super::exit::ExitCode;
use super::{block_on, repeats, tune};

/// A run of a closed loop, for commands whose statistics are those of concurrent requests.
pub fn closed_loop(run: &Path, command: &str) -> anyhow::Result<Contents> {
    let contents = Contents::read(run)?;
    if contents.plan.arrivals.is_some() {
        let trace = contents.plan.arrivals.as_ref().is_some_and(|plan| plan.trace_rate().is_some());
        let what = if trace { "speed-ups of a trace" } else { "request rates" };
        let text = format!("`{}` holds {what}; {command} reads runs of concurrent requests", run.display());
        let hint = "search again with `--concurrency`, or with the other SLO as this run was searched";
        return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
    }
    Ok(contents)
}

/// Go on with a run that was killed or interrupted.
///
/// Trials that had ended are not run again; the search goes on from there.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  plimsoll resume runs/latest")]
pub struct Resume {
    #[command(flatten)]
    stored: Stored,

    /// Measure even where another run on this machine is measuring the same server.
    #[arg(long)]
    force: bool,
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
    fn settings(&self, force: bool) -> Settings {
        Settings { out: PathBuf::new(), json: self.json, quiet: self.quiet, force }
    }
}

impl Resume {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if tune::is_tuning(&self.stored.run) {
            return tune::resume(&self.stored.run, self.stored.settings(self.force));
        }
        if RepeatsFolder::is_one(&self.stored.run) {
            return block_on(repeats::resume(&self.stored.run, self.stored.settings(self.force)));
        }
        block_on(engine::resume(&self.stored.run, self.stored.settings(self.force)))
    }
}

impl Replay {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if RepeatsFolder::is_one(&self.stored.run) {
            return repeats::replay(&self.stored.run, &self.stored.settings(false));
        }
        engine::replay(&self.stored.run, &self.stored.settings(false))
    }
}
