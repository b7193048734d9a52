//! Traffic that is more than two distributions and a rate: kinds of requests, files of requests, shared
//! prefixes, rates that move.

use std::path::Path;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use super::choice::{DATASET_FORMATS, Tokenizer};
use super::error::RecipeError;
use super::lengths::{TokenLengths, weight_of};
use super::moving::{Moving, Speeds};
use super::quantity::{Count, Duration, QuantityError, Rates, Share, written_as_text, wrong};
use super::users::{self, ThinkTime};
use super::written::{LoadSection, WorkloadSection};
use crate::plan::{
    ClassPlan, CurvePlan, DatasetFormat, Lengths, PartPlan, PoolPlan, PrefixPlan, SourcePlan, WindowPlan,
    WorkloadPlan,
};
use crate::workload::RateCurve;
use crate::workload::dataset::Dataset;

/// A kind of request: `{ weight = 0.8, isl = "uniform(20..200)", osl = 100 }`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassSection {
    /// How many of the requests are of this kind, relative to the other classes.
    pub weight: f64,
    /// Prompt lengths, tokens.
    pub isl: TokenLengths,
    /// Output lengths, tokens.
    pub osl: TokenLengths,
}

impl FromStr for ClassSection {
    type Err = QuantityError;

    /// `0.8: isl=uniform(20..200) osl=100`
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parts = text.split_once(':').and_then(|(weight, rest)| {
            let rest = rest.trim().strip_prefix("isl=")?;
            Some((weight, rest.rsplit_once("osl=")?))
        });
        let Some((weight, (isl, osl))) = parts else {
            return wrong(format!(
                "`{text}` is not a kind of request; write `0.8: isl=uniform(20..200) osl=100`"
            ));
        };
        let isl = isl.trim().trim_end_matches([',', ';']);
        Ok(Self { weight: weight_of(weight)?, isl: isl.parse()?, osl: osl.parse()? })
    }
}

/// [`PoolPlan`] as written: `20x1024`, or `20x1024@80%` with the share of prompts that hit it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool(pub PoolPlan);

impl FromStr for Pool {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let example =
            "write `20x1024` (prefixes x tokens), or `20x1024@80%` with the share of prompts that hit it";
        let (size, hit_rate) = match text.split_once('@') {
            Some((size, share)) => (size, share.trim().parse::<Share>()?.0),
            None => (text, 1.0),
        };
        let Some((count, tokens)) = size.split_once(['x', 'X']) else {
            return wrong(format!("`{text}` is not a pool of prefixes; {example}"));
        };
        let (Count(count), Count(tokens)) = (count.trim().parse()?, tokens.trim().parse()?);
        Ok(Self(PoolPlan { count, tokens, hit_rate }))
    }
}

/// [`WindowPlan`] as written: `0s..600s`, or `600s..` to the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window(pub WindowPlan);

impl FromStr for Window {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let Some((from, to)) = text.split_once("..") else {
            return wrong(format!("`{text}` is not a window; write `0s..600s`, or `600s..` to the end"));
        };
        let instant = |text: &str| match text.trim() {
            "" | "0" | "0s" => Ok(0.0),
            text => text.parse::<Duration>().map(|Duration(seconds)| seconds),
        };
        let from = instant(from)?;
        let to = if to.trim().is_empty() { None } else { Some(instant(to)?) };
        if to.is_some_and(|to| to <= from) {
            return wrong(format!("the window `{text}` ends before it begins"));
        }
        Ok(Self(WindowPlan { from, to }))
    }
}

/// A rate that rises or falls: `linear(1..50 in 60s)` or `exponential(1..50 in 60s)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp(pub RateCurve);

impl FromStr for Ramp {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let unread = || {
            wrong(format!(
                "`{text}` is not a ramp; write `linear(1..50 in 60s)` or `exponential(1..50 in 60s)`"
            ))
        };
        let parts = text.trim().split_once('(').and_then(|(kind, rest)| {
            let (rates, seconds) = rest.strip_suffix(')')?.split_once(" in ")?;
            let (from, to) = rates.split_once("..")?;
            Some((kind.trim(), from, to, seconds))
        });
        let Some((kind, from, to, seconds)) = parts else { return unread() };
        let rate = |text: &str| text.trim().parse::<Rates>().map(|rates| rates.min);
        let (from, to, Duration(seconds)) = (rate(from)?, rate(to)?, seconds.trim().parse()?);
        match kind {
            "linear" => Ok(Self(RateCurve::Linear(vec![(0.0, from), (seconds, to)]))),
            "exponential" => Ok(Self(RateCurve::Exponential { from, to, seconds })),
            _ => unread(),
        }
    }
}

