//! `requests.parquet`: every request of a run as one row, for data frames.
//!
//! Instants are seconds on the run's clock, lengths tokens, gaps microseconds, as in the records. The
//! file is plain Parquet (format version 1): values in the `PLAIN` encoding, one zstd page a column in
//! each row group, so that any reader takes it (docs/decisions.md says why by hand).

mod column;
mod thrift;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use self::column::{Column, Occurs, Type};
use self::thrift::Struct;
use super::ReportError;
use crate::loadgen::{Outcome, RequestRecord};
use crate::run::{Contents, RunError, write_file};
use crate::units::Load;

/// Name of the file.
pub const PARQUET_FILE: &str = "requests.parquet";
/// Rows of a group: enough to pack well, few enough to hold in memory.
const GROUP: usize = 50_000;
/// What every Parquet file begins and ends with.
const MAGIC: &[u8] = b"PAR1";

/// Writes every request of a run into `folder`.
///
/// # Errors
/// When the records cannot be read or the file not be written.
pub fn write(folder: &Path, contents: &Contents) -> Result<PathBuf, ReportError> {
    let path = folder.join(PARQUET_FILE);
    let failed = |error: io::Error| RunError::Write { path: path.clone(), problem: error.to_string() };
    let loads: HashMap<u32, Load> =
        contents.outcomes().map(|outcome| (outcome.id, outcome.spec.load)).collect();
    let mut table = Table::new();
    let mut problem = None;
    contents.for_each_record(|record| {
        if problem.is_none() {
            problem = table.push(&record, loads.get(&record.trial).copied()).err();
        }
    })?;
    if let Some(error) = problem {
        return Err(failed(error).into());
    }
    let bytes = table.finish().map_err(failed)?;
    Ok(write_file(folder, PARQUET_FILE, &bytes)?)
}

/// The rows, with the file as far as it is written.
struct Table {
    file: Vec<u8>,
    columns: Vec<Column>,
    rows: usize,
    all_rows: usize,
    groups: Vec<Struct>,
}

impl Table {
    fn new() -> Self {
        use Occurs::{AtMostOnce, Often, Once};
        use Type::{F64, I32, I64, Text};
        let columns = [
            ("id", I64, Once),
            ("trial", I32, Once),
            ("phase", Text, Once),
            ("concurrency", I32, AtMostOnce),
            ("request_rate", F64, AtMostOnce),
            ("speed_up", F64, AtMostOnce),
            ("scheduled", F64, AtMostOnce),
            ("held", F64, AtMostOnce),
            ("sent", F64, Once),
            ("first", F64, AtMostOnce),
            ("last", F64, AtMostOnce),
            ("ended", F64, Once),
            ("ttft", F64, AtMostOnce),
            ("e2e", F64, AtMostOnce),
            ("isl", I32, Once),
            ("isl_server", I32, AtMostOnce),
            ("osl", I32, Once),
            ("osl_server", I32, AtMostOnce),
            ("outcome", Text, Once),
            ("finish", Text, AtMostOnce),
            ("failure", Text, AtMostOnce),
            ("detail", Text, AtMostOnce),
            ("resends", I32, Once),
            ("queued", F64, AtMostOnce),
            ("gaps_us", I32, Often),
            ("chunk_tokens", I32, Often),
            ("session", I64, AtMostOnce),
            ("turn", I32, AtMostOnce),
        ];
        let columns = columns.into_iter().map(|(name, of, occurs)| Column::new(name, of, occurs)).collect();
        Self { file: MAGIC.to_vec(), columns, rows: 0, all_rows: 0, groups: Vec::new() }
    }

