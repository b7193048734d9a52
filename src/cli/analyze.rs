//! `plimsoll analyze`.

mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll::analysis::foreign::{self, Foreign};
use plimsoll::analysis::frontier::{Capacity, frontiers};
use plimsoll::analysis::{Material, Part, Runs, knee};
use plimsoll::plan::{
    Api, Budget, EndpointPlan, Lengths, PLAN_VERSION, Plan, StrategyPlan, TargetPlan, TelemetryPlan,
    TrialPlan, WorkloadPlan,
};
use plimsoll::profile::ProfileFolder;
use plimsoll::recipe::Window;
use plimsoll::report::analysis::{Analysis, AnalysisDocument, Tier, csv};
use plimsoll::report::plot::frontier as picture;
use plimsoll::report::terminal::{Screen, Style};
use plimsoll::report::{Document, Provenance, repeats};
use plimsoll::run::{Contents, Cost, PLAN_FILE, RepeatsFolder, write_file};
use plimsoll::search::{Judged, SearchOutcome};
use plimsoll::slo::Slo;
use plimsoll::units::{Interval, Seconds};

use super::complaint::Complaint;
use super::engine::code_of;
use super::exit::ExitCode;
use super::output::print;
use super::profile;
use super::stored::closed_loops;
use values::{Degradation, Span, TierFlag, TrialNumbers};

/// Ask a finished run another question, without any load.
///
/// Every stored request is judged anew: under another SLO, for tiers of service, over a range of
/// limits. The answer says whether it lies within the loads that were measured. Result files of
/// AIPerf, guidellm and vllm bench are read too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Analyze {
    /// Folder of the run, of the searches of `--repeats` or of a profile, or result files of AIPerf (profile_export.jsonl, search_history.json),
    /// guidellm or vllm bench, which may be several.
    #[arg(value_name = "RUN|FILE", required = true)]
    source: Vec<PathBuf>,

    /// An objective in place of those of the run; may be given several times, all must hold.
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,

    /// Only what was measured within this time of the run, such as 30s..120s; trials that reach beyond are
    /// cut.
    #[arg(long, value_name = "FROM..TO")]
    window: Option<Window>,

    /// Only these trials, such as 3,5..9: numbers of the `trials` in summary.json.
    #[arg(long, value_name = "N,N..N", value_delimiter = ',')]
    trials: Vec<TrialNumbers>,

    /// A tier of service, such as gold='ttft p95 < 300ms, tpot p95 < 30ms'; may be given several
    /// times.
    #[arg(long, value_name = "NAME=SLO")]
    tier: Vec<TierFlag>,

    /// Capacity over the limit of TTFT, of the time between tokens, and of both, as tables and as
    /// frontier.svg, .png and .csv in the run's folder.
    #[arg(long)]
    frontier: bool,

    /// Limits of TTFT for the frontier [default: from what was measured]
    #[arg(long, value_name = "FROM..TO", requires = "frontier")]
    ttft: Option<Span>,

    /// Limits of the time between tokens for the frontier (of ITL where the SLO judges it, else TPOT).
    #[arg(long, value_name = "FROM..TO", requires = "frontier", alias = "tpot")]
    itl: Option<Span>,

    /// The largest load whose latency is within this much of the lightest load's [default: 100%]
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "100%")]
    knee: Option<Degradation>,

    /// Throughput a user against throughput in all, and which trials are on the front.
    #[arg(long)]
    pareto: bool,

    /// Print the result as JSON on stdout instead of the screen.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll analyze runs/latest --slo 'ttft p99 < 1s'
  plimsoll analyze runs/latest --slo 'ttft p99 < 1s' --window 30s..120s
  plimsoll analyze runs/latest --frontier --ttft 200ms..2s
  plimsoll analyze results/search_history.json --slo 'ttft p95 < 200ms'
  plimsoll analyze runs/latest --tier gold='ttft p95 < 300ms' --tier batch='e2e p95 < 60s' --knee";

