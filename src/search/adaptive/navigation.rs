//! The way to the boundary: steps that are sized by what was seen, each judged as soon as it is
//! clear. What is seen here steers and excludes; it never enters the estimate.

use crate::units::Load;

/// A margin closer to the limit than this (log scale) is near the boundary.
const NEAR: f64 = 0.2;
/// A bracket narrower than this ratio is near the boundary.
const NARROW: f64 = 1.12;
/// Probes at the most before the boundary is measured from where the search stands.
const MOST_PROBES: usize = 25;

/// What navigation needs to know of a trial.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Requests in flight.
    pub users: u32,
    /// Margins of the objectives, log scale, positive when missed.
    pub margins: Vec<f64>,
    /// Requests a second through the server.
    pub rate: f64,
    /// Mean TTFT, seconds.
    pub mean_ttft: Option<f64>,
}

impl Probe {
    fn worst(&self) -> f64 {
        self.margins.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    fn binding(&self) -> usize {
        let worst = self.worst();
        self.margins.iter().position(|&margin| margin == worst).unwrap_or(0)
    }
}

/// Where to go next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Probe this level.
    Probe(u32),
    /// The boundary is near this level: measure.
    Near(u32),
    /// The highest level allowed meets the SLO clearly.
    MetAtHighest,
    /// The lowest level allowed misses the SLO.
    MissedAtLowest,
}

/// The state of the way.
#[derive(Clone, Debug)]
pub struct Navigation {
    min: u32,
    max: u32,
    /// The limit of an objective on TTFT: its index and its limit, seconds.
    ttft: Option<(usize, f64)>,
    probes: Vec<Probe>,
    good: Option<Probe>,
    bad: Option<Probe>,
    looked_ahead: bool,
    /// The missed level whose double is being probed.
    looking_ahead_of: Option<u32>,
    used_little: bool,
    /// Levels that missed although a higher one met.
    pub dips: Vec<u32>,
}

impl Navigation {
    /// A way between `min` and `max` users.
    pub fn new(min: u32, max: u32, ttft: Option<(usize, f64)>) -> Self {
        Self {
            min,
            max,
            ttft,
            probes: Vec::new(),
            good: None,
            bad: None,
            looked_ahead: false,
            looking_ahead_of: None,
            used_little: false,
            dips: Vec::new(),
        }
    }

    /// The probes so far.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// Takes in a probe and says where to go.
    pub fn next(&mut self, probe: Probe) -> Step {
        let users = probe.users;
        let worst = probe.worst();
        self.probes.push(probe.clone());
        if let Some(missed) = self.looking_ahead_of.take() {
            if worst < -0.03 {
                // The miss below was a dip: the boundary is above.
                self.dips.push(missed);
                self.good = Some(probe.clone());
                self.bad = None;
                self.probes.retain(|p| p.users > missed || p.worst() <= -0.03);
            } else if worst > NEAR {
                let origin = self.probes.iter().rev().find(|p| p.users == missed).cloned();
                return origin.map_or(Step::Near(users), |origin| self.onward(&origin));
            }
            return if worst.abs() < NEAR { Step::Near(users) } else { self.onward(&probe) };
        }
        if worst <= 0.0 {
            if self.good.as_ref().is_none_or(|good| users > good.users) {
                self.good = Some(probe.clone());
            }
            if users >= self.max {
                return if worst < -NEAR { Step::MetAtHighest } else { Step::Near(users) };
            }
        } else {
            if self.bad.as_ref().is_none_or(|bad| users < bad.users) {
                self.bad = Some(probe.clone());
            }
            if users <= self.min {
                return if worst > NEAR { Step::MissedAtLowest } else { Step::Near(users) };
            }
        }
        // A miss by a little may be a dip in a curve that is not monotone: look once at the double.
        let lowest_miss = self.bad.as_ref().is_none_or(|bad| bad.users == users);
        let double = users.saturating_mul(2);
        let fresh = !self
            .probes
            .iter()
            .any(|p| p.users != users && (f64::from(double) / f64::from(p.users)).ln().abs() < 0.5);
        if worst > -NEAR
            && worst < 0.35
            && lowest_miss
            && !self.looked_ahead
            && fresh
            && double <= self.max
            && users > 1
        {
            self.looked_ahead = true;
            self.looking_ahead_of = Some(users);
            return Step::Probe(double);
        }
        if worst.abs() < NEAR || self.probes.len() > MOST_PROBES {
            return Step::Near(users);
        }
        self.onward(&probe)
    }

