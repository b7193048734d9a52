//! Users of a simulated load who pause and hold conversations.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::SimSession;
use crate::loadgen::record::RequestRecord;
use crate::sim::model::Job;
use crate::workload::sessions::fits;
use crate::workload::{Habits, Turn};

/// Bits of a name that tell the turn.
const TURN_BITS: u32 = 13;

/// What users do beside sending requests.
#[derive(Clone, Debug)]
pub(super) struct Users {
    habits: Habits,
    /// Number of the next conversation, or of the next request alone.
    next: u64,
    /// What comes after the requests in flight.
    talks: HashMap<u64, Talk>,
    pauses: BinaryHeap<Reverse<Rest>>,
    rested: u64,
}

/// A conversation, or a request alone, whose present turn is in flight or to be sent.
#[derive(Clone, Debug)]
struct Talk {
    /// Its number; none for a request alone.
    session: Option<u64>,
    /// The present turn, from 1.
    turn: u32,
    present: Turn,
    to_come: std::vec::IntoIter<Turn>,
    /// Tokens of the present turn's prompt.
    prompt: u32,
    /// Whether it is one of the open loop.
    of_schedule: bool,
}

/// A user who pauses.
#[derive(Clone, Debug)]
struct Rest {
    until: f64,
    number: u64,
    of_schedule: bool,
    /// The turn that comes next; a new conversation where there is none.
    talk: Option<Talk>,
}

impl PartialEq for Rest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rest {}

impl PartialOrd for Rest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rest {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.until.total_cmp(&other.until).then(self.number.cmp(&other.number))
    }
}

impl Users {
    pub(super) fn new(habits: Habits) -> Self {
        Self { habits, next: 0, talks: HashMap::new(), pauses: BinaryHeap::new(), rested: 0 }
    }

    /// When the next pause is over.
    pub(super) fn next_wake(&self) -> Option<f64> {
        self.pauses.peek().map(|Reverse(rest)| rest.until)
    }

    pub(super) fn thinking(&self) -> usize {
        self.pauses.len()
    }

    /// The turn that a request in flight is.
    pub(super) fn turn(&self, id: u64) -> Option<u32> {
        self.talks.get(&id).and_then(|talk| talk.session.map(|_| talk.turn))
    }

    /// The first turn of the next conversation. A request alone has the lengths given.
    fn begin(&mut self, (isl, osl): (u32, u32), of_schedule: bool, has_just_come: bool) -> Talk {
        let number = self.next;
        self.next += 1;
        if !self.habits.has_sessions() {
            let present = Turn { isl, osl, pause: self.habits.pause(number), ..Turn::default() };
            return Talk {
                session: None,
                turn: 1,
                present,
                to_come: Vec::new().into_iter(),
                prompt: isl,
                of_schedule,
            };
        }
        let mut conversation = self.habits.conversation(number);
        if has_just_come {
            conversation.turns.truncate(conversation.stay as usize);
        }
        let mut to_come = conversation.turns.into_iter();
        let present = to_come.next().unwrap_or_default();
        let prompt = present.isl;
        Talk { session: Some(number), turn: 1, present, to_come, prompt, of_schedule }
    }

    fn rest(&mut self, until: f64, of_schedule: bool, talk: Option<Talk>) {
        self.rested += 1;
        self.pauses.push(Reverse(Rest { until, number: self.rested, of_schedule, talk }));
    }

    /// Notes in its record which turn a request was; gives what comes after it.
    fn settle(&mut self, record: &mut RequestRecord) -> Option<Talk> {
        let mut talk = self.talks.remove(&record.id)?;
        if talk.session.is_some() {
            (record.session, record.turn) = (talk.session, Some(talk.turn));
        }
        let Some(next) = talk.to_come.as_slice().first().filter(|_| record.is_completed()) else {
            talk.to_come = Vec::new().into_iter();
            return Some(talk);
        };
        let history = talk.prompt.saturating_add(record.output_tokens());
        if fits(history, next, self.habits.max_context()) {
            talk.prompt = history;
        } else {
            record.context_full = true;
            talk.to_come = Vec::new().into_iter();
        }
        Some(talk)
    }
}

impl Talk {
    /// Moves on to the next turn; none where there is none.
    fn go_on(mut self) -> Option<Self> {
        self.present = self.to_come.next()?;
        self.turn += 1;
        self.prompt = self.prompt.saturating_add(self.present.isl);
        Some(self)
    }
}

impl SimSession {
    /// A user comes: it sends at once, or after a part of a pause.
    pub(super) fn user_comes(&mut self, at: f64) {
        let lengths = self.next_lengths();
        let Some(users) = &mut self.habits else { return self.submit(at, lengths, None) };
        let talk = users.begin(lengths, false, true);
        match talk.present.pause.lead {
            lead if lead > 0.0 => users.rest(at + lead, false, Some(talk)),
            _ => self.speak(at, talk),
        }
    }

