//! Several searches as one answer, in `summary.json` and in words.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{AnswerDocument, Document};
use super::words;
use crate::analysis::{self, Together};
use crate::plan::{Plan, StrategyPlan};
use crate::run::{Contents, Cost, RepeatsFolder};
use crate::search::repeats::{self, Combined, Repeat};
use crate::search::{Answer, SearchOutcome, TrialOutcome, judge};
use crate::slo::Slo;
use crate::units::{Interval, Load, significant};

/// Several whole searches that were put together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatsDocument {
    /// Searches that were asked for.
    pub wanted: u32,
    /// Those that have begun, in order.
    pub runs: Vec<RepeatedRun>,
    /// Spread from run to run as a sd on the log scale (0.03: 3 %), the median of its posterior; null
    /// where fewer than two runs found a load.
    pub between_run_sd: Option<f64>,
    /// Where the capacity lies, the spread from run to run included; the answer's interval.
    pub interval: Option<Interval>,
    /// Number of the run, from 1, whose trials, curve and requests this document and its page show.
    pub shown: usize,
}

/// One of several searches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedRun {
    /// Its run folder, relative to the folder of the searches.
    pub folder: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// How it ended.
    pub outcome: SearchOutcome,
    /// What it found.
    pub load: Option<Load>,
    /// Where the load lies as far as this run alone can tell.
    pub interval: Option<Interval>,
}

/// Several searches as far as they have gone.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// The answer that they lead to, with the trials of the run that is nearest to it.
    pub document: Document,
    /// The run that is nearest to the answer.
    pub nearest: Contents,
    /// What they know together; none where fewer than two found a load.
    pub combined: Option<Combined>,
}

/// Puts the searches of a folder together; `None` where none has begun.
pub fn together(folder: &RepeatsFolder, plan: &Plan, runs: Vec<Contents>) -> Option<Repeated> {
    let all: Vec<Repeat> = runs.iter().map(repeat).collect();
    let (answer, combined) = repeats::answer(&all);
    let mut answer = answer?;
    if !is_finished(plan, &runs) {
        answer.outcome = SearchOutcome::Interrupted;
    }
    let nearest = nearest(&all, &answer)?;
    let document = Document::of_run(&runs[nearest]);
    let document = of_all(folder, plan, &runs, &all, (&answer, combined, nearest), document);
    Some(Repeated { document, nearest: runs.into_iter().nth(nearest)?, combined })
}

/// The searches of a folder under another SLO, as `read` has judged them; `None` where there are none.
pub fn anew(
    folder: &RepeatsFolder,
    plan: &Plan,
    runs: &[Contents],
    slo: &Slo,
    read: &Together,
) -> Option<Document> {
    let all: Vec<Repeat> = read.each.iter().map(|anew| analysis::repeat(&anew.judged)).collect();
    let answer = &read.judged.answer;
    let nearest = nearest(&all, answer)?;
    let (run, outcomes) = (runs.get(nearest)?, &read.each.get(nearest)?.outcomes);
    let as_it_was = Document::of_run(run);
    let asked = Plan { slo: slo.clone(), ..run.plan.clone() };
    let document = Document::new(&asked, answer, outcomes, run.cost, &run.warnings, as_it_was.provenance);
    let combined = repeats::answer(&all).1;
    let mut document = of_all(folder, plan, runs, &all, (answer, combined, nearest), document);
    if !is_finished(plan, runs) {
        document.warnings.push("not all of the searches have ended: the others are judged".to_owned());
    }
    Some(document)
}

fn is_finished(plan: &Plan, runs: &[Contents]) -> bool {
    runs.len() as u32 >= plan.repeats && runs.last().is_some_and(|run| run.ended.is_some())
}

/// The run whose load is nearest to the answer; the first where none has one.
fn nearest(all: &[Repeat], answer: &Answer) -> Option<usize> {
    let distance = |run: &Repeat| match (run.answer.load, answer.load) {
        (Some(own), Some(load)) if own.value() > 0.0 => (own.value() / load.value().max(1e-9)).ln().abs(),
        _ => f64::INFINITY,
    };
    all.iter().enumerate().min_by(|a, b| distance(a.1).total_cmp(&distance(b.1))).map(|(index, _)| index)
}

