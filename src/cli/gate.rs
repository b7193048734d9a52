//! `plimsoll gate`.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll::analysis::repeat;
use plimsoll::plan::{Budget, Plan, StrategyPlan, TargetPlan};
use plimsoll::recipe::{Duration, Precision, Purpose, Recipe};
use plimsoll::report::gate::GateDocument;
use plimsoll::report::{Document, write_all};
use plimsoll::run::{Contents, RepeatsFolder, left_out};
use plimsoll::search::gate::Gate as Strategist;
use plimsoll::search::{SearchOutcome, Strategy, TrialKind, TrialOutcome, judge};
use plimsoll::stats::sequential::{GateDecision, GateTest, Known};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::flags::CommonFlags;
use super::output::print;
use super::stored::{closed_loop, closed_loops};
use super::{block_on, engine, repeats};

/// Fail where a server carries less than a baseline run found: for CI.
///
/// Trials around the baseline's capacity go on until a sequential test decides. Everything that the
/// flags do not say is as in the baseline's plan. Exit code 0: kept, 7: lost, 5: undecided.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Gate {
    /// Folder of the run to compare with, or of the searches of `--repeats`.
    #[arg(long, value_name = "RUN")]
    baseline: PathBuf,

    /// Share of the capacity that may be lost.
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    max_loss: Precision,

    /// Chance that a server that has lost nothing fails.
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    false_alarms: Precision,

    /// Chance that a server that has lost twice `--max-loss` passes.
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    misses: Precision,

    /// Longest the gate may measure.
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    budget: Duration,

    /// Write the result as a JUnit file.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Print the result as an annotation of a GitHub workflow.
    #[arg(long)]
    github: bool,

    #[command(flatten)]
    common: CommonFlags,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll gate --baseline runs/baseline --max-loss 5% --url http://127.0.0.1:8000
  plimsoll gate --baseline runs/baseline --max-loss 10% --junit gate.xml --github";

impl Gate {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let baseline = Baseline::read(&self.baseline)?;
        let test = self.test(&baseline)?;
        if let Some(flag) = self.common.names_question() {
            let text = format!("`{flag}`: a gate sends and asks what its baseline did");
            return Err(Complaint::new(ExitCode::Usage, text)
                .hint("leave it out, or make another baseline")
                .into());
        }
        let given = self.common.names_target();
        let (flags, settings) = self
            .common
            .resolve(Purpose::Search, Recipe { slo: Some(baseline.plan.slo.clone()), ..Recipe::default() })?;
        let left_out = left_out(&baseline.plan);
        if !given && !left_out.is_empty() {
            let text =
                format!("the baseline's plan names values that were not kept: {}", left_out.join(", "));
            return Err(Complaint::new(ExitCode::Usage, text)
                .hint("name the server anew with `--url` and its flags")
                .into());
        }
        let Duration(seconds) = self.budget;
        let target = if given { flags.target } else { baseline.plan.target.clone() };
        let plan = Plan {
            name: format!("{}-gate", baseline.plan.name),
            target: as_baseline(target, &baseline.plan.target),
            engine: if given { flags.engine } else { baseline.plan.engine.clone() },
            strategy: StrategyPlan::Gate { test },
            budget: Budget { seconds: Some(seconds), requests: None },
            ..baseline.plan
        };
        let (found, run, _) = block_on(engine::measure_all(&plan, &settings, None))?;
        write_all(&run.path, &run, &Document::of_run(&run))?;
        if let Some(why) = found.cut_short {
            return Err(
                Complaint::new(ExitCode::Interrupted, format!("the gate was cut short: {why}")).into()
            );
        }
        let document = document(&plan, test, &self.baseline, &run);
        if let Some(path) = &self.junit {
            std::fs::write(path, document.junit()).map_err(|error| {
                Complaint::new(ExitCode::Usage, format!("cannot write `{}`: {error}", path.display()))
            })?;
        }
        if self.github {
            print(&document.github())?;
        }
        if settings.json {
            print(&(serde_json::to_string_pretty(&document)? + "\n"))?;
        } else {
            print(&format!("{}\n", document.line()))?;
            for note in &document.notes {
                print(&format!("  note  {note}\n"))?;
            }
            print(&format!("files   {}\n", run.path.display()))?;
        }
        Ok(match document.decision {
            GateDecision::Passed => ExitCode::Answered,
            GateDecision::Failed => ExitCode::GateFailed,
            GateDecision::Undecided => ExitCode::Void,
        })
    }

    /// The test, from what the baseline knows.
    fn test(&self, baseline: &Baseline) -> anyhow::Result<GateTest> {
        let Some(known) = baseline.known else {
            let text = format!("the baseline `{}` has no measured capacity", self.baseline.display());
            return Err(Complaint::new(ExitCode::Usage, text)
                .hint("make one with `plimsoll search --precision 5%` whose load lies within `--concurrency`")
                .into());
        };
        let share = |Precision(share): Precision| share;
        let test = GateTest {
            baseline: known,
            max_loss: share(self.max_loss),
            false_alarms: share(self.false_alarms),
            misses: share(self.misses),
        };
        for (flag, rate) in [("--false-alarms", test.false_alarms), ("--misses", test.misses)] {
            if rate >= 0.5 {
                let text = format!("`{flag}`: a rate of {:.0} % is a coin toss", rate * 100.0);
                return Err(Complaint::new(ExitCode::Usage, text).hint("give less than 50%").into());
            }
        }
        if test.max_loss >= 0.9 {
            let text = format!("`--max-loss`: {:.0} % is as good as everything", test.max_loss * 100.0);
            return Err(Complaint::new(ExitCode::Usage, text).hint("give for example 5%").into());
        }
        Ok(test)
    }
}

