//! What a profile will measure, every default explicit.

use serde::{Deserialize, Serialize};

use crate::plan::{Lengths, LoadRange, Plan, StrategyPlan};
use crate::recipe::{
    Count, Duration, ProfileKind, ProfileSection, Purpose, Recipe, RecipeError, TokenLengths,
};
use crate::slo::Slo;

/// Version of the profile's schema.
const PROFILE_VERSION: u32 = 1;
/// Completions of a trial, and its shortest and longest measured window, seconds.
const PREFILL_TRIAL: (u32, f64, f64) = (24, 0.1, 300.0);
const TRIAL: (u32, f64, f64) = (16, 1.0, 300.0);
/// Tokens of an answer that is sent for the sake of its first one: enough to see that they stream.
const FEW: u32 = 8;
/// Fewest prompt lengths that a curve is fitted to.
const LEAST_LENGTHS: usize = 4;
/// Most trials of a profile.
const MOST: usize = 1000;

/// A prompt length and an output length, tokens.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Shape {
    /// Prompt, tokens.
    pub isl: u32,
    /// Output, tokens.
    pub osl: u32,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}x{}", self.isl, self.osl))
    }
}

/// What a profile will measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilePlan {
    /// Version of this schema.
    pub profile_version: u32,
    /// What is drawn.
    pub kind: ProfileKind,
    /// GPUs of the server, where they are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Requests in flight, ascending.
    pub levels: Vec<u32>,
    /// Shapes of requests, in the order in which they are measured.
    pub shapes: Vec<Shape>,
    /// The run of each shape, but for its lengths; those in it are the longest.
    pub plan: Plan,
}

impl ProfilePlan {
    /// Resolves a recipe; `name` is its own, where it has one.
    ///
    /// # Errors
    /// Names what is wrong or wanting, and the mend.
    pub fn of(mut recipe: Recipe, name: Option<&str>) -> Result<Self, RecipeError> {
        let ProfileSection { kind, isl, osl, concurrency, gpus } = std::mem::take(&mut recipe.profile);
        let Some(kind) = kind else {
            return Err(RecipeError::new("it is not said what is profiled (`profile.kind`)")
                .hint("`plimsoll profile prefill`, `decode` or `pareto`, or a recipe with `[profile]`"));
        };
        refuse(&recipe)?;
        let (isl, osl, levels) = match kind {
            ProfileKind::Prefill => (steps(isl, "128..2048"), steps(osl, "8"), steps(concurrency, "1")),
            ProfileKind::Decode => {
                (steps(isl, "128"), steps(osl, "32,128,512"), steps(concurrency, "1,2,4,8,16,32,64"))
            }
            ProfileKind::Pareto => {
                (steps(isl, "128,1024"), steps(osl, "32,128"), steps(concurrency, "1,2,4,8,16,32,64"))
            }
        };
        check(kind, &isl, &osl, &levels)?;
        let ends = |steps: &[u32]| (steps.first().copied().unwrap_or(1), steps.last().copied().unwrap_or(1));
        let fixed = |tokens: u32| Some(TokenLengths(Lengths::Fixed { tokens }));
        recipe.workload.isl = fixed(ends(&isl).1);
        recipe.workload.osl = fixed(ends(&osl).1);
        let (requests, least, most) = if kind == ProfileKind::Prefill { PREFILL_TRIAL } else { TRIAL };
        let trial = &mut recipe.trial;
        trial.requests = trial.requests.or(Some(Count(requests)));
        let longest = trial.max_duration.map_or(most, |Duration(seconds)| seconds);
        trial.min_duration = trial.min_duration.or(Some(Duration(least.min(longest))));
        let least = trial.min_duration.map_or(least, |Duration(seconds)| seconds);
        trial.max_duration = trial.max_duration.or(Some(Duration(most.max(least))));
        let mut plan = recipe.into_plan(Some(name.unwrap_or(kind.word())), Purpose::Measure)?;
        // A curve is that of the server, whatever is asked of it.
        plan.slo = Slo::none();
        plan.load = LoadRange { min: ends(&levels).0, max: ends(&levels).1 };
        plan.strategy = StrategyPlan::Grid { levels: levels.clone(), warm: false };
        let shapes = isl.iter().flat_map(|&isl| osl.iter().map(move |&osl| Shape { isl, osl })).collect();
        let gpus = gpus.map(|Count(gpus)| gpus);
        Ok(Self { profile_version: PROFILE_VERSION, kind, gpus, levels, shapes, plan })
    }

    /// The run of each shape. Their seeds count up from the profile's, so that no prompt is sent twice; only
    /// the first warms the server up.
    pub fn each(&self) -> impl Iterator<Item = (Shape, Plan)> {
        self.shapes.iter().zip(0_u64..).map(|(&shape, index)| {
            let mut plan = self.plan.clone();
            plan.name = format!("{}-{shape}", self.plan.name);
            plan.seed = self.plan.seed.wrapping_add(index) & (u64::MAX >> 1);
            plan.strategy = StrategyPlan::Grid { levels: self.levels.clone(), warm: index > 0 };
            plan.workload.isl = Lengths::Fixed { tokens: shape.isl };
            plan.workload.osl = Lengths::Fixed { tokens: shape.osl };
            (shape, plan)
        })
    }

    /// Trials that are to be run.
    pub fn trials(&self) -> usize {
        self.shapes.len() * self.levels.len()
    }
}

