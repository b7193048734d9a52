//! Files of requests: conversations, logs of lengths, and traces.
//!
//! A file is read through once, entry by entry, to learn where each entry stands and how long it is;
//! an entry is read again when its request is made. What stays in memory is some 24 bytes an entry,
//! however large the file is. Malformed entries are counted and the first ones kept with their lines.
//!
//! ```
//! use plimsoll::workload::dataset::Dataset;
//! # let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("log.csv");
//! std::fs::write(&path, "isl,osl\n100,20\n900,5\n").unwrap();
//! let log = Dataset::scan(&path.to_string_lossy(), None).unwrap();
//! assert_eq!(log.len(), 2);
//! assert_eq!(log.entry(1).unwrap().isl, Some(900));
//! ```

mod conversation;
mod records;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use thiserror::Error;

use crate::plan::{DatasetFormat, Lengths, SourcePlan, WindowPlan};
use crate::workload::PromptMaker;
use records::{Record, Records};
use table::Columns;

/// Tokens of a block of Mooncake's prefix hashes.
pub const BLOCK: u32 = 512;
/// Malformed entries that are shown.
const SHOWN: usize = 5;

/// A file of requests that cannot be used.
#[derive(Debug, Error)]
pub enum DatasetError {
    /// It cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    Read {
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// Nothing says what it holds.
    #[error(
        "`{path}` is of no format that is known: {reason}; give `--dataset-format` (sharegpt, openai, lengths, \
         mooncake, azure, burstgpt)"
    )]
    Unknown {
        /// The file.
        path: String,
        /// What was seen.
        reason: String,
    },
    /// An entry is malformed, and none may be.
    #[error("`{path}` line {line}: {reason} (`--strict` refuses malformed entries; there are {count})")]
    Malformed {
        /// The file.
        path: String,
        /// Where the first one stands.
        line: u64,
        /// What is wrong with it.
        reason: String,
        /// How many there are.
        count: u64,
    },
    /// There is nothing in it to be sent.
    #[error("`{path}` holds no usable entry{window}{first}")]
    Empty {
        /// The file.
        path: String,
        /// The window that was asked for, in words.
        window: String,
        /// The first malformed entry, in words.
        first: String,
    },
    /// It has no timestamps, and they are needed.
    #[error("`{path}` has no timestamps, so its arrivals cannot be replayed; give a trace, or `--rate`")]
    NoTimes {
        /// The file.
        path: String,
    },
}

/// Who speaks in a chat, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

/// A later turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What the user said.
    pub question: String,
    /// What was answered, where the file tells it.
    pub answer: Option<String>,
}

/// One request of a file, or one conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// When it came, seconds on the file's own clock.
    pub at: Option<f64>,
    /// Prompt length, tokens, where the file tells it.
    pub isl: Option<u32>,
    /// Output length, tokens, where the file tells it.
    pub osl: Option<u32>,
    /// What was asked, where the file holds texts.
    pub messages: Vec<Message>,
    /// What was answered.
    pub answer: Option<String>,
    /// Of a whole conversation, the turns after that.
    pub later: Vec<Exchange>,
    /// Hashes of the prefix blocks that the prompt is made of.
    pub blocks: Vec<u64>,
}

impl Entry {
    /// The texts of the prompt, one after the other.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.messages.iter().map(|message| message.content.as_str()).collect();
        texts.join("\n")
    }

    /// Prompt length, and output length where there is one: as the file tells them, or else those of its
    /// texts as `prompts` counts them; without it, in words.
    pub fn lengths(&self, prompts: Option<&PromptMaker>) -> (u32, Option<u32>) {
        let count = |text: &str| prompts.map_or_else(|| words(text).max(1), |prompts| prompts.count(text));
        let isl = self.isl.unwrap_or_else(|| if self.messages.is_empty() { 1 } else { count(&self.text()) });
        (isl, self.osl.or_else(|| self.answer.as_deref().map(count)))
    }

    /// Prompt length as the file tells it, or else the words of its text.
    fn rough_isl(&self) -> u32 {
        self.isl.unwrap_or_else(|| {
            self.messages.iter().map(|message| words(&message.content)).sum::<u32>().max(1)
        })
    }

    fn rough_osl(&self) -> Option<u32> {
        self.osl.or_else(|| self.answer.as_deref().map(|answer| words(answer).max(1)))
    }

    /// Turns of the conversation; 1 for a request.
    pub fn turns(&self) -> u32 {
        1 + self.later.len() as u32
    }
}

