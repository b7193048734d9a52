//! A run can be decided again from its journal, and taken up again wherever it was cut.

use std::fs;
use std::path::Path;

use plimsoll::controller;
use plimsoll::plan::Plan;
use plimsoll::recipe::{Purpose, Recipe};
use plimsoll::run::{Contents, Cost, RunFolder, Silent};
use plimsoll::search::{self, SearchOutcome, TrialOutcome};
use plimsoll::sim::presets;
use plimsoll::sim::session::{SimSession, ready};
use plimsoll::target::{Target, TargetError};

/// The embedded engine in virtual time.
struct Virtual {
    seed: u64,
}

impl Target for Virtual {
    type Session = SimSession;

    async fn open(&mut self, _clock: f64, _first: u64) -> Result<SimSession, TargetError> {
        let preset = presets::SMALL;
        Ok(SimSession::new(preset.params, preset.traffic(), self.seed))
    }

    fn client(&self) -> Option<&plimsoll::loadgen::ClientOptions> {
        None
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "engine": "virtual" })
    }
}

pub fn plan() -> Plan {
    let recipe = Recipe::from_toml("[load]\nconcurrency = \"1..256\"\n", "test").unwrap();
    recipe.into_plan(Some("test"), Purpose::Search).unwrap()
}

/// Runs a plan on the embedded engine in virtual time.
pub fn search(plan: &Plan, folder: &mut RunFolder, past: &[TrialOutcome], seed: u64) -> controller::Found {
    let mut target = Virtual { seed };
    let mut silent = Silent;
    ready(controller::search(plan, &mut target, folder, past, Cost::default(), &mut silent)).unwrap()
}

/// Goes on with a run, as `plimsoll resume` does.
fn resumed(past: &Contents, folder: &mut RunFolder, outcomes: &[TrialOutcome]) -> controller::Found {
    let (mut target, mut silent) = (Virtual { seed: 2 }, Silent);
    ready(controller::search(&past.plan, &mut target, folder, outcomes, past.cost, &mut silent)).unwrap()
}

/// The folder of a finished search.
pub fn finished(out: &Path, plan: &Plan) -> std::path::PathBuf {
    finished_on(out, plan, 1)
}

/// The same, of a server whose noise has this seed.
pub fn finished_on(out: &Path, plan: &Plan, seed: u64) -> std::path::PathBuf {
    let mut folder = RunFolder::create(Some(out), "test", plan).unwrap();
    let found = search(plan, &mut folder, &[], seed);
    assert_eq!(found.answer.outcome, SearchOutcome::Found);
    let path = folder.path().to_owned();
    folder.close().unwrap();
    path
}

#[test]
fn the_journal_leads_to_the_same_answer_bit_for_bit() {
    let out = tempfile::tempdir().unwrap();
    let plan = plan();
    let contents = Contents::read(&finished(out.path(), &plan)).unwrap();
    let outcomes: Vec<TrialOutcome> = contents.outcomes().cloned().collect();
    let mut strategy = search::strategy(&contents.plan);
    controller::replay(strategy.as_mut(), &outcomes).unwrap();
    assert_eq!(strategy.answer(), contents.ended.unwrap().answer);
}

#[test]
fn a_run_that_was_cut_anywhere_is_taken_up_and_ends_with_an_answer() {
    let out = tempfile::tempdir().unwrap();
    let plan = plan();
    let path = finished(out.path(), &plan);
    let journal = fs::read(path.join("journal.jsonl")).unwrap();
    for part in 1..10 {
        let cut = journal.len() * part / 10;
        fs::write(path.join("journal.jsonl"), &journal[..cut]).unwrap();
        let (mut folder, past) = RunFolder::open(&path).unwrap();
        let outcomes: Vec<TrialOutcome> = past.outcomes().cloned().collect();
        let found = resumed(&past, &mut folder, &outcomes);
        let counted: Vec<u64> = found.outcomes.iter().map(|outcome| outcome.issued_total).collect();
        assert!(counted.is_sorted(), "requests of the earlier part are forgotten: {counted:?}");
        assert_eq!(found.outcomes[..outcomes.len()], outcomes[..], "cut at {cut}");
        assert_eq!(found.answer.outcome, SearchOutcome::Found, "cut at {cut}");
        folder.close().unwrap();
    }
}

#[test]
fn a_budget_is_a_hard_bound_and_still_gives_what_is_known() {
    let out = tempfile::tempdir().unwrap();
    let mut plan = plan();
    plan.budget.requests = Some(900);
    let mut folder = RunFolder::create(Some(out.path()), "test", &plan).unwrap();
    let found = search(&plan, &mut folder, &[], 1);
    // A closed loop has at most its level more under way than were counted at the last look.
    assert!(found.cost.requests < 900 + 256, "{} requests", found.cost.requests);
    assert!(
        found.answer.outcome == SearchOutcome::Found || found.answer.outcome == SearchOutcome::Interrupted
    );
}
