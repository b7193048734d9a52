//! Files below `/proc`, read.

/// Time that the processors have spent since boot, in ticks, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuTimes {
    /// All ticks of all processors.
    pub total: f64,
    /// Those in which nothing ran.
    pub idle: f64,
    /// Processors.
    pub processors: f64,
}

/// `/proc/stat`.
pub fn cpu_times(text: &str) -> Option<CpuTimes> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // Guests' time is in the user's already: the first eight fields make the whole.
    let ticks: Vec<f64> =
        line.split_whitespace().take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0.0);
    let numbered = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let processors = text.lines().filter(numbered).count().max(1) as f64;
    Some(CpuTimes { total: ticks.iter().sum(), idle, processors })
}

/// `/proc/meminfo`: memory in use (not available to a new process) and all of it, bytes.
pub fn memory(text: &str) -> Option<(f64, f64)> {
    let field = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
    };
    let total = field("MemTotal")?;
    Some((total - field("MemAvailable")?, total))
}

/// `/proc/net/dev`: bytes received and sent since boot on all interfaces but loopback.
pub fn network(text: &str) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for line in text.lines() {
        let Some((name, fields)) = line.split_once(':') else { continue };
        let fields: Vec<f64> = fields.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        if name.trim() != "lo" && fields.len() >= 9 {
            sum.0 += fields[0];
            sum.1 += fields[8];
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_for_disks_is_not_busy() {
        let text = "cpu  100 5 20 800 30 0 5 40 7 0\ncpu0 50 2 10 400 15 0 2 20 3 0\ncpu1 50 3 10 400 15 0 3 20 4 0\nintr 5\n";
        assert_eq!(cpu_times(text), Some(CpuTimes { total: 1000.0, idle: 830.0, processors: 2.0 }));
        assert_eq!(cpu_times("cpu one two"), None);
        assert_eq!(cpu_times(""), None);
    }

    #[test]
    fn memory_in_use_is_what_is_not_available() {
        let text = "MemTotal:        8000 kB\nMemFree:          100 kB\nMemAvailable:    6000 kB\n";
        assert_eq!(memory(text), Some((2000.0 * 1024.0, 8000.0 * 1024.0)));
        assert_eq!(memory("MemTotal: 5 kB"), None);
    }

    #[test]
    fn loopback_is_no_network() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n\
                    \x20   lo:  999 1 0 0 0 0 0 0  999 1 0 0 0 0 0 0\n\
                    \x20 eth0: 1000 9 0 0 0 0 0 0  200 8 0 0 0 0 0 0\n\
                    \x20 eth1:   10 1 0 0 0 0 0 0    5 1 0 0 0 0 0 0\n";
        assert_eq!(network(text), (1010.0, 205.0));
    }
}
