//! `plimsoll plan`.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use clap::{ArgGroup, Args, ValueEnum};
use plimsoll::capacity::{Burst, Demand, Policy, Series};
use plimsoll::recipe::Duration;
use plimsoll::report::fleet::{self, Asked, Autoscaler, FleetError, Run, Wanted};
use plimsoll::report::terminal::Style;
use plimsoll::report::{Document, SUMMARY_VERSION};
use plimsoll::run::{Contents, JOURNAL_FILE, RepeatsFolder, write_file};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::{output, repeats};

/// Count the servers that a load needs, from finished runs.
///
/// Counts by goodput under the run's SLO, from the lower end of its interval, with room for bursts,
/// and shows beside it what sizing by throughput would buy. Sends no load.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("demand").required(true).args(["rate", "users", "series", "tokens"]))]
pub struct Plan {
    /// Folder of a run, or its summary.json; of several runs the cheapest comes first.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Requests a second to be carried.
    #[arg(long, value_name = "R")]
    rate: Option<Positive>,

    /// Users at the same time, each of whom waits for the answer before asking again.
    #[arg(long, value_name = "N")]
    users: Option<Positive>,

    /// Pause between an answer and the user's next request [default: the run's mean, where its users paused]
    #[arg(long, value_name = "TIME", requires = "users")]
    think: Option<Duration>,

    /// CSV file of a day: `hour,rate` or `time,rate`, requests a second.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,

    /// Output tokens a second to be carried: 2e6.
    #[arg(long, value_name = "T")]
    tokens: Option<Positive>,

    /// How much higher the demand may turn out [default: 0%]
    #[arg(long, value_name = "SHARE")]
    headroom: Option<Headroom>,

    /// Servers that may be lost at a time (N+1: 1).
    #[arg(long, value_name = "N", default_value_t = 0)]
    redundancy: u32,

    /// Price of a server an hour, in any currency; given once, or once for each run.
    #[arg(long, value_name = "PRICE")]
    cost: Vec<Positive>,

    /// Power of a server at its planned load, watts: for the energy of the fleet; given once, or once for
    /// each run [default: what the run measured of its GPUs]
    #[arg(long, value_name = "WATTS")]
    power_per_server: Vec<Positive>,

    /// GPUs of a server.
    #[arg(long, value_name = "N")]
    gpus_per_server: Option<u32>,

    /// How requests arrive: `poisson`, `gamma:SHAPE` (below 1: burstier) or `none`.
    #[arg(long, value_name = "ARRIVALS", default_value = "poisson")]
    burst: Burst,

    /// Share of the time in which bursts must stay within what the servers carry.
    #[arg(long, value_name = "SHARE", default_value = "99%")]
    within: Open,

    /// Confidence of the interval of the count [default: that of the run, 95%]
    #[arg(long, value_name = "SHARE")]
    confidence: Option<Open>,

    /// Print the plan as JSON instead of the screen.
    #[arg(long, conflicts_with = "kubernetes")]
    json: bool,

    /// Print a manifest for an autoscaler instead of the screen.
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "hpa")]
    kubernetes: Option<Kind>,

    /// Write plan.json and plan.svg into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Example:
  plimsoll plan runs/latest --rate 500 --headroom 20% --redundancy 1
  plimsoll plan runs/latest --users 20000 --think 30s --cost 12.5 --gpus-per-server 8
  plimsoll plan runs/latest --rate 500 --power-per-server 5600
  plimsoll plan runs/latest --series day.csv --out plans/
  plimsoll plan runs/a runs/b --tokens 2e6 --cost 12.5 --cost 8";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Hpa,
    Keda,
}

/// A number above 0.
#[derive(Clone, Copy, Debug)]
struct Positive(f64);

impl FromStr for Positive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        number
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a number above 0 such as `500`, `12.5` or `2e6`"))
    }
}

/// A share of 0 or more, such as `20%`; `150%` is more than twice.
#[derive(Clone, Copy, Debug)]
struct Headroom(f64);

impl FromStr for Headroom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 0.01),
            None => (text.trim(), 1.0),
        };
        let share = number.parse::<f64>().ok().map(|number| number * unit);
        match share {
            Some(share) if unit == 1.0 && share > 1.0 && share <= 1000.0 => {
                Err(format!("`{text}` would be {}%; did you mean `{text}%`?", share * 100.0))
            }
            Some(share) if (0.0..=10.0).contains(&share) => Ok(Self(share)),
            _ => Err(format!("`{text}` is not a share such as `20%` or `0.2`, at most 1000%")),
        }
    }
}

/// A share between 0 and 1, neither of them.
#[derive(Clone, Copy, Debug)]
struct Open(f64);

impl FromStr for Open {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<Headroom>() {
            Ok(Headroom(share)) if share > 0.0 && share < 1.0 => Ok(Self(share)),
            _ => Err(format!("`{text}` is not a share between 0 and 1 such as `95%` or `0.95`")),
        }
    }
}

