//! The settings that are best for somebody: speed for each user against throughput for each unit of
//! cost.

use schemars::JsonSchema;
use serde::Serialize;

use super::entry::{Entry, Told};
use super::plan::TunePlan;
use crate::recipe::TuneObjective;
use crate::space::Setting;
use crate::units::Load;

/// A setting at the largest load within the SLO.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FrontPoint {
    /// The setting.
    pub setting: Setting,
    /// What it costs.
    pub cost: f64,
    /// The load.
    pub load: f64,
    /// Requests a second within the SLO, for each user.
    pub per_user: f64,
    /// Requests a second within the SLO, for each unit of cost.
    pub per_cost: f64,
}

/// The settings of which no other gives as much to both, the fastest for each user first. None where
/// no cost is given: then there is one best setting.
pub fn front(plan: &TunePlan, entries: &[Entry]) -> Vec<FrontPoint> {
    if plan.cost.is_none() {
        return Vec::new();
    }
    let mut points: Vec<FrontPoint> = Vec::new();
    for entry in entries {
        let Told::Measured { value, abandoned: false, .. } = entry.told else { continue };
        let Some(answer) = &entry.answer else { continue };
        let Some(load) = answer.load.map(Load::value).filter(|load| *load > 0.0) else { continue };
        let cost = plan.cost_of(&entry.setting);
        let rate = match plan.objective {
            TuneObjective::Goodput => value,
            TuneObjective::Cost => value * cost,
            TuneObjective::Concurrency => match answer.goodput {
                Some(goodput) => goodput.requests_per_second,
                None => continue,
            },
        };
        let point = FrontPoint {
            setting: entry.setting.clone(),
            cost,
            load,
            per_user: rate / load,
            per_cost: rate / cost,
        };
        // Its latest measurement stands for a setting.
        points.retain(|other| other.setting != point.setting);
        points.push(point);
    }
    points.sort_by(|a, b| b.per_user.total_cmp(&a.per_user).then(b.per_cost.total_cmp(&a.per_cost)));
    let mut most = 0.0;
    points.retain(|point| {
        let counts = point.per_cost > most;
        most = point.per_cost.max(most);
        counts
    });
    points
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::recipe::Recipe;
    use crate::search::tuner::TrialCost;
    use crate::search::{Answer, SearchOutcome};
    use crate::space::KnobValue;
    use crate::tune::Role;

    const RECIPE: &str = "
        [tune]
        cost = 'max_num_seqs'
        [knobs.max_num_seqs]
        type = 'int'
        range = [1, 9]
        default = 1
    ";

    fn entry(gpus: i64, load: u32, rate: f64) -> Entry {
        let answer = Answer { load: Some(Load::Concurrency(load)), ..Answer::bare(SearchOutcome::Found) };
        Entry {
            id: 1,
            role: Role::Explore,
            setting: Setting::from([("max_num_seqs".to_owned(), KnobValue::Int(gpus))]),
            told: Told::Measured { value: rate, error: 0.01, abandoned: false },
            cost: TrialCost::default(),
            answer: Some(answer),
            run: None,
            log: None,
        }
    }

    #[test]
    fn what_another_setting_beats_in_both_is_left_out() {
        let plan = TunePlan::of(Recipe::from_toml(RECIPE, "test").unwrap(), None).unwrap();
        // The second is the first measured again: 1 a user and 10 a unit of cost; then 0.5 and 4, 0.4 and 20.
        let entries = [entry(2, 5, 10.0), entry(2, 20, 20.0), entry(4, 32, 16.0), entry(1, 50, 20.0)];
        let found: Vec<(f64, f64)> =
            front(&plan, &entries).iter().map(|point| (point.per_user, point.per_cost)).collect();
        assert_eq!(found, [(1.0, 10.0), (0.4, 20.0)]);
        let two = [entry(2, 5, 10.0), entry(4, 32, 16.0), entry(3, 60, 30.0)];
        let found: Vec<(f64, f64)> =
            front(&plan, &two).iter().map(|point| (point.per_user, point.per_cost)).collect();
        assert_eq!(found, [(2.0, 5.0), (0.5, 10.0)]);
        let free = TunePlan { cost: None, ..plan };
        assert!(front(&free, &two).is_empty());
    }
}
