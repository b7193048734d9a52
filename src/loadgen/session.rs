//! One running load on a server: a closed loop whose level moves without drain or burst.

use thiserror::Error;

use crate::loadgen::health::ClientHealth;
use crate::loadgen::record::{Failure, RequestRecord};

/// A load that runs from its opening until it is closed. Its clock is the wall's or virtual.
///
/// A closed loop of level `n` keeps exactly `n` requests in flight, never more: each user sends its
/// next request as soon as its last one has ended.
#[allow(async_fn_in_trait)] // one thread drives a session; no caller needs the future to be Send
pub trait Session {
    /// Seconds since the run began, on this session's clock.
    fn now(&self) -> f64;

    /// Moves the level to `users`. Users that are added send their first request one by one, evenly
    /// over `spread` seconds; surplus users leave as `excess` says. Returns at once.
    fn set_level(&mut self, users: u32, spread: f64, excess: Excess);

    /// Runs until one of the conditions of `wake` holds.
    ///
    /// # Errors
    /// When the load cannot go on at all (the target is gone, the client cannot open sockets).
    async fn advance(&mut self, wake: Wake) -> Result<(), SessionError>;

    /// Takes what happened since the last call, in order of time.
    fn take_events(&mut self) -> Vec<SessionEvent>;

    /// The requests that are in flight now, in no particular order.
    fn in_flight(&self) -> Vec<InFlight>;

    /// The number of users over time, as it really was.
    fn levels(&self) -> &LevelHistory;

    /// Requests issued since the session opened.
    fn issued(&self) -> u64;

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
    /// They leave when their request has ended: the mix of requests in service stays as it is.
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
    /// The request.
    pub id: u64,
    /// When it was sent, seconds.
    pub sent: f64,
    /// When its first token came, seconds.
    pub first: Option<f64>,
    /// When its latest token came, seconds.
    pub latest: Option<f64>,
    /// Output tokens received so far.
    pub tokens: u32,
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

/// The number of users as a step function of time.
#[derive(Clone, Debug, Default)]
pub struct LevelHistory {
    /// `(from, users)`, ascending in time.
    steps: Vec<(f64, u32)>,
    /// Integral of `ln users` up to each step.
    integral: Vec<f64>,
}

impl LevelHistory {
    /// Notes that from `at` on there are `users`.
    pub fn push(&mut self, at: f64, users: u32) {
        let integral = match (self.steps.last(), self.integral.last()) {
            (Some(&(from, before)), Some(&sum)) => sum + (at - from).max(0.0) * log_users(before),
            _ => 0.0,
        };
        self.steps.push((at, users));
        self.integral.push(integral);
    }

    /// Time average of `ln users` from `from` to `to`, seconds; the level at `from` where they meet.
    pub fn mean_log(&self, from: f64, to: f64) -> f64 {
        if to - from < 1e-9 {
            return log_users(self.at(from));
        }
        (self.integral_to(to) - self.integral_to(from)) / (to - from)
    }

    /// Users at an instant.
    pub fn at(&self, at: f64) -> u32 {
        let index = self.steps.partition_point(|&(from, _)| from <= at);
        match index.checked_sub(1) {
            Some(last) => self.steps[last].1,
            None => self.steps.first().map_or(0, |&(_, users)| users),
        }
    }

    fn integral_to(&self, at: f64) -> f64 {
        let index = self.steps.partition_point(|&(from, _)| from <= at);
        match index.checked_sub(1) {
            Some(last) => {
                let (from, users) = self.steps[last];
                self.integral[last] + (at - from) * log_users(users)
            }
            None => self.steps.first().map_or(0.0, |&(from, users)| (at - from) * log_users(users)),
        }
    }
}

/// `ln users`, with nobody counted as half a user.
fn log_users(users: u32) -> f64 {
    f64::from(users).max(0.5).ln()
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
}
