//! Several simulated servers behind a balancer, in virtual time.
//!
//! Open arrivals, whose gaps do not wait for any answer, go to the server with the fewest requests in
//! flight or to a random one. It shows whether a fleet that was planned from one server's closed loop
//! holds its SLO. A server's clock moves by whole steps, so that a request is taken by the first step
//! that begins after its arrival.
//!
//! ```
//! use plimsoll::sim::fleet::{Arrivals, Balancer, FleetRun, simulate};
//! use plimsoll::{sim::presets, slo::Slo};
//! let slo = Slo::parse(presets::SMALL.slo.iter().copied()).unwrap();
//! let load = FleetRun { servers: 2, rate: 100.0, arrivals: Arrivals::Poisson, balancer: Balancer::LeastLoaded, settle: 100, requests: 500 };
//! let standing = simulate(presets::SMALL.params, &presets::SMALL.traffic(), &slo, &load, 1);
//! assert!(standing.is_met());
//! ```

use crate::rng::Stream;
use crate::sim::model::{Event, Job, Model, Params, Served};
use crate::sim::traffic::{Sampler, Traffic};
use crate::slo::{Metric, Objective, Slo};

/// Gaps between requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Exponential.
    Poisson,
    /// Gamma of this shape.
    Gamma(f64),
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancer {
    /// To the server with the fewest requests in flight; among equals to a random one.
    LeastLoaded,
    /// To any.
    Random,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetRun {
    /// Servers.
    pub servers: u32,
    /// Requests a second to all of them.
    pub rate: f64,
    /// How they come.
    pub arrivals: Arrivals,
    /// Where they go.
    pub balancer: Balancer,
    /// Requests that come first and are not counted.
    pub settle: u32,
    /// Requests that are counted.
    pub requests: u32,
}

/// How a run stands to its SLO.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetStanding {
    /// For each objective that is judged by counting on TTFT, TPOT or E2E: samples beyond the
    /// threshold, all samples, and the share that may be beyond.
    pub objectives: Vec<(u32, u32, f64)>,
}

impl FleetStanding {
    /// Whether every objective is met.
    pub fn is_met(&self) -> bool {
        self.objectives.iter().all(|&(over, of, allowed)| f64::from(over) <= allowed * f64::from(of))
    }
}

/// One server, and what the balancer knows of it.
struct Server {
    model: Model,
    /// Requests sent to it whose end the balancer has not seen.
    in_flight: u32,
    /// Ends in a step that is still under way for the balancer.
    ends: Vec<f64>,
}

/// Runs a fleet of equal servers, each with noise of its own, until all its counted requests have
/// ended.
pub fn simulate(params: Params, traffic: &Traffic, slo: &Slo, load: &FleetRun, seed: u64) -> FleetStanding {
    let mut servers: Vec<Server> = (0..load.servers.max(1))
        .map(|index| Server {
            // An odd factor keeps the seeds of servers and of neighbouring runs apart.
            model: Model::new(params, seed.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(index))),
            in_flight: 0,
            ends: Vec::new(),
        })
        .collect();
    let mut sampler = Sampler::new(traffic.clone(), seed);
    let mut gaps = Stream::new(seed, "fleet.arrivals");
    let mut picks = Stream::new(seed, "fleet.balancer");
    let judged: Vec<Objective> =
        slo.objectives.iter().filter(|objective| objective.allowed_misses().is_some()).copied().collect();
    let mut counts = vec![(0_u32, 0_u32); judged.len()];
    let mut events = Vec::new();
    let mut now = 0.0;
    for id in 0..u64::from(load.settle) + u64::from(load.requests) {
        now += gap(&mut gaps, load.arrivals) / load.rate;
        for server in &mut servers {
            server.run_until(now, &mut events);
        }
        count(&judged, &mut counts, &mut events, load.settle);
        let chosen = pick(&mut picks, load.balancer, &servers);
        let server = &mut servers[chosen];
        let (isl, osl) = sampler.draw();
        server.model.submit(Job { id, arrival: now, isl, osl, may_stop: false, after: None, keep: None });
        server.in_flight += 1;
    }
    for server in &mut servers {
        while server.model.step(&mut events) {}
    }
    count(&judged, &mut counts, &mut events, load.settle);
    let shares = judged.iter().map(|objective| objective.allowed_misses().unwrap_or(0.0));
    FleetStanding {
        objectives: counts.iter().zip(shares).map(|(&(over, of), share)| (over, of, share)).collect(),
    }
}

fn pick(stream: &mut Stream, balancer: Balancer, servers: &[Server]) -> usize {
    if balancer == Balancer::Random {
        return stream.below(servers.len() as u64) as usize;
    }
    let least = servers.iter().map(|server| server.in_flight).min().unwrap_or(0);
    let equal = || servers.iter().enumerate().filter(|(_, server)| server.in_flight == least);
    let wanted = stream.below(equal().count() as u64) as usize;
    equal().nth(wanted).map_or(0, |(index, _)| index)
}

