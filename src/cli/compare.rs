//! `plimsoll compare`.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll::analysis::Material;
use plimsoll::analysis::compare::{Comparison, Side, compare};
use plimsoll::report::comparison::{headline, screen};
use plimsoll::report::terminal::Style;
use plimsoll::slo::Slo;
use serde::Serialize;

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::output::print;
use super::stored;

/// Say how much more or less a second run carries than a first, and how sure that is.
///
/// Capacity, goodput and latencies at shared loads, from the stored requests. Runs of another
/// workload, SLO, model, load model or hardware are not compared unless told to.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll compare runs/before runs/after
  plimsoll compare runs/before runs/after --slo 'ttft p99 < 1s' --json")]
pub struct Compare {
    /// Folder of the first run, or of the searches of `--repeats`.
    #[arg(value_name = "A")]
    a: PathBuf,

    /// Folder of the second run, or of the searches of `--repeats`.
    #[arg(value_name = "B")]
    b: PathBuf,

    /// An objective by which both are judged, in place of their own; may be given several times.
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,

    /// Compare even where workload, SLO, model, load model or hardware differ.
    #[arg(long)]
    force: bool,

    /// Print the result as JSON on stdout instead of the screen.
    #[arg(long)]
    json: bool,
}

/// The result as data.
#[derive(Serialize)]
struct CompareDocument<'a> {
    schema_version: u32,
    a: String,
    b: String,
    headline: String,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl Compare {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (mut a, mut b) = (side(&self.a)?, side(&self.b)?);
        if !self.slo.is_empty() {
            let slo = Slo::parse(self.slo.iter().map(String::as_str))?;
            (a.plan.slo, b.plan.slo) = (slo.clone(), slo);
        }
        let slo = a.plan.slo.clone();
        let comparison = compare(&a, &b, &slo);
        if !comparison.differences.is_empty() && !self.force {
            let text = format!("the two runs are not comparable: {}", comparison.differences.join("; "));
            let slo_only = comparison.differences.iter().all(|text| text.starts_with("slo"));
            let hint = if slo_only {
                "judge both by one SLO (`--slo`), or compare anyway with `--force` (by the first run's SLO)"
            } else {
                "measure both alike, or compare anyway with `--force`"
            };
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        let names = (self.a.display().to_string(), self.b.display().to_string());
        if self.json {
            let document = CompareDocument {
                schema_version: 1,
                a: names.0,
                b: names.1,
                headline: headline(&comparison),
                comparison: &comparison,
            };
            print(&(serde_json::to_string_pretty(&document)? + "\n"))?;
        } else {
            print(&screen(&comparison, (&names.0, &names.1), Style::of_stdout()))?;
        }
        Ok(if comparison.capacity.is_some() { ExitCode::Answered } else { ExitCode::Void })
    }
}

fn side(path: &Path) -> anyhow::Result<Side> {
    let mut runs = stored::closed_loops(path, "compare")?;
    let materials: Vec<Material> = runs.iter().map(Material::of_run).collect::<Result<_, _>>()?;
    let first = runs.swap_remove(0);
    Ok(Side { plan: first.plan, target: first.target, runs: materials.into() })
}
