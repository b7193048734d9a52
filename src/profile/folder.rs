//! The folder of a profile: `profile.toml`, and a run folder for each shape.

use std::path::{Path, PathBuf};

use super::plan::ProfilePlan;
use crate::run::{GroupFolder, RunError, without_secrets};

/// Name of the plan within the folder.
pub const PROFILE_FILE: &str = "profile.toml";

/// The folder of a profile.
#[derive(Debug)]
pub struct ProfileFolder(GroupFolder);

impl ProfileFolder {
    /// Makes `<out>/<utc>-<name>-profile/` with the plan, and points the link `<out>/latest` to it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(out: &Path, plan: &ProfilePlan) -> Result<Self, RunError> {
        let kept = ProfilePlan { plan: without_secrets(&plan.plan), ..plan.clone() };
        GroupFolder::create(out, (&plan.plan.name, "profile"), PROFILE_FILE, &kept).map(Self)
    }

    /// Takes up the folder to go on with its runs.
    ///
    /// # Errors
    /// When it is none, its plan cannot be read, or another process goes on with it.
    pub fn open(path: &Path) -> Result<(Self, ProfilePlan), RunError> {
        let (folder, plan) = GroupFolder::open(path, PROFILE_FILE)?;
        Ok((Self(folder), plan))
    }

    /// Reads the folder, whether its runs go on or not.
    ///
    /// # Errors
    /// When it is none or its plan cannot be read.
    pub fn read(path: &Path) -> Result<(Self, ProfilePlan), RunError> {
        let (folder, plan) = GroupFolder::read(path, PROFILE_FILE)?;
        Ok((Self(folder), plan))
    }

    /// Whether a folder is that of a profile.
    pub fn is_one(path: &Path) -> bool {
        path.join(PROFILE_FILE).is_file()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// When the plan was written, RFC 3339, UTC.
    pub fn started(&self) -> &str {
        self.0.started()
    }

    /// Where the run folders are.
    pub fn runs(&self) -> PathBuf {
        self.0.runs()
    }

    /// The run of the shape whose plan has this seed, if it has begun.
    pub fn run_of(&self, seed: u64) -> Option<PathBuf> {
        self.0.run_of(seed)
    }
}
