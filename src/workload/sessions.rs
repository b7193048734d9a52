//! Users as they behave: how long they pause, and the conversations that they hold.
//!
//! Which conversation a user holds depends on its number and the seed alone: the same plan and seed give
//! the same messages, over the wire and in virtual time, whatever the server answers.
//!
//! ```
//! use plimsoll::plan::{Lengths, SessionPlan, WorkloadPlan};
//! use plimsoll::workload::Habits;
//! let mut plan = WorkloadPlan::of(Lengths::Fixed { tokens: 30 }, Lengths::Fixed { tokens: 20 });
//! let turns = Lengths::Fixed { tokens: 3 };
//! plan.sessions = Some(SessionPlan { turns, as_recorded: false, max_context: None });
//! let turns = Habits::of(&plan, 7).conversation(0).turns;
//! assert_eq!(turns.iter().map(|turn| (turn.isl, turn.osl)).collect::<Vec<_>>(), [(30, 20); 3]);
//! ```

use super::dataset::{Dataset, DatasetError, Entry};
use super::lengths::chosen;
use super::source::Source;
use super::{Prompt, PromptMaker, RequestSpec};
use crate::plan::{ClassPlan, SessionPlan, Times, WorkloadPlan};
use crate::rng::Stream;

/// Most turns of a conversation.
pub const MOST_TURNS: u32 = 4096;

/// The pauses of a user around one request, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pause {
    /// Before the request, where it is the first of a user who has just come: a part of a pause, so that
    /// users who come together do not send together.
    pub lead: f64,
    /// After its answer.
    pub think: f64,
}

/// One turn of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// What the user says; empty in virtual time.
    pub text: String,
    /// Its length, tokens.
    pub isl: u32,
    /// Length of the answer asked for, tokens.
    pub osl: u32,
    /// Pauses around the turn.
    pub pause: Pause,
}

/// A conversation as one user will hold it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// Its number within the run.
    pub session: u64,
    /// What stands before the first turn, as a JSON list of messages; none where nothing does.
    pub opening: Option<String>,
    /// The turns, at least one.
    pub turns: Vec<Turn>,
    /// Turns after which it ends for a user who begins with it: as if the user had come in its middle, so
    /// that users who come together do not go through their turns together.
    pub stay: u32,
}

/// How users behave: draws their pauses and conversations by their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Habits {
    seed: u64,
    think: Option<Times>,
    sessions: Option<SessionPlan>,
    classes: Vec<ClassPlan>,
    /// Tokens that prefixes add to the first message.
    prefix: u32,
}

impl Habits {
    /// As a plan says.
    pub fn of(plan: &WorkloadPlan, seed: u64) -> Self {
        let classes = match plan.classes.as_slice() {
            [] => vec![ClassPlan { weight: 1.0, isl: plan.isl.clone(), osl: plan.osl.clone() }],
            classes => classes.to_vec(),
        };
        let (think, sessions) = (plan.think, plan.sessions.clone());
        Self { seed, think, sessions, classes, prefix: plan.prefixes.tokens() }
    }

    /// Whether users hold conversations.
    pub fn has_sessions(&self) -> bool {
        self.sessions.is_some()
    }

    /// Tokens that a conversation may reach, where the plan bounds them.
    pub fn max_context(&self) -> Option<u32> {
        self.sessions.as_ref().and_then(|sessions| sessions.max_context)
    }

    /// The pauses around a request that is no conversation's.
    pub fn pause(&self, id: u64) -> Pause {
        match self.think {
            Some(_) => self.draw_pause(&mut Stream::new(self.seed, &format!("think {id}"))),
            None => Pause::default(),
        }
    }

    fn draw_pause(&self, stream: &mut Stream) -> Pause {
        let Some(think) = &self.think else { return Pause::default() };
        // Of a pause that has begun before: a part of one.
        let lead = stream.uniform() * think.draw(stream);
        Pause { lead, think: think.draw(stream) }
    }

