//! What a self-test found, as a document and as a table.

use std::fmt;

use serde::Serialize;

use crate::selftest::tally::{HEADS, Tally};
use crate::selftest::{ADAPTIVE, Options, peers};
use crate::sim::scenarios::{self, Scenario};

/// Which scenarios a result stands among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// The search was developed on them.
    Tuning,
    /// It was not.
    HeldOut,
    /// What real engines do beyond the plain model.
    Features,
    /// Twins on a server with little noise.
    Quiet,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 4] = [Group::Tuning, Group::HeldOut, Group::Features, Group::Quiet];

    /// Its scenarios.
    pub fn scenarios(self) -> Vec<Scenario> {
        match self {
            Group::Tuning => scenarios::tuning(),
            Group::HeldOut => scenarios::held_out(),
            Group::Features => scenarios::features(),
            Group::Quiet => scenarios::quiet(),
        }
    }

    /// What the table calls it.
    pub fn title(self) -> &'static str {
        match self {
            Group::Tuning => "tuning: the search was developed on these",
            Group::HeldOut => "held out: it was not developed on these",
            Group::Features => "features: what real engines do beyond the plain model",
            Group::Quiet => "quiet: twins on a server with little noise",
        }
    }
}

/// Everything that a self-test found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelfTest {
    /// Version of the program.
    pub version: &'static str,
    /// Seed of the first search.
    pub first_seed: u64,
    /// Relative width of the interval at which a search may stop.
    pub precision: f64,
    /// One for each scenario.
    pub scenarios: Vec<ScenarioResult>,
    /// One for each method, over all scenarios.
    pub summary: Vec<MethodSummary>,
}

/// The methods on one scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioResult {
    /// Where the scenario stands.
    pub group: Group,
    /// Its name.
    pub name: &'static str,
    /// What is particular about it.
    pub about: &'static str,
    /// The largest load that meets its SLO.
    pub capacity: u32,
    /// The methods, the adaptive search first.
    pub tallies: Vec<Tally>,
    /// What the adaptive search saves against [`peers::FAIR`], where that ran.
    pub fewer: Option<Fewer>,
}

/// How many times fewer the adaptive search needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fewer {
    /// Of requests.
    pub requests: f64,
    /// Of seconds.
    pub seconds: f64,
}

/// A method over all scenarios; means give each scenario the same weight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodSummary {
    /// The method.
    pub method: String,
    /// Scenarios it ran on.
    pub scenarios: usize,
    /// Mean absolute error.
    pub error: f64,
    /// Mean coverage.
    pub coverage: f64,
    /// Lowest coverage, and the scenario that has it.
    pub lowest_coverage: (f64, String),
    /// Mean share of estimates more than 5 % too high.
    pub over_estimate: f64,
    /// Highest share, and the scenario that has it.
    pub highest_over_estimate: (f64, String),
    /// Highest share of safe loads more than 5 % too high, and the scenario that has it.
    pub highest_over_safe: (f64, String),
    /// Mean requests of a search.
    pub requests: f64,
    /// Mean seconds of a search.
    pub seconds: f64,
}

impl ScenarioResult {
    /// The results of one scenario.
    pub fn new(group: Group, scenario: &Scenario, tallies: Vec<Tally>) -> Self {
        let of = |method: &str| tallies.iter().find(|tally| tally.method == method);
        let fewer = of(ADAPTIVE).zip(of(peers::FAIR)).map(|(ours, fair)| Fewer {
            requests: fair.requests / ours.requests.max(1.0),
            seconds: fair.seconds / ours.seconds.max(1e-9),
        });
        let Scenario { name, about, capacity, .. } = *scenario;
        Self { group, name, about, capacity, tallies, fewer }
    }
}

