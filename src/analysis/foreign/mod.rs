//! Result files of other tools, read to be judged with intervals.
//!
//! Known are AIPerf's `profile_export.jsonl` and `search_history.json` (with the exports of its
//! iterations beside it), guidellm's JSON, and vllm bench serve's JSON as `--save-detailed` writes it.
//! All that these tools counted is counted: the burst at the start of a run, too. A line or an entry
//! that cannot be read is left out and named.

mod aiperf;
mod guidellm;
mod vllm;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::{Beside, Material, Trial};
use crate::loadgen::record::{Outcome, Phase, RequestRecord};
use crate::loadgen::session::LevelHistory;
use crate::plan::LoadRange;
use crate::search::{Settle, StopRule, TrialKind, TrialSpec};
use crate::units::Load;

/// Time between two batches on the clock that they are put on, seconds.
const APART: f64 = 60.0;
/// Complaints that are kept in words; the others are counted.
const NAMED: usize = 5;

/// A file that cannot be judged.
#[derive(Debug, Error)]
pub enum ForeignError {
    /// It cannot be read.
    #[error("cannot read `{path}`: {problem}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        problem: String,
    },
    /// It is of no kind that is known.
    #[error(
        "`{0}` is no run folder and no result file of AIPerf (profile_export.jsonl, search_history.json), guidellm or vllm bench"
    )]
    Unknown(PathBuf),
    /// It holds no single request.
    #[error("`{path}` ({tool}) holds no request that can be judged{why}")]
    Empty {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        tool: &'static str,
        /// What kept them from it.
        why: String,
    },
}

/// What a file of another tool holds.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Whose it is.
    pub tool: &'static str,
    /// Its trials.
    pub material: Material,
    /// The largest load that the tool itself said meets its SLO.
    pub claimed: Option<u32>,
    /// The objectives that it was told, in the SLO grammar.
    pub slo: Vec<String>,
    /// The server's address, where it is known.
    pub url: Option<String>,
    /// The model, where it is known.
    pub model: Option<String>,
    /// What was left out and why, and what the reader should know.
    pub warnings: Vec<String>,
}

/// The requests of one load.
#[derive(Clone, Debug, Default)]
struct Batch {
    /// The concurrency that was set; else it is seen from the requests.
    load: Option<u32>,
    records: Vec<RequestRecord>,
}

/// A file as its reader understood it.
#[derive(Clone, Debug, Default)]
struct Parsed {
    batches: Vec<Batch>,
    claimed: Option<u32>,
    slo: Vec<String>,
    url: Option<String>,
    model: Option<String>,
    complaints: Vec<String>,
    notes: Vec<String>,
}

/// Reads result files of one tool, each with one load or several.
///
/// # Errors
/// When a file cannot be read, is of no known kind, or holds no request.
pub fn read(paths: &[PathBuf]) -> Result<Foreign, ForeignError> {
    let mut all = Parsed::default();
    let mut tool = "";
    for path in paths {
        let (of, parsed) = parse(path)?;
        tool = of;
        all.batches.extend(parsed.batches);
        all.claimed = all.claimed.or(parsed.claimed);
        all.url = all.url.or(parsed.url);
        all.model = all.model.or(parsed.model);
        if all.slo.is_empty() {
            all.slo = parsed.slo;
        }
        all.complaints.extend(parsed.complaints);
        all.notes.extend(parsed.notes);
    }
    all.batches.retain(|batch| !batch.records.is_empty());
    if all.batches.is_empty() {
        let why = all.complaints.first().map_or(String::new(), |first| format!(": {first}"));
        let path = paths.first().cloned().unwrap_or_default();
        return Err(ForeignError::Empty { path, tool, why });
    }
    let mut warnings = named(&all.complaints);
    all.notes.dedup();
    warnings.extend(all.notes);
    Ok(Foreign {
        tool,
        material: assemble(all.batches),
        claimed: all.claimed,
        slo: all.slo,
        url: all.url,
        model: all.model,
        warnings,
    })
}

