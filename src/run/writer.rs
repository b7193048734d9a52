//! The thread that writes a run's journal and records.
//!
//! Packing and syncing a trial's records takes milliseconds to tens of them; on the thread that drives the
//! load they would delay the next requests. Order is kept: an entry is begun when the one before it
//! is on the disk. After a failure nothing more is written, since later entries would not fit.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::append::AppendFile;
use super::error::RunError;
use super::journal::{self, Cost, Event};
use super::records::{self, Frame};
use crate::loadgen::RequestRecord;
use crate::search::{Answer, TrialOutcome};

/// Entries that may wait for the disk before the run waits with them.
const QUEUE: usize = 16;

/// Something to be written.
pub(super) enum Entry {
    /// A plain event; it reaches the disk with the next trial.
    Event(Event),
    /// A trial with the records of its requests.
    Trial { outcome: Box<TrialOutcome>, cost: Cost, records: Vec<RequestRecord> },
    /// The end, with the records of requests that ended after the last trial.
    End { answer: Box<Answer>, cost: Cost, records: Vec<RequestRecord> },
    /// Whole lines of what was seen beside the requests.
    Telemetry(Vec<u8>),
    /// Bring everything to the disk and say so.
    Flush(SyncSender<()>),
}

/// The two files that grow during a run.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) journal: AppendFile,
    pub(super) records: AppendFile,
    /// Made with the first lines.
    pub(super) telemetry: Option<AppendFile>,
    pub(super) folder: PathBuf,
}

impl Files {
    pub(super) fn write(&mut self, entry: Entry) -> Result<(), RunError> {
        match entry {
            Entry::Event(event) => self.journal.append(&journal::to_line(&event)?),
            Entry::Trial { outcome, cost, records } => {
                let records = self.keep(&records)?;
                self.log(&Event::TrialEnded { outcome, cost, records })
            }
            Entry::End { answer, cost, records } => {
                let records = self.keep(&records)?;
                self.log(&Event::RunEnded { answer, cost, records })
            }
            Entry::Telemetry(lines) => self.keep_telemetry(&lines),
            Entry::Flush(done) => {
                let synced = self.journal.sync();
                // Nobody is left to tell where the run folder was dropped meanwhile.
                let _ = done.send(());
                synced
            }
        }
    }

    /// Appends an event and brings the journal to the disk.
    pub(super) fn log(&mut self, event: &Event) -> Result<(), RunError> {
        self.journal.append(&journal::to_line(event)?)?;
        self.journal.sync()
    }

    /// Appends records and brings them to the disk.
    fn keep(&mut self, records: &[RequestRecord]) -> Result<Frame, RunError> {
        let start = self.records.len();
        let bytes = records::encode(records)
            .map_err(|error| RunError::Unrecordable { problem: error.to_string() })?;
        if !bytes.is_empty() {
            self.records.append(&bytes)?;
            self.records.sync()?;
        }
        Ok(Frame { start, end: self.records.len(), count: records.len() as u64 })
    }

    /// Appends lines of telemetry; they are not worth a wait for the disk.
    fn keep_telemetry(&mut self, lines: &[u8]) -> Result<(), RunError> {
        let file = match &mut self.telemetry {
            Some(file) => file,
            slot => {
                let path = self.folder.join(super::TELEMETRY_FILE);
                let failed = |error: std::io::Error| RunError::write(&path, &error);
                slot.insert(AppendFile::open(&path, whole_lines(&path)).map_err(failed)?)
            }
        };
        file.append(lines)
    }

    /// Follows a rename of the run folder.
    pub(super) fn moved_to(&mut self, folder: &Path) {
        self.folder = folder.to_owned();
        self.journal.moved_to(folder.join(super::JOURNAL_FILE));
        self.records.moved_to(folder.join(super::RECORDS_FILE));
    }
}

/// Length of a file up to its last line end: what follows was cut short.
fn whole_lines(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at as u64 + 1)
}

/// Hands entries to the thread and hears of its failures.
#[derive(Debug)]
pub(super) struct Writer {
    entries: Option<SyncSender<Entry>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<RunError>>>,
}

impl Writer {
    pub(super) fn start(files: Files) -> std::io::Result<Self> {
        let (entries, inbox) = sync_channel(QUEUE);
        let failure = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&failure);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_all(files, &inbox, &shared))?;
        Ok(Self { entries: Some(entries), thread: Some(thread), failure })
    }

    /// Hands an entry over.
    ///
    /// # Errors
    /// With the failure of an earlier entry, if there was one.
    pub(super) fn send(&self, entry: Entry) -> Result<(), RunError> {
        self.check()?;
        if let Some(entries) = &self.entries
            && entries.send(entry).is_err()
        {
            self.check()?;
        }
        Ok(())
    }

    /// Waits until everything handed over is on the disk.
    pub(super) fn flush(&self) -> Result<(), RunError> {
        let (done, wait) = sync_channel(1);
        self.send(Entry::Flush(done))?;
        // An error means that the thread has ended; `check` then says why.
        let _ = wait.recv();
        self.check()
    }

    fn check(&self) -> Result<(), RunError> {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    /// Waits for what was handed over, so that leaving early loses nothing.
    fn drop(&mut self) {
        self.entries = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes until nobody is left to hand over entries or one fails; ending then hangs up on the
/// sender, who looks at `failure`.
fn write_all(mut files: Files, inbox: &Receiver<Entry>, failure: &Mutex<Option<RunError>>) {
    for entry in inbox {
        if let Err(error) = files.write(entry) {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            return;
        }
    }
}
