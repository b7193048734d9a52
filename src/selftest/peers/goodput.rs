//! Doubling from 4, then halving the bracket, judged by the share of good requests.
//!
//! A level passes when its share reaches the target. Wilson's interval of the share does not steer:
//! it says which levels the probe was too short to resolve. The interval that such a search can stand
//! by therefore runs from the highest level that is resolved as passed to the lowest that is resolved
//! as failed.

use crate::selftest::peers::Found;
use crate::selftest::peers::bench::Bench;
use crate::stats::binomial::wilson;

/// First level.
const FIRST: u32 = 4;
/// Share of good requests that a level must reach.
const TARGET: f64 = 0.95;
/// Confidence of the interval of the share.
const CONFIDENCE: f64 = 0.95;
/// Width of the bracket, relative to its lower end, at which the search ends.
const TOLERANCE: f64 = 0.1;
/// Probes at the most.
const MOST_PROBES: u32 = 15;

/// Searches 1 to `highest`.
pub fn search(bench: &mut Bench, highest: u32) -> Found {
    let (mut passed, mut failed) = (None, None);
    let mut resolved: Vec<(u32, bool)> = Vec::new();
    let mut level = FIRST.min(highest);
    loop {
        let measured = bench.measure(level);
        let share = f64::from(measured.good) / f64::from(measured.of.max(1));
        if share >= TARGET {
            passed = Some(passed.map_or(level, |before: u32| before.max(level)));
        } else {
            failed = Some(failed.map_or(level, |before: u32| before.min(level)));
        }
        let interval = wilson(measured.good, measured.of, CONFIDENCE);
        if interval.low >= TARGET {
            resolved.push((level, true));
        } else if interval.high.is_some_and(|high| high < TARGET) {
            resolved.push((level, false));
        }
        match next(passed, failed, highest) {
            Some(further) if bench.trials() < MOST_PROBES => level = further,
            _ => break,
        }
    }
    let met = passed.unwrap_or(0);
    let of = |side: bool| resolved.iter().filter(move |(_, passed)| *passed == side).map(|&(level, _)| level);
    Found { met, low: of(true).filter(|&level| level <= met).max().unwrap_or(0), high: of(false).min() }
}

/// The next level to probe; `None` where the search has converged.
fn next(passed: Option<u32>, failed: Option<u32>, highest: u32) -> Option<u32> {
    match (passed, failed) {
        (None, None) => None,
        (Some(passed), None) => (passed < highest).then(|| passed.saturating_mul(2).min(highest)),
        (None, Some(failed)) => (failed > 1).then_some(failed / 2),
        (Some(passed), Some(failed)) => {
            let gap = failed.saturating_sub(passed);
            (f64::from(gap) > (TOLERANCE * f64::from(passed)).max(1.0)).then_some(passed + gap / 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_between_the_last_pass_and_the_first_failure_until_a_tenth() {
        assert_eq!(next(Some(64), None, 1024), Some(128));
        assert_eq!(next(Some(600), None, 1024), Some(1024));
        assert_eq!(next(Some(1024), None, 1024), None);
        assert_eq!(next(Some(64), Some(128), 1024), Some(96));
        assert_eq!(next(Some(96), Some(104), 1024), None);
        assert_eq!(next(Some(3), Some(4), 1024), None);
        assert_eq!(next(None, Some(4), 1024), Some(2));
        assert_eq!(next(None, Some(1), 1024), None);
    }
}
