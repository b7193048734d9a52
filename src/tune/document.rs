//! What a tuning found: the contract of `tune.json`.

use schemars::JsonSchema;
use serde::Serialize;

use super::confirmation::{Confirmed, confirmed};
use super::entry::{Entry, Role, Told};
use super::front::{FrontPoint, front};
use super::plan::TunePlan;
use crate::recipe::TuneObjective;
use crate::search::confirm::{Finding, Gain};
use crate::search::importance::{Effect, effects};
use crate::search::tuner::{Enough, FailureKind, Tuner};
use crate::space::{Setting, Space};
use crate::units::{Interval, Load};

/// Version of the document.
pub const TUNE_VERSION: u32 = 1;

/// Everything that a tuning found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TuneDocument {
    /// Version of this schema.
    pub schema_version: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Name of the recipe.
    pub name: String,
    /// The SLO.
    pub slo: Vec<String>,
    /// What is best.
    pub objective: TuneObjective,
    /// The setting to use: the default where nothing is better.
    pub recommended: Option<Figures>,
    /// The best setting that was found, confirmed or not.
    pub best: Option<Figures>,
    /// The default setting.
    pub default: Option<Figures>,
    /// The gain of `best` over `default` from the confirmation.
    pub gain: Option<Gain>,
    /// What the confirmation says.
    pub finding: Option<Finding>,
    /// Why exploring ended; none where the operator ended it.
    pub ended: Option<Enough>,
    /// What each knob does, the largest effect first; none for designs without a model.
    pub effects: Vec<Effect>,
    /// Settings of which no other gives as much to each user and for each unit of cost; empty where
    /// `tune.cost` is not given.
    pub front: Vec<FrontPoint>,
    /// Knobs of the recommended setting as the engine takes them.
    pub command: Option<String>,
    /// What it took.
    pub cost: TuneCost,
    /// What the reader should know.
    pub warnings: Vec<String>,
    /// Every setting that was tried, in order.
    pub settings: Vec<Entry>,
}

/// How a tuning ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// There is a setting to recommend.
    Tuned,
    /// No setting worked; all that could be measured miss the SLO at the lowest load.
    MissedAtLowest,
    /// No setting could be measured.
    NothingWorks,
    /// The operator ended it.
    Interrupted,
}

/// A setting with its figures.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// The knobs.
    pub setting: Setting,
    /// What is maximised: the mean over its measurements (those of the confirmation where there are
    /// any).
    pub value: f64,
    /// Measurements in that mean.
    pub measurements: usize,
    /// The largest load within the SLO, of its latest run.
    pub load: Option<Load>,
    /// Interval of that.
    pub interval: Option<Interval>,
    /// The objective that binds there.
    pub binding_objective: Option<String>,
}

/// What a tuning took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TuneCost {
    /// Seconds, on the runs' clocks.
    pub seconds: f64,
    /// Of which launches took.
    pub launch_seconds: f64,
    /// Settings tried to find the best.
    pub explored: usize,
    /// Measurements of the confirmation.
    pub confirmations: usize,
    /// Tries that failed.
    pub failed: usize,
    /// Searches that were given up, as they could not beat the best.
    pub abandoned: usize,
}

impl TuneDocument {
    /// The document of what was done.
    pub fn new(
        plan: &TunePlan,
        space: &Space,
        tuner: &dyn Tuner,
        entries: &[Entry],
        outcome: Outcome,
        ended: Option<Enough>,
        command: &dyn Fn(&Setting) -> String,
    ) -> Self {
        let default_setting = space.setting(&space.default_point());
        let default = figures(&default_setting, entries);
        let mut warnings = Vec::new();
        let confirmed = confirmed(entries);
        let chosen: Option<&Confirmed> = confirmed.iter().find(|one| !one.failed);
        if confirmed.iter().any(|one| one.failed) {
            warnings.push("a candidate failed when it was measured again, and is not recommended".to_owned());
        }
        let best = match chosen {
            Some(chosen) => figures(&chosen.setting, entries),
            None if !confirmed.is_empty() => default.clone(),
            None => tuner.recommend().and_then(|best| figures(&space.setting(&best.point), entries)),
        };
        let gain = chosen.and_then(|chosen| chosen.gain);
        let finding = gain.map(|gain| gain.finding());
        let explored_all = outcome == Outcome::Tuned;
        if default.is_none() {
            warnings.push("the default setting does not work, so there is no gain to state".to_owned());
        } else if finding.is_none()
            && explored_all
            && best.as_ref().is_some_and(|b| b.setting != default_setting)
        {
            warnings.push("the best setting was not confirmed: its value may be luck".to_owned());
        }
        let recommended = match finding {
            Some(Finding::NoneBetter | Finding::Worse) => default.clone(),
            Some(Finding::Better) | None => best.clone().or_else(|| default.clone()),
        };
        let outcome = match (outcome, &recommended) {
            (Outcome::Tuned, None) if misses_only(entries) => Outcome::MissedAtLowest,
            (Outcome::Tuned, None) => Outcome::NothingWorks,
            (other, _) => other,
        };
        Self {
            schema_version: TUNE_VERSION,
            outcome,
            name: plan.plan.name.clone(),
            slo: plan.plan.slo.objectives.iter().map(ToString::to_string).collect(),
            objective: plan.objective,
            command: recommended.as_ref().map(|figures| command(&figures.setting)),
            recommended,
            best,
            default,
            gain,
            finding,
            ended,
            effects: tuner.model().map(|model| effects(space, model, plan.plan.seed)).unwrap_or_default(),
            front: front(plan, entries),
            cost: TuneCost::of(entries),
            warnings,
            settings: entries.to_vec(),
        }
    }

    /// The document as JSON text.
    pub fn to_json(&self) -> String {
        // Maps have texts for keys and no number is infinite, so this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl TuneCost {
    fn of(entries: &[Entry]) -> Self {
        let count = |is: &dyn Fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count();
        let explored = count(&|entry| entry.role == Role::Explore);
        Self {
            seconds: entries.iter().map(|entry| entry.cost.launch + entry.cost.measure).sum(),
            launch_seconds: entries.iter().map(|entry| entry.cost.launch).sum(),
            explored,
            confirmations: entries.len() - explored,
            failed: count(&|entry| matches!(entry.told, Told::Failed { .. })),
            abandoned: count(&|entry| matches!(entry.told, Told::Measured { abandoned: true, .. })),
        }
    }
}

/// The figures of a setting; none where it was never measured.
fn figures(setting: &Setting, entries: &[Entry]) -> Option<Figures> {
    let own = || entries.iter().filter(|entry| entry.setting == *setting && entry.told.value().is_some());
    let confirmations: Vec<&Entry> = own().filter(|entry| entry.role != Role::Explore).collect();
    let used: Vec<&Entry> = if confirmations.is_empty() { own().collect() } else { confirmations };
    let logs: Vec<f64> = used.iter().filter_map(|entry| entry.told.value()).map(f64::ln).collect();
    let answer = used.iter().rev().find_map(|entry| entry.answer.as_ref());
    (!logs.is_empty()).then(|| Figures {
        setting: setting.clone(),
        value: (logs.iter().sum::<f64>() / logs.len() as f64).exp(),
        measurements: logs.len(),
        load: answer.and_then(|answer| answer.load),
        interval: answer.and_then(|answer| answer.interval),
        binding_objective: answer.and_then(|answer| answer.binding_objective.clone()),
    })
}

fn misses_only(entries: &[Entry]) -> bool {
    let missed = |entry: &Entry| matches!(entry.told, Told::Failed { kind: FailureKind::MissedAtLowest, .. });
    entries.iter().any(missed)
}