    /// The lengths and pauses of a conversation, without its texts.
    pub fn conversation(&self, session: u64) -> Conversation {
        let stream = &mut Stream::new(self.seed, &format!("session {session}"));
        let count = self.sessions.as_ref().map_or(1, |sessions| sessions.turns.draw(stream));
        let count = count.min(MOST_TURNS);
        let stay = 1 + stream.below(u64::from(count)) as u32;
        let total: f64 = self.classes.iter().map(|class| class.weight).sum();
        // A conversation is of one kind from its first turn to its last.
        let class = chosen(&self.classes, stream.uniform() * total, |class| class.weight);
        let turn = |index: u32| {
            let (isl, osl) = class.map_or((1, 1), |class| (class.isl.draw(stream), class.osl.draw(stream)));
            let isl = if index == 0 { isl.saturating_add(self.prefix) } else { isl };
            Turn { text: String::new(), isl, osl, pause: self.draw_pause(stream) }
        };
        Conversation { session, opening: None, turns: (0..count).map(turn).collect(), stay }
    }

    /// The same with its texts.
    pub(super) fn spoken(&self, session: u64, prompts: &PromptMaker) -> Conversation {
        let mut conversation = self.conversation(session);
        for (index, turn) in (0..).zip(&mut conversation.turns) {
            let Prompt { text, tokens } = match index {
                0 => prompts.prompt(session, turn.isl.saturating_sub(self.prefix)),
                _ => prompts.message(session, index, turn.isl),
            };
            (turn.text, turn.isl) = (text, tokens);
        }
        conversation
    }

    /// A conversation of a file: its messages in order, to the end or for as many turns as are drawn.
    pub(super) fn recorded(
        &self,
        session: u64,
        source: &mut Source,
        prompts: Option<&PromptMaker>,
    ) -> Result<Conversation, DatasetError> {
        let entry = source.entry(session)?;
        let drawn = self.conversation(session);
        let as_recorded = self.sessions.as_ref().is_some_and(|sessions| sessions.as_recorded);
        let count = if as_recorded { MOST_TURNS as usize } else { drawn.turns.len() };
        let stream = &mut Stream::new(self.seed, &format!("recorded {session}"));
        let count_tokens =
            |text: &str| prompts.map_or_else(|| Dataset::words(text), |prompts| prompts.count(text)).max(1);
        let answered = |answer: Option<&str>, stream: &mut Stream| match answer {
            Some(answer) => count_tokens(answer),
            None => source.osl().draw(stream),
        };
        let Entry { mut messages, answer, later, .. } = entry;
        let first = messages.pop().map_or_else(String::new, |message| message.content);
        let before: u32 = messages.iter().map(|message| count_tokens(&message.content)).sum();
        let mut turns = vec![Turn {
            isl: before + count_tokens(&first),
            osl: answered(answer.as_deref(), stream),
            text: first,
            pause: self.draw_pause(stream),
        }];
        turns.extend(later.into_iter().take(count.saturating_sub(1)).map(|turn| Turn {
            isl: count_tokens(&turn.question),
            osl: answered(turn.answer.as_deref(), stream),
            text: turn.question,
            pause: self.draw_pause(stream),
        }));
        let stay = 1 + stream.below(turns.len() as u64) as u32;
        let opening = (!messages.is_empty()).then(|| super::source::as_json(&messages));
        Ok(Conversation { session, opening, turns, stay })
    }
}

impl Conversation {
    /// Its first turn as a request that bears the rest of it.
    pub(super) fn into_request(self) -> RequestSpec {
        let (id, turn) = (self.session, self.turns.first().cloned().unwrap_or_default());
        RequestSpec {
            pause: turn.pause,
            conversation: Some(Box::new(self)),
            ..RequestSpec::new(id, turn.text, turn.isl, turn.osl)
        }
    }
}