impl ProfileKind {
    /// As on the command line.
    pub fn word(self) -> &'static str {
        match self {
            ProfileKind::Prefill => "prefill",
            ProfileKind::Decode => "decode",
            ProfileKind::Pareto => "pareto",
        }
    }
}

fn steps(given: Option<crate::recipe::Steps>, default: &str) -> Vec<u32> {
    given.or_else(|| default.parse().ok()).map_or_else(Vec::new, |crate::recipe::Steps(steps)| steps)
}

fn refuse(recipe: &Recipe) -> Result<(), RecipeError> {
    let workload = &recipe.workload;
    let given = [
        (workload.classes.is_some(), "`workload.classes` (`--class`)"),
        (workload.dataset.is_some(), "`workload.dataset` (`--dataset`)"),
        (workload.isl.is_some(), "`workload.isl`"),
        (workload.osl.is_some(), "`workload.osl`"),
        (recipe.load.is_open(), "a request rate (`load.rate`)"),
        (recipe.load.concurrency.is_some(), "`load.concurrency`"),
        (recipe.target.streaming == Some(false), "`target.streaming = false` (`--no-stream`)"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, field)) => Err(RecipeError::new(format!(
            "{field}: a profile streams requests of fixed lengths at fixed loads, which `[profile]` lists"
        ))
        .hint("leave it out, and give `isl`, `osl` and `concurrency` in `[profile]` (or by flags)")),
    }
}

fn check(kind: ProfileKind, isl: &[u32], osl: &[u32], levels: &[u32]) -> Result<(), RecipeError> {
    let wrong = |problem: String, hint: &str| Err(RecipeError::new(problem).hint(hint));
    let trials = isl.len() * osl.len() * levels.len();
    if trials > MOST {
        return wrong(
            format!("{trials} trials are too many; at most {MOST} are measured"),
            "give fewer steps",
        );
    }
    match kind {
        ProfileKind::Prefill if isl.len() < LEAST_LENGTHS => wrong(
            format!(
                "`profile.isl` (`--isl`) has {} prompt lengths; a curve needs {LEAST_LENGTHS}",
                isl.len()
            ),
            "for example `--isl 128..8192`",
        ),
        ProfileKind::Prefill if osl.len() > 1 || levels.len() > 1 => wrong(
            "a prefill curve has one output length (`--osl`) and one load (`--concurrency`)".to_owned(),
            "leave them out: few tokens are asked for, one request at a time",
        ),
        ProfileKind::Decode if isl.len() > 1 => wrong(
            format!("a decode surface has one prompt length, but `profile.isl` (`--isl`) has {}", isl.len()),
            "give one, such as `--isl 128`; `plimsoll profile pareto` measures several",
        ),
        ProfileKind::Decode | ProfileKind::Pareto if osl.iter().any(|&osl| osl < FEW) => wrong(
            format!("outputs of fewer than {FEW} tokens do not show the time between them"),
            "give longer ones, such as `--osl 128`",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::recipe::READY;

    fn plan(text: &str) -> Result<ProfilePlan, RecipeError> {
        ProfilePlan::of(Recipe::from_toml(text, "test").unwrap(), None)
    }

    #[test]
    fn the_ready_recipes_make_plans_that_survive_their_files() {
        for name in ["prefill-curve", "decode-surface", "pareto-shapes"] {
            let ready = READY.iter().find(|ready| ready.name == name).unwrap();
            let plan = ProfilePlan::of(Recipe::from_toml(ready.text, name).unwrap(), Some(name)).unwrap();
            let file = toml::to_string(&plan).unwrap();
            assert_eq!(toml::from_str::<ProfilePlan>(&file).unwrap(), plan, "{file}");
            assert_eq!(plan.each().count(), plan.shapes.len());
        }
    }

    #[test]
    fn each_shape_is_a_run_with_a_seed_of_its_own_and_only_the_first_warms_up() {
        let plan = plan("seed = 7\n[profile]\nkind='pareto'\nisl=[64,128]\nosl=[16,32]\nconcurrency='1..8'")
            .unwrap();
        let runs: Vec<(Shape, Plan)> = plan.each().collect();
        let shapes: Vec<String> = runs.iter().map(|(shape, _)| shape.to_string()).collect();
        assert_eq!(shapes, ["64x16", "64x32", "128x16", "128x32"]);
        let warm = |plan: &Plan| matches!(plan.strategy, StrategyPlan::Grid { warm, .. } if warm);
        assert_eq!(runs.iter().map(|(_, plan)| warm(plan)).collect::<Vec<_>>(), [false, true, true, true]);
        assert_eq!(runs.iter().map(|(_, plan)| plan.seed).collect::<Vec<_>>(), [7, 8, 9, 10]);
        assert_eq!(runs[3].1.workload.isl, Lengths::Fixed { tokens: 128 });
        assert_eq!((runs[0].1.load.min, runs[0].1.load.max), (1, 8));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused_with_the_mend() {
        let problem = |text: &str| plan(text).unwrap_err().to_string();
        assert!(problem("seed = 1").contains("`profile.kind`"));
        assert!(problem("[profile]\nkind='prefill'\nisl=[1,2,3]").contains("a curve needs 4"));
        assert!(problem("[profile]\nkind='decode'\nisl=[8,16]").contains("one prompt length"));
        assert!(problem("[profile]\nkind='decode'\nosl=[4]").contains("fewer than 8 tokens"));
        assert!(problem("[profile]\nkind='decode'\n[workload]\nisl=8").contains("`workload.isl`"));
        assert!(problem("[profile]\nkind='prefill'\nisl='128..4090'").contains("context of 4096 tokens"));
    }
}
