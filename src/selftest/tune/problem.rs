//! An engine with four knobs in virtual time, and what each setting is truly worth.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::selftest::{SelfTestError, in_parallel};
use crate::sim::knobs;
use crate::sim::model::{Disturbance, KvPolicy, Params, StepCost};
use crate::sim::scenarios::Scenario;
use crate::sim::traffic::{Shape, Traffic};
use crate::sim::truth::standing;
use crate::slo::SloError;
use crate::space::{KnobSection, Setting, Space};

/// The knobs: two that matter, one whose words are three kinds of kernels, one that does nothing.
const KNOBS: &str = "
[max_num_seqs]
type = 'int'
range = [16, 512]
scale = 'log'
step = 1.4142135623730951
default = 256
[max_num_batched_tokens]
type = 'int'
range = [256, 16384]
scale = 'log'
step = 2
default = 2048
[kernels]
type = 'choice'
values = ['plain', 'long-context', 'prefill']
default = 'plain'
[swap_space]
type = 'int'
values = [0, 4, 8, 16]
default = 4
";

/// Requests of a run at one level.
const REQUESTS: u32 = 3000;
/// Highest load.
const MAX_LOAD: u32 = 512;
/// Seed of all runs: settings are compared on the same requests.
const SEED: u64 = 11;
/// Ratio of the two levels between which the crossing is interpolated.
const BRACKET: f64 = 1.04;

/// The problem with its true answers.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The settings.
    pub space: Space,
    rows: BTreeMap<String, Row>,
    /// The largest goodput of any setting.
    pub best: f64,
}

/// A setting and its true objective.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The setting.
    pub setting: Setting,
    /// Requests a second within the SLO at the largest load that meets it; none where it crashes.
    pub goodput: Option<f64>,
}

impl Problem {
    /// Computes the goodput at the capacity of every setting by long runs of the model without noise.
    ///
    /// # Errors
    /// When the problem itself is broken.
    pub fn compute() -> Result<Self, SelfTestError> {
        let sections: BTreeMap<String, KnobSection> =
            toml::from_str(KNOBS).map_err(|error| SelfTestError::Problem(error.to_string()))?;
        let space = Space::from_sections(&sections, &[])
            .map_err(|error| SelfTestError::Problem(error.to_string()))?;
        let points = space.enumerate(usize::MAX).unwrap_or_default();
        let settings: Vec<Setting> = points.iter().map(|point| space.setting(point)).collect();
        // What does nothing need not be run.
        let mut distinct: Vec<Setting> = settings.iter().map(effective).collect();
        distinct.sort_by_key(key);
        distinct.dedup();
        let values = in_parallel(distinct.len(), |index| goodput(&distinct[index]))?;
        let known: BTreeMap<String, Option<f64>> = distinct.iter().map(key).zip(values).collect();
        let rows: BTreeMap<String, Row> = settings
            .into_iter()
            .map(|setting| {
                let goodput = known[&key(&effective(&setting))];
                (key(&setting), Row { setting, goodput })
            })
            .collect();
        let best = rows.values().filter_map(|row| row.goodput).fold(0.0, f64::max);
        Ok(Self { space, rows, best })
    }

    /// The true goodput of a setting; none where it crashes.
    pub fn goodput(&self, setting: &Setting) -> Option<f64> {
        self.rows.get(&key(setting)).and_then(|row| row.goodput)
    }

    /// All settings.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }
}

fn key(setting: &Setting) -> String {
    crate::space::show(setting)
}

fn effective(setting: &Setting) -> Setting {
    let mut setting = setting.clone();
    setting.remove("swap_space");
    setting
}

/// The server before its knobs are set.
fn base() -> Params {
    let cost = StepCost {
        base: 6e-3,
        per_sequence: 60e-6,
        per_kv_token: 4e-8,
        per_prefill_token: 50e-6,
        pad: 0,
        dip: None,
    };
    Params {
        cost,
        noise: Disturbance::NONE,
        max_seqs: 256,
        max_batched_tokens: 2048,
        kv: KvPolicy::Paged { blocks: 6_000 },
        prefix_hit: 0.0,
        prefix_caching: true,
        speculation: None,
        failures: 0.0,
        early_stop: None,
    }
}

/// The goodput at the capacity of a setting, read off between two levels that lie within
/// [`BRACKET`], of which one meets the SLO and the other misses it.
fn goodput(setting: &Setting) -> Result<Option<f64>, SloError> {
    let Ok(params) = knobs::apply(base(), setting) else { return Ok(None) };
    let lengths = |mean: f64| Shape::Lognormal { mean, cv: 0.6, min: 4, max: (5.0 * mean) as u32 };
    let scenario = Scenario {
        name: "tune",
        about: "four knobs",
        params,
        traffic: Traffic::of(lengths(1200.0), lengths(200.0)),
        slo: vec!["ttft p95 < 800ms", "tpot p95 < 40ms", "stall p95 < 120ms"],
        max_load: MAX_LOAD,
        capacity: 0,
    };
    let at = |level: u32| {
        standing(&scenario, level, REQUESTS, SEED)
            .map(|standing| (standing.margin, standing.requests_per_second))
    };
    let (mut low, mut high) = ((1, at(1)?), None);
    if low.1.0 > 0.0 {
        return Ok(None);
    }
    while low.0 < MAX_LOAD {
        let next = match high {
            None => (low.0 * 2).min(MAX_LOAD),
            Some((level, _)) if f64::from(level) / f64::from(low.0) <= BRACKET || level - low.0 <= 1 => break,
            Some((level, _)) => (f64::from(low.0) * f64::from(level)).sqrt().round() as u32,
        };
        if next == low.0 || high.is_some_and(|(level, _)| level == next) {
            break;
        }
        let standing = at(next)?;
        if standing.0 <= 0.0 {
            low = (next, standing);
        } else {
            high = Some((next, standing));
        }
    }
    let (margin, rate) = low.1;
    let Some((_, (missed, beyond))) = high else { return Ok(Some(rate)) };
    let share = (-margin / (missed - margin)).clamp(0.0, 1.0);
    Ok(Some(rate + (beyond - rate) * share))
}
