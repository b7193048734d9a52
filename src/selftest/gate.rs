//! The quick form: a fixed small set of searches with bounds, for every change to pass.

use crate::selftest::{Options, SelfTest};

/// What the adaptive search must keep on one scenario of the quick form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The scenario.
    pub scenario: &'static str,
    /// Lowest coverage.
    pub coverage: f64,
    /// Highest mean error.
    pub error: f64,
    /// Most requests of a search, on average.
    pub requests: f64,
    /// Most seconds of a search, on average.
    pub seconds: f64,
}

const fn bound(scenario: &'static str, coverage: f64, error: f64, requests: f64, seconds: f64) -> Bound {
    Bound { scenario, coverage, error, requests, seconds }
}

/// The scenarios and their bounds.
pub const BOUNDS: [Bound; 8] = [
    bound("decode", 0.9, 0.05, 4000.0, 200.0),
    bound("seqcliff", 0.9, 0.03, 5000.0, 250.0),
    bound("kvcliff", 0.85, 0.04, 7000.0, 350.0),
    bound("prefill", 0.85, 0.08, 9000.0, 1600.0),
    bound("dip", 0.85, 0.15, 4000.0, 300.0),
    bound("smallN", 0.9, 0.1, 2500.0, 1500.0),
    bound("infeasible", 0.95, 0.1, 800.0, 400.0),
    bound("never", 1.0, 0.01, 2000.0, 150.0),
];

/// Lowest mean coverage over the scenarios.
pub const MEAN_COVERAGE: f64 = 0.92;
/// Highest share of safe loads more than 5 % too high on any scenario.
pub const OVER_SAFE: f64 = 0.1;

/// What the quick form runs.
pub fn quick() -> Options {
    Options {
        scenarios: BOUNDS.iter().map(|bound| bound.scenario.to_owned()).collect(),
        searches: 40,
        ..Options::default()
    }
}

/// The bounds that a result breaks, one line each.
pub fn broken(result: &SelfTest) -> Vec<String> {
    let mut broken = Vec::new();
    let mut coverage = 0.0;
    for bound in &BOUNDS {
        let Some(tally) = result.adaptive(bound.scenario) else {
            broken.push(format!("{}: did not run", bound.scenario));
            continue;
        };
        coverage += tally.coverage / BOUNDS.len() as f64;
        let mut at_most = |what: &str, value: f64, limit: f64, digits: usize| {
            if value > limit {
                broken.push(format!(
                    "{}: {what} is {value:.digits$}, the bound is at most {limit:.digits$}",
                    bound.scenario
                ));
            }
        };
        at_most("the mean error", tally.error, bound.error, 3);
        at_most("the share of safe loads more than 5 % too high", tally.over_safe, OVER_SAFE, 3);
        at_most("the mean number of requests", tally.requests, bound.requests, 0);
        at_most("the mean number of seconds", tally.seconds, bound.seconds, 0);
        if tally.coverage < bound.coverage {
            broken.push(format!(
                "{}: the coverage is {:.3}, the bound is at least {:.3}",
                bound.scenario, tally.coverage, bound.coverage
            ));
        }
    }
    if coverage < MEAN_COVERAGE {
        broken.push(format!("the mean coverage is {coverage:.3}, the bound is at least {MEAN_COVERAGE:.3}"));
    }
    broken
}
