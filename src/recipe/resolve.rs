//! Recipe to plan: every default made explicit, nothing left to guess later.

use super::choice::StrategyName;
use super::error::{RecipeError, closest};
use super::moving::{Moving, resolve_ramp};
use super::quantity::{Bounds, Count, Duration, Precision, Rates, Speed};
use super::traffic::{resolve_curve, resolve_workload};
use super::users;
use super::windows::{check_windows_budget, fit_windows};
use super::written::{LoadSection, Recipe, StrategySection, TargetSection};
use crate::plan::{
    Api, ArrivalsPlan, Budget, EndpointPlan, Lengths, LoadRange, PLAN_VERSION, Plan, SimulatedPlan,
    StrategyPlan, TargetPlan, TelemetryPlan, TrialPlan, WorkloadPlan,
};
use crate::sim::presets::{self, Preset};
use crate::slo::Slo;
use crate::space::Space;

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To search, which needs an SLO.
    Search,
    /// To measure, which an SLO only judges.
    Measure,
}

/// Loads that may be tried.
const CONCURRENCY: Bounds = Bounds { min: 1, max: 1024 };
/// Prompt and output lengths: short chat turns. They vary, because with fixed lengths the users run
/// in lock step (they begin and end together), which no real traffic does.
const ISL: Lengths = Lengths::Lognormal { mean: 256.0, cv: 0.5, min: 16, max: 1024 };
const OSL: Lengths = Lengths::Lognormal { mean: 128.0, cv: 0.5, min: 8, max: 512 };
/// Relative width of the interval at which the adaptive search may stop.
const ADAPTIVE_PRECISION: f64 = 0.2;
/// Relative width of the bracket at which the bisection ends.
const BISECT_PRECISION: f64 = 0.05;
/// Levels of a grid whose range is not given: eight, log-spaced.
const GRID_LEVELS: [u32; 8] = [1, 3, 7, 19, 52, 139, 373, 1000];
/// Completions that a trial of fixed size counts: enough for a p95 of 12 misses.
const TRIAL_REQUESTS: u32 = 250;
/// More completions than any curve or trace brings.
const ALL_REQUESTS: u32 = 1_000_000_000;
/// Shortest and longest measured window, seconds.
const TRIAL_SECONDS: (f64, f64) = (1.0, 120.0);
/// Longest a request may take, seconds.
const TIMEOUT: f64 = 600.0;
/// Where an engine that is launched is reached.
const ENGINE_URL: &str = "http://{{ host }}:{{ port }}";
/// Most requests in flight of an open loop.
const IN_FLIGHT_CAP: u32 = 4096;
/// How many times the lowest rate of a search the highest may be.
const WIDEST_RATES: f64 = 1e5;

