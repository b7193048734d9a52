//! `plimsoll measure`.

use clap::Args;
use plimsoll::recipe::{
    ArrivalsName, Bounds, Count, Duration, LoadSection, Purpose, Rates, Recipe, StrategyName,
    StrategySection, TrialSection,
};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::flags::CommonFlags;
use super::{block_on, engine};

/// Measure one load: a fixed number of requests in flight, or a rate of arrivals.
///
/// Gives the full summary of that load. An SLO is not needed; where there is one, the load is judged
/// by it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Measure {
    /// Requests in flight (closed loop).
    #[arg(long, value_name = "N", required_unless_present = "rate", conflicts_with = "rate")]
    concurrency: Option<Count>,

    /// Arrivals, requests a second (open loop): latency counts from when a request was due.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rates>,

    /// How arrivals are spaced: poisson (the default), constant, or gamma(SHAPE) with a shape below 1 for
    /// bursts.
    #[arg(long, value_name = "PROCESS", requires = "rate")]
    arrivals: Option<ArrivalsName>,

    /// Most requests in flight of an open loop; those beyond wait, and their waiting counts in their
    /// latency [default: 4096]
    #[arg(long, value_name = "K", requires = "rate")]
    in_flight_cap: Option<Count>,

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
  plimsoll measure --rate 20 --arrivals poisson --duration 30s
  plimsoll measure --url http://127.0.0.1:8000 --concurrency 32 --duration 30s --json";

/// Longest that a given number of requests is waited for: in effect, until they are there.
const AS_LONG_AS_IT_TAKES: Duration = Duration(7.0 * 86_400.0);
/// Shortest window where the number of requests is given: none to speak of.
const AT_ONCE: Duration = Duration(1e-3);

impl Measure {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(Rates { min, max }) = self.rate
            && min != max
        {
            return Err(Complaint::new(ExitCode::Usage, format!("`--rate {min}..{max}` is a range"))
                .hint("measure one rate, such as `--rate 20`; `plimsoll search --rate` searches a range")
                .into());
        }
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
                load: LoadSection {
                    concurrency: self.concurrency.map(|Count(users)| Bounds { min: users, max: users }),
                    rate: self.rate,
                    arrivals: self.arrivals,
                    in_flight_cap: self.in_flight_cap,
                },
                strategy: StrategySection {
                    kind: Some(StrategyName::Grid),
                    precision: None,
                    levels: self.concurrency.map(|users| vec![users]),
                    repeats: None,
                },
                trial,
                ..Recipe::default()
            },
        )?;
        block_on(engine::measure(plan, settings))
    }
}