    /// Lengths of the next request alone; those of conversations are their own.
    fn next_lengths(&mut self) -> (u32, u32) {
        match &self.habits {
            Some(users) if users.habits.has_sessions() => (1, 1),
            _ => self.sampler.draw(),
        }
    }

    /// Sends what a user sends next of itself: the first turn of a conversation, or a request alone.
    pub(super) fn begin_anew(&mut self, at: f64, scheduled: Option<f64>) {
        let lengths = self.next_lengths();
        let Some(users) = &mut self.habits else { return self.submit(at, lengths, scheduled) };
        let talk = users.begin(lengths, scheduled.is_some(), false);
        self.speak_due(at, talk, scheduled);
    }

    fn speak(&mut self, at: f64, talk: Talk) {
        let scheduled = talk.of_schedule.then_some(at);
        self.speak_due(at, talk, scheduled);
    }

    fn speak_due(&mut self, at: f64, talk: Talk, scheduled: Option<f64>) {
        let id = self.issued;
        self.issued += 1;
        if let Some(scheduled) = scheduled {
            self.open.note(id, scheduled);
        }
        let name = |session: u64, turn: u32| (session << TURN_BITS) | u64::from(turn);
        let keep = talk.session.map(|session| name(session, talk.turn));
        let after = talk.session.filter(|_| talk.turn > 1).map(|session| name(session, talk.turn - 1));
        let (isl, osl) = (talk.prompt, talk.present.osl);
        self.model.submit(Job { id, arrival: at, isl, osl, may_stop: true, after, keep });
        if let Some(users) = &mut self.habits {
            users.talks.insert(id, talk);
        }
    }

    fn submit(&mut self, at: f64, (isl, osl): (u32, u32), scheduled: Option<f64>) {
        let id = self.issued;
        self.issued += 1;
        if let Some(scheduled) = scheduled {
            self.open.note(id, scheduled);
        }
        self.model.submit(Job { id, arrival: at, isl, osl, may_stop: true, after: None, keep: None });
    }

    /// Notes which turn a request was, and keeps what its user does next.
    pub(super) fn settle_turn(&mut self, record: &mut RequestRecord) {
        self.next_talk = self.habits.as_mut().and_then(|users| users.settle(record)).map(Next);
    }

    /// A request has ended whose user stays: it pauses, and goes on with its conversation or a new one.
    /// Says whether a conversation of the open loop goes on.
    pub(super) fn goes_on(&mut self, of_schedule: bool) -> bool {
        let now = self.model.now();
        let Some(Next(talk)) = self.next_talk.take() else {
            if !of_schedule {
                self.begin_anew(now, None);
            }
            return false;
        };
        let think = talk.present.pause.think;
        let next = talk.go_on();
        if of_schedule && (next.is_none() || !self.open.is_running()) {
            return false;
        }
        let Some(users) = &mut self.habits else { return false };
        if think > 0.0 {
            users.rest(now + think, of_schedule, next);
        } else {
            match next {
                Some(talk) => self.speak(now, talk),
                None => self.begin_anew(now, None),
            }
        }
        true
    }

    /// Lets those send whose pause is over.
    pub(super) fn wake_due(&mut self) {
        let now = self.model.now();
        while let Some(users) = &mut self.habits
            && users.next_wake().is_some_and(|until| until <= now)
            && let Some(Reverse(Rest { until, talk, .. })) = users.pauses.pop()
        {
            match talk {
                Some(talk) => self.speak(until, talk),
                None => self.begin_anew(until, None),
            }
        }
    }

    /// Takes up to so many users out who pause, those first whose pause lasts longest; says how many.
    pub(super) fn dismiss(&mut self, most: u32) -> u32 {
        let Some(users) = &mut self.habits else { return 0 };
        let mut rests: Vec<Rest> = users.pauses.drain().map(|Reverse(rest)| rest).collect();
        rests.sort_unstable_by(|a, b| b.cmp(a));
        let mut gone = 0;
        rests.retain(|rest| {
            let goes = !rest.of_schedule && gone < most;
            gone += u32::from(goes);
            !goes
        });
        users.pauses = rests.into_iter().map(Reverse).collect();
        gone
    }

    /// Ends the conversations of the open loop whose users pause.
    pub(super) fn hang_up(&mut self) {
        if let Some(users) = &mut self.habits {
            users.pauses.retain(|Reverse(rest)| !rest.of_schedule);
        }
    }

    /// Conversations of the open loop whose users pause.
    pub(super) fn pausing(&self) -> usize {
        let rests = self.habits.iter().flat_map(|users| users.pauses.iter());
        rests.filter(|Reverse(rest)| rest.of_schedule).count()
    }
}

/// What the user of the request that has just ended does next.
#[derive(Clone, Debug)]
pub(super) struct Next(Talk);
