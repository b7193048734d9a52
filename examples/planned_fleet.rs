//! Holds plans against simulation: the planned fleet, one that is a server short, and the one that
//! throughput buys, each simulated 200 times behind a balancer.
//!
//! ```text
//! cargo run --release --example planned_fleet
//! cargo run --release --example planned_fleet -- llama-8b    # another preset; some minutes
//! ```

use plimsoll::capacity::Burst;
use plimsoll::selftest::fleet::{Held, check, measure};
use plimsoll::sim::presets;

/// Counted requests of a simulated run.
const REQUESTS: u32 = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| presets::SMALL.name.to_owned());
    let preset = presets::find(&name).ok_or_else(|| format!("no preset is called `{name}`"))?;
    println!(
        "search  arrivals                     requests/s  planned: held  one short: held  throughput: held"
    );
    for seed in 1..=3 {
        let Some(server) = measure(preset, seed)? else { continue };
        let bursty = Burst::Gamma { shape: 0.5 };
        for (burst, servers) in [(Burst::Poisson, 6.0), (bursty, 6.0), (Burst::Poisson, 12.0)] {
            let rate = servers * server.goodput.estimate;
            let found = check(preset, &server, rate, burst, 200, REQUESTS)?;
            let held = |held: Held| format!("{:>3}: {:>3}/{}", held.servers, held.met, held.runs);
            println!(
                "{seed:>6}  {:<27}  {rate:>10.1}  {:<13}  {:<15}  {}",
                burst.to_string(),
                held(found.planned),
                held(found.short),
                held(found.by_throughput)
            );
        }
    }
    Ok(())
}
