//! The command line: one file a subcommand. Its types stay here; the library sees plans.

mod analyze;
mod check;
mod compare;
mod complaint;
mod engine;
mod exit;
mod flags;
mod gate;
mod measure;
mod output;
mod plan;
mod profile;
mod recipes;
mod repeats;
mod report;
mod search;
mod selftest;
mod simulate;
mod soak;
mod stored;
mod tune;
mod verify;
mod watch;
mod workload;

use std::ffi::OsString;
use std::future::Future;
use std::process;

use anyhow::Context;
use clap::{ArgAction, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use self::exit::ExitCode;

/// How much load can a language-model server carry under its latency SLO?
///
/// plimsoll measures a server that speaks the OpenAI API (or the simulated engine that comes with
/// it), searches for the most concurrent requests that still meet the SLO, and says how sure it is.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_CODES, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    /// Tell on stderr what is being done; twice for details.
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 900)]
    verbose: u8,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Search(Box<search::Search>),
    Measure(Box<measure::Measure>),
    Check(Box<check::Check>),
    Tune(tune::Tune),
    Profile(Box<profile::Profile>),
    Simulate(simulate::Simulate),
    Resume(stored::Resume),
    Replay(stored::Replay),
    Plan(Box<plan::Plan>),
    Workload(Box<workload::WorkloadCommand>),
    Report(report::Report),
    Watch(watch::Watch),
    Analyze(analyze::Analyze),
    Compare(compare::Compare),
    Gate(Box<gate::Gate>),
    Soak(Box<soak::Soak>),
    Recipes(recipes::Recipes),
    #[command(name = "selftest")]
    SelfTest(selftest::SelfTest),
}

const EXIT_CODES: &str = "\
Exit codes:
  0    an answer was found
  2    the command line or the recipe is wrong, or this machine refuses (files, sockets)
  3    the SLO is missed already at the lowest load
  4    the SLO is met at the highest load allowed: the answer is a lower bound
  5    no valid measurement could be made
  6    the server cannot be reached, or the one to launch failed
  7    a gate or a soak failed, or the self-test broke a bound
  130  interrupted";

/// Runs the program and gives its exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> process::ExitCode {
    let code = match Cli::try_parse_from(args) {
        Ok(cli) => {
            log_to_stderr(cli.verbose);
            execute(cli.command).unwrap_or_else(|error| complaint::print(&error))
        }
        Err(error) => complaint::print_usage(&error),
    };
    process::ExitCode::from(code as u8)
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Search(search) => search.run(),
        Command::Measure(measure) => measure.run(),
        Command::Check(check) => check.run(),
        Command::Tune(tune) => tune.run(),
        Command::Profile(profile) => profile.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Resume(resume) => resume.run(),
        Command::Replay(replay) => replay.run(),
        Command::Plan(plan) => plan.run(),
        Command::Workload(workload) => workload.run(),
        Command::Report(report) => report.run(),
        Command::Watch(watch) => watch.run(),
        Command::Analyze(analyze) => analyze.run(),
        Command::Compare(compare) => compare.run(),
        Command::Gate(gate) => gate.run(),
        Command::Soak(soak) => soak.run(),
        Command::Recipes(recipes) => recipes.run(),
        Command::SelfTest(selftest) => selftest.run(),
    }
}

/// Drives a command to its end.
fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?
        .block_on(future)
}

fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    // Fails only where a subscriber is set already, which then is the one wanted.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("plimsoll={level}")))
        .with_writer(std::io::stderr)
        .without_time()
        .try_init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
