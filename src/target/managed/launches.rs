//! What was launched in a run, kept in its folder, and how a later process stops what was left.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::tree;

/// Name of the file within a run folder.
pub const LAUNCHES_FILE: &str = "launches.jsonl";

/// Longest that a supervisor is waited for that is stopping its engine, beyond the engine's own time.
const SUPERVISOR: Duration = Duration::from_secs(15);

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// An engine was launched.
    Launched(Launched),
    /// All of its processes are gone.
    Ended {
        launch: u32,
        /// How its first process ended, where that was seen.
        exit: Option<super::Exit>,
        /// Whether that was asked for.
        asked: bool,
    },
}

/// An engine that was launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Launched {
    pub(super) launch: u32,
    pub(super) id: String,
    /// When, RFC 3339.
    pub(super) utc: String,
    pub(super) command: Vec<String>,
    /// The process, which leads a group of its own.
    pub(super) pid: i32,
    /// Its start in clock ticks since the machine's.
    pub(super) started: u64,
    pub(super) supervisor: i32,
    pub(super) supervisor_started: u64,
    /// Which start of the machine.
    pub(super) boot: String,
    pub(super) stop: Option<Vec<String>>,
    pub(super) stop_seconds: f64,
}

/// Adds a line; it is on the disk when this returns.
pub(super) fn append(path: &Path, entry: &Entry) -> io::Result<()> {
    let mut line = serde_json::to_string(entry)?;
    line.push('\n');
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

/// Whether an engine was launched in this run folder, so that there is a log to be read.
pub fn was_launched(folder: &Path) -> bool {
    folder.join(LAUNCHES_FILE).exists()
}

/// The launches that did not end, as far as the file says.
fn open_launches(folder: &Path) -> Vec<Launched> {
    let text = fs::read_to_string(folder.join(LAUNCHES_FILE)).unwrap_or_default();
    let mut open: Vec<Launched> = Vec::new();
    // A line that was cut short by a kill says nothing.
    for entry in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match entry {
            Entry::Launched(launched) => open.push(launched),
            Entry::Ended { launch, .. } => open.retain(|launched| launched.launch != launch),
        }
    }
    open
}

/// An engine of an earlier part of the run that was found running, and is stopped now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Number of the launch.
    pub launch: u32,
    /// Its processes that were found.
    pub processes: usize,
}

/// Stops what earlier parts of the run in `folder` left running. A supervisor that is still there is
/// waited for, since it stops its engine by itself.
pub async fn stop_leftovers(folder: &Path) -> Vec<Leftover> {
    let mut found = Vec::new();
    for launched in open_launches(folder) {
        let folder = folder.to_owned();
        // Looks at processes and sleeps in between.
        let stopped = tokio::task::spawn_blocking(move || stop(&folder, &launched)).await;
        found.extend(stopped.ok().flatten());
    }
    found
}

fn stop(folder: &Path, launched: &Launched) -> Option<Leftover> {
    if launched.boot != tree::boot() {
        return None;
    }
    let grace = Duration::try_from_secs_f64(launched.stop_seconds).unwrap_or_default();
    let is_supervised = || {
        tree::stat(launched.supervisor)
            .is_some_and(|stat| stat.started == launched.supervisor_started && !stat.zombie)
    };
    let before = tree::of_launch(launched.pid, launched.started, &launched.id);
    wait(grace * 2 + SUPERVISOR, || !is_supervised());
    let left = || tree::of_launch(launched.pid, launched.started, &launched.id);
    if let Some((program, args)) = launched.stop.as_ref().and_then(|stop| stop.split_first())
        && open_launches(folder).contains(launched)
    {
        let ended = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        if let Ok(mut child) = ended {
            wait(grace, || !matches!(child.try_wait(), Ok(None)));
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    if !left().is_empty() {
        tree::signal_all(&left(), Signal::TERM);
        wait(grace, || left().is_empty());
        wait(Duration::from_secs(10), || {
            tree::signal_all(&left(), Signal::KILL);
            left().is_empty()
        });
    }
    if left().is_empty() {
        let entry = Entry::Ended { launch: launched.launch, exit: None, asked: true };
        // Looked for once more by the next resume if this cannot be kept.
        let _ = append(&folder.join(LAUNCHES_FILE), &entry);
    }
    (!before.is_empty()).then_some(Leftover { launch: launched.launch, processes: before.len() })
}

/// Waits until `is_over` says so, at the longest so long.
fn wait(longest: Duration, mut is_over: impl FnMut() -> bool) {
    let until = Instant::now() + longest;
    while !is_over() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::os::unix::process::CommandExt;

    fn launched(pid: i32, started: u64) -> Launched {
        Launched {
            launch: 1,
            id: "leftover-test".to_owned(),
            utc: String::new(),
            command: vec!["sleep".to_owned()],
            pid,
            started,
            // No process has this number.
            supervisor: i32::MAX,
            supervisor_started: 0,
            boot: tree::boot(),
            stop: None,
            stop_seconds: 5.0,
        }
    }

    #[test]
    fn an_engine_that_nobody_stopped_is_found_and_stopped_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = child.id() as i32;
        // Nobody else reaps it, so that its end can be seen.
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        let entry = launched(pid, tree::stat(pid).unwrap().started);
        append(&folder.path().join(LAUNCHES_FILE), &Entry::Launched(entry.clone())).unwrap();
        assert_eq!(open_launches(folder.path()), std::slice::from_ref(&entry));
        assert_eq!(stop(folder.path(), &entry), Some(Leftover { launch: 1, processes: 1 }));
        assert!(!reaper.join().unwrap().success());
        assert!(open_launches(folder.path()).is_empty());
    }

    #[test]
    fn a_process_that_only_bears_the_old_number_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = child.id() as i32;
        let older = launched(pid, tree::stat(pid).unwrap().started - 1);
        assert_eq!(stop(folder.path(), &older), None);
        let other_boot = Launched { boot: "other".to_owned(), ..older };
        assert_eq!(stop(folder.path(), &other_boot), None);
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
