//! One step of the engine: who is computed in it, how long it takes, who gets a token.

use crate::sim::model::kv::blocks_for;
use crate::sim::model::params::{BLOCK, Speculation};
use crate::sim::model::{Decoding, Event, Model};

impl Model {
    /// Runs one step of the engine: the clock moves to its end, and what came of it is added to
    /// `events`. Returns `false`, and does nothing, when there is nothing to do.
    pub fn step(&mut self, events: &mut Vec<Event>) -> bool {
        if self.is_idle() {
            return false;
        }
        let preempted = self.kv.is_paged() && self.make_room();
        let batch = self.decoding.len() as u32;
        let draft = self.params.speculation.map_or(0, |speculation| speculation.draft);
        let verified = batch.saturating_mul(1 + draft);
        let budget = self.params.max_batched_tokens.saturating_sub(verified).max(1);
        self.cache.fit(self.kv.free_tokens());
        if !preempted {
            self.admit(budget);
        }
        let prefill = self.prefill(budget);
        let work = self.work(batch, prefill + batch.saturating_mul(draft));
        let took = self.noise.apply(work, self.now);
        self.now += took;
        self.counters.steps += 1;
        self.counters.busy += took;
        self.decode(events);
        self.start_decoding(events);
        self.fail(events);
        true
    }

    /// Step time without disturbance, seconds.
    pub(super) fn work(&self, batch: u32, extra_tokens: u32) -> f64 {
        let cost = &self.params.cost;
        let padded = if cost.pad > 1 { batch.div_ceil(cost.pad) * cost.pad } else { batch };
        let work = cost.base
            + cost.per_sequence * f64::from(padded)
            + cost.per_kv_token * self.kv.resident as f64
            + cost.per_prefill_token * f64::from(extra_tokens);
        match cost.dip {
            Some(dip) if (dip.low..=dip.high).contains(&batch) => work * dip.factor,
            _ => work,
        }
    }

    /// Takes requests from the queue, first come first served, as long as there is work in the
    /// token budget, a seat and KV cache for them.
    fn admit(&mut self, budget: u32) {
        let mut pending: u64 =
            self.prefilling.iter().map(|&slot| u64::from(self.sequences[slot as usize].to_prefill)).sum();
        let mut free = if self.kv.is_paged() { self.blocks_for_prompts() } else { 0 };
        while let Some(&slot) = self.waiting.front() {
            let running = self.decoding.len() + self.prefilling.len();
            if running as u64 >= u64::from(self.params.max_seqs) || pending >= u64::from(budget) {
                break;
            }
            if self.sequences[slot as usize].fails {
                self.waiting.pop_front();
                self.failing.push(slot);
                continue;
            }
            let cached = self.cached_prefix(slot);
            let sequence = &self.sequences[slot as usize];
            let to_prefill = sequence.to_prefill - cached;
            if self.kv.is_paged() {
                let piece = u64::from(to_prefill).min(u64::from(budget) - pending) as u32;
                // One more, for the token that follows the prompt.
                let blocks = blocks_for(cached + piece + 1);
                if blocks > free && running > 0 {
                    break;
                }
                free = free.saturating_sub(blocks);
            } else if !self.kv.can_reserve(sequence.reserved) && running > 0 {
                break;
            } else {
                self.kv.reserve(sequence.reserved);
            }
            self.waiting.pop_front();
            self.seat(slot, cached);
            pending += u64::from(to_prefill);
        }
    }

    /// Prompt tokens of a waiting request that are in the prefix cache: whole blocks, and never the
    /// last token, which must be computed to know the next.
    fn cached_prefix(&self, slot: u32) -> u32 {
        let sequence = &self.sequences[slot as usize];
        let before = sequence.job.after.filter(|_| self.params.prefix_caching);
        let before = before.map_or(0, |name| self.cache.find(name).min(sequence.job.isl));
        let shared = f64::from(sequence.job.isl) * self.params.prefix_hit;
        let found = before.max(shared as u32) / BLOCK * BLOCK;
        found.min((sequence.to_prefill - 1) / BLOCK * BLOCK)
    }

