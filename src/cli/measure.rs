//! `plimsoll measure`.

use clap::Args;
use plimsoll::recipe::{
    Bounds, Count, Duration, LoadSection, Purpose, Recipe, StrategyName, StrategySection, TrialSection,
};

use super::exit::ExitCode;
use super::flags::CommonFlags;
use super::{block_on, engine};

/// Measure one load: a fixed number of requests in flight.
///
/// Gives the full summary of that load. An SLO is not needed; where there is one, the load is judged
/// by it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Measure {
    /// Requests in flight.
    #[arg(long, value_name = "N")]
    concurrency: Count,

    /// Completions to count [default: 250, or as many as end in 2 minutes]
    #[arg(long, value_name = "K", conflicts_with = "duration")]
    requests: Option<Count>,

    /// Time to measure instead, once the load has settled.
    #[arg(long)]
    duration: Option<Duration>,

    #[command(flatten)]
    common: CommonFlags,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll measure --concurrency 8
  plimsoll measure --url http://127.0.0.1:8000 --concurrency 32 --duration 30s --json";

/// Longest that a given number of requests is waited for: in effect, until they are there.
const AS_LONG_AS_IT_TAKES: Duration = Duration(7.0 * 86_400.0);
/// Shortest window where the number of requests is given: none to speak of.
const AT_ONCE: Duration = Duration(1e-3);

impl Measure {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Count(users) = self.concurrency;
        let trial = match (self.requests, self.duration) {
            (Some(requests), _) => TrialSection {
                requests: Some(requests),
                min_duration: Some(AT_ONCE),
                max_duration: Some(AS_LONG_AS_IT_TAKES),
            },
            (None, Some(duration)) => TrialSection {
                requests: Some(Count(1)),
                min_duration: Some(duration),
                max_duration: Some(duration),
            },
            (None, None) => TrialSection::default(),
        };
        let (plan, settings) = self.common.resolve(
            Purpose::Measure,
            Recipe {
                load: LoadSection { concurrency: Some(Bounds { min: users, max: users }) },
                strategy: StrategySection {
                    kind: Some(StrategyName::Grid),
                    precision: None,
                    levels: Some(vec![self.concurrency]),
                },
                trial,
                ..Recipe::default()
            },
        )?;
        block_on(engine::measure(plan, settings))
    }
}
