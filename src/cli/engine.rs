//! Where the command line hands over: one function a command.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use plimsoll::controller::{self, ControllerError, Found};
use plimsoll::loadgen::process_cpu_seconds;
use plimsoll::plan::{Plan, TargetPlan};
use plimsoll::report::live::{Feed, Watched};
use plimsoll::report::terminal::{self, Screen, Style};
use plimsoll::report::{Document, TrialDocument, cold_start, progress, write_all};
use plimsoll::run::{Contents, Cost, Observer, RunFolder, Silent};
use plimsoll::search::{self, SearchOutcome, TrialKind, TrialOutcome};
use plimsoll::sim::http::{Options, serve};
use plimsoll::sim::presets::Preset;
use plimsoll::target::check::check_plan;
use plimsoll::target::managed::{Attended, LaunchFailure, Launcher, Running, stop_leftovers, was_launched};
use plimsoll::target::{EndpointLock, LockError, Target, TargetError, prepare};
use plimsoll::verdict::Verdict;
use tokio::sync::watch;

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::output::print;
use super::watch::{PageServer, Served};

/// Where results go.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder in which the run's folder is made.
    pub out: PathBuf,
    /// Whether the result is printed as JSON instead of the screen.
    pub json: bool,
    /// Whether progress is kept quiet.
    pub quiet: bool,
    /// Whether another run on the same server is no obstacle.
    pub force: bool,
}

/// The simulated engine as a server of its own.
#[derive(Clone, Debug)]
pub struct SimulateSettings {
    /// What to play.
    pub preset: Preset,
    /// Where to listen.
    pub address: SocketAddr,
    /// Seconds of its time that pass in a second.
    pub speed: f64,
    /// Seed of its noise.
    pub seed: u64,
}

/// Searches as `plan` says.
pub async fn search(plan: Plan, settings: Settings, page: Option<SocketAddr>) -> anyhow::Result<ExitCode> {
    // Before anything is sent: a port that is taken costs no load.
    let page = match page {
        Some(address) => Some(PageServer::bind(address).await?),
        None => None,
    };
    let (found, contents, served) = measure_all(&plan, &settings, page).await?;
    finish(&plan, &contents, &settings)?;
    if let Some(served) = served {
        served.end().await;
    }
    Ok(exit_code(&found))
}

