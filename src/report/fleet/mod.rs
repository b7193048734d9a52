//! The plan of a fleet: server counts from finished runs, as data, on the terminal and as a picture.

mod energy;
mod figures;
mod kubernetes;
mod picture;
mod screen;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use energy::{FleetEnergy, PowerSource};
pub use figures::server;
pub use kubernetes::{Autoscaler, manifest};
pub use picture::svg;
pub use screen::screen;

use super::document::Document;
use crate::capacity::{
    Burst, CapacityError, Demand, DemandError, Fleet, Level, Policy, Relaxed, Series, SeriesPlan, Server,
    fleet, relaxations, series_plan,
};
use crate::search::SearchOutcome;
use crate::units::Load;

/// Version of the schema of [`FleetDocument`].
pub const FLEET_VERSION: u32 = 1;

/// What is to be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The demand.
    pub demand: Asked,
    /// What the fleet must withstand.
    pub policy: Policy,
    /// Confidence of the intervals, where it is not to be the runs' own.
    pub confidence: Option<f64>,
    /// GPUs of a server.
    pub gpus_per_server: Option<u32>,
}

/// A demand, constant or over the day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", untagged)]
pub enum Asked {
    /// Always the same.
    Constant(Demand),
    /// Over the day.
    Series {
        /// Requests a second by time.
        series: Series,
    },
}

/// A finished run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its summary.
    pub document: &'a Document,
    /// What an hour of such a server costs, in any currency.
    pub cost: Option<f64>,
    /// What such a server draws at its planned load, watts, where that is given.
    pub power: Option<f64>,
}

/// A run that no fleet can be planned from.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FleetError {
    /// The SLO is missed at every load.
    #[error("`{run}` misses its SLO already at the lowest load: no number of such servers would hold it")]
    Missed {
        /// The run.
        run: String,
    },
    /// The run measured nothing.
    #[error("`{run}` has no valid measurement")]
    Void {
        /// The run.
        run: String,
    },
    /// The run did not come to an answer.
    #[error("`{run}` has no answer yet; go on with it by `plimsoll resume`")]
    Unanswered {
        /// The run.
        run: String,
    },
    /// The run says how much faster a trace may come, which is neither users nor a rate.
    #[error(
        "`{run}` says how many times faster one trace may come, not what rate a server carries; search with \
         `--rate` or `--concurrency` to plan a fleet"
    )]
    OfTrace {
        /// The run.
        run: String,
    },
    /// The count cannot be made.
    #[error("`{run}`: {problem}")]
    Capacity {
        /// The run.
        run: String,
        /// Why.
        problem: CapacityError,
    },
    /// The demand cannot be turned into a rate.
    #[error("`{run}`: {problem}")]
    Demand {
        /// The run.
        run: String,
        /// Why.
        problem: DemandError,
    },
}

/// What the fleets are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RankedBy {
    /// Cost a day.
    Cost,
    /// Servers.
    Servers,
}

/// The fleets that runs say a demand needs, the best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "plimsoll plan")]
pub struct FleetDocument {
    /// Version of this schema.
    pub schema_version: u32,
    /// The demand.
    pub demand: Asked,
    /// What the fleet must withstand.
    pub policy: Policy,
    /// What the fleets are ordered by.
    pub ranked_by: RankedBy,
    /// One fleet for each run, the best first.
    pub fleets: Vec<RunFleet>,
    /// Runs that no fleet can be planned from, and why.
    pub left_out: Vec<String>,
    /// What the reader should know before trusting the counts.
    pub warnings: Vec<String>,
}

/// The fleet of one run's servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFleet {
    /// The run.
    pub run: String,
    /// The objectives that it was measured under.
    pub slo: Vec<String>,
    /// The engine, where the run knows it.
    pub engine: Option<String>,
    /// What one server does.
    pub server: ServerFigures,
    /// The count; for a series that of its highest rate.
    pub fleet: Fleet,
    /// The counts over the day.
    pub series: Option<SeriesPlan>,
    /// What looser objectives would save.
    pub relaxations: Vec<Relaxed>,
    /// GPUs of all servers.
    pub gpus: Option<u32>,
    /// What the fleet costs.
    pub cost: Option<FleetCost>,
    /// What the fleet draws, where a server's power is given or was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<FleetEnergy>,
    /// Fewest and most servers, for an autoscaler.
    pub replicas: (u32, u32),
    /// What the reader should know of this run.
    pub notes: Vec<String>,
}

