//! One running load on a server: a closed loop whose level moves without drain or burst, or an open
//! loop whose requests are sent on schedule.

use thiserror::Error;

use crate::loadgen::health::ClientHealth;
use crate::loadgen::record::{Failure, RequestRecord};
use crate::observed::ServerFigures;
use crate::units::Load;
use crate::workload::Arrivals;

/// A load that runs from its opening until it is closed. Its clock is the wall's or virtual.
///
/// A closed loop of level `n` has exactly `n` users, each of whom sends its next request as soon as its
/// last one has ended, or after a pause: `n` requests in flight where nobody pauses, never more. An open loop sends each request when its time has
/// come. A session can do both, one after the other.
#[allow(async_fn_in_trait)] // one thread drives a session; no caller needs the future to be Send
pub trait Session {
    /// Seconds since the run began, on this session's clock.
    fn now(&self) -> f64;

    /// Moves the level to `users`. Users that are added send their first request one by one, evenly
    /// over `spread` seconds; surplus users leave as `excess` says. Returns at once.
    fn set_level(&mut self, users: u32, spread: f64, excess: Excess);

    /// Begins an open loop whose schedule starts now, in place of an earlier one; `None` only ends that.
    /// Requests of the earlier one go on (`Retire`) or are cancelled, those that wait at its cap
    /// dropped (`Abort`). Users of a closed loop are not touched: their level is set to 0 before.
    /// Returns at once.
    fn set_arrivals(&mut self, arrivals: Option<Arrivals>, excess: Excess);

    /// Runs until one of the conditions of `wake` holds.
    ///
    /// # Errors
    /// When the load cannot go on at all (the target is gone, the client cannot open sockets).
    async fn advance(&mut self, wake: Wake) -> Result<(), SessionError>;

    /// Takes what happened since the last call, in order of time.
    fn take_events(&mut self) -> Vec<SessionEvent>;

    /// The requests that are in flight now, in no particular order; those of an open loop that wait at
    /// its cap are among them.
    fn in_flight(&self) -> Vec<InFlight>;

    /// Users who pause between two requests, those of conversations of an open loop among them.
    fn thinking(&self) -> usize {
        0
    }

    /// The number of users, or the rate of arrivals, over time, as it really was.
    fn levels(&self) -> &LevelHistory;

    /// Requests issued since the session opened.
    fn issued(&self) -> u64;

    /// What the server said of itself from `from` to `to`, where the session itself can tell; what is
    /// older than `from` may be forgotten.
    fn server_figures(&mut self, _from: f64, _to: f64) -> Option<ServerFigures> {
        None
    }

    /// How fit the client was since this was last asked; none where there is no client, as in virtual
    /// time.
    fn health(&mut self) -> Option<ClientHealth> {
        None
    }

    /// Ends every request in flight with [`crate::loadgen::record::Outcome::Censored`] and waits
    /// until all are gone; their records are the last events.
    async fn close(&mut self) -> Vec<SessionEvent>;
}

/// What becomes of users beyond a lowered level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// They leave when their request has ended, those who pause at once: the mix of requests in service
    /// stays as it is.
    Retire,
    /// Their requests are cancelled now, youngest first: the quick way out of an overload.
    Abort,
}

/// When [`Session::advance`] returns: at whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    /// At this instant of the session's clock, seconds.
    pub at: f64,
    /// After this many more requests have ended.
    pub ended: u32,
    /// After this many more first tokens have arrived.
    pub first_tokens: u32,
}

impl Wake {
    /// At an instant only.
    pub fn at(at: f64) -> Self {
        Self { at, ended: u32::MAX, first_tokens: u32::MAX }
    }
}

/// Something that happened on the load.
#[derive(Clone, Debug)]
pub enum SessionEvent {
    /// A first token arrived.
    FirstToken {
        /// The request.
        id: u64,
        /// When it was sent, seconds.
        sent: f64,
        /// When the token came, seconds.
        at: f64,
    },
    /// A request ended, in whatever way. Its `trial` and `phase` are still to be set.
    Ended(Box<RequestRecord>),
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InFlight {
    /// The request; [`InFlight::WAITS`] for one that has not been sent.
    pub id: u64,
    /// Open loop: when it was to be sent, seconds. Its latency counts from here.
    pub scheduled: Option<f64>,
    /// When it was sent, seconds; for one that waits at the cap, when it was to be sent.
    pub sent: f64,
    /// When its first token came, seconds.
    pub first: Option<f64>,
    /// When its latest token came, seconds.
    pub latest: Option<f64>,
    /// Output tokens received so far.
    pub tokens: u32,
    /// Which turn of a conversation it is, from 1; none for one that is no conversation's.
    pub turn: Option<u32>,
}

impl InFlight {
    /// The id of a request that waits at the cap of an open loop.
    pub const WAITS: u64 = u64::MAX;

