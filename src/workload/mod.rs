//! What is sent: lengths, prompts, and how their tokens are counted.
//!
//! A [`Workload`] is an iterator of requests; the same plan and seed give the same requests in the
//! same order. Prompts are built from a [`Vocabulary`] of words whose token counts are known in
//! context and add up, so that a prompt has the length asked for without a tokenizer at hand:
//!
//! ```
//! use std::sync::Arc;
//! use plimsoll::plan::{Lengths, WorkloadPlan};
//! use plimsoll::workload::{PromptMaker, Vocabulary, Workload};
//!
//! let plan = WorkloadPlan::of(Lengths::Fixed { tokens: 12 }, Lengths::Fixed { tokens: 64 });
//! let prompts = PromptMaker::new(Arc::new(Vocabulary::word_is_token()), 7);
//! let first = Workload::new(&plan, 7, prompts).next().unwrap();
//! assert_eq!((first.id, first.isl, first.osl), (0, 12, 64));
//! assert_eq!(first.prompt.split(' ').count(), 12);
//! ```

pub mod arrivals;
pub mod counting;
pub mod dataset;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod lengths;
pub mod prompt;
pub mod ramp;
pub mod sessions;
mod source;
pub mod times;
pub mod tokenizer;
pub mod vocabulary;

pub use arrivals::{ArrivalProcess, Arrivals, RateCurve, Schedule};
pub use counting::{CountedBy, Counting, Exactness};
pub use lengths::LengthSampler;
pub use prompt::{Prompt, PromptMaker};
pub use ramp::{RampShape, UserRamp};
pub use sessions::{Conversation, Habits, Pause, Turn};
pub use tokenizer::{LocalTokenizer, TokenCounter, TokenizerError};
pub use vocabulary::{Effort, LearnError, Learned, Vocabulary};

use std::sync::Arc;

use crate::plan::WorkloadPlan;
use dataset::Dataset;
use source::Source;

/// One request to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSpec {
    /// Number of the request within the run, from 0.
    pub id: u64,
    /// The prompt's text; empty where only lengths matter (virtual time).
    pub prompt: String,
    /// The chat's messages as a JSON list, where they are more than the prompt as one question.
    pub messages: Option<String>,
    /// Prompt length asked for, tokens.
    pub isl: u32,
    /// Output length asked for, tokens.
    pub osl: u32,
    /// How long its user pauses around it.
    pub pause: Pause,
    /// The conversation of which this is the first turn, where its user holds one.
    pub conversation: Option<Box<Conversation>>,
}

impl RequestSpec {
    /// A request with a prompt of one question.
    pub fn new(id: u64, prompt: String, isl: u32, osl: u32) -> Self {
        Self { id, prompt, messages: None, isl, osl, pause: Pause::default(), conversation: None }
    }
}

/// The requests of a run, one after the other, without end. It is `Send`: requests can be prepared
/// on a thread apart from the one that sends them.
#[derive(Clone, Debug)]
pub struct Workload {
    next_id: u64,
    lengths: LengthSampler,
    prompts: Option<PromptMaker>,
    source: Option<Source>,
    /// Tokens that prefixes add to each prompt.
    prefix: u32,
    habits: Habits,
}

impl Workload {
    /// The requests that `plan` describes, with their prompts. Those of a file are given by
    /// [`Workload::with_dataset`].
    pub fn new(plan: &WorkloadPlan, seed: u64, prompts: PromptMaker) -> Self {
        let prompts = prompts.with_prefixes(plan.prefixes);
        Self { prompts: Some(prompts), ..Self::lengths_only(plan, seed) }
    }

    /// The same lengths without prompts, for virtual time.
    pub fn lengths_only(plan: &WorkloadPlan, seed: u64) -> Self {
        let lengths = LengthSampler::new(plan, seed);
        let habits = Habits::of(plan, seed);
        Self { next_id: 0, lengths, prompts: None, source: None, prefix: plan.prefixes.tokens(), habits }
    }

    /// Takes the requests from the file that `plan` names, where it names one.
    #[must_use]
    pub fn with_dataset(mut self, plan: &WorkloadPlan, seed: u64, dataset: Option<Arc<Dataset>>) -> Self {
        self.source = match (&plan.source, dataset) {
            (Some(source), Some(dataset)) => Some(Source::new(source, dataset, seed)),
            _ => None,
        };
        self
    }

    /// Goes on with request `id`, as a resumed run does; requests before it are drawn and let go.
    pub fn starting_at(mut self, id: u64) -> Self {
        if let Some(source) = &mut self.source {
            // A trace is replayed from its beginning whenever a load is opened.
            source.begin(id);
            self.next_id = id;
        }
        if self.habits.has_sessions() {
            // Drawn by their numbers. No more conversations than requests have been begun so far.
            self.next_id = id;
        }
        while self.next_id < id {
            self.lengths.draw();
            self.next_id += 1;
        }
        self
    }

    /// Conversation `id`, by its first turn.
    fn conversation(&mut self, id: u64) -> Result<RequestSpec, dataset::DatasetError> {
        let conversation = match (&mut self.source, &self.prompts) {
            (Some(source), prompts) => self.habits.recorded(id, source, prompts.as_ref())?,
            (None, Some(prompts)) => self.habits.spoken(id, prompts),
            (None, None) => self.habits.conversation(id),
        };
        Ok(conversation.into_request())
    }

    /// Request `id` of the file, or of the distributions.
    fn request(&mut self, id: u64) -> Result<RequestSpec, dataset::DatasetError> {
        if let Some(source) = &mut self.source {
            return source.request(id, self.prompts.as_ref());
        }
        let (isl, osl) = self.lengths.draw();
        Ok(match &self.prompts {
            Some(prompts) => {
                let Prompt { text, tokens } = prompts.prompt(id, isl);
                RequestSpec::new(id, text, tokens, osl)
            }
            None => RequestSpec::new(id, String::new(), isl.saturating_add(self.prefix), osl),
        })
    }
}

impl Iterator for Workload {
    type Item = RequestSpec;

    fn next(&mut self) -> Option<RequestSpec> {
        let id = self.next_id;
        self.next_id += 1;
        let request = if self.habits.has_sessions() {
            self.conversation(id)
        } else {
            self.request(id).map(|request| RequestSpec { pause: self.habits.pause(id), ..request })
        };
        match request {
            Ok(request) => Some(request),
            Err(error) => {
                tracing::error!("{error}; nothing more is sent");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::plan::Lengths;

    fn workload(seed: u64) -> Workload {
        Workload::new(&plan(), seed, PromptMaker::new(Arc::new(Vocabulary::word_is_token()), seed))
    }

    fn plan() -> WorkloadPlan {
        WorkloadPlan::of(
            Lengths::Lognormal { mean: 60.0, cv: 0.8, min: 4, max: 300 },
            Lengths::Lognormal { mean: 20.0, cv: 0.5, min: 1, max: 90 },
        )
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