fn words(text: &str) -> u32 {
    text.split_whitespace().count() as u32
}

/// Where an entry stands in its file.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    bytes: u32,
    at: f64,
}

/// What was learned of a file on the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Entries that cannot be read.
    pub malformed: u64,
    /// The first of them: line and what is wrong.
    pub shown: Vec<(u64, String)>,
    /// Entries that are well-formed and ask for nothing: no question, or no tokens.
    pub left_out: u64,
    /// Entries that tell an output length; of conversations, turns.
    pub with_osl: u64,
    /// Whether the prompts are texts, whose lengths are counted in words here.
    pub has_texts: bool,
    /// How often each prompt length was seen.
    pub isl: BTreeMap<u32, u64>,
    /// How often each output length was seen.
    pub osl: BTreeMap<u32, u64>,
    /// How many turns the conversations have.
    pub turns: BTreeMap<u32, u64>,
    /// Blocks of prefixes, and how many of them had come before.
    pub blocks: (u64, u64),
}

/// A file of requests.
#[derive(Debug)]
pub struct Dataset {
    path: String,
    format: DatasetFormat,
    columns: Columns,
    places: Vec<Place>,
    has_times: bool,
    findings: Findings,
    /// Whether entries are whole conversations.
    conversations: bool,
    file: Mutex<File>,
}

impl Dataset {
    /// Reads the file through. Without a `format`, it is found out.
    ///
    /// # Errors
    /// When the file cannot be read, is of no known format, or holds nothing to be sent.
    pub fn scan(path: &str, format: Option<DatasetFormat>) -> Result<Self, DatasetError> {
        Self::open_window(path, format, false, None, false)
    }

    /// Opens the file of a plan.
    ///
    /// # Errors
    /// As [`Dataset::scan`]; also when an entry is malformed and the plan is strict, or when a window of
    /// time is asked for and there are no timestamps.
    pub fn open(source: &SourcePlan) -> Result<Self, DatasetError> {
        let SourcePlan { path, format, strict, window, conversations, .. } = source;
        Self::open_window(path, Some(*format), *strict, *window, *conversations)
    }

