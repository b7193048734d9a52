//! A continuous-batching server of language models as a discrete-event model in virtual time.
//!
//! One step of the engine computes one token of every running sequence and, within the token
//! budget, pieces of waiting prompts. Requests are given in with [`Model::submit`]; each
//! [`Model::step`] moves the clock to the end of one engine step and tells what came of it. The
//! model reads no clock and does no I/O; the same seed and the same calls give the same numbers.
//!
//! ```
//! use plimsoll::sim::model::{Disturbance, Event, Job, KvPolicy, Model, Params, StepCost};
//! let params = Params {
//!     cost: StepCost { base: 0.01, per_sequence: 0.001, per_kv_token: 0.0, per_prefill_token: 1e-4, pad: 0, dip: None },
//!     noise: Disturbance::NONE,
//!     max_seqs: 8,
//!     max_batched_tokens: 2048,
//!     kv: KvPolicy::Reserve { tokens: 100_000 },
//!     prefix_hit: 0.0,
//!     prefix_caching: true,
//!     speculation: None,
//!     failures: 0.0,
//!     early_stop: None,
//! };
//! let mut model = Model::new(params, 1);
//! model.submit(Job { id: 0, arrival: 0.0, isl: 100, osl: 3, may_stop: false, after: None, keep: None });
//! let mut events = Vec::new();
//! while model.step(&mut events) {}
//! let Some(Event::Finished(served)) = events.last() else { panic!() };
//! // The prompt in one step of 10 + 10 ms, then two tokens of 11 ms each.
//! assert!((served.first.unwrap() - 0.020).abs() < 1e-12);
//! assert!((served.latest.unwrap() - 0.042).abs() < 1e-12);
//! ```

mod cache;
mod event;
mod kv;
mod noise;
mod params;
mod scheduler;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use cache::Cache;
use kv::Kv;
use noise::Noise;

pub use event::{Counters, Event, Gauges, Job, Served};
pub use params::{BLOCK, Dip, Disturbance, EarlyStop, KvPolicy, Params, ParamsError, Speculation, StepCost};

use crate::rng::Stream;

/// A simulated server.
#[derive(Clone, Debug)]
pub struct Model {
    params: Params,
    now: f64,
    noise: Noise,
    /// Failures and early stops.
    fate: Stream,
    /// Accepted draft tokens.
    drafts: Stream,
    kv: Kv,
    cache: Cache,
    sequences: Vec<Sequence>,
    vacant: Vec<u32>,
    waiting: VecDeque<u32>,
    /// In order of admission.
    prefilling: Vec<u32>,
    /// In no order. Apart from [`Sequence`], because each step walks over all of it.
    decoding: Vec<Decoding>,
    /// Sequences whose prefill ends in the step under way, and those that fail in it.
    ready: Vec<u32>,
    failing: Vec<u32>,
    /// Sequences that got their last token in the step under way.
    done: Vec<Decoding>,
    admissions: u64,
    counters: Counters,
    report_tokens: bool,
}

/// A request in the server.
#[derive(Clone, Debug)]
struct Sequence {
    job: Job,
    /// Tokens it will produce.
    osl: u32,
    /// Tokens produced when it was last put into `waiting` or `prefilling`.
    produced: u32,
    /// Tokens still to compute before the next token can come.
    to_prefill: u32,
    /// KV tokens held while prefilling.
    held: u32,
    cached: u32,
    /// KV tokens reserved.
    reserved: u64,
    admitted: Option<f64>,
    first: Option<f64>,
    /// Its latest token, as of the last preemption.
    latest: Option<f64>,
    first_step: u64,
    preemptions: u32,
    /// Number of its latest admission: the highest is the youngest.
    order: u64,
    fails: bool,
}

/// A sequence that produces tokens.
#[derive(Clone, Copy, Debug)]
struct Decoding {
    slot: u32,
    /// Tokens still to produce.
    left: u32,
    /// KV tokens held.
    held: u32,
}

impl Model {
    /// An idle server at time 0. `params` should have passed [`Params::check`].
    pub fn new(params: Params, seed: u64) -> Self {
        Self {
            now: 0.0,
            noise: Noise::new(params.noise, seed),
            fate: Stream::new(seed, "sim.fate"),
            drafts: Stream::new(seed, "sim.drafts"),
            kv: Kv::new(params.kv),
            cache: Cache::default(),
            sequences: Vec::new(),
            vacant: Vec::new(),
            waiting: VecDeque::new(),
            prefilling: Vec::new(),
            decoding: Vec::new(),
            ready: Vec::new(),
            failing: Vec::new(),
            done: Vec::new(),
            admissions: 0,
            counters: Counters::default(),
            report_tokens: false,
            params,
        }
    }

