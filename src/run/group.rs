//! A folder that holds several runs that belong together: a plan, and a run folder for each.
//!
//! There is no journal beside those of the runs. A run belongs to the part of the plan whose seed its own
//! plan has, so that the folder is whole at every instant and a run that is missing is simply made.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::contents::{hash, read_plan_file, read_toml};
use super::folder::{file_name, point_latest, write_whole};
use super::{PLAN_FILE, RunError};

/// A folder that holds several runs that belong together.
#[derive(Debug)]
pub struct GroupFolder {
    path: PathBuf,
    plan_hash: String,
    started: String,
    /// Held while runs are made, so that no two processes go on with the same ones.
    _lock: Option<File>,
}

impl GroupFolder {
    /// Makes `<out>/<utc>-<name>-<what>/` with the plan in `file`, takes it up, and points the link `<out>/latest`
    /// to it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(
        out: &Path,
        (name, what): (&str, &str),
        file: &'static str,
        plan: &impl Serialize,
    ) -> Result<Self, RunError> {
        let failed = |error: io::Error| RunError::create(out, &error);
        fs::create_dir_all(out).map_err(failed)?;
        let stem = format!("{}-{}-{what}", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"), file_name(name));
        let mut path = out.join(&stem);
        let mut n = 2;
        while let Err(error) = fs::create_dir(&path) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(failed(error));
            }
            path = out.join(format!("{stem}-{n}"));
            n += 1;
        }
        let file_path = path.join(file);
        let text = toml::to_string(plan)
            .map_err(|error| RunError::Plan { path: file_path.clone(), problem: error.to_string() })?;
        write_whole(&file_path, text.as_bytes()).map_err(|error| RunError::write(&file_path, &error))?;
        point_latest(out, &path);
        Self::open::<toml::Table>(&path, file).map(|(folder, _)| folder)
    }

    /// Takes up the folder to go on with its runs.
    ///
    /// # Errors
    /// When it is none, its plan cannot be read, or another process goes on with it.
    pub fn open<P: DeserializeOwned>(path: &Path, file: &'static str) -> Result<(Self, P), RunError> {
        let (mut folder, plan) = Self::read(path, file)?;
        let file = folder.path.join(file);
        let lock = File::open(&file).map_err(|error| RunError::read(&file, &error))?;
        if matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            return Err(RunError::InUse { path: folder.path });
        }
        folder._lock = Some(lock);
        Ok((folder, plan))
    }

    /// Reads the folder, whether its runs go on or not.
    ///
    /// # Errors
    /// When it is none or its plan cannot be read.
    pub fn read<P: DeserializeOwned>(path: &Path, file: &'static str) -> Result<(Self, P), RunError> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (plan, bytes) = read_toml(&path, file)?;
        let started = fs::metadata(path.join(file)).and_then(|meta| meta.modified());
        let started = started.ok().and_then(|time| Timestamp::try_from(time).ok());
        let started = started.map_or_else(String::new, |time| time.to_string());
        Ok((Self { path, plan_hash: hash(&bytes), started, _lock: None }, plan))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hash of the plan's text.
    pub fn plan_hash(&self) -> &str {
        &self.plan_hash
    }

    /// When the plan was written, RFC 3339, UTC.
    pub fn started(&self) -> &str {
        &self.started
    }

    /// Where the run folders are.
    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// The run folder whose plan has this seed, if it has begun; the newest where there are several.
    pub fn run_of(&self, seed: u64) -> Option<PathBuf> {
        let entries = fs::read_dir(self.runs()).ok()?;
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| !path.is_symlink() && !is_hidden(path))
            .filter(|path| read_plan_file(path, PLAN_FILE).is_ok_and(|(plan, _)| plan.seed == seed))
            .collect();
        found.sort();
        found.pop()
    }
}

/// Whether a folder is one that was being made when its process was killed.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}