impl Recipe {
    /// Resolves the recipe; `name` is its own, where it has one.
    ///
    /// # Errors
    /// Names the fields that contradict each other, or the one that is wanting, and the mend.
    pub fn into_plan(self, name: Option<&str>, purpose: Purpose) -> Result<Plan, RecipeError> {
        self.check()?;
        let mut engine = self.launched().into_plan()?;
        if let Some(engine) = engine.as_mut().filter(|_| !self.knobs.is_empty()) {
            // What is not tuned is at its default.
            let space = Space::from_sections(&self.knobs, &[])
                .map_err(|error| RecipeError::new(error.to_string()))?;
            for (name, value) in space.setting(&space.default_point()) {
                engine.knobs.entry(name).or_insert(value);
            }
        }
        let mut target = self.target;
        if engine.is_some() {
            target.url.get_or_insert_with(|| ENGINE_URL.to_owned());
        }
        let preset = target.preset()?;
        let slo = match (self.slo, preset) {
            (Some(slo), _) => slo,
            (None, Some(preset)) => {
                Slo::parse(preset.slo.iter().copied()).map_err(|error| RecipeError::new(error.to_string()))?
            }
            (None, None) if purpose == Purpose::Measure => Slo::none(),
            (None, None) => {
                return Err(RecipeError::new("no SLO is given, so there is nothing to search for").hint(
                    "for example `--slo 'ttft p95 < 500ms' --slo 'itl p95 < 50ms'`, or `slo = [\"ttft p95 < 500ms\"]` \
                     in the recipe",
                ));
            }
        };
        let repeats = match (purpose, self.strategy.repeats) {
            (Purpose::Search, Some(Count(repeats))) => repeats,
            _ => 1,
        };
        let (mut strategy, mut load) = resolve_search(self.strategy, self.load.concurrency);
        let lengths = preset.map_or((ISL, OSL), |preset| (preset.isl.clone(), preset.osl.clone()));
        let api = target.api.map(|name| name.0).unwrap_or_default();
        users::check(&self.workload, &self.load, api, Some(&slo))?;
        let mut workload = resolve_workload(self.workload, &self.load, lengths)?;
        let curve = resolve_curve(&self.load, &workload)?;
        let ramp = resolve_ramp(&self.load, purpose, &slo)?;
        let budget_seconds = self.budget.duration.map(|Duration(seconds)| seconds);
        let curve_check = curve.as_ref().map(|moving| moving.check(purpose, &slo, budget_seconds));
        curve_check.transpose()?;
        let arrivals = resolve_arrivals(&self.load, curve, &mut strategy, purpose)?;
        if let Some(arrivals) = &arrivals {
            load = LoadRange { min: 1, max: arrivals.in_flight_cap };
        }
        let ramp = ramp.map(|(ramp, grid, range)| {
            (strategy, load) = (grid, range);
            ramp
        });
        let target = match preset {
            Some(preset) => TargetPlan::Simulated(SimulatedPlan {
                preset: preset.name.to_owned(),
                speed: target.speed.unwrap_or(Speed(1.0)).0,
            }),
            None => TargetPlan::Endpoint(target.into_endpoint()?),
        };
        let mut trial = resolve_trial(self.trial.requests, self.trial.min_duration, self.trial.max_duration);
        // A load that moves is as long as it is.
        let moves = ramp.is_some() || arrivals.as_ref().is_some_and(|plan| plan.curve.is_some());
        if !moves {
            trial = fit_windows(&slo, trial, &self.trial, purpose)?;
            if purpose == Purpose::Search {
                check_windows_budget(&slo, self.budget.duration)?;
            }
        }
        if self.trial.requests.is_none() && moves {
            // A curve is measured to its end.
            trial.requests = ALL_REQUESTS;
        }
        if let Some(preset) = preset {
            if let Some(sessions) = &mut workload.sessions {
                sessions.max_context.get_or_insert(preset.max_model_len);
            }
            check_context(preset, &workload)?;
        }
        Ok(Plan {
            plan_version: PLAN_VERSION,
            name: folder_name(name, &target),
            seed: self.seed.unwrap_or(0),
            slo,
            target,
            load,
            arrivals,
            ramp,
            strategy,
            workload,
            trial,
            budget: Budget {
                seconds: budget_seconds,
                requests: self.budget.requests.map(|Count(requests)| u64::from(requests)),
            },
            engine,
            telemetry: TelemetryPlan {
                gpu: self.telemetry.gpu.unwrap_or_default(),
                dcgm: self.telemetry.dcgm,
            },
            repeats,
        })
    }
}

impl Recipe {
    /// The workload alone, whatever server it would be sent to.
    ///
    /// # Errors
    /// As [`Recipe::into_plan`], of what is sent.
    pub fn into_workload(self) -> Result<WorkloadPlan, RecipeError> {
        let preset = if self.target.url.is_some() {
            None
        } else {
            Some(choose_preset(self.target.simulated.as_deref())?)
        };
        let lengths = preset.map_or((ISL, OSL), |preset| (preset.isl.clone(), preset.osl.clone()));
        users::check(&self.workload, &self.load, Api::default(), None)?;
        resolve_workload(self.workload, &self.load, lengths)
    }
}

impl TargetSection {
    /// The preset of the simulated engine that is asked for; none where an endpoint is.
    fn preset(&self) -> Result<Option<&'static Preset>, RecipeError> {
        if self.url.is_some() {
            if self.speed.is_some() {
                return Err(RecipeError::new(
                    "`target.speed` (`--speed`) is the simulated engine's, but `target.url` (`--url`) is given",
                )
                .hint("leave the speed out"));
            }
            return Ok(None);
        }
        if let Some(field) = self.endpoint_field() {
            return Err(RecipeError::new(format!(
                "`target.{field}` is given, but no `target.url` (`--url`)"
            ))
            .hint(format!(
                "give the endpoint's URL, or leave `{field}` out to measure the simulated engine"
            )));
        }
        choose_preset(self.simulated.as_deref()).map(Some)
    }

    fn into_endpoint(self) -> Result<EndpointPlan, RecipeError> {
        let url = self.url.ok_or_else(|| RecipeError::new("no `target.url` (`--url`) is given"))?;
        Ok(EndpointPlan {
            url,
            api: self.api.map_or(Api::default(), |name| name.0),
            model: self.model,
            streaming: self.streaming.unwrap_or(true),
            engine: self.engine.map(|name| name.0),
            api_key_env: self.api_key_env,
            headers: self.headers.unwrap_or_default(),
            ca_file: self.ca_file,
            timeout_seconds: self.timeout.map_or(TIMEOUT, |Duration(seconds)| seconds),
            extra_body: self.extra_body.unwrap_or_default(),
        })
    }
}