written_as_text! {
    Pool: { "description": "Prefixes x tokens, and the share of prompts that hit one.", "type": "string",
            "examples": ["20x1024", "20x1024@80%"] },
    Window: { "description": "A part of a trace.", "type": "string", "examples": ["0s..600s", "10m.."] },
    Ramp: { "description": "A rate that rises or falls, requests a second.", "type": "string",
            "examples": ["linear(1..50 in 60s)", "exponential(1..50 in 60s)"] },
}

impl WorkloadSection {
    /// Lets go of what the flags say in another way: lengths, classes and a file exclude each other.
    pub(super) fn make_way_for(&mut self, flags: &Self) {
        if flags.dataset.is_some() {
            (self.isl, self.classes, self.dataset_format, self.strict) = (None, None, None, None);
            (self.shared_prefix, self.prefix_pool) = (None, None);
        } else if flags.classes.is_some() {
            (self.isl, self.osl) = (None, None);
            (self.dataset, self.dataset_format, self.strict) = (None, None, None);
        } else if flags.isl.is_some() {
            (self.classes, self.dataset, self.dataset_format, self.strict) = (None, None, None, None);
        }
    }
}

impl LoadSection {
    /// Whether an open loop is asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.rate.is_some() || self.moves()
    }

    /// Whether its rate moves.
    pub(super) fn moves(&self) -> bool {
        self.series.is_some() || self.ramp.is_some() || self.replay.is_some()
    }
}

/// A file's timestamps as the arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplaySection {
    /// How many times faster than they were taken; 1 if left out. A search takes a range: `0.5..10`.
    pub speed_up: Option<Speeds>,
    /// The part that is replayed; all of it if left out.
    pub window: Option<Window>,
}

/// What is sent.
pub(super) fn resolve_workload(
    section: WorkloadSection,
    load: &LoadSection,
    defaults: (Lengths, Lengths),
) -> Result<WorkloadPlan, RecipeError> {
    let replay = load.replay;
    check(&section, replay.is_some())?;
    let tokenizer = section.tokenizer.map(|Tokenizer(plan)| plan).unwrap_or_default();
    let prefixes = PrefixPlan {
        shared_tokens: section.shared_prefix.map_or(0, |Count(tokens)| tokens),
        pool: section.prefix_pool.map(|Pool(pool)| pool),
    };
    let classes: Vec<ClassPlan> = section
        .classes
        .unwrap_or_default()
        .into_iter()
        .map(|ClassSection { weight, isl, osl }| {
            Ok(ClassPlan { weight, isl: read(isl.0, Role::Isl)?, osl: read(osl.0, Role::Osl)? })
        })
        .collect::<Result<_, RecipeError>>()?;
    let mut osl = read(section.osl.map_or(defaults.1, |lengths| lengths.0), Role::Osl)?;
    let mut isl = read(section.isl.map_or(defaults.0, |lengths| lengths.0), Role::Isl)?;
    if !classes.is_empty() {
        let marginal = |lengths: fn(&ClassPlan) -> &Lengths| Lengths::Mixture {
            parts: classes
                .iter()
                .map(|class| PartPlan { weight: class.weight, lengths: lengths(class).clone() })
                .collect(),
        };
        (isl, osl) = (marginal(|class| &class.isl), marginal(|class| &class.osl));
    }
    let (mut source, mut recorded) = (None, None);
    if let Some(path) = section.dataset {
        let window = replay.map(|replay| replay.window.map_or(WindowPlan::default(), |window| window.0));
        let format = match section.dataset_format {
            Some(FormatName(Some(format))) => format,
            Some(FormatName(None)) | None => Dataset::scan(&path, None).map_err(unusable)?.format(),
        };
        let plan = SourcePlan {
            path,
            format,
            strict: section.strict.unwrap_or(false),
            osl: osl.clone(),
            conversations: section.turns.is_some(),
            window,
        };
        users::check_source(&plan)?;
        let dataset = Dataset::open(&plan).map_err(unusable)?;
        isl = dataset.isl();
        let told = dataset.findings().with_osl as f64;
        let untold = dataset.findings().isl.values().sum::<u64>() as f64 - told;
        osl = match dataset.osl() {
            Some(lengths) if untold == 0.0 => lengths,
            Some(lengths) => Lengths::Mixture {
                parts: vec![PartPlan { weight: told, lengths }, PartPlan { weight: untold, lengths: osl }],
            },
            None => osl,
        };
        source = Some(plan);
        recorded = Some(dataset);
    }
    let sessions = users::resolve(section.turns, section.max_context, recorded.as_ref());
    let think = load.think.map(|ThinkTime(times)| times);
    let plan = WorkloadPlan { isl, osl, tokenizer, classes, source, prefixes, sessions, think };
    users::check_context(&plan)?;
    Ok(plan)
}

