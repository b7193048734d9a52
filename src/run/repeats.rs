//! The folder of several searches that are put together: `repeats.toml` and a run folder for each.
//!
//! There is no journal beside those of the runs. A run belongs to the search whose seed its plan has, so
//! that the folder is whole at every instant and a search that is missing is simply run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::contents::{hash, read_plan_file};
use super::folder::{file_name, point_latest, write_whole};
use super::{PLAN_FILE, RunError, without_secrets};
use crate::plan::Plan;

/// Name of the plan within the folder.
pub const REPEATS_FILE: &str = "repeats.toml";

/// The folder of several searches that are put together.
#[derive(Debug)]
pub struct RepeatsFolder {
    path: PathBuf,
    plan_hash: String,
    started: String,
    /// Held while searches are run, so that no two processes go on with the same ones.
    _lock: Option<File>,
}

impl RepeatsFolder {
    /// Makes `<out>/<utc>-<name>-repeats/` with the plan, and points the link `<out>/latest` to it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(out: &Path, plan: &Plan) -> Result<Self, RunError> {
        let failed = |error: io::Error| RunError::create(out, &error);
        fs::create_dir_all(out).map_err(failed)?;
        let stem =
            format!("{}-{}-repeats", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"), file_name(&plan.name));
        let mut path = out.join(&stem);
        let mut n = 2;
        while let Err(error) = fs::create_dir(&path) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(failed(error));
            }
            path = out.join(format!("{stem}-{n}"));
            n += 1;
        }
        let file = path.join(REPEATS_FILE);
        let text = toml::to_string(&without_secrets(plan))
            .map_err(|error| RunError::Plan { path: file.clone(), problem: error.to_string() })?;
        write_whole(&file, text.as_bytes()).map_err(|error| RunError::write(&file, &error))?;
        point_latest(out, &path);
        Self::open(&path).map(|(folder, _)| folder)
    }

    /// Takes up the folder to go on with its searches.
    ///
    /// # Errors
    /// When it is none, its plan cannot be read, or another process goes on with it.
    pub fn open(path: &Path) -> Result<(Self, Plan), RunError> {
        let (mut folder, plan) = Self::read(path)?;
        let file = folder.path.join(REPEATS_FILE);
        let lock = File::open(&file).map_err(|error| RunError::read(&file, &error))?;
        if matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            return Err(RunError::InUse { path: folder.path });
        }
        folder._lock = Some(lock);
        Ok((folder, plan))
    }

    /// Reads the folder, whether its searches go on or not.
    ///
    /// # Errors
    /// When it is none or its plan cannot be read.
    pub fn read(path: &Path) -> Result<(Self, Plan), RunError> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = path.join(REPEATS_FILE);
        let (plan, bytes) = read_plan_file(&path, REPEATS_FILE)?;
        let started = fs::metadata(&file).and_then(|meta| meta.modified());
        let started = started.ok().and_then(|time| Timestamp::try_from(time).ok());
        let started = started.map_or_else(String::new, |time| time.to_string());
        Ok((Self { path, plan_hash: hash(&bytes), started, _lock: None }, plan))
    }

    /// Whether a folder is that of several searches.
    pub fn is_one(path: &Path) -> bool {
        path.join(REPEATS_FILE).is_file()
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

    /// Where the run folders of the searches are.
    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// The run folder of the search with this seed, if it has begun; the newest where there are several.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::run::{Contents, RunFolder, sample};

    #[test]
    fn each_search_is_found_by_its_seed_and_no_two_processes_go_on_at_once() {
        let out = tempfile::tempdir().unwrap();
        let plan = Plan { repeats: 3, ..sample::plan() };
        let folder = RepeatsFolder::create(out.path(), &plan).unwrap();
        assert!(RepeatsFolder::is_one(&out.path().join("latest")));
        let searches: Vec<Plan> = plan.each_search().collect();
        assert_eq!(searches.len(), 3);
        assert!(searches.iter().all(|search| search.repeats == 1));
        let second = RunFolder::create(Some(&folder.runs()), &plan.name, &searches[1]).unwrap();
        let path = second.path().to_owned();
        second.close().unwrap();
        assert_eq!(folder.run_of(searches[1].seed), Some(path.clone()));
        assert_eq!(folder.run_of(searches[0].seed), None);
        assert!(matches!(RepeatsFolder::open(folder.path()), Err(RunError::InUse { .. })));
        let (_, read) = RepeatsFolder::read(folder.path()).unwrap();
        assert_eq!(read, plan);
        // It is no run itself, and says which folders are.
        let error = Contents::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("holds several searches"), "{error}");
        drop(folder);
        assert!(RepeatsFolder::open(&out.path().join("latest")).is_ok());
    }
}
