//! Processes and their groups, as `/proc` shows them (Linux; elsewhere only the group is known).

use std::fs;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A process that can be found again: a number is used anew, a number with its start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Clock ticks from the machine's start to the process's.
    pub(super) started: u64,
    pub(super) zombie: bool,
}

/// The variable that marks all processes of a launch.
pub(super) const MARK: &str = "PLIMSOLL_LAUNCH";

/// What is known of a process, if there is one.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // The 22nd field of all; three of them, the number and the name are behind us.
    let started = fields.nth(16)?.parse().ok()?;
    Some(Stat { parent, group, started, zombie })
}

/// The machine's start, which start times count from.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// All processes that are not zombies.
fn alive() -> Vec<(i32, Stat)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| Some((pid, stat(pid)?)))
        .filter(|(_, stat)| !stat.zombie)
        .collect()
}

/// The processes below `root`, at any depth.
pub(super) fn descendants(root: i32) -> Vec<i32> {
    let all = alive();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// The processes of a launch that a lost supervisor left: those of the group (unless its number is
/// another's by now) and those that bear the launch's mark.
pub(super) fn of_launch(group: i32, leader_started: u64, id: &str) -> Vec<i32> {
    let reused = stat(group).is_some_and(|stat| stat.started != leader_started);
    let mark = format!("{MARK}={id}");
    alive()
        .into_iter()
        .filter(|(pid, stat)| {
            (stat.group == group && !reused && stat.started >= leader_started) || is_marked(*pid, &mark)
        })
        .map(|(pid, _)| pid)
        .collect()
}

fn is_marked(pid: i32, mark: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
}

/// Sends a signal to a group. One that is gone is no error.
pub(super) fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        let _ = kill_process_group(group, signal);
    }
}

/// Sends a signal to each process. One that is gone is no error.
pub(super) fn signal_all(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_process_is_found_by_its_parent_its_group_and_its_mark() {
        let mut child = Command::new("sleep").arg("60").env(MARK, "here-1").process_group(0).spawn().unwrap();
        let pid = child.id() as i32;
        let own = std::process::id() as i32;
        let seen = stat(pid).unwrap();
        assert_eq!((seen.parent, seen.group, seen.zombie), (own, pid, false));
        assert!(descendants(own).contains(&pid));
        assert!(of_launch(pid, seen.started, "other").contains(&pid), "by its group");
        assert!(of_launch(i32::MAX, 0, "here-1").contains(&pid), "by its mark");
        let younger = seen.started - 1;
        assert!(!of_launch(pid, younger, "other").contains(&pid), "a number that is used anew");
        signal_group(pid, Signal::KILL);
        child.wait().unwrap();
        assert_eq!(stat(pid), None);
    }
}
