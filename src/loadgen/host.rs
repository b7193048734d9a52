//! CPU of this host that neither the client nor the server uses, where the server runs here too.
//!
//! All from Linux's `/proc`; where that is not to be had, nothing is said.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::health::process_cpu_seconds;
use crate::loadgen::options::Address;

/// CPU that other processes used meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Others {
    /// Cores that they used, on average.
    pub cores: f64,
    /// Cores of this host.
    pub of: f64,
    /// Cores that the server used, where its process could be told.
    pub server: Option<f64>,
    /// Whether the server's own use is left out of `cores`. It is not where its process belongs to
    /// another user.
    pub apart_from_server: bool,
}

/// Watches the CPU of a host on which a server runs.
pub(crate) struct HostCpu {
    cores: f64,
    ticks: f64,
    server: Server,
    last: Sample,
}

/// Where the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// In this very process.
    Here,
    /// In this one and its children.
    Process(u32),
    /// Somewhere on this host.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// CPU seconds of the whole host, of this process and of the server.
    host: f64,
    own: f64,
    server: f64,
}

impl HostCpu {
    /// A watch over this host, if it is where the server at `url` runs.
    pub(crate) fn of_server_at(url: &str) -> Option<Self> {
        let address = Address::parse(url).ok()?;
        let ip: IpAddr = match address.host.as_str() {
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            host => host.parse().ok()?,
        };
        if !ip.is_loopback() {
            return None;
        }
        let server = match listener(address.port) {
            Some(pid) if pid == std::process::id() => Server::Here,
            Some(pid) => Server::Process(pid),
            None => Server::Unknown,
        };
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let cores = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count() as f64;
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let last = sample(ticks, server)?;
        Some(Self { cores, ticks, server, last })
    }

    /// What others have used since this was last asked.
    pub(crate) fn others(&mut self) -> Option<Others> {
        let (before, now) = (self.last, sample(self.ticks, self.server)?);
        self.last = now;
        let wall = (now.at - before.at).as_secs_f64();
        // The system counts in ticks of 10 ms.
        if wall < 0.1 {
            return None;
        }
        let used = |after: f64, before: f64| ((after - before) / wall).clamp(0.0, self.cores);
        let server = used(now.server, before.server);
        let rest = used(now.host, before.host) - used(now.own, before.own) - server;
        Some(Others {
            cores: rest.max(0.0),
            of: self.cores,
            server: matches!(self.server, Server::Process(_)).then_some(server),
            apart_from_server: self.server != Server::Unknown,
        })
    }
}

fn sample(ticks: f64, server: Server) -> Option<Sample> {
    let host = busy_ticks(&fs::read_to_string("/proc/stat").ok()?)? / ticks;
    let server = match server {
        Server::Process(pid) => tree_ticks(&processes(), pid) / ticks,
        Server::Here | Server::Unknown => 0.0,
    };
    Some(Sample { at: Instant::now(), host, own: process_cpu_seconds(), server })
}

/// Ticks that the host's CPUs have worked: all but idle, waiting for a disk, and stolen.
fn busy_ticks(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().map_while(|text| text.parse().ok()).collect();
    let [user, nice, system, _idle, _disk, irq, softirq, ..] = ticks[..] else { return None };
    Some(user + nice + system + irq + softirq)
}

/// A process: its parent and the ticks it has used.
type Processes = HashMap<u32, (u32, f64)>;

fn processes() -> Processes {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, parent_and_ticks(&stat)?))
    };
    numbers.filter_map(read).collect()
}

/// Fields 4 (parent), 14 and 15 (user and system ticks) of a process's `stat`. Its second field, the
/// name in parentheses, may hold anything.
fn parent_and_ticks(stat: &str) -> Option<(u32, f64)> {
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((fields.get(1)?.parse().ok()?, ticks(11)? + ticks(12)?))
}

/// Ticks of a process and all that descend from it.
fn tree_ticks(processes: &Processes, root: u32) -> f64 {
    let descends = |mut pid: u32| {
        // A chain of parents is short; a loop (a number taken anew in between) must end.
        for _ in 0..64 {
            if pid == root {
                return true;
            }
            match processes.get(&pid) {
                Some(&(parent, _)) if parent > 1 => pid = parent,
                _ => return false,
            }
        }
        false
    };
    processes.iter().filter(|&(&pid, _)| descends(pid)).map(|(_, &(_, ticks))| ticks).sum()
}

/// The process that listens on a port of this host, if it may be seen.
fn listener(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    let inodes: Vec<String> = texts.flat_map(|text| listening(&text, port)).collect();
    let names: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| is_one_of(&link, &names))
    };
    if names.is_empty() {
        return None;
    }
    // Workers inherit their parent's socket: the oldest holder is the root of the tree.
    let mut pids: Vec<u32> = processes().into_keys().collect();
    pids.sort_unstable();
    pids.into_iter().find(holds)
}

fn is_one_of(link: &Path, names: &[String]) -> bool {
    names.iter().any(|name| link.as_os_str() == name.as_str())
}

/// Inodes of the sockets that listen on a port, by a table of `/proc/net`.
fn listening(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let wanted = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|fields| fields.len() > 9 && fields[1].ends_with(&wanted) && fields[3] == LISTEN)
        .map(|fields| fields[9].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_hosts_work_is_all_but_idle_and_waiting() {
        let stat = "cpu  100 20 30 5000 600 7 8 9 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(busy_ticks(stat), Some(165.0));
        assert_eq!(busy_ticks("intr 5"), None);
    }

    #[test]
    fn a_servers_children_are_its_own_whatever_their_names() {
        let stat = "12 (a) b (c)) S 7 1 1 0 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 5\n";
        assert_eq!(parent_and_ticks(stat), Some((7, 42.0)));
        let all = HashMap::from([
            (7, (1, 10.0)),
            (12, (7, 5.0)),
            (13, (12, 2.0)),
            (20, (1, 100.0)),
            (30, (31, 1.0)),
            (31, (30, 1.0)),
        ]);
        assert_eq!(tree_ticks(&all, 7), 17.0);
        assert_eq!(tree_ticks(&all, 20), 100.0);
    }

    #[test]
    fn a_listening_socket_is_told_from_a_connected_one() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 4242 1 0 100 0 0 10 0\n\
            1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000 1000 0 4243 1 0 100 0 0 10 0\n";
        assert_eq!(listening(table, 8080), ["4242"]);
        assert!(listening(table, 8081).is_empty());
    }

    #[test]
    fn a_server_in_this_process_is_found_by_its_port() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        assert_eq!(listener(port), Some(std::process::id()));
        let host = HostCpu::of_server_at(&format!("http://127.0.0.1:{port}")).unwrap();
        assert_eq!(host.server, Server::Here);
        assert!(host.cores >= 1.0);
        assert!(HostCpu::of_server_at("http://192.0.2.1:8000").is_none());
    }
}
