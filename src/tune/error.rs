//! Why a tuning cannot go on.

use std::path::PathBuf;

use thiserror::Error;

use crate::controller::ControllerError;
use crate::recipe::RecipeError;
use crate::run::RunError;
use crate::space::SpaceError;
use crate::target::managed;

/// A tuning that cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The knobs cannot be used.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The recipe cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A run within it cannot be kept.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run within it went wrong in a way that no other setting would mend.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The engine cannot be launched, whatever the setting.
    #[error(transparent)]
    Launch(#[from] managed::LaunchFailure),
    /// A file of the tuning cannot be read or written.
    #[error("`{}`: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl TuneError {
    pub(super) fn file(path: impl Into<PathBuf>, problem: impl ToString) -> Self {
        Self::File { path: path.into(), problem: problem.to_string() }
    }
}
