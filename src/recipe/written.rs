//! The recipe as written, and how it is read.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choice::{ApiName, ArrivalsName, EngineName, StrategyName, Tokenizer};
use super::engine::EngineSection;
use super::error::{RecipeError, closest};
use super::lengths::TokenLengths;
use super::locate;
use super::moving::UsersRamp;
use super::profile::ProfileSection;
use super::quantity::{Bounds, Count, Duration, Precision, Rates, Speed};
use super::ready::{READY, ReadyRecipe};
use super::traffic::{ClassSection, FormatName, Pool, Ramp, ReplaySection};
use super::users::{ThinkTime, TurnCount};
use crate::plan::{GpuChoice, Lengths, TokenizerPlan};
use crate::search::tuner::Design;
use crate::slo::Slo;
use crate::space::{KnobSection, Setting};

/// A search as written in TOML. What is left out takes its default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "plimsoll recipe")]
pub struct Recipe {
    /// What the recipe is for, in a line.
    pub description: Option<String>,
    /// Seed of every random stream: same recipe and seed, same requests in the same order.
    pub seed: Option<u64>,
    /// The objectives, each `<metric> <stat> <op> <value><unit>`: `ttft p95 < 500ms`.
    pub slo: Option<Slo>,
    /// The server under test; the simulated engine if left out.
    pub target: TargetSection,
    /// The loads that may be tried.
    pub load: LoadSection,
    /// What is sent.
    pub workload: WorkloadSection,
    /// How to search.
    pub strategy: StrategySection,
    /// Size of the trials.
    pub trial: TrialSection,
    /// What the search may cost.
    pub budget: BudgetSection,
    /// The engine to launch for the run; its endpoint is what is measured.
    pub engine: EngineSection,
    /// What is looked at beside the requests.
    pub telemetry: TelemetrySection,
    /// The engine's knobs that `plimsoll tune` may turn, by name.
    pub knobs: BTreeMap<String, KnobSection>,
    /// How the knobs are searched.
    pub tune: TuneSection,
    /// What `plimsoll profile` measures.
    pub profile: ProfileSection,
}

/// The server under test: a live endpoint (`url`) or the simulated engine (`simulated`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TargetSection {
    /// Base URL of an endpoint that speaks the OpenAI API, with or without `/v1`.
    pub url: Option<String>,
    /// Preset of the simulated engine to start instead.
    pub simulated: Option<String>,
    /// Seconds of the simulated engine's time that pass in a second.
    pub speed: Option<Speed>,
    /// Which call is measured: `chat` (the default) or `completions`.
    pub api: Option<ApiName>,
    /// The model; found by `GET /v1/models` if left out.
    pub model: Option<String>,
    /// Whether responses are streamed (the default); only streams show TTFT and ITL.
    pub streaming: Option<bool>,
    /// The kind of server; found out if left out.
    pub engine: Option<EngineName>,
    /// Environment variable that holds the API key.
    pub api_key_env: Option<String>,
    /// Further headers of each request.
    pub headers: Option<BTreeMap<String, String>>,
    /// PEM file with the certificate authority to trust instead of the built-in ones; a relative
    /// path starts at the recipe's folder.
    pub ca_file: Option<String>,
    /// Longest a request may take; 10 minutes if left out.
    pub timeout: Option<Duration>,
    /// Fields added to the body of each request.
    pub extra_body: Option<BTreeMap<String, serde_json::Value>>,
}

