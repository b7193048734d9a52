//! `plimsoll workload`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use plimsoll::plan::{TokenizerPlan, WorkloadPlan};
use plimsoll::recipe::{Count, LoadSection, Loaded, Recipe};
use plimsoll::report::terminal::Style;
use plimsoll::report::traffic::{TrafficDocument, screen};
use plimsoll::workload::dataset::Dataset;
use plimsoll::workload::{Effort, LocalTokenizer, PromptMaker, Vocabulary, Workload};

use super::block_on;
use super::complaint::Complaint;
use super::exit::ExitCode;
use super::flags::WorkloadFlags;
use super::output::print;

/// Show what a workload would send, without sending it: lengths, arrivals, shared prefixes, samples.
///
/// Nothing is measured and no server is needed. A log or a trace can be turned into a file of lengths.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WorkloadCommand {
    /// Start from a recipe: a file, or the name of a ready one. Flags win over it.
    #[arg(long, value_name = "FILE|NAME")]
    recipe: Option<String>,

    #[command(flatten)]
    workload: WorkloadFlags,

    /// Requests to look at [default: 10000; of a file each entry once, up to 100000]
    #[arg(long, value_name = "N")]
    requests: Option<Count>,

    /// Prompts to show.
    #[arg(long, value_name = "N", default_value_t = 0)]
    samples: usize,

    /// Write the lengths as a CSV (isl,osl, and timestamps where there are some), for --dataset or
    /// --isl file:FILE.
    #[arg(long, value_name = "FILE")]
    write_lengths: Option<PathBuf>,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll workload --isl 'lognormal(mean=400, cv=0.6)' --osl 'uniform(50..200)'
  plimsoll workload --class '0.8: isl=uniform(20..200) osl=100' --class '0.2: isl=4000 osl=50' --samples 2
  plimsoll workload --turns 5 --isl 200 --osl 150   # how the prompts of conversations grow
  plimsoll workload --dataset trace.jsonl --write-lengths lengths.csv";

/// Requests that are looked at.
const DRAWN: usize = 10_000;
/// Most entries of a file that are looked at.
const MOST: usize = 100_000;

impl WorkloadCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let seed = self.workload.seed();
        let recipe = match self.recipe.as_deref() {
            Some(name) => Loaded::open(name)?.recipe,
            None => Recipe::default(),
        };
        let load = LoadSection { think: self.workload.think(), ..LoadSection::default() };
        let flags = Recipe { load, workload: self.workload.into_section(), seed, ..Recipe::default() };
        let recipe = recipe.changed_by(flags);
        let seed = recipe.seed.unwrap_or(0);
        let plan = recipe.into_workload()?;
        let dataset = plan.source.as_ref().map(Dataset::open).transpose()?.map(Arc::new);
        if plan.sessions.is_some() && self.write_lengths.is_some() {
            let text =
                "`--write-lengths` writes requests that stand alone, but `--turns` asks for conversations";
            return Err(Complaint::new(ExitCode::Usage, text).hint("leave one of them out").into());
        }
        let (maker, counted) = maker(&plan, seed)?;
        let most = dataset.as_ref().map_or(DRAWN, |dataset| dataset.len().min(MOST));
        let most = self.requests.map_or(most, |Count(requests)| requests as usize);
        let has_texts = dataset.as_ref().is_some_and(|dataset| dataset.findings().has_texts);
        let requests = if has_texts || self.samples > 0 {
            Workload::new(&plan, seed, maker.clone())
        } else {
            Workload::lengths_only(&plan, seed)
        };
        let requests = requests.with_dataset(&plan, seed, dataset.clone()).take(most);
        let document = TrafficDocument::of(&plan, dataset.as_deref(), requests, self.samples, counted);
        print(&if self.json { document.to_json() } else { screen(&document, Style::of_stdout()) })?;
        if let Some(path) = &self.write_lengths {
            let lines = match &dataset {
                Some(dataset) => write_entries(path, dataset, &maker),
                None => write_drawn(path, Workload::lengths_only(&plan, seed).take(most)),
            };
            let lines = lines.with_context(|| format!("cannot write `{}`", path.display()))?;
            eprintln!("{lines} lengths are in {}", path.display());
        }
        Ok(ExitCode::Answered)
    }
}

/// Makes prompts, and says whether it counts with a tokenizer.
fn maker(plan: &WorkloadPlan, seed: u64) -> anyhow::Result<(PromptMaker, bool)> {
    let words = || PromptMaker::new(Arc::new(Vocabulary::word_is_token()), seed);
    match &plan.tokenizer {
        TokenizerPlan::File { path } => {
            let tokenizer = LocalTokenizer::open(path)?;
            let words = tokenizer.words();
            let mut counter = tokenizer.clone();
            let learned = block_on(async {
                let learned = Vocabulary::learn(&mut counter, &words, Effort::LOCAL).await;
                learned.map_err(|error| anyhow::anyhow!("the tokenizer.json: {error}"))
            })?;
            let maker = PromptMaker::new(Arc::new(learned.vocabulary), seed);
            Ok((maker.verified_by(tokenizer), true))
        }
        TokenizerPlan::Auto => Ok((words(), false)),
        TokenizerPlan::Server | TokenizerPlan::Usage => Err(Complaint::new(
            ExitCode::Usage,
            "`--tokenizer` names a server's, and no server is asked here",
        )
        .hint("name a local file: `--tokenizer tokenizer.json`, or leave it out")
        .into()),
    }
}

fn write_entries(path: &Path, dataset: &Dataset, maker: &PromptMaker) -> anyhow::Result<usize> {
    let mut file = BufWriter::new(File::create(path)?);
    let times = dataset.times().ok();
    writeln!(file, "{}isl,osl", if times.is_some() { "timestamp," } else { "" })?;
    for index in 0..dataset.len() {
        let (isl, osl) = dataset.entry(index)?.lengths(Some(maker));
        if let Some(at) = times.as_ref().and_then(|times| times.get(index)) {
            write!(file, "{at},")?;
        }
        writeln!(file, "{isl},{}", osl.map_or_else(String::new, |osl| osl.to_string()))?;
    }
    file.flush()?;
    Ok(dataset.len())
}

fn write_drawn(
    path: &Path,
    requests: impl Iterator<Item = plimsoll::workload::RequestSpec>,
) -> anyhow::Result<usize> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "isl,osl")?;
    let mut count = 0;
    for request in requests {
        writeln!(file, "{},{}", request.isl, request.osl)?;
        count += 1;
    }
    file.flush()?;
    Ok(count)
}