    /// Asks for an [`Event::Tokens`] for each token (or group of tokens) of each request.
    pub fn report_tokens(&mut self, wanted: bool) {
        self.report_tokens = wanted;
    }

    /// The server's parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The clock: the end of the last step, seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.prefilling.is_empty() && self.decoding.is_empty()
    }

    /// Totals since the server began.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The state between two steps.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            running: (self.prefilling.len() + self.decoding.len()) as u32,
            waiting: self.waiting.len() as u32,
            kv_usage: self.kv.usage(),
        }
    }

    /// Lets an idle server's clock run on to `at`. A busy one goes on by steps only.
    pub fn wait_until(&mut self, at: f64) {
        if self.is_idle() && at > self.now {
            self.now = at;
        }
    }

    /// Puts a request at the end of the queue. The next step may take it, so `job.arrival` should
    /// not be later than [`Model::now`].
    pub fn submit(&mut self, job: Job) {
        let fails = self.params.failures > 0.0 && self.fate.uniform() < self.params.failures;
        let mut osl = job.osl.max(1);
        if let Some(early) = self.params.early_stop
            && job.may_stop
            && self.fate.uniform() < early.share
        {
            osl = ((f64::from(osl) * early.fraction) as u32).max(1);
        }
        let isl = job.isl.max(1);
        let sequence = Sequence {
            job,
            osl,
            produced: 0,
            to_prefill: isl,
            held: 0,
            cached: 0,
            reserved: u64::from(isl) + u64::from(job.osl.max(1)),
            admitted: None,
            first: None,
            latest: None,
            first_step: 0,
            preemptions: 0,
            order: 0,
            fails,
        };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.sequences[slot as usize] = sequence;
                slot
            }
            None => {
                self.sequences.push(sequence);
                self.sequences.len() as u32 - 1
            }
        };
        self.waiting.push_back(slot);
    }

    /// Gives a request up, and tells how far it had come; `None` where it is not in the server.
    pub fn cancel(&mut self, id: u64) -> Option<Served> {
        let is_it = |slot: &u32| self.sequences[*slot as usize].job.id == id;
        let served = if let Some(index) = self.decoding.iter().position(|d| is_it(&d.slot)) {
            let decoding = self.decoding.swap_remove(index);
            self.kv.release(decoding.held);
            self.kv.unreserve(self.reserved_by(decoding.slot));
            let served = self.served(decoding.slot, Some(decoding.left));
            self.vacant.push(decoding.slot);
            served
        } else if let Some(index) = self.prefilling.iter().position(is_it) {
            let slot = self.prefilling.remove(index);
            self.kv.release(self.sequences[slot as usize].held);
            self.kv.unreserve(self.reserved_by(slot));
            self.vacant.push(slot);
            self.served(slot, None)
        } else {
            let index = self.waiting.iter().position(is_it)?;
            let slot = self.waiting.remove(index)?;
            self.vacant.push(slot);
            self.served(slot, None)
        };
        self.counters.cancelled += 1;
        Some(served)
    }

    /// Every request in the server and how far it has come, in no particular order.
    pub fn in_service(&self) -> impl Iterator<Item = Served> + '_ {
        let before = self.waiting.iter().chain(&self.prefilling).map(|&slot| self.served(slot, None));
        before.chain(self.decoding.iter().map(|d| self.served(d.slot, Some(d.left))))
    }

    /// How far a sequence has come; `left` is given while it decodes.
    fn served(&self, slot: u32, left: Option<u32>) -> Served {
        let sequence = &self.sequences[slot as usize];
        Served {
            job: sequence.job,
            admitted: sequence.admitted,
            first: sequence.first,
            // A decoding sequence has got a token with every step.
            latest: if left.is_some() { Some(self.now) } else { sequence.latest },
            tokens: left.map_or(sequence.produced, |left| sequence.osl - left),
            cached: sequence.cached,
            preemptions: sequence.preemptions,
            first_step: sequence.first_step,
            last_step: self.counters.steps,
            stopped_early: sequence.osl < sequence.job.osl,
        }
    }

    /// KV tokens reserved for an admitted sequence.
    fn reserved_by(&self, slot: u32) -> u64 {
        if self.kv.is_paged() { 0 } else { self.sequences[slot as usize].reserved }
    }
}
