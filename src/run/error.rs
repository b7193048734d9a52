//! What can go wrong with a run folder.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A run folder that cannot be made, written or read. Each text is one whole line for the user.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The folder could not be made.
    #[error("cannot make a run folder in `{}`: {problem}; give a folder that can be written (`--out`)", path.display())]
    Create {
        /// The folder in which it was to be made.
        path: PathBuf,
        /// The system's words.
        problem: String,
    },
    /// A file could not be written. What was written before is whole.
    #[error(
        "cannot write `{}`: {problem}; what was written before is whole: mend that and resume the run",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's words.
        problem: String,
    },
    /// A file could not be read.
    #[error("cannot read `{}`: {problem}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        problem: String,
    },
    /// The folder is not one that a run has made.
    #[error("`{}` is not a run folder: it has no `{missing}`", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// The file that is not there.
        missing: &'static str,
    },
    /// The folder holds several runs.
    #[error("`{}` holds several searches", path.display())]
    Several {
        /// The folder.
        path: PathBuf,
    },
    /// Another process writes to the folder.
    #[error("the run in `{}` is still being written by another process; wait for it or end it", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A line of the journal, not its last, cannot be understood.
    #[error("`{}`, line {line}: {problem}; restore the file from a copy, or start a new run", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The plan is not the one that the run was started with.
    #[error(
        "`{}` was changed after the run began, so new trials would not belong to the old ones; undo the change or start a new run",
        path.display()
    )]
    PlanChanged {
        /// The plan.
        path: PathBuf,
    },
    /// The plan cannot be written as TOML or read back.
    #[error("the plan in `{}` is not valid: {problem}", path.display())]
    Plan {
        /// The plan.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// An event that could not be read back from the journal is not written to it.
    #[error("an event cannot be kept in the journal: {problem}")]
    Unrecordable {
        /// What is wrong with it.
        problem: String,
    },
}

impl RunError {
    pub(super) fn write(path: &Path, error: &io::Error) -> Self {
        Self::Write { path: path.to_owned(), problem: words(error) }
    }

    pub(super) fn read(path: &Path, error: &io::Error) -> Self {
        Self::Read { path: path.to_owned(), problem: words(error) }
    }

    pub(super) fn create(path: &Path, error: &io::Error) -> Self {
        Self::Create { path: path.to_owned(), problem: words(error) }
    }
}

/// The system's words without the number that Rust adds.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}
