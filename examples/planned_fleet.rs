//! Holds plans against simulation: the planned fleet, one that is a server short, and the one that
//! throughput buys, each simulated 200 times behind a balancer.
//!
//! ```text
//! cargo run --release --example planned_fleet
//! ```

use plimsoll::capacity::Burst;
use plimsoll::selftest::fleet::{Held, check, measure};
use plimsoll::sim::presets::{LLAMA_8B, SMALL};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "preset     seed  arrivals                  requests/s  planned met     one short met   throughput met"
    );
    for (preset, requests) in [(&SMALL, 3000), (&LLAMA_8B, 4000)] {
        for seed in 1..=3 {
            let Some(server) = measure(preset, seed)? else { continue };
            for (burst, servers) in
                [(Burst::Poisson, 6.0), (Burst::Gamma { shape: 0.5 }, 6.0), (Burst::Poisson, 12.0)]
            {
                let rate = servers * server.goodput.estimate;
                let found = check(preset, &server, rate, burst, 200, requests)?;
                let held = |held: Held| format!("{:>3} {:>3}/{:<3}", held.servers, held.met, held.runs);
                println!(
                    "{:<10} {seed:>4}  {:<24}  {rate:>10.1}  {:<14}  {:<14}  {}",
                    preset.name,
                    burst.to_string(),
                    held(found.planned),
                    held(found.short),
                    held(found.by_throughput)
                );
            }
        }
    }
    Ok(())
}
