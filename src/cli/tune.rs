//! `plimsoll tune`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use plimsoll::plan::TargetPlan;
use plimsoll::recipe::{
    Count, Duration, EngineSection, Loaded, Recipe, TargetSection, TuneObjective, TuneSection,
};
use plimsoll::report::plot::effects_svg;
use plimsoll::run::{left_out, write_file};
use plimsoll::search::tuner::{Design, Enough};
use plimsoll::target::managed::stop_leftovers;
use plimsoll::tune::{
    Conduct, Entry, Launcher, Managed, Outcome, Role, TuneDocument, TuneError, TuneFolder, TunePlan, Virtual,
    Watcher, line, screen,
};

use super::complaint::Complaint;
use super::engine::{Settings, interrupts, launch_complaint};
use super::exit::ExitCode;
use super::flags::read_knobs;
use super::{block_on, output};
use tokio::sync::watch;

/// Find the engine settings that carry the most load within the SLO, and prove the gain.
///
/// For each setting the engine is launched and its capacity searched; a model of all that was seen
/// says which setting is tried next. At the end best and default are launched again in turns, and the
/// gain is given with its interval.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Tune {
    /// The recipe with the engine's knobs: a file, or the name of a ready one.
    #[arg(required_unless_present = "named")]
    recipe: Option<String>,

    /// The same, as other commands take it.
    #[arg(id = "named", long = "recipe", value_name = "RECIPE", conflicts_with = "recipe")]
    named: Option<String>,

    /// The model that the engine serves.
    #[arg(long)]
    model: Option<String>,

    /// The value of a knob that is not to be tuned; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// What is best: goodput (the default), concurrency or cost.
    #[arg(long, value_enum)]
    objective: Option<Objective>,

    /// How settings are chosen: bayes (the default), sobol, lhs, random, grid or zip.
    #[arg(long, value_enum)]
    design: Option<DesignName>,

    /// Most settings that are tried before the confirmation [default: 20]
    #[arg(long, value_name = "K")]
    launches: Option<Count>,

    /// Longest that all may take, the confirmation included.
    #[arg(long, value_name = "DURATION")]
    budget: Option<Duration>,

    /// Times that best and default are measured again at the end; 0 for none [default: 3]
    #[arg(long, value_name = "K")]
    confirmations: Option<u32>,

    /// Seed of every random stream [default: 0]
    #[arg(long)]
    seed: Option<u64>,

    /// Folder in which the tuning's folder is made.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,

    /// Print the result as JSON on stdout instead of the screen.
    #[arg(long)]
    json: bool,

    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Objective {
    Goodput,
    Concurrency,
    Cost,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DesignName {
    Bayes,
    Sobol,
    Lhs,
    Random,
    Grid,
    Zip,
}

/// Name of the picture of the knobs' effects within the folder.
const IMPORTANCE_FILE: &str = "importance.svg";

const EXAMPLES: &str = "\
Examples:
  plimsoll tune simulated-tune
  plimsoll tune vllm-managed --model Qwen/Qwen3-8B --budget 3h
  plimsoll tune my-engine.toml --launches 15 --budget 2h
  plimsoll resume runs/20260102T030405Z-my-engine-tune";

impl Tune {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let given = self.recipe.or(self.named).unwrap_or_default();
        let Loaded { name, recipe } = Loaded::open(&given)?;
        let flags = Recipe {
            seed: self.seed,
            target: TargetSection { model: self.model, ..TargetSection::default() },
            engine: EngineSection { set: read_knobs(&self.set)?, ..EngineSection::default() },
            tune: TuneSection {
                objective: self.objective.map(|objective| match objective {
                    Objective::Goodput => TuneObjective::Goodput,
                    Objective::Concurrency => TuneObjective::Concurrency,
                    Objective::Cost => TuneObjective::Cost,
                }),
                design: self.design.map(|design| match design {
                    DesignName::Bayes => Design::Bayes,
                    DesignName::Sobol => Design::Sobol,
                    DesignName::Lhs => Design::Lhs,
                    DesignName::Random => Design::Random,
                    DesignName::Grid => Design::Grid,
                    DesignName::Zip => Design::Zip,
                }),
                launches: self.launches,
                budget: self.budget,
                confirmations: self.confirmations,
                ..TuneSection::default()
            },
            ..Recipe::default()
        };
        let plan = TunePlan::of(recipe.changed_by(flags), Some(&name)).map_err(complaint)?;
        let settings = Settings { out: self.out, json: self.json, quiet: self.quiet, force: false };
        check(&plan)?;
        let folder = TuneFolder::create(&settings.out, &plan)?;
        block_on(conduct(plan, folder, Vec::new(), settings))
    }
}

/// Goes on with a tuning that was cut short.
pub fn resume(path: &Path, settings: Settings) -> anyhow::Result<ExitCode> {
    let (folder, plan, entries) = TuneFolder::open(path)?;
    let places = left_out(&plan.plan);
    if !places.is_empty() {
        let text = format!("the tuning's plan names values that were not kept: {}", places.join(", "));
        let hint = "name them by environment variables (`${NAME}`) in the recipe and start anew";
        return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
    }
    check(&plan)?;
    block_on(conduct(plan, folder, entries, settings))
}

