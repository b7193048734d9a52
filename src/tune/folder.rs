//! The folder of a tuning: `tune.toml`, `settings.jsonl`, a run folder for each setting.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::entry::Entry;
use super::error::TuneError;
use super::plan::TunePlan;
use crate::run::without_secrets;

/// Name of the plan within the folder.
pub const TUNE_FILE: &str = "tune.toml";
/// Name of the journal within the folder: a line for each setting that was tried.
pub const SETTINGS_FILE: &str = "settings.jsonl";

/// The folder of a tuning that goes on. No other process can write to it meanwhile.
#[derive(Debug)]
pub struct TuneFolder {
    path: PathBuf,
    journal: File,
}

impl TuneFolder {
    /// Makes `<out>/<utc>-<name>/` with the plan and an empty journal.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(out: &Path, plan: &TunePlan) -> Result<Self, TuneError> {
        let stem = format!(
            "{}-{}-tune",
            Timestamp::now().strftime("%Y%m%dT%H%M%SZ"),
            plan.plan.name.trim_end_matches("-tune")
        );
        fs::create_dir_all(out).map_err(|error| TuneError::file(out, error))?;
        let mut path = out.join(&stem);
        let mut n = 2;
        while let Err(error) = fs::create_dir(&path) {
            if error.kind() != std::io::ErrorKind::AlreadyExists {
                return Err(TuneError::file(&path, error));
            }
            path = out.join(format!("{stem}-{n}"));
            n += 1;
        }
        let kept = TunePlan { plan: without_secrets(&plan.plan), ..plan.clone() };
        let file = path.join(TUNE_FILE);
        let text = toml::to_string_pretty(&kept).map_err(|error| TuneError::file(&file, error))?;
        fs::write(&file, text).map_err(|error| TuneError::file(&file, error))?;
        let journal = Self::journal(&path)?;
        Ok(Self { path, journal })
    }

    /// Takes up the folder of a tuning that was cut short.
    ///
    /// # Errors
    /// When it is none, another process writes to it, or a file in it is damaged. A last line of the
    /// journal that was cut short is cut off.
    pub fn open(path: &Path) -> Result<(Self, TunePlan, Vec<Entry>), TuneError> {
        let journal = Self::journal(path)?;
        let (plan, entries, whole) = read(path)?;
        journal.set_len(whole as u64).map_err(|error| TuneError::file(path.join(SETTINGS_FILE), error))?;
        Ok((Self { path: path.to_owned(), journal }, plan, entries))
    }

    /// Whether a folder is that of a tuning.
    pub fn is_one(path: &Path) -> bool {
        path.join(TUNE_FILE).is_file()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the runs of the settings go.
    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// Brings a setting that was tried to the disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&mut self, entry: &Entry) -> Result<(), TuneError> {
        let path = || self.path.join(SETTINGS_FILE);
        let mut line = serde_json::to_string(entry).map_err(|error| TuneError::file(path(), error))?;
        line.push('\n');
        self.journal
            .write_all(line.as_bytes())
            .and_then(|()| self.journal.sync_data())
            .map_err(|error| TuneError::file(path(), error))
    }

    fn journal(folder: &Path) -> Result<File, TuneError> {
        let path = folder.join(SETTINGS_FILE);
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .map_err(|error| TuneError::file(&path, error))?;
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => {
                Err(TuneError::file(folder, "another process tunes in this folder; wait for its end"))
            }
            // A file system without locks is used without.
            Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(file),
        }
    }
}

/// The plan, the settings tried, and the length of the journal's whole lines.
fn read(folder: &Path) -> Result<(TunePlan, Vec<Entry>, usize), TuneError> {
    let file = folder.join(TUNE_FILE);
    let text = fs::read_to_string(&file).map_err(|error| TuneError::file(&file, error))?;
    let plan: TunePlan = toml::from_str(&text).map_err(|error| TuneError::file(&file, error.message()))?;
    let file = folder.join(SETTINGS_FILE);
    let text = fs::read_to_string(&file).map_err(|error| TuneError::file(&file, error))?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut entries = Vec::new();
    for (number, line) in text[..whole].lines().enumerate() {
        let entry = serde_json::from_str(line)
            .map_err(|error| TuneError::file(&file, format!("line {}: {error}", number + 1)))?;
        entries.push(entry);
    }
    Ok((plan, entries, whole))
}
