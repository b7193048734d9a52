//! From a plan to a target on which a load can be opened.

use std::sync::Arc;

use tokio::sync::watch;

use crate::plan::{Api, EndpointPlan, Engine, Plan, TargetPlan};
use crate::target::{Embedded, Live, TargetError, discover, learn};
use crate::workload::Workload;

/// A target that answered and whose prompts can be made.
pub struct Prepared {
    /// Opens the load.
    pub live: Live,
    /// The embedded engine, kept running, where it is the target.
    pub embedded: Option<Embedded>,
}

/// Finds out all that must be known of the plan's target before any load is put on it; starts the
/// embedded engine where that is the target. `interrupt` turns true when the operator asks to stop.
///
/// # Errors
/// When the target cannot be measured as planned.
pub async fn prepare(plan: &Plan, interrupt: watch::Receiver<bool>) -> Result<Prepared, TargetError> {
    let (embedded, endpoint_plan) = match &plan.target {
        TargetPlan::Endpoint(endpoint) => (None, endpoint.clone()),
        TargetPlan::Simulated(simulated) => {
            let embedded = Embedded::start(simulated, plan.seed).await?;
            let endpoint = loopback(embedded.url());
            (Some(embedded), endpoint)
        }
    };
    let workload = &plan.workload;
    let longest = (workload.isl.longest(), workload.osl.longest());
    let mut endpoint = discover(&endpoint_plan, longest, plan.slo.needs_streaming()).await?;
    let prompts = learn(&endpoint, workload, plan.seed).await?;
    endpoint.description.notes.extend(prompts.notes);
    endpoint.description.tokens = Some(prompts.counting);
    let (workload, seed, maker) = (Arc::new(workload.clone()), plan.seed, prompts.maker);
    let requests = Box::new(move |first: u64| {
        let requests = Workload::new(&workload, seed, maker.clone()).starting_at(first);
        Box::new(requests) as Box<dyn Iterator<Item = _> + Send>
    });
    // The embedded engine's end of each connection is a file of this process too.
    let files = if embedded.is_some() { 2 } else { 1 };
    let live =
        Live::new(endpoint, plan.load.max, requests, interrupt).with(|options| options.files_each = files);
    Ok(Prepared { live, embedded })
}

/// The embedded engine as an endpoint.
fn loopback(url: &str) -> EndpointPlan {
    EndpointPlan {
        url: url.to_owned(),
        api: Api::Chat,
        model: None,
        streaming: true,
        engine: Some(Engine::Simulated),
        api_key_env: None,
        headers: Default::default(),
        ca_file: None,
        timeout_seconds: 600.0,
        extra_body: Default::default(),
    }
}
