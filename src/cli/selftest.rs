//! `plimsoll selftest`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use plimsoll::recipe::{Count, Precision};
use plimsoll::selftest::pairs::{self, GateOptions};
use plimsoll::selftest::rate::{self, RateOptions};
use plimsoll::selftest::{self, Options, Progress, gate, tune};
use plimsoll::sim::scenarios::{self, Scenario};

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

    /// Instead: how often `plimsoll gate` errs, on pairs of the same server and of one 10 % slower.
    #[arg(long, conflicts_with_all = ["quick", "peers", "anew"])]
    gate: bool,

    /// Instead: whether a run that `plimsoll analyze` judges anew agrees with a fresh search.
    #[arg(long, conflicts_with_all = ["quick", "peers", "gate"])]
    anew: bool,

    /// Share of the capacity that the gate allows to be lost [default: 5%]
    #[arg(long, value_name = "PERCENT", requires = "gate")]
    max_loss: Option<Precision>,

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
  plimsoll selftest --rate --searches 100
  plimsoll selftest --scenario decode,seqcliff --searches 50 --peers
  plimsoll selftest --gate --scenario decode-quiet --searches 1000
  plimsoll selftest --anew --searches 200
  plimsoll selftest --tune --searches 100";

impl SelfTest {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.rate {
            return self.rates();
        }
        if self.gate {
            return self.gates();
        }
        if self.anew {
            return self.judged_anew();
        }
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

    fn rates(&self) -> anyhow::Result<ExitCode> {
        let Options { searches, first_seed, precision, .. } = self.options();
        let result = rate::run(RateOptions { searches, first_seed, precision }, &mut |case| {
            eprintln!("{}: {} searches", case.tally.scenario, case.tally.searches);
        })?;
        self.show(&result)
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
        self.show(&result)
    }

    fn show<T: serde::Serialize + std::fmt::Display>(&self, result: &T) -> anyhow::Result<ExitCode> {
        output::print(&if self.json {
            serde_json::to_string_pretty(result)? + "\n"
        } else {
            result.to_string()
        })?;
        Ok(ExitCode::Answered)
    }

    /// Gates against the same server and against one that takes 10 % longer for every step.
    fn gates(&self) -> anyhow::Result<ExitCode> {
        let options = self.options();
        let names =
            if self.scenario.is_empty() { vec!["decode-quiet".to_owned()] } else { self.scenario.clone() };
        let mut tallies = Vec::new();
        for name in &names {
            let scenario = scenario(name)?;
            for slower in [1.0, 1.1] {
                let options = GateOptions {
                    pairs: options.searches,
                    first_seed: options.first_seed,
                    precision: self.precision.map_or(0.05, |Precision(share)| share),
                    max_loss: self.max_loss.map_or(0.05, |Precision(share)| share),
                    rates: (0.05, 0.05),
                    budget: 900.0,
                    slower,
                };
                tallies.push(pairs::gates(&scenario, &options)?);
                eprintln!("{name}: {} pairs, slower by {slower}", options.pairs);
            }
        }
        if self.json {
            output::print(&(serde_json::to_string_pretty(&tallies)? + "\n"))?;
            return Ok(ExitCode::Answered);
        }
        let mut text = format!(
            "{:<16}{:>7}{:>7}{:>8}{:>8}{:>11}{:>9}{:>8}{:>9}\n",
            "scenario", "slower", "pairs", "passed", "failed", "undecided", "change", "trials", "seconds"
        );
        for tally in &tallies {
            text.push_str(&format!(
                "{:<16}{:>7.2}{:>7}{:>8}{:>8}{:>11}{:>8.1}%{:>8.1}{:>9.0}\n",
                tally.scenario,
                tally.slower,
                tally.pairs,
                tally.passed,
                tally.failed,
                tally.undecided,
                tally.change * 100.0,
                tally.trials,
                tally.seconds
            ));
        }
        output::print(&text)?;
        Ok(ExitCode::Answered)
    }

    /// Runs under one SLO judged under another, beside fresh searches for that.
    fn judged_anew(&self) -> anyhow::Result<ExitCode> {
        let options = self.options();
        let mut tallies = Vec::new();
        for (name, searched) in ANEW {
            if !self.scenario.is_empty() && !self.scenario.iter().any(|wanted| wanted == name) {
                continue;
            }
            tallies.push(pairs::anew(&scenario(name)?, searched, options.searches, options.first_seed)?);
            eprintln!("{name}: {} pairs", options.searches);
        }
        if self.json {
            output::print(&(serde_json::to_string_pretty(&tallies)? + "\n"))?;
            return Ok(ExitCode::Answered);
        }
        let mut text = format!(
            "{:<12}{:<42}{:>6}{:>8}{:>7}{:>12}{:>13}{:>8}\n",
            "scenario", "searched for", "pairs", "within", "agree", "anew covers", "fresh covers", "bias"
        );
        for tally in &tallies {
            text.push_str(&format!(
                "{:<12}{:<42}{:>6}{:>8}{:>7}{:>12}{:>13}{:>7.1}%\n",
                tally.scenario,
                tally.searched.join(", "),
                tally.pairs,
                tally.within,
                tally.agree,
                tally.anew_covers,
                tally.fresh_covers,
                tally.bias * 100.0
            ));
        }
        output::print(&text)?;
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

/// Scenarios with another SLO that their servers are searched for: tighter ones, looser ones, of
/// another percentile, of another kind.
const ANEW: [(&str, &[&str]); 4] = [
    ("decode", &["ttft p95 < 1s", "tpot p95 < 31ms"]),
    ("decode", &["ttft p95 < 1s", "tpot p90 < 28ms"]),
    ("seqcliff", &["ttft p95 < 400ms", "tpot p95 < 60ms"]),
    ("prefill", &["ttft p95 < 2s", "tpot p95 < 200ms"]),
];

fn scenario(name: &str) -> anyhow::Result<Scenario> {
    scenarios::find(name).ok_or_else(|| {
        Complaint::new(ExitCode::Usage, format!("`{name}` is no scenario"))
            .hint("`plimsoll selftest --searches 1` lists them")
            .into()
    })
}
