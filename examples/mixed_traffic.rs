//! What uniform lengths hide: the capacity of a simulated server for short chats mixed with long
//! documents, against requests that all have the mixture's mean lengths.
//!
//! ```text
//! cargo run --release --example mixed_traffic
//! ```

use plimsoll::plan::{ClassPlan, Lengths, WorkloadPlan};
use plimsoll::sim::presets::SMALL;
use plimsoll::sim::scenarios::Scenario;
use plimsoll::sim::traffic::Traffic;
use plimsoll::sim::truth::standing;
use plimsoll::slo::SloError;

/// Requests that each level is judged by.
const REQUESTS: u32 = 4000;
/// Highest level that is tried.
const MOST: u32 = 512;

fn main() -> Result<(), SloError> {
    let lognormal = |mean, cv, min, max| Lengths::Lognormal { mean, cv, min, max };
    let chats =
        ClassPlan { weight: 0.9, isl: lognormal(120.0, 0.6, 8, 600), osl: lognormal(60.0, 0.5, 8, 240) };
    let documents =
        ClassPlan { weight: 0.1, isl: lognormal(2400.0, 0.3, 800, 3800), osl: lognormal(40.0, 0.5, 8, 160) };
    let mean = |of: fn(&ClassPlan) -> &Lengths| 0.9 * of(&chats).mean() + 0.1 * of(&documents).mean();
    let fixed = |tokens: f64| Lengths::Fixed { tokens: tokens.round() as u32 };
    let (isl, osl) = (fixed(mean(|class| &class.isl)), fixed(mean(|class| &class.osl)));
    let uniform = Traffic::of(isl.clone(), osl.clone());
    let mut plan = WorkloadPlan::of(isl.clone(), osl.clone());
    plan.classes = vec![chats, documents];
    let (mixed, at_means) = (capacity(Traffic::planned(&plan))?, capacity(uniform)?);
    println!("SLO                                   {}", SMALL.slo.join(", "));
    println!("mixture, 90% chats and 10% documents  {mixed} concurrent");
    println!("all alike, ISL {isl} and OSL {osl}          {at_means} concurrent");
    println!(
        "overstated by                         {:.0}%",
        100.0 * (f64::from(at_means) / f64::from(mixed) - 1.0)
    );
    Ok(())
}

/// The largest level that meets the preset's SLO, by halving.
fn capacity(traffic: Traffic) -> Result<u32, SloError> {
    let scenario = Scenario {
        name: "mixed traffic",
        about: "",
        params: SMALL.params,
        traffic,
        slo: SMALL.slo.to_vec(),
        max_load: MOST,
        capacity: 0,
    };
    let (mut met, mut missed) = (0, MOST);
    while missed - met > 1 {
        let level = met.midpoint(missed);
        if standing(&scenario, level, REQUESTS, 7)?.margin <= 0.0 {
            met = level;
        } else {
            missed = level;
        }
    }
    Ok(met)
}
