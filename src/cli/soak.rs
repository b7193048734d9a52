//! `plimsoll soak`.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll::plan::Hold;
use plimsoll::plan::{Budget, LoadRange, Plan, StrategyPlan};
use plimsoll::recipe::{Duration, Precision, Purpose, Recipe};
use plimsoll::report::soak::SoakDocument;
use plimsoll::report::{Document, write_all};
use plimsoll::run::RepeatsFolder;
use plimsoll::search::TrialOutcome;
use plimsoll::search::soak::{LEAST_WINDOWS, SoakDecision, SoakLimits, soaked};
use plimsoll::units::{Load, Seconds};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::flags::CommonFlags;
use super::output::print;
use super::stored::closed_loop;
use super::{block_on, engine, gate, repeats};

/// Windows that a soak is cut into where their length is not given.
const WINDOWS: f64 = 30.0;
/// Shortest window that is chosen, seconds.
const SHORTEST: f64 = 5.0;

/// Hold the safe load of a finished run for long, and fail where it does not last.
///
/// Fails on an SLO that is missed in the long run, on times or memory that grow, on errors and on
/// preemptions. Everything that the flags do not say is as in the run's plan. Exit code 0: held,
/// 7: failed, 5: too few valid windows to tell.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Soak {
    /// Folder of the run whose safe load is held.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// How long the load is held.
    #[arg(long = "for", value_name = "DURATION", default_value = "30m")]
    length: Duration,

    /// Length of a window [default: a thirtieth of the whole, at least 5s]
    #[arg(long, value_name = "DURATION")]
    window: Option<Duration>,

    /// Growth of times and of memory over the whole soak that is allowed.
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    max_drift: Precision,

    /// Share of the requests that may fail.
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = share)]
    max_errors: f64,

    /// Preemptions that are allowed, as a share of the requests.
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = share)]
    max_preemptions: f64,

    /// Chance that a steady server that meets its SLO fails.
    #[arg(long, value_name = "PERCENT", default_value = "1%")]
    false_alarms: Precision,

    #[command(flatten)]
    common: CommonFlags,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll soak runs/latest --for 30m
  plimsoll soak runs/latest --for 8h --url http://127.0.0.1:8000 --max-preemptions 1%";

fn share(text: &str) -> Result<f64, String> {
    let wrong = || "it is a percentage such as `0.1%`".to_owned();
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let percent: f64 = number.trim().parse().map_err(|_| wrong())?;
    if (0.0..=100.0).contains(&percent) { Ok(percent / 100.0) } else { Err(wrong()) }
}

impl Soak {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(flag) = self.common.names_question() {
            let text = format!("`{flag}`: a soak sends and asks what its run did");
            return Err(Complaint::new(ExitCode::Usage, text)
                .hint("leave it out, or soak another run")
                .into());
        }
        let (users, of) = safe_load(&self.run)?;
        let hold = self.hold(users, of.slo.longest_window())?;
        let limits = SoakLimits {
            false_alarms: self.false_alarms.0,
            max_drift: self.max_drift.0,
            max_errors: self.max_errors,
            max_preemptions: self.max_preemptions,
        };
        let given = self.common.names_target();
        let (flags, settings) = self
            .common
            .resolve(Purpose::Search, Recipe { slo: Some(of.slo.clone()), ..Recipe::default() })?;
        let left_out = plimsoll::run::left_out(&of);
        if !given && !left_out.is_empty() {
            let text = format!("the run's plan names values that were not kept: {}", left_out.join(", "));
            let hint = "name the server anew with `--url` and its flags";
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        let target = if given { flags.target } else { of.target.clone() };
        let plan = Plan {
            name: format!("{}-soak", of.name),
            target: gate::as_baseline(target, &of.target),
            engine: if given { flags.engine } else { of.engine.clone() },
            load: LoadRange { min: 1, max: users },
            strategy: StrategyPlan::Soak { hold },
            budget: Budget::default(),
            ..of
        };
        let (found, run, _) = block_on(engine::measure_all(&plan, &settings, None))?;
        let figures = Document::of_run(&run);
        write_all(&run.path, &run, &figures)?;
        if let Some(why) = found.cut_short {
            let text = format!("the soak was cut short: {why}");
            return Err(Complaint::new(ExitCode::Interrupted, text).into());
        }
        let outcomes: Vec<TrialOutcome> = run.outcomes().cloned().collect();
        let document = SoakDocument::new(
            Load::Concurrency(users),
            plan.slo.clone().into(),
            limits,
            soaked(&plan.slo, &limits, &outcomes),
            &figures.trials,
            (self.run.display().to_string(), run.path.display().to_string()),
        );
        let json = serde_json::to_string_pretty(&document)? + "\n";
        plimsoll::run::write_file(&run.path, "soak.json", json.as_bytes())?;
        if settings.json {
            print(&json)?;
        } else {
            print(&format!("{}\nfiles   {}\n", document.line(), run.path.display()))?;
        }
        Ok(match document.decision {
            SoakDecision::Held => ExitCode::Answered,
            SoakDecision::Failed => ExitCode::GateFailed,
            SoakDecision::Undecided => ExitCode::Void,
        })
    }

    /// What is held.
    fn hold(&self, users: u32, objective: Option<f64>) -> anyhow::Result<Hold> {
        let Duration(length) = self.length;
        let window = match (self.window, objective) {
            (Some(Duration(window)), Some(objective)) if window < objective => {
                let text = format!(
                    "`--window` is {}, and an objective of the run is judged over {}",
                    Seconds(window),
                    Seconds(objective)
                );
                let hint = "make the windows of the soak as long as that, or leave `--window` out";
                return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
            }
            (Some(Duration(window)), _) => window,
            (None, None) => (length / WINDOWS).max(SHORTEST),
            // Whole windows of the objective in each of the soak's.
            (None, Some(objective)) => {
                let wanted = (length / WINDOWS).max(SHORTEST);
                objective * (wanted / objective).ceil()
            }
        };
        let windows = (length / window + 1e-9).floor() as u32;
        if (windows as usize) < LEAST_WINDOWS {
            let text = format!(
                "a soak of {length} s holds {windows} windows of {window} s; fewer than {LEAST_WINDOWS} tell nothing"
            );
            let hint = "hold the load for longer (`--for`), or shorten the windows (`--window`)";
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        Ok(Hold { users, windows, window_seconds: window })
    }
}

/// The safe load of a finished run, or of several, and the plan that goes with it.
fn safe_load(run: &Path) -> anyhow::Result<(u32, Plan)> {
    let (document, plan) = if RepeatsFolder::is_one(run) {
        let repeated = repeats::read(run)?;
        (repeated.document, repeated.nearest.plan)
    } else {
        let contents = closed_loop(run, "soak")?;
        (Document::of_run(&contents), contents.plan)
    };
    match document.answer.safe_load {
        Some(Load::Concurrency(users)) if users > 0 => Ok((users, plan)),
        _ => {
            let text = format!("the run `{}` has no safe load to hold", run.display());
            let hint = "soak a finished search over concurrency that found its load";
            Err(Complaint::new(ExitCode::Usage, text).hint(hint).into())
        }
    }
}
