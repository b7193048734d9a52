//! `plimsoll search`.

use std::net::SocketAddr;

use clap::Args;
use plimsoll::recipe::{
    ArrivalsName, Bounds, BudgetSection, Count, Duration, LoadSection, Precision, Purpose, Rates, Recipe,
    ReplaySection, Speeds, StrategyName, StrategySection, TrialSection, Window, WorkloadSection,
};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::flags::CommonFlags;
use super::{block_on, engine, repeats, verify};

/// Find the most concurrent requests, the highest request rate, or the largest speed-up of a trace that
/// still meets the SLO.
///
/// Without `--url` or `--launch` the simulated engine is started in this process and measured over HTTP.
/// The answer is an interval; everything that was measured is kept in a run folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Search {
    #[command(flatten)]
    how: SearchFlags,

    #[command(flatten)]
    common: CommonFlags,

    /// Show the report live in a browser, at this address; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Output")]
    serve: Option<SocketAddr>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
struct SearchFlags {
    /// Fewest and most requests in flight that may be tried; users, with --think or --turns [default: 1..1024]
    #[arg(long, value_name = "MIN..MAX")]
    concurrency: Option<Bounds>,

    /// Search for the highest request rate instead (open loop): lowest and highest rate that may be
    /// tried, requests a second, such as 0.5..200.
    #[arg(long, value_name = "MIN..MAX", conflicts_with = "concurrency")]
    rate: Option<Rates>,

    /// Search for how many times faster a trace may come: each trial replays it at its timestamps, with its
    /// lengths and prefixes (Mooncake JSONL, Azure or BurstGPT CSV, or a log with timestamps).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["concurrency", "rate"], requires = "speed_up")]
    trace: Option<String>,

    /// Least and most that the trace may be sped up, such as 0.5..10.
    #[arg(long, value_name = "MIN..MAX", requires = "trace")]
    speed_up: Option<Speeds>,

    /// The part of the trace that each trial replays, such as 0s..120s [default: all of it]
    #[arg(long, value_name = "FROM..TO", requires = "trace")]
    window: Option<Window>,

    /// How the arrivals of an open loop are spaced: poisson (the default), constant, or gamma(SHAPE) with
    /// a shape below 1 for bursts.
    #[arg(long, value_name = "PROCESS", conflicts_with = "trace")]
    arrivals: Option<ArrivalsName>,

    /// Most requests in flight of an open loop; those beyond wait, and their waiting counts in their
    /// latency [default: 4096]
    #[arg(long, value_name = "K")]
    in_flight_cap: Option<Count>,

    /// After a search over concurrency, send the request rate that was found there as an open loop, and
    /// see whether it holds.
    #[arg(long, conflicts_with_all = ["rate", "trace"])]
    verify_rate: bool,

    /// How to search: adaptive (the default), bisect or grid.
    #[arg(long)]
    strategy: Option<StrategyName>,

    /// Relative width at which the search may stop: of the interval (adaptive, 20%) or of the
    /// bracket (bisect, 5%).
    #[arg(long, value_name = "PERCENT")]
    precision: Option<Precision>,

    /// The levels of a grid, such as 1,4,16,64 [default: eight, log-spaced]
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    levels: Option<Vec<Count>>,

    /// Whole searches with fresh seeds, put together to one answer that holds the spread from run to run;
    /// an engine that is launched is launched anew for each. Budgets are those of each search.
    #[arg(long, value_name = "K")]
    repeats: Option<Count>,

    /// Completions that a trial of bisect or grid counts [default: 250]; the adaptive search sizes its
    /// own.
    #[arg(long, value_name = "K")]
    requests: Option<Count>,

    /// Longest the search may take; the best answer within it is given.
    #[arg(long, value_name = "DURATION")]
    budget: Option<Duration>,

    /// Most requests that the search may send.
    #[arg(long, value_name = "K")]
    max_requests: Option<Count>,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll search
  plimsoll search --url http://127.0.0.1:8000 --slo 'ttft p95 < 500ms' --slo 'itl p95 < 50ms'
  plimsoll search --rate 0.5..200 --arrivals poisson
  plimsoll search --trace trace.jsonl --speed-up 0.5..10 --window 0s..120s
  plimsoll search --slo 'ttft p99 < 800ms over 10s worst' --budget 20m
  plimsoll search --turns 5 --think 'exponential(2s)' --concurrency 1..256
  plimsoll search --recipe chat --url http://127.0.0.1:8000 --concurrency 1..256 --budget 20m
  plimsoll search --launch 'llama-server -m model.gguf --port {port}' --slo 'ttft p95 < 500ms'
  plimsoll search --repeats 3 --budget 5m
  plimsoll search --serve 127.0.0.1:8088";

impl Search {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let how = self.how;
        let (plan, settings) = self.common.resolve(
            Purpose::Search,
            Recipe {
                load: LoadSection {
                    concurrency: how.concurrency,
                    rate: how.rate,
                    arrivals: how.arrivals,
                    in_flight_cap: how.in_flight_cap,
                    replay: how
                        .trace
                        .is_some()
                        .then_some(ReplaySection { speed_up: how.speed_up, window: how.window }),
                    ..LoadSection::default()
                },
                workload: WorkloadSection { dataset: how.trace, ..WorkloadSection::default() },
                strategy: StrategySection {
                    kind: how.strategy,
                    precision: how.precision,
                    levels: how.levels,
                    repeats: how.repeats,
                },
                trial: TrialSection { requests: how.requests, ..TrialSection::default() },
                budget: BudgetSection { duration: how.budget, requests: how.max_requests },
                ..Recipe::default()
            },
        )?;
        if plan.repeats > 1 {
            let alone = [(how.verify_rate, "--verify-rate"), (self.serve.is_some(), "--serve")];
            if let Some((_, flag)) = alone.into_iter().find(|(given, _)| *given) {
                let text = format!("`{flag}` is for one search, but {} are asked for", plan.repeats);
                let hint = "leave it out, or leave `--repeats` (`strategy.repeats`) out";
                return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
            }
            return block_on(repeats::search(plan, settings));
        }
        if how.verify_rate && plan.workload.sessions.is_some() {
            let text = "`--verify-rate` sends requests, but `--turns` asks for conversations";
            let hint = "search the rate of conversations itself: `--rate 0.1..20`";
            return Err(Complaint::new(ExitCode::Usage, text).hint(hint).into());
        }
        if how.verify_rate {
            return block_on(verify::search_and_verify(plan, settings));
        }
        block_on(engine::search(plan, settings, self.serve))
    }
}
