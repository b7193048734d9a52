//! `plimsoll selftest`.

use clap::Args;
use plimsoll::recipe::{Count, Precision};
use plimsoll::selftest::rate::{self, RateOptions};
use plimsoll::selftest::{self, Options, Progress, gate};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::output;

/// Hold the search against simulated servers whose capacity is known.
///
/// Whole searches run in virtual time. The table gives the error of their answers, the share of
/// intervals that hold the truth, and what a search costs; see docs/selftest.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SelfTest {
    /// A fixed small set, within a minute; ends with exit code 7 where a bound on coverage, error or
    /// cost is broken.
    #[arg(long, conflicts_with_all = ["scenario", "searches", "seed", "precision", "peers", "peer_searches"])]
    quick: bool,

    /// Scenarios to search [default: all]
    #[arg(long, value_name = "NAME,NAME,..", value_delimiter = ',')]
    scenario: Vec<String>,

    /// Searches of each scenario [default: 200]
    #[arg(long, value_name = "K")]
    searches: Option<Count>,

    /// Seed of the first search; each further one has the next [default: 1]
    #[arg(long)]
    seed: Option<u64>,

    /// Relative width of the interval at which a search may stop [default: 20%]
    #[arg(long, value_name = "PERCENT")]
    precision: Option<Precision>,

    /// Run the methods of other tools too, written anew from their published behaviour.
    #[arg(long)]
    peers: bool,

    /// Searches of each scenario by each of those methods [default: 50]
    #[arg(long, value_name = "K", requires = "peers")]
    peer_searches: Option<Count>,

    /// Hold the search over request rates (open loop) against servers whose largest rate is known.
    #[arg(long, conflicts_with_all = ["quick", "scenario", "peers", "peer_searches"])]
    rate: bool,

    /// Print the result as JSON on stdout instead of the table.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll selftest --quick
  plimsoll selftest --rate --searches 100
  plimsoll selftest --scenario decode,seqcliff --searches 50 --peers";

impl SelfTest {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.rate {
            return self.rates();
        }
        let options = if self.quick { gate::quick() } else { self.options() };
        let result = selftest::run(&options, &mut |Progress { done: (done, of), tally }| {
            eprintln!("{done}/{of}  {}: {}, {} searches", tally.scenario, tally.method, tally.searches);
        })?;
        output::print(&if self.json {
            serde_json::to_string_pretty(&result)? + "\n"
        } else {
            result.to_string()
        })?;
        let broken = if self.quick { gate::broken(&result) } else { Vec::new() };
        if broken.is_empty() {
            return Ok(ExitCode::Answered);
        }
        let message = format!("the search breaks a bound: {}", broken.join("; "));
        Err(Complaint::new(ExitCode::GateFailed, message)
            .hint("compare with the table in docs/selftest.md; the bounds are in src/selftest/gate.rs")
            .into())
    }

    fn rates(&self) -> anyhow::Result<ExitCode> {
        let Options { searches, first_seed, precision, .. } = self.options();
        let result = rate::run(RateOptions { searches, first_seed, precision }, &mut |case| {
            eprintln!("{}: {} searches", case.tally.scenario, case.tally.searches);
        })?;
        output::print(&if self.json {
            serde_json::to_string_pretty(&result)? + "\n"
        } else {
            result.to_string()
        })?;
        Ok(ExitCode::Answered)
    }

    fn options(&self) -> Options {
        let default = Options::default();
        let count =
            |given: Option<Count>, default: usize| given.map_or(default, |Count(count)| count as usize);
        Options {
            scenarios: self.scenario.clone(),
            searches: count(self.searches, default.searches),
            first_seed: self.seed.unwrap_or(default.first_seed),
            precision: self.precision.map_or(default.precision, |Precision(share)| share),
            peers: self.peers,
            peer_searches: count(self.peer_searches, default.peer_searches),
        }
    }
}