/// The preset of this name, or the default one.
///
/// # Errors
/// When there is none of this name; says which there are.
pub fn choose_preset(name: Option<&str>) -> Result<&'static Preset, RecipeError> {
    let Some(name) = name else { return Ok(&presets::SMALL) };
    presets::find(name).ok_or_else(|| {
        let names = || presets::ALL.iter().map(|preset| preset.name);
        let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        RecipeError::new(format!("the simulated engine has no preset `{name}`")).hint(
            match closest(name, names()) {
                Some(name) => format!("did you mean `{name}`? (there are {list})"),
                None => format!("there are {list}"),
            },
        )
    })
}

/// Refuses requests that the simulated engine would refuse one by one.
fn check_context(preset: &Preset, workload: &WorkloadPlan) -> Result<(), RecipeError> {
    let (prompt, output) = workload.longest();
    if u64::from(prompt) + u64::from(output) <= u64::from(preset.max_model_len) {
        return Ok(());
    }
    Err(RecipeError::new(format!(
        "prompts of up to {prompt} and outputs of up to {output} tokens do not fit the context of {} tokens of the \
         simulated engine's preset `{}`",
        preset.max_model_len, preset.name
    ))
    .hint("lower `--isl` or `--osl` (their `max`), or take a preset with a longer context (`--simulated`)"))
}

/// The strategy with its settings, and the range that its loads stay in.
fn resolve_search(section: StrategySection, concurrency: Option<Bounds>) -> (StrategyPlan, LoadRange) {
    let bounds = concurrency.unwrap_or(CONCURRENCY);
    let range = LoadRange { min: bounds.min, max: bounds.max };
    let precision = |default: f64| section.precision.map_or(default, |Precision(share)| share);
    let kind = match (section.kind, &section.levels) {
        (Some(kind), _) => kind,
        (None, Some(_)) => StrategyName::Grid,
        (None, None) => StrategyName::Adaptive,
    };
    match kind {
        StrategyName::Adaptive => {
            (StrategyPlan::Adaptive { precision: precision(ADAPTIVE_PRECISION) }, range)
        }
        StrategyName::Bisect => (StrategyPlan::Bisect { precision: precision(BISECT_PRECISION) }, range),
        StrategyName::Grid => {
            let mut levels: Vec<u32> = match (section.levels, concurrency) {
                (Some(levels), _) => levels.into_iter().map(|Count(level)| level).collect(),
                (None, Some(bounds)) => log_spaced(bounds, GRID_LEVELS.len()),
                (None, None) => GRID_LEVELS.to_vec(),
            };
            levels.sort_unstable();
            levels.dedup();
            let range = match (concurrency, levels.first(), levels.last()) {
                (None, Some(&min), Some(&max)) => LoadRange { min, max },
                _ => range,
            };
            (StrategyPlan::Grid { levels, warm: false }, range)
        }
    }
}