/// What a gate holds the present server against.
struct Baseline {
    plan: Plan,
    /// The capacity, where it was measured.
    known: Option<Known>,
}

impl Baseline {
    /// Reads a run, or the searches of `--repeats`: the server that is measured then is one more run of it.
    fn read(path: &Path) -> anyhow::Result<Self> {
        if RepeatsFolder::is_one(path) {
            let mut runs = closed_loops(path, "gate")?;
            let known = repeats::read(path)?.combined.map(|all| all.next_run());
            return Ok(Self { plan: runs.swap_remove(0).plan, known });
        }
        let contents = closed_loop(path, "gate")?;
        let outcomes: Vec<TrialOutcome> = contents.outcomes().cloned().collect();
        let judged = judge(&contents.plan.slo, contents.plan.load, &outcomes);
        let known = repeat(&judged).known.filter(|_| judged.answer.outcome == SearchOutcome::Found);
        Ok(Self { plan: contents.plan, known })
    }
}

/// A target that leaves out what the baseline names (the model, the call) is asked for the same.
pub(super) fn as_baseline(target: TargetPlan, baseline: &TargetPlan) -> TargetPlan {
    match (target, baseline) {
        (TargetPlan::Endpoint(mut endpoint), TargetPlan::Endpoint(before)) => {
            endpoint.model = endpoint.model.or_else(|| before.model.clone());
            endpoint.api = before.api;
            endpoint.streaming = before.streaming;
            TargetPlan::Endpoint(endpoint)
        }
        (target, _) => target,
    }
}

fn document(plan: &Plan, test: GateTest, baseline: &std::path::Path, run: &Contents) -> GateDocument {
    let mut strategy = Strategist::new(plan.slo.clone(), plan.load, test, Budget::default(), plan.seed);
    run.outcomes().for_each(|outcome| strategy.tell(outcome));
    let decision = strategy.decision();
    let now = strategy.known();
    let change = now.map(|now| {
        let log = (now.capacity / test.baseline.capacity).ln();
        let half = 1.96 * (now.log_sd.powi(2) + test.baseline.log_sd.powi(2)).sqrt();
        (log.exp() - 1.0, (log - half).exp() - 1.0, (log + half).exp() - 1.0)
    });
    let mut notes = Vec::new();
    if decision == GateDecision::Undecided {
        if test.baseline.log_sd > test.widest_baseline() {
            notes.push(format!(
                "the baseline is known to ±{:.1} % only; for this margin it must be known to ±{:.1} %: measure it \
                 longer (`plimsoll search --precision`), or allow more (`--max-loss`)",
                196.0 * test.baseline.log_sd,
                196.0 * test.widest_baseline()
            ));
        } else {
            notes.push("allow more time (`--budget`) or a larger margin (`--max-loss`)".to_owned());
        }
    }
    let measured = |outcome: &&TrialOutcome| outcome.spec.kind == TrialKind::Measure;
    GateDocument {
        schema_version: 1,
        decision,
        test,
        now,
        change,
        slo: plan.slo.clone().into(),
        baseline: baseline.display().to_string(),
        run: run.path.display().to_string(),
        trials: run.outcomes().filter(measured).count(),
        seconds: run.cost.seconds,
        notes,
    }
}
