//! The requests' records: JSON lines in zstd frames, one frame a trial.
//!
//! Concatenated frames are one valid zstd file: `zstd -dc requests.jsonl.zst` shows every request.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::RunError;
use crate::loadgen::RequestRecord;

/// Where a set of records lies in the file: bytes `start..end`, one zstd frame (none where both
/// are equal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset behind its last byte.
    pub end: u64,
    /// Records in it.
    pub count: u64,
}

/// Measured: a thousand records of 250 tokens take 15 ms and pack 2.6 to 1 (the gaps are noise).
const LEVEL: i32 = 3;

/// One frame with these records; nothing at all for none.
pub(super) fn encode(records: &[RequestRecord]) -> io::Result<Vec<u8>> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    let mut line = Vec::new();
    for record in records {
        line.clear();
        serde_json::to_writer(&mut line, record)?;
        line.push(b'\n');
        encoder.write_all(&line)?;
    }
    encoder.finish()
}

/// Calls `visit` with every record of `frame`, in the order in which the requests ended.
pub(super) fn visit(
    path: &Path,
    frame: Frame,
    visit: &mut impl FnMut(RequestRecord),
) -> Result<(), RunError> {
    let unreadable = |error: io::Error| RunError::read(path, &error);
    if frame.start == frame.end {
        return Ok(());
    }
    let mut file = File::open(path).map_err(unreadable)?;
    file.seek(SeekFrom::Start(frame.start)).map_err(unreadable)?;
    let bytes = file.take(frame.end - frame.start);
    let mut lines = BufReader::new(zstd::Decoder::new(bytes).map_err(unreadable)?);
    let mut line = Vec::new();
    let mut count = 0;
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
        visit(serde_json::from_slice(&line).map_err(|error| unreadable(error.into()))?);
        count += 1;
    }
    if count == frame.count {
        Ok(())
    } else {
        let problem = format!("{count} records where {} were written", frame.count);
        Err(RunError::Read { path: path.to_owned(), problem })
    }
}
