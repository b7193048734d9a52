//! `plimsoll search --repeats`: whole searches, put together to one answer.

use std::path::Path;

use plimsoll::plan::Plan;
use plimsoll::report::repeats::{Repeated, begun, together};
use plimsoll::report::terminal::{self, Screen, Style};
use plimsoll::report::write_all;
use plimsoll::run::{Contents, RepeatsFolder, left_out};
use plimsoll::search::SearchOutcome;

use super::complaint::Complaint;
use super::engine::{self, Settings};
use super::exit::ExitCode;
use super::output::print;

/// Runs the searches of a plan one after the other.
pub async fn search(plan: Plan, settings: Settings) -> anyhow::Result<ExitCode> {
    let folder = RepeatsFolder::create(&settings.out, &plan)?;
    conduct(&folder, &plan, &settings).await
}

/// Goes on with searches that were cut short: with the one that was, then with those that are missing.
pub async fn resume(path: &Path, settings: Settings) -> anyhow::Result<ExitCode> {
    let (folder, plan) = RepeatsFolder::open(path)?;
    let places = left_out(&plan);
    if !places.is_empty() {
        let text = format!("the searches' plan names values that were not kept: {}", places.join(", "));
        let hint = "name them by environment variables (`${NAME}`) in the recipe and start anew";
        return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
    }
    conduct(&folder, &plan, &settings).await
}

/// Decides each run again from its journal, and the answer of all of them.
pub fn replay(path: &Path, settings: &Settings) -> anyhow::Result<ExitCode> {
    let (folder, plan) = RepeatsFolder::read(path)?;
    let runs = begun(&folder, &plan)?;
    for run in &runs {
        if !engine::is_reproduced(run)? && run.ended.is_some() {
            let text = format!("the journal of `{}` does not lead to its answer", run.path.display());
            let hint = "the run was made by another version, or a file in its folder was changed";
            return Err(Complaint::new(ExitCode::Void, text).hint(hint).into());
        }
    }
    eprintln!("the journals of {} runs lead to their answers, bit for bit", runs.len());
    finish(&folder, &plan, runs, settings)
}

/// The answer of the searches of a folder so far.
pub fn read(path: &Path) -> anyhow::Result<Repeated> {
    let (folder, plan) = RepeatsFolder::read(path)?;
    let runs = begun(&folder, &plan)?;
    together(&folder, &plan, runs).ok_or_else(|| nothing(&folder))
}

/// That no search of a folder has begun.
pub fn nothing(folder: &RepeatsFolder) -> anyhow::Error {
    let path = folder.path().display();
    let hint = format!("`plimsoll resume {path}` starts them");
    Complaint::new(ExitCode::Void, format!("no search of `{path}` has begun")).hint(hint).into()
}

async fn conduct(folder: &RepeatsFolder, plan: &Plan, settings: &Settings) -> anyhow::Result<ExitCode> {
    let own = Settings { out: folder.runs(), ..settings.clone() };
    let mut runs = Vec::new();
    for (index, search) in plan.each_search().enumerate() {
        let tell = |what: &str| {
            if !settings.quiet {
                eprintln!("run {} of {}, seed {}{what}", index + 1, plan.repeats, search.seed);
            }
        };
        let past = folder.run_of(search.seed).map(|path| Contents::read(&path)).transpose()?;
        let (contents, cut_short) = match past {
            Some(past) if is_over(&past) => {
                tell(": done already");
                (past, None)
            }
            Some(past) => {
                tell(": going on");
                engine::go_on(&past.path, &own).await.map_err(|error| hinted(error, folder))?
            }
            None => {
                tell("");
                let measured = engine::measure_all(&search, &own, None).await;
                let (found, contents, _) = measured.map_err(|error| hinted(error, folder))?;
                (contents, found.cut_short)
            }
        };
        engine::write_report(&contents)?;
        runs.push(contents);
        if cut_short.is_some() {
            break;
        }
    }
    finish(folder, plan, runs, settings)
}

/// Whether a run has an answer that going on would not change.
fn is_over(run: &Contents) -> bool {
    run.ended.as_ref().is_some_and(|end| end.answer.outcome != SearchOutcome::Interrupted)
}

/// Says how to go on after a run that could not be made.
fn hinted(error: anyhow::Error, folder: &RepeatsFolder) -> anyhow::Error {
    eprintln!("what was measured is kept: `plimsoll resume {}` goes on with it", folder.path().display());
    error
}

fn finish(
    folder: &RepeatsFolder,
    plan: &Plan,
    runs: Vec<Contents>,
    settings: &Settings,
) -> anyhow::Result<ExitCode> {
    let Repeated { document, nearest, .. } = together(folder, plan, runs).ok_or_else(|| nothing(folder))?;
    write_all(folder.path(), &nearest, &document)?;
    if settings.json {
        print(&document.to_json())?;
    } else {
        let screen = Screen { document: &document, plan, folder: Some(folder.path()) };
        print(&terminal::search(&screen, Style::of_stdout()))?;
    }
    Ok(engine::code_of(document.outcome))
}
