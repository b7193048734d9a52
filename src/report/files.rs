//! The report's files in a run folder.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::document::Document;
use super::{csv, html, plot};
use crate::plan::Plan;
use crate::run::{Contents, RunError, write_file};

/// A report that could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReportError {
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] RunError),
    /// A picture could not be drawn.
    #[error(transparent)]
    Plot(#[from] plot::PlotError),
}

/// Writes `summary.json`, `curve.csv` and, where there is something to draw, `curve.svg` and
/// `curve.png` into a run's folder, each whole or not at all. Old ones are replaced.
///
/// # Errors
/// When a file cannot be written or a picture cannot be drawn. The summary comes first, so that it
/// is there even if a picture is not.
pub fn write_files(folder: &Path, document: &Document, plan: &Plan) -> Result<Vec<PathBuf>, ReportError> {
    let mut written = vec![
        write_file(folder, "summary.json", document.to_json().as_bytes())?,
        write_file(folder, "curve.csv", csv::curve(document).as_bytes())?,
    ];
    if let Some(picture) = plot::svg(document, plan)? {
        written.push(write_file(folder, "curve.svg", picture.as_bytes())?);
    }
    if let Some(picture) = plot::png(document, plan)? {
        written.push(write_file(folder, "curve.png", &picture)?);
    }
    Ok(written)
}

/// Writes the files of [`write_files`] and `report.html` of a run into `folder`, which is the run's own
/// unless it is another.
///
/// # Errors
/// See [`write_files`].
pub fn write_all(
    folder: &Path,
    contents: &Contents,
    document: &Document,
) -> Result<Vec<PathBuf>, ReportError> {
    let mut written = write_files(folder, document, &contents.plan)?;
    let page = html::render(contents, document);
    written.push(write_file(folder, "report.html", page.as_bytes())?);
    Ok(written)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::report::sample_document;
    use crate::run::sample;

    #[test]
    fn a_report_has_its_four_files_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let written = write_files(folder.path(), &sample_document(), &sample::plan()).unwrap();
        let names: Vec<&str> =
            written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["summary.json", "curve.csv", "curve.svg", "curve.png"]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_folder_that_is_gone_is_named() {
        let error =
            write_files(Path::new("/nonexistent/run"), &sample_document(), &sample::plan()).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot write `/nonexistent/run/summary.json`: no such file"),
            "{error}"
        );
    }
}