    /// A request that waits at the cap of an open loop.
    pub fn waiting(scheduled: f64) -> Self {
        Self {
            id: Self::WAITS,
            scheduled: Some(scheduled),
            sent: scheduled,
            first: None,
            latest: None,
            tokens: 0,
            turn: None,
        }
    }

    /// The instant from which latency counts.
    pub fn start(&self) -> f64 {
        self.scheduled.unwrap_or(self.sent)
    }
}

/// A load that cannot go on.
#[derive(Debug, Error)]
pub enum SessionError {
    /// Many requests in a row could not reach the server.
    #[error("the target does not answer: {detail}")]
    Unreachable {
        /// Kind of the failure.
        cause: Failure,
        /// The system's words.
        detail: String,
    },
    /// The operator asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The time or the requests that the run may take are used up.
    #[error("the budget is used up")]
    OutOfBudget,
    /// The client's own limits were reached.
    #[error("{0}")]
    Client(String),
}

/// The number of users, or the rate of arrivals, as a step function of time.
#[derive(Clone, Debug, Default)]
pub struct LevelHistory {
    /// `(from, load)`, ascending in time.
    steps: Vec<(f64, Load)>,
    /// Integral of `ln load` up to each step.
    integral: Vec<f64>,
}

impl LevelHistory {
    /// Notes that from `at` on there are `users`.
    pub fn push(&mut self, at: f64, users: u32) {
        self.push_load(at, Load::Concurrency(users));
    }

    /// Notes that from `at` on the load is `load`.
    pub fn push_load(&mut self, at: f64, load: Load) {
        let integral = match (self.steps.last(), self.integral.last()) {
            (Some(&(from, before)), Some(&sum)) => sum + (at - from).max(0.0) * log_load(before),
            _ => 0.0,
        };
        self.steps.push((at, load));
        self.integral.push(integral);
    }

    /// Time average of `ln load` from `from` to `to`, seconds; the level at `from` where they meet.
    pub fn mean_log(&self, from: f64, to: f64) -> f64 {
        if to - from < 1e-9 {
            return self.step_at(from).map_or_else(|| log_load(Load::Concurrency(0)), log_load);
        }
        (self.integral_to(to) - self.integral_to(from)) / (to - from)
    }

    /// Users at an instant; none in an open loop.
    pub fn at(&self, at: f64) -> u32 {
        match self.step_at(at) {
            Some(Load::Concurrency(users)) => users,
            _ => 0,
        }
    }

    fn step_at(&self, at: f64) -> Option<Load> {
        let index = self.steps.partition_point(|&(from, _)| from <= at);
        self.steps.get(index.saturating_sub(1)).map(|&(_, load)| load)
    }

    fn integral_to(&self, at: f64) -> f64 {
        let index = self.steps.partition_point(|&(from, _)| from <= at);
        match index.checked_sub(1) {
            Some(last) => {
                let (from, load) = self.steps[last];
                self.integral[last] + (at - from) * log_load(load)
            }
            None => self.steps.first().map_or(0.0, |&(from, load)| (at - from) * log_load(load)),
        }
    }
}

/// The logarithm of a load, with nobody counted as half a user.
fn log_load(load: Load) -> f64 {
    match load {
        Load::Concurrency(users) => f64::from(users).max(0.5).ln(),
        Load::RequestRate(value) | Load::SpeedUp(value) => value.max(1e-9).ln(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_log_weighs_each_level_by_its_time() {
        let mut levels = LevelHistory::default();
        levels.push(0.0, 10);
        levels.push(4.0, 20);
        let expected = (1.0 * 10_f64.ln() + 3.0 * 20_f64.ln()) / 4.0;
        assert!((levels.mean_log(3.0, 7.0) - expected).abs() < 1e-12);
        assert!((levels.mean_log(5.0, 5.0) - 20_f64.ln()).abs() < 1e-12);
        assert_eq!(levels.at(3.9), 10);
        assert_eq!(levels.at(4.0), 20);
    }

    #[test]
    fn a_rate_below_one_is_averaged_as_it_is() {
        let mut levels = LevelHistory::default();
        levels.push_load(0.0, Load::RequestRate(0.2));
        levels.push_load(10.0, Load::RequestRate(0.4));
        let expected = (0.2_f64.ln() + 0.4_f64.ln()) / 2.0;
        assert!((levels.mean_log(5.0, 15.0) - expected).abs() < 1e-12);
        assert_eq!(levels.at(5.0), 0, "there are no users");
    }
}