/// Whether a next turn fits: the tokens of all that was said, of what is said next and of the answer to it.
pub fn fits(history: u32, next: &Turn, limit: Option<u32>) -> bool {
    let whole = u64::from(history) + u64::from(next.isl) + u64::from(next.osl);
    limit.is_none_or(|limit| whole <= u64::from(limit))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::sync::Arc;

    use super::*;
    use crate::plan::{Lengths, PrefixPlan};
    use crate::workload::{Vocabulary, Workload};

    fn plan() -> WorkloadPlan {
        let mut plan =
            WorkloadPlan::of(Lengths::Uniform { min: 5, max: 40 }, Lengths::Uniform { min: 2, max: 9 });
        let turns = Lengths::Uniform { min: 2, max: 8 };
        plan.sessions = Some(SessionPlan { turns, as_recorded: false, max_context: None });
        plan.think = Some(Times::Exponential { mean: 2.0 });
        plan
    }

    fn workload(plan: &WorkloadPlan, seed: u64) -> Workload {
        Workload::new(plan, seed, PromptMaker::new(Arc::new(Vocabulary::word_is_token()), seed))
    }

    #[test]
    fn a_conversation_depends_on_its_number_and_the_seed_alone() {
        let plan = plan();
        let first: Vec<RequestSpec> = workload(&plan, 3).take(20).collect();
        assert_eq!(workload(&plan, 3).starting_at(7).take(13).collect::<Vec<_>>(), first[7..]);
        assert_ne!(workload(&plan, 4).take(20).collect::<Vec<_>>(), first);
        // Virtual time sees the same lengths and pauses.
        let habits = Habits::of(&plan, 3);
        for (spec, number) in first.iter().zip(0..) {
            let spoken = spec.conversation.as_deref().unwrap();
            let silent = habits.conversation(number);
            let lengths = |all: &Conversation| -> Vec<(u32, u32, Pause)> {
                all.turns.iter().map(|turn| (turn.isl, turn.osl, turn.pause)).collect()
            };
            assert_eq!((lengths(spoken), spoken.stay), (lengths(&silent), silent.stay));
            assert!((2..=8).contains(&spoken.turns.len()) && (1..=8).contains(&spoken.stay));
            for turn in &spoken.turns {
                assert_eq!(turn.text.split(' ').count() as u32, turn.isl);
            }
        }
    }

    #[test]
    fn no_message_repeats_another_and_prefixes_stand_before_the_first_alone() {
        let mut plan = plan();
        plan.prefixes = PrefixPlan { shared_tokens: 10, pool: None };
        let specs: Vec<RequestSpec> = workload(&plan, 3).take(100).collect();
        let messages: Vec<&str> = specs
            .iter()
            .flat_map(|spec| &spec.conversation.as_deref().unwrap().turns)
            .map(|turn| turn.text.as_str())
            .collect();
        let distinct: std::collections::HashSet<&&str> = messages.iter().collect();
        assert_eq!(distinct.len(), messages.len());
        let prefix = |text: &str| text.split(' ').take(10).collect::<Vec<_>>().join(" ");
        let shared = prefix(&specs[0].prompt);
        assert!(specs.iter().all(|spec| prefix(&spec.prompt) == shared));
        let later = &specs[0].conversation.as_deref().unwrap().turns[1];
        assert_ne!(prefix(&later.text), shared);
    }

    #[test]
    fn pauses_are_drawn_around_their_mean_and_those_who_come_have_a_part_of_one() {
        let mut plan = plan();
        plan.sessions = None;
        let habits = Habits::of(&plan, 1);
        let pauses: Vec<Pause> = (0..20_000).map(|id| habits.pause(id)).collect();
        let mean = |of: fn(&Pause) -> f64| pauses.iter().map(of).sum::<f64>() / pauses.len() as f64;
        assert!((mean(|pause| pause.think) - 2.0).abs() < 0.05);
        assert!((mean(|pause| pause.lead) - 1.0).abs() < 0.05);
        plan.think = None;
        assert_eq!(Habits::of(&plan, 1).pause(3), Pause::default());
    }

    #[test]
    fn a_turn_fits_up_to_the_limit_and_not_beyond() {
        let turn = Turn { isl: 10, osl: 5, ..Turn::default() };
        assert!(fits(85, &turn, Some(100)) && !fits(86, &turn, Some(100)) && fits(u32::MAX, &turn, None));
    }
}
