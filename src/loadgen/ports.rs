//! Whether the system has as many local ports as connections may be open at once.

use std::fs;

use thiserror::Error;

/// Where Linux tells which ports connections may use.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Share of the ports that other connections to the same server, and closed ones that the system
/// still waits for, leave free.
const FREE: f64 = 0.9;

/// Too few local ports.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{connections} connections to one server need as many local ports, but this host has {ports}: widen the range \
     with `sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`, or allow at most {possible} concurrent requests"
)]
pub struct PortError {
    /// Connections that may be open at once.
    pub connections: u32,
    /// Ports that there are.
    pub ports: u32,
    /// Connections that are possible.
    pub possible: u32,
}

/// Connections to one server that this host's ports allow; none where the system does not tell.
pub fn possible_connections() -> Option<u32> {
    let ports = ports(&fs::read_to_string(RANGE).ok()?)?;
    Some((f64::from(ports) * FREE) as u32)
}

/// Makes sure that `connections` to one server can be open at once.
///
/// # Errors
/// When there are fewer local ports.
pub fn ensure_ports(connections: u32) -> Result<(), PortError> {
    match possible_connections() {
        Some(possible) if possible < connections => {
            Err(PortError { connections, ports: (f64::from(possible) / FREE).round() as u32, possible })
        }
        _ => Ok(()),
    }
}

/// Ports in a range as Linux writes it: first and last.
fn ports(text: &str) -> Option<u32> {
    let mut ends = text.split_whitespace().map(str::parse::<u32>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    last.checked_sub(first).map(|between| between + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_is_counted_with_both_ends() {
        assert_eq!(ports("32768\t60999\n"), Some(28_232));
        assert_eq!(ports("9 5"), None);
        assert_eq!(ports(""), None);
    }

    #[test]
    fn more_connections_than_ports_are_refused_with_the_mend() {
        assert_eq!(ensure_ports(1), Ok(()));
        if let Err(error) = ensure_ports(70_000) {
            let text = error.to_string();
            assert!(text.contains("ip_local_port_range") && text.contains("at most"), "{text}");
        }
    }
}
