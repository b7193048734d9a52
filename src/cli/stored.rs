//! `plimsoll resume` and `plimsoll replay`: runs that are on the disk.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll::plan::Plan;
use plimsoll::profile::ProfileFolder;
use plimsoll::report::repeats::begun;
use plimsoll::run::{Contents, PLAN_FILE, RepeatsFolder, RunError};

use super::complaint::Complaint;
use super::engine::{self, Settings};
use super::exit::ExitCode;
use super::{block_on, profile, repeats, tune};

/// A run of a closed loop, for commands whose statistics are those of concurrent requests.
pub fn closed_loop(run: &Path, command: &str) -> anyhow::Result<Contents> {
    let contents = Contents::read(run)?;
    refuse_rates(run, &contents.plan, command)?;
    Ok(contents)
}

/// A run of a closed loop, or the searches of `--repeats` that have begun; at least one.
pub fn closed_loops(run: &Path, command: &str) -> anyhow::Result<Vec<Contents>> {
    if !RepeatsFolder::is_one(run) {
        return Ok(vec![closed_loop(run, command)?]);
    }
    let (folder, plan) = RepeatsFolder::read(run)?;
    refuse_rates(run, &plan, command)?;
    let runs = begun(&folder, &plan)?;
    if runs.is_empty() { Err(repeats::nothing(&folder)) } else { Ok(runs) }
}

fn refuse_rates(run: &Path, plan: &Plan, command: &str) -> anyhow::Result<()> {
    if plan.arrivals.is_none() {
        return Ok(());
    }
    let trace = plan.arrivals.as_ref().is_some_and(|plan| plan.trace_rate().is_some());
    let what = if trace { "speed-ups of a trace" } else { "request rates" };
    let text = format!("`{}` holds {what}; {command} reads runs of concurrent requests", run.display());
    let hint = "search again with `--concurrency`, or with the other SLO as this run was searched";
    Err(Complaint::new(ExitCode::Usage, text).hint(hint).into())
}

/// What to do about a folder that is not the run that a command asks for.
pub fn mend(error: &RunError) -> Option<String> {
    match error {
        RunError::NotARun { path, .. } | RunError::Several { path } => Some(instead_of(path)),
        _ => None,
    }
}

fn instead_of(path: &Path) -> String {
    let runs = path.join("runs");
    let is_run = |path: &Path| path.join(PLAN_FILE).is_file();
    if !path.exists() {
        let latest = path.parent().map(|parent| parent.join("latest")).filter(|latest| is_run(latest));
        return match latest {
            Some(latest) => format!("there is no such folder; the newest run there is `{}`", latest.display()),
            None => "there is no such folder; `plimsoll search` makes runs in `runs/`, the newest is `runs/latest`"
                .to_owned(),
        };
    }
    if path.is_file() {
        let folder = path.parent().filter(|parent| is_run(parent));
        return match folder {
            Some(folder) => format!("it is a file of a run; give the folder: `{}`", folder.display()),
            None => "it is a file; give the folder of a run, such as `runs/latest`".to_owned(),
        };
    }
    if ProfileFolder::is_one(path) {
        return format!(
            "it is a profile, which `plimsoll analyze`, `report` and `resume` read; its runs are in `{}`",
            runs.display()
        );
    }
    if tune::is_tuning(path) {
        return format!(
            "it is a tuning, which `plimsoll resume` goes on with; the runs of its settings are in `{}`",
            runs.display()
        );
    }
    if RepeatsFolder::is_one(path) {
        return format!(
            "it holds several searches (`--repeats`); name one of the runs in `{}`",
            runs.display()
        );
    }
    let mut within: Vec<PathBuf> = std::fs::read_dir(path)
        .map(|entries| {
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|run| is_run(run)).collect()
        })
        .unwrap_or_default();
    within.sort();
    match within.last() {
        Some(_) if is_run(&path.join("latest")) => {
            format!("it holds runs; name one of them, such as `{}`", path.join("latest").display())
        }
        Some(run) => format!("it holds runs; name one of them, such as `{}`", run.display()),
        None => "`plimsoll search` and `measure` make run folders; the newest is `runs/latest`".to_owned(),
    }
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
        if ProfileFolder::is_one(&self.stored.run) {
            return block_on(profile::resume(&self.stored.run, self.stored.settings(self.force)));
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
