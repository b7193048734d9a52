//! Two runs beside each other: ratios with intervals, from the stored requests.
//!
//! The trial is the replicate. The ratio of the capacities comes from both posteriors; that of a
//! figure at a load from the trials of each run near it, by Student's t on the log scale with the
//! degrees of freedom of Welch and Satterthwaite, each run's figure read off a line in the log load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Material, Runs, Together, Trial};
use crate::plan::{LoadRange, Plan};
use crate::search::adaptive::posterior::Crossing;
use crate::search::adaptive::settings::Settings;
use crate::search::{Place, TrialKind};
use crate::slo::{Metric, Slo};
use crate::stats::quantile::quantile;
use crate::stats::sequential::Known;
use crate::stats::special::{normal_quantile, student_quantile};
use crate::units::Interval;

/// Trials within this of a load (log scale) tell the figure there.
const NEAR: f64 = 0.3;
/// Least spread of their loads for a slope.
const LEAST_SPREAD: f64 = 0.02;
/// Quantiles of each posterior whose differences are taken.
const QUANTILES: usize = 200;
/// Loads at which figures are compared.
const LOADS: usize = 3;
/// Stated coverage.
const CONFIDENCE: f64 = 0.95;
/// Figures that are compared at each load.
const FIGURES: [(Metric, f64); 7] = [
    (Metric::Ttft, 0.5),
    (Metric::Ttft, 0.95),
    (Metric::Ttft, 0.99),
    (Metric::Tpot, 0.5),
    (Metric::Tpot, 0.95),
    (Metric::E2e, 0.5),
    (Metric::E2e, 0.95),
];

/// One run of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// What it was to do.
    pub plan: Plan,
    /// What the target said of itself.
    pub target: Option<serde_json::Value>,
    /// Its trials and requests; those of several searches are put together.
    pub runs: Runs,
}

/// A figure of both runs, and how many times as large that of the second is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Of the first run.
    pub a: f64,
    /// Of the second.
    pub b: f64,
    /// `b / a`.
    pub ratio: f64,
    /// Where the ratio lies; absent where too few trials tell.
    pub interval: Option<Interval>,
}

/// A figure at a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureAt {
    /// Requests in flight.
    pub load: u32,
    /// Such as `ttft p95` (seconds), or `goodput` and `throughput` (a second).
    pub figure: String,
    /// Both, and their ratio.
    #[serde(flatten)]
    pub ratio: Ratio,
}

/// Two runs beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The SLO that both are judged by.
    pub slo: Vec<String>,
    /// The largest load that meets the SLO.
    pub capacity: Option<Ratio>,
    /// Where the boundary of each run lies.
    pub places: (Place, Place),
    /// Requests a second within the SLO, each at its own capacity.
    pub goodput: Option<Ratio>,
    /// Figures at loads that both have measured.
    pub figures: Vec<FigureAt>,
    /// Why the two are not comparable; empty where they are.
    pub differences: Vec<String>,
    /// What differs and may be what is compared (engine, server).
    pub compared: Vec<String>,
}

/// Compares two runs under `slo`.
pub fn compare(a: &Side, b: &Side, slo: &Slo) -> Comparison {
    let (anew_a, anew_b) = (a.runs.judged(slo), b.runs.judged(slo));
    let mut figures = Vec::new();
    for load in shared_loads(&a.runs, &b.runs) {
        for (metric, p) in FIGURES {
            let read = |runs: &Runs| of_runs(runs, load, &|trial| figure(trial, metric, p));
            if let Some(ratio) = read(&a.runs).zip(read(&b.runs)).map(|(a, b)| ratio(a, b)) {
                figures.push(FigureAt { load, figure: format!("{} p{}", metric.name(), p * 100.0), ratio });
            }
        }
        for (name, good) in [("goodput", true), ("throughput", false)] {
            let read = |runs: &Runs| of_runs(runs, load, &|trial| rate(trial, slo, good));
            if let Some(ratio) = read(&a.runs).zip(read(&b.runs)).map(|(a, b)| ratio(a, b)) {
                figures.push(FigureAt { load, figure: name.to_owned(), ratio });
            }
        }
    }
    let goodput = |anew: &Together, runs: &Runs| {
        let load = anew.judged.answer.load?.value() as u32;
        of_runs(runs, load.max(1), &|trial| rate(trial, slo, true))
    };
    let goodput = goodput(&anew_a, &a.runs).zip(goodput(&anew_b, &b.runs));
    Comparison {
        slo: slo.clone().into(),
        capacity: capacity(&anew_a, &anew_b),
        places: (anew_a.judged.place, anew_b.judged.place),
        goodput: goodput.map(|(a, b)| ratio(a, b)),
        figures,
        differences: differences(a, b),
        compared: compared(a, b),
    }
}

