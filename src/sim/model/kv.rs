//! The KV cache: what is resident, what is promised, what is free.

use crate::sim::model::params::{BLOCK, KvPolicy};

/// State of the cache.
#[derive(Clone, Debug)]
pub(super) struct Kv {
    policy: KvPolicy,
    /// Tokens resident.
    pub(super) resident: u64,
    /// Tokens reserved at admission (reserve policy).
    reserved: u64,
    /// Blocks taken (paged policy).
    blocks: u64,
}

/// Blocks that hold `tokens`.
pub(super) fn blocks_for(tokens: u32) -> u64 {
    u64::from(tokens.div_ceil(BLOCK))
}

impl Kv {
    pub(super) fn new(policy: KvPolicy) -> Self {
        Self { policy, resident: 0, reserved: 0, blocks: 0 }
    }

    pub(super) fn is_paged(&self) -> bool {
        matches!(self.policy, KvPolicy::Paged { .. })
    }

    /// Whether a request of this whole length can be admitted (reserve policy).
    pub(super) fn can_reserve(&self, tokens: u64) -> bool {
        self.reserved + tokens <= self.policy.tokens()
    }

    pub(super) fn reserve(&mut self, tokens: u64) {
        self.reserved += tokens;
    }

    pub(super) fn unreserve(&mut self, tokens: u64) {
        self.reserved -= tokens;
    }

    /// Blocks free (paged policy).
    pub(super) fn free_blocks(&self) -> u64 {
        match self.policy {
            KvPolicy::Paged { blocks } => blocks.saturating_sub(self.blocks),
            KvPolicy::Reserve { .. } => 0,
        }
    }

    /// Tokens that nobody needs.
    pub(super) fn free_tokens(&self) -> u64 {
        match self.policy {
            KvPolicy::Paged { .. } => self.free_blocks() * u64::from(BLOCK),
            KvPolicy::Reserve { tokens } => tokens.saturating_sub(self.reserved),
        }
    }

    /// A sequence that holds `before` tokens grows to `after`.
    pub(super) fn grow(&mut self, before: u32, after: u32) {
        self.resident += u64::from(after - before);
        if self.is_paged() {
            self.blocks += blocks_for(after) - blocks_for(before);
        }
    }

    /// Running sequences have grown by `tokens` in all, for which they took `blocks`.
    pub(super) fn add(&mut self, tokens: u64, blocks: u64) {
        self.resident += tokens;
        if self.is_paged() {
            self.blocks += blocks;
        }
    }

    /// A sequence that holds `tokens` gives them up.
    pub(super) fn release(&mut self, tokens: u32) {
        self.resident -= u64::from(tokens);
        if self.is_paged() {
            self.blocks -= blocks_for(tokens);
        }
    }

    /// Share of the cache in use. A lone sequence longer than the cache may exceed 1.
    pub(super) fn usage(&self) -> f64 {
        match self.policy {
            KvPolicy::Reserve { tokens } => self.reserved as f64 / tokens as f64,
            KvPolicy::Paged { blocks } => self.blocks as f64 / blocks as f64,
        }
    }
}
