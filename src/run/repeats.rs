//! The folder of several searches that are put together: `repeats.toml` and a run folder for each.

use std::path::{Path, PathBuf};

use super::contents::check_version;
use super::group::GroupFolder;
use super::{RunError, without_secrets};
use crate::plan::Plan;

/// Name of the plan within the folder.
pub const REPEATS_FILE: &str = "repeats.toml";

/// The folder of several searches that are put together.
#[derive(Debug)]
pub struct RepeatsFolder(GroupFolder);

impl RepeatsFolder {
    /// Makes `<out>/<utc>-<name>-repeats/` with the plan, and points the link `<out>/latest` to it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(out: &Path, plan: &Plan) -> Result<Self, RunError> {
        GroupFolder::create(out, (&plan.name, "repeats"), REPEATS_FILE, &without_secrets(plan)).map(Self)
    }

    /// Takes up the folder to go on with its searches.
    ///
    /// # Errors
    /// When it is none, its plan cannot be read, or another process goes on with it.
    pub fn open(path: &Path) -> Result<(Self, Plan), RunError> {
        let (folder, plan) = GroupFolder::open(path, REPEATS_FILE)?;
        check_version(&path.join(REPEATS_FILE), &plan)?;
        Ok((Self(folder), plan))
    }

    /// Reads the folder, whether its searches go on or not.
    ///
    /// # Errors
    /// When it is none or its plan cannot be read.
    pub fn read(path: &Path) -> Result<(Self, Plan), RunError> {
        let (folder, plan) = GroupFolder::read(path, REPEATS_FILE)?;
        check_version(&path.join(REPEATS_FILE), &plan)?;
        Ok((Self(folder), plan))
    }

    /// Whether a folder is that of several searches.
    pub fn is_one(path: &Path) -> bool {
        path.join(REPEATS_FILE).is_file()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Hash of the plan's text.
    pub fn plan_hash(&self) -> &str {
        self.0.plan_hash()
    }

    /// When the plan was written, RFC 3339, UTC.
    pub fn started(&self) -> &str {
        self.0.started()
    }

    /// Where the run folders of the searches are.
    pub fn runs(&self) -> PathBuf {
        self.0.runs()
    }

    /// The run folder of the search with this seed, if it has begun; the newest where there are several.
    pub fn run_of(&self, seed: u64) -> Option<PathBuf> {
        self.0.run_of(seed)
    }
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
