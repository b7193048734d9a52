//! The prefix cache of conversations: what a request leaves behind for the turn that follows it.
//!
//! What was computed for a request stays in KV memory that nobody else needs; the entry used longest ago
//! goes first when room is wanted. A turn finds what the turn before it left, in whole blocks. Prompts
//! that share their beginnings by chance or by a system prompt find nothing here: of those
//! [`crate::sim::model::Params::prefix_hit`] tells.

use std::collections::{HashMap, VecDeque};

use crate::sim::model::params::BLOCK;

/// What finished requests have left.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    entries: HashMap<u64, Entry>,
    /// Names in the order in which they were left; those that are gone are skipped.
    order: VecDeque<(u64, u64)>,
    left: u64,
    tokens: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    tokens: u32,
    number: u64,
}

impl Cache {
    /// Keeps what a request has computed, in whole blocks, under a name.
    pub(super) fn keep(&mut self, name: u64, tokens: u32) {
        let tokens = tokens / BLOCK * BLOCK;
        self.take(name);
        if tokens == 0 {
            return;
        }
        self.left += 1;
        self.entries.insert(name, Entry { tokens, number: self.left });
        self.order.push_back((name, self.left));
        self.tokens += u64::from(tokens);
    }

    /// Tokens that are there under a name.
    pub(super) fn find(&self, name: u64) -> u32 {
        self.entries.get(&name).map_or(0, |entry| entry.tokens)
    }

    /// Gives an entry over to the request that goes on with it.
    pub(super) fn take(&mut self, name: u64) {
        if let Some(entry) = self.entries.remove(&name) {
            self.tokens -= u64::from(entry.tokens);
        }
    }

    /// Lets the oldest go until the rest fit into so many tokens.
    pub(super) fn fit(&mut self, free: u64) {
        while self.tokens > free {
            let Some((name, number)) = self.order.pop_front() else { return };
            if self.entries.get(&name).is_some_and(|entry| entry.number == number) {
                self.take(name);
            }
        }
        // Names that were taken stay in the order until they are its oldest.
        while let Some(&(name, number)) = self.order.front()
            && self.entries.get(&name).is_none_or(|entry| entry.number != number)
        {
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_left_longest_ago_goes_first_and_only_whole_blocks_stay() {
        let mut cache = Cache::default();
        cache.keep(1, 40);
        cache.keep(2, 64);
        cache.keep(3, 15);
        assert_eq!((cache.find(1), cache.find(2), cache.find(3)), (32, 64, 0));
        cache.keep(1, 48);
        cache.fit(111);
        assert_eq!((cache.find(1), cache.find(2)), (48, 0), "2 was left before 1 was left again");
        cache.take(1);
        cache.fit(0);
        assert_eq!((cache.find(1), cache.tokens, cache.order.len()), (0, 0, 0));
    }
}
