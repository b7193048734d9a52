//! The checklist before any load: can this endpoint be measured from this machine?
//!
//! Some twenty single requests, four of them at once, and a second of streams from a server within
//! this process.

mod gauges;
mod line;
mod requests;
mod surroundings;

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::calibration::Calibration;
use crate::loadgen::{Client, ClientOptions};
use crate::plan::{EndpointPlan, Plan, TargetPlan};
use crate::target::engine::{self, Identity};
use crate::target::prepare::loopback;
use crate::target::web::Web;
use crate::target::{Embedded, TargetError, access, models, probe};

pub use line::{Line, Status};

/// Version of the report's schema.
pub const CHECK_VERSION: u32 = 1;
/// Longest that a step may take beyond what a slow server needs for single requests.
const STEP: Duration = Duration::from_secs(4);

/// What the checklist found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckReport {
    /// Version of this schema.
    pub schema_version: u32,
    /// The server's root.
    pub url: String,
    /// Whether a measurement from here would be valid: no line has failed.
    pub valid: bool,
    /// Whether the server answered at all.
    pub reachable: bool,
    /// The points, in the order in which they were looked at.
    pub lines: Vec<Line>,
    /// The figures among them.
    pub figures: Figures,
    /// What the checklist took, seconds.
    pub seconds: f64,
}

/// Figures of the checklist; null where they could not be had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Time to open a connection, seconds: one round trip.
    pub round_trip: Option<f64>,
    /// The server's clock less this one's, seconds (the server tells whole seconds).
    pub clock_offset: Option<f64>,
    /// TTFT of a short prompt on the idle server, seconds.
    pub ttft: Option<f64>,
    /// Mean time between tokens there, seconds.
    pub tpot: Option<f64>,
    /// Mean chunks that arrived together; 1 where each came alone.
    pub chunks_together: Option<f64>,
    /// TTFT of a prompt that was sent before, as a share of that of a new one.
    pub repeat_ttft: Option<f64>,
    /// Requests that the server runs and queues for others, by its own word.
    pub other_requests: Option<f64>,
    /// Connections to one server that this machine allows.
    pub connections: Option<u32>,
    /// What this client can do.
    pub client: Option<Calibration>,
}

impl CheckReport {
    fn new(url: String) -> Self {
        Self {
            schema_version: CHECK_VERSION,
            url,
            valid: true,
            reachable: false,
            lines: Vec::new(),
            figures: Figures::default(),
            seconds: 0.0,
        }
    }

    fn push(&mut self, line: Line) {
        self.valid &= line.status != Status::Fail;
        self.lines.push(line);
    }

    /// The report as JSON, indented, with a newline at its end.
    pub fn to_json(&self) -> String {
        // Every key is a text and every value plain data, so that there is nothing to fail on.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// What the steps share.
struct Bench {
    web: Web,
    options: ClientOptions,
    client: Client,
    context: Option<u32>,
}

/// Goes through the checklist for the target of `plan`, the embedded engine among them; the rest of
/// the plan says what would be sent there.
///
/// # Errors
/// Those of [`check`], and when the embedded engine cannot be started.
pub async fn check_plan(plan: &Plan) -> Result<CheckReport, TargetError> {
    match &plan.target {
        TargetPlan::Endpoint(endpoint) => check(endpoint, plan).await,
        TargetPlan::Simulated(simulated) => {
            let embedded = Embedded::start(simulated, plan.seed).await?;
            check(&loopback(embedded.url()), plan).await
        }
    }
}

/// Goes through the checklist for an endpoint; the plan says what would be sent there.
///
/// # Errors
/// When what is wrong is the plan's own (a URL that is none, a variable that is not set). What is
/// wrong with the server stands in the report.
pub async fn check(endpoint: &EndpointPlan, plan: &Plan) -> Result<CheckReport, TargetError> {
    let began = Instant::now();
    let options = access::options(endpoint, &|name| std::env::var(name).ok())?;
    let web = Web::new(&options, endpoint.api_key_env.clone())?;
    let mut report = CheckReport::new(web.root().to_owned());
    if let Err(error) = look(&mut report, web, options, endpoint, plan).await {
        let name = if error.is_unreachable() { "reachable" } else { "answers" };
        report.push(Line::fail(name, error.to_string(), error.hint().unwrap_or_default()));
    }
    surroundings::machine(&mut report, plan.load.max).await;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

async fn look(
    report: &mut CheckReport,
    web: Web,
    mut options: ClientOptions,
    endpoint: &EndpointPlan,
    plan: &Plan,
) -> Result<(), TargetError> {
    report.figures.round_trip = surroundings::round_trip(&options.url).await;
    let model = models::choose(&web, endpoint.model.as_deref()).await?;
    report.reachable = true;
    let trip = report.figures.round_trip;
    report.push(surroundings::reached(web.root(), trip));
    let line = surroundings::clock(&web, &mut report.figures).await;
    report.push(line);
    if let Some(model) = &model {
        options.model.clone_from(&model.id);
    }
    let Identity { engine, version, context, notes } =
        engine::identify(&web, model.as_ref(), endpoint.engine).await;
    options.engine = engine;
    let context = model.and_then(|model| model.context).or(context);
    let lengths = plan.workload.longest();
    report.push(surroundings::model(&options, version.as_deref(), context, lengths, &notes));
    let line = gauges::other_load(&web, &mut report.figures).await;
    report.push(line);
    probe::probe(&web, &options).await?;
    let client = Client::new(&options, Instant::now())?;
    let bench = Bench { web, options, client, context };
    requests::streams(report, &bench).await;
    requests::tokens(report, endpoint, plan).await;
    requests::prefix_cache(report, &bench).await;
    Ok(())
}
