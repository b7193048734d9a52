//! How the prompts of conversations grow from turn to turn.

use super::{ConversationFigures, LengthFigures, TurnGrowth};
use crate::plan::WorkloadPlan;
use crate::workload::Conversation;
use crate::workload::sessions::fits;

/// Turns that are told one by one, at the most.
const TOLD: usize = 24;

/// What was seen of the conversations so far.
pub(super) struct Growth {
    holds_some: bool,
    max_context: Option<u32>,
    turns_each: Vec<u32>,
    messages: Vec<u32>,
    /// Of each turn: prompts, their tokens, and those of them that were said before.
    by_turn: Vec<(u64, u64, u64)>,
    cut: u64,
}

impl Growth {
    pub(super) fn new(plan: &WorkloadPlan) -> Self {
        Self {
            holds_some: plan.sessions.is_some(),
            max_context: plan.sessions.as_ref().and_then(|sessions| sessions.max_context),
            turns_each: Vec::new(),
            messages: Vec::new(),
            by_turn: Vec::new(),
            cut: 0,
        }
    }

    /// Takes a conversation in, its answers as long as asked for; gives the lengths of its requests.
    pub(super) fn add(&mut self, conversation: &Conversation, isl: &mut Vec<u32>, osl: &mut Vec<u32>) {
        let (mut history, mut sent) = (0_u32, 0_u32);
        for (index, turn) in conversation.turns.iter().enumerate() {
            if index > 0 && !fits(history, turn, self.max_context) {
                self.cut += 1;
                break;
            }
            let prompt = history.saturating_add(turn.isl);
            if self.by_turn.len() == index {
                self.by_turn.push((0, 0, 0));
            }
            let (count, tokens, before) = &mut self.by_turn[index];
            *count += 1;
            *tokens += u64::from(prompt);
            *before += u64::from(history);
            self.messages.push(turn.isl);
            isl.push(prompt);
            osl.push(turn.osl);
            history = prompt.saturating_add(turn.osl);
            sent += 1;
        }
        self.turns_each.push(sent);
    }

    /// The figures; none without conversations.
    pub(super) fn figures(self) -> Option<ConversationFigures> {
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let sum = |value: fn(&(u64, u64, u64)) -> u64| self.by_turn.iter().map(value).sum::<u64>();
        let (turns, tokens, before) = (sum(|turn| turn.0), sum(|turn| turn.1), sum(|turn| turn.2));
        let by_turn = (1..).zip(self.by_turn.iter().take(TOLD)).map(|(turn, &(count, tokens, before))| {
            TurnGrowth { turn, count, isl: share(tokens, count), history_share: share(before, tokens) }
        });
        self.holds_some.then(|| ConversationFigures {
            turns,
            by_turn: by_turn.collect(),
            history_share: share(before, tokens),
            cut_by_context: self.cut,
            max_context: self.max_context,
            turns_each: LengthFigures::of(self.turns_each),
            message: LengthFigures::of(self.messages),
        })
    }
}
