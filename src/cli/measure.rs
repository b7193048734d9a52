//! `plimsoll measure`.

use clap::{ArgGroup, Args};
use plimsoll::recipe::{
    ArrivalsName, Bounds, Count, Duration, LoadSection, Purpose, Ramp, Rates, Recipe, ReplaySection, Speeds,
    StrategyName, StrategySection, TrialSection, UsersRamp, Window, WorkloadSection,
};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::flags::CommonFlags;
use super::{block_on, engine};

/// Measure one load: a fixed number of requests in flight, a rate of arrivals, a trace, or a ramp.
///
/// Gives the full summary of that load. An SLO is not needed; where there is one, the load is judged
/// by it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("load").required(true))]
pub struct Measure {
    /// Requests in flight (closed loop); users, with --think or --turns.
    #[arg(long, value_name = "N", group = "load")]
    concurrency: Option<Count>,

    /// Arrivals, requests a second (open loop): latency counts from when a request was due. With --turns
    /// conversations a second.
    #[arg(long, value_name = "RATE", group = "load")]
    rate: Option<Rates>,

    /// Replay a trace: arrivals at its timestamps, with its lengths and prefixes (Mooncake JSONL, Azure or
    /// BurstGPT CSV, or a log with timestamps).
    #[arg(long, value_name = "FILE", group = "load")]
    trace: Option<String>,

    /// How many times faster the trace is replayed [default: 1]
    #[arg(long, value_name = "FACTOR", requires = "trace")]
    speed_up: Option<Speeds>,

    /// The part of the trace that is replayed, such as 0s..600s [default: all of it]
    #[arg(long, value_name = "FROM..TO", requires = "trace")]
    window: Option<Window>,

    /// Arrivals at a rate that moves along a CSV `seconds,rate`, linear between its points.
    #[arg(long, value_name = "FILE", group = "load")]
    rate_series: Option<String>,

    /// Arrivals at a rate that rises or falls: 'linear(1..50/s in 60s)' or 'exponential(1..50/s in 60s)'.
    #[arg(long, value_name = "RAMP", group = "load")]
    ramp: Option<Ramp>,

    /// Requests in flight that rise or fall, one user at a time (closed loop): 'linear(1..64 in 60s)' or
    /// 'exponential(1..64 in 60s)'.
    #[arg(long, value_name = "RAMP", group = "load")]
    ramp_users: Option<UsersRamp>,

    /// How arrivals are spaced: poisson (the default), constant, or gamma(SHAPE) with a shape below 1 for
    /// bursts.
    #[arg(long, value_name = "PROCESS", conflicts_with_all = ["concurrency", "ramp_users", "trace"])]
    arrivals: Option<ArrivalsName>,

    /// Most requests in flight of an open loop; those beyond wait, and their waiting counts in their
    /// latency [default: 4096]
    #[arg(long, value_name = "K", conflicts_with_all = ["concurrency", "ramp_users"])]
    in_flight_cap: Option<Count>,

    /// Completions to count [default: 250, or as many as end in 2 minutes]
    #[arg(long, value_name = "K", conflicts_with_all = ["duration", "ramp_users"])]
    requests: Option<Count>,

    /// Time to measure instead, once the load has settled.
    #[arg(long, conflicts_with_all = ["trace", "rate_series", "ramp", "ramp_users"])]
    duration: Option<Duration>,

    #[command(flatten)]
    common: CommonFlags,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll measure --concurrency 8
  plimsoll measure --rate 20 --arrivals poisson --duration 30s
  plimsoll measure --trace trace.jsonl --speed-up 2 --window 0s..600s
  plimsoll measure --ramp 'exponential(1..50/s in 60s)'
  plimsoll measure --ramp-users 'linear(1..64 in 60s)'
  plimsoll measure --concurrency 100 --turns 5 --think 'exponential(2s)' --slo 'ttft[later] p95 < 300ms'
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
                    series: self.rate_series,
                    ramp: self.ramp,
                    ramp_users: self.ramp_users,
                    replay: self
                        .trace
                        .is_some()
                        .then_some(ReplaySection { speed_up: self.speed_up, window: self.window }),
                    think: None,
                },
                workload: WorkloadSection { dataset: self.trace, ..WorkloadSection::default() },
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
