//! The open-loop check of a closed-loop answer, kept in the run's folder beside the journal: it is a run
//! of its own, but belongs to the answer whenever that is shown again.

use std::io::ErrorKind;
use std::path::Path;

use super::document::{TrialFigures, to_json};
use crate::run::{RunError, write_file};

/// Name of the file within a run folder.
const RATE_CHECK_FILE: &str = "rate-check.json";

/// Keeps the figures of the check in the folder of the run that it checked.
///
/// # Errors
/// When the file cannot be written.
pub fn keep_rate_check(folder: &Path, trial: &TrialFigures) -> Result<(), RunError> {
    write_file(folder, RATE_CHECK_FILE, to_json(trial).as_bytes()).map(|_| ())
}

/// The check of a run, if there was one; a text where it cannot be read.
pub(super) fn rate_check(folder: &Path) -> Result<Option<TrialFigures>, String> {
    let path = folder.join(RATE_CHECK_FILE);
    let read = match std::fs::read(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        read => read.map_err(|error| error.to_string()),
    };
    read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
        .map(Some)
        .map_err(|problem| {
            format!("the check of the request rate is left out: `{}`: {problem}", path.display())
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::report::sample_document;

    #[test]
    fn a_check_is_read_back_as_it_was_and_a_damaged_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(rate_check(folder.path()), Ok(None));
        let trial = &sample_document().trials[3];
        keep_rate_check(folder.path(), trial).unwrap();
        assert_eq!(rate_check(folder.path()).unwrap().as_ref(), Some(trial));
        std::fs::write(folder.path().join(RATE_CHECK_FILE), "{").unwrap();
        assert!(rate_check(folder.path()).unwrap_err().contains("rate-check.json"));
    }
}
