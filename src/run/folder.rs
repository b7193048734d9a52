//! Making a run folder, writing to it, taking it up again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::append::AppendFile;
use super::contents::{Contents, hash};
use super::error::RunError;
use super::journal::{Cost, Event, JOURNAL_VERSION, Started};
use super::writer::{Entry, Files, Writer};
use super::{JOURNAL_FILE, PLAN_FILE, RECORDS_FILE, secrets};
use crate::loadgen::RequestRecord;
use crate::plan::Plan;
use crate::search::{Answer, TrialOutcome, TrialSpec};

/// A run folder that is being written. No other process can write to it meanwhile.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    started: Started,
    writer: Writer,
}

impl RunFolder {
    /// Makes `<out>/<utc>-<name>/` (`out` is `runs` where it is not given) with `plan.toml` and a
    /// journal that says that the run began now, and points the link `<out>/latest` to it.
    ///
    /// # Errors
    /// When the folder or a file in it cannot be written; nothing is left behind then.
    pub fn create(out: Option<&Path>, name: &str, plan: &Plan) -> Result<Self, RunError> {
        let base = out.unwrap_or(Path::new("runs"));
        let existed = base.exists();
        let made = fs::create_dir_all(base)
            .map_err(|error| RunError::create(base, &error))
            .and_then(|()| make(base, name, plan));
        if made.is_err() && !existed {
            // Goes only if it is empty, which it is if this call made it.
            let _ = fs::remove_dir(base);
        }
        made
    }

