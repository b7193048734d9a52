//! Where the command line hands over: one function a command.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use plimsoll::controller::{self, ControllerError, Found};
use plimsoll::loadgen::process_cpu_seconds;
use plimsoll::plan::Plan;
use plimsoll::report::terminal::{self, Screen, Style};
use plimsoll::report::{Document, TrialDocument, progress, write_files};
use plimsoll::run::{Contents, Cost, Observer, RunFolder};
use plimsoll::search::{self, SearchOutcome, TrialKind, TrialOutcome};
use plimsoll::sim::http::{Options, serve};
use plimsoll::sim::presets::Preset;
use plimsoll::target::{Target, TargetError, prepare};
use plimsoll::verdict::Verdict;
use tokio::sync::watch;

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::output::print;

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
    let (found, contents) = measure_all(&plan, &settings).await?;
    finish(&plan, &contents, &settings)?;
    Ok(exit_code(&found))
}

/// Measures the one load of `plan` (`load.min`), with a trial of the size of `plan.trial`.
pub async fn measure(plan: Plan, settings: Settings) -> anyhow::Result<ExitCode> {
    let (found, contents) = measure_all(&plan, &settings).await?;
    let measured = |outcome: &&TrialOutcome| outcome.spec.kind == TrialKind::Measure;
    let Some(outcome) = found.outcomes.iter().rev().find(measured) else {
        let why = found.cut_short.unwrap_or_else(|| "no trial was finished".to_owned());
        return Err(Complaint::new(ExitCode::Void, format!("nothing was measured: {why}")).into());
    };
    write_files(&contents.path, &Document::of_run(&contents), &plan)?;
    let document = TrialDocument::new(&plan, outcome, &contents.warnings);
    if settings.json {
        print(&document.to_json())?;
    } else {
        print(&terminal::trial(&document, &plan, Style::of_stdout()))?;
        print(&format!("files      {}\n", contents.path.display()))?;
    }
    Ok(match (&outcome.verdict, found.cut_short) {
        (_, Some(_)) => ExitCode::Interrupted,
        (Verdict::Void(_), _) => ExitCode::Void,
        (Verdict::Missed, _) => ExitCode::MissedAtLowest,
        _ => ExitCode::Answered,
    })
}

/// Goes on with a run that was ended before its time.
pub async fn resume(path: &Path, settings: Settings) -> anyhow::Result<ExitCode> {
    let (mut folder, past) = RunFolder::open(path)?;
    let plan = past.plan.clone();
    if past.ended.as_ref().is_some_and(|end| end.answer.outcome != SearchOutcome::Interrupted) {
        finish(&plan, &past, &settings)?;
        return Ok(exit_of(&past));
    }
    let left_out = past.secrets_left_out();
    if !left_out.is_empty() {
        let text = format!("the run's plan names values that were not kept: {}", left_out.join(", "));
        let hint = "name them by environment variables (`${NAME}`) in the recipe and start a new run";
        return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
    }
    let outcomes: Vec<TrialOutcome> = past.outcomes().cloned().collect();
    let found = run(&plan, &mut folder, &outcomes, past.cost, &settings).await?;
    folder.close()?;
    let contents = Contents::read(path)?;
    finish(&plan, &contents, &settings)?;
    Ok(exit_code(&found))
}

/// Decides again from the journal, without any load.
pub fn replay(path: &Path, settings: &Settings) -> anyhow::Result<ExitCode> {
    let contents = Contents::read(path)?;
    let outcomes: Vec<TrialOutcome> = contents.outcomes().cloned().collect();
    let mut strategy = search::strategy(&contents.plan);
    controller::replay(strategy.as_mut(), &outcomes).map_err(complaint)?;
    let mut answer = strategy.answer();
    let same = contents.ended.as_ref().map(|ended| {
        if ended.answer.outcome == SearchOutcome::Interrupted {
            answer.outcome = SearchOutcome::Interrupted;
        }
        ended.answer == answer
    });
    finish(&contents.plan, &contents, settings)?;
    match same {
        Some(true) => eprintln!("the journal leads to the stored answer, bit for bit"),
        Some(false) => {
            let text = "the journal does not lead to the stored answer";
            let hint = "the run was made by another version, or a file in its folder was changed";
            return Err(Complaint::new(ExitCode::Void, text).hint(hint).into());
        }
        None => eprintln!("the run has no answer yet: `plimsoll resume {}` goes on with it", path.display()),
    }
    Ok(exit_of(&contents))
}

