//! What is sent: lengths, prompts, and how their tokens are counted.
//!
//! A [`Workload`] is an iterator of requests; the same plan and seed give the same requests in the
//! same order. Prompts are built from a [`Vocabulary`] of words whose token counts are known in
//! context and add up, so that a prompt has the length asked for without a tokenizer at hand:
//!
//! ```
//! use std::sync::Arc;
//! use plimsoll::plan::{Lengths, TokenizerPlan, WorkloadPlan};
//! use plimsoll::workload::{PromptMaker, Vocabulary, Workload};
//!
//! let plan = WorkloadPlan {
//!     isl: Lengths::Fixed { tokens: 12 },
//!     osl: Lengths::Fixed { tokens: 64 },
//!     tokenizer: TokenizerPlan::Auto,
//! };
//! let prompts = PromptMaker::new(Arc::new(Vocabulary::word_is_token()), 7);
//! let first = Workload::new(&plan, 7, prompts).next().unwrap();
//! assert_eq!((first.id, first.isl, first.osl), (0, 12, 64));
//! assert_eq!(first.prompt.split(' ').count(), 12);
//! ```

pub mod arrivals;
pub mod counting;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod lengths;
pub mod prompt;
pub mod tokenizer;
pub mod vocabulary;

pub use arrivals::{ArrivalProcess, Arrivals, RateCurve, Schedule};
pub use counting::{CountedBy, Counting, Exactness};
pub use lengths::LengthSampler;
pub use prompt::{Prompt, PromptMaker};
pub use tokenizer::{LocalTokenizer, TokenCounter, TokenizerError};
pub use vocabulary::{Effort, LearnError, Learned, Vocabulary};

use crate::plan::WorkloadPlan;

/// One request to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSpec {
    /// Number of the request within the run, from 0.
    pub id: u64,
    /// The prompt's text; empty where only lengths matter (virtual time).
    pub prompt: String,
    /// Prompt length asked for, tokens.
    pub isl: u32,
    /// Output length asked for, tokens.
    pub osl: u32,
}

/// The requests of a run, one after the other, without end. It is `Send`: requests can be prepared
/// on a thread apart from the one that sends them.
#[derive(Clone, Debug)]
pub struct Workload {
    next_id: u64,
    lengths: LengthSampler,
    prompts: Option<PromptMaker>,
}

impl Workload {
    /// The requests that `plan` describes, with their prompts.
    pub fn new(plan: &WorkloadPlan, seed: u64, prompts: PromptMaker) -> Self {
        Self { next_id: 0, lengths: LengthSampler::new(plan, seed), prompts: Some(prompts) }
    }

    /// The same lengths without prompts, for virtual time.
    pub fn lengths_only(plan: &WorkloadPlan, seed: u64) -> Self {
        Self { next_id: 0, lengths: LengthSampler::new(plan, seed), prompts: None }
    }

    /// Goes on with request `id`, as a resumed run does; requests before it are drawn and let go.
    pub fn starting_at(mut self, id: u64) -> Self {
        while self.next_id < id {
            self.lengths.draw();
            self.next_id += 1;
        }
        self
    }
}

impl Iterator for Workload {
    type Item = RequestSpec;

    fn next(&mut self) -> Option<RequestSpec> {
        let id = self.next_id;
        let (isl, osl) = self.lengths.draw();
        self.next_id += 1;
        Some(match &self.prompts {
            Some(prompts) => {
                let Prompt { text, tokens } = prompts.prompt(id, isl);
                RequestSpec { id, prompt: text, isl: tokens, osl }
            }
            None => RequestSpec { id, prompt: String::new(), isl, osl },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::sync::Arc;

    use super::*;
    use crate::plan::{Lengths, TokenizerPlan};

    fn workload(seed: u64) -> Workload {
        Workload::new(&plan(), seed, PromptMaker::new(Arc::new(Vocabulary::word_is_token()), seed))
    }

    fn plan() -> WorkloadPlan {
        WorkloadPlan {
            isl: Lengths::Lognormal { mean: 60.0, cv: 0.8, min: 4, max: 300 },
            osl: Lengths::Lognormal { mean: 20.0, cv: 0.5, min: 1, max: 90 },
            tokenizer: TokenizerPlan::Auto,
        }
    }

    #[test]
    fn the_same_plan_and_seed_give_the_same_requests() {
        let requests = |seed| workload(seed).take(50).collect::<Vec<_>>();
        assert_eq!(requests(3), requests(3));
        assert_ne!(requests(3), requests(4));
    }

    #[test]
    fn a_resumed_workload_goes_on_where_it_stopped() {
        let rest: Vec<_> = workload(3).skip(20).take(10).collect();
        assert_eq!(workload(3).starting_at(20).take(10).collect::<Vec<_>>(), rest);
    }

    #[test]
    fn virtual_time_sees_the_lengths_that_the_wire_sees() {
        let wire: Vec<_> = workload(3).take(50).map(|spec| (spec.id, spec.isl, spec.osl)).collect();
        let virtual_time: Vec<_> =
            Workload::lengths_only(&plan(), 3).take(50).map(|spec| (spec.id, spec.isl, spec.osl)).collect();
        assert_eq!(wire, virtual_time);
    }

    #[test]
    fn a_workload_may_be_prepared_on_another_thread() {
        let here: Vec<_> = workload(3).take(5).collect();
        let there = std::thread::spawn(|| workload(3).take(5).collect::<Vec<_>>()).join().unwrap();
        assert_eq!(here, there);
    }
}