fn parse(path: &Path) -> Result<(&'static str, Parsed), ForeignError> {
    let history = path.join("search_history.json");
    let path = if path.is_dir() && history.is_file() { &history } else { path };
    let text = fs::read_to_string(path)
        .map_err(|error| ForeignError::Read { path: path.to_owned(), problem: error.to_string() })?;
    let first: Option<Value> = text.lines().find_map(|line| serde_json::from_str(line).ok());
    let whole: Option<Value> = serde_json::from_str(&text).ok();
    let has = |value: &Option<Value>, key: &str| value.as_ref().is_some_and(|value| value.get(key).is_some());
    if let Some(whole) = whole.as_ref().filter(|whole| whole.get("iterations").is_some()) {
        return Ok(("AIPerf", aiperf::history(path, whole)));
    }
    if let Some(whole) = whole.as_ref().filter(|whole| whole.get("benchmarks").is_some()) {
        return Ok(("guidellm", guidellm::parse(path, whole)));
    }
    if has(&first, "ttfts") || has(&whole, "ttfts") || has(&first, "request_throughput") {
        return Ok(("vllm bench", vllm::parse(path, &text)));
    }
    if has(&first, "metadata") && has(&first, "metrics") {
        return Ok(("AIPerf", aiperf::export(path, &text)));
    }
    Err(ForeignError::Unknown(path.to_owned()))
}

/// The first complaints in words, the number of the others.
fn named(complaints: &[String]) -> Vec<String> {
    let mut texts: Vec<String> =
        complaints.iter().take(NAMED).map(|text| format!("left out: {text}")).collect();
    if complaints.len() > NAMED {
        texts.push(format!("left out: {} more", complaints.len() - NAMED));
    }
    texts
}

/// Puts the batches on one clock, one trial each.
fn assemble(batches: Vec<Batch>) -> Material {
    let mut levels = LevelHistory::default();
    let mut trials = Vec::new();
    let (mut clock, mut issued) = (0.0, 0);
    for (index, mut batch) in batches.into_iter().enumerate() {
        batch.records.sort_by(|a, b| a.ended.total_cmp(&b.ended));
        let load = batch.load.unwrap_or_else(|| in_flight(&batch.records)).max(1);
        let start = batch.records.iter().map(|record| record.sent).fold(f64::INFINITY, f64::min);
        let id = index as u32 + 1;
        for record in &mut batch.records {
            let shift = clock - start;
            record.sent += shift;
            record.ended += shift;
            record.first = record.first.map(|at| at + shift);
            record.last = record.last.map(|at| at + shift);
            record.trial = id;
        }
        let ended = batch.records.last().map_or(clock, |record| record.ended);
        levels.push(clock, load);
        issued += batch.records.len() as u64;
        trials.push(Trial {
            id,
            spec: TrialSpec {
                load: Load::Concurrency(load),
                kind: TrialKind::Measure,
                retreat: false,
                settle: Settle { completions_per_user: 0.0, truncate: false },
                rule: StopRule::Fixed {
                    requests: batch.records.len() as u32,
                    min_seconds: 0.0,
                    max_seconds: ended - clock,
                },
            },
            window: (clock, clock, ended),
            records: batch.records,
            pending: Vec::new(),
            void: None,
            issued_total: issued,
            beside: Beside::default(),
        });
        clock = ended + APART;
    }
    let loads = || trials.iter().map(|trial| trial.spec.load.value() as u32);
    let range = LoadRange { min: 1, max: loads().max().unwrap_or(1).saturating_mul(4).max(8) };
    Material { trials, levels, range }
}

/// The most requests in flight at once: in a closed loop the concurrency.
fn in_flight(records: &[RequestRecord]) -> u32 {
    let mut steps: Vec<(f64, i32)> =
        records.iter().flat_map(|record| [(record.sent, 1), (record.ended, -1)]).collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut now, mut most) = (0, 0);
    for (_, step) in steps {
        now += step;
        most = most.max(now);
    }
    most.max(0) as u32
}

/// A record of another tool, without what it does not tell.
fn record(sent: f64, ended: f64, outcome: Outcome) -> RequestRecord {
    RequestRecord {
        id: 0,
        trial: 0,
        phase: Phase::Measured,
        scheduled: None,
        held: None,
        sent,
        first: None,
        last: None,
        ended,
        gaps_us: Vec::new(),
        chunk_tokens: Vec::new(),
        isl: 0,
        isl_server: None,
        osl: 0,
        osl_server: None,
        outcome,
        resends: 0,
        queued: None,
        session: None,
        turn: None,
        context_full: false,
    }
}

#[cfg(test)]
mod tests;