impl Server {
    /// Runs the steps that begin before `at`, and lets the balancer see what has ended by then.
    fn run_until(&mut self, at: f64, events: &mut Vec<Event>) {
        while self.model.now() < at {
            if self.model.is_idle() {
                self.model.wait_until(at);
                break;
            }
            let before = events.len();
            self.model.step(events);
            self.ends.extend(events[before..].iter().filter_map(|event| match event {
                Event::Finished(served) => served.latest,
                Event::Failed { at, .. } => Some(*at),
                _ => None,
            }));
        }
        let before = self.ends.len();
        self.ends.retain(|&end| end > at);
        self.in_flight -= (before - self.ends.len()) as u32;
    }
}

/// Counts the requests that have ended; the first `settle` ones are left out.
fn count(judged: &[Objective], counts: &mut [(u32, u32)], events: &mut Vec<Event>, settle: u32) {
    for event in events.drain(..) {
        let (id, served) = match event {
            Event::Finished(served) => (served.job.id, Some(served)),
            Event::Failed { job, .. } => (job.id, None),
            _ => continue,
        };
        if id < u64::from(settle) {
            continue;
        }
        for (objective, (over, of)) in judged.iter().zip(counts.iter_mut()) {
            let held = match served {
                None => Some(false),
                Some(served) => figure(objective.metric, &served)
                    .map(|value| objective.op.holds(value, objective.threshold)),
            };
            if let Some(held) = held {
                *of += 1;
                *over += u32::from(!held);
            }
        }
    }
}

fn figure(metric: Metric, served: &Served) -> Option<f64> {
    let (first, latest) = (served.first?, served.latest?);
    match metric {
        Metric::Ttft => Some(first - served.job.arrival),
        Metric::E2e => Some(latest - served.job.arrival),
        Metric::Tpot => (served.tokens > 1).then(|| (latest - first) / f64::from(served.tokens - 1)),
        _ => None,
    }
}

/// A gap of mean 1. Gamma by Marsaglia and Tsang (ACM Trans. Math. Softw. 26, 2000).
fn gap(stream: &mut Stream, arrivals: Arrivals) -> f64 {
    let shape = match arrivals {
        Arrivals::Poisson => return stream.exponential(1.0),
        Arrivals::Gamma(shape) => shape,
    };
    // Below shape 1: a draw of one shape more, times a power of a uniform.
    let (from, factor) =
        if shape < 1.0 { (shape + 1.0, stream.uniform().powf(1.0 / shape)) } else { (shape, 1.0) };
    let d = from - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = stream.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && stream.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return factor * d * v / shape;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::sim::presets::SMALL;

    fn run(servers: u32, rate: f64, balancer: Balancer, seed: u64) -> FleetStanding {
        let slo = Slo::parse(SMALL.slo.iter().copied()).unwrap();
        let load =
            FleetRun { servers, rate, arrivals: Arrivals::Poisson, balancer, settle: 300, requests: 2000 };
        simulate(SMALL.params, &SMALL.traffic(), &slo, &load, seed)
    }

    #[test]
    fn gaps_have_their_mean_and_spread() {
        for (arrivals, squared_cv) in
            [(Arrivals::Poisson, 1.0), (Arrivals::Gamma(0.5), 2.0), (Arrivals::Gamma(4.0), 0.25)]
        {
            let mut stream = Stream::new(3, "test");
            let gaps: Vec<f64> = (0..100_000).map(|_| gap(&mut stream, arrivals)).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean - 1.0).abs() < 0.02, "{arrivals:?}: {mean}");
            assert!((variance / squared_cv - 1.0).abs() < 0.06, "{arrivals:?}: {variance}");
        }
    }

    #[test]
    fn every_request_is_counted_once_and_a_seed_gives_the_same_run() {
        let standing = run(3, 400.0, Balancer::LeastLoaded, 5);
        assert_eq!(standing.objectives[0].1, 2000);
        assert_eq!(standing, run(3, 400.0, Balancer::LeastLoaded, 5));
    }

    #[test]
    fn half_of_the_servers_that_it_takes_miss_the_slo() {
        assert!(run(4, 400.0, Balancer::LeastLoaded, 1).is_met());
        assert!(!run(1, 400.0, Balancer::LeastLoaded, 1).is_met());
    }

    #[test]
    fn a_balancer_that_knows_the_load_misses_less_than_chance() {
        let late = |balancer| (1..=5).map(|seed| run(4, 720.0, balancer, seed).objectives[0].0).sum::<u32>();
        let (known, chance) = (late(Balancer::LeastLoaded), late(Balancer::Random));
        assert!(known < chance, "{known}, {chance}");
    }
}
