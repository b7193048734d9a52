//! `plimsoll profile`.

use std::path::Path;
use std::time::Instant;

use clap::{Args, ValueEnum};
use plimsoll::plan::Plan;
use plimsoll::profile::{ProfileFolder, ProfilePlan, Shape, figures};
use plimsoll::recipe::{Count, ProfileKind, ProfileSection, Recipe, Steps, TrialSection};
use plimsoll::report::Document;
use plimsoll::report::profile::ProfileDocument;
use plimsoll::report::terminal::Style;
use plimsoll::run::{Contents, Cost, Observer, Progress, RunError, RunFolder, left_out};
use plimsoll::search::{Answer, SearchOutcome, TrialOutcome, TrialSpec};
use plimsoll::target::managed::Running;
use plimsoll::target::prepare;
use plimsoll::units::Seconds;
use tokio::sync::watch;

use super::complaint::Complaint;
use super::engine::{self, Settings};
use super::exit::ExitCode;
use super::flags::ServerFlags;
use super::output::print;
use super::{block_on, engine::target_complaint};

/// Draw the server's own curves, whatever the SLO: prefill, decode, or Pareto fronts.
///
/// prefill: TTFT over prompt length, one request at a time, and prompt tokens a second. decode: time between
/// tokens over requests in flight and output length. pareto: throughput a user against throughput in all,
/// for each shape of requests. Without `--url` or `--launch` the simulated engine is measured.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Profile {
    /// What is drawn; a recipe may say it (`profile.kind`).
    #[arg(value_name = "WHAT", required_unless_present = "recipe")]
    kind: Option<Kind>,

    /// Prompt lengths in tokens: 128,512,2048 or 128..8192 (eight, evenly apart on the log scale)
    /// [default: 128..2048 (prefill), 128 (decode), 128,1024 (pareto)]
    #[arg(long, value_name = "TOKENS")]
    isl: Option<Steps>,

    /// Output lengths in tokens, in the same form [default: 8 (prefill), 32,128,512 (decode), 32,128 (pareto)]
    #[arg(long, value_name = "TOKENS")]
    osl: Option<Steps>,

    /// Requests in flight, in the same form [default: 1 (prefill), 1,2,4,8,16,32,64]
    #[arg(long, value_name = "N,N,..")]
    concurrency: Option<Steps>,

    /// Completions to count at each point, at least two for each user [default: 24 (prefill), 16]
    #[arg(long, value_name = "K")]
    requests: Option<Count>,

    /// GPUs of the server: throughput a GPU is given too.
    #[arg(long, value_name = "N")]
    gpus: Option<Count>,

    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// TTFT over prompt length.
    Prefill,
    /// Time between tokens over requests in flight and output length.
    Decode,
    /// Throughput a user against throughput in all, by shape of request.
    Pareto,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll profile prefill --url http://127.0.0.1:8000 --isl 128..32768
  plimsoll profile decode --url http://127.0.0.1:8000 --osl 128,1024 --concurrency 1..128
  plimsoll profile pareto --isl 1024,8192 --osl 128,1024 --gpus 8 --url http://127.0.0.1:8000
  plimsoll profile --recipe prefill-curve
  plimsoll resume runs/latest";

impl Profile {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let further = Recipe {
            profile: ProfileSection {
                kind: self.kind.map(|kind| match kind {
                    Kind::Prefill => ProfileKind::Prefill,
                    Kind::Decode => ProfileKind::Decode,
                    Kind::Pareto => ProfileKind::Pareto,
                }),
                isl: self.isl,
                osl: self.osl,
                concurrency: self.concurrency,
                gpus: self.gpus,
            },
            trial: TrialSection { requests: self.requests, ..TrialSection::default() },
            ..Recipe::default()
        };
        let (name, recipe, settings) = self.server.recipe(further)?;
        let plan = ProfilePlan::of(recipe, name.as_deref())?;
        let folder = ProfileFolder::create(&settings.out, &plan)?;
        block_on(conduct(folder, plan, settings))
    }
}

