//! A trial of a closed loop whose users come or go one by one.

use super::{GLANCE, Glance, Running, Trials};
use crate::loadgen::session::{Excess, Session, SessionError, Wake};
use crate::workload::UserRamp;

/// Users a second that come at the start of a ramp that begins with more than one.
const JOIN: f64 = 20.0;

impl<S: Session> Trials<S> {
    /// The same, with a number of users that moves within each trial of a closed loop.
    #[must_use]
    pub fn with_user_ramp(mut self, ramp: Option<UserRamp>) -> Self {
        self.ramp = ramp;
        self
    }

    /// Measures a ramp from its first request to its end. There is nothing to settle: the ramp is the load.
    pub(super) async fn measure_ramp(
        &mut self,
        ramp: UserRamp,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        trial.moves = true;
        // Those that there are at the start come one by one too, before the clock of the ramp starts.
        let joining = f64::from(ramp.from - 1) / JOIN;
        self.session.set_level(ramp.from, joining, Excess::Retire);
        self.level = ramp.from;
        let until = self.session.now() + joining;
        self.advance_to(until, trial, watch).await?;
        let start = self.session.now();
        trial.settled = Some(start);
        self.session.health();
        for (at, level) in ramp.steps() {
            self.advance_ramp(start + at, (start, ramp), trial, watch).await?;
            self.session.set_level(level, 0.0, Excess::Retire);
            self.level = level;
        }
        self.advance_ramp(start + ramp.seconds, (start, ramp), trial, watch).await
    }

    async fn advance_ramp(
        &mut self,
        until: f64,
        (start, ramp): (f64, UserRamp),
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        while self.session.now() < until {
            self.advance(Wake::at(until.min(self.session.now() + GLANCE)), trial).await?;
            if self.summarise {
                let so_far = self.read(trial, false);
                let seen = trial.since(start).len() as u32;
                // How many there will be is not known; at the pace so far:
                let share = ((self.session.now() - start) / ramp.seconds).clamp(0.01, 1.0);
                self.glance(trial, (seen, (f64::from(seen) / share) as u32), &so_far, watch);
            }
        }
        Ok(())
    }
}
