//! What a running load shares: its users and arrivals, their requests, and what has happened.
//!
//! The lock is taken when a request begins, gets its first token or ends, never for a token.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::loadgen::intake::Progress;
use crate::loadgen::record::{Failure, Outcome, RequestRecord};
use crate::loadgen::session::{Excess, InFlight, LevelHistory, SessionEvent, Wake};
use crate::units::Load;

/// Failed attempts to connect before the target counts as gone.
const UNREACHABLE_AFTER: u32 = 4;
/// How long nothing else may have happened, seconds.
const UNREACHABLE_FOR: f64 = 2.0;

/// The shared state of a load.
pub(crate) struct Board {
    origin: Instant,
    state: Mutex<State>,
    /// Something that the driver of the session waits for has happened.
    pub(crate) news: Notify,
    /// A user has gone while the load is being closed.
    pub(crate) gone: Notify,
}

#[derive(Default)]
struct State {
    /// Users wanted.
    level: u32,
    /// Users that stay.
    staying: u32,
    users: HashMap<u64, User>,
    next_user: u64,
    issued: u64,
    events: Vec<SessionEvent>,
    steps: Vec<(f64, Load)>,
    open: OpenLoop,
    ended: u32,
    first_tokens: u32,
    wanted: Option<(u32, u32)>,
    streak: Streak,
    dry: bool,
    closing: Option<Closing>,
}

#[derive(Default)]
struct User {
    abort: Option<AbortHandle>,
    /// It goes once its request has ended (or is being aborted), and is no longer counted.
    leaving: bool,
    /// It stands for one request of the open loop (or several, one after the other), and is no user
    /// that the level counts.
    arrival: bool,
    /// It pauses between two requests.
    thinking: bool,
    request: Option<Arc<Progress>>,
}

/// The open loop.
#[derive(Default)]
struct OpenLoop {
    /// Whether a schedule is in force.
    running: bool,
    /// Most requests in flight.
    cap: u32,
    /// Requests in flight.
    flying: u32,
    /// When those were to be sent that wait at the cap.
    waiting: VecDeque<f64>,
}

/// A run of failures to connect, with nothing else in between.
#[derive(Default)]
struct Streak {
    since: f64,
    count: u32,
    last: Option<(Failure, String)>,
}

/// How requests end that are in flight when a load is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Censor,
    Cancel,
}

/// Why a driver need not wait longer.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// What was waited for has happened.
    Enough,
    /// Nobody reaches the target.
    Unreachable(Failure, String),
    /// The workload has no more requests and the last one has ended.
    Dry,
}

/// The state as the driver of a session sees it, until it looks again.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) events: Vec<SessionEvent>,
    pub(crate) in_flight: Vec<InFlight>,
    pub(crate) thinking: usize,
    pub(crate) levels: LevelHistory,
    pub(crate) issued: u64,
}

impl Board {
    pub(crate) fn new(origin: Instant) -> Self {
        Self { origin, state: Mutex::default(), news: Notify::new(), gone: Notify::new() }
    }

    pub(crate) fn now(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the level: says how many users are missing, and aborts those too many where asked to.
    pub(crate) fn set_level(&self, level: u32, excess: Excess) -> u32 {
        let mut aborted = Vec::new();
        let missing = {
            let mut guard = self.lock();
            let state = &mut *guard;
            if state.closing.is_some() {
                return 0;
            }
            state.level = level;
            if state.staying > level {
                let surplus = (state.staying - level) as usize;
                let goes = |user: &User| excess == Excess::Abort || user.thinking;
                let mut users: Vec<(f64, u64)> = state
                    .users
                    .iter()
                    .filter(|(_, user)| !user.leaving && !user.arrival && goes(user))
                    .map(|(&id, user)| {
                        // A user without a request has the least to lose.
                        (user.request.as_ref().map_or(f64::INFINITY, |request| request.in_flight().sent), id)
                    })
                    .collect();
                users.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
                let none_goes = users.is_empty();
                for (_, id) in users.into_iter().take(surplus) {
                    if let Some(user) = state.users.get_mut(&id) {
                        user.leaving = true;
                        aborted.extend(user.abort.take());
                    }
                    state.staying -= 1;
                }
                if excess == Excess::Abort || !none_goes {
                    self.note_level(state);
                }
            }
            level.saturating_sub(state.staying)
        };
        // Not under the lock: a task that ends comes back here.
        aborted.iter().for_each(AbortHandle::abort);
        missing
    }

    /// A new user, if one is still missing.
    pub(crate) fn join(&self) -> Option<u64> {
        let mut state = self.lock();
        if state.closing.is_some() || state.dry || state.staying >= state.level {
            return None;
        }
        let id = state.next_user;
        state.next_user += 1;
        state.users.insert(id, User::default());
        state.staying += 1;
        self.note_level(&mut state);
        Some(id)
    }

    /// Remembers how a user's task can be aborted; aborts it if it was already told to go.
    pub(crate) fn attach(&self, user: u64, abort: AbortHandle) {
        let late = {
            let mut state = self.lock();
            let closing = state.closing.is_some();
            match state.users.get_mut(&user) {
                Some(entry) if !entry.leaving && !closing => {
                    entry.abort = Some(abort);
                    None
                }
                Some(_) => Some(abort),
                None => None,
            }
        };
        if let Some(abort) = late {
            abort.abort();
        }
    }

    /// Whether a user that is between two requests may send another; otherwise it no longer counts.
    pub(crate) fn may_stay(&self, user: u64) -> bool {
        self.stays(&mut self.lock(), user)
    }

    /// A user begins to pause; says whether it may. A conversation of an open loop that has ended is over.
    pub(crate) fn pause(&self, user: u64) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        let running = state.open.running;
        let stays = self.stays(state, user);
        match state.users.get_mut(&user) {
            Some(entry) if stays && (running || !entry.arrival) => entry.thinking = true,
            _ => return false,
        }
        true
    }