    /// The next level from the last probe and the bracket so far.
    fn onward(&mut self, last: &Probe) -> Step {
        if let (Some(good), Some(bad)) = (&self.good, &self.bad)
            && good.users >= bad.users
        {
            // Not monotone beyond the look-ahead: keep the side that was seen last.
            if last.worst() <= 0.0 { self.bad = None } else { self.good = None }
        }
        let step = match (&self.good, &self.bad) {
            (_, None) => self.up(last),
            (None, Some(_)) => {
                let factor = (-last.worst() / 0.8).exp().clamp(0.25, 0.7);
                ((f64::from(last.users) * factor) as u32).max(self.min)
            }
            (Some(good), Some(bad)) => {
                let (low, high) = (good.users, bad.users);
                if high - low <= 1 || f64::from(high) / f64::from(low) < NARROW {
                    let middle = (f64::from(low) * f64::from(high)).sqrt().round() as u32;
                    return Step::Near(middle.clamp(self.min, self.max));
                }
                let (good, bad) = (good.clone(), bad.clone());
                let target = self.between(last, &good, &bad);
                (target.round() as u32).clamp(low + 1, high - 1)
            }
        };
        Step::Probe(step.clamp(self.min, self.max))
    }

    /// A step up, as large as the slopes seen so far allow.
    fn up(&self, last: &Probe) -> u32 {
        let met: Vec<&Probe> = self.probes.iter().filter(|probe| probe.worst() <= 0.0).collect();
        let factor = match met.as_slice() {
            [.., before, here] if here.users > before.users => {
                let run = (f64::from(here.users) / f64::from(before.users)).ln();
                let reach = |(now, then): (&f64, &f64)| -now / ((now - then) / run * 1.3).max(0.35);
                here.margins.iter().zip(&before.margins).map(reach).fold(f64::INFINITY, f64::min).exp()
            }
            _ => last.margins.iter().map(|margin| -margin).fold(f64::INFINITY, f64::min).exp(),
        };
        let next = (f64::from(last.users) * factor.clamp(1.5, 4.0)).round() as u32;
        next.max(last.users + 1)
    }

    /// A level inside the bracket.
    fn between(&mut self, last: &Probe, good: &Probe, bad: &Probe) -> f64 {
        let (low, high) = (f64::from(good.users), f64::from(bad.users));
        // Out of an overload that shows in TTFT, Little's law tells how many are in service; a
        // queue as long as the limit allows may wait beside them. Once: repeated, it creeps.
        if let (Some((index, limit)), Some(mean_ttft)) = (self.ttft, last.mean_ttft)
            && last.users == bad.users
            && last.binding() == index
            && last.margins[index] > 0.3
            && !self.used_little
        {
            self.used_little = true;
            let in_service = f64::from(last.users) - last.rate * mean_ttft;
            let proposal = in_service + last.rate * limit * 0.9;
            return if proposal > low && proposal < high { proposal } else { (low * high).sqrt() };
        }
        let index = bad.binding();
        let below = good.margins[index].clamp(-1.0, -0.01);
        let above = bad.margins[index].clamp(0.01, 1.0);
        let fraction = (-below / (above - below)).clamp(0.2, 0.8);
        (low.ln() + fraction * (high / low).ln()).exp()
    }
}

/// The level of a load in users.
pub fn users(load: Load) -> u32 {
    match load {
        Load::Concurrency(users) => users,
        // The rate search shows this one its rates as whole steps.
        Load::RequestRate(value) | Load::SpeedUp(value) => value as u32,
    }
}
