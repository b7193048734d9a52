//! A load of closed-loop users, or of an open loop's arrivals, on a simulated server, in virtual time.
//!
//! It is the same [`Session`] that a load over the wire is, so trials and searches run on it
//! unchanged; only that nobody waits: its futures are ready at once (see [`ready`]). The clock moves
//! by whole engine steps, so [`SimSession::advance`] may end later than asked by part of a step.
//!
//! ```
//! use plimsoll::loadgen::session::{Excess, Session, SessionEvent, Wake};
//! use plimsoll::sim::presets;
//! use plimsoll::sim::session::{SimSession, ready};
//! let preset = presets::SMALL;
//! let mut session = SimSession::new(preset.params, preset.traffic(), 7);
//! session.set_level(8, 1.0, Excess::Retire);
//! ready(session.advance(Wake { at: 60.0, ended: 100, first_tokens: u32::MAX })).unwrap();
//! let ended = session.take_events().iter().filter(|e| matches!(e, SessionEvent::Ended(_))).count();
//! assert!(ended >= 100 && session.now() < 60.0);
//! ```

mod open;
#[cfg(test)]
mod tests;
mod users;

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::loadgen::record::{Failure, Outcome, Phase, RequestRecord};
use crate::loadgen::session::{Excess, InFlight, LevelHistory, Session, SessionError, SessionEvent, Wake};
use crate::observed::{Quantity, Series, ServerFigures, Values};
use crate::sim::model::{Event, Job, Model, Params, Served};
use crate::sim::traffic::{Sampler, Traffic};
use crate::workload::{Arrivals, Habits};

use open::OpenLoop;
use users::{Next, Users};

/// Seconds between two looks at the server's metrics. More often than a live server is asked: they
/// cost nothing here, and the trials are as short.
const LOOK: f64 = 0.25;

/// A closed or an open loop on a [`Model`].
#[derive(Clone, Debug)]
pub struct SimSession {
    model: Model,
    sampler: Sampler,
    /// The level asked for.
    target: u32,
    /// Users there are: the requests in flight, and those who pause.
    users: u32,
    /// What they do beside sending requests, where they do anything.
    habits: Option<Users>,
    /// What the user of the request that has just ended does next.
    next_talk: Option<Next>,
    additions: Option<Additions>,
    open: OpenLoop,
    issued: u64,
    levels: LevelHistory,
    happened: Vec<SessionEvent>,
    events: Vec<Event>,
    /// Gaps of the requests in flight, where they are recorded.
    gaps: Option<HashMap<u64, Gaps>>,
    /// What a scraper of the server's metrics would have seen.
    looks: Series,
    next_look: f64,
}

/// Users still to come.
#[derive(Clone, Copy, Debug)]
struct Additions {
    next: f64,
    interval: f64,
}

/// Arrivals of the tokens of one request.
#[derive(Clone, Debug, Default)]
struct Gaps {
    latest: f64,
    gaps_us: Vec<u32>,
    tokens: Vec<u32>,
}

/// The value of a future that never waits.
///
/// # Panics
/// When the future does wait, which those of a [`SimSession`] never do.
pub fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a future of virtual time waited"),
    }
}

impl SimSession {
    /// A load without users on an idle server. Records have no gaps between tokens; their TPOT and
    /// all else is exact.
    pub fn new(params: Params, traffic: Traffic, seed: u64) -> Self {
        let habits = traffic.users().map(|plan| Users::new(Habits::of(plan, seed)));
        Self {
            model: Model::new(params, seed),
            habits,
            next_talk: None,
            sampler: Sampler::new(traffic, seed),
            target: 0,
            users: 0,
            additions: None,
            open: OpenLoop::default(),
            issued: 0,
            levels: LevelHistory::default(),
            happened: Vec::new(),
            events: Vec::new(),
            gaps: None,
            looks: Series::default(),
            next_look: 0.0,
        }
    }

    /// The same, with the gaps between tokens in every record (for ITL, TTST and stalls; costs
    /// about as much again for each token).
    pub fn with_gaps(params: Params, traffic: Traffic, seed: u64) -> Self {
        let mut session = Self::new(params, traffic, seed);
        session.model.report_tokens(true);
        session.gaps = Some(HashMap::new());
        session
    }

    /// The server.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Lets the users come whose time it is.
    fn add_due(&mut self) {
        let now = self.model.now();
        while let Some(additions) = self.additions {
            if self.users >= self.target {
                self.additions = None;
                break;
            }
            if additions.next > now {
                break;
            }
            self.additions = Some(Additions { next: additions.next + additions.interval, ..additions });
            self.users += 1;
            self.levels.push(additions.next, self.users);
            self.user_comes(additions.next);
        }
        if self.users >= self.target {
            self.additions = None;
        }
    }