/// Refuses what contradicts itself.
fn check(section: &WorkloadSection, is_replay: bool) -> Result<(), RecipeError> {
    let error = |text: &str, hint: &str| Err(RecipeError::new(text).hint(hint));
    if section.classes.as_ref().is_some_and(|classes| !classes.is_empty()) {
        if section.dataset.is_some() {
            return error(
                "both `workload.dataset` (`--dataset`, `--trace`) and `workload.classes` (`--class`) are given",
                "keep one: the requests are a file's or drawn from classes",
            );
        }
        if section.isl.is_some() || section.osl.is_some() {
            return error(
                "`workload.classes` (`--class`) is given with `isl` or `osl`",
                "each class has lengths of its own; leave `--isl` and `--osl` out",
            );
        }
        let weights = section.classes.iter().flatten().map(|class| class.weight);
        if weights.clone().any(|weight| !(weight > 0.0 && weight.is_finite())) {
            return error("a class has a `weight` that is not above 0", "leave that class out");
        }
    }
    let Some(dataset) = &section.dataset else {
        if is_replay {
            return error(
                "`load.replay` needs `workload.dataset`, the trace to be replayed",
                "for example `dataset = \"trace.jsonl\"`",
            );
        }
        if section.dataset_format.is_some() || section.strict.is_some() {
            return error(
                "`--dataset-format` and `--strict` are about a file, but no `--dataset` is given",
                "add `--dataset FILE` (`workload.dataset`), or leave them out",
            );
        }
        return Ok(());
    };
    if section.isl.is_some() {
        return error(
            &format!("`--isl` is given, but prompt lengths are those of `{dataset}`"),
            "leave `--isl` out, or take lengths alone from a file: `--isl file:lengths.csv`",
        );
    }
    if section.shared_prefix.is_some() || section.prefix_pool.is_some() {
        return error(
            &format!("prefixes are for synthetic prompts, but the requests are those of `{dataset}`"),
            "leave `--shared-prefix` and `--prefix-pool` out",
        );
    }
    Ok(())
}

fn unusable(error: crate::workload::dataset::DatasetError) -> RecipeError {
    RecipeError::new(error.to_string())
}

/// Which of a file's lengths are meant.
#[derive(Clone, Copy)]
enum Role {
    Isl,
    Osl,
}

/// Reads the files that lengths are to be taken from.
fn read(mut lengths: Lengths, role: Role) -> Result<Lengths, RecipeError> {
    for unread in lengths.unread() {
        let Lengths::Empirical { file, .. } = &*unread else { continue };
        let dataset = Dataset::scan(file, None).map_err(unusable)?;
        *unread = match role {
            Role::Isl => dataset.isl(),
            // A file of one column has the lengths that are asked for, whatever it calls them.
            Role::Osl => dataset.osl().unwrap_or_else(|| dataset.isl()),
        };
    }
    Ok(lengths)
}

