//! What a tuning will do: the plan of the runs within it, the knobs, and how they are searched.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::TuneError;
use crate::plan::Plan;
use crate::recipe::{Count, Duration, Purpose, Recipe, RecipeError, TuneObjective};
use crate::search::designs::Listed;
use crate::search::tuner::{Design, Tuner, tuner};
use crate::space::{Expression, KnobKind, KnobSection, Setting, Space, show};

/// Settings tried before the confirmation.
const LAUNCHES: usize = 20;
/// Times that best and default are measured again.
const CONFIRMATIONS: usize = 3;

/// What a tuning will do, every default explicit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunePlan {
    /// Most settings that are tried before the confirmation.
    pub launches: usize,
    /// Longest that all may take, seconds.
    pub seconds: Option<f64>,
    /// Times that best and default are measured again.
    pub confirmations: usize,
    /// How settings are chosen.
    pub design: Design,
    /// What is best.
    pub objective: TuneObjective,
    /// What a setting costs, as an expression of its knobs.
    pub cost: Option<String>,
    /// Conditions that every setting keeps.
    pub constraints: Vec<String>,
    /// The only settings that are tried, beside the default, where some are given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// The knobs.
    pub knobs: BTreeMap<String, KnobSection>,
    /// The run of each setting; its seed is the tuning's.
    pub plan: Plan,
}

impl TunePlan {
    /// Resolves a recipe; `name` is its own, where it has one.
    ///
    /// # Errors
    /// Names what is wrong or wanting, and the mend.
    pub fn of(mut recipe: Recipe, name: Option<&str>) -> Result<Self, TuneError> {
        let tune = std::mem::take(&mut recipe.tune);
        let mut knobs = std::mem::take(&mut recipe.knobs);
        fix(&mut knobs, &recipe)?;
        if knobs.is_empty() {
            return Err(RecipeError::new("the recipe has no `[knobs.<name>]`, so there is nothing to tune")
                .hint("`plimsoll recipes show simulated-tune` shows how knobs are written")
                .into());
        }
        let objective = tune.objective.unwrap_or_default();
        if objective == TuneObjective::Cost && tune.cost.is_none() {
            return Err(RecipeError::new(
                "`tune.objective` is `cost`, but `tune.cost` does not say what a setting costs",
            )
            .hint("for example `cost = \"tensor_parallel_size * data_parallel_size\"`")
            .into());
        }
        let tuned = Self {
            launches: tune.launches.map_or(LAUNCHES, |Count(count)| count as usize),
            seconds: tune.budget.map(|Duration(seconds)| seconds),
            confirmations: tune.confirmations.map_or(CONFIRMATIONS, |count| count as usize),
            design: tune.design.unwrap_or_default(),
            objective,
            cost: tune.cost,
            constraints: tune.constraints,
            settings: tune.settings,
            knobs,
            plan: recipe.into_plan(name, Purpose::Search)?,
        };
        tuned.tuner(&tuned.space()?)?;
        Ok(tuned)
    }

    /// The settings that may be tried.
    ///
    /// # Errors
    /// Names the knob or condition that is wrong.
    pub fn space(&self) -> Result<Space, TuneError> {
        let space = Space::from_sections(&self.knobs, &self.constraints)?;
        if let Some(cost) = self.cost_expression()? {
            space.check_number("`tune.cost`", &cost)?;
        }
        Ok(space)
    }

    /// What chooses the settings.
    ///
    /// # Errors
    /// When a listed setting is not allowed, or the design does not fit the knobs.
    pub fn tuner(&self, space: &Space) -> Result<Box<dyn Tuner>, TuneError> {
        if self.settings.is_empty() {
            return Ok(tuner(self.design, space, self.launches, self.plan.seed)?);
        }
        let mut points = Vec::new();
        for (index, setting) in self.settings.iter().enumerate() {
            let wrong = |problem: String| {
                RecipeError::new(format!(
                    "`tune.settings`, number {} ({}): {problem}",
                    index + 1,
                    show(setting)
                ))
            };
            let names: Vec<String> = space.setting(&space.default_point()).into_keys().collect();
            let unknown = setting
                .keys()
                .find(|name| !names.contains(name) && !space.knobs().iter().any(|knob| knob.name == **name));
            if let Some(name) = unknown {
                return Err(wrong(format!("no knob is called `{name}`")).into());
            }
            let point = space.point(setting).map_err(|error| wrong(error.to_string()))?;
            if !space.allows(&point) {
                return Err(wrong("a constraint forbids it".to_owned()).into());
            }
            points.push(point);
        }
        Ok(Box::new(Listed::of(space, points, self.launches)))
    }