impl SelfTest {
    /// The results of a run, summed up by method.
    pub fn new(options: &Options, scenarios: Vec<ScenarioResult>) -> Self {
        let mut methods: Vec<String> = Vec::new();
        for tally in scenarios.iter().flat_map(|result| &result.tallies) {
            if !methods.contains(&tally.method) {
                methods.push(tally.method.clone());
            }
        }
        let summary = methods.into_iter().map(|method| MethodSummary::of(method, &scenarios)).collect();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            first_seed: options.first_seed,
            precision: options.precision,
            scenarios,
            summary,
        }
    }

    /// The adaptive search's tally of a scenario.
    pub fn adaptive(&self, scenario: &str) -> Option<&Tally> {
        let result = self.scenarios.iter().find(|result| result.name == scenario)?;
        result.tallies.iter().find(|tally| tally.method == ADAPTIVE)
    }
}

impl MethodSummary {
    fn of(method: String, scenarios: &[ScenarioResult]) -> Self {
        let tallies: Vec<&Tally> =
            scenarios.iter().flat_map(|result| &result.tallies).filter(|t| t.method == method).collect();
        let mean = |figure: fn(&Tally) -> f64| {
            tallies.iter().map(|tally| figure(tally)).sum::<f64>() / tallies.len().max(1) as f64
        };
        let worst = |badness: fn(&Tally) -> f64| {
            let worst = tallies.iter().max_by(|a, b| badness(a).total_cmp(&badness(b)));
            worst.map_or((0.0, String::new()), |tally| (badness(tally), tally.scenario.clone()))
        };
        let (uncovered, scenario) = worst(|tally| -tally.coverage);
        Self {
            scenarios: tallies.len(),
            error: mean(|tally| tally.error),
            coverage: mean(|tally| tally.coverage),
            lowest_coverage: (-uncovered, scenario),
            over_estimate: mean(|tally| tally.over_estimate),
            highest_over_estimate: worst(|tally| tally.over_estimate),
            highest_over_safe: worst(|tally| tally.over_safe),
            requests: mean(|tally| tally.requests),
            seconds: mean(|tally| tally.seconds),
            method,
        }
    }
}

impl fmt::Display for SelfTest {
    /// A table grouped by scenario, then one line for each method.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in Group::ALL {
            let mut results = self.scenarios.iter().filter(|result| result.group == group).peekable();
            if results.peek().is_none() {
                continue;
            }
            writeln!(f, "{}\n{:<17}{:>5}  {:<22}{HEADS}", group.title(), "scenario", "true", "method")?;
            for result in results {
                write!(f, "{result}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "over all scenarios, each with the same weight")?;
        writeln!(
            f,
            "{:<22}{:>6}{:>7}  {:<24}{:>6}  {:<24}{:<24}{:>9}{:>9}",
            "method", "error", "cover", "lowest", ">5%", "highest", "safe>5% highest", "requests", "seconds"
        )?;
        for summary in &self.summary {
            writeln!(f, "{summary}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ScenarioResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, tally) in self.tallies.iter().enumerate() {
            let (name, capacity) =
                if index == 0 { (self.name, self.capacity.to_string()) } else { ("", String::new()) };
            writeln!(f, "{name:<17}{capacity:>5}  {:<22}{}", tally.method, tally.figures())?;
        }
        if let Some(Fewer { requests, seconds }) = self.fewer {
            let fair = peers::FAIR;
            writeln!(
                f,
                "{:<24}{ADAPTIVE}: {requests:.1} x fewer requests, {seconds:.1} x fewer seconds than {fair}",
                ""
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for MethodSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |(share, scenario): &(f64, String)| format!("{share:.3} {scenario}");
        write!(
            f,
            "{:<22}{:>6.3}{:>7.3}  {:<24}{:>6.3}  {:<24}{:<24}{:>9.0}{:>9.0}",
            self.method,
            self.error,
            self.coverage,
            at(&self.lowest_coverage),
            self.over_estimate,
            at(&self.highest_over_estimate),
            at(&self.highest_over_safe),
            self.requests,
            self.seconds
        )
    }
}
