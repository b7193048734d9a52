//! One run at a time on an endpoint: two loads at once would measure each other.
//!
//! A file for each endpoint in a folder of the user's is locked while a run goes on. The system lets
//! go of the lock when the process ends, however it ends.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::loadgen::Address;

/// A lock on an endpoint, held until it is dropped.
#[derive(Debug)]
pub struct EndpointLock {
    /// Closing the file lets go of the lock.
    _file: File,
}

/// Who holds an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// Its run folder.
    pub run: PathBuf,
    /// When it took the lock, RFC 3339, UTC.
    pub since: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} with the run `{}`, since {}", self.pid, self.run.display(), self.since)
    }
}

/// A lock that cannot be had.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another run is measuring the endpoint.
    #[error("`{url}` is being measured already: {}", words(.holder.as_ref()))]
    Held {
        /// The endpoint.
        url: String,
        /// Who measures it, where it says so.
        holder: Option<Holder>,
    },
    /// The lock's file cannot be used.
    #[error("no lock can be kept in `{path}`: {reason}")]
    System {
        /// The file or folder.
        path: String,
        /// The system's words.
        reason: String,
    },
}

fn words(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "by a run that has just begun".to_owned(), Holder::to_string)
}

impl EndpointLock {
    /// Locks the endpoint at `url` for a run in the folder `run`. Nothing is sent.
    ///
    /// # Errors
    /// When another run on this host, by the same user, holds it, or the lock's file cannot be used.
    pub fn take(url: &str, run: &Path) -> Result<Self, LockError> {
        Self::take_in(&folder(), url, run)
    }

    /// The same, with locks kept in a folder of the caller's.
    ///
    /// # Errors
    /// Those of [`EndpointLock::take`].
    pub fn take_in(folder: &Path, url: &str, run: &Path) -> Result<Self, LockError> {
        let path = folder.join(file_name(url));
        let system = |error: io::Error| LockError::System {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        make_private(folder).map_err(system)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(system)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                return Err(LockError::Held { url: url.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(system(error)),
        }
        let run = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
        let since = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let holder = Holder { pid: std::process::id(), run, since };
        let text = serde_json::to_vec(&holder).unwrap_or_default();
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(&text))
            .and_then(|()| file.flush())
            .map_err(system)?;
        Ok(Self { _file: file })
    }
}

/// Where a user's locks are: the runtime folder, which is the user's own and goes with the session,
/// or else one of the system's folder for temporary files.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_dir()) {
        Some(dir) => Path::new(&dir).join("plimsoll"),
        None => std::env::temp_dir().join(format!("plimsoll-{}", rustix::process::getuid().as_raw())),
    }
}

fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// One name for each way to write the same server.
fn file_name(url: &str) -> String {
    let Ok(address) = Address::parse(url) else { return "unknown.lock".to_owned() };
    let host = match address.host.to_ascii_lowercase().as_str() {
        "localhost" | "::1" => "127.0.0.1".to_owned(),
        host => host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect(),
    };
    format!("{host}_{}.lock", address.port)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_second_is_told_who_is_first_and_may_go_when_that_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let locks = dir.path().join("locks");
        let take = |url: &str, run: &str| EndpointLock::take_in(&locks, url, Path::new(run));
        let first = take("http://127.0.0.1:8000", "/runs/first").unwrap();
        let error = take("http://localhost:8000/v1", "/runs/second").unwrap_err();
        let LockError::Held { holder: Some(holder), .. } = &error else { panic!("{error}") };
        assert_eq!((holder.pid, holder.run.as_path()), (std::process::id(), Path::new("/runs/first")));
        assert!(error.to_string().contains("/runs/first"), "{error}");
        let other = take("http://127.0.0.1:8001", "/runs/other");
        assert!(other.is_ok());
        drop(first);
        assert!(take("http://127.0.0.1:8000", "/runs/third").is_ok());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = EndpointLock::take_in(&file, "http://127.0.0.1:8000", Path::new("r")).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