/// The open loop that is asked for, if one is. A grid's levels become rates.
fn resolve_arrivals(
    section: &LoadSection,
    moving: Option<Moving>,
    strategy: &mut StrategyPlan,
    purpose: Purpose,
) -> Result<Option<ArrivalsPlan>, RecipeError> {
    let rates = moving.as_ref().map(|moving| moving.rates).or(section.rate);
    let Some(Rates { min, max }) = rates else { return Ok(None) };
    let rate_of =
        |level: u32| moving.as_ref().map_or(f64::from(level), |moving| moving.rate_of(level.into()));
    let levels = match strategy {
        StrategyPlan::Grid { levels, .. } if purpose == Purpose::Search => {
            let rates: Vec<f64> = levels.iter().map(|&level| rate_of(level)).collect();
            levels.clear();
            rates.into_iter().filter(|rate| (min..=max).contains(rate)).collect()
        }
        StrategyPlan::Grid { levels, .. } => {
            levels.clear();
            vec![min]
        }
        _ => Vec::new(),
    };
    if purpose == Purpose::Search && min == max {
        return Err(RecipeError::new(format!(
            "`load.rate` (`--rate`) is the one rate {min}, and a search needs a range"
        ))
        .hint(format!(
            "for example `--rate {}..{}`, or measure that rate alone with `plimsoll measure --rate {min}`",
            min / 10.0,
            min * 10.0
        )));
    }
    if max / min > WIDEST_RATES {
        return Err(RecipeError::new(format!(
            "the rates {min}..{max} (`load.rate`, `--rate`) span more than a factor of {WIDEST_RATES}"
        ))
        .hint("narrow the range"));
    }
    Ok(Some(ArrivalsPlan {
        min,
        max,
        process: section.arrivals.map(|name| name.0).unwrap_or_default(),
        in_flight_cap: section.in_flight_cap.map_or(IN_FLIGHT_CAP, |Count(cap)| cap),
        levels,
        curve: moving.map(|moving| moving.curve),
    }))
}

/// `count` whole numbers evenly spaced on the log scale, both ends among them.
pub(super) fn log_spaced(bounds: Bounds, count: usize) -> Vec<u32> {
    let (low, high) = (f64::from(bounds.min), f64::from(bounds.max));
    let step = |index: usize| index as f64 / (count - 1) as f64;
    (0..count).map(|index| (low * (high / low).powf(step(index))).round() as u32).collect()
}

/// A bound that is given moves the default of the other one out of its way.
fn resolve_trial(requests: Option<Count>, min: Option<Duration>, max: Option<Duration>) -> TrialPlan {
    let (default_min, default_max) = TRIAL_SECONDS;
    let (min, max) = (min.map(|Duration(seconds)| seconds), max.map(|Duration(seconds)| seconds));
    TrialPlan {
        requests: requests.map_or(TRIAL_REQUESTS, |Count(requests)| requests),
        min_seconds: min.unwrap_or_else(|| default_min.min(max.unwrap_or(default_max))),
        max_seconds: max.unwrap_or_else(|| default_max.max(min.unwrap_or(default_min))),
    }
}