/// The loads that may be tried; nothing outside is ever sent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoadSection {
    /// Fewest and most requests in flight; `1..1024` if left out.
    pub concurrency: Option<Bounds>,
    /// Open loop instead: lowest and highest rate of arrivals, requests a second.
    pub rate: Option<Rates>,
    /// Open loop: how arrivals are spaced; `poisson` if left out.
    pub arrivals: Option<ArrivalsName>,
    /// Open loop: most requests in flight at once; an arrival beyond waits, and its waiting counts in
    /// its latency. 4096 if left out.
    pub in_flight_cap: Option<Count>,
    /// Open loop at a rate that moves: a CSV `seconds,rate`; a relative path starts at the recipe's folder.
    pub series: Option<String>,
    /// Open loop at a rate that rises or falls: `linear(1..50 in 60s)`, `exponential(1..50 in 60s)`.
    pub ramp: Option<Ramp>,
    /// Closed loop whose users join or leave one by one: `linear(1..64 in 60s)`, `exponential(1..64 in 60s)`.
    pub ramp_users: Option<UsersRamp>,
    /// Open loop at the timestamps of `workload.dataset`.
    pub replay: Option<ReplaySection>,
    /// How long a user pauses after each answer: `2s`, `exponential(2s)`, `lognormal(mean=5s, cv=1)`; not at
    /// all if left out. The load is a number of users then, not of requests in flight.
    pub think: Option<ThinkTime>,
}

/// What is sent: synthetic prompts, each of them unique, or the requests of a file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSection {
    /// Prompt lengths (input sequence length), tokens.
    pub isl: Option<TokenLengths>,
    /// Output lengths (output sequence length), tokens.
    pub osl: Option<TokenLengths>,
    /// How prompt tokens are counted; `auto` if left out. A relative path starts at the recipe's
    /// folder.
    pub tokenizer: Option<Tokenizer>,
    /// Kinds of requests whose prompt and output lengths are drawn together, instead of `isl` and `osl`.
    pub classes: Option<Vec<ClassSection>>,
    /// File whose entries are the requests; a relative path starts at the recipe's folder.
    pub dataset: Option<String>,
    /// What it holds; found out if left out.
    pub dataset_format: Option<FormatName>,
    /// Whether one malformed entry of it is reason to refuse it; they are counted and left out otherwise.
    pub strict: Option<bool>,
    /// Tokens that all prompts begin with, before those of `isl`.
    pub shared_prefix: Option<Count>,
    /// Prefixes of which each prompt has one, before the tokens of `isl`: `20x1024`, `20x1024@80%`.
    pub prefix_pool: Option<Pool>,
    /// Turns of a conversation, each sent with all that was said before: `5`, `uniform(2..8)`; `all` for
    /// those of the dataset. `isl` is the length of each message then, `osl` that of each answer.
    pub turns: Option<TurnCount>,
    /// Tokens that a conversation may reach; it ends before a turn that would exceed it. The server's own
    /// limit if left out.
    pub max_context: Option<Count>,
}

/// How to search.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StrategySection {
    /// `adaptive` (the default), `bisect` or `grid`.
    pub kind: Option<StrategyName>,
    /// Relative width at which the search may stop: of the interval (`adaptive`, 20% if left out)
    /// or of the bracket (`bisect`, 5% if left out).
    pub precision: Option<Precision>,
    /// The levels of `grid`; eight evenly spaced on the log scale if left out.
    pub levels: Option<Vec<Count>>,
    /// Whole searches with fresh seeds, put together to one answer that holds the spread from run to
    /// run; an engine of `[engine]` is launched anew for each. 1 if left out.
    pub repeats: Option<Count>,
}

/// Size of the trials that measure; those that only find the way end as soon as they are clear.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrialSection {
    /// Completions to count, at least two for each user; 250 if left out.
    pub requests: Option<Count>,
    /// Shortest measured window; 1 second if left out.
    pub min_duration: Option<Duration>,
    /// Longest measured window; 2 minutes if left out.
    pub max_duration: Option<Duration>,
}

/// What the search may cost: hard bounds. The best answer within them is given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSection {
    /// Longest the search may take; no bound if left out.
    pub duration: Option<Duration>,
    /// Most requests it may send; no bound if left out.
    pub requests: Option<Count>,
}