/// What is asked of the material, and where it is from.
struct Case {
    source: String,
    runs: Runs,
    /// The searches of `--repeats`, where the runs are those.
    repeats: Option<(RepeatsFolder, Plan, Vec<Contents>)>,
    plan: Plan,
    searched_slo: Vec<String>,
    cost: Cost,
    warnings: Vec<String>,
    provenance: Provenance,
    /// The tool that measured, where it was another, and the load that it named.
    tool: Option<(&'static str, Option<u32>)>,
}

impl Analyze {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let [path] = self.source.as_slice()
            && ProfileFolder::is_one(path)
        {
            return self.of_profile(path);
        }
        let mut case = self.case()?;
        if !self.slo.is_empty() {
            case.plan.slo = Slo::parse(self.slo.iter().map(String::as_str))?;
        }
        if case.plan.slo.objectives.is_empty() {
            let text = format!("`{}` names no SLO", case.source);
            return Err(Complaint::new(ExitCode::Usage, text)
                .hint("give one: `--slo 'ttft p95 < 500ms'`")
                .into());
        }
        let slo = case.plan.slo.clone();
        if let Some((objective, longest)) = case.runs.too_short_for(&slo) {
            let text = format!(
                "`{objective}` is judged over windows, and the longest trial of `{}` measured {}",
                case.source,
                Seconds(longest)
            );
            let hint = "judge by a shorter window, or search anew with this objective: trials are as long as it needs";
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        let read = case.runs.judged(&slo);
        let judged = &read.judged;
        let several = case.repeats.as_ref();
        let several = several.and_then(|(folder, plan, runs)| repeats::anew(folder, plan, runs, &slo, &read));
        let document = several.unwrap_or_else(|| {
            let outcomes = read.each.first().map_or(&[][..], |anew| anew.outcomes.as_slice());
            let provenance = case.provenance.clone();
            Document::new(&case.plan, &judged.answer, outcomes, case.cost, &case.warnings, provenance)
        });
        let analysis = Analysis {
            source: case.source.clone(),
            beside: case.tool.map(|(tool, claimed)| beside(tool, claimed, &case.runs, judged)),
            part: self.part_words(),
            searched_slo: case.searched_slo.clone(),
            place: judged.place,
            tiers: self.tier.iter().map(|tier| tier.of(&case.runs)).collect(),
            frontier: self
                .frontier
                .then(|| {
                    let span = |span: Option<Span>| span.map(|Span(limits)| limits);
                    frontiers(&case.runs, &slo, span(self.ttft), span(self.itl))
                })
                .flatten(),
            knees: self.knee.map_or(Vec::new(), |Degradation(by)| knee::knees(&case.runs, &slo, by)),
            throughputs: if self.pareto { knee::throughputs(&case.runs) } else { Vec::new() },
        };
        let document = AnalysisDocument { document, analysis };
        self.write_frontier(&document)?;
        if self.json {
            print(&document.to_json())?;
        } else {
            let screen = Screen { document: &document.document, plan: &case.plan, folder: None };
            print(&document.screen(&screen, Style::of_stdout()))?;
        }
        Ok(code_of(judged.answer.outcome))
    }