/// Serves until interrupted.
pub async fn simulate(settings: SimulateSettings) -> anyhow::Result<ExitCode> {
    let listener = tokio::net::TcpListener::bind(settings.address)
        .await
        .with_context(|| format!("cannot listen on {}", settings.address))?;
    let preset = settings.preset;
    eprintln!("simulating {} at http://{}  (Ctrl-C ends)", preset.name, listener.local_addr()?);
    let options = Options { speed: settings.speed, seed: settings.seed, ..Options::default() };
    serve(listener, *preset, options, async {
        // Where no signal can be had there is nothing to wait for but the end of the process.
        let _ = tokio::signal::ctrl_c().await;
    })
    .await?;
    Ok(ExitCode::Answered)
}

async fn measure_all(plan: &Plan, settings: &Settings) -> anyhow::Result<(Found, Contents)> {
    // Made before anything is sent: a folder that cannot be written to costs no load.
    let mut folder = RunFolder::create(Some(&settings.out), &plan.name, plan)?;
    let path = folder.path().to_owned();
    let result = run(plan, &mut folder, &[], Cost::default(), settings).await;
    folder.close()?;
    match result {
        Ok(found) => Ok((found, Contents::read(&path)?)),
        Err(error) => {
            // Nothing was measured: an empty run is of no use to anybody.
            if Contents::read(&path).is_ok_and(|contents| contents.trials.is_empty()) {
                plimsoll::run::discard(&path);
            }
            Err(error)
        }
    }
}

async fn run(
    plan: &Plan,
    folder: &mut RunFolder,
    past: &[TrialOutcome],
    spent: Cost,
    settings: &Settings,
) -> anyhow::Result<Found> {
    let interrupt = interrupts();
    let mut prepared = prepare(plan, interrupt).await.map_err(target_complaint)?;
    folder.target_described(prepared.live.describe())?;
    let level = if settings.quiet { progress::Level::Quiet } else { progress::Level::Normal };
    let mut observer: Box<dyn Observer> = progress::for_stderr(level);
    observer.run_started(plan, &prepared.live.endpoint().description.to_string());
    for note in &prepared.live.endpoint().description.notes {
        tracing::info!("{note}");
    }
    let found = controller::search(plan, &mut prepared.live, folder, past, spent, observer.as_mut()).await;
    // The client's CPU only: the embedded engine runs in this process too.
    tracing::debug!("{:.2} CPU-s of this process", process_cpu_seconds());
    found.map_err(complaint)
}

/// Turns true at the first Ctrl-C; the second ends the process at once.
pub fn interrupts() -> watch::Receiver<bool> {
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if *tell.borrow() {
                std::process::exit(ExitCode::Interrupted as i32);
            }
            if std::io::stderr().is_terminal() {
                eprintln!("\nstopping; what was measured is kept (once more: now)");
            }
            tell.send_replace(true);
        }
    });
    told
}

/// Writes the files and prints the answer.
fn finish(plan: &Plan, contents: &Contents, settings: &Settings) -> anyhow::Result<()> {
    let document = Document::of_run(contents);
    write_files(&contents.path, &document, plan)?;
    if settings.json {
        print(&document.to_json())?;
    } else {
        let screen = Screen { document: &document, plan, folder: Some(&contents.path) };
        print(&terminal::search(&screen, Style::of_stdout()))?;
    }
    Ok(())
}

fn exit_code(found: &Found) -> ExitCode {
    code_of(found.answer.outcome)
}

fn exit_of(contents: &Contents) -> ExitCode {
    contents.ended.as_ref().map_or(ExitCode::Interrupted, |ended| code_of(ended.answer.outcome))
}

fn code_of(outcome: SearchOutcome) -> ExitCode {
    match outcome {
        SearchOutcome::Found => ExitCode::Answered,
        SearchOutcome::MissedAtLowest => ExitCode::MissedAtLowest,
        SearchOutcome::MetAtHighest => ExitCode::MetAtHighest,
        SearchOutcome::Void => ExitCode::Void,
        SearchOutcome::Interrupted => ExitCode::Interrupted,
    }
}

fn complaint(error: ControllerError) -> anyhow::Error {
    match error {
        ControllerError::Target(error) => target_complaint(error),
        error => Complaint::new(ExitCode::Usage, error.to_string()).into(),
    }
}

fn target_complaint(error: TargetError) -> anyhow::Error {
    let code = if error.is_unreachable() { ExitCode::Unreachable } else { ExitCode::Usage };
    let complaint = Complaint::new(code, error.to_string());
    match error.hint() {
        Some(hint) => complaint.hint(hint).into(),
        None => complaint.into(),
    }
}