    fn seat(&mut self, slot: u32, cached: u32) {
        let sequence = &mut self.sequences[slot as usize];
        sequence.order = self.admissions;
        self.admissions += 1;
        sequence.to_prefill -= cached;
        sequence.held = cached;
        if sequence.admitted.is_none() {
            sequence.admitted = Some(self.now);
            sequence.cached = cached;
            self.counters.admitted += 1;
            self.counters.queue_seconds += (self.now - sequence.job.arrival).max(0.0);
            self.counters.prefix_queries += u64::from(sequence.job.isl);
            self.counters.prefix_hits += u64::from(cached);
        }
        if let Some(name) = sequence.job.after {
            // What was found is its own now.
            self.cache.take(name);
        }
        self.kv.grow(0, cached);
        self.prefilling.push(slot);
    }

    /// Computes pieces of prompts within the token budget; returns their tokens.
    fn prefill(&mut self, budget: u32) -> u32 {
        let (mut computed, mut kept) = (0, 0);
        // The end of a prompt brings one more token with it; blocks for those that it may need.
        let mut spoken_for = 0;
        for index in 0..self.prefilling.len() {
            let slot = self.prefilling[index];
            let sequence = &self.sequences[slot as usize];
            let (held, to_prefill) = (sequence.held, sequence.to_prefill);
            let mut piece = to_prefill.min(budget - computed);
            let alone = self.prefilling.len() == 1 && self.decoding.is_empty();
            if self.kv.is_paged() && !alone {
                let free = self.blocks_for_prompts().saturating_sub(spoken_for);
                let room = u64::from(held.next_multiple_of(BLOCK) - held) + free * u64::from(BLOCK);
                let extra = u64::from(piece == to_prefill);
                piece = u64::from(piece).min(room.saturating_sub(extra)) as u32;
            }
            self.kv.grow(held, held + piece);
            let sequence = &mut self.sequences[slot as usize];
            sequence.held = held + piece;
            sequence.to_prefill -= piece;
            computed += piece;
            if piece == to_prefill {
                spoken_for += blocks_for(held + piece + 1) - blocks_for(held + piece);
                self.ready.push(slot);
            } else {
                self.prefilling[kept] = slot;
                kept += 1;
            }
        }
        self.prefilling.truncate(kept);
        computed
    }

    /// Gives every running sequence its tokens of this step.
    fn decode(&mut self, events: &mut Vec<Event>) {
        let (mut produced, mut blocks) = (0, 0);
        let mut index = 0;
        while index < self.decoding.len() {
            let mut tokens = 1;
            if let Some(speculation) = self.params.speculation {
                tokens = self.accepted(speculation).min(self.decoding[index].left);
            }
            let decoding = &mut self.decoding[index];
            blocks += blocks_for(decoding.held + tokens) - blocks_for(decoding.held);
            decoding.held += tokens;
            decoding.left -= tokens;
            produced += u64::from(tokens);
            let decoding = *decoding;
            if self.report_tokens {
                let id = self.sequences[decoding.slot as usize].job.id;
                events.push(Event::Tokens { id, count: tokens, at: self.now });
            }
            if decoding.left == 0 {
                self.decoding.swap_remove(index);
                self.done.push(decoding);
            } else {
                index += 1;
            }
        }
        self.kv.add(produced, blocks);
        self.counters.generation_tokens += produced;
        for index in 0..self.done.len() {
            let Decoding { slot, held, .. } = self.done[index];
            self.finish(slot, held, events);
        }
        self.done.clear();
    }

    /// Tokens that one sequence gains in a step of speculative decoding.
    fn accepted(&mut self, speculation: Speculation) -> u32 {
        let mut draw = self.drafts.uniform();
        let mut tokens = 1;
        // One uniform number serves all proposals: given that it lies below p, it is uniform there.
        while tokens <= speculation.draft && draw < speculation.acceptance {
            draw /= speculation.acceptance;
            tokens += 1;
        }
        tokens
    }