    /// A user's pause is over; says whether it may go on.
    pub(crate) fn wake(&self, user: u64) -> bool {
        let mut state = self.lock();
        if let Some(entry) = state.users.get_mut(&user) {
            entry.thinking = false;
        }
        self.stays(&mut state, user)
    }

    fn stays(&self, state: &mut State, user: u64) -> bool {
        let (staying, level) = (state.staying, state.level);
        let Some(entry) = state.users.get_mut(&user) else { return false };
        if entry.leaving {
            return false;
        }
        if entry.arrival {
            return state.closing.is_none();
        }
        if staying <= level && state.closing.is_none() {
            return true;
        }
        entry.leaving = true;
        self.count_out(state);
        false
    }

    fn count_out(&self, state: &mut State) {
        state.staying -= 1;
        self.note_level(state);
    }

    /// Notes the number of users, where it is they that are the load.
    fn note_level(&self, state: &mut State) {
        if !state.open.running {
            state.steps.push((self.now(), Load::Concurrency(state.staying)));
        }
    }

    /// Begins an open loop at `rate` with at most `cap` in flight, or ends it. Where asked to, cancels
    /// what is in flight of an earlier one and drops what waits.
    pub(crate) fn set_arrivals(&self, load: Option<(f64, u32)>, excess: Excess) {
        let mut aborted = Vec::new();
        {
            let mut guard = self.lock();
            let state = &mut *guard;
            if excess == Excess::Abort {
                state.open.waiting.clear();
                for user in state.users.values_mut().filter(|user| user.arrival) {
                    user.leaving = true;
                    aborted.extend(user.abort.take());
                }
            }
            state.open.running = load.is_some();
            if load.is_none() {
                // Conversations of a loop that is over are not gone on with.
                for user in state.users.values_mut().filter(|user| user.arrival && user.thinking) {
                    user.leaving = true;
                    aborted.extend(user.abort.take());
                }
            }
            if let Some((rate, cap)) = load {
                state.open.cap = cap.max(1);
                let now = self.now();
                state.steps.push((now, Load::RequestRate(rate)));
            }
        }
        aborted.iter().for_each(AbortHandle::abort);
    }

    /// A request is due that was scheduled for this instant: a place for it, or none where it has to
    /// wait at the cap.
    pub(crate) fn arrive(&self, scheduled: f64) -> Option<u64> {
        let mut state = self.lock();
        if state.closing.is_some() || state.dry {
            return None;
        }
        if state.open.flying >= state.open.cap {
            state.open.waiting.push_back(scheduled);
            return None;
        }
        let id = state.next_user;
        state.next_user += 1;
        state.open.flying += 1;
        state.users.insert(id, User { arrival: true, ..User::default() });
        Some(id)
    }

    /// When the request was to be sent that has waited longest at the cap, if one waits.
    pub(crate) fn next_waiting(&self) -> Option<f64> {
        self.lock().open.waiting.pop_front()
    }

    /// A user found no more requests in the workload.
    pub(crate) fn ran_dry(&self) {
        self.lock().dry = true;
    }

    /// A user's task has ended, in whatever way.
    pub(crate) fn left(&self, user: u64) {
        let mut state = self.lock();
        match state.users.remove(&user) {
            Some(entry) if entry.arrival => state.open.flying -= 1,
            Some(entry) if !entry.leaving => self.count_out(&mut state),
            _ => {}
        }
        let (dry, closing) = (state.dry && state.users.is_empty(), state.closing.is_some());
        drop(state);
        if dry {
            self.news.notify_one();
        }
        if closing {
            self.gone.notify_one();
        }
    }

    /// A request of a user begins.
    pub(crate) fn begin(&self, user: u64, request: Arc<Progress>) {
        let mut state = self.lock();
        state.issued += 1;
        if let Some(entry) = state.users.get_mut(&user) {
            entry.request = Some(request);
        }
    }

