//! A conversation under way: what has been said so far, and what its user says next.
//!
//! The answers that came back stand in it word for word, as the next turn sends them again. They are kept
//! for the conversation alone.

use std::sync::Arc;

use serde_json::Value;

use crate::loadgen::body::{BodyTemplate, Prepared, TurnOf};
use crate::workload::sessions::fits;
use crate::workload::{Conversation, RequestSpec, Turn};

/// A conversation under way, on the turn that its request is.
#[derive(Clone, Debug)]
pub struct Talk {
    template: Arc<BodyTemplate>,
    session: u64,
    /// The present turn, from 1.
    turn: u32,
    /// All messages so far as JSON, without the brackets of their list.
    messages: String,
    to_come: std::vec::IntoIter<Turn>,
    /// Turns after which it ends for a user who begins with it.
    stay: u32,
    /// Tokens of the present turn's prompt, as the client counts them.
    prompt: u32,
    /// Tokens that the server's template adds to a message, as seen at the first turn.
    template_tokens: u32,
    /// Tokens that it may reach.
    limit: Option<u32>,
}

/// What comes after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next turn.
    On,
    /// It is over.
    Over,
    /// The next turn would not fit.
    Full,
}

impl Talk {
    /// The first turn of a conversation, ready to be sent.
    pub(crate) fn begin(
        template: &Arc<BodyTemplate>,
        conversation: Conversation,
        limit: Option<u32>,
    ) -> Prepared {
        let Conversation { session, opening, turns, stay } = conversation;
        let mut to_come = turns.into_iter();
        let first = to_come.next().unwrap_or_default();
        let opening = opening.unwrap_or_default();
        let messages = opening.trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut talk = Box::new(Self {
            template: template.clone(),
            session,
            turn: 0,
            messages,
            to_come,
            stay,
            prompt: 0,
            template_tokens: 0,
            limit,
        });
        talk.say("user", &first.text);
        talk.prepared(&first)
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.len() + self.to_come.as_slice().iter().map(|turn| turn.text.len()).sum::<usize>()
    }

    /// Lets it end after the turns for which a user stays who begins with it.
    pub(crate) fn shorten(&mut self) {
        let rest = self.stay.saturating_sub(self.turn) as usize;
        self.to_come = self.to_come.by_ref().take(rest).collect::<Vec<_>>().into_iter();
    }

    /// What comes after the present turn, whose prompt and answer had so many tokens.
    pub(crate) fn step(&mut self, prompt_by_server: Option<u32>, answer: u32) -> Step {
        let Some(next) = self.to_come.as_slice().first() else { return Step::Over };
        let prompt = prompt_by_server.unwrap_or(self.prompt);
        if self.turn == 1 {
            self.template_tokens = prompt.saturating_sub(self.prompt);
        }
        // The answer and the next message are framed by the template as the first message was.
        let history = prompt.saturating_add(answer).saturating_add(2 * self.template_tokens);
        if fits(history, next, self.limit) { Step::On } else { Step::Full }
    }

    /// The next turn, which sends the answer of the present one again.
    pub(crate) fn go_on(mut self: Box<Self>, answer: &str, tokens: u32) -> Option<Prepared> {
        let next = self.to_come.next()?;
        self.say("assistant", answer);
        self.say("user", &next.text);
        self.prompt = self.prompt.saturating_add(tokens);
        Some(self.prepared(&next))
    }

    fn say(&mut self, role: &str, text: &str) {
        if !self.messages.is_empty() {
            self.messages.push(',');
        }
        self.messages.push_str(&format!("{{\"role\":\"{role}\",\"content\":{}}}", Value::from(text)));
    }

    /// The request of a turn whose message has been said.
    fn prepared(mut self: Box<Self>, turn: &Turn) -> Prepared {
        self.turn += 1;
        self.prompt = self.prompt.saturating_add(turn.isl);
        Prepared {
            id: 0,
            isl: self.prompt,
            osl: turn.osl,
            body: self.template.chat(&self.messages, turn.osl),
            pause: turn.pause,
            turn: Some(TurnOf { session: self.session, turn: self.turn }),
            talk: Some(self),
        }
    }
}