    fn push(&mut self, record: &RequestRecord, load: Option<Load>) -> io::Result<()> {
        let (users, rate, speed_up) = match load {
            Some(Load::Concurrency(users)) => (Some(users), None, None),
            Some(Load::RequestRate(rate)) => (None, Some(rate), None),
            Some(Load::SpeedUp(factor)) => (None, None, Some(factor)),
            None => (None, None, None),
        };
        let (outcome, finish, failure, detail) = match &record.outcome {
            Outcome::Completed { finish } => ("completed", finish.as_deref(), None, None),
            Outcome::Failed { cause, detail } => ("failed", None, Some(word(cause)), Some(detail.as_str())),
            Outcome::Censored => ("censored", None, None, None),
            Outcome::Cancelled => ("cancelled", None, None, None),
        };
        let phase = word(&record.phase);
        for column in &mut self.columns {
            match column.name {
                "id" => column.i64(record.id),
                "trial" => column.i32(Some(record.trial)),
                "phase" => column.text(Some(&phase)),
                "concurrency" => column.i32(users),
                "request_rate" => column.f64(rate),
                "speed_up" => column.f64(speed_up),
                "scheduled" => column.f64(record.scheduled),
                "held" => column.f64(record.held),
                "sent" => column.f64(Some(record.sent)),
                "first" => column.f64(record.first),
                "last" => column.f64(record.last),
                "ended" => column.f64(Some(record.ended)),
                "ttft" => column.f64(record.ttft()),
                "e2e" => column.f64(record.e2e()),
                "isl" => column.i32(Some(record.isl)),
                "isl_server" => column.i32(record.isl_server),
                "osl" => column.i32(Some(record.osl)),
                "osl_server" => column.i32(record.osl_server),
                "outcome" => column.text(Some(outcome)),
                "finish" => column.text(finish),
                "failure" => column.text(failure.as_deref()),
                "detail" => column.text(detail),
                "resends" => column.i32(Some(record.resends)),
                "queued" => column.f64(record.queued),
                "gaps_us" => column.list(&record.gaps_us),
                "session" => column.maybe_i64(record.session),
                "turn" => column.i32(record.turn),
                _ => column.list(&record.chunk_tokens),
            }
        }
        self.rows += 1;
        if self.rows == GROUP { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let before = self.file.len();
        let mut chunks = Vec::new();
        for column in &mut self.columns {
            chunks.push(column.write(&mut self.file, 0)?);
        }
        let group = Struct::default()
            .structs(1, chunks)
            .i64(2, (self.file.len() - before) as i64)
            .i64(3, self.rows as i64);
        self.groups.push(group);
        self.all_rows += self.rows;
        self.rows = 0;
        Ok(())
    }

    /// The whole file.
    fn finish(mut self) -> io::Result<Vec<u8>> {
        self.end_group()?;
        let root = Struct::default().text(4, "request").i32(5, self.columns.len() as i32);
        let schema = std::iter::once(root).chain(self.columns.iter().flat_map(Column::schema)).collect();
        let meta = Struct::default()
            .i32(1, 1)
            .structs(2, schema)
            .i64(3, self.all_rows as i64)
            .structs(4, self.groups)
            .text(6, concat!("plimsoll version ", env!("CARGO_PKG_VERSION")))
            .finish();
        self.file.write_all(&meta)?;
        self.file.write_all(&(meta.len() as u32).to_le_bytes())?;
        self.file.write_all(MAGIC)?;
        Ok(self.file)
    }
}

/// The word that an enumeration is written as in the records.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::run::sample;

    #[test]
    fn a_file_has_its_marks_its_length_and_every_column_by_name() {
        let mut table = Table::new();
        for id in 0..3 {
            table.push(&sample::record(id, 1), Some(Load::Concurrency(8))).unwrap();
        }
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let bytes = table.finish().unwrap();
        assert!(bytes.starts_with(MAGIC) && bytes.ends_with(MAGIC));
        let at = bytes.len() - 8;
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let meta = String::from_utf8_lossy(&bytes[at - length..at]).into_owned();
        for name in names {
            assert!(meta.contains(name), "{name}");
        }
        assert!(meta.contains("plimsoll version "));
    }
}
