//! `plimsoll report`: the files of a run, made anew.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use plimsoll::profile::ProfileFolder;
use plimsoll::report::repeats::Repeated;
use plimsoll::report::{Document, parquet, terminal, write_all};
use plimsoll::run::{Contents, RepeatsFolder};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::output::print;
use super::{profile, repeats};

/// Write the report of a stored run anew: summary.json, curve.csv, the plots and report.html.
///
/// Works on any run folder, one that was killed or still goes on among them, and sends no load. The
/// paths of the files are printed. report.html is one file that needs no network.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  plimsoll report runs/latest\n  plimsoll report runs/latest --out /tmp/report\n  plimsoll report runs/latest --parquet\n  plimsoll report runs/latest --table --trial 12"
)]
pub struct Report {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Folder for the files, made if need be [default: the run's own]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Also write every request as a row of requests.parquet, for data frames.
    #[arg(long)]
    parquet: bool,

    /// Print a trial's metrics as a table of the form that AIPerf prints, instead of the paths.
    #[arg(long, conflicts_with = "json")]
    table: bool,

    /// The trial of the table [default: the one nearest to the answer]
    #[arg(long, value_name = "N", requires = "table")]
    trial: Option<u32>,

    /// Print the summary as JSON on stdout instead of the paths.
    #[arg(long)]
    json: bool,
}

impl Report {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if ProfileFolder::is_one(&self.run) {
            return self.of_profile();
        }
        let (contents, document) = if RepeatsFolder::is_one(&self.run) {
            let Repeated { document, nearest, .. } = repeats::read(&self.run)?;
            (nearest, document)
        } else {
            let contents = Contents::read(&self.run)?;
            let document = Document::of_run(&contents);
            (contents, document)
        };
        let folder = self.folder()?;
        let mut written = write_all(folder, &contents, &document)?;
        if self.parquet {
            written.push(parquet::write(folder, &contents)?);
        }
        if self.table {
            let table = terminal::metrics(&document, self.trial).ok_or_else(|| {
                let trial = self.trial.map_or("measured trial".to_owned(), |id| format!("trial {id}"));
                Complaint::new(ExitCode::Usage, format!("the run `{}` has no {trial}", self.run.display()))
                    .hint("`--trial` takes a number of the `trials` in summary.json")
            })?;
            print(&table)?;
        } else if self.json {
            print(&document.to_json())?;
        } else {
            let paths: String = written.iter().map(|path| format!("{}\n", path.display())).collect();
            print(&paths)?;
        }
        Ok(ExitCode::Answered)
    }

    /// Where the files go.
    fn folder(&self) -> anyhow::Result<&Path> {
        let Some(folder) = &self.out else { return Ok(&self.run) };
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder `{}` (`--out`)", folder.display()))?;
        Ok(folder)
    }

    fn of_profile(self) -> anyhow::Result<ExitCode> {
        if let Some((_, flag)) =
            [(self.parquet, "--parquet"), (self.table, "--table")].into_iter().find(|f| f.0)
        {
            let text = format!("`{flag}` is of one run, but `{}` is a profile", self.run.display());
            let hint = format!("name one of the runs in `{}`", self.run.join("runs").display());
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        let document = profile::read(&self.run)?;
        let written = document.write(self.folder()?)?;
        if self.json {
            print(&document.to_json())?;
        } else {
            let paths: String = written.iter().map(|path| format!("{}\n", path.display())).collect();
            print(&paths)?;
        }
        Ok(ExitCode::Answered)
    }
}
