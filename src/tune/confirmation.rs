//! The paired confirmation: who is measured when, and what the pairs say.

use super::entry::{Entry, Role, Told};
use crate::search::confirm::{Gain, gain};
use crate::space::Setting;

/// Stated probability that the interval of the gain holds it.
const CONFIDENCE: f64 = 0.95;

/// The order of one turn: default and candidates, the other way round every second time, so that
/// nobody is always first.
pub fn turn(turn: usize, candidates: usize) -> Vec<Role> {
    let mut roles = vec![Role::ConfirmDefault { turn }];
    roles.extend((0..candidates).map(|candidate| Role::ConfirmCandidate { turn, candidate }));
    if turn % 2 == 1 {
        roles.reverse();
    }
    roles
}

/// A candidate with its gain over the default.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmed {
    /// Its setting.
    pub setting: Setting,
    /// Its gain; none where pairs are wanting.
    pub gain: Option<Gain>,
    /// Whether it failed in the confirmation.
    pub failed: bool,
}

/// The candidates in the order of their gains, those that failed last.
pub fn confirmed(entries: &[Entry]) -> Vec<Confirmed> {
    let logs = |told: &Told| match told {
        Told::Measured { value, error, .. } => Some((value.ln(), error * error)),
        Told::Failed { .. } => None,
    };
    let mut found: Vec<Confirmed> = Vec::new();
    for index in 0.. {
        let own: Vec<(usize, &Entry)> = entries
            .iter()
            .filter_map(|entry| match entry.role {
                Role::ConfirmCandidate { turn, candidate } if candidate == index => Some((turn, entry)),
                _ => None,
            })
            .collect();
        let Some((_, first)) = own.first() else { break };
        let (mut pairs, mut known) = (Vec::new(), 0.0);
        for (turn, entry) in &own {
            let default = entries.iter().find(|other| other.role == Role::ConfirmDefault { turn: *turn });
            let both = logs(&entry.told).zip(default.and_then(|default| logs(&default.told)));
            if let Some(((candidate, a), (default, b))) = both {
                pairs.push((candidate, default));
                known += a + b;
            }
        }
        let gain = gain(&pairs, known / pairs.len().max(1) as f64, CONFIDENCE);
        let failed = own.iter().any(|(_, entry)| matches!(entry.told, Told::Failed { .. }));
        found.push(Confirmed { setting: first.setting.clone(), gain, failed });
    }
    let estimate = |one: &Confirmed| one.gain.map_or(f64::NEG_INFINITY, |gain| gain.estimate);
    found.sort_by(|a, b| a.failed.cmp(&b.failed).then(estimate(b).total_cmp(&estimate(a))));
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::search::tuner::{FailureKind, TrialCost};
    use crate::space::KnobValue;

    fn entry(role: Role, knob: i64, value: Option<f64>) -> Entry {
        let told = match value {
            Some(value) => Told::Measured { value, error: 0.01, abandoned: false },
            None => Told::Failed { kind: FailureKind::Crash, what: "gone".to_owned(), log_tail: Vec::new() },
        };
        let setting = Setting::from([("n".to_owned(), KnobValue::Int(knob))]);
        Entry { id: 1, role, setting, told, cost: TrialCost::default(), answer: None, run: None, log: None }
    }

    #[test]
    fn the_order_turns_every_time() {
        let first = turn(0, 2);
        assert_eq!(first[0], Role::ConfirmDefault { turn: 0 });
        assert_eq!(turn(1, 2)[2], Role::ConfirmDefault { turn: 1 });
        assert_eq!(turn(1, 2)[0], Role::ConfirmCandidate { turn: 1, candidate: 1 });
    }

    #[test]
    fn the_runner_up_wins_where_it_gains_more_and_a_crash_loses() {
        let mut entries = Vec::new();
        for turn in 0..3 {
            entries.push(entry(Role::ConfirmDefault { turn }, 0, Some(10.0)));
            entries.push(entry(Role::ConfirmCandidate { turn, candidate: 0 }, 1, Some(11.0)));
            entries.push(entry(Role::ConfirmCandidate { turn, candidate: 1 }, 2, Some(12.0)));
        }
        let found = confirmed(&entries);
        assert_eq!(found[0].setting["n"], KnobValue::Int(2));
        let gain = found[0].gain.unwrap();
        assert!((gain.estimate - 0.2).abs() < 1e-9 && gain.low > 0.15 && gain.pairs == 3, "{gain:?}");
        entries.last_mut().unwrap().told = entry(Role::Explore, 2, None).told;
        let found = confirmed(&entries);
        assert_eq!(found[0].setting["n"], KnobValue::Int(1));
        assert!(found[1].failed && found[1].gain.unwrap().pairs == 2);
    }
}