    /// A first token came.
    pub(crate) fn first_token(&self, id: u64, sent: f64, at: f64) {
        let mut state = self.lock();
        state.events.push(SessionEvent::FirstToken { id, sent, at });
        state.first_tokens += 1;
        state.streak = Streak::default();
        self.tell(&state);
    }

    /// A request has ended; says whether its user may send another.
    pub(crate) fn end(&self, user: u64, record: Box<RequestRecord>) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.streak.follow(&record);
        state.events.push(SessionEvent::Ended(record));
        state.ended += 1;
        if let Some(entry) = state.users.get_mut(&user) {
            entry.request = None;
        }
        let stays = self.stays(state, user);
        self.tell(state);
        stays
    }

    fn tell(&self, state: &State) {
        let enough =
            state.wanted.is_some_and(|(ended, first)| state.ended >= ended || state.first_tokens >= first);
        if enough || state.streak.count >= UNREACHABLE_AFTER {
            self.news.notify_one();
        }
    }

    /// Sets what the driver waits for, counted from its last look.
    pub(crate) fn want(&self, wake: Wake) {
        self.lock().wanted = Some((wake.ended, wake.first_tokens));
    }

    /// Whether the driver has waited long enough.
    pub(crate) fn look_for_news(&self) -> Option<News> {
        let state = self.lock();
        if state.wanted.is_some_and(|(ended, first)| state.ended >= ended || state.first_tokens >= first) {
            return Some(News::Enough);
        }
        if state.dry && state.users.is_empty() && (state.level > 0 || state.open.running) {
            return Some(News::Dry);
        }
        let streak = &state.streak;
        if streak.count < UNREACHABLE_AFTER || self.now() - streak.since < UNREACHABLE_FOR {
            return None;
        }
        // A stream that flows proves that the target is there.
        let flows = |user: &User| {
            user.request
                .as_ref()
                .is_some_and(|request| request.in_flight().latest.is_some_and(|at| at > streak.since))
        };
        if state.users.values().any(flows) {
            return None;
        }
        let (cause, detail) = streak.last.clone()?;
        Some(News::Unreachable(cause, detail))
    }

    /// Brings a snapshot up to date: events are added to those it holds.
    pub(crate) fn collect(&self, snapshot: &mut Snapshot) {
        let before = snapshot.events.len();
        let mut guard = self.lock();
        let state = &mut *guard;
        snapshot.events.append(&mut state.events);
        for (at, load) in state.steps.drain(..) {
            snapshot.levels.push_load(at, load);
        }
        snapshot.issued = state.issued;
        state.ended = 0;
        state.first_tokens = 0;
        state.wanted = None;
        snapshot.thinking = state.users.values().filter(|user| user.thinking && !user.leaving).count();
        snapshot.in_flight.clear();
        let requests = state.users.values().filter_map(|user| user.request.as_ref());
        snapshot.in_flight.extend(requests.map(|request| request.in_flight()));
        snapshot.in_flight.extend(state.open.waiting.iter().map(|&scheduled| InFlight::waiting(scheduled)));
        drop(guard);
        // Nearly in order: instants are taken before the lock.
        snapshot.events[before..].sort_by(|a, b| event_time(a).total_cmp(&event_time(b)));
    }

    /// Sends every user home; says how many are still there.
    pub(crate) fn close(&self, closing: Closing) {
        let mut state = self.lock();
        state.level = 0;
        state.open.waiting.clear();
        state.closing = Some(closing);
        let aborts: Vec<AbortHandle> =
            state.users.values_mut().filter_map(|user| user.abort.take()).collect();
        drop(state);
        aborts.iter().for_each(AbortHandle::abort);
    }

    /// Users whose task has not ended.
    pub(crate) fn present(&self) -> usize {
        self.lock().users.len()
    }

    /// How a request ends that is given up now.
    pub(crate) fn given_up(&self) -> Outcome {
        match self.lock().closing {
            Some(Closing::Censor) => Outcome::Censored,
            Some(Closing::Cancel) | None => Outcome::Cancelled,
        }
    }
}

impl Streak {
    fn follow(&mut self, record: &RequestRecord) {
        match &record.outcome {
            Outcome::Failed { cause, detail } if cause.is_infrastructure() => {
                if self.count == 0 {
                    self.since = record.ended;
                }
                self.count += 1;
                self.last = Some((*cause, detail.clone()));
            }
            // Given up by ourselves: says nothing of the target.
            Outcome::Cancelled | Outcome::Censored => {}
            Outcome::Completed { .. } | Outcome::Failed { .. } => *self = Self::default(),
        }
    }
}

fn event_time(event: &SessionEvent) -> f64 {
    match event {
        SessionEvent::FirstToken { at, .. } => *at,
        SessionEvent::Ended(record) => record.ended,
    }
}
