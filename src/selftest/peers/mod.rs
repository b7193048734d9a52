//! The methods of other tools, written anew from their published behaviour, to compare with.
//!
//! [`isotonic`] is that of AIPerf's search recipe, [`goodput`] that of guidellm's goodput profile,
//! [`bisection`] what one would write in an afternoon. What they say of their own certainty is the
//! interval that they are held to: a bracket, or what their intervals of shares resolve.

pub mod bench;
pub mod bisection;
pub mod goodput;
pub mod isotonic;

use bench::{Bench, Start};

use crate::selftest::error::SelfTestError;
use crate::selftest::tally::Said;
use crate::sim::scenarios::Scenario;

/// The fairest rival, which costs are compared with: large trials in a steady state.
pub const FAIR: &str = "isotonic ideal 1000";

/// A peer's method at one setting.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// What the tables call it.
    pub name: &'static str,
    method: Method,
    start: Start,
    requests: u32,
}

#[derive(Clone, Copy, Debug)]
enum Method {
    Isotonic,
    Goodput,
    Bisection,
}

/// What a peer's search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The highest level that met the SLO; 0 for none.
    pub met: u32,
    /// Lower end of its interval.
    pub low: u32,
    /// Upper end; `None` where nothing was missed.
    pub high: Option<u32>,
}

/// All of them.
pub const ALL: [Peer; 10] = [
    peer(FAIR, Method::Isotonic, Start::Seamless, 1000),
    peer("isotonic ideal 300", Method::Isotonic, Start::Seamless, 300),
    peer("isotonic ideal 10", Method::Isotonic, Start::Seamless, 10),
    peer("isotonic shipped 1000", Method::Isotonic, Start::WarmThenBurst, 1000),
    peer("isotonic shipped 300", Method::Isotonic, Start::WarmThenBurst, 300),
    peer("isotonic shipped 10", Method::Isotonic, Start::WarmThenBurst, 10),
    peer("goodput 300", Method::Goodput, Start::Burst, 300),
    peer("goodput 60", Method::Goodput, Start::Burst, 60),
    peer("bisection 1000", Method::Bisection, Start::Seamless, 1000),
    peer("bisection 300", Method::Bisection, Start::Seamless, 300),
];

const fn peer(name: &'static str, method: Method, start: Start, requests: u32) -> Peer {
    Peer { name, method, start, requests }
}

impl Peer {
    /// Searches a scenario once.
    ///
    /// # Errors
    /// When the scenario's SLO cannot be read or judged by the peer.
    pub fn search(&self, scenario: &Scenario, seed: u64) -> Result<Said, SelfTestError> {
        let mut bench = Bench::new(scenario, seed, self.start, self.requests)?;
        let search = match self.method {
            Method::Isotonic => isotonic::search,
            Method::Goodput => goodput::search,
            Method::Bisection => bisection::search,
        };
        let Found { met, low, high } = search(&mut bench, scenario.max_load);
        Ok(Said {
            estimate: met,
            low,
            high,
            safe: met,
            trials: bench.trials(),
            requests: bench.issued(),
            seconds: bench.seconds(),
        })
    }
}
