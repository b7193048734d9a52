//! The knee, and throughput a user against throughput in all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Runs;
use super::frontier::Capacity;
use crate::loadgen::record::RequestRecord;
use crate::search::TrialKind;
use crate::slo::{Metric, Objective, Op, Slo, Stat, Turns};
use crate::stats::quantile::quantile;

/// The largest load whose figure is still near that of the lowest load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The objective without its limit, such as `ttft p95`.
    pub of: String,
    /// The lowest load of a valid trial, requests in flight.
    pub lowest: u32,
    /// The figure there, seconds.
    pub figure: f64,
    /// How much larger it may be: 1 for twice as large.
    pub degradation: f64,
    /// The limit that follows, seconds.
    pub limit: f64,
    /// The largest load within it.
    pub capacity: Capacity,
}

/// One trial's throughput from both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Requests in flight.
    pub load: u32,
    /// Output tokens a second that the median user sees.
    pub per_user: f64,
    /// Output tokens a second in all.
    pub total: f64,
    /// Requests that were counted.
    pub requests: u32,
    /// Whether no other trial is better on one side without being worse on the other.
    pub best: bool,
}

/// The knee of each objective on latency (of `ttft p95` and `tpot p95` where there is none).
pub fn knees(runs: &Runs, slo: &Slo, degradation: f64) -> Vec<Knee> {
    let latencies = |objective: &&Objective| {
        objective.metric.is_time() && matches!(objective.stat, Stat::Percentile(_) | Stat::Mean)
    };
    let mut objectives: Vec<Objective> =
        slo.objectives.iter().filter(latencies).map(Objective::whole).collect();
    if objectives.is_empty() {
        let p95 = |metric| Objective {
            metric,
            turns: Turns::All,
            stat: Stat::Percentile(95.0),
            op: Op::Less,
            threshold: 1.0,
            window: None,
        };
        objectives = vec![p95(Metric::Ttft), p95(Metric::Tpot)];
    }
    objectives.iter().filter_map(|objective| knee(runs, *objective, degradation)).collect()
}

fn knee(runs: &Runs, objective: Objective, degradation: f64) -> Option<Knee> {
    let valid = || runs.trials().filter(|trial| trial.spec.kind != TrialKind::Warmup);
    let (lowest, figure) = valid()
        .map(|trial| (trial.spec.load.value() as u32, trial))
        .filter(|(_, trial)| trial.void.is_none())
        .min_by_key(|(load, _)| *load)
        .and_then(|(lowest, _)| {
            let mut samples = Vec::new();
            let at_lowest = valid().filter(|trial| trial.spec.load.value() as u32 == lowest);
            for record in at_lowest.flat_map(|trial| trial.measured()).filter(|r| r.is_completed()) {
                match objective.metric {
                    Metric::Itl => record.for_each_itl(|gap| samples.push(gap)),
                    metric => samples.extend(metric.of_request(record)),
                }
            }
            samples.sort_unstable_by(f64::total_cmp);
            let figure = match objective.stat {
                _ if samples.is_empty() => return None,
                Stat::Percentile(p) => quantile(&samples, p / 100.0),
                _ => samples.iter().sum::<f64>() / samples.len() as f64,
            };
            Some((lowest, figure))
        })?;
    let limit = figure * (1.0 + degradation);
    let text = Objective { threshold: limit, ..objective }.to_string();
    let slo = Slo::parse([text.as_str()]).ok()?;
    Some(Knee {
        of: format!("{} {}", objective.metric.name(), objective.stat),
        lowest,
        figure,
        degradation,
        limit,
        capacity: Capacity::of(&runs.answered(&slo)),
    })
}

/// Throughput a user and in all of each trial with ten requests or more, loads ascending.
pub fn throughputs(runs: &Runs) -> Vec<Throughput> {
    let mut all: Vec<Throughput> = runs
        .trials()
        .filter(|trial| trial.spec.kind != TrialKind::Warmup && trial.void.is_none())
        .filter_map(|trial| {
            let whole: Vec<&RequestRecord> =
                trial.measured().iter().filter(|record| record.is_completed()).collect();
            let mut paces: Vec<f64> = whole.iter().filter_map(|record| record.tpot()).collect();
            paces.retain(|&tpot| tpot > 0.0);
            paces.sort_unstable_by(f64::total_cmp);
            let seconds = trial.window.2 - trial.window.1;
            let tokens: f64 = whole.iter().map(|record| f64::from(record.output_tokens())).sum();
            (paces.len() >= 10 && seconds > 0.0).then(|| Throughput {
                load: trial.spec.load.value() as u32,
                per_user: 1.0 / quantile(&paces, 0.5),
                total: tokens / seconds,
                requests: whole.len() as u32,
                best: false,
            })
        })
        .collect();
    all.sort_by(|a, b| a.load.cmp(&b.load).then(b.total.total_cmp(&a.total)));
    let beaten = |point: &Throughput, by: &Throughput| {
        by.per_user >= point.per_user
            && by.total >= point.total
            && (by.per_user > point.per_user || by.total > point.total)
    };
    let best: Vec<bool> = all.iter().map(|point| !all.iter().any(|by| beaten(point, by))).collect();
    all.iter_mut().zip(best).for_each(|(point, best)| point.best = best);
    all
}
