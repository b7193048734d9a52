//! From a plan to a target on which a load can be opened.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;

use crate::plan::{Api, EndpointPlan, Engine, Plan, TargetPlan, WorkloadPlan};
use crate::target::{Embedded, Live, TargetError, discover, learn};
use crate::verdict::Warning;
use crate::workload::dataset::Dataset;
use crate::workload::{RequestSpec, Workload};

/// A target that answered and whose prompts can be made.
pub struct Prepared {
    /// Opens the load.
    pub live: Live,
    /// The embedded engine, kept running, where it is the target.
    pub embedded: Option<Embedded>,
    /// What the reader of the results should know of what is sent.
    pub warnings: Vec<Warning>,
}

/// Prompts that are looked at for repeats.
const LOOKED_AT: usize = 512;
/// Share of repeats that is worth a word.
const REPEATS: f64 = 0.01;

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
    let longest = workload.longest();
    let dataset = workload.source.as_ref().map(Dataset::open).transpose()?.map(Arc::new);
    let mut endpoint = discover(&endpoint_plan, longest, plan.slo.needs_streaming()).await?;
    let prompts = learn(&endpoint, workload, plan.seed).await?;
    endpoint.description.notes.extend(prompts.notes);
    endpoint.description.tokens = Some(prompts.counting);
    let max_context = context_limit(workload, endpoint.description.max_context);
    if let (Some(sessions), Some(limit)) = (&workload.sessions, max_context)
        && sessions.max_context.is_none()
    {
        endpoint.description.notes.push(format!(
            "conversations end before they exceed {limit} tokens, a little below the server's context"
        ));
    }
    let (workload, seed, maker) = (Arc::new(workload.clone()), plan.seed, prompts.maker);
    let requests = move |first: u64| {
        let requests = Workload::new(&workload, seed, maker.clone());
        requests.with_dataset(&workload, seed, dataset.clone()).starting_at(first)
    };
    let warnings = repeats(requests(0)).into_iter().collect();
    let requests =
        Box::new(move |first: u64| Box::new(requests(first)) as Box<dyn Iterator<Item = _> + Send>);
    // The embedded engine's end of each connection is a file of this process too.
    let files = if embedded.is_some() { 2 } else { 1 };
    let live = Live::new(endpoint, plan.load.max, requests, interrupt).with(|options| {
        options.files_each = files;
        options.max_context = max_context;
    });
    Ok(Prepared { live, embedded, warnings })
}

/// One token in so many of the server's context is left free: a text that comes back may be counted
/// otherwise when it is sent again.
const SPARE: u32 = 64;

/// Tokens that a conversation may reach: as planned, or what the server takes.
fn context_limit(workload: &WorkloadPlan, by_server: Option<u32>) -> Option<u32> {
    let sessions = workload.sessions.as_ref()?;
    let most = by_server.map(|context| context - context / SPARE);
    sessions.max_context.into_iter().chain(most).min()
}

/// Whether the first prompts repeat, of conversations their first messages (what follows repeats by design): a prefix cache would answer those faster than real traffic.
fn repeats(requests: impl Iterator<Item = RequestSpec>) -> Option<Warning> {
    let prompts: Vec<String> = requests.take(LOOKED_AT).map(|request| request.prompt).collect();
    let distinct: HashSet<&str> = prompts.iter().map(String::as_str).collect();
    let repeated = prompts.len() - distinct.len();
    (repeated as f64 > REPEATS * prompts.len() as f64)
        .then_some(Warning::RepeatedPrompts { repeated: repeated as u32, of: prompts.len() as u32 })
}

/// The embedded engine as an endpoint.
pub(super) fn loopback(url: &str) -> EndpointPlan {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_that_repeat_are_told_and_a_chance_repeat_is_not() {
        let requests = |distinct: u64| {
            (0..).map(move |id| RequestSpec::new(id, format!("prompt {}", id % distinct), 2, 4))
        };
        assert_eq!(repeats(requests(49)), Some(Warning::RepeatedPrompts { repeated: 463, of: 512 }));
        assert_eq!(repeats(requests(510)), None);
        assert_eq!(repeats(requests(u64::MAX)), None);
    }
}
