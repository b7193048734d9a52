//! What a reader of valid trials should know of them: each says what was seen, why it matters and
//! what to do.

use std::fmt;

use crate::loadgen::health::ClientHealth;
use crate::slo::Slo;
use crate::units::{Load, Seconds, significant};
use crate::verdict::Reading;
use crate::verdict::checks::{Checks, Overhead, share};
use crate::verdict::gates::tightest_limit;
use crate::verdict::void::percent;

/// Share of buffered streams that is worth a word.
const BUFFERED_SHARE: f64 = 0.005;
/// Mean chunks that come together, and mean tokens a chunk, that are worth a word.
const TOGETHER: f64 = 1.5;
const TOKENS_A_CHUNK: f64 = 1.05;
/// Relative deviation of the output length that is worth a word.
const LENGTH: f64 = 0.05;
/// Differences of the two token counts that are one template: tokens, or a share of the prompt.
const COUNTS: (f64, f64) = (2.0, 0.02);
/// The client's lag as a share of the tightest limit, and its use of a core, that are worth a word.
const LAG_SHARE: f64 = 0.1;
const PRESSURE: f64 = 0.7;
/// CPU of others as a share of this host's that is worth a word, where the server runs here too.
const FOREIGN_SHARE: f64 = 0.2;

/// Something that the reader of the results should know.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// Requests were lost on the way.
    Lost {
        /// How many.
        count: u32,
        /// Of how many.
        of: u32,
        /// The most frequent message.
        detail: String,
    },
    /// Some streams came in one burst or a few.
    Buffered {
        /// Share of the streams.
        share: f64,
    },
    /// Chunks arrived several at a time.
    Clumps {
        /// Mean number of chunks that came together.
        together: f64,
    },
    /// Chunks held several tokens.
    SeveralTokens {
        /// Mean tokens a chunk.
        mean: f64,
    },
    /// Outputs had another length than asked for.
    OutputLength {
        /// Mean tokens asked for.
        asked: f64,
        /// Mean tokens that came.
        got: f64,
        /// Share that ended by itself.
        stopped: f64,
    },
    /// Client and server count prompt tokens differently.
    TokenCounts(Overhead),
    /// The client was at the edge of its own fitness.
    Client {
        /// How late it saw what had happened, seconds.
        delay: f64,
        /// The tightest limit that this falls on, seconds.
        limit: Option<f64>,
        /// Share of a core that its busiest thread used or waited for.
        pressure: f64,
        /// The load at which it was worst.
        load: Load,
    },
    /// Other programs used the CPU of the host on which client and server run.
    ForeignCpu {
        /// Cores that they used.
        cores: f64,
        /// Cores of the host.
        of: f64,
        /// The load at which it was worst.
        load: Load,
    },
    /// The workload's prompts repeat.
    RepeatedPrompts {
        /// Prompts that had been seen before.
        repeated: u32,
        /// Of how many that were looked at.
        of: u32,
    },
    /// Too few requests for a percentile.
    FewSamples {
        /// The objective.
        objective: String,
        /// The load.
        load: Load,
        /// Requests that are missing.
        missing: u32,
    },
}