    /// Sequences whose prompt was completed in this step have their next token.
    fn start_decoding(&mut self, events: &mut Vec<Event>) {
        for index in 0..self.ready.len() {
            let slot = self.ready[index];
            let sequence = &mut self.sequences[slot as usize];
            let id = sequence.job.id;
            if sequence.first.is_none() {
                sequence.first = Some(self.now);
                sequence.first_step = self.counters.steps;
                let arrival = sequence.job.arrival;
                self.counters.first_tokens += 1;
                self.counters.ttft_seconds += self.now - arrival;
                self.counters.prefill_seconds += self.now - sequence.admitted.unwrap_or(arrival);
                self.counters.prompt_tokens += u64::from(sequence.job.isl);
                events.push(Event::FirstToken { id, arrival, at: self.now });
            }
            sequence.produced += 1;
            let held = sequence.held + 1;
            let left = sequence.osl - sequence.produced;
            self.kv.grow(sequence.held, held);
            self.counters.generation_tokens += 1;
            if self.report_tokens {
                events.push(Event::Tokens { id, count: 1, at: self.now });
            }
            if left == 0 {
                self.finish(slot, held, events);
            } else {
                self.decoding.push(Decoding { slot, left, held });
            }
        }
        self.ready.clear();
    }

    fn finish(&mut self, slot: u32, held: u32, events: &mut Vec<Event>) {
        self.kv.release(held);
        self.kv.unreserve(self.reserved_by(slot));
        let served = self.served(slot, Some(0));
        self.counters.finished += 1;
        self.counters.decode_seconds += self.now - served.first.unwrap_or(self.now);
        self.counters.e2e_seconds += self.now - served.job.arrival;
        if let Some(name) = served.job.keep.filter(|_| self.params.prefix_caching) {
            self.cache.keep(name, held);
        }
        self.vacant.push(slot);
        events.push(Event::Finished(served));
    }

    /// Requests that the server fails are answered at the end of the step that would have begun them.
    fn fail(&mut self, events: &mut Vec<Event>) {
        for slot in self.failing.drain(..) {
            self.counters.failed += 1;
            self.vacant.push(slot);
            events.push(Event::Failed { job: self.sequences[slot as usize].job, at: self.now });
        }
    }

    /// Blocks that the running sequences may need for the tokens of the next step.
    fn blocks_to_decode(&self) -> u64 {
        let most = 1 + self.params.speculation.map_or(0, |speculation| speculation.draft);
        self.decoding.iter().map(|d| blocks_for(d.held + most.min(d.left)) - blocks_for(d.held)).sum()
    }

    /// Free blocks that the running sequences will not need for their next tokens.
    fn blocks_for_prompts(&self) -> u64 {
        self.kv.free_blocks().saturating_sub(self.blocks_to_decode())
    }

    /// Preempts the youngest until the others have blocks for their next tokens. Returns whether
    /// anyone was preempted. A sequence alone always goes on, or nothing would.
    fn make_room(&mut self) -> bool {
        let mut preempted = false;
        while self.decoding.len() + self.prefilling.len() > 1 {
            let mut needed = self.blocks_to_decode();
            if self.decoding.is_empty()
                && let Some(&oldest) = self.prefilling.first()
            {
                // Prompts that wait for each other's blocks would wait for ever: the oldest must
                // be able to go on by a token and the one that may follow it.
                let held = self.sequences[oldest as usize].held;
                needed = blocks_for(held + 2) - blocks_for(held);
            }
            if needed <= self.kv.free_blocks() {
                break;
            }
            self.preempt_youngest();
            preempted = true;
        }
        preempted
    }

    fn preempt_youngest(&mut self) {
        let order = |slot: u32| self.sequences[slot as usize].order;
        let youngest = self.decoding.iter().enumerate().max_by_key(|(_, d)| order(d.slot));
        let (slot, held, produced) = match (youngest, self.prefilling.last()) {
            (Some((index, d)), last) if last.is_none_or(|&slot| order(slot) < order(d.slot)) => {
                let Decoding { slot, left, held } = *d;
                self.decoding.swap_remove(index);
                // It has got a token with the last step.
                self.sequences[slot as usize].latest = Some(self.now);
                (slot, held, self.sequences[slot as usize].osl - left)
            }
            (_, Some(&slot)) => {
                self.prefilling.pop();
                let sequence = &self.sequences[slot as usize];
                (slot, sequence.held, sequence.produced)
            }
            (_, None) => return,
        };
        let sequence = &mut self.sequences[slot as usize];
        sequence.produced = produced;
        sequence.to_prefill = sequence.job.isl.max(1) + produced;
        sequence.held = 0;
        sequence.preemptions += 1;
        self.kv.release(held);
        self.counters.preemptions += 1;
        self.waiting.push_front(slot);
    }
}