/// How the rate moves within a trial, if it does.
pub(super) fn resolve_curve(
    load: &LoadSection,
    workload: &WorkloadPlan,
) -> Result<Option<Moving>, RecipeError> {
    let curve = match (&load.series, &load.ramp, &load.replay) {
        (None, None, None) => return Ok(None),
        (Some(path), None, None) => read_series(path)?,
        (None, Some(Ramp(curve)), None) => curve.clone(),
        (None, None, Some(replay)) => {
            let Some(source) = &workload.source else { return Ok(None) };
            let times = Dataset::open(source).and_then(|dataset| dataset.times()).map_err(unusable)?;
            let curve = RateCurve::Instants(times.into());
            let Speeds { min, max } = replay.speed_up.unwrap_or(Speeds { min: 1.0, max: 1.0 });
            let length = curve.length().unwrap_or(0.0);
            if length <= 0.0 {
                return Err(RecipeError::new(format!(
                    "the entries of `{}` in this window all came at one instant",
                    source.path
                ))
                .hint("take a longer `--window`"));
            }
            let mean = curve.mean();
            return Ok(Some(Moving {
                curve: CurvePlan::Trace { speed_up: min, fastest: (min < max).then_some(max) },
                rates: Rates { min: mean * min, max: mean * max },
                seconds: length / max,
            }));
        }
        _ => {
            return Err(RecipeError::new("more than one of a rate series, a ramp and a trace is given")
                .hint("keep one of `--rate-series`, `--ramp`, `--trace`"));
        }
    };
    let mean = curve.mean();
    let (rates, seconds) = (Rates { min: mean, max: mean }, curve.length().unwrap_or(0.0));
    Ok(Some(Moving { curve: CurvePlan::Rates { curve }, rates, seconds }))
}

/// Points of a CSV `seconds,rate`, with or without a header.
fn read_series(path: &str) -> Result<RateCurve, RecipeError> {
    let text = std::fs::read_to_string(Path::new(path))
        .map_err(|error| RecipeError::new(format!("cannot read the rate series `{path}`: {error}")))?;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |why: &str| {
            RecipeError::new(format!("rate series `{path}` line {}: {why}", index + 1))
                .hint("each line is `seconds,rate`, ascending in time from 0, such as `0,2.5`")
        };
        let numbers = line
            .split_once(',')
            .and_then(|(at, rate)| Some((at.trim().parse::<f64>().ok()?, rate.trim().parse::<f64>().ok()?)));
        match numbers {
            None if index == 0 => {}
            None => return Err(wrong("it is not two numbers")),
            Some((at, rate)) if !(at.is_finite() && rate.is_finite() && rate >= 0.0) => {
                return Err(wrong(&format!("`{at},{rate}` is not a time and a rate of 0 or more")));
            }
            Some((at, _)) if points.is_empty() && at != 0.0 => {
                return Err(wrong("the first time is not 0"));
            }
            Some((at, _)) if points.last().is_some_and(|&(before, _)| at <= before) => {
                return Err(wrong("its time is not after the one before"));
            }
            Some(point) => points.push(point),
        }
    }
    let curve = RateCurve::Linear(points);
    if curve.arrivals() <= 0.0 {
        return Err(RecipeError::new(format!("the rate series `{path}` brings no arrivals"))
            .hint("it needs two points at least, and a rate above 0"));
    }
    Ok(curve)
}

/// A dataset's format as written; none for `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatName(pub Option<DatasetFormat>);

impl FromStr for FormatName {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.trim() == "auto" {
            return Ok(Self(None));
        }
        super::choice::choose("dataset format", text, &DATASET_FORMATS).map(|format| Self(Some(format)))
    }
}