    /// What a setting costs: 1 where no cost is given.
    pub fn cost_of(&self, setting: &Setting) -> f64 {
        let cost = self.cost_expression().ok().flatten();
        cost.and_then(|cost| cost.number(&|name| setting.get(name))).unwrap_or(1.0)
    }

    fn cost_expression(&self) -> Result<Option<Expression>, TuneError> {
        let read = |text: &String| {
            Expression::parse(text).map_err(|problem| {
                TuneError::Recipe(RecipeError::new(format!("`tune.cost` `{text}`: {problem}")))
            })
        };
        self.cost.as_ref().map(read).transpose()
    }
}

/// Knobs to which `engine.set` (`--set`) gives a value are not tuned.
fn fix(knobs: &mut BTreeMap<String, KnobSection>, recipe: &Recipe) -> Result<(), RecipeError> {
    for (name, value) in recipe.engine.set.iter().flatten() {
        if let Some(knob) = knobs.get_mut(name) {
            *knob = KnobSection {
                kind: Some(KnobKind::Fixed),
                value: Some(value.clone()),
                only_when: knob.only_when.take(),
                ..KnobSection::default()
            };
        }
        let links = |knob: &KnobSection| knob.knobs.iter().flatten().any(|linked| linked == name);
        if let Some((linked, _)) = knobs.iter().find(|(_, knob)| links(knob)) {
            return Err(RecipeError::new(format!(
                "`engine.set.{name}` (`--set`) is also set by the linked knob `{linked}`"
            ))
            .hint("leave one of them out"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::recipe::READY;

    fn tuned(text: &str) -> Result<TunePlan, TuneError> {
        TunePlan::of(Recipe::from_toml(text, "test.toml").unwrap(), None)
    }

    #[test]
    fn the_ready_recipe_makes_a_plan_that_survives_its_file() {
        let ready = READY.iter().find(|ready| ready.name == "simulated-tune").unwrap();
        let plan = tuned(ready.text).unwrap();
        assert_eq!((plan.launches, plan.confirmations), (16, 3));
        let file = toml::to_string(&plan).unwrap();
        assert_eq!(toml::from_str::<TunePlan>(&file).unwrap(), plan, "{file}");
    }

    #[test]
    fn what_is_wanting_is_said_with_the_mend() {
        let error = |text: &str| tuned(text).unwrap_err().to_string();
        assert!(error("seed = 1").starts_with("the recipe has no `[knobs.<name>]`"));
        let knobs = "[knobs.max_num_seqs]\ntype='int'\nrange=[1,9]\ndefault=5\n";
        assert!(error(&format!("{knobs}[tune]\nobjective='cost'")).contains("`tune.cost`"));
        assert_eq!(
            error(&format!("{knobs}[tune]\ncost='max_num_seqs > 2'")),
            "`tune.cost` `max_num_seqs > 2`: it gives true or false, not a number"
        );
        assert!(
            error(&format!("{knobs}[tune]\nconstraints=['nix > 2']")).contains("no knob is called `nix`")
        );
        assert_eq!(
            error(&format!("{knobs}[tune]\nsettings=[{{max_num_seqs=3}}, {{max_num_seqs=10}}]")),
            "`tune.settings`, number 2 (max_num_seqs=10): knob `max_num_seqs`: 10 is not among the values that it may have"
        );
        assert!(error(&format!("{knobs}[tune]\nsettings=[{{nix=3}}]")).ends_with("no knob is called `nix`"));
        let launched = "slo=['ttft p95 < 1s']\n[engine]\nlaunch='x {knobs.max_num_seqs} {knobs.b}'\n";
        let set = |set: &str| {
            tuned(&format!("{launched}set={set}\n{knobs}[knobs.b]\ntype='int'\nrange=[1,4]\ndefault=1"))
        };
        let setting =
            |plan: TunePlan| plan.space().map(|space| space.setting(&space.default_point())).unwrap();
        let fixed = setting(set("{max_num_seqs=77}").unwrap());
        assert_eq!(show(&fixed), "b=1 max_num_seqs=77", "a knob that is set is not tuned");
        let plan = tuned(&format!("{knobs}[tune]\ncost='2 * max_num_seqs'")).unwrap();
        assert_eq!(plan.cost_of(&plan.space().unwrap().setting(&vec![4.0])), 8.0);
    }
}
