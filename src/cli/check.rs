//! `plimsoll check`.

use clap::Args;
use plimsoll::recipe::{Bounds, LoadSection, Purpose, Recipe};

use super::exit::ExitCode;
use super::flags::{TargetFlags, WorkloadFlags};
use super::{block_on, engine};

/// Go through the checklist before any load: can this server be measured from here?
///
/// Some twenty single requests in a few seconds: reachable, model, streaming, token counts, output
/// length, tokenizer, prefix cache, other load, clock, and what this machine itself can do. Ends with
/// 5 where a measurement would not be valid, and with 6 where the server cannot be reached.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// Base URL of the server, the same as `--url`; without it the simulated engine is checked.
    #[arg(value_name = "URL", conflicts_with_all = ["url", "simulated", "speed"])]
    server: Option<String>,

    /// Fewest and most requests in flight that are to be possible [default: 1..1024]
    #[arg(long, value_name = "MIN..MAX")]
    concurrency: Option<Bounds>,

    /// Print the checklist as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    workload: WorkloadFlags,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll check http://127.0.0.1:8000
  plimsoll check --url http://127.0.0.1:8000 --model tiny --concurrency 1..4096 --json";

impl Check {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut target = self.target.into_section()?;
        target.url = target.url.or(self.server);
        let recipe = Recipe {
            seed: self.workload.seed(),
            target,
            workload: self.workload.into_section(),
            load: LoadSection { concurrency: self.concurrency, ..LoadSection::default() },
            ..Recipe::default()
        };
        let plan = recipe.into_plan(Some("check"), Purpose::Measure)?;
        block_on(engine::check(plan, self.json))
    }
}