    /// Notes the server's metrics when it is time. Called at a step's end, before the users react.
    fn look(&mut self) {
        let now = self.model.now();
        if now >= self.next_look {
            self.next_look = now + LOOK;
            self.looks.push(now, values(&self.model));
        }
    }

    /// When the next request is sent of itself: by a user that comes, or on schedule.
    fn next_send(&self) -> Option<f64> {
        let user = self.additions.map(|additions| additions.next);
        let wake = self.habits.as_ref().and_then(Users::next_wake);
        user.into_iter().chain(self.open.next()).chain(wake).reduce(f64::min)
    }

    /// A user's request has ended: the next one is sent, or a surplus user leaves.
    fn user_is_free(&mut self) {
        if self.users > self.target {
            self.users -= 1;
            self.next_talk = None;
            self.note_level();
        } else {
            self.goes_on(false);
        }
    }

    /// Notes the number of users, where it is they that are the load.
    fn note_level(&mut self) {
        if !self.open.is_running() {
            self.levels.push(self.model.now(), self.users);
        }
    }

    /// A request has ended: what comes next in its loop.
    fn next_of(&mut self, of_schedule: bool) {
        match of_schedule {
            true if self.goes_on(true) => {}
            true => self.place_is_free(),
            false => self.user_is_free(),
        }
    }

    /// Takes in what a step brought; returns how many requests ended and how many first tokens came.
    fn take_in(&mut self) -> (u32, u32) {
        let (mut ended, mut firsts) = (0, 0);
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::FirstToken { id, arrival, at } => {
                    firsts += 1;
                    self.happened.push(SessionEvent::FirstToken { id, sent: arrival, at });
                }
                Event::Tokens { id, count, at } => self.note_tokens(id, count, at),
                Event::Finished(served) => {
                    ended += 1;
                    let finish = if served.stopped_early { "stop" } else { "length" };
                    let outcome = Outcome::Completed { finish: Some(finish.to_owned()) };
                    let of_schedule = self.record(&served, outcome);
                    self.next_of(of_schedule);
                }
                Event::Failed { job, at } => {
                    ended += 1;
                    let detail = "500 Internal Server Error: simulated failure".to_owned();
                    let outcome = Outcome::Failed { cause: Failure::Server, detail };
                    let mut record = blank(&job, outcome);
                    record.ended = at;
                    let of_schedule = self.open.settle(&mut record);
                    self.settle_turn(&mut record);
                    self.happened.push(SessionEvent::Ended(Box::new(record)));
                    self.next_of(of_schedule);
                }
            }
        }
        self.events = events;
        (ended, firsts)
    }

    fn note_tokens(&mut self, id: u64, count: u32, at: f64) {
        let Some(gaps) = &mut self.gaps else { return };
        let gaps = gaps.entry(id).or_default();
        if !gaps.tokens.is_empty() {
            gaps.gaps_us.push(((at - gaps.latest) * 1e6).round() as u32);
        }
        gaps.latest = at;
        gaps.tokens.push(count);
    }

    /// Notes the end of a request that the server has worked on; says whether it is one of the open
    /// loop.
    fn record(&mut self, served: &Served, outcome: Outcome) -> bool {
        let mut record = blank(&served.job, outcome);
        let completed = record.is_completed();
        record.first = served.first;
        record.last = served.latest;
        record.ended = if completed { served.latest.unwrap_or(self.model.now()) } else { self.model.now() };
        record.isl_server = Some(served.job.isl);
        record.osl_server = Some(served.tokens);
        record.queued = served.admitted.map(|admitted| admitted - served.job.arrival);
        if let Some(gaps) = self.gaps.as_mut().and_then(|all| all.remove(&served.job.id)) {
            record.gaps_us = gaps.gaps_us;
            if gaps.tokens.iter().any(|&tokens| tokens > 1) {
                record.chunk_tokens = gaps.tokens;
            }
        }
        let of_schedule = self.open.settle(&mut record);
        self.settle_turn(&mut record);
        self.happened.push(SessionEvent::Ended(Box::new(record)));
        of_schedule
    }

    /// Takes a request out of the server.
    fn remove(&mut self, id: u64, outcome: Outcome) {
        if let Some(served) = self.model.cancel(id)
            && !self.record(&served, outcome)
        {
            self.users = self.users.saturating_sub(1);
        }
    }
}

