//! A search that ends as soon as it cannot beat a rival any more.
//!
//! While levels rise, requests a second for each user fall. So the goodput at the capacity is at most
//! the level that plainly missed the SLO times the rate for each user at a level that met it. Where
//! that, with `SLACK`, lies below what is to be beaten, the rest of the search is not worth its
//! time: the setting is told as lying between what met and that bound.

use super::answer::Answer;
use super::trial::{Ask, TrialKind, TrialOutcome};
use super::{Strategy, adaptive};
use crate::verdict::Verdict;

/// What is to be beaten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rival {
    /// A goodput, requests a second.
    Goodput(f64),
    /// A concurrency.
    Concurrency(f64),
}

/// How much higher than the bound a setting might still be.
const SLACK: f64 = 1.1;

/// A strategy that gives up against a rival.
pub struct Race {
    inner: Box<dyn Strategy>,
    rival: Option<Rival>,
    /// The largest level that met the SLO, with its requests a second and those within the SLO.
    met: Option<(f64, f64, f64)>,
    /// The smallest level that plainly missed it.
    missed: Option<f64>,
    abandoned: bool,
}

impl Race {
    /// `inner` against a rival, if there is one.
    pub fn new(inner: Box<dyn Strategy>, rival: Option<Rival>) -> Self {
        Self { inner, rival, met: None, missed: None, abandoned: false }
    }

    /// The bounds of what is maximised, where the search was given up.
    pub fn abandoned(&self) -> Option<(f64, f64)> {
        self.bounds().filter(|_| self.abandoned)
    }

    fn bounds(&self) -> Option<(f64, f64)> {
        let (met, rate, good) = self.met?;
        let missed = self.missed.filter(|&missed| missed > met)?;
        Some(match self.rival? {
            Rival::Goodput(_) => (good, missed * rate / met),
            Rival::Concurrency(_) => (met, missed),
        })
    }

    fn is_lost(&self) -> bool {
        let Some((_, high)) = self.bounds() else { return false };
        match self.rival {
            Some(Rival::Goodput(rival) | Rival::Concurrency(rival)) => high * SLACK < rival,
            None => false,
        }
    }
}

impl Strategy for Race {
    fn ask(&mut self) -> Ask {
        self.inner.ask()
    }

    fn tell(&mut self, outcome: &TrialOutcome) {
        self.inner.tell(outcome);
        if outcome.spec.kind == TrialKind::Warmup {
            return;
        }
        let level = outcome.spec.load.value();
        let worst = outcome.readings.iter().map(|r| r.margin).fold(f64::NEG_INFINITY, f64::max);
        match outcome.verdict {
            Verdict::Met if self.met.is_none_or(|(met, ..)| level >= met) => {
                self.met = Some((level, outcome.completion_rate, outcome.good_rate));
            }
            Verdict::Missed if worst > adaptive::PLAIN => {
                self.missed = Some(self.missed.map_or(level, |missed| missed.min(level)));
            }
            _ => {}
        }
        if !self.abandoned && self.is_lost() {
            self.abandoned = true;
            self.inner.stop();
        }
    }

    fn stop(&mut self) {
        self.inner.stop();
    }

    fn answer(&self) -> Answer {
        self.inner.answer()
    }

    fn remaining(&self) -> u32 {
        self.inner.remaining()
    }
}