/// Goes on with a profile that was cut short: with the run that was, then with those that are missing.
pub async fn resume(path: &Path, settings: Settings) -> anyhow::Result<ExitCode> {
    let (folder, plan) = ProfileFolder::open(path)?;
    let places = left_out(&plan.plan);
    if !places.is_empty() {
        let text = format!("the profile's plan names values that were not kept: {}", places.join(", "));
        let hint = "name them by environment variables (`${NAME}`) in the recipe and start anew";
        return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
    }
    conduct(folder, plan, settings).await
}

/// What the runs of a folder say so far.
pub fn read(path: &Path) -> anyhow::Result<ProfileDocument> {
    let (folder, plan) = ProfileFolder::read(path)?;
    Ok(document(&folder, &plan)?)
}

/// Prints what the runs of a folder say so far.
pub fn show(document: &ProfileDocument, json: bool) -> anyhow::Result<ExitCode> {
    print(&if json { document.to_json() } else { document.screen(Style::of_stdout()) })?;
    Ok(match (document.is_whole(), document.is_valid()) {
        (false, _) => ExitCode::Interrupted,
        (true, false) => ExitCode::Void,
        (true, true) => ExitCode::Answered,
    })
}

async fn conduct(folder: ProfileFolder, plan: ProfilePlan, settings: Settings) -> anyhow::Result<ExitCode> {
    let lock = engine::lock(&plan.plan, folder.path(), settings.force)?;
    if let Err(text) = &lock {
        eprintln!("warning: {text}");
    }
    let interrupt = engine::interrupts();
    let server = engine::launch(&plan.plan, folder.path(), settings.quiet, interrupt.clone()).await?;
    let measured = measure(&folder, &plan, &settings, server.as_ref(), interrupt).await;
    if let Some(server) = server {
        let (pid, left) = (server.pid, server.stop().await);
        if left > 0 {
            eprintln!("warning: {left} processes of the engine (group {pid}) could not be ended");
        }
    }
    let document = document(&folder, &plan)?;
    if document.figures.cells.is_empty() {
        measured?;
        return Err(Complaint::new(ExitCode::Void, "no trial was finished").into());
    }
    document.write(folder.path())?;
    let code = show(&document, settings.json)?;
    let path = folder.path().display();
    if !settings.json {
        print(&format!("  files        {path}\n"))?;
    }
    if !document.is_whole() {
        eprintln!("what was measured is kept: `plimsoll resume {path}` goes on with it");
    }
    measured?;
    Ok(code)
}

/// Measures the shapes that are missing, one after the other on one server, until one is cut short.
async fn measure(
    folder: &ProfileFolder,
    plan: &ProfilePlan,
    settings: &Settings,
    server: Option<&Running>,
    interrupt: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let on_server = |plan: Plan| match server {
        Some(server) => server.plan(&plan),
        None => plan,
    };
    // The longest requests of all, before any load: what does not fit the context is known at once.
    prepare(&on_server(plan.plan.clone()), interrupt.clone()).await.map_err(target_complaint)?;
    let shapes = plan.shapes.len();
    // The first one of this process is left out of the estimate: it may have warmed the server up.
    let mut told = Vec::new();
    let mut estimate: Option<(Instant, u32)> = None;
    for (index, (shape, search)) in plan.each().enumerate() {
        let past = folder.run_of(search.seed).map(|path| Contents::read(&path)).transpose()?;
        if past.as_ref().is_some_and(is_over) {
            continue;
        }
        if !settings.quiet {
            let left = match estimate {
                Some((since, done)) if done > 0 => {
                    let each = since.elapsed().as_secs_f64() / f64::from(done);
                    format!(", about {} left", Seconds((each * (shapes - index) as f64).ceil()))
                }
                _ => String::new(),
            };
            let (number, Shape { isl, osl }) = (index + 1, shape);
            eprintln!("shape {number} of {shapes}: prompts of {isl} and outputs of {osl} tokens{left}");
        }
        let (mut run, past) = match past {
            Some(past) => RunFolder::open(&past.path)?,
            None => {
                let run = RunFolder::create(Some(&folder.runs()), &search.name, &search)?;
                let contents = Contents::read(run.path())?;
                (run, contents)
            }
        };
        let path = run.path().to_owned();
        let outcomes: Vec<TrialOutcome> = past.outcomes().cloned().collect();
        let mut observer = OfShape { inner: engine::observer(settings), told: &mut told };
        let search = on_server(search);
        let found =
            engine::run_on(&search, server, &mut run, &outcomes, past.cost, &mut observer, interrupt.clone())
                .await;
        run.close()?;
        let found = found?;
        engine::write_report(&Contents::read(&path)?)?;
        if let Some(why) = found.cut_short {
            eprintln!("the profile was cut short: {why}");
            return Ok(());
        }
        estimate = estimate.map(|(since, done)| (since, done + 1)).or_else(|| Some((Instant::now(), 0)));
    }
    Ok(())
}

