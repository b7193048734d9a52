//! Whether the server has become another one in the middle of a search.
//!
//! Every measuring trial is an anchor: the log of the median time of a token is a line in the log load, `y_k = a + b x_k + e_k`. A server that is swapped, throttled or joined by a neighbour
//! moves all later trials by a step. For each split the step's t statistic is taken with the line
//! fitted beside it; the largest over the splits is held against a bound that the slow noise of a
//! steady server does not reach (docs/search.md has the rate of false alarms).

/// What is kept of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// When the trial's measured window began, seconds.
    pub at: f64,
    /// Log load.
    pub log_load: f64,
    /// Log of the median time of a token, seconds.
    pub log_time: f64,
}

/// A step in the server's pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Measured window that the first trial after it began with, seconds.
    pub at: f64,
    /// Change of the log time: positive is slower.
    pub change: f64,
}

/// Fewest trials on each side of a step.
const SIDE: usize = 3;
/// Smallest step that is looked for, and the t statistic from which it is believed.
const LEAST: (f64, f64) = (0.13, 4.5);
/// Smallest sd of a trial's log time: of slow noise, which neighbours
/// share so that the residuals of a few of them do not show it.
const OWN: f64 = 0.045;

/// The step that the trials show, if they show one.
pub fn step(paces: &[Pace]) -> Option<Step> {
    let mut best: Option<(f64, Step)> = None;
    for split in SIDE..(paces.len() + 1).saturating_sub(SIDE) {
        let Some((change, t)) = step_at(paces, split) else { continue };
        if best.is_none_or(|(top, _)| t.abs() > top) {
            best = Some((t.abs(), Step { at: paces[split].at, change }));
        }
    }
    best.filter(|(t, step)| *t >= LEAST.1 && step.change.abs() >= LEAST.0).map(|(_, step)| step)
}

/// The step between the trials before `split` and from it on, with its t statistic: least squares of a
/// common slope and two levels.
fn step_at(paces: &[Pace], split: usize) -> Option<(f64, f64)> {
    let mean =
        |part: &[Pace], value: fn(&Pace) -> f64| part.iter().map(value).sum::<f64>() / part.len() as f64;
    let parts = [&paces[..split], &paces[split..]];
    let (mut sxx, mut sxy, mut syy) = (0.0, 0.0, 0.0);
    for part in parts {
        let (x, y) = (mean(part, |pace| pace.log_load), mean(part, |pace| pace.log_time));
        for pace in part {
            sxx += (pace.log_load - x).powi(2);
            sxy += (pace.log_load - x) * (pace.log_time - y);
            syy += (pace.log_time - y).powi(2);
        }
    }
    // Loads that hardly differ tell no slope; the time of a request then hardly depends on them either.
    let slope = if sxx > 1e-3 { (sxy / sxx).clamp(0.0, 3.0) } else { 0.0 };
    let freedom = paces.len() as f64 - 3.0;
    if freedom < 1.0 {
        return None;
    }
    let rest = (syy - 2.0 * slope * sxy + slope * slope * sxx).max(0.0);
    let sd = (rest / freedom).sqrt().max(OWN);
    let apart = mean(parts[1], |pace| pace.log_load) - mean(parts[0], |pace| pace.log_load);
    let change = mean(parts[1], |pace| pace.log_time) - mean(parts[0], |pace| pace.log_time) - slope * apart;
    let spread = if sxx > 1e-3 { apart * apart / sxx } else { 0.0 };
    let error = sd * (1.0 / parts[0].len() as f64 + 1.0 / parts[1].len() as f64 + spread).sqrt();
    Some((change, change / error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rng::Stream;

    fn paces(seed: u64, from: usize, change: f64, noise: f64) -> Vec<Pace> {
        let mut stream = Stream::new(seed, "paces");
        (0..14)
            .map(|k| {
                let log_load = 4.6 + 0.1 * (stream.uniform() - 0.5);
                let moved = if k >= from { change } else { 0.0 };
                let log_time = 1.0 + 0.8 * log_load + moved + noise * stream.normal();
                Pace { at: 10.0 * k as f64, log_load, log_time }
            })
            .collect()
    }

    #[test]
    fn a_server_that_turns_a_fifth_slower_is_seen_and_when() {
        let found = (0..100).filter(|&seed| {
            step(&paces(seed, 6, 0.2, 0.03))
                .is_some_and(|step| step.change > 0.1 && (step.at - 60.0).abs() <= 10.0)
        });
        assert!(found.count() >= 97);
    }

    #[test]
    fn a_steady_server_gives_no_alarm() {
        assert_eq!((0..1000).filter(|&seed| step(&paces(seed, 99, 0.0, 0.04)).is_some()).count(), 0);
    }

    #[test]
    fn a_load_that_moves_is_no_step_of_the_server() {
        let mut moved = paces(1, 99, 0.0, 0.01);
        for pace in &mut moved[7..] {
            pace.log_load += 0.3;
            pace.log_time += 0.8 * 0.3;
        }
        assert_eq!(step(&moved), None);
        assert_eq!(step(&moved[..3]), None);
    }
}