    fn open_window(
        path: &str,
        format: Option<DatasetFormat>,
        strict: bool,
        window: Option<WindowPlan>,
        conversations: bool,
    ) -> Result<Self, DatasetError> {
        let failed =
            |error: std::io::Error| DatasetError::Read { path: path.to_owned(), reason: error.to_string() };
        let format = match format {
            Some(format) => format,
            None => detect(path)?,
        };
        let file = File::open(path).map_err(failed)?;
        let mut records = Records::new(file.try_clone().map_err(failed)?, format == DatasetFormat::Sharegpt);
        let mut columns = Columns::default();
        let mut findings = Findings::default();
        let mut found: Vec<(Place, Sketch)> = Vec::new();
        let mut has_times = true;
        let mut is_first = true;
        while let Some(record) = records.next().map_err(failed)? {
            if std::mem::take(&mut is_first)
                && let Some(header) = Columns::of_header(format, &record.text)
            {
                columns = header;
                continue;
            }
            match parse(format, &columns, &record.text, conversations) {
                Ok(Some(entry)) => {
                    has_times &= entry.at.is_some();
                    findings.has_texts |= !entry.messages.is_empty();
                    found.push((place(&record, &entry), Sketch::of(entry)));
                }
                Ok(None) => findings.left_out += 1,
                Err(reason) => {
                    findings.malformed += 1;
                    if findings.shown.len() < SHOWN {
                        findings.shown.push((record.line, reason));
                    }
                }
            }
        }
        if strict && let Some((line, reason)) = findings.shown.first().cloned() {
            let count = findings.malformed;
            return Err(DatasetError::Malformed { path: path.to_owned(), line, reason, count });
        }
        let has_times = has_times && !found.is_empty();
        if has_times {
            // A log may be written in the order of the answers.
            found.sort_by(|a, b| a.0.at.total_cmp(&b.0.at));
            let first = found.first().map_or(0.0, |(place, _)| place.at);
            found.iter_mut().for_each(|(place, _)| place.at -= first);
        }
        if let Some(window) = window {
            if !has_times {
                return Err(DatasetError::NoTimes { path: path.to_owned() });
            }
            found.retain(|(place, _)| place.at >= window.from && window.to.is_none_or(|to| place.at < to));
            found.iter_mut().for_each(|(place, _)| place.at -= window.from);
        }
        if found.is_empty() {
            let window = window.map_or_else(String::new, |window| match window.to {
                Some(to) => format!(" from {} s to {to} s", window.from),
                None => format!(" from {} s on", window.from),
            });
            let first = findings.shown.first();
            let first = first.map_or_else(String::new, |(line, why)| format!("; line {line}: {why}"));
            return Err(DatasetError::Empty { path: path.to_owned(), window, first });
        }
        let places = findings.take(found);
        Ok(Self {
            path: path.to_owned(),
            format,
            columns,
            places,
            has_times,
            findings,
            conversations,
            file: Mutex::new(file),
        })
    }

    /// The tokens of a text that nobody counts: its words.
    pub(super) fn words(text: &str) -> u32 {
        words(text)
    }

    /// The file's path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it holds.
    pub fn format(&self) -> DatasetFormat {
        self.format
    }

    /// Entries that can be sent.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none, which no dataset that could be opened has.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What was learned on the way.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// When the entries came, seconds from the start of the window.
    ///
    /// # Errors
    /// When the file has no timestamps.
    pub fn times(&self) -> Result<Vec<f64>, DatasetError> {
        if !self.has_times {
            return Err(DatasetError::NoTimes { path: self.path.clone() });
        }
        Ok(self.places.iter().map(|place| place.at).collect())
    }

    /// The lengths of the prompts.
    pub fn isl(&self) -> Lengths {
        Lengths::empirical(&self.path, &self.findings.isl)
    }

    /// Turns of the conversations.
    pub fn turns(&self) -> Lengths {
        Lengths::empirical(&self.path, &self.findings.turns)
    }

    /// The lengths of the outputs, as far as they are told.
    pub fn osl(&self) -> Option<Lengths> {
        (self.findings.with_osl > 0).then(|| Lengths::empirical(&self.path, &self.findings.osl))
    }

    /// Reads one entry, counted from 0 in order of time, or of the file where it has no timestamps.
    ///
    /// # Errors
    /// When the file has changed since it was opened.
    pub fn entry(&self, index: usize) -> Result<Entry, DatasetError> {
        let failed = |reason: String| DatasetError::Read { path: self.path.clone(), reason };
        let place = self.places.get(index).ok_or_else(|| failed(format!("there is no entry {index}")))?;
        let mut text = vec![0; place.bytes as usize];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(place.offset)).map_err(|error| failed(error.to_string()))?;
            file.read_exact(&mut text).map_err(|error| failed(error.to_string()))?;
        }
        let text = String::from_utf8_lossy(&text);
        match parse(self.format, &self.columns, &text, self.conversations) {
            Ok(Some(entry)) => Ok(entry),
            _ => Err(failed("it was changed while it was in use".to_owned())),
        }
    }
}

/// What the findings keep of an entry.
struct Sketch {
    /// Prompt and output length of its request, or of each turn.
    lengths: Vec<(u32, Option<u32>)>,
    blocks: Vec<u64>,
}

