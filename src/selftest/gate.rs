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

/// The scenarios and their bounds: what the search did when they were set, and about a fifth more.
pub const BOUNDS: [Bound; 11] = [
    bound("decode", 0.93, 0.045, 4600.0, 215.0),
    bound("seqcliff", 0.93, 0.015, 3000.0, 150.0),
    bound("kvcliff", 0.93, 0.03, 4400.0, 215.0),
    bound("prefill", 0.93, 0.04, 11000.0, 1950.0),
    bound("twometric", 0.88, 0.055, 9200.0, 435.0),
    bound("dip", 0.9, 0.075, 3400.0, 215.0),
    bound("smallN", 0.93, 0.075, 1250.0, 860.0),
    bound("infeasible", 0.95, 0.1, 600.0, 400.0),
    bound("never", 1.0, 0.0, 1150.0, 60.0),
    bound("H3", 0.93, 0.035, 5300.0, 1040.0),
    bound("decode-quiet", 0.93, 0.03, 3200.0, 150.0),
];

/// Lowest mean coverage over the scenarios.
pub const MEAN_COVERAGE: f64 = 0.94;
/// Highest share of safe loads more than 5 % too high on any scenario.
pub const OVER_SAFE: f64 = 0.05;

/// What the quick form runs.
pub fn quick() -> Options {
    Options {
        scenarios: BOUNDS.iter().map(|bound| bound.scenario.to_owned()).collect(),
        searches: 60,
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