/// Shows the course of a shape: the server and what is to be known of it only once for all of them.
struct OfShape<'a> {
    inner: Box<dyn Observer>,
    told: &'a mut Vec<String>,
}

impl Observer for OfShape<'_> {
    fn run_started(&mut self, plan: &Plan, description: &str) {
        if self.told.is_empty() {
            self.told.push(String::new());
            self.inner.run_started(plan, description);
        }
    }

    fn trial_started(&mut self, spec: &TrialSpec, expected_remaining: u32) {
        self.inner.trial_started(spec, expected_remaining);
    }

    fn trial_progress(&mut self, progress: &Progress) {
        self.inner.trial_progress(progress);
    }

    fn trial_ended(&mut self, outcome: &TrialOutcome) {
        self.inner.trial_ended(outcome);
    }

    fn warning(&mut self, text: &str) {
        if is_new(self.told, text) {
            self.inner.warning(text);
        }
    }

    fn finished(&mut self, answer: &Answer) {
        self.inner.finished(answer);
    }
}

/// Whether a warning has not been given yet, and notes that it has: it is the same with other figures.
fn is_new(told: &mut Vec<String>, text: &str) -> bool {
    let kind: String = text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
    let new = !told.contains(&kind);
    if new {
        told.push(kind);
    }
    new
}

/// Whether a run has measured all that it was to.
fn is_over(run: &Contents) -> bool {
    run.ended.as_ref().is_some_and(|end| end.answer.outcome != SearchOutcome::Interrupted)
}

/// What the runs of a folder say together.
fn document(folder: &ProfileFolder, plan: &ProfilePlan) -> Result<ProfileDocument, RunError> {
    let mut runs = Vec::new();
    for (shape, search) in plan.each() {
        if let Some(path) = folder.run_of(search.seed) {
            runs.push((shape, Contents::read(&path)?));
        }
    }
    let of_runs = runs.iter().map(|(shape, run)| (*shape, run.outcomes().collect()));
    let mut document = ProfileDocument::new(plan, folder.started(), figures(plan, of_runs));
    document.target = runs.iter().rev().find_map(|(_, run)| run.target.clone());
    let mut told = Vec::new();
    for (_, run) in &runs {
        document.cost = Cost {
            seconds: document.cost.seconds + run.cost.seconds,
            requests: document.cost.requests + run.cost.requests,
            client_cpu_seconds: document.cost.client_cpu_seconds + run.cost.client_cpu_seconds,
        };
        for warning in Document::of_run(run).warnings {
            if is_new(&mut told, &warning) {
                document.warnings.push(warning);
            }
        }
        let path = run.path.strip_prefix(folder.path()).unwrap_or(&run.path);
        document.runs.push(path.display().to_string());
    }
    Ok(document)
}