/// What makes the requests of a load: conversations by their first turn, all else as it is.
pub(crate) fn maker(
    template: BodyTemplate,
    limit: Option<u32>,
) -> impl FnMut(RequestSpec) -> Prepared + Send + 'static {
    let template = Arc::new(template);
    move |mut spec| match spec.conversation.take() {
        Some(conversation) => Talk::begin(&template, *conversation, limit),
        None => template.prepare(&spec),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::loadgen::ClientOptions;
    use crate::workload::Pause;

    fn conversation() -> Conversation {
        let turn = |text: &str| Turn {
            text: text.to_owned(),
            isl: 10,
            osl: 5,
            pause: Pause { lead: 0.5, think: 2.0 },
        };
        let opening = Some(r#"[{"role":"system","content":"be \"brief\""}]"#.to_owned());
        Conversation { session: 7, opening, turns: ["one", "two", "three"].map(turn).to_vec(), stay: 2 }
    }

    fn begun(limit: Option<u32>) -> Prepared {
        let template = BodyTemplate::new(&ClientOptions::new("http://127.0.0.1:1", "m")).unwrap();
        maker(template, limit)(RequestSpec {
            conversation: Some(Box::new(conversation())),
            ..RequestSpec::new(0, String::new(), 1, 1)
        })
    }

    fn messages(prepared: &Prepared) -> Value {
        serde_json::from_slice::<Value>(&prepared.body).unwrap()["messages"].clone()
    }

    #[test]
    fn each_turn_sends_all_that_was_said_before_with_the_answers_that_came() {
        let first = begun(None);
        assert_eq!((first.turn, first.isl, first.osl), (Some(TurnOf { session: 7, turn: 1 }), 10, 5));
        let system = json!({"role": "system", "content": "be \"brief\""});
        assert_eq!(messages(&first), json!([system, {"role": "user", "content": "one"}]));
        let mut talk = first.talk.unwrap();
        assert_eq!(talk.step(Some(17), 6), Step::On);
        let second = talk.go_on("a\n\"b\" \u{1f600}", 6).unwrap();
        assert_eq!((second.turn.unwrap().turn, second.isl, second.pause.think), (2, 10 + 6 + 10, 2.0));
        assert_eq!(
            messages(&second),
            json!([system, {"role": "user", "content": "one"},
                   {"role": "assistant", "content": "a\n\"b\" \u{1f600}"}, {"role": "user", "content": "two"}])
        );
        let third = second.talk.unwrap().go_on("c", 1).unwrap();
        let mut talk = third.talk.unwrap();
        assert_eq!(talk.step(None, 1), Step::Over);
        assert!(talk.go_on("d", 1).is_none());
    }

    #[test]
    fn a_turn_that_would_not_fit_is_not_sent() {
        // The server counts 17 where 10 were built: its template takes 7 a message.
        let step = |limit| begun(Some(limit)).talk.unwrap().step(Some(17), 6);
        assert_eq!((step(17 + 6 + 14 + 10 + 5), step(17 + 6 + 14 + 10 + 4)), (Step::On, Step::Full));
        assert_eq!(begun(Some(31)).talk.unwrap().step(None, 6), Step::On);
        assert_eq!(begun(Some(30)).talk.unwrap().step(None, 6), Step::Full);
    }

    #[test]
    fn a_user_who_begins_with_it_stays_for_a_part_of_it() {
        let mut talk = begun(None).talk.unwrap();
        talk.shorten();
        assert_eq!(talk.step(None, 5), Step::On);
        let mut talk = talk.go_on("a", 5).unwrap().talk.unwrap();
        assert_eq!(talk.step(None, 5), Step::Over);
    }
}