/// What is looked at beside the requests. The server's metrics and this machine always are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySection {
    /// Whether the GPUs of this machine are read: `auto` (the default: where the endpoint is on this
    /// machine and a driver is there), `required` or `off`.
    pub gpu: Option<GpuChoice>,
    /// URL of a DCGM exporter that tells of the server's GPUs instead.
    pub dcgm: Option<String>,
}

/// How `plimsoll tune` searches the knobs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TuneSection {
    /// Conditions that every setting keeps: `max_num_batched_tokens >= max_num_seqs`.
    pub constraints: Vec<String>,
    /// The only settings to try, beside the default: `[{ max_num_seqs = 64 }, ..]`. Knobs that are left
    /// out are at their defaults.
    pub settings: Vec<Setting>,
    /// What is best: `goodput` (the default), `concurrency`, or `cost` (the least for a request).
    pub objective: Option<TuneObjective>,
    /// What a setting costs, from its knobs, in any unit: `tensor_parallel_size * data_parallel_size`.
    pub cost: Option<String>,
    /// `bayes` (the default), `sobol`, `lhs`, `random`, `grid` or `zip`.
    pub design: Option<Design>,
    /// Most settings that are tried before the confirmation; 20 if left out.
    pub launches: Option<Count>,
    /// Longest that all may take; no bound if left out.
    pub budget: Option<Duration>,
    /// Times that best and default are measured again at the end, in turns; 3 if left out, 0 for
    /// none.
    pub confirmations: Option<u32>,
}

/// What is best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TuneObjective {
    /// The most requests a second within the SLO.
    #[default]
    Goodput,
    /// The most concurrent requests within the SLO.
    Concurrency,
    /// The least cost for a request within the SLO.
    Cost,
}

/// A recipe with the name of its run folders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Name of the ready recipe, or of the file without its ending.
    pub name: String,
    /// The recipe.
    pub recipe: Recipe,
}

impl Loaded {
    /// Reads a ready recipe by name, or a file by path (anything that holds a `/` or ends in
    /// `.toml`, or that is there).
    ///
    /// # Errors
    /// When there is no such recipe, or what is there cannot be used.
    pub fn open(name_or_path: &str) -> Result<Self, RecipeError> {
        if let Some(ready) = ReadyRecipe::find(name_or_path) {
            return Ok(Self {
                name: ready.name.to_owned(),
                recipe: Recipe::from_toml(ready.text, ready.name)?,
            });
        }
        let path = Path::new(name_or_path);
        let is_path = name_or_path.contains(['/', '\\']) || path.extension().is_some_and(|ext| ext == "toml");
        if !is_path && !path.is_file() {
            let names = READY.iter().map(|ready| ready.name);
            return Err(RecipeError::new(format!("no recipe is called `{name_or_path}`"))
                .hint(match closest(name_or_path, names) {
                Some(name) => format!("did you mean `{name}`? `plimsoll recipes list` shows all"),
                None => {
                    "`plimsoll recipes list` shows the ready ones; a file of your own is given by its path, \
                             such as `./my.toml`"
                        .to_owned()
                }
            }));
        }
        Self::from_file(path)
    }

    /// Reads a file. Relative paths within it start at its folder.
    ///
    /// # Errors
    /// When the file cannot be read or used.
    pub fn from_file(path: &Path) -> Result<Self, RecipeError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| RecipeError::new(format!("cannot read recipe `{shown}`: {error}")))?;
        let mut recipe = Recipe::from_toml(&text, &shown)?;
        if let Some(folder) = path.parent() {
            recipe.rebase(folder);
        }
        let name =
            path.file_stem().map_or_else(|| "recipe".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Ok(Self { name, recipe })
    }
}

