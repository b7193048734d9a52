//! `plimsoll report`: the files of a run, made anew.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use plimsoll::report::{Document, write_all};
use plimsoll::report::repeats::Repeated;
use plimsoll::run::{Contents, RepeatsFolder};

use super::exit::ExitCode;
use super::output::print;
use super::repeats;

/// Write the report of a stored run anew: summary.json, curve.csv, the plots and report.html.
///
/// Works on any run folder, one that was killed or still goes on among them, and sends no load. The
/// paths of the files are printed. report.html is one file that needs no network.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  plimsoll report runs/latest\n  plimsoll report runs/latest --out /tmp/report"
)]
pub struct Report {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Folder for the files, made if need be [default: the run's own]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print the summary as JSON on stdout instead of the paths.
    #[arg(long)]
    json: bool,
}

impl Report {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (contents, document) = if RepeatsFolder::is_one(&self.run) {
            let Repeated { document, nearest } = repeats::read(&self.run)?;
            (nearest, document)
        } else {
            let contents = Contents::read(&self.run)?;
            let document = Document::of_run(&contents);
            (contents, document)
        };
        let folder = self.out.as_ref().unwrap_or(&self.run);
        if self.out.is_some() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder `{}` (`--out`)", folder.display()))?;
        }
        let written = write_all(folder, &contents, &document)?;
        if self.json {
            print(&document.to_json())?;
        } else {
            let paths: String = written.iter().map(|path| format!("{}\n", path.display())).collect();
            print(&paths)?;
        }
        Ok(ExitCode::Answered)
    }
}
