//! The run folder: everything one command measured, kept so that nothing is lost.
//!
//! A folder holds `plan.toml` (what was to be done), `journal.jsonl` (what happened, one event a
//! line, only ever appended to), `requests.jsonl.zst` (every request, one zstd frame a trial) and,
//! where something was seen beside the requests, `telemetry.jsonl` (one look a line).
//! A trial's records are synced to the disk before the journal's line that names them, so at every
//! instant the journal is the truth: whatever was cut short by a kill, a full disk or a power cut
//! lies behind its last whole line and is cut off when the run is taken up again.
//!
//! ```no_run
//! # fn main() -> Result<(), plimsoll::run::RunError> {
//! use std::path::Path;
//! let (mut folder, past) = plimsoll::run::RunFolder::open(Path::new("runs/latest"))?;
//! println!("{} trials are done", past.trials.len());
//! folder.warn("the server was restarted")?;
//! folder.close()
//! # }
//! ```

mod append;
mod contents;
mod error;
mod folder;
mod group;
mod journal;
mod observer;
mod records;
mod repeats;
#[cfg(test)]
pub(crate) mod sample;
mod secrets;
#[cfg(test)]
mod tests;
mod writer;

pub use contents::{Contents, Ended, StoredTrial};
pub use error::RunError;
pub use folder::{RunFolder, write_file};
pub use group::GroupFolder;
pub use journal::{Cost, Event, JOURNAL_VERSION, Started};
pub use observer::{Observer, Progress, Silent};
pub use records::Frame;
pub use repeats::{REPEATS_FILE, RepeatsFolder};
pub use secrets::{SECRET, left_out, without_secrets};

/// Name of the plan within a run folder.
pub const PLAN_FILE: &str = "plan.toml";
/// Name of the journal within a run folder.
pub const JOURNAL_FILE: &str = "journal.jsonl";
/// Name of the requests' records within a run folder.
pub const RECORDS_FILE: &str = "requests.jsonl.zst";

/// Whether a process is writing to a run folder at this moment.
pub fn is_being_written(path: &std::path::Path) -> bool {
    let Ok(journal) = std::fs::File::open(path.join(JOURNAL_FILE)) else { return false };
    // Let go at once, when the file is closed.
    matches!(journal.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
}
/// Name of what was seen beside the requests within a run folder.
pub const TELEMETRY_FILE: &str = "telemetry.jsonl";

/// Removes a run folder in which nothing was measured. What cannot be removed stays.
pub fn discard(path: &std::path::Path) {
    if let Some(out) = path.parent() {
        let latest = out.join("latest");
        let points_here = std::fs::read_link(&latest).is_ok_and(|to| path.ends_with(to));
        let _ = std::fs::remove_dir_all(path);
        if points_here {
            let _ = std::fs::remove_file(latest);
        }
        // Goes only if it is empty: it was made for this run then.
        let _ = std::fs::remove_dir(out);
    }
}