/// One server's figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFigures {
    /// Requests in flight under the SLO.
    pub concurrency: Option<Level>,
    /// Requests a second within the SLO.
    pub goodput: Level,
    /// Most requests a second at any load.
    pub throughput: f64,
    /// Confidence of the ends, 0..1.
    pub confidence: f64,
    /// Mean end-to-end latency at the answer, seconds.
    pub e2e: Option<f64>,
    /// Mean prompt length, tokens.
    pub isl: Option<f64>,
    /// Mean output length, tokens.
    pub osl: Option<f64>,
}

/// What a fleet costs, in the currency of the price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetCost {
    /// Of a server an hour.
    pub per_server_hour: f64,
    /// Of all servers a day; with a series, of a fleet that follows it.
    pub per_day: f64,
    /// A day of as many servers as the highest rate needs.
    pub static_per_day: f64,
    /// For a million output tokens at the demand.
    pub per_million_output_tokens: Option<f64>,
}

/// Plans the fleet of each run, the cheapest first (the smallest where costs are not known).
///
/// # Errors
/// When there is no run that a fleet can be planned from: the first one's problem.
pub fn plan(runs: &[Run<'_>], wanted: &Wanted) -> Result<FleetDocument, FleetError> {
    let (mut fleets, mut left_out, mut first) = (Vec::new(), Vec::new(), None);
    for run in runs {
        match plan_run(run, wanted) {
            Ok(planned) => fleets.push(planned),
            Err(error) => {
                left_out.push(error.to_string());
                first.get_or_insert(error);
            }
        }
    }
    if let (true, Some(error)) = (fleets.is_empty(), first) {
        return Err(error);
    }
    let by_cost = fleets.iter().all(|fleet| fleet.cost.is_some());
    let per_day = |fleet: &RunFleet| fleet.cost.map_or(0.0, |cost| cost.per_day);
    fleets.sort_by(|a, b| {
        let cost = if by_cost { per_day(a).total_cmp(&per_day(b)) } else { std::cmp::Ordering::Equal };
        cost.then(a.fleet.servers.cmp(&b.fleet.servers))
    });
    Ok(FleetDocument {
        schema_version: FLEET_VERSION,
        demand: wanted.demand.clone(),
        policy: wanted.policy,
        ranked_by: if by_cost { RankedBy::Cost } else { RankedBy::Servers },
        warnings: differences(&fleets),
        fleets,
        left_out,
    })
}

fn plan_run(run: &Run<'_>, wanted: &Wanted) -> Result<RunFleet, FleetError> {
    let name = || run.name.to_owned();
    let loads =
        run.document.answer.load.into_iter().chain(run.document.trials.iter().map(|trial| trial.load));
    if loads.into_iter().any(|load| matches!(load, Load::SpeedUp(_))) {
        return Err(FleetError::OfTrace { run: name() });
    }
    let measured = figures::server(run.document).ok_or_else(|| match run.document.outcome {
        SearchOutcome::MissedAtLowest => FleetError::Missed { run: name() },
        SearchOutcome::Void => FleetError::Void { run: name() },
        _ => FleetError::Unanswered { run: name() },
    })?;
    let server = wanted.confidence.map_or(measured.clone(), |confidence| measured.at_confidence(confidence));
    let policy = policy_for(wanted);
    let failed = |problem: CapacityError| FleetError::Capacity { run: name(), problem };
    let (rate, series) = match &wanted.demand {
        Asked::Constant(demand) => {
            (demand.rate(&server).map_err(|problem| FleetError::Demand { run: name(), problem })?, None)
        }
        Asked::Series { series } => {
            (series.peak(), Some(series_plan(&server, series, &policy).map_err(failed)?))
        }
    };
    let fleet = fleet(&server, rate, &policy).map_err(failed)?;
    let least = series.as_ref().map_or(1 + policy.redundancy, |series| series.min);
    let mean_rate = match &wanted.demand {
        Asked::Series { series } => {
            series.points.iter().map(|point| point.1).sum::<f64>() / series.points.len().max(1) as f64
        }
        Asked::Constant(_) => rate,
    };
    let static_hours = 24.0 * f64::from(fleet.servers);
    let hours = series.as_ref().map_or(static_hours, |series| series.server_hours_per_day);
    let tokens = server.osl.map(|osl| osl * mean_rate * 86_400.0 / 1e6).filter(|&tokens| tokens > 0.0);
    let cost = run.cost.map(|per_server_hour| FleetCost {
        per_server_hour,
        per_day: hours * per_server_hour,
        static_per_day: static_hours * per_server_hour,
        per_million_output_tokens: tokens.map(|tokens| hours * per_server_hour / tokens),
    });
    let metered = || {
        let load = fleet.in_flight.or(run.document.answer.load.map(|load| load.value()))?;
        energy::measured(run.document, load).map(|watts| (watts, PowerSource::Gpus))
    };
    let energy = run
        .power
        .map(|watts| (watts, PowerSource::Given))
        .or_else(metered)
        .map(|(watts, source)| FleetEnergy::new(watts, source, hours, tokens));
    let engine = run.document.provenance.target.as_ref().and_then(|target| target.get("engine")?.as_str());
    Ok(RunFleet {
        run: name(),
        slo: run.document.slo.clone(),
        engine: engine.map(str::to_owned),
        relaxations: relaxations(&server, rate, &policy).map_err(failed)?,
        gpus: wanted.gpus_per_server.map(|gpus| gpus.saturating_mul(fleet.servers)),
        cost,
        energy,
        replicas: (least.min(fleet.servers), fleet.servers),
        notes: notes(run.document, &server, wanted),
        server: ServerFigures {
            concurrency: server.concurrency,
            goodput: server.goodput,
            throughput: server.top_rate(),
            confidence: server.confidence,
            e2e: server.e2e,
            isl: server.isl,
            osl: server.osl,
        },
        fleet,
        series,
    })
}

/// Users that never pause are a constant number of requests in flight: they do not burst.
fn policy_for(wanted: &Wanted) -> Policy {
    match &wanted.demand {
        Asked::Constant(demand) if demand.is_steady() => Policy { burst: Burst::None, ..wanted.policy },
        _ => wanted.policy,
    }
}

fn notes(document: &Document, server: &Server, wanted: &Wanted) -> Vec<String> {
    let mut notes = Vec::new();
    if document.outcome == SearchOutcome::MetAtHighest {
        notes.push("the run met its SLO at the highest load that it tried: fewer servers may do".to_owned());
    }
    if document.outcome == SearchOutcome::Interrupted {
        notes.push("the run was cut short: its interval is that of the trials it had".to_owned());
    }
    if server.goodput.low == server.goodput.high {
        notes.push(
            "the run gives no interval of its goodput: the count has none either (an adaptive search gives one)"
                .to_owned(),
        );
    }
    let steady = policy_for(wanted).burst == Burst::None;
    match server.concurrency {
        Some(_) if steady => notes.push(
            "the goodput is that of a constant number of requests in flight; no room is added for arrivals that burst"
                .to_owned(),
        ),
        Some(_) => notes.push(
            "the goodput is that of a constant number of requests in flight; open arrivals at the same rate \
             fluctuate around it, which is what the room for bursts is for. It takes the servers to share \
             their work as continuous batching does, and a balancer that picks the one with the fewest requests"
                .to_owned(),
        ),
        None => notes.push(
            "the run was measured at request rates, with arrivals of its own: its goodput holds their bursts \
             on one server, and nothing is taken off for pooling"
                .to_owned(),
        ),
    }
    notes
}

/// Why runs may not be comparable.
fn differences(fleets: &[RunFleet]) -> Vec<String> {
    let Some((first, rest)) = fleets.split_first() else { return Vec::new() };
    let mut warnings = Vec::new();
    for other in rest {
        if other.slo != first.slo {
            warnings.push(format!(
                "`{}` was measured under another SLO ({}) than `{}` ({}): the counts answer different questions",
                other.run,
                other.slo.join(", "),
                first.run,
                first.slo.join(", ")
            ));
        }
        let differ = |a: Option<f64>, b: Option<f64>| a.zip(b).is_some_and(|(a, b)| (a / b).ln().abs() > 0.1);
        let lengths = (&first.server, &other.server);
        if differ(lengths.0.isl, lengths.1.isl) || differ(lengths.0.osl, lengths.1.osl) {
            warnings.push(format!(
                "`{}` was measured with requests of other lengths than `{}`: the counts are not comparable",
                other.run, first.run
            ));
        }
    }
    warnings
}

impl FleetDocument {
    /// The document as JSON, indented, with a newline at its end.
    pub fn to_json(&self) -> String {
        super::document::to_json(self)
    }
}