impl Warning {
    /// The warning in words of a run whose users pause or hold conversations: a level is one of users then.
    pub fn of_users(&self) -> String {
        match self {
            Warning::Client { load: load @ Load::Concurrency(users), .. }
            | Warning::ForeignCpu { load: load @ Load::Concurrency(users), .. }
            | Warning::FewSamples { load: load @ Load::Concurrency(users), .. } => {
                self.to_string().replacen(&load.to_string(), &format!("{users} users"), 1)
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Lost { count, of, detail } => write!(
                f,
                "{count} of {of} requests ({}) were lost on the way ({detail}) and count neither way; find what cuts \
                 them off: users lose these requests too",
                percent(share(*count, *of))
            ),
            Warning::Buffered { share } => write!(
                f,
                "{} of the streams came in one burst or a few: their TTFT is too long and their ITL too short; look for \
                 a proxy that buffers, or a front end of the server without a core of its own",
                percent(*share)
            ),
            Warning::Clumps { together } => write!(
                f,
                "{} chunks arrive together on average, so percentiles of ITL tell how chunks are handed on, not how fast \
                 tokens are made; judge by TPOT, or set the engine's stream interval to 1",
                significant(*together)
            ),
            Warning::SeveralTokens { mean } => write!(
                f,
                "a chunk holds {} tokens on average (speculative decoding or a stream interval): ITL is the gap spread \
                 evenly over the tokens of a chunk, not a time that was seen; judge by TPOT where that matters",
                significant(*mean)
            ),
            Warning::OutputLength { asked, got, stopped } => write!(
                f,
                "responses held {} tokens on average where {} were asked for ({} ended by themselves), so the load was \
                 another than asked; name the engine (`--engine`) or give the true lengths (`--osl`)",
                significant(*got),
                significant(*asked),
                percent(*stopped)
            ),
            Warning::TokenCounts(Overhead { min, median, max }) => write!(
                f,
                "the server counts {min} to {max} prompt tokens more than the client built (median {median}), which no \
                 chat template explains; name the model's own tokenizer: `--tokenizer tokenizer.json`"
            ),
            Warning::Client { delay, limit, pressure, load } => {
                write!(f, "at {load} this client saw answers {} late", Seconds(*delay))?;
                if let Some(limit) = limit {
                    write!(f, " (the tightest limit is {})", Seconds(*limit))?;
                }
                write!(
                    f,
                    " and was busy {} of the time, which makes the server look slower than it is; give it a core of its \
                     own, or run it on another machine",
                    percent(*pressure)
                )
            }
            Warning::ForeignCpu { cores, of, load } => write!(
                f,
                "at {load} other programs than the server and this client used {} of this host's {} cores, so the server \
                 may be faster than measured; stop them, or measure on a quiet machine",
                significant(*cores),
                of
            ),
            Warning::RepeatedPrompts { repeated, of } => write!(
                f,
                "{repeated} of the first {of} prompts repeat an earlier one, so a prefix cache answers them faster than \
                 real traffic; use longer prompts (`--isl`)"
            ),
            Warning::FewSamples { objective, load, missing } => write!(
                f,
                "too few requests at {load} for `{objective}`: it needs {missing} more; use more (`--requests`)"
            ),
        }
    }
}

/// What is known of one trial.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The load that it was run at.
    pub load: Load,
    /// Whether its size was fixed beforehand, so that its figures count.
    pub counted: bool,
    /// What its requests showed.
    pub checks: &'a Checks,
    /// How fit the client was.
    pub client: Option<&'a ClientHealth>,
    /// What it says of each objective.
    pub readings: &'a [Reading],
}

/// What the reader of some valid trials should know: each kind once, over all of them.
pub fn warnings<'a>(slo: &Slo, trials: impl IntoIterator<Item = Seen<'a>>) -> Vec<Warning> {
    let trials: Vec<Seen<'a>> = trials.into_iter().collect();
    let mut found = Vec::new();
    found.extend(lost(&trials));
    found.extend(streams(slo, &trials));
    found.extend(lengths(&trials));
    found.extend(client(slo, &trials));
    found.extend(foreign(&trials));
    found.extend(few_samples(slo, &trials));
    found
}

