//! How well a method did over many searches of one scenario.

use serde::Serialize;

/// What one search said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Said {
    /// Its estimate of the capacity; 0 where it says that the lowest load misses.
    pub estimate: u32,
    /// Lower end of the interval that it states.
    pub low: u32,
    /// Upper end; `None` for "at least `low`".
    pub high: Option<u32>,
    /// Load that it calls safe.
    pub safe: u32,
    /// Trials that it ran.
    pub trials: u32,
    /// Requests that it issued.
    pub requests: u64,
    /// Virtual seconds that it took.
    pub seconds: f64,
}

/// Figures over many searches; shares are 0..1, errors relative to the true capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tally {
    /// Scenario.
    pub scenario: String,
    /// Method.
    pub method: String,
    /// True capacity.
    pub capacity: u32,
    /// Searches.
    pub searches: usize,
    /// Mean absolute error of the estimate.
    pub error: f64,
    /// Mean signed error.
    pub bias: f64,
    /// Share of searches whose interval holds the true capacity.
    pub coverage: f64,
    /// Share whose estimate is more than 5 % above the true capacity.
    pub over_estimate: f64,
    /// Share whose safe load is more than 5 % above it.
    pub over_safe: f64,
    /// Median width of the interval relative to the estimate.
    pub width: f64,
    /// Mean trials.
    pub trials: f64,
    /// Mean requests.
    pub requests: f64,
    /// Mean seconds.
    pub seconds: f64,
}

impl Tally {
    /// Adds up what the searches said of a server whose capacity is known.
    pub fn of(scenario: &str, method: &str, capacity: u32, said: &[Said]) -> Self {
        let n = said.len().max(1) as f64;
        let truth = f64::from(capacity.max(1));
        let relative = |value: u32| (f64::from(value) - f64::from(capacity)) / truth;
        let mean = |value: &dyn Fn(&Said) -> f64| said.iter().map(value).sum::<f64>() / n;
        let share = |test: &dyn Fn(&Said) -> bool| said.iter().filter(|s| test(s)).count() as f64 / n;
        let mut widths: Vec<f64> = said
            .iter()
            .map(|s| {
                s.high.map_or(0.0, |high| f64::from(high - s.low.min(high)) / f64::from(s.estimate.max(1)))
            })
            .collect();
        widths.sort_unstable_by(f64::total_cmp);
        Self {
            scenario: scenario.to_owned(),
            method: method.to_owned(),
            capacity,
            searches: said.len(),
            error: mean(&|s| relative(s.estimate).abs()),
            bias: mean(&|s| relative(s.estimate)),
            coverage: share(&|s| s.low <= capacity && s.high.is_none_or(|high| high >= capacity)),
            over_estimate: share(&|s| relative(s.estimate) > 0.05),
            over_safe: share(&|s| relative(s.safe) > 0.05),
            width: widths.get(widths.len() / 2).copied().unwrap_or(0.0),
            trials: mean(&|s| f64::from(s.trials)),
            requests: mean(&|s| s.requests as f64),
            seconds: mean(&|s| s.seconds),
        }
    }
}

/// Heads of the columns of [`Tally::figures`].
pub const HEADS: &str = "     n   error    bias  cover    >5%  safe>5%  width  trials  requests  seconds";

impl Tally {
    /// The figures in columns, below [`HEADS`].
    pub fn figures(&self) -> String {
        format!(
            "{:>6}{:>8.3}{:>+8.3}{:>7.3}{:>7.3}{:>9.3}{:>7.3}{:>8.1}{:>10.0}{:>9.0}",
            self.searches,
            self.error,
            self.bias,
            self.coverage,
            self.over_estimate,
            self.over_safe,
            self.width,
            self.trials,
            self.requests,
            self.seconds
        )
    }
}