impl Plan {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let costs = self.of_each("prices (`--cost`)", &self.cost)?;
        let powers = self.of_each("powers (`--power-per-server`)", &self.power_per_server)?;
        let documents = self.runs.iter().map(|run| read(run)).collect::<anyhow::Result<Vec<_>>>()?;
        let wanted = self.wanted(documents.first().map(|(_, document)| document))?;
        let runs: Vec<Run<'_>> = documents
            .iter()
            .zip(costs.into_iter().zip(powers))
            .map(|((name, document), (cost, power))| Run { name, document, cost, power })
            .collect();
        let plan = fleet::plan(&runs, &wanted).map_err(complaint)?;
        if let Some(folder) = &self.out {
            fs::create_dir_all(folder).map_err(|error| {
                Complaint::new(ExitCode::Usage, format!("cannot make `{}`: {error}", folder.display()))
            })?;
            write_file(folder, "plan.json", plan.to_json().as_bytes())?;
            if let Some(picture) = fleet::svg(&plan, &runs, &wanted)? {
                write_file(folder, "plan.svg", picture.as_bytes())?;
            }
        }
        let text = match self.kubernetes {
            _ if self.json => plan.to_json(),
            Some(kind) => {
                let autoscaler = match kind {
                    Kind::Hpa => Autoscaler::Hpa,
                    Kind::Keda => Autoscaler::Keda,
                };
                fleet::manifest(&plan, autoscaler).ok_or_else(|| {
                    Complaint::new(
                        ExitCode::Usage,
                        "the run was measured at request rates: it knows no requests in flight for a pod",
                    )
                    .hint("search with `--concurrency` for an autoscaler's target")
                })?
            }
            None => fleet::screen(&plan, Style::of_stdout()),
        };
        output::print(&text)?;
        Ok(ExitCode::Answered)
    }

    /// A figure of each run's server that was given once, or once for each run.
    fn of_each(&self, what: &str, given: &[Positive]) -> anyhow::Result<Vec<Option<f64>>> {
        let figure = |index: usize| given.get(index).map(|Positive(figure)| *figure);
        match given.len() {
            0 | 1 => Ok(vec![figure(0); self.runs.len()]),
            n if n == self.runs.len() => Ok((0..n).map(figure).collect()),
            n => Err(Complaint::new(ExitCode::Usage, format!("{n} {what} for {} runs", self.runs.len()))
                .hint("give one for all, or one for each run, in their order")
                .into()),
        }
    }

    fn wanted(&self, first: Option<&Document>) -> anyhow::Result<Wanted> {
        // Users who were measured with pauses are taken to pause so.
        let measured =
            first.and_then(|document| document.users.as_ref()).map_or(0.0, |users| users.mean_think);
        let think = self.think.map_or(measured, |Duration(seconds)| seconds);
        let demand = match (self.rate, self.users, self.tokens, &self.series) {
            (Some(Positive(rate)), ..) => Asked::Constant(Demand::Rate(rate)),
            (_, Some(Positive(users)), ..) => Asked::Constant(Demand::Users { users, think }),
            (_, _, Some(Positive(tokens)), _) => Asked::Constant(Demand::OutputTokens(tokens)),
            (.., Some(path)) => {
                let text =
                    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
                let series = Series::from_csv(&text).map_err(|error| {
                    Complaint::new(ExitCode::Usage, format!("series `{}`: {error}", path.display()))
                        .hint("a header `hour,rate`, then a line an hour: `8,120.5` (requests a second)")
                })?;
                Asked::Series { series }
            }
            // The parser asks for one of the four.
            _ => anyhow::bail!("no demand is given"),
        };
        Ok(Wanted {
            demand,
            policy: Policy {
                headroom: self.headroom.map_or(0.0, |Headroom(share)| share),
                redundancy: self.redundancy,
                burst: self.burst,
                within: self.within.0,
            },
            confidence: self.confidence.map(|Open(share)| share),
            gpus_per_server: self.gpus_per_server,
        })
    }
}

/// A run's name and summary, from its folder or from a summary that was kept alone.
fn read(path: &Path) -> anyhow::Result<(String, Document)> {
    let folder = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if RepeatsFolder::is_one(&folder) {
        return Ok((name_of(&folder), repeats::read(&folder)?.document));
    }
    if folder.join(JOURNAL_FILE).exists() {
        let document = Document::of_run(&Contents::read(&folder)?);
        return Ok((name_of(&folder), document));
    }
    let file = if folder.is_dir() { folder.join("summary.json") } else { folder };
    let unusable = |problem: String| {
        Complaint::new(ExitCode::Usage, format!("`{}` is no run: {problem}", path.display()))
            .hint("give the folder of a run (`runs/latest`), or a summary.json")
    };
    let text = fs::read_to_string(&file)
        .map_err(|_| unusable("there is no journal and no summary.json".to_owned()))?;
    let document: Document = serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?;
    if document.schema_version != SUMMARY_VERSION {
        let version = document.schema_version;
        return Err(unusable(format!(
            "it has `schema_version` {version}, this program reads {SUMMARY_VERSION}"
        ))
        .into());
    }
    Ok((path.display().to_string(), document))
}

/// What the run of a folder is called.
fn name_of(folder: &Path) -> String {
    folder.file_name().map_or(folder.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn complaint(error: FleetError) -> anyhow::Error {
    let code = match error {
        FleetError::Missed { .. } => ExitCode::MissedAtLowest,
        FleetError::Void { .. } => ExitCode::Void,
        _ => ExitCode::Usage,
    };
    Complaint::new(code, error.to_string()).into()
}