written_as_text! {
    FormatName: { "description": "What a dataset's file holds.", "type": "string",
                  "enum": ["auto", "sharegpt", "openai", "lengths", "mooncake", "azure", "burstgpt"] },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::plan::{Plan, StrategyPlan};
    use crate::recipe::{Purpose, Recipe};

    fn plan(text: &str) -> Result<Plan, String> {
        let recipe = Recipe::from_toml(text, "test.toml").map_err(|error| error.to_string())?;
        recipe.into_plan(None, Purpose::Measure).map_err(|error| error.to_string())
    }

    fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let path = path.to_string_lossy().into_owned();
        (folder, path)
    }

    #[test]
    fn classes_are_drawn_together_and_their_marginals_are_the_lengths() {
        let plan = plan(
            "[workload]\nclasses = [{ weight = 3, isl = 100, osl = 'uniform(10..30)' }, { weight = 1, isl = 900, osl = 5 }]",
        )
        .unwrap();
        assert_eq!(plan.workload.classes.len(), 2);
        assert_eq!((plan.workload.isl.mean(), plan.workload.osl.mean()), (300.0, 16.25));
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&plan).unwrap()).unwrap(), plan);
        let class: ClassSection = "0.8: isl=mix(1: 10, 2: 20), osl=100".parse().unwrap();
        assert_eq!(class.osl.0, Lengths::Fixed { tokens: 100 });
        assert_eq!(class.weight, 0.8);
    }

    #[test]
    fn lengths_of_a_file_are_kept_in_the_plan() {
        let (_folder, path) = file("log.csv", "isl,osl\n100,10\n300,20\n300,30\n");
        let plan = plan(&format!("[workload]\nisl = 'file:{path}'\nosl = 'file:{path}'")).unwrap();
        assert!((plan.workload.isl.mean() - 700.0 / 3.0).abs() < 1e-9);
        assert_eq!(plan.workload.osl.mean(), 20.0);
        let written = toml::to_string(&plan).unwrap();
        assert_eq!(toml::from_str::<Plan>(&written).unwrap(), plan);
    }

    #[test]
    fn a_trace_is_an_open_loop_at_its_mean_rate_times_the_speed_up() {
        let (_folder, path) = file("t.csv", "timestamp,isl,osl\n0,10,5\n1,20,5\n4,30,5\n8,40,5\n9,1,1\n");
        let text = format!(
            "[strategy]\nkind = 'grid'\n[workload]\ndataset = '{path}'\n[load.replay]\nspeed_up = 2\nwindow = '1s..9s'"
        );
        let plan = plan(&text).unwrap();
        let arrivals = plan.arrivals.unwrap();
        // Three entries within the 7 s from the window's start to the last of them, twice as fast.
        assert!((arrivals.min - 6.0 / 7.0).abs() < 1e-12, "{}", arrivals.min);
        assert_eq!(arrivals.curve, Some(CurvePlan::Trace { speed_up: 2.0, fastest: None }));
        assert_eq!(plan.workload.isl.mean(), 30.0);
        assert_eq!(plan.strategy, StrategyPlan::Grid { levels: vec![], warm: false });
    }

    #[test]
    fn a_series_of_rates_is_read_and_its_slips_are_named() {
        let (_folder, path) = file("day.csv", "seconds,rate\n0,1\n10,3\n30,0\n");
        assert_eq!(
            read_series(&path).unwrap(),
            RateCurve::Linear(vec![(0.0, 1.0), (10.0, 3.0), (30.0, 0.0)])
        );
        for (text, problem) in [
            ("1,2\n2,3", "line 1: the first time is not 0"),
            ("0,2\n0,3", "line 2: its time is not after"),
            ("0,2\n5,-3", "line 2: `5,-3` is not a time and a rate"),
            ("0,2\nfive,3", "line 2: it is not two numbers"),
            ("0,2", "brings no arrivals"),
        ] {
            let (_folder, path) = file("bad.csv", text);
            let error = read_series(&path).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let (_folder, path) = file("log.csv", "isl,osl\n100,10\n");
        for (text, problem) in [
            (format!("dataset = '{path}'\nisl = 5"), "prompt lengths are those of"),
            (format!("dataset = '{path}'\nshared_prefix = 5"), "prefixes are for synthetic prompts"),
            ("strict = true".to_owned(), "no `--dataset` is given"),
            ("dataset = '/nowhere/x.csv'".to_owned(), "cannot read `/nowhere/x.csv`"),
            (
                "isl = 5\nclasses = [{ weight = 1, isl = 1, osl = 1 }]".to_owned(),
                "is given with `isl` or `osl`",
            ),
            ("classes = [{ weight = 0, isl = 1, osl = 1 }]".to_owned(), "a `weight` that is not above 0"),
            (format!("dataset = '{path}'\n[load.replay]\nspeed_up = 2"), "has no timestamps"),
        ] {
            let error = plan(&format!("[workload]\n{text}")).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn ramps_pools_and_windows_are_read() {
        assert_eq!(
            "exponential(1..50 in 60s)".parse::<Ramp>().unwrap().0,
            RateCurve::Exponential { from: 1.0, to: 50.0, seconds: 60.0 }
        );
        assert_eq!(
            "linear(2..1 in 1m)".parse::<Ramp>().unwrap().0,
            RateCurve::Linear(vec![(0.0, 2.0), (60.0, 1.0)])
        );
        assert!("cubic(1..2 in 3s)".parse::<Ramp>().is_err());
        assert_eq!(
            "20x1024@80%".parse::<Pool>().unwrap().0,
            PoolPlan { count: 20, tokens: 1024, hit_rate: 0.8 }
        );
        assert_eq!("600s..".parse::<Window>().unwrap().0, WindowPlan { from: 600.0, to: None });
        assert!("9s..3s".parse::<Window>().is_err());
    }
}
