//! Whether the system lets the client open as many connections as it may need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;

/// Files kept free for everything that is not a connection of the load.
const RESERVE: u64 = 64;

/// A limit of the system that is too low.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{connections} connections need {needed} open files, but this process may have {allowed}: \
     raise the limit with `ulimit -Hn {needed}` (or `LimitNOFILE={needed}`), or allow at most {possible} \
     concurrent requests"
)]
pub struct LimitError {
    /// Connections that may be open at once.
    pub connections: u32,
    /// Open files that this takes.
    pub needed: u64,
    /// Open files that are allowed.
    pub allowed: u64,
    /// Connections that are possible.
    pub possible: u64,
}

/// Makes sure that `connections` can be open at once, each costing `files_each` open files (2 where
/// the server is in this process too); raises the soft limit where that helps.
///
/// # Errors
/// When the hard limit is too low.
pub fn ensure_open_files(connections: u32, files_each: u32) -> Result<(), LimitError> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(RESERVE, |files| files.count() as u64);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match raise_to(connections, files_each, open, current, maximum)? {
        None => Ok(()),
        Some(soft) => setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum }).map_err(|_| {
            let allowed = current.unwrap_or(u64::MAX);
            refusal(connections, files_each, open, allowed)
        }),
    }
}

/// Connections that the limits on open files allow; none where there is no limit.
pub fn possible_files() -> Option<u32> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(RESERVE, |files| files.count() as u64);
    let hard = getrlimit(Resource::Nofile).maximum?;
    Some(u32::try_from(hard.saturating_sub(open + RESERVE)).unwrap_or(u32::MAX))
}

/// The soft limit to set, if it must be raised. A limit of none is no limit.
fn raise_to(
    connections: u32,
    files_each: u32,
    open: u64,
    soft: Option<u64>,
    hard: Option<u64>,
) -> Result<Option<u64>, LimitError> {
    let needed = needed(connections, files_each, open);
    if soft.is_none_or(|soft| soft >= needed) {
        return Ok(None);
    }
    match hard {
        Some(hard) if hard < needed => Err(refusal(connections, files_each, open, hard)),
        _ => Ok(Some(needed)),
    }
}

fn needed(connections: u32, files_each: u32, open: u64) -> u64 {
    u64::from(connections) * u64::from(files_each) + open + RESERVE
}

fn refusal(connections: u32, files_each: u32, open: u64, allowed: u64) -> LimitError {
    let possible = allowed.saturating_sub(open + RESERVE) / u64::from(files_each.max(1));
    LimitError { connections, needed: needed(connections, files_each, open), allowed, possible }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soft_limit_is_raised_as_far_as_needed_and_no_further() {
        assert_eq!(raise_to(100, 1, 10, Some(1024), Some(4096)), Ok(None));
        assert_eq!(raise_to(2000, 1, 10, Some(1024), Some(4096)), Ok(Some(2074)));
        assert_eq!(raise_to(2000, 1, 10, Some(1024), None), Ok(Some(2074)));
        assert_eq!(raise_to(2000, 1, 10, None, None), Ok(None));
    }

    #[test]
    fn a_hard_limit_is_named_with_the_mend() {
        let error = raise_to(5000, 2, 10, Some(1024), Some(4096));
        let expected = LimitError { connections: 5000, needed: 10_074, allowed: 4096, possible: 2011 };
        assert_eq!(error, Err(expected.clone()));
        let text = expected.to_string();
        for part in ["5000 connections", "10074", "4096", "ulimit -Hn 10074", "at most 2011"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn this_process_may_open_a_few_files() {
        assert_eq!(ensure_open_files(8, 1), Ok(()));
        let beyond = ensure_open_files(u32::MAX, 64);
        assert!(beyond.is_err() || getrlimit(Resource::Nofile).current.is_none());
    }
}
