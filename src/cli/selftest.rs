//! `plimsoll selftest`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use plimsoll::recipe::{Count, Precision};
use plimsoll::selftest::{self, Options, Progress, gate, tune};

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

    /// Hold the tuner, instead of the search, against an engine with four knobs in virtual time; beside
    /// it Sobol, random and grid.
    #[arg(long, conflicts_with_all = ["quick", "scenario", "precision", "peers", "peer_searches"])]
    tune: bool,

    /// Write the true goodput of every setting of that engine into a JSON file.
    #[arg(long, value_name = "FILE", requires = "tune")]
    table: Option<PathBuf>,

    /// Print the result as JSON on stdout instead of the table.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll selftest --quick
  plimsoll selftest --scenario decode,seqcliff --searches 50 --peers
  plimsoll selftest --tune --searches 100";

impl SelfTest {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.tune {
            return self.run_tune();
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

    fn run_tune(&self) -> anyhow::Result<ExitCode> {
        eprintln!("computing the true goodput of every setting");
        let problem = tune::Problem::compute()?;
        if let Some(path) = &self.table {
            let rows: Vec<&tune::Row> = problem.rows().collect();
            std::fs::write(path, serde_json::to_string(&rows)? + "\n")
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        let options = self.options();
        let searches = self.searches.map_or(100, |Count(count)| count as usize);
        let result = tune::compare(&problem, searches, options.first_seed, &mut |tally| {
            eprintln!("{}: {} searches", tally.method, tally.searches);
        });
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