/// The ratio of the capacities; without an interval where either was not measured at its boundary.
fn capacity(a: &Together, b: &Together) -> Option<Ratio> {
    let (of_a, of_b) = (a.judged.answer.load?.value(), b.judged.answer.load?.value());
    let measured = |of: &Together| of.judged.crossing.clone().filter(|_| of.judged.place == Place::Within);
    let interval = measured(a).zip(measured(b)).map(|(a, b)| difference(&a, &b));
    let interval = interval.or_else(|| Some(normal_difference(a.known?, b.known?)));
    (of_a > 0.0).then(|| Ratio { a: of_a, b: of_b, ratio: of_b / of_a, interval })
}

/// Quantiles of the difference of two log capacities that are known independently of each other.
fn difference(a: &Crossing, b: &Crossing) -> Interval {
    let settings = Settings::new(LoadRange { min: 1, max: 1 }, 0.0, 0);
    let mass = if a.counted || b.counted { settings.mass.0 } else { settings.mass.1 };
    let quantiles = |crossing: &Crossing| -> Vec<f64> {
        (0..QUANTILES).map(|k| crossing.quantile((k as f64 + 0.5) / QUANTILES as f64)).collect()
    };
    let (of_a, of_b) = (quantiles(a), quantiles(b));
    let mut all: Vec<f64> = of_a.iter().flat_map(|a| of_b.iter().map(move |b| b - a)).collect();
    all.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - mass) / 2.0;
    Interval {
        low: quantile(&all, tail).exp(),
        high: Some(quantile(&all, 1.0 - tail).exp()),
        confidence: CONFIDENCE,
    }
}

/// The same where a capacity was put together from several searches: both as normal on the log scale.
fn normal_difference(a: Known, b: Known) -> Interval {
    let log = (b.capacity / a.capacity).ln();
    let half = normal_quantile(0.5 + CONFIDENCE / 2.0) * a.log_sd.hypot(b.log_sd);
    Interval { low: (log - half).exp(), high: Some((log + half).exp()), confidence: CONFIDENCE }
}

/// Loads in the overlap of what both have measured with trials of a fixed size.
fn shared_loads(a: &Runs, b: &Runs) -> Vec<u32> {
    let fixed = |runs: &Runs| {
        let mut loads: Vec<u32> = runs.each().iter().flat_map(Material::fixed_loads).collect();
        loads.sort_unstable();
        loads.dedup();
        loads
    };
    let (of_a, of_b) = (fixed(a), fixed(b));
    let both: Vec<u32> = of_a.iter().copied().filter(|load| of_b.contains(load)).collect();
    if both.len() >= LOADS {
        return (0..LOADS).map(|k| both[k * (both.len() - 1) / (LOADS - 1)]).collect();
    }
    let ends = |loads: &[u32]| Some((*loads.first()?, *loads.last()?));
    let Some(((low_a, high_a), (low_b, high_b))) = ends(&of_a).zip(ends(&of_b)) else { return both };
    let (low, high) = (f64::from(low_a.max(low_b)), f64::from(high_a.min(high_b)));
    if high < low {
        return both;
    }
    let mut loads: Vec<u32> =
        (0..LOADS).map(|k| (low * (high / low).powf(k as f64 / (LOADS - 1) as f64)).round() as u32).collect();
    loads.dedup();
    loads
}

