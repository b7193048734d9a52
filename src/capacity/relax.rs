//! What a looser objective would save.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::fleet::{CapacityError, fleet};
use super::policy::Policy;
use super::server::{ObjectiveCurve, Server};
use crate::slo::Objective;

/// By how much thresholds are loosened.
const FACTORS: [f64; 3] = [1.2, 1.5, 2.0];

/// A fleet under an SLO of which one objective is looser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Relaxed {
    /// The objective as it is, in the SLO grammar.
    pub objective: String,
    /// The looser one.
    pub relaxed: String,
    /// Requests in flight at which the SLO would just hold, as estimated.
    pub concurrency: f64,
    /// Servers it would take.
    pub servers: u32,
    /// Servers fewer than under the SLO as it is.
    pub saves: u32,
    /// The objective that would bind then.
    pub binding: Option<String>,
    /// Whether no measured load exceeds the looser limit: `concurrency` is the largest one measured,
    /// and more may be possible.
    pub beyond_measured: bool,
}

/// What loosening each objective that is a time by 20 %, 50 % and 100 % would save, all others kept.
///
/// The figure of each objective is read off its isotonic regression over the measured loads, straight
/// between them. Capacity is scaled by the ratio of two crossings on these curves, so that what the
/// search knows of the answer, its interval included, is kept.
///
/// # Errors
/// When a fleet cannot be built.
pub fn relaxations(server: &Server, rate: f64, policy: &Policy) -> Result<Vec<Relaxed>, CapacityError> {
    let Some(level) = server.concurrency else { return Ok(Vec::new()) };
    let curves: Vec<(Objective, Curve)> = server
        .objectives
        .iter()
        .filter(|curve| curve.objective.metric.is_time() && !curve.objective.op.wants_large())
        .map(|ObjectiveCurve { objective, points }| (*objective, Curve::fit(points)))
        .filter(|(_, curve)| !curve.is_empty())
        .collect();
    let Some((now, _, _)) = crossing(&curves, None) else { return Ok(Vec::new()) };
    let as_is = fleet(server, rate, policy)?.servers;
    let mut all = Vec::new();
    for (index, (objective, _)) in curves.iter().enumerate() {
        for factor in FACTORS {
            let Some((then, binding, beyond)) = crossing(&curves, Some((index, factor))) else { continue };
            let gain = (then / now).max(1.0);
            let servers = fleet(&server.scaled(gain), rate, policy)?.servers.min(as_is);
            // Rounded, as 1.5 times 0.2 is not 0.3 in binary.
            let threshold = (objective.threshold * factor * 1e9).round() / 1e9;
            let relaxed = Objective { threshold, ..*objective };
            all.push(Relaxed {
                objective: objective.to_string(),
                relaxed: relaxed.to_string(),
                concurrency: level.estimate * gain,
                servers,
                saves: as_is - servers,
                binding: binding.map(|binding| curves[binding].0.to_string()),
                beyond_measured: beyond,
            });
        }
    }
    Ok(all)
}

/// Load at which the first objective is crossed, which one it is, and whether none is within what was
/// measured; one threshold may be multiplied. `None` where an objective is missed at every load.
fn crossing(
    curves: &[(Objective, Curve)],
    relaxed: Option<(usize, f64)>,
) -> Option<(f64, Option<usize>, bool)> {
    let end = curves.iter().filter_map(|(_, curve)| curve.end()).reduce(f64::max)?;
    let mut first = (end, None, true);
    for (index, (objective, curve)) in curves.iter().enumerate() {
        let factor = relaxed.filter(|(which, _)| *which == index).map_or(1.0, |(_, factor)| factor);
        let threshold = objective.threshold * factor;
        if curve.value(0.0) > threshold {
            return None;
        }
        if let Some(load) = curve.last_within(threshold)
            && load <= first.0
        {
            first = (load, Some(index), false);
        }
    }
    Some(first)
}
