//! Open loops on simulated servers: the true largest rate, and servers to search it on.

use crate::loadgen::session::{Excess, Session, SessionEvent, Wake};
use crate::sim::scenarios::{self, Scenario};
use crate::sim::session::{SimSession, ready};
use crate::sim::truth::judge;
use crate::slo::{Slo, SloError};
use crate::workload::{ArrivalProcess, Arrivals, RateCurve};

/// Requests in flight from which a rate counts as one without a steady state.
const NO_STEADY_STATE: usize = 4000;

/// A server, its SLO, and how requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenScenario {
    /// Name.
    pub name: &'static str,
    /// What is particular about it.
    pub about: &'static str,
    /// The server and the objectives; its own capacity is that of a closed loop.
    pub scenario: Scenario,
    /// How requests arrive.
    pub process: ArrivalProcess,
    /// Lowest and highest rate that a search may try, requests a second.
    pub rates: (f64, f64),
}

/// All of them.
pub fn all() -> Vec<OpenScenario> {
    let case = |name, about, server: &str, process, rates| {
        scenarios::find(server).map(|scenario| OpenScenario { name, about, scenario, process, rates })
    };
    let bursty = ArrivalProcess::Gamma { shape: 0.25 };
    let poisson = ArrivalProcess::Poisson;
    [
        case("stable", "step time binds, smoothly", "decode-quiet", poisson, (0.5, 200.0)),
        case("kv-bound", "the KV cache is full", "kvcliff-quiet", poisson, (0.5, 200.0)),
        case("bursty", "prompts queue; arrivals in bursts", "prefill-quiet", bursty, (0.5, 200.0)),
        case("slow", "below one request a second", "smallN-quiet", poisson, (0.05, 20.0)),
        case("noisy", "step time binds on a noisy server", "decode", poisson, (0.5, 200.0)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How a long run at a rate stands to the SLO: `ln(figure / threshold)` of the worst objective, which
/// is infinite where the backlog grows without end.
///
/// # Errors
/// When the scenario's SLO cannot be read.
pub fn margin(open: &OpenScenario, rate: f64, requests: usize, seed: u64) -> Result<f64, SloError> {
    let slo = Slo::parse(open.scenario.slo.iter().copied())?;
    let mut session = SimSession::new(open.scenario.params, open.scenario.traffic.clone(), seed);
    let arrivals = Arrivals::new(RateCurve::Constant(rate), open.process, seed);
    session.set_arrivals(Some(arrivals), Excess::Retire);
    // An open loop always has something to wait for, so `advance` cannot fail.
    let run = |session: &mut SimSession, ended: u32| {
        drop(ready(session.advance(Wake { at: f64::INFINITY, ended, first_tokens: u32::MAX })));
        session.take_events()
    };
    run(&mut session, 4000);
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); slo.objectives.len()];
    while samples.iter().map(Vec::len).max().unwrap_or(requests) < requests {
        for event in run(&mut session, 2000) {
            let SessionEvent::Ended(record) = event else { continue };
            for (objective, samples) in slo.objectives.iter().zip(&mut samples) {
                if !record.is_completed() {
                    samples.push(f64::INFINITY);
                } else if let Some(value) = objective.metric.of_request(&record) {
                    samples.push(value);
                }
            }
        }
        if session.in_flight().len() > NO_STEADY_STATE {
            return Ok(f64::INFINITY);
        }
    }
    let margins = slo.objectives.iter().zip(&mut samples);
    Ok(margins
        .map(|(objective, samples)| objective.margin(judge(objective, samples).1))
        .fold(f64::NEG_INFINITY, f64::max))
}

/// The largest rate of the range that meets the SLO: a bisection of the log rate, then a line through
/// the margins around it.
///
/// # Errors
/// When the scenario's SLO cannot be read.
pub fn capacity(open: &OpenScenario, requests: usize, seed: u64) -> Result<f64, SloError> {
    let (mut low, mut high) = (open.rates.0.ln(), open.rates.1.ln());
    for step in 0..12 {
        let middle = 0.5 * (low + high);
        if margin(open, middle.exp(), requests / 10, seed + step)? <= 0.0 {
            low = middle
        } else {
            high = middle
        }
    }
    let centre = 0.5 * (low + high);
    let mut points = Vec::new();
    for k in 0..13 {
        let x = centre + 0.005 * (f64::from(k) - 6.0);
        let y = margin(open, x.exp(), requests, seed + 100 + k as u64)?;
        points.push((x, y));
    }
    // What is far off the limit bends the line.
    points.retain(|&(_, y)| y.abs() < 0.6);
    let n = points.len() as f64;
    let (x, y) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    Ok(if n >= 3.0 && slope > 0.0 { (x - y / slope).exp() } else { centre.exp() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_rate_is_met_below_its_capacity_and_missed_above() {
        for open in all().iter().filter(|open| open.name != "noisy") {
            let capacity = capacity(open, 8000, 1).unwrap();
            assert!(margin(open, 0.85 * capacity, 6000, 2).unwrap() < 0.0, "{} at {capacity}", open.name);
            assert!(margin(open, 1.15 * capacity, 6000, 2).unwrap() > 0.0, "{} at {capacity}", open.name);
        }
    }

    #[test]
    fn bursts_lower_the_rate_that_a_server_carries() {
        let bursty = all().into_iter().find(|open| open.name == "bursty").unwrap();
        let even = OpenScenario { process: ArrivalProcess::Poisson, ..bursty.clone() };
        assert!(capacity(&bursty, 8000, 1).unwrap() < 0.95 * capacity(&even, 8000, 1).unwrap());
    }

    #[test]
    fn a_rate_without_a_steady_state_is_missed_by_far() {
        let open = &all()[0];
        assert_eq!(margin(open, open.rates.1, 6000, 1).unwrap(), f64::INFINITY);
    }
}