impl Recipe {
    /// Reads a recipe; `origin` is the name of its file in error messages.
    ///
    /// # Errors
    /// Names the file, the line and the field, what was seen and the mend.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, RecipeError> {
        let recipe: Self = toml::from_str(text).map_err(|error| locate::explain(error, text, origin))?;
        recipe.check().map_err(|error| error.within(origin))?;
        Ok(recipe)
    }

    /// This recipe with everything that `flags` says in place of what it says itself. A target named
    /// in `flags` replaces the recipe's: the simulated engine has no use for an endpoint's fields.
    #[must_use]
    pub fn changed_by(mut self, flags: Self) -> Self {
        if flags.target.simulated.is_some() {
            self.target = TargetSection { speed: self.target.speed, ..TargetSection::default() };
            self.engine = EngineSection::default();
        } else if flags.target.url.is_some() {
            self.target = TargetSection { simulated: None, speed: None, ..self.target };
            // A server that is named is there already.
            self.engine = EngineSection::default();
        }
        self.engine.change_by(flags.engine);
        // A way to search named in the flags has no use for another one's settings.
        let kind = flags.strategy.kind.or(flags.strategy.levels.is_some().then_some(StrategyName::Grid));
        if kind.is_some() && kind != self.strategy.kind {
            let repeats = self.strategy.repeats.filter(|_| kind != Some(StrategyName::Grid));
            self.strategy = StrategySection { kind, repeats, ..StrategySection::default() };
        }
        // So has one kind of load no use for the other's range.
        let moves = flags.load.moves();
        if flags.load.is_open() {
            self.load = LoadSection {
                arrivals: self.load.arrivals,
                in_flight_cap: self.load.in_flight_cap,
                rate: self.load.rate.filter(|_| !moves),
                think: self.load.think,
                ..LoadSection::default()
            };
        } else if flags.load.concurrency.is_some() {
            self.load = LoadSection { think: self.load.think, ..LoadSection::default() };
        }
        self.workload.make_way_for(&flags.workload);
        /// Takes the fields that the flags give.
        macro_rules! take {
            ($($($part:ident).+),+ $(,)?) => {
                $(if flags.$($part).+.is_some() { self.$($part).+ = flags.$($part).+; })+
            };
        }
        if let Some(headers) = flags.target.headers {
            // Headers add up; of the same name the flag's wins.
            self.target.headers.get_or_insert_default().extend(headers);
        }
        take!(
            description,
            seed,
            slo,
            target.url,
            target.simulated,
            target.speed,
            target.api,
            target.model,
            target.streaming,
            target.engine,
            target.api_key_env,
            target.ca_file,
            target.timeout,
            target.extra_body,
            load.concurrency,
            load.rate,
            load.arrivals,
            load.in_flight_cap,
            load.series,
            load.ramp,
            load.ramp_users,
            load.replay,
            load.think,
            workload.isl,
            workload.osl,
            workload.tokenizer,
            workload.classes,
            workload.dataset,
            workload.dataset_format,
            workload.strict,
            workload.shared_prefix,
            workload.prefix_pool,
            workload.turns,
            workload.max_context,
            strategy.kind,
            strategy.precision,
            strategy.levels,
            strategy.repeats,
            trial.requests,
            trial.min_duration,
            trial.max_duration,
            budget.duration,
            budget.requests,
            telemetry.gpu,
            telemetry.dcgm,
            tune.objective,
            tune.cost,
            tune.design,
            tune.launches,
            tune.budget,
            tune.confirmations,
            profile.kind,
            profile.isl,
            profile.osl,
            profile.concurrency,
            profile.gpus,
        );
        if !flags.tune.constraints.is_empty() {
            self.tune.constraints = flags.tune.constraints;
        }
        // A knob of the flags replaces the recipe's of the same name.
        self.knobs.extend(flags.knobs);
        self
    }

    /// Lets relative paths start at `folder`.
    fn rebase(&mut self, folder: &Path) {
        let rebased = |path: &str| folder.join(path).to_string_lossy().into_owned();
        if let Some(path) = &mut self.target.ca_file {
            *path = rebased(path);
        }
        if let Some(Tokenizer(TokenizerPlan::File { path })) = &mut self.workload.tokenizer {
            *path = rebased(path);
        }
        if let Some(path) = &mut self.engine.folder {
            *path = rebased(path);
        }
        for path in [&mut self.workload.dataset, &mut self.load.series].into_iter().flatten() {
            *path = rebased(path);
        }
        let classes = self.workload.classes.iter_mut().flatten();
        let lengths = classes.flat_map(|class| [&mut class.isl, &mut class.osl]);
        for lengths in lengths.chain(&mut self.workload.isl).chain(&mut self.workload.osl) {
            for unread in lengths.0.unread() {
                if let Lengths::Empirical { file, .. } = unread {
                    *file = rebased(file);
                }
            }
        }
    }

    /// The JSON schema of a recipe, for editors.
    pub fn json_schema() -> schemars::Schema {
        schemars::schema_for!(Recipe)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn recipe(text: &str) -> Recipe {
        Recipe::from_toml(text, "test.toml").unwrap()
    }

    #[test]
    fn flags_win_over_the_recipe_field_by_field() {
        let written =
            recipe("seed = 1\n[load]\nconcurrency = '1..8'\n[target]\nheaders = { a = '1', b = '2' }");
        let flags = recipe("seed = 2\n[target]\nheaders = { b = '3' }");
        let both = written.changed_by(flags);
        assert_eq!(both.seed, Some(2));
        assert_eq!(both.load.concurrency, Some(Bounds { min: 1, max: 8 }));
        let headers: Vec<_> = both.target.headers.unwrap().into_iter().collect();
        assert_eq!(headers, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "3".to_owned())]);
    }

    #[test]
    fn a_target_named_by_a_flag_replaces_the_recipes() {
        let endpoint = "[target]\nurl = 'http://127.0.0.1:1'\nmodel = 'm'";
        let simulated = "[target]\nsimulated = 'small'";
        let both = recipe(endpoint).changed_by(recipe(simulated));
        assert_eq!(both.target, recipe(simulated).target);
        let both = recipe(simulated).changed_by(recipe(endpoint));
        assert_eq!(both.target, recipe(endpoint).target);
    }

    #[test]
    fn a_strategy_named_by_a_flag_drops_the_settings_of_the_recipes() {
        let bisect = recipe("[strategy]\nkind = 'bisect'\nprecision = '3%'");
        let both = bisect.clone().changed_by(recipe("[strategy]\nlevels = [1, 2]"));
        assert_eq!(both.strategy, recipe("[strategy]\nkind = 'grid'\nlevels = [1, 2]").strategy);
        let both = bisect.changed_by(recipe("[strategy]\nkind = 'bisect'"));
        assert_eq!(both.strategy.precision, Some(Precision(0.03)));
    }

    #[test]
    fn relative_paths_start_at_the_recipes_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, "[workload]\ntokenizer = 'model/tokenizer.json'\n[target]\nca_file = '/etc/ca.pem'\nurl='http://a'").unwrap();
        let loaded = Loaded::open(path.to_str().unwrap()).unwrap();
        assert_eq!(loaded.name, "mine");
        let expected = folder.path().join("model/tokenizer.json").to_string_lossy().into_owned();
        assert_eq!(loaded.recipe.workload.tokenizer, Some(Tokenizer(TokenizerPlan::File { path: expected })));
        assert_eq!(loaded.recipe.target.ca_file.as_deref(), Some("/etc/ca.pem"));
    }

    #[test]
    fn an_unknown_recipe_is_answered_with_the_likely_one() {
        let error = Loaded::open("simulate").unwrap_err();
        assert_eq!(error.message, "no recipe is called `simulate`");
        assert!(error.hint.unwrap().starts_with("did you mean `simulated`?"));
        let error = Loaded::open("./nowhere.toml").unwrap_err();
        assert!(error.message.starts_with("cannot read recipe `./nowhere.toml`: "), "{error}");
    }
}
