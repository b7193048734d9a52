//! Ports of engines that run side by side: none is given to two of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex};

use super::failure::LaunchFailure;

/// Free ports that are looked at before none is said to be free.
const TRIES: usize = 64;

/// The ports that were chosen for engines of this program.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports(Arc<Mutex<BTreeSet<u16>>>);

/// A port; given back when it is dropped.
#[derive(Debug)]
pub(super) struct HeldPort {
    pub(super) number: u16,
    ports: Ports,
}

impl Drop for HeldPort {
    fn drop(&mut self) {
        if let Ok(mut held) = self.ports.0.lock() {
            held.remove(&self.number);
        }
    }
}

impl Ports {
    /// The port asked for if it is free at `host`, or a free one. Where the engine listens on another
    /// machine, the number is only likely to be free there.
    pub(super) fn choose(&self, host: &str, asked: Option<u16>) -> Result<HeldPort, LaunchFailure> {
        if let Some(number) = asked {
            return match free(host, number) {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    Err(LaunchFailure::PortTaken { address: format!("{host}:{number}") })
                }
                // A host of another machine: what is free there cannot be seen from here. Engines of
                // several hosts may have the same one, so it is not kept from the others.
                Ok(_) | Err(_) => Ok(HeldPort { number, ports: Self::default() }),
            };
        }
        for _ in 0..TRIES {
            let number = free(host, 0)
                .or_else(|_| free("0.0.0.0", 0))
                .map_err(|error| LaunchFailure::System(format!("no free port: {error}")))?;
            // An engine that is starting does not listen yet, so that its port still looks free.
            let is_new = self.0.lock().is_ok_and(|mut held| held.insert(number));
            if is_new {
                return Ok(HeldPort { number, ports: self.clone() });
            }
        }
        Err(LaunchFailure::System("no free port was found".to_owned()))
    }
}

fn free(host: &str, port: u16) -> std::io::Result<u16> {
    let address = match host.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, port),
        Err(_) => (host, port)
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| std::io::Error::other(format!("`{host}` has no address")))?,
    };
    Ok(TcpListener::bind(address)?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_port_that_was_chosen_is_not_chosen_again_before_it_is_given_back() {
        let ports = Ports::default();
        let held: Vec<HeldPort> = (0..40).map(|_| ports.choose("127.0.0.1", None).unwrap()).collect();
        let numbers: BTreeSet<u16> = held.iter().map(|port| port.number).collect();
        assert_eq!(numbers.len(), 40);
        assert_eq!(*ports.0.lock().unwrap(), numbers);
        drop(held);
        assert!(ports.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_port_that_is_asked_for_must_be_free() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = Ports::default().choose("127.0.0.1", Some(port)).unwrap_err().to_string();
        assert_eq!(error, format!("something listens already on 127.0.0.1:{port}"));
    }
}
