//! `plimsoll search --verify-rate`: a closed-loop answer, sent as an open loop.

use plimsoll::plan::{ArrivalsPlan, Budget, LoadRange, Plan, StrategyPlan};
use plimsoll::report::{Document, TrialDocument, keep_rate_check, rate_at_answer};
use plimsoll::search::TrialKind;
use plimsoll::search::windows::trial_seconds;
use plimsoll::workload::ArrivalProcess;

use super::engine::{self, Settings};
use super::exit::ExitCode;

/// Length of the check, seconds; longer where the windows of an objective need it.
const SECONDS: f64 = 60.0;
/// Most requests in flight of the check, as a multiple of the answer.
const ROOM: u32 = 8;

/// Searches, and checks the request rate at the answer with Poisson arrivals.
pub async fn search_and_verify(plan: Plan, settings: Settings) -> anyhow::Result<ExitCode> {
    let (found, contents, _) = engine::measure_all(&plan, &settings, None).await?;
    match rate_at_answer(&Document::of_run(&contents)) {
        Some((users, rate)) if found.cut_short.is_none() => {
            let check = open_loop(&plan, users, rate);
            let (checked, ..) = engine::measure_all(&check, &settings, None).await?;
            let trial = checked.outcomes.iter().rev().find(|trial| trial.spec.kind == TrialKind::Measure);
            if trial.is_none() {
                eprintln!("the check at {rate:.1} requests/s was cut short and says nothing");
            }
            if let Some(trial) = trial {
                keep_rate_check(&contents.path, &TrialDocument::new(&check, trial, &[]).trial)?;
            }
        }
        _ => eprintln!("there is no answer whose request rate could be checked"),
    }
    engine::finish(&plan, &contents, &settings)?;
    Ok(engine::exit_code(&found))
}

/// The plan of the check.
fn open_loop(plan: &Plan, users: u32, rate: f64) -> Plan {
    let cap = users.saturating_mul(ROOM).max(64);
    let mut check = plan.clone();
    check.name.push_str("-rate-check");
    // Arrivals at a rate do not come back.
    check.workload.think = None;
    check.load = LoadRange { min: 1, max: cap };
    // The budget is the search's; the check has a length of its own.
    check.budget = Budget::default();
    check.strategy = StrategyPlan::Grid { levels: Vec::new(), warm: false };
    check.trial.requests = 1;
    let seconds = trial_seconds(&plan.slo).map_or(SECONDS, |seconds| seconds.max(SECONDS));
    (check.trial.min_seconds, check.trial.max_seconds) = (seconds, seconds);
    check.arrivals = Some(ArrivalsPlan {
        min: rate,
        max: rate,
        process: ArrivalProcess::Poisson,
        in_flight_cap: cap,
        levels: vec![rate],
        curve: None,
    });
    check
}
