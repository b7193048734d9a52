//! Simulated tokens a second of one core: `cargo bench --bench simulator`.
#![allow(missing_docs, clippy::expect_used)]

use std::time::Instant;

use plimsoll::loadgen::session::{Excess, Session, Wake};
use plimsoll::sim::scenarios::find;
use plimsoll::sim::session::{SimSession, ready};

const REQUESTS: u32 = 50_000;

fn main() {
    println!(
        "{:12} {:>5} {:>6} {:>12} {:>12} {:>10}",
        "scenario", "users", "gaps", "Mtokens/s", "ksteps/s", "virtual s"
    );
    for (name, users) in
        [("decode", 108), ("big", 540), ("prefill", 46), ("preempt", 112), ("speculative", 72)]
    {
        let scenario = find(name).expect("the scenario is there");
        for gaps in [false, true] {
            let (params, traffic) = (scenario.params, scenario.traffic.clone());
            let mut session = match gaps {
                false => SimSession::new(params, traffic, 1),
                true => SimSession::with_gaps(params, traffic, 1),
            };
            session.set_level(users, 2.0, Excess::Retire);
            let began = Instant::now();
            let mut ended = 0;
            while ended < REQUESTS {
                let wake = Wake { at: f64::INFINITY, ended: 1000, first_tokens: u32::MAX };
                ready(session.advance(wake)).expect("a load with users goes on");
                // As a trial does: what happened is taken out and looked at.
                ended += 1000;
                std::hint::black_box(session.take_events());
            }
            let took = began.elapsed().as_secs_f64();
            let counters = session.model().counters();
            println!(
                "{name:12} {users:5} {gaps:>6} {:12.1} {:12.0} {:10.0}",
                counters.generation_tokens as f64 / took / 1e6,
                counters.steps as f64 / took / 1e3,
                session.now()
            );
        }
    }
}
