//! A search that ends as soon as it cannot beat a rival any more.
//!
//! While levels rise, requests a second for each user fall. So the goodput at the capacity is at most
//! the level that plainly missed the SLO times the rate for each user at a level that met it. Where
//! that, with [`SLACK`], lies below what is to be beaten, the rest of the search is not worth its
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::plan::{Budget, LoadRange};
    use crate::search::adaptive::Adaptive;
    use crate::search::adaptive::settings::Settings;
    use crate::sim::scenarios;
    use crate::sim::session::{SimSession, ready};
    use crate::slo::Slo;
    use crate::trial::Trials;

    /// Trials run on `decode`, whose goodput at its capacity of 109 is about 21 requests a second.
    fn race(rival: Rival) -> (Race, u32) {
        let scenario = scenarios::find("decode").unwrap();
        let slo = Slo::parse(scenario.slo.iter().copied()).unwrap();
        let session = SimSession::new(scenario.params, scenario.traffic.clone(), 3);
        let mut trials = Trials::new(session, slo.clone(), Budget::default(), 1, false);
        let settings = Settings::new(LoadRange { min: 1, max: 1024 }, 0.2, 3);
        let mut race = Race::new(Box::new(Adaptive::new(slo, settings)), Some(rival));
        let mut count = 0;
        while let Ask::Trial(spec) = race.ask() {
            let finished = ready(trials.run(&spec, &mut |_| {})).unwrap();
            race.tell(&finished.outcome);
            count += 1;
        }
        (race, count)
    }

    #[test]
    fn a_search_that_cannot_win_is_given_up_and_its_bounds_hold_the_truth() {
        let (lost, trials) = race(Rival::Concurrency(400.0));
        let (low, high) = lost.abandoned().unwrap();
        assert!(low <= 109.0 && 109.0 <= high, "{low} {high}");
        let (won, all) = race(Rival::Concurrency(50.0));
        assert!(won.abandoned().is_none());
        assert!(trials < all, "{trials} {all}");
        let truth = won.answer().goodput.unwrap().requests_per_second;
        let (low, high) = race(Rival::Goodput(10.0 * truth)).0.abandoned().unwrap();
        assert!(low <= truth && truth <= high, "{low} {truth} {high}");
    }
}
