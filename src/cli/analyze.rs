//! `plimsoll analyze`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use plimsoll::analysis::foreign::{self, Foreign};
use plimsoll::analysis::frontier::{Capacity, Limits, frontiers};
use plimsoll::analysis::{Anew, Material, knee};
use plimsoll::plan::{
    Api, Budget, EndpointPlan, Lengths, PLAN_VERSION, Plan, StrategyPlan, TargetPlan, TelemetryPlan,
    TrialPlan, WorkloadPlan,
};
use plimsoll::report::analysis::{Analysis, AnalysisDocument, Tier, csv};
use plimsoll::report::plot::frontier as picture;
use plimsoll::report::terminal::{Screen, Style};
use plimsoll::report::{Document, Provenance};
use plimsoll::run::{Cost, PLAN_FILE, write_file};
use plimsoll::search::{Judged, SearchOutcome};
use plimsoll::slo::Slo;
use plimsoll::units::{Interval, Seconds};

use super::complaint::Complaint;
use super::engine::code_of;
use super::exit::ExitCode;
use super::output::print;
use super::stored::closed_loop;

/// Ask a finished run another question, without any load.
///
/// Every stored request is judged anew: under another SLO, for tiers of service, over a range of
/// limits. The answer says whether it lies within the loads that were measured. Result files of
/// AIPerf, guidellm and vllm bench are read too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Analyze {
    /// Folder of the run, or result files of AIPerf (profile_export.jsonl, search_history.json),
    /// guidellm or vllm bench, which may be several.
    #[arg(value_name = "RUN|FILE", required = true)]
    source: Vec<PathBuf>,

    /// An objective in place of those of the run; may be given several times, all must hold.
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,

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
  plimsoll analyze runs/latest --frontier --ttft 200ms..2s
  plimsoll analyze results/search_history.json --slo 'ttft p95 < 200ms'
  plimsoll analyze runs/latest --tier gold='ttft p95 < 300ms' --tier batch='e2e p95 < 60s' --knee";

/// `name=objectives`.
#[derive(Clone, Debug)]
struct TierFlag {
    name: String,
    slo: Slo,
}

impl FromStr for TierFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, objectives) = text
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty() && !name.contains('<'))
            .ok_or_else(|| format!("`{text}` has no name; write for example gold='ttft p95 < 300ms'"))?;
        let slo = Slo::parse([objectives]).map_err(|error| error.to_string())?;
        Ok(Self { name: name.trim().to_owned(), slo })
    }
}

/// `200ms..2s`.
#[derive(Clone, Copy, Debug)]
struct Span(Limits);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no range of times; write for example 200ms..2s");
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        // The SLO grammar reads times; a limit of TTFT is one.
        let time = |text: &str| {
            let slo = Slo::parse([format!("ttft p95 < {}", text.trim()).as_str()]).map_err(|_| wrong())?;
            slo.objectives.first().map(|objective| objective.threshold).ok_or_else(wrong)
        };
        let (from, to) = (time(from)?, time(to)?);
        if from > 0.0 && from < to { Ok(Self(Limits { from, to })) } else { Err(wrong()) }
    }
}

/// `100%`.
#[derive(Clone, Copy, Debug)]
struct Degradation(f64);

impl FromStr for Degradation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        match number {
            Some(percent) if percent > 0.0 && percent.is_finite() => Ok(Self(percent / 100.0)),
            _ => Err(format!("`{text}` is no percentage above 0; write for example 50%")),
        }
    }
}

/// What is asked of the material, and where it is from.
struct Case {
    source: String,
    material: Material,
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
        if let Some((objective, longest)) = case.material.too_short_for(&slo) {
            let text = format!(
                "`{objective}` is judged over windows, and the longest trial of `{}` measured {}",
                case.source,
                Seconds(longest)
            );
            let hint = "judge by a shorter window, or search anew with this objective: trials are as long as it needs";
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        let Anew { outcomes, judged } = case.material.judged(&slo);
        let document = Document::new(
            &case.plan,
            &judged.answer,
            &outcomes,
            case.cost,
            &case.warnings,
            case.provenance.clone(),
        );
        let analysis = Analysis {
            source: case.source.clone(),
            beside: case.tool.map(|(tool, claimed)| beside(tool, claimed, &case.material, &judged)),
            searched_slo: case.searched_slo.clone(),
            place: judged.place,
            tiers: self.tier.iter().map(|tier| tier.of(&case.material)).collect(),
            frontier: self
                .frontier
                .then(|| {
                    let span = |span: Option<Span>| span.map(|Span(limits)| limits);
                    frontiers(&case.material, &slo, span(self.ttft), span(self.itl))
                })
                .flatten(),
            knees: self.knee.map_or(Vec::new(), |Degradation(by)| knee::knees(&case.material, &slo, by)),
            throughputs: if self.pareto { knee::throughputs(&case.material) } else { Vec::new() },
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
            return Ok(foreign_case(source, foreign::read(&self.source)?));
        };
        if path.exists() && !path.join(PLAN_FILE).exists() && (path.is_file() || path.join(HISTORY).exists())
        {
            return Ok(foreign_case(source, foreign::read(&self.source)?));
        }
        let contents = closed_loop(path, "analyze")?;
        let material = Material::of_run(&contents)?;
        let mut warnings = contents.warnings.clone();
        let lost = contents.trials_without_records().count();
        if lost > 0 {
            warnings.push(format!("the records of {lost} trials are lost; the others are judged"));
        }
        Ok(Case {
            source,
            material,
            searched_slo: contents.plan.slo.clone().into(),
            cost: contents.cost,
            warnings,
            provenance: Document::of_run(&contents).provenance,
            plan: contents.plan,
            tool: None,
        })
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
    fn of(&self, material: &Material) -> Tier {
        let judged: Judged = material.judged(&self.slo).judged;
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
        strategy: StrategyPlan::Grid { levels: material.fixed_loads() },
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
        material,
        plan,
        searched_slo: read.slo,
        cost: Cost { seconds, requests: requests as u64, client_cpu_seconds: 0.0 },
        warnings: read.warnings,
        provenance: Provenance { recipe: read.tool.to_owned(), ..Provenance::default() },
        tool: Some((read.tool, read.claimed)),
    }
}

/// What the other tool said beside what its own requests say.
fn beside(tool: &str, claimed: Option<u32>, material: &Material, judged: &Judged) -> String {
    let requests: usize = material.trials.iter().map(|trial| trial.records.len()).sum();
    let loads = material.fixed_loads().len();
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
