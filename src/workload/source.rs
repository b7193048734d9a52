//! Requests that are taken from a file.

use std::sync::Arc;

use super::dataset::{BLOCK, Dataset, DatasetError, Entry, Message};
use super::{Prompt, PromptMaker, RequestSpec};
use crate::plan::{Lengths, SourcePlan};
use crate::rng::Stream;

/// Spreads the numbers of requests over all bits (the golden ratio's fraction).
const SALT: u64 = 0x9E37_79B9_7F4A_7C15;

/// The entries of a file as requests: which one a request is depends on its number alone.
#[derive(Clone, Debug)]
pub(super) struct Source {
    dataset: Arc<Dataset>,
    /// Lengths of the outputs of which the file tells none.
    osl: Lengths,
    order: Order,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Order {
    /// As they came, from the request of this number on.
    AsTheyCame { first: u64 },
    /// Shuffled, anew for each time through.
    Shuffled { round: u64, entries: Vec<u32> },
}

impl Order {
    /// The request that the load began with; 0 where that is of no account.
    fn first(&self) -> u64 {
        match self {
            Order::AsTheyCame { first } => *first,
            Order::Shuffled { .. } => 0,
        }
    }
}

impl Source {
    pub(super) fn new(plan: &SourcePlan, dataset: Arc<Dataset>, seed: u64) -> Self {
        let order = match plan.window {
            Some(_) => Order::AsTheyCame { first: 0 },
            None => Order::Shuffled { round: u64::MAX, entries: Vec::new() },
        };
        Self { dataset, osl: plan.osl.clone(), order, seed }
    }

    /// The load begins with request `id`.
    pub(super) fn begin(&mut self, id: u64) {
        if let Order::AsTheyCame { first } = &mut self.order {
            *first = id;
        }
    }

    /// Output lengths of entries that tell none.
    pub(super) fn osl(&self) -> &Lengths {
        &self.osl
    }

    /// The entry of request or conversation `id`.
    ///
    /// # Errors
    /// When the file has changed since it was opened.
    pub(super) fn entry(&mut self, id: u64) -> Result<Entry, DatasetError> {
        let count = self.dataset.len() as u64;
        let index = match &mut self.order {
            Order::AsTheyCame { first } => (id.saturating_sub(*first) % count) as usize,
            Order::Shuffled { round, entries } => {
                if *round != id / count {
                    *round = id / count;
                    shuffle(entries, count as u32, self.seed, *round);
                }
                entries[(id % count) as usize] as usize
            }
        };
        self.dataset.entry(index)
    }

    /// Request `id`.
    ///
    /// # Errors
    /// As [`Source::entry`].
    pub(super) fn request(
        &mut self,
        id: u64,
        prompts: Option<&PromptMaker>,
    ) -> Result<RequestSpec, DatasetError> {
        let entry = self.entry(id)?;
        let (isl, osl) = entry.lengths(prompts);
        let osl = osl.unwrap_or_else(|| self.osl.draw(&mut Stream::new(self.seed ^ id, "osl of an entry")));
        if !entry.messages.is_empty() {
            let messages = chat(&entry.messages);
            return Ok(RequestSpec { messages, ..RequestSpec::new(id, entry.text(), isl, osl) });
        }
        let Some(prompts) = prompts else { return Ok(RequestSpec::new(id, String::new(), isl, osl)) };
        let Prompt { text, tokens } = match entry.blocks.as_slice() {
            [] => prompts.prompt(id, isl),
            blocks => {
                // Each time a trace is replayed its prefixes are others: a cache that has seen the last
                // replay knows none of them.
                let salt = self.order.first().wrapping_mul(SALT);
                let blocks: Vec<u64> = blocks.iter().map(|block| block ^ salt).collect();
                prompts.of_blocks(id, &blocks, BLOCK, isl)
            }
        };
        Ok(RequestSpec::new(id, text, tokens, osl))
    }
}

/// The messages as JSON, where they are not one question alone.
fn chat(messages: &[Message]) -> Option<String> {
    if let [one] = messages
        && one.role == "user"
    {
        return None;
    }
    Some(as_json(messages))
}

/// The messages as a JSON list.
pub(super) fn as_json(messages: &[Message]) -> String {
    let list: Vec<serde_json::Value> = messages
        .iter()
        .map(|message| serde_json::json!({"role": message.role, "content": message.content}))
        .collect();
    serde_json::Value::from(list).to_string()
}

/// A permutation of `0..count` (Fisher and Yates, as Durstenfeld does it).
fn shuffle(entries: &mut Vec<u32>, count: u32, seed: u64, round: u64) {
    entries.clear();
    entries.extend(0..count);
    let mut stream = Stream::new(seed, &format!("dataset {round}"));
    for last in (1..entries.len()).rev() {
        entries.swap(last, stream.below(last as u64 + 1) as usize);
    }
}