    /// Opens the folder of a run that was ended or killed, to go on with it: cuts off what was only
    /// half written and notes in the journal that the run was resumed.
    ///
    /// # Errors
    /// When it is no run folder, another process writes to it, its plan was changed, or a file in it
    /// is damaged or cannot be written.
    pub fn open(path: &Path) -> Result<(Self, Contents), RunError> {
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let journal_path = path.join(JOURNAL_FILE);
        if !journal_path.exists() {
            return Err(RunError::NotARun { path: path.clone(), missing: JOURNAL_FILE });
        }
        let unwritable = |error: io::Error| RunError::write(&journal_path, &error);
        // Locked before it is read: what another process is about to write would be cut off.
        let guard = AppendFile::open(&journal_path, 0).map_err(unwritable)?;
        if !guard.lock().map_err(unwritable)? {
            return Err(RunError::InUse { path: path.clone() });
        }
        let contents = Contents::read(path)?;
        if contents.plan_changed {
            return Err(RunError::PlanChanged { path: path.join(PLAN_FILE) });
        }
        let journal = guard.keeping(contents.journal_len);
        let records_path = path.join(RECORDS_FILE);
        let records = AppendFile::open(&records_path, contents.records_len)
            .map_err(|error| RunError::write(&records_path, &error))?;
        let mut files = Files { journal, records, telemetry: None, folder: path.clone() };
        files.records.cut()?;
        files.log(&Event::RunResumed {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            utc: Timestamp::now().to_string(),
            clock: contents.clock(),
            records_end: contents.records_len,
        })?;
        let writer = Writer::start(files).map_err(unwritable)?;
        Ok((Self { path: path.clone(), started: contents.started.clone(), writer }, contents))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the run began.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Notes what the target says of itself; secrets in it are left out.
    ///
    /// # Errors
    /// As every method that writes: when this or an earlier entry could not be written. The folder
    /// then holds everything up to the last trial that was kept.
    pub fn target_described(&mut self, mut description: serde_json::Value) -> Result<(), RunError> {
        secrets::hide_in_json(&mut description);
        self.writer.send(Entry::Event(Event::TargetDescribed(description)))
    }

    /// Notes that a trial is about to be run.
    ///
    /// # Errors
    /// See [`RunFolder::target_described`].
    pub fn trial_asked(&mut self, spec: &TrialSpec) -> Result<(), RunError> {
        self.writer.send(Entry::Event(Event::TrialAsked(spec.clone())))
    }

    /// Keeps a trial with the records of its requests; `cost` is the run's so far. Returns before
    /// they are on the disk ([`RunFolder::flush`] waits for that).
    ///
    /// # Errors
    /// See [`RunFolder::target_described`].
    pub fn trial_ended(
        &mut self,
        outcome: &TrialOutcome,
        cost: Cost,
        records: Vec<RequestRecord>,
    ) -> Result<(), RunError> {
        self.writer.send(Entry::Trial { outcome: Box::new(outcome.clone()), cost, records })
    }

    /// Keeps whole lines of what was seen beside the requests (`telemetry.jsonl`).
    ///
    /// # Errors
    /// See [`RunFolder::target_described`].
    pub fn telemetry(&mut self, lines: Vec<u8>) -> Result<(), RunError> {
        if lines.is_empty() { Ok(()) } else { self.writer.send(Entry::Telemetry(lines)) }
    }

    /// Notes something that the reader of the answer should know.
    ///
    /// # Errors
    /// See [`RunFolder::target_described`].
    pub fn warn(&mut self, text: &str) -> Result<(), RunError> {
        self.writer.send(Entry::Event(Event::Warning(text.to_owned())))
    }

    /// Keeps the answer, with the records of requests that ended after the last trial, and waits
    /// until all is on the disk.
    ///
    /// # Errors
    /// See [`RunFolder::target_described`].
    pub fn ended(
        &mut self,
        answer: &Answer,
        cost: Cost,
        records: Vec<RequestRecord>,
    ) -> Result<(), RunError> {
        self.writer.send(Entry::End { answer: Box::new(answer.clone()), cost, records })?;
        self.flush()
    }

    /// Waits until everything so far is on the disk.
    ///
    /// # Errors
    /// See [`RunFolder::target_described`].
    pub fn flush(&mut self) -> Result<(), RunError> {
        self.writer.flush()
    }

    /// Waits until everything is on the disk and lets the folder go.
    ///
    /// # Errors
    /// See [`RunFolder::target_described`].
    pub fn close(self) -> Result<(), RunError> {
        self.writer.flush()
    }
}

/// Writes a file of the report into a run folder, whole or not at all.
///
/// # Errors
/// When it cannot be written; a file of that name that was there before is still there.
pub fn write_file(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, RunError> {
    let path = folder.join(name);
    write_whole(&path, bytes).map_err(|error| RunError::write(&path, &error))?;
    Ok(path)
}

/// Makes the folder under a name of its own and renames it when it is complete.
fn make(base: &Path, name: &str, plan: &Plan) -> Result<RunFolder, RunError> {
    let now = Timestamp::now();
    let stem = format!("{}-{}", now.strftime("%Y%m%dT%H%M%SZ"), file_name(name));
    let partial = (0..)
        .map(|n: u32| base.join(format!(".{stem}.{}.{n}", std::process::id())))
        .find(|path| !path.exists())
        .unwrap_or_else(|| base.join(format!(".{stem}")));
    let failed = |error: io::Error| RunError::create(base, &error);
    fs::create_dir(&partial).map_err(failed)?;
    let made = fill(&partial, plan, now).and_then(|(mut files, started)| {
        let path = place(&partial, base, &stem).map_err(failed)?;
        files.moved_to(&path);
        let writer = Writer::start(files).map_err(failed)?;
        Ok(RunFolder { path, started, writer })
    });
    match &made {
        Ok(folder) => point_latest(base, &folder.path),
        // What cannot be removed stays hidden behind its dot; the error that counts is the first.
        Err(_) => drop(fs::remove_dir_all(&partial)),
    }
    made
}

fn fill(folder: &Path, plan: &Plan, now: Timestamp) -> Result<(Files, Started), RunError> {
    let failed = |error: io::Error| RunError::create(folder.parent().unwrap_or(folder), &error);
    let text = toml::to_string_pretty(&secrets::without_secrets(plan))
        .map_err(|error| RunError::Plan { path: folder.join(PLAN_FILE), problem: error.to_string() })?;
    write_whole(&folder.join(PLAN_FILE), text.as_bytes()).map_err(failed)?;
    let journal = AppendFile::create(&folder.join(JOURNAL_FILE)).map_err(failed)?;
    journal.lock().map_err(failed)?;
    let records = AppendFile::create(&folder.join(RECORDS_FILE)).map_err(failed)?;
    let started = Started {
        journal_version: JOURNAL_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        utc: now.to_string(),
        clock_origin: now.as_microsecond() as f64 * 1e-6,
        plan_hash: hash(text.as_bytes()),
    };
    let mut files = Files { journal, records, telemetry: None, folder: folder.to_owned() };
    files.log(&Event::RunStarted(started.clone())).map_err(|error| match error {
        RunError::Write { problem, .. } => failed(io::Error::other(problem)),
        other => other,
    })?;
    Ok((files, started))
}

/// Renames the complete folder to the first name that is free.
fn place(partial: &Path, base: &Path, stem: &str) -> io::Result<PathBuf> {
    let mut n = 1_u32;
    loop {
        let path = if n == 1 { base.join(stem) } else { base.join(format!("{stem}-{n}")) };
        if fs::symlink_metadata(&path).is_err() {
            match fs::rename(partial, &path) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
                    ) => {}
                renamed => {
                    renamed?;
                    // A folder whose name is lost in a power cut is a lost run; some file systems
                    // cannot sync a folder, which is no reason to stop.
                    let _ = File::open(base).and_then(|folder| folder.sync_all());
                    return Ok(path);
                }
            }
        }
        n += 1;
    }
}

/// Points the link `latest` to the newest run. A convenience: where links cannot be made, or
/// something else has that name, there is none.
pub(super) fn point_latest(base: &Path, run: &Path) {
    #[cfg(unix)]
    {
        let link = base.join("latest");
        if fs::symlink_metadata(&link).is_ok_and(|meta| !meta.is_symlink()) {
            return;
        }
        if let Some(name) = run.file_name() {
            let new = base.join(format!(".latest.{}", name.to_string_lossy()));
            if std::os::unix::fs::symlink(name, &new).is_ok() && fs::rename(&new, &link).is_err() {
                let _ = fs::remove_file(&new);
            }
        }
    }
    #[cfg(not(unix))]
    let _ = (base, run);
}

/// Writes a file under another name, brings it to the disk and renames it.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let written = written.and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// A recipe's name as part of a file name: letters, digits, `.`, `-` and `_`, at most 64.
pub(super) fn file_name(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let text: String = name.chars().take(64).map(keep).collect();
    if text.is_empty() { "run".to_owned() } else { text }
}
