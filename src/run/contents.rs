//! What a run folder holds, read back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::error::RunError;
use super::journal::{self, Cost, Event, Started};
use super::records::{self, Frame};
use super::{JOURNAL_FILE, PLAN_FILE, RECORDS_FILE, RepeatsFolder, secrets};
use crate::loadgen::RequestRecord;
use crate::plan::{PLAN_VERSION, Plan};
use crate::search::{Answer, TrialOutcome};

/// What a run folder holds. Reading changes nothing, so a run may be looked at while it goes on.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The folder.
    pub path: PathBuf,
    /// What was to be done.
    pub plan: Plan,
    /// How it began.
    pub started: Started,
    /// Whether `plan.toml` is another than the run was started with.
    pub plan_changed: bool,
    /// What the target last said of itself.
    pub target: Option<serde_json::Value>,
    /// The trials that have ended, in order.
    pub trials: Vec<StoredTrial>,
    /// What the reader of the answer should know, in order, each text once.
    pub warnings: Vec<String>,
    /// What the run has taken so far.
    pub cost: Cost,
    /// The end, if the run has ended (and was not resumed since).
    pub ended: Option<Ended>,
    /// Length of the journal's whole lines.
    pub(super) journal_len: u64,
    /// Length of the records that the journal names and the disk holds.
    pub(super) records_len: u64,
}

/// A trial that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTrial {
    /// What came of it.
    pub outcome: TrialOutcome,
    /// Where its records are; `None` where the file was damaged and they are lost.
    pub records: Option<Frame>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The answer.
    pub answer: Answer,
    /// Records of requests that ended after the last trial.
    pub records: Option<Frame>,
}

impl Contents {
    /// Reads a run folder.
    ///
    /// # Errors
    /// When it is no run folder, or a file in it cannot be read or is damaged. A last line of the
    /// journal that was cut short is no error.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let (plan, plan_hash) = read_plan(path)?;
        let journal_path = path.join(JOURNAL_FILE);
        let bytes = read_file(path, JOURNAL_FILE)?;
        // Looked at after the journal: records are on the disk before the line that names them.
        let on_disk = fs::metadata(path.join(RECORDS_FILE)).map_or(0, |meta| meta.len());
        let (events, journal_len) = journal::from_bytes(&journal_path, &bytes)?;
        let mut events = events.into_iter();
        let Some(Event::RunStarted(started)) = events.next() else {
            let problem = "the journal does not begin with the run's start".to_owned();
            return Err(RunError::Damaged { path: journal_path, line: 1, problem });
        };
        let mut contents = Self {
            path: path.to_owned(),
            plan,
            plan_changed: started.plan_hash != plan_hash,
            started,
            target: None,
            trials: Vec::new(),
            warnings: Vec::new(),
            cost: Cost::default(),
            ended: None,
            journal_len,
            records_len: 0,
        };
        events.for_each(|event| contents.take(event));
        contents.lose_records_beyond(on_disk);
        let ends = contents.frames().map(|frame| frame.end);
        contents.records_len = ends.max().unwrap_or(0);
        Ok(contents)
    }

    /// The outcomes of the trials, in order.
    pub fn outcomes(&self) -> impl Iterator<Item = &TrialOutcome> {
        self.trials.iter().map(|trial| &trial.outcome)
    }

    /// The latest instant on the run's clock that the journal knows, seconds.
    pub fn clock(&self) -> f64 {
        self.outcomes().map(|outcome| outcome.ended).fold(self.cost.seconds, f64::max)
    }

    /// The places in the plan whose secrets were not written and must be given anew to go on.
    pub fn secrets_left_out(&self) -> Vec<String> {
        secrets::left_out(&self.plan)
    }

    /// Trials whose records were lost with a damaged file.
    pub fn trials_without_records(&self) -> impl Iterator<Item = u32> {
        self.trials.iter().filter(|trial| trial.records.is_none()).map(|trial| trial.outcome.id)
    }

    /// Calls `visit` with the record of every request, trial by trial.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn for_each_record(&self, mut visit: impl FnMut(RequestRecord)) -> Result<(), RunError> {
        let path = self.path.join(RECORDS_FILE);
        self.frames().try_for_each(|frame| records::visit(&path, frame, &mut visit))
    }

    /// The records of one trial, in the order in which the requests ended; none where the trial is
    /// unknown or its records are lost.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn records_of(&self, trial: u32) -> Result<Vec<RequestRecord>, RunError> {
        let path = self.path.join(RECORDS_FILE);
        let mut found = Vec::new();
        for stored in self.trials.iter().filter(|stored| stored.outcome.id == trial) {
            if let Some(frame) = stored.records {
                records::visit(&path, frame, &mut |record| found.push(record))?;
            }
        }
        Ok(found)
    }

    /// The records of requests that ended after the last trial.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn late_records(&self) -> Result<Vec<RequestRecord>, RunError> {
        let mut found = Vec::new();
        if let Some(frame) = self.ended.as_ref().and_then(|ended| ended.records) {
            records::visit(&self.path.join(RECORDS_FILE), frame, &mut |record| found.push(record))?;
        }
        Ok(found)
    }

    fn frames(&self) -> impl Iterator<Item = Frame> {
        let last = self.ended.iter().filter_map(|ended| ended.records);
        self.trials.iter().filter_map(|trial| trial.records).chain(last)
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::RunStarted(_) | Event::TrialAsked(_) => {}
            Event::RunResumed { records_end, .. } => {
                self.lose_records_beyond(records_end);
                self.ended = None;
            }
            Event::TargetDescribed(description) => self.target = Some(description),
            Event::TrialEnded { outcome, cost, records } => {
                self.cost = cost;
                self.trials.push(StoredTrial { outcome: *outcome, records: Some(records) });
            }
            Event::Warning(text) if self.warnings.contains(&text) => {}
            Event::Warning(text) => self.warnings.push(text),
            Event::RunEnded { answer, cost, records } => {
                self.cost = cost;
                self.ended = Some(Ended { answer: *answer, records: Some(records) });
            }
        }
    }

    fn lose_records_beyond(&mut self, end: u64) {
        let lost = |frame: &mut Option<Frame>| {
            if frame.is_some_and(|frame| frame.end > end) {
                *frame = None;
            }
        };
        self.trials.iter_mut().for_each(|trial| lost(&mut trial.records));
        self.ended.iter_mut().for_each(|ended| lost(&mut ended.records));
    }
}