/// A name that every file system takes.
fn folder_name(name: Option<&str>, target: &TargetPlan) -> String {
    let name = match (name, target) {
        (Some(name), _) => name,
        (None, TargetPlan::Simulated(simulated)) => &simulated.preset,
        (None, TargetPlan::Endpoint(_)) => "endpoint",
    };
    name.chars().map(|c| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::recipe::ready::READY;

    fn plan(text: &str) -> Plan {
        let recipe = Recipe::from_toml(text, "test.toml").unwrap();
        recipe.into_plan(None, Purpose::Search).unwrap()
    }

    fn problem(text: &str) -> String {
        let recipe = Recipe::from_toml(text, "test.toml").unwrap();
        let error = recipe.into_plan(None, Purpose::Search).unwrap_err();
        format!("{}; {}", error.message, error.hint.unwrap_or_default())
    }

    #[test]
    fn an_empty_recipe_searches_the_default_preset_under_its_own_slo() {
        let plan = plan("");
        assert_eq!(
            plan.target,
            TargetPlan::Simulated(SimulatedPlan { preset: "small".to_owned(), speed: 1.0 })
        );
        assert_eq!(plan.slo, Slo::parse(presets::SMALL.slo.iter().copied()).unwrap());
        assert_eq!(plan.workload.isl, presets::SMALL.isl);
        assert_eq!(plan.load, LoadRange { min: 1, max: 1024 });
        assert_eq!(plan.strategy, StrategyPlan::Adaptive { precision: ADAPTIVE_PRECISION });
        assert_eq!(plan.name, "small");
    }

    #[test]
    fn an_endpoint_needs_an_slo_to_search_but_none_to_measure() {
        let text = "[target]\nurl = 'http://127.0.0.1:1'";
        assert!(problem(text).contains("no SLO is given"));
        let recipe = Recipe::from_toml(text, "test.toml").unwrap();
        let plan = recipe.into_plan(None, Purpose::Measure).unwrap();
        assert_eq!(plan.slo, Slo::none());
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&plan).unwrap()).unwrap(), plan);
    }

    #[test]
    fn fields_of_an_endpoint_without_a_url_are_refused() {
        assert!(problem("[target]\nmodel = 'm'").starts_with("`target.model` is given, but no `target.url`"));
        assert!(
            problem("slo=['e2e p95<1s']\n[target]\nurl='http://a'\nspeed = 2").contains("`target.speed`")
        );
        assert!(problem("[target]\nsimulated = 'smal'").contains("did you mean `small`?"));
    }

    #[test]
    fn lengths_beyond_the_simulated_context_are_refused() {
        let problem = problem("[workload]\nisl = 4000\nosl = 97");
        assert!(problem.contains("context of 4096 tokens"), "{problem}");
        assert_eq!(plan("[workload]\nisl = 4000\nosl = 96").workload.isl, Lengths::Fixed { tokens: 4000 });
    }

    #[test]
    fn a_grid_without_levels_takes_the_log_spaced_ones() {
        let levels = |text: &str| match plan(text) {
            Plan { strategy: StrategyPlan::Grid { levels, .. }, load, .. } => (levels, load.min, load.max),
            other => panic!("{:?}", other.strategy),
        };
        let kind = "[strategy]\nkind = 'grid'";
        assert_eq!(levels(kind), (GRID_LEVELS.to_vec(), 1, 1000));
        assert_eq!(
            levels(&format!("[load]\nconcurrency='1..1000'\n{kind}")),
            (GRID_LEVELS.to_vec(), 1, 1000)
        );
        assert_eq!(levels(&format!("[load]\nconcurrency='2..4'\n{kind}")), (vec![2, 3, 4], 2, 4));
        assert_eq!(levels("[strategy]\nlevels = [9, 3, 9]"), (vec![3, 9], 3, 9));
    }

    #[test]
    fn a_rate_makes_an_open_loop_whose_cap_bounds_the_connections() {
        let plan = plan("[load]\nrate = '0.5..200'\narrivals = 'gamma(0.25)'\nin_flight_cap = 100");
        let arrivals = plan.arrivals.clone().unwrap();
        assert_eq!((arrivals.min, arrivals.max, arrivals.in_flight_cap), (0.5, 200.0, 100));
        assert_eq!(arrivals.process, crate::workload::ArrivalProcess::Gamma { shape: 0.25 });
        assert_eq!(plan.load, LoadRange { min: 1, max: 100 });
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&plan).unwrap()).unwrap(), plan);
        assert!(problem("[load]\nrate = 20").contains("plimsoll measure --rate 20"));
        assert!(problem("[load]\nrate = '0.001..1000'").contains("span more than"));
    }

    #[test]
    fn one_bound_of_a_trial_moves_the_default_of_the_other() {
        let seconds = |text: &str| (plan(text).trial.min_seconds, plan(text).trial.max_seconds);
        assert_eq!(seconds("[trial]\nmin_duration = '5m'"), (300.0, 300.0));
        assert_eq!(seconds("[trial]\nmax_duration = '500ms'"), (0.5, 0.5));
        assert_eq!(seconds(""), TRIAL_SECONDS);
    }

    #[test]
    fn a_recipes_name_is_made_fit_for_a_folder() {
        let plan = Recipe::default().into_plan(Some("my search/1"), Purpose::Search).unwrap();
        assert_eq!(plan.name, "my-search-1");
    }

    #[test]
    fn a_plan_survives_its_file() {
        let text = "seed = 3\nslo = ['ttft p95 < 500ms', 'errors < 1%']\n[budget]\nduration = '20m'\n[target]\n\
                    url = 'http://127.0.0.1:8000'\nextra_body = { temperature = 0.5, stop = ['a'] }\n\
                    headers = { a = 'b' }\n[workload]\nisl = 100\nosl = 'lognormal(mean=50,cv=0.5)'";
        let plan = plan(text);
        let file = toml::to_string(&plan).unwrap();
        assert_eq!(toml::from_str::<Plan>(&file).unwrap(), plan, "{file}");
    }

    #[test]
    fn every_ready_recipe_makes_a_plan() {
        for ready in READY {
            let recipe = Recipe::from_toml(ready.text, ready.name).unwrap();
            assert!(recipe.description.is_some(), "{}", ready.name);
            if let Err(error) = recipe.into_plan(Some(ready.name), Purpose::Search) {
                panic!("{}: {error}", ready.name);
            }
        }
    }
}