    fn case(&self) -> anyhow::Result<Case> {
        let source = self.source.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let [path] = self.source.as_slice() else {
            return self.of_files(source);
        };
        let is_run = path.join(PLAN_FILE).exists() || RepeatsFolder::is_one(path);
        if path.exists() && !is_run && (path.is_file() || path.join(HISTORY).exists()) {
            return self.of_files(source);
        }
        let mut runs = closed_loops(path, "analyze")?;
        let part = self.part();
        let materials: Vec<Material> =
            runs.iter().map(|run| Material::of_part(run, &part)).collect::<Result<_, _>>()?;
        if materials.iter().all(|material| material.trials.is_empty()) {
            return Err(self.nothing_left(&source, &runs));
        }
        let mut warnings = Vec::new();
        for run in &runs {
            let lost = run.trials_without_records().count();
            let lost =
                (lost > 0).then(|| format!("the records of {lost} trials are lost; the others are judged"));
            for warning in run.warnings.iter().cloned().chain(lost) {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        let repeats = if RepeatsFolder::is_one(path) {
            let (folder, plan) = RepeatsFolder::read(path)?;
            Some((folder, plan, runs.clone()))
        } else {
            None
        };
        let first = runs.swap_remove(0);
        Ok(Case {
            source,
            runs: materials.into(),
            repeats,
            searched_slo: first.plan.slo.clone().into(),
            cost: first.cost,
            warnings,
            provenance: Document::of_run(&first).provenance,
            plan: first.plan,
            tool: None,
        })
    }

    /// Result files of other tools: they tell of loads, not of trials on a clock.
    fn of_files(&self, source: String) -> anyhow::Result<Case> {
        if let Some(part) = self.part_words() {
            let text =
                format!("only a part is asked for ({part}), but `{source}` is a result file of another tool");
            let hint = "`--window` and `--trials` are for run folders; leave them out";
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        Ok(foreign_case(source, foreign::read(&self.source)?))
    }

    /// The part of the run that is judged.
    fn part(&self) -> Part {
        Part {
            window: self.window.map(|Window(window)| (window.from, window.to.unwrap_or(f64::INFINITY))),
            trials: self.trials.iter().map(|&TrialNumbers(first, last)| (first, last)).collect(),
        }
    }

    /// The part in words, where it is not the whole.
    fn part_words(&self) -> Option<String> {
        let window = self.window.map(|Window(window)| {
            let end = window.to.map_or("the end".to_owned(), |to| Seconds(to).to_string());
            format!("{} to {end}", Seconds(window.from))
        });
        let range = |&TrialNumbers(first, last): &TrialNumbers| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        let trials: Vec<String> = self.trials.iter().map(range).collect();
        let trials = (!trials.is_empty()).then(|| format!("trials {}", trials.join(", ")));
        let parts: Vec<String> = window.into_iter().chain(trials).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn nothing_left(&self, source: &str, runs: &[Contents]) -> anyhow::Error {
        let last = runs.iter().map(Contents::clock).fold(0.0, f64::max);
        let trials = runs.iter().filter_map(|run| run.outcomes().last().map(|last| last.id)).max();
        let (text, hint) = match self.part_words() {
            Some(part) => (
                format!("nothing was measured in that part of `{source}` ({part})"),
                format!("it ran for {} and has trials 1 to {}", Seconds(last), trials.unwrap_or(0)),
            ),
            None => (
                format!("`{source}` has no trial that could be judged"),
                "`plimsoll resume` goes on with a run that was cut short".to_owned(),
            ),
        };
        Complaint::new(ExitCode::Void, text).hint(hint).into()
    }

    /// The curves of a profile again; other questions are those of runs.
    fn of_profile(&self, path: &Path) -> anyhow::Result<ExitCode> {
        let given = [
            (!self.slo.is_empty(), "--slo"),
            (!self.tier.is_empty(), "--tier"),
            (self.frontier, "--frontier"),
            (self.knee.is_some(), "--knee"),
            (self.pareto, "--pareto"),
            (self.window.is_some(), "--window"),
            (!self.trials.is_empty(), "--trials"),
        ];
        if let Some((_, flag)) = given.into_iter().find(|(given, _)| *given) {
            let text = format!("`{flag}` is a question to a run, but `{}` is a profile", path.display());
            let hint = format!("name one of the runs in `{}`", path.join("runs").display());
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        profile::show(&profile::read(path)?, self.json)
    }

    fn write_frontier(&self, document: &AnalysisDocument) -> anyhow::Result<()> {
        let Some(frontier) = &document.analysis.frontier else {
            if self.frontier {
                let text = "no trial holds enough streamed responses for a frontier";
                return Err(Complaint::new(ExitCode::Void, text).into());
            }
            return Ok(());
        };
        // Beside what was read: in the run's folder, or in that of the result file.
        let folder = match self.source.first() {
            Some(path) if path.is_dir() => path.clone(),
            Some(path) => path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .map_or(".".into(), PathBuf::from),
            None => PathBuf::from("."),
        };
        write_file(&folder, "frontier.csv", csv(frontier).as_bytes())?;
        write_file(&folder, "frontier.svg", picture::svg(frontier)?.as_bytes())?;
        let path = write_file(&folder, "frontier.png", &picture::png(frontier)?)?;
        eprintln!("wrote {} (.svg, .csv beside it)", path.display());
        Ok(())
    }
}

impl TierFlag {
    fn of(&self, runs: &Runs) -> Tier {
        let judged: Judged = runs.answered(&self.slo);
        let answer = &judged.answer;
        Tier {
            name: self.name.clone(),
            slo: self.slo.clone().into(),
            capacity: Capacity::of(&judged),
            safe_load: answer.safe_load.map(|load| load.value() as u32),
            goodput: answer.goodput.map(|goodput| goodput.requests_per_second),
            binding_objective: answer
                .binding_objective
                .clone()
                .filter(|_| answer.outcome != SearchOutcome::MetAtHighest),
        }
    }
}

/// Name of the file that makes a folder one of AIPerf's searches.
const HISTORY: &str = "search_history.json";

/// The case of another tool's files. What they do not tell is as a plan has it by default.
fn foreign_case(source: String, read: Foreign) -> Case {
    let material = read.material;
    let requests: usize = material.trials.iter().map(|trial| trial.records.len()).sum();
    let seconds: f64 = material.trials.iter().map(|trial| trial.window.2 - trial.window.0).sum();
    let lengths: Vec<u32> =
        material.trials.iter().flat_map(|trial| &trial.records).map(|record| record.isl).collect();
    let tokens = lengths.iter().copied().max().unwrap_or(1).max(1);
    let plan = Plan {
        plan_version: PLAN_VERSION,
        name: read.tool.to_owned(),
        seed: 0,
        slo: Slo::parse(read.slo.iter().map(String::as_str)).unwrap_or_else(|_| Slo::none()),
        target: TargetPlan::Endpoint(EndpointPlan {
            url: read.url.unwrap_or_else(|| "http://SERVER".to_owned()),
            api: Api::Chat,
            model: read.model,
            streaming: true,
            engine: None,
            api_key_env: None,
            headers: BTreeMap::new(),
            ca_file: None,
            timeout_seconds: 600.0,
            extra_body: BTreeMap::new(),
        }),
        load: material.range,
        strategy: StrategyPlan::Grid { levels: material.fixed_loads(), warm: true },
        workload: WorkloadPlan::of(Lengths::Fixed { tokens }, Lengths::Fixed { tokens }),
        trial: TrialPlan { requests: 1, min_seconds: 0.0, max_seconds: seconds.max(1.0) },
        budget: Budget::default(),
        arrivals: None,
        ramp: None,
        engine: None,
        telemetry: TelemetryPlan::default(),
        repeats: 1,
    };
    Case {
        source,
        runs: material.into(),
        repeats: None,
        plan,
        searched_slo: read.slo,
        cost: Cost { seconds, requests: requests as u64, client_cpu_seconds: 0.0 },
        warnings: read.warnings,
        provenance: Provenance { recipe: read.tool.to_owned(), ..Provenance::default() },
        tool: Some((read.tool, read.claimed)),
    }
}

/// What the other tool said beside what its own requests say.
fn beside(tool: &str, claimed: Option<u32>, runs: &Runs, judged: &Judged) -> String {
    let requests: usize = runs.trials().map(|trial| trial.records.len()).sum();
    let loads = runs.each().iter().flat_map(Material::fixed_loads).collect::<BTreeSet<u32>>().len();
    let whose = claimed.map_or(format!("{tool} names no load"), |load| format!("{tool} says {load}"));
    let of = format!("its {requests} requests at {loads} load{}", if loads == 1 { "" } else { "s" });
    match judged.answer.interval {
        Some(Interval { low, high: Some(high), .. }) => {
            let wide = high - low > 0.3 * high;
            let verdict = if wide { ": they cannot tell more closely" } else { "" };
            format!("{whose}; {of} say {low:.0}-{high:.0} at 95 %{verdict}")
        }
        Some(Interval { low, .. }) => format!("{whose}; {of} say {low:.0} or more"),
        None => format!("{whose}; {of} do not tell"),
    }
}
