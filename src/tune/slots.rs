//! What was done on each slot, and whether the slots are alike.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::entry::{Entry, Role, Told};
use super::plan::TunePlan;
use crate::space::Setting;

/// Difference of logs between slots beyond which they are not alike, and standard errors that it must
/// be as well.
const UNLIKE: f64 = 0.1;
const ERRORS: f64 = 2.0;

/// A place where engines ran.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SlotFigures {
    /// Its number, from 1.
    pub slot: u32,
    /// Its values.
    pub values: Setting,
    /// Settings that were tried there, confirmations included.
    pub tried: usize,
    /// Seconds that these took.
    pub seconds: f64,
    /// Why nothing more was tried there, if it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
}

/// The slots of the plan.
pub(super) fn slots(plan: &TunePlan, entries: &[Entry], given_up: &[(u32, String)]) -> Vec<SlotFigures> {
    let figures = |(slot, values): (u32, &Setting)| {
        let own = || entries.iter().filter(|entry| entry.slot == Some(slot));
        SlotFigures {
            slot,
            values: values.clone(),
            tried: own().count(),
            seconds: own().map(|entry| entry.cost.launch + entry.cost.measure).sum(),
            given_up: given_up.iter().find(|(other, _)| *other == slot).map(|(_, why)| why.clone()),
        }
    };
    (1..).zip(&plan.slots).map(figures).collect()
}

/// A candidate of the confirmation (none: the default), and the slot that it was measured on.
type SettingOnSlot = (Option<usize>, u32);

/// The log of a value, and the square of its error.
type LogAndVariance = (f64, f64);

/// The two slots that differ most in what the same settings gave in the confirmation (the slower one
/// first), and by which share, where that is more than chance and little.
pub(super) fn unequal(entries: &[Entry]) -> Option<(u32, u32, f64)> {
    let mut seen: BTreeMap<SettingOnSlot, Vec<LogAndVariance>> = BTreeMap::new();
    for entry in entries {
        let who = match entry.role {
            Role::Explore => continue,
            Role::ConfirmDefault { .. } => None,
            Role::ConfirmCandidate { candidate, .. } => Some(candidate),
        };
        if let (Told::Measured { value, error, .. }, Some(slot)) = (&entry.told, entry.slot) {
            seen.entry((who, slot)).or_default().push((value.ln(), error * error));
        }
    }
    let mean = |of: &[(f64, f64)]| {
        let n = of.len() as f64;
        (of.iter().map(|(log, _)| log).sum::<f64>() / n, of.iter().map(|(_, v)| v).sum::<f64>() / (n * n))
    };
    let numbers: BTreeSet<u32> = seen.keys().map(|(_, slot)| *slot).collect();
    let difference = |a: u32, b: u32| {
        let both = seen.iter().filter(|((_, slot), _)| *slot == a);
        let pairs: Vec<(f64, f64)> = both
            .filter_map(|((who, _), of)| Some((mean(of), mean(seen.get(&(*who, b))?))))
            .map(|((x, v), (y, w))| (x - y, v + w))
            .collect();
        (!pairs.is_empty()).then(|| mean(&pairs))
    };
    let pairs = numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| (a, b)));
    let below = pairs.filter_map(|(a, b)| difference(a, b).map(|(log, variance)| (a, b, log, variance)));
    let (slow, fast, log, variance) = below.min_by(|a, b| a.2.total_cmp(&b.2))?;
    (-log > UNLIKE.max(ERRORS * variance.sqrt())).then(|| (slow, fast, 1.0 - log.exp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::tuner::TrialCost;

    fn entry(role: Role, slot: u32, value: f64) -> Entry {
        let told = Told::Measured { value, error: 0.02, abandoned: false };
        let (setting, cost) = (Setting::new(), TrialCost::default());
        Entry {
            id: 1,
            role,
            setting,
            told,
            cost,
            answer: None,
            run: None,
            log: None,
            slot: Some(slot),
            began: None,
        }
    }

    #[test]
    fn slots_that_differ_by_more_than_chance_are_told() {
        let turns = |slow: f64| {
            let mut entries = Vec::new();
            for (turn, slot, share) in [(0, 1, 1.0), (1, 2, slow), (2, 1, 1.02)] {
                entries.push(entry(Role::ConfirmDefault { turn }, slot, 10.0 * share));
                entries.push(entry(Role::ConfirmCandidate { turn, candidate: 0 }, slot, 30.0 * share));
            }
            entries
        };
        let (slow, fast, share) = unequal(&turns(0.7)).unwrap_or_default();
        assert_eq!((slow, fast), (2, 1));
        assert!((share - (1.0 - 0.7 / 1.02_f64.sqrt())).abs() < 1e-9, "{share}");
        assert_eq!(unequal(&turns(0.95)), None);
        assert_eq!(unequal(&turns(0.7)[..2]), None, "one slot alone");
    }
}
