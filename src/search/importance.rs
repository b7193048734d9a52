//! Which knobs matter, in the eyes of the model.

use serde::{Deserialize, Serialize};

use super::bayes::gp::Gp;
use crate::space::{Axis, KnobValue, Space};

/// Points over which the other knobs are averaged.
const AVERAGED: usize = 64;
/// Most values of a knob that are looked at.
const VALUES: usize = 9;

/// What a knob does to the objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Effect {
    /// The knob.
    pub knob: String,
    /// Mean of the objective over all other knobs, relative to its mean over everything, value by
    /// value: 0.1 is 10 % more.
    pub curve: Vec<(KnobValue, f64)>,
    /// From the worst to the best value of the curve, as a share.
    pub span: f64,
    /// The model's own uncertainty about `span` (one standard deviation), as a share.
    pub doubt: f64,
    /// The kernel's length scale, in widths of the range (numbers) or its weight (categories).
    pub length: f64,
}

/// The main effect of each knob that has more than one value, the largest first.
pub fn effects(space: &Space, model: &Gp, seed: u64) -> Vec<Effect> {
    let base = space.sobol(AVERAGED, seed);
    let mean =
        base.iter().map(|point| model.at(&space.encode(point)).0).sum::<f64>() / base.len().max(1) as f64;
    let mut effects = Vec::new();
    for (axis, knob) in space.knobs().iter().enumerate() {
        let values = match knob.domain.axis() {
            Axis::Category(_) => knob.domain.all().unwrap_or_default(),
            Axis::Number => {
                let mut values: Vec<f64> =
                    (0..VALUES).map(|k| knob.domain.at(k as f64 / (VALUES - 1) as f64)).collect();
                values.dedup();
                values
            }
        };
        if values.len() < 2 {
            continue;
        }
        let mut curve = Vec::new();
        let mut means = Vec::new();
        for coordinate in values {
            let places: Vec<Vec<f64>> = base
                .iter()
                .filter_map(|point| {
                    let mut moved = point.clone();
                    moved[axis] = coordinate;
                    let moved = space.canonical(moved);
                    (space.allows(&moved) && moved[axis] == coordinate).then(|| space.encode(&moved))
                })
                .collect();
            if places.is_empty() {
                continue;
            }
            let sum: f64 = places.iter().map(|place| model.at(place).0).sum();
            let here = sum / places.len() as f64;
            let shown = knob.domain.values(&knob.name, coordinate);
            let shown = match shown.as_slice() {
                [(_, value)] => value.clone(),
                several => {
                    let each = several.iter().map(|(name, value)| format!("{name}={value}"));
                    KnobValue::Choice(each.collect::<Vec<_>>().join(" "))
                }
            };
            curve.push((shown, (here - mean).exp_m1()));
            means.push((here, places));
        }
        means.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (span, doubt) = match (means.first(), means.last()) {
            (Some((low, worst)), Some((high, best))) => {
                let weighted = |places: &[Vec<f64>], sign: f64| {
                    let weight = sign / places.len() as f64;
                    places.iter().map(move |place| (weight, place.clone())).collect::<Vec<_>>()
                };
                let both = [weighted(best, 1.0), weighted(worst, -1.0)].concat();
                ((high - low).exp_m1(), model.contrast(&both).1.sqrt())
            }
            _ => (0.0, 0.0),
        };
        let length = model.hyper().lengths[axis];
        effects.push(Effect { knob: knob.name.clone(), curve, span, doubt, length });
    }
    effects.sort_by(|a, b| b.span.total_cmp(&a.span));
    effects
}

impl Effect {
    /// In a sentence.
    pub fn words(&self) -> String {
        let best = self.curve.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let worst = self.curve.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        match (best, worst) {
            (Some(best), Some(worst)) if self.span >= 0.02 && self.span > 2.0 * self.doubt => format!(
                "`{}` matters: {:.0} % (± {:.0} %) between {} (best) and {} (worst), others averaged",
                self.knob,
                100.0 * self.span,
                196.0 * self.doubt,
                best.0,
                worst.0
            ),
            _ => format!(
                "`{}` makes no difference that could be seen (up to {:.0} %)",
                self.knob,
                100.0 * (self.span.max(2.0 * self.doubt)).max(0.01)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::search::bayes::fit::{GOODPUT, fit};
    use crate::search::bayes::gp::Data;
    use crate::space::KnobSection;

    #[test]
    fn a_knob_that_matters_stands_before_one_that_does_not() {
        let text = "[a]\ntype='float'\nrange=[0,1]\ndefault=0\n[b]\ntype='float'\nrange=[0,1]\ndefault=0\n[c]\ntype='choice'\nvalues=['x','y']\ndefault='x'";
        let sections: std::collections::BTreeMap<String, KnobSection> = toml::from_str(text).unwrap();
        let space = Space::from_sections(&sections, &[]).unwrap();
        let points = space.sobol(24, 1);
        let data = Data {
            places: points.iter().map(|point| space.encode(point)).collect(),
            values: points.iter().map(|point| 0.3 * point[0] + 0.1 * point[2]).collect(),
            variances: vec![1e-4; points.len()],
        };
        let model = fit(&space.axes(), 0.2, &GOODPUT, None, &data).unwrap();
        let effects = effects(&space, &model, 1);
        let names: Vec<&str> = effects.iter().map(|effect| effect.knob.as_str()).collect();
        assert_eq!(names, ["a", "c", "b"]);
        assert!((effects[0].span - 0.3_f64.exp_m1()).abs() < 0.05, "{:?}", effects[0]);
        assert!(effects[0].words().contains("between 1 (best) and 0 (worst)"), "{}", effects[0].words());
        assert!(effects[2].words().starts_with("`b` makes no difference"), "{}", effects[2].words());
    }
}