impl Sketch {
    fn of(entry: Entry) -> Self {
        let later = entry.later.iter().map(|turn| {
            let osl = turn.answer.as_deref().map(|answer| words(answer).max(1));
            (words(&turn.question).max(1), osl)
        });
        let lengths = std::iter::once((entry.rough_isl(), entry.rough_osl())).chain(later).collect();
        Self { lengths, blocks: entry.blocks }
    }
}

impl Findings {
    fn take(&mut self, found: Vec<(Place, Sketch)>) -> Vec<Place> {
        let mut known = HashSet::new();
        let keep = |(place, sketch): (Place, Sketch)| {
            *self.turns.entry(sketch.lengths.len() as u32).or_default() += 1;
            for (isl, osl) in sketch.lengths {
                *self.isl.entry(isl).or_default() += 1;
                if let Some(osl) = osl {
                    *self.osl.entry(osl).or_default() += 1;
                    self.with_osl += 1;
                }
            }
            for block in sketch.blocks {
                self.blocks.0 += 1;
                self.blocks.1 += u64::from(!known.insert(block));
            }
            place
        };
        found.into_iter().map(keep).collect()
    }
}

fn place(record: &Record, entry: &Entry) -> Place {
    Place { offset: record.offset, bytes: record.text.len() as u32, at: entry.at.unwrap_or(0.0) }
}

/// One entry; none where it is well-formed and there is nothing to be sent.
fn parse(
    format: DatasetFormat,
    columns: &Columns,
    text: &str,
    conversations: bool,
) -> Result<Option<Entry>, String> {
    let json = || {
        serde_json::from_str::<Value>(text).map_err(|error| {
            // The position is within the entry; the line is told apart.
            let words = error.to_string();
            format!("it is not JSON: {}", words.split(" at line").next().unwrap_or(&words))
        })
    };
    let entry = match format {
        DatasetFormat::Sharegpt | DatasetFormat::Openai if conversations => conversation::whole(&json()?)?,
        DatasetFormat::Sharegpt => conversation::sharegpt(&json()?)?,
        DatasetFormat::Openai => conversation::openai(&json()?)?,
        DatasetFormat::Mooncake => Some(table::mooncake(&json()?)?),
        DatasetFormat::Lengths if text.trim_start().starts_with('{') => Some(table::logged(&json()?)?),
        DatasetFormat::Lengths | DatasetFormat::Azure | DatasetFormat::Burstgpt => Some(columns.entry(text)?),
    };
    let is_void = |entry: &Entry| entry.isl == Some(0) || entry.osl == Some(0);
    Ok(entry.filter(|entry| !is_void(entry)))
}

/// Finds out what a file holds, from its beginning.
fn detect(path: &str) -> Result<DatasetFormat, DatasetError> {
    let mut start = vec![0; 64 << 10];
    let failed =
        |error: std::io::Error| DatasetError::Read { path: path.to_owned(), reason: error.to_string() };
    let read = File::open(Path::new(path)).map_err(failed)?.read(&mut start).map_err(failed)?;
    let text = String::from_utf8_lossy(&start[..read]);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let unknown = |reason: &str| DatasetError::Unknown { path: path.to_owned(), reason: reason.to_owned() };
    if text.starts_with('[') {
        return Ok(DatasetFormat::Sharegpt);
    }
    let line = text.lines().next().ok_or_else(|| unknown("it is empty"))?;
    if line.starts_with('{') {
        // A line may be longer than what was read of it.
        let has = |field: &str| line.contains(&format!("\"{field}\""));
        if has("hash_ids") {
            return Ok(DatasetFormat::Mooncake);
        }
        if has("messages") || has("prompt") {
            return Ok(DatasetFormat::Openai);
        }
        if has("conversations") {
            return Err(unknown("conversations are expected in one JSON array"));
        }
        return match serde_json::from_str::<Value>(line) {
            Ok(value) if table::logged(&value).is_ok() => Ok(DatasetFormat::Lengths),
            _ => Err(unknown("its first line has neither `messages`, `prompt` nor lengths")),
        };
    }
    Columns::detect(line).ok_or_else(|| unknown("its first line names no column of lengths"))
}