/// The server's metrics as its page shows them.
fn values(model: &Model) -> Values {
    let (counters, gauges) = (model.counters(), model.gauges());
    let mut values = Values::default();
    let totals = [
        (Quantity::Running, f64::from(gauges.running)),
        (Quantity::Waiting, f64::from(gauges.waiting)),
        (Quantity::KvUse, gauges.kv_usage),
        (Quantity::Preemptions, counters.preemptions as f64),
        (Quantity::PrefixQueries, counters.prefix_queries as f64),
        (Quantity::PrefixHits, counters.prefix_hits as f64),
        (Quantity::PromptTokens, counters.prompt_tokens as f64),
        (Quantity::GenerationTokens, counters.generation_tokens as f64),
        (Quantity::QueueSeconds, counters.queue_seconds),
        (Quantity::QueueCount, counters.admitted as f64),
        (Quantity::PrefillSeconds, counters.prefill_seconds),
        (Quantity::PrefillCount, counters.first_tokens as f64),
        (Quantity::DecodeSeconds, counters.decode_seconds),
        (Quantity::DecodeCount, counters.finished as f64),
        (Quantity::TtftSeconds, counters.ttft_seconds),
        (Quantity::TtftCount, counters.first_tokens as f64),
    ];
    totals.into_iter().for_each(|(quantity, value)| values.set(quantity, value));
    values
}

/// A record of which only the request is known.
fn blank(job: &Job, outcome: Outcome) -> RequestRecord {
    RequestRecord {
        id: job.id,
        trial: 0,
        phase: Phase::Measured,
        scheduled: None,
        held: None,
        sent: job.arrival,
        first: None,
        last: None,
        ended: job.arrival,
        gaps_us: Vec::new(),
        chunk_tokens: Vec::new(),
        isl: job.isl,
        isl_server: None,
        osl: job.osl,
        osl_server: None,
        outcome,
        resends: 0,
        queued: None,
        session: None,
        turn: None,
        context_full: false,
    }
}

impl Session for SimSession {
    fn now(&self) -> f64 {
        self.model.now()
    }

    fn set_level(&mut self, users: u32, spread: f64, excess: Excess) {
        let now = self.model.now();
        self.target = users;
        self.additions = None;
        if users > self.users {
            let interval = spread.max(0.0) / f64::from(users - self.users);
            self.additions = Some(Additions { next: now, interval });
            self.add_due();
            return;
        }
        let dismissed = self.dismiss(self.users.saturating_sub(users));
        self.users -= dismissed;
        if dismissed > 0 {
            self.note_level();
        }
        if excess == Excess::Abort && users < self.users {
            let mut youngest: Vec<(f64, u64)> = self
                .model
                .in_service()
                .filter(|served| self.open.scheduled(served.job.id).is_none())
                .map(|served| (served.job.arrival, served.job.id))
                .collect();
            youngest.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            for &(_, id) in youngest.iter().take((self.users - users) as usize) {
                self.remove(id, Outcome::Cancelled);
            }
            self.note_level();
        }
    }

    fn set_arrivals(&mut self, arrivals: Option<Arrivals>, excess: Excess) {
        self.begin_arrivals(arrivals, excess);
    }

    async fn advance(&mut self, wake: Wake) -> Result<(), SessionError> {
        let (mut ended, mut firsts) = (0, 0);
        while self.model.now() < wake.at && ended < wake.ended && firsts < wake.first_tokens {
            self.add_due();
            self.arrive();
            self.wake_due();
            if self.model.step(&mut self.events) {
                self.look();
                let (more_ended, more_firsts) = self.take_in();
                ended += more_ended;
                firsts += more_firsts;
            } else if let Some(next) = self.next_send() {
                self.model.wait_until(next.min(wake.at));
            } else if wake.at.is_finite() {
                self.model.wait_until(wake.at);
            } else {
                return Err(SessionError::Client(
                    "nothing to wait for: no request is in flight and none is to come".to_owned(),
                ));
            }
        }
        self.add_due();
        self.arrive();
        self.wake_due();
        Ok(())
    }

    fn take_events(&mut self) -> Vec<SessionEvent> {
        std::mem::take(&mut self.happened)
    }

    fn in_flight(&self) -> Vec<InFlight> {
        let flying = |served: Served| InFlight {
            id: served.job.id,
            scheduled: self.open.scheduled(served.job.id),
            sent: served.job.arrival,
            first: served.first,
            latest: served.latest,
            tokens: served.tokens,
            turn: self.habits.as_ref().and_then(|users| users.turn(served.job.id)),
        };
        self.model.in_service().map(flying).chain(self.open.waiting().map(InFlight::waiting)).collect()
    }

    fn thinking(&self) -> usize {
        self.habits.as_ref().map_or(0, Users::thinking)
    }

    fn levels(&self) -> &LevelHistory {
        &self.levels
    }

    fn issued(&self) -> u64 {
        self.issued
    }

    fn server_figures(&mut self, from: f64, to: f64) -> Option<ServerFigures> {
        let figures = self.looks.server(from, to);
        self.looks.forget_before(to);
        figures
    }

    async fn close(&mut self) -> Vec<SessionEvent> {
        self.target = 0;
        self.additions = None;
        self.open.stop();
        let mut ids: Vec<u64> = self.model.in_service().map(|served| served.job.id).collect();
        ids.sort_unstable();
        for id in ids {
            self.remove(id, Outcome::Censored);
        }
        self.note_level();
        self.take_events()
    }
}