fn read_file(folder: &Path, name: &'static str) -> Result<Vec<u8>, RunError> {
    let path = folder.join(name);
    fs::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            RunError::NotARun { path: folder.to_owned(), missing: name }
        }
        _ => RunError::read(&path, &error),
    })
}

/// The plan and the hash of its text.
fn read_plan(folder: &Path) -> Result<(Plan, String), RunError> {
    if !folder.join(PLAN_FILE).exists() && RepeatsFolder::is_one(folder) {
        return Err(RunError::Several { path: folder.to_owned() });
    }
    let (plan, bytes) = read_plan_file(folder, PLAN_FILE)?;
    Ok((plan, hash(&bytes)))
}

/// The plan in a file of a folder, and the file's bytes.
pub(super) fn read_plan_file(folder: &Path, name: &'static str) -> Result<(Plan, Vec<u8>), RunError> {
    let (plan, bytes) = read_toml(folder, name)?;
    check_version(&folder.join(name), &plan)?;
    Ok((plan, bytes))
}

/// What a TOML file of a folder holds, and its bytes.
pub(super) fn read_toml<P: DeserializeOwned>(
    folder: &Path,
    name: &'static str,
) -> Result<(P, Vec<u8>), RunError> {
    let bytes = read_file(folder, name)?;
    let invalid = |problem: String| RunError::Plan { path: folder.join(name), problem };
    let text = std::str::from_utf8(&bytes).map_err(|error| invalid(error.to_string()))?;
    let plan = toml::from_str(text).map_err(|error| invalid(error.message().to_owned()))?;
    Ok((plan, bytes))
}

/// Refuses a plan of another version of the schema.
pub(super) fn check_version(file: &Path, plan: &Plan) -> Result<(), RunError> {
    if plan.plan_version == PLAN_VERSION {
        return Ok(());
    }
    let problem = format!(
        "it has `plan_version` {}, this program reads {PLAN_VERSION}; use the program that made it",
        plan.plan_version
    );
    Err(RunError::Plan { path: file.to_owned(), problem })
}

/// FNV-1a, 64 bits, hexadecimal: tells whether a text has changed, and guards against nobody.
pub(super) fn hash(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