fn sum(trials: &[Seen<'_>], count: impl Fn(&Checks) -> u32) -> u32 {
    trials.iter().map(|trial| count(trial.checks)).sum()
}

/// Mean of a figure over the requests that it was seen in.
fn mean(trials: &[Seen<'_>], figure: impl Fn(&Checks) -> (f64, u32)) -> Option<f64> {
    let (mut total, mut weight) = (0.0, 0.0);
    for trial in trials {
        let (value, of) = figure(trial.checks);
        total += value * f64::from(of);
        weight += f64::from(of);
    }
    (weight > 0.0).then(|| total / weight)
}

fn lost(trials: &[Seen<'_>]) -> Option<Warning> {
    let worst = trials.iter().max_by_key(|trial| trial.checks.lost)?;
    let (count, of) = (sum(trials, |c| c.lost), sum(trials, |c| c.requests));
    (count > 0).then(|| Warning::Lost { count, of, detail: worst.checks.detail.clone().unwrap_or_default() })
}

fn streams(slo: &Slo, trials: &[Seen<'_>]) -> Vec<Warning> {
    let mut found = Vec::new();
    let (buffered, streams) = (sum(trials, |c| c.buffered), sum(trials, |c| c.streams));
    if slo.needs_streaming() && buffered > 1 && share(buffered, streams) > BUFFERED_SHARE {
        found.push(Warning::Buffered { share: share(buffered, streams) });
    }
    if let Some(together) = mean(trials, |c| (c.chunks_together, c.told)).filter(|&mean| mean > TOGETHER) {
        found.push(Warning::Clumps { together });
    }
    if let Some(mean) =
        mean(trials, |c| (c.tokens_per_chunk, c.streams)).filter(|&mean| mean > TOKENS_A_CHUNK)
    {
        found.push(Warning::SeveralTokens { mean });
    }
    found
}

fn lengths(trials: &[Seen<'_>]) -> Vec<Warning> {
    let mut found = Vec::new();
    let asked = mean(trials, |c| (c.output_asked, c.completed));
    let got = mean(trials, |c| (c.output_got, c.completed));
    if let (Some(asked), Some(got)) = (asked, got)
        && (got / asked.max(1.0) - 1.0).abs() > LENGTH
    {
        let stopped = mean(trials, |c| (c.stopped_share(), c.completed)).unwrap_or(0.0);
        found.push(Warning::OutputLength { asked, got, stopped });
    }
    let overheads: Vec<Overhead> = trials.iter().filter_map(|trial| trial.checks.overhead).collect();
    let min = overheads.iter().map(|overhead| overhead.min).min();
    let max = overheads.iter().map(|overhead| overhead.max).max();
    if let (Some(min), Some(max)) = (min, max) {
        let built = mean(trials, |c| (c.prompt_built, c.completed)).unwrap_or(0.0);
        if (max - min) as f64 > COUNTS.0.max(COUNTS.1 * built) {
            let median = overheads[overheads.len() / 2].median;
            found.push(Warning::TokenCounts(Overhead { min, median, max }));
        }
    }
    found
}

fn client(slo: &Slo, trials: &[Seen<'_>]) -> Option<Warning> {
    let strain = |trial: &Seen<'_>| {
        let client = trial.client?;
        let limit = tightest_limit(slo, trial.checks.output_got);
        let lag = limit.map_or(0.0, |limit| client.delay() / limit / LAG_SHARE);
        Some((lag.max(client.pressure() / PRESSURE), limit))
    };
    let strained =
        trials.iter().filter_map(|trial| strain(trial).map(|(strain, limit)| (strain, limit, trial)));
    let (strain, limit, trial) = strained.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let client = trial.client.filter(|_| strain > 1.0)?;
    let (delay, pressure) = (client.delay(), client.pressure());
    Some(Warning::Client { delay, limit, pressure, load: trial.load })
}

fn foreign(trials: &[Seen<'_>]) -> Option<Warning> {
    let used = trials.iter().filter_map(|trial| Some((trial.client?.others?, trial.load)));
    let (others, load) = used.max_by(|a, b| a.0.cores.total_cmp(&b.0.cores))?;
    let flagged = others.apart_from_server && others.cores > FOREIGN_SHARE * others.of;
    flagged.then_some(Warning::ForeignCpu { cores: others.cores, of: others.of, load })
}

/// Levels whose last trial of a fixed size held too few requests for a percentile of the SLO.
fn few_samples(slo: &Slo, trials: &[Seen<'_>]) -> Option<Warning> {
    let counted = || trials.iter().enumerate().filter(|(_, trial)| trial.counted);
    let last_there =
        |index: usize, load: Load| counted().all(|(other, trial)| trial.load != load || other <= index);
    counted().filter(|&(index, trial)| last_there(index, trial.load)).find_map(|(_, trial)| {
        slo.objectives.iter().zip(trial.readings).find_map(|(objective, reading)| {
            let allowed = objective.allowed_misses().filter(|&allowed| allowed > 0.0)?;
            let missing = (1.0 / allowed).ceil() as u32;
            let missing = missing.saturating_sub(reading.of);
            // A plain miss needs no more.
            let open = reading.holds(objective) == Some(true) && !reading.has_enough(objective);
            (open && missing > 0).then(|| Warning::FewSamples {
                objective: objective.to_string(),
                load: trial.load,
                missing,
            })
        })
    })
}