/// Measures the one load of `plan` (`load.min`), with a trial of the size of `plan.trial`.
pub async fn measure(plan: Plan, settings: Settings) -> anyhow::Result<ExitCode> {
    let (found, contents, _) = measure_all(&plan, &settings, None).await?;
    let measured = |outcome: &&TrialOutcome| outcome.spec.kind == TrialKind::Measure;
    let Some(outcome) = found.outcomes.iter().rev().find(measured) else {
        let why = found.cut_short.unwrap_or_else(|| "no trial was finished".to_owned());
        return Err(Complaint::new(ExitCode::Void, format!("nothing was measured: {why}")).into());
    };
    write_all(&contents.path, &contents, &Document::of_run(&contents))?;
    let document = TrialDocument::new(&plan, outcome, &found.warnings).after(cold_start(&found.outcomes));
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

/// Goes on with a run that was ended before its time, and reports.
pub async fn resume(path: &Path, settings: Settings) -> anyhow::Result<ExitCode> {
    let (contents, _) = go_on(path, &settings).await?;
    finish(&contents.plan, &contents, &settings)?;
    Ok(exit_of(&contents))
}

/// Goes on with a run that was ended before its time. Gives the run and why it was cut short again, if
/// it was.
pub async fn go_on(path: &Path, settings: &Settings) -> anyhow::Result<(Contents, Option<String>)> {
    // Looked at before it is opened: to take a run up again strikes out its end.
    let over = Contents::read(path)?;
    if over.ended.as_ref().is_some_and(|end| end.answer.outcome != SearchOutcome::Interrupted) {
        return Ok((over, None));
    }
    let (mut folder, past) = RunFolder::open(path)?;
    let plan = past.plan.clone();
    let left_out = past.secrets_left_out();
    if !left_out.is_empty() {
        let text = format!("the run's plan names values that were not kept: {}", left_out.join(", "));
        let hint = "name them by environment variables (`${NAME}`) in the recipe and start a new run";
        return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
    }
    let outcomes: Vec<TrialOutcome> = past.outcomes().cloned().collect();
    let mut observer = observer(settings);
    let found = run(&plan, &mut folder, &outcomes, past.cost, settings, observer.as_mut()).await?;
    folder.close()?;
    Ok((Contents::read(path)?, found.cut_short))
}

/// Decides again from the journal, without any load.
pub fn replay(path: &Path, settings: &Settings) -> anyhow::Result<ExitCode> {
    let contents = Contents::read(path)?;
    let same = is_reproduced(&contents)?;
    finish(&contents.plan, &contents, settings)?;
    match contents.ended {
        Some(_) if same => eprintln!("the journal leads to the stored answer, bit for bit"),
        Some(_) => {
            let text = "the journal does not lead to the stored answer";
            let hint = "the run was made by another version, or a file in its folder was changed";
            return Err(Complaint::new(ExitCode::Void, text).hint(hint).into());
        }
        None => eprintln!("the run has no answer yet: `plimsoll resume {}` goes on with it", path.display()),
    }
    Ok(exit_of(&contents))
}

/// Whether a run's journal leads to its answer; false for a run without one.
pub fn is_reproduced(contents: &Contents) -> anyhow::Result<bool> {
    let outcomes: Vec<TrialOutcome> = contents.outcomes().cloned().collect();
    let mut strategy = search::strategy(&contents.plan);
    controller::replay(strategy.as_mut(), &outcomes).map_err(complaint)?;
    let Some(ended) = &contents.ended else { return Ok(false) };
    let mut answer = strategy.answer();
    if ended.answer.outcome == SearchOutcome::Interrupted {
        answer.outcome = SearchOutcome::Interrupted;
    }
    let budget = contents.plan.budget;
    let bounded = budget.seconds.is_some() || budget.requests.is_some();
    if ended.answer != answer && bounded && matches!(strategy.ask(), search::Ask::Trial(_)) {
        // The budget ended it in the middle of a trial, which left no trace of its own.
        strategy.stop();
        answer = strategy.answer();
    }
    Ok(ended.answer == answer)
}

/// Writes the report's files of a run into its folder.
pub fn write_report(contents: &Contents) -> anyhow::Result<()> {
    write_all(&contents.path, contents, &Document::of_run(contents))?;
    Ok(())
}

/// Goes through the checklist of the plan's target.
pub async fn check(plan: Plan, json: bool) -> anyhow::Result<ExitCode> {
    let report = check_plan(&plan).await.map_err(target_complaint)?;
    let text = if json { report.to_json() } else { terminal::check(&report, Style::of_stdout()) };
    print(&text)?;
    Ok(match (report.reachable, report.valid) {
        (_, true) => ExitCode::Answered,
        (false, _) => ExitCode::Unreachable,
        (true, false) => ExitCode::Void,
    })
}

/// Serves until interrupted.
pub async fn simulate(settings: SimulateSettings) -> anyhow::Result<ExitCode> {
    let listener = tokio::net::TcpListener::bind(settings.address)
        .await
        .with_context(|| format!("cannot listen on {}", settings.address))?;
    let preset = settings.preset;
    eprintln!("simulating {} at http://{}  (Ctrl-C ends)", preset.name, listener.local_addr()?);
    let options = Options { speed: settings.speed, seed: settings.seed, ..Options::default() };
    serve(listener, preset, options, async {
        // Where no signal can be had there is nothing to wait for but the end of the process.
        let _ = tokio::signal::ctrl_c().await;
    })
    .await?;
    Ok(ExitCode::Answered)
}

/// Runs a plan in a folder of its own, without a report.
pub async fn measure_all(
    plan: &Plan,
    settings: &Settings,
    page: Option<PageServer>,
) -> anyhow::Result<(Found, Contents, Option<Served>)> {
    // Made before anything is sent: a folder that cannot be written to costs no load.
    let mut folder = RunFolder::create(Some(&settings.out), &plan.name, plan)?;
    let path = folder.path().to_owned();
    let mut observer = observer(settings);
    let served = page.map(|page| {
        let status = Arc::default();
        let inner = std::mem::replace(&mut observer, Box::new(Silent));
        observer = Box::new(Watched::new(inner, Arc::clone(&status)));
        page.serve(Feed::new(&path, Some(status)))
    });
    let result = run(plan, &mut folder, &[], Cost::default(), settings, observer.as_mut()).await;
    folder.close()?;
    match result {
        Ok(found) => Ok((found, Contents::read(&path)?, served)),
        Err(error) => {
            // Nothing was measured: an empty run is of no use to anybody, unless it has an engine's log.
            if !was_launched(&path) && Contents::read(&path).is_ok_and(|contents| contents.trials.is_empty())
            {
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
    observer: &mut dyn Observer,
) -> anyhow::Result<Found> {
    let lock = lock(plan, folder.path(), settings.force)?;
    if let Err(text) = &lock {
        observer.warning(text);
        folder.warn(text)?;
    }
    let interrupt = interrupts();
    let Some(engine) = launch(plan, folder.path(), settings.quiet, interrupt.clone()).await? else {
        return run_on(plan, None, folder, past, spent, observer, interrupt).await;
    };
    let found = run_on(&engine.plan(plan), Some(&engine), folder, past, spent, observer, interrupt).await;
    // A server that hangs misses every SLO, which says nothing of its capacity.
    let found = match found {
        Ok(found) if matches!(found.answer.outcome, SearchOutcome::MissedAtLowest | SearchOutcome::Void) => {
            engine.check().await.map(|()| found).map_err(|failure| target_complaint(Box::new(failure).into()))
        }
        found => found,
    };
    let (pid, left) = (engine.pid, engine.stop().await);
    if left > 0 {
        eprintln!("warning: {left} processes of the engine (group {pid}) could not be ended");
    }
    found
}

/// Launches the plan's engine, if it has one.
pub(super) async fn launch(
    plan: &Plan,
    folder: &Path,
    quiet: bool,
    interrupt: watch::Receiver<bool>,
) -> anyhow::Result<Option<Running>> {
    let Some(engine) = &plan.engine else { return Ok(None) };
    let mut tell = |line: &str| {
        if !quiet {
            eprintln!("engine: {line}");
        }
    };
    for left in stop_leftovers(folder).await {
        tell(&format!(
            "launch {} was still running ({} processes) and was stopped",
            left.launch, left.processes
        ));
    }
    let launcher = Launcher::new(plan, folder, interrupt).map_err(launch_complaint)?;
    Ok(Some(launcher.launch(&engine.knobs, &mut tell).await.map_err(launch_complaint)?))
}

/// Runs a plan on a server that is there.
pub(super) async fn run_on(
    plan: &Plan,
    engine: Option<&Running>,
    folder: &mut RunFolder,
    past: &[TrialOutcome],
    spent: Cost,
    observer: &mut dyn Observer,
    interrupt: watch::Receiver<bool>,
) -> anyhow::Result<Found> {
    let mut prepared = prepare(plan, interrupt).await.map_err(target_complaint)?;
    observer.run_started(plan, &prepared.live.endpoint().description.to_string());
    for note in &prepared.live.endpoint().description.notes {
        tracing::info!("{note}");
    }
    for warning in &prepared.warnings {
        observer.warning(&warning.to_string());
        folder.warn(&warning.to_string())?;
    }
    let mut target = Attended::new(&mut prepared.live, engine);
    folder.target_described(target.describe())?;
    let found = controller::search(plan, &mut target, folder, past, spent, observer).await;
    // The client's CPU only: the embedded engine runs in this process too.
    tracing::debug!("{:.2} CPU-s of this process", process_cpu_seconds());
    found.map_err(complaint)
}

/// What shows the progress.
pub(super) fn observer(settings: &Settings) -> Box<dyn Observer> {
    progress::for_stderr(if settings.quiet { progress::Level::Quiet } else { progress::Level::Normal })
}

/// Keeps other runs off the plan's endpoint while the lock lives. Inside stands why there is none,
/// where that is no obstacle.
pub(super) fn lock(
    plan: &Plan,
    run: &Path,
    force: bool,
) -> anyhow::Result<Result<Option<EndpointLock>, String>> {
    // An engine of the run's own has a port of its own.
    let (TargetPlan::Endpoint(endpoint), None) = (&plan.target, &plan.engine) else { return Ok(Ok(None)) };
    match EndpointLock::take(&endpoint.url, run) {
        Ok(lock) => Ok(Ok(Some(lock))),
        Err(error @ LockError::Held { .. }) if !force => {
            let hint = "wait until it has ended, or measure all the same with `--force`: both will be wrong";
            Err(Complaint::new(ExitCode::Usage, error.to_string()).hint(hint).into())
        }
        Err(error) => Ok(Err(error.to_string())),
    }
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
pub(super) fn finish(plan: &Plan, contents: &Contents, settings: &Settings) -> anyhow::Result<()> {
    let document = Document::of_run(contents);
    write_all(&contents.path, contents, &document)?;
    if settings.json {
        print(&document.to_json())?;
    } else {
        let screen = Screen { document: &document, plan, folder: Some(&contents.path) };
        print(&terminal::search(&screen, Style::of_stdout()))?;
    }
    Ok(())
}

pub(super) fn exit_code(found: &Found) -> ExitCode {
    code_of(found.answer.outcome)
}

/// The exit code that goes with a stored run's answer.
pub fn exit_of(contents: &Contents) -> ExitCode {
    contents.ended.as_ref().map_or(ExitCode::Interrupted, |ended| code_of(ended.answer.outcome))
}

/// The exit code that goes with how a search ended.
pub fn code_of(outcome: SearchOutcome) -> ExitCode {
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

pub(super) fn launch_complaint(failure: LaunchFailure) -> anyhow::Error {
    let code = match &failure {
        LaunchFailure::Target(error) if !error.is_unreachable() => ExitCode::Usage,
        LaunchFailure::Engine(_) | LaunchFailure::Target(_) => ExitCode::Unreachable,
        LaunchFailure::Interrupted => ExitCode::Interrupted,
        _ => ExitCode::Usage,
    };
    let tail = failure.engine().map(|engine| engine.tail.clone()).unwrap_or_default();
    let complaint = Complaint::new(code, failure.to_string()).detail(tail);
    match failure.hint() {
        Some(hint) => complaint.hint(hint).into(),
        None => complaint.into(),
    }
}

pub(super) fn target_complaint(error: TargetError) -> anyhow::Error {
    let code = if error.is_unreachable() { ExitCode::Unreachable } else { ExitCode::Usage };
    let mut complaint = Complaint::new(code, error.to_string());
    if let TargetError::Engine(failure) = &error {
        complaint = complaint.detail(failure.tail.clone());
    }
    match error.hint() {
        Some(hint) => complaint.hint(hint).into(),
        None => complaint.into(),
    }
}