/// Whether `path` is the folder of a tuning.
pub fn is_tuning(path: &Path) -> bool {
    TuneFolder::is_one(path)
}

fn check(plan: &TunePlan) -> anyhow::Result<()> {
    let space = plan.space().map_err(complaint)?;
    match &plan.plan.target {
        TargetPlan::Endpoint(_) if plan.plan.engine.is_some() => {
            Managed::check(&plan.plan, &space).map_err(|text| Complaint::new(ExitCode::Usage, text).into())
        }
        TargetPlan::Simulated(_) => {
            Virtual::new(&plan.plan, &space).map_err(|text| Complaint::new(ExitCode::Usage, text))?;
            Ok(())
        }
        TargetPlan::Endpoint(_) => {
            let text = "a server that runs already cannot be launched with other settings";
            let hint = "let plimsoll launch it (`[engine]` with `launch`; `plimsoll recipes show vllm-managed`); `plimsoll \
                        search` measures a server as it is";
            Err(Complaint::new(ExitCode::Usage, text).hint(hint).into())
        }
    }
}

fn complaint(error: TuneError) -> anyhow::Error {
    match error {
        TuneError::Recipe(error) => error.into(),
        TuneError::Launch(failure) => launch_complaint(failure),
        error => error.into(),
    }
}

async fn conduct(
    plan: TunePlan,
    folder: TuneFolder,
    past: Vec<Entry>,
    settings: Settings,
) -> anyhow::Result<ExitCode> {
    let interrupt = interrupts();
    if plan.plan.engine.is_none() {
        let space = plan.space().map_err(complaint)?;
        let launcher =
            Virtual::new(&plan.plan, &space).map_err(|text| Complaint::new(ExitCode::Usage, text))?;
        return conduct_with(launcher, plan, folder, past, settings, interrupt).await;
    }
    let quiet = settings.quiet;
    let tell = move |line: &str| {
        if !quiet {
            eprintln!("engine: {line}");
        }
    };
    for left in stop_leftovers(folder.path()).await {
        tell(&format!(
            "launch {} was still running ({} processes) and was stopped",
            left.launch, left.processes
        ));
    }
    let launcher = Managed::new(&plan.plan, folder.path(), interrupt.clone(), Box::new(tell))
        .map_err(launch_complaint)?;
    conduct_with(launcher, plan, folder, past, settings, interrupt).await
}

async fn conduct_with<L: Launcher>(
    mut launcher: L,
    plan: TunePlan,
    mut folder: TuneFolder,
    past: Vec<Entry>,
    settings: Settings,
    interrupt: watch::Receiver<bool>,
) -> anyhow::Result<ExitCode> {
    let mut lines = Lines { objective: plan.objective, quiet: settings.quiet, number: String::new() };
    if !settings.quiet && !past.is_empty() {
        eprintln!("going on after {} settings", past.len());
    }
    let path = folder.path().to_owned();
    let conduct =
        Conduct { plan: &plan, launcher: &mut launcher, folder: &mut folder, watcher: &mut lines, interrupt };
    let document = conduct.run(past).await.map_err(complaint)?;
    let name = "tune.json";
    write_file(&path, name, document.to_json().as_bytes()).context("the result cannot be kept")?;
    let title = format!("{}: what the knobs do", document.name);
    if let Some(picture) = effects_svg(&title, &document.effects)? {
        write_file(&path, IMPORTANCE_FILE, picture.as_bytes()).context("the picture cannot be kept")?;
    }
    if settings.json {
        output::print(&document.to_json())?;
    } else {
        output::print(&format!("{}  files      {}\n", screen(&document), path.display()))?;
    }
    Ok(exit_code(&document))
}

fn exit_code(document: &TuneDocument) -> ExitCode {
    match document.outcome {
        Outcome::Tuned => ExitCode::Answered,
        Outcome::MissedAtLowest => ExitCode::MissedAtLowest,
        Outcome::NothingWorks => ExitCode::Void,
        Outcome::Interrupted => ExitCode::Interrupted,
    }
}

/// Progress as lines on stderr.
struct Lines {
    objective: TuneObjective,
    quiet: bool,
    number: String,
}

impl Watcher for Lines {
    fn trying(&mut self, number: usize, of: usize, _role: Role, _setting: &plimsoll::space::Setting) {
        if !self.quiet {
            self.number = format!("{number}/{of}  ");
        }
    }

    fn tried(&mut self, entry: &Entry, best: Option<f64>) {
        if !self.quiet {
            let best = best
                .map_or_else(String::new, |best| format!("  best {}", plimsoll::units::significant(best)));
            eprintln!("{}{}{best}", self.number, line(entry, self.objective));
        }
    }

    fn explored(&mut self, why: Enough) {
        if !self.quiet {
            eprintln!("explored: {}; now the best and the default again, in turns", why.words());
        }
    }
}