/// The document of one of the searches, with the answer of all of them.
fn of_all(
    folder: &RepeatsFolder,
    plan: &Plan,
    runs: &[Contents],
    all: &[Repeat],
    (answer, combined, nearest): (&Answer, Option<Combined>, usize),
    mut document: Document,
) -> Document {
    let cost = runs.iter().fold(Cost::default(), |sum, run| Cost {
        seconds: sum.seconds + run.cost.seconds,
        requests: sum.requests + run.cost.requests,
        client_cpu_seconds: sum.client_cpu_seconds + run.cost.client_cpu_seconds,
    });
    let bottleneck = document.answer.bottleneck.take();
    document.outcome = answer.outcome;
    document.answer = AnswerDocument { bottleneck, ..AnswerDocument::from(answer) };
    document.cost = cost;
    document.provenance.seed = plan.seed;
    document.provenance.plan_hash = folder.plan_hash().to_owned();
    folder.started().clone_into(&mut document.provenance.started);
    document.repeats = Some(RepeatsDocument {
        wanted: plan.repeats,
        runs: runs
            .iter()
            .zip(all)
            .map(|(run, repeat)| RepeatedRun {
                folder: relative(&run.path, folder.path()),
                seed: run.plan.seed,
                outcome: repeat.answer.outcome,
                load: repeat.answer.load,
                interval: repeat.answer.interval,
            })
            .collect(),
        between_run_sd: combined.map(|all| all.between_run_sd),
        interval: combined.and(document.answer.interval),
        shown: nearest + 1,
    });
    document
}

/// The searches of a folder that have begun, in order.
///
/// # Errors
/// When one of them cannot be read.
pub fn begun(folder: &RepeatsFolder, plan: &Plan) -> Result<Vec<Contents>, crate::run::RunError> {
    let paths: Vec<PathBuf> = plan.each_search().map_while(|search| folder.run_of(search.seed)).collect();
    paths.iter().map(|path| Contents::read(path)).collect()
}

/// A run's answer with its posterior, where it was read off one.
fn repeat(run: &Contents) -> Repeat {
    let outcomes: Vec<TrialOutcome> = run.outcomes().cloned().collect();
    let judged = || analysis::repeat(&judge(&run.plan.slo, run.plan.load, &outcomes)).known;
    let adaptive = matches!(run.plan.strategy, StrategyPlan::Adaptive { .. }) && run.plan.arrivals.is_none();
    let answer = match &run.ended {
        Some(ended) => ended.answer.clone(),
        None => Answer::bare(SearchOutcome::Interrupted),
    };
    Repeat { known: if adaptive { judged() } else { None }, answer }
}

fn relative(path: &Path, base: &Path) -> String {
    path.strip_prefix(base).unwrap_or(path).display().to_string()
}

/// The runs and what differs between them, as label and text.
pub(crate) fn facts(document: &Document) -> Vec<(&'static str, String)> {
    let Some(repeats) = &document.repeats else { return Vec::new() };
    let level = |run: &RepeatedRun| match (run.load, run.outcome) {
        (Some(load), SearchOutcome::Found) => words::level(load.value()),
        (_, SearchOutcome::MissedAtLowest) => "missed at the lowest".to_owned(),
        (_, SearchOutcome::MetAtHighest) => "met at the highest".to_owned(),
        (_, SearchOutcome::Void) => "void".to_owned(),
        _ => "no answer".to_owned(),
    };
    let loads: Vec<String> = repeats.runs.iter().map(level).collect();
    let alone: Vec<String> = repeats
        .runs
        .iter()
        .filter_map(|run| {
            let Interval { low, high, .. } = run.interval?;
            let high = high.map_or_else(|| "..".to_owned(), |high| words::end_of(run.load)(high));
            Some(format!("{}-{high}", words::end_of(run.load)(low)))
        })
        .collect();
    let count = match (repeats.runs.len(), repeats.wanted as usize) {
        (n, wanted) if n < wanted => format!("{n} of {wanted} runs"),
        (n, _) => words::counted(n as u64, "run"),
    };
    let alone =
        if alone.is_empty() { String::new() } else { format!("; each alone: 95 % CI {}", alone.join(", ")) };
    let mut facts = vec![("repeats", format!("{count}: {}{alone}", loads.join(", ")))];
    if let Some(sd) = repeats.between_run_sd {
        let text = format!("about {} % (sd); the interval above holds it", significant(sd * 100.0));
        facts.push(("run to run", text));
    }
    if let Some(shown) = repeats.runs.get(repeats.shown.wrapping_sub(1)) {
        facts.push(("below", format!("trials and warnings of run {}, {}", repeats.shown, shown.folder)));
    }
    facts
}