/// A figure on the log scale: estimate, variance of it, and its degrees of freedom where they are known.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    log: f64,
    spread: Option<(f64, f64)>,
}

/// Reads a figure at a load off runs. Several of them are replicates of each other: the trials of one run
/// share its server, which the next one does not.
fn of_runs(runs: &Runs, load: u32, figure: &dyn Fn(&Trial) -> Option<f64>) -> Option<Estimate> {
    let each: Vec<Estimate> =
        runs.each().iter().filter_map(|material| at_load(material, load, figure)).collect();
    if let [alone] = each.as_slice() {
        return Some(*alone);
    }
    let n = each.len() as f64;
    let mean = each.iter().map(|estimate| estimate.log).sum::<f64>() / n;
    let squares: f64 = each.iter().map(|estimate| (estimate.log - mean).powi(2)).sum();
    (!each.is_empty()).then(|| Estimate { log: mean, spread: Some((squares / (n - 1.0) / n, n - 1.0)) })
}

/// Reads a figure at a load off the trials of a fixed size there; off those near it where there are
/// none, along a line that a cliff between them would bend.
fn at_load(material: &Material, load: u32, figure: &dyn Fn(&Trial) -> Option<f64>) -> Option<Estimate> {
    let mut points: Vec<(f64, f64)> = material
        .trials
        .iter()
        .filter(|trial| !matches!(trial.spec.kind, TrialKind::Warmup | TrialKind::Navigate))
        .filter(|trial| trial.void.is_none())
        .map(|trial| ((trial.spec.load.value() / f64::from(load)).ln(), trial))
        .filter(|(distance, _)| distance.abs() <= NEAR)
        .filter_map(|(x, trial)| Some((x, figure(trial).filter(|value| *value > 0.0)?.ln())))
        .collect();
    if points.iter().any(|point| point.0 == 0.0) {
        points.retain(|point| point.0 == 0.0);
    }
    let n = points.len() as f64;
    let first = points.first()?;
    let (mean_x, mean_y) =
        (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let sxx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    if points.len() == 1 {
        return Some(Estimate { log: first.1, spread: None });
    }
    let sloped = points.len() >= 3 && (sxx / n).sqrt() > LEAST_SPREAD;
    let slope = if sloped { sxy / sxx } else { 0.0 };
    let dof = n - if sloped { 2.0 } else { 1.0 };
    let residual: f64 = points.iter().map(|p| (p.1 - mean_y - slope * (p.0 - mean_x)).powi(2)).sum();
    let lever = 1.0 / n + if sloped { mean_x * mean_x / sxx } else { 0.0 };
    Some(Estimate { log: mean_y - slope * mean_x, spread: Some((residual / dof * lever, dof)) })
}

/// The ratio of two figures, by Welch's t.
fn ratio(a: Estimate, b: Estimate) -> Ratio {
    let log = b.log - a.log;
    let interval = a.spread.zip(b.spread).map(|((va, na), (vb, nb))| {
        let variance = (va + vb).max(1e-12);
        let dof = (variance * variance / (va * va / na + vb * vb / nb).max(1e-300)).clamp(1.0, na + nb);
        let half = student_quantile(0.5 + CONFIDENCE / 2.0, dof) * variance.sqrt();
        Interval { low: (log - half).exp(), high: Some((log + half).exp()), confidence: CONFIDENCE }
    });
    Ratio { a: a.log.exp(), b: b.log.exp(), ratio: log.exp(), interval }
}

fn figure(trial: &Trial, metric: Metric, p: f64) -> Option<f64> {
    let whole = trial.measured().iter().filter(|record| record.is_completed());
    let mut samples: Vec<f64> = whole.filter_map(|record| metric.of_request(record)).collect();
    samples.sort_unstable_by(f64::total_cmp);
    // A percentile with not one sample beyond it is none.
    (samples.len() as f64 * (1.0 - p) >= 1.0).then(|| quantile(&samples, p))
}

fn rate(trial: &Trial, slo: &Slo, good: bool) -> Option<f64> {
    let seconds = trial.window.2 - trial.window.1;
    let counted = trial
        .measured()
        .iter()
        .filter(|record| if good { slo.is_good(record) } else { record.is_completed() });
    (seconds > 0.0).then(|| counted.count() as f64 / seconds)
}

/// Why two runs are not comparable.
fn differences(a: &Side, b: &Side) -> Vec<String> {
    let mut found = Vec::new();
    let mut both = |what: &str, of_a: serde_json::Value, of_b: serde_json::Value| {
        let mut parts = Vec::new();
        differing(what, &of_a, &of_b, &mut parts);
        found.append(&mut parts);
    };
    both("workload", json(&a.plan.workload), json(&b.plan.workload));
    both("slo", json(&a.plan.slo), json(&b.plan.slo));
    both("load model", load_model(a), load_model(b));
    let of_target = |side: &Side, key: &str| {
        side.target.as_ref().and_then(|target| target.get(key)).cloned().unwrap_or_default()
    };
    for key in ["model", "api", "streaming", "hardware", "gpu", "gpus"] {
        both(key, of_target(a, key), of_target(b, key));
    }
    found
}

/// What differs and does not keep two runs from being compared.
fn compared(a: &Side, b: &Side) -> Vec<String> {
    let mut found = Vec::new();
    let of = |side: &Side, key: &str| {
        side.target.as_ref().and_then(|target| target.get(key)).cloned().unwrap_or_default()
    };
    for key in ["engine", "engine_version"] {
        differing(key, &of(a, key), &of(b, key), &mut found);
    }
    found
}

/// The kind of load that the trials were run at.
fn load_model(side: &Side) -> serde_json::Value {
    let first = side.runs.trials().map(|trial| trial.spec.load).next();
    let tagged = first.and_then(|load| serde_json::to_value(load).ok()).unwrap_or_default();
    let name = tagged.as_object().and_then(|object| object.keys().next().cloned());
    name.map_or(serde_json::Value::Null, serde_json::Value::String)
}

/// Names each place at which two values differ, with both.
fn differing(at: &str, a: &serde_json::Value, b: &serde_json::Value, found: &mut Vec<String>) {
    use serde_json::Value;
    match (a, b) {
        (Value::Object(of_a), Value::Object(of_b)) => {
            let keys: std::collections::BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
            for key in keys {
                let (a, b) = (of_a.get(key).unwrap_or(&Value::Null), of_b.get(key).unwrap_or(&Value::Null));
                differing(&format!("{at}.{key}"), a, b, found);
            }
        }
        _ if a == b => {}
        _ => found.push(format!("{at}: {} against {}", plain(a), plain(b))),
    }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "not known".to_owned(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Plain data as JSON.
fn json(value: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn every_place_that_differs_is_named_with_both_values() {
        let a = serde_json::json!({"isl": {"tokens": 512}, "osl": {"tokens": 64}});
        let b = serde_json::json!({"isl": {"tokens": 1024}, "osl": {"tokens": 64}});
        let mut found = Vec::new();
        differing("workload", &a, &b, &mut found);
        assert_eq!(found, ["workload.isl.tokens: 512 against 1024"]);
    }

    #[test]
    fn the_ratio_of_two_means_is_that_of_welchs_t_test() {
        // scipy.stats.ttest_ind([2.1,2.4,2.2,2.6], [2.9,3.1,2.7], equal_var=False)
        //     .confidence_interval(0.95) on logs: (-0.99407354, -0.15592646), 4.71553 degrees of freedom
        let of = |values: &[f64]| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n;
            Estimate { log: mean, spread: Some((variance, n - 1.0)) }
        };
        let found = ratio(of(&[2.9, 3.1, 2.7]), of(&[2.1, 2.4, 2.2, 2.6]));
        let interval = found.interval.unwrap();
        assert!((found.ratio.ln() + 0.575).abs() < 1e-9);
        assert!((interval.low.ln() + 0.994_073_54).abs() < 1e-6, "{}", interval.low.ln());
        assert!((interval.high.unwrap().ln() + 0.155_926_46).abs() < 1e-6);
    }
}
