//! Bayesian optimisation of settings: few launches, each where the most is to be gained.
//!
//! 1. The default setting, then some that fill the space, each category among them.
//! 2. A Gaussian process ([`gp`]) over the log of the objective, each point with the noise of its own
//!    measurement; what lies far below the best is drawn nearer. A second process over
//!    `launched`/`failed` gives the probability that a setting works (failures are data).
//! 3. The next setting has the largest log expected improvement + log probability that it works -
//!    log expected seconds (a setting that needs no launch is cheap), over all settings where they
//!    are few, else over a Sobol sample and the neighbours of the best.
//! 4. The best so far is the visited setting with the largest posterior mean, not the luckiest value.
//! 5. It ends when no untried setting is expected to gain [`WORTHWHILE`].

pub mod acquisition;
pub mod fit;
pub mod gp;
#[cfg(test)]
mod tests;

use super::tuner::{Enough, Recommendation, TrialCost, Tried, Tuner, TunerAsk};
use crate::space::{Axis, Point, Setting, Space};
use crate::stats::special::normal_cdf;

use acquisition::log_expected_improvement;
use fit::{FEASIBLE, GOODPUT, fit};
use gp::{Data, Gp};

/// Expected gain, as a share of the best, below which a launch is not worth it.
pub const WORTHWHILE: f64 = 0.01;
/// Settings that fill the space before the model chooses, beside one for each knob; more where a
/// category has more values.
const FIRST: usize = 3;
/// Distance below the best (of logs: a share) beyond which values are drawn nearer, and how softly.
const TELLING: f64 = 0.2;
const SOFTNESS: f64 = 0.1;
/// Settings that must have been measured before the search may end by itself.
const LEAST_MEASURED: usize = 8;
/// Most settings that are looked at one by one; a sample of [`SAMPLE`] where there are more.
const MOST_ENUMERATED: usize = 4096;
const SAMPLE: usize = 1024;
/// Rounds of refinement around the best candidates, and how many are refined.
const ROUNDS: usize = 3;
const REFINED: usize = 5;
/// Seconds that a launch and a measurement are taken to last before one has been seen.
const UNKNOWN_COST: TrialCost = TrialCost { launch: 60.0, measure: 120.0 };

/// The tuner.
#[derive(Clone, Debug)]
pub struct Bayes {
    space: Space,
    axes: Vec<Axis>,
    launches: usize,
    /// All settings, or a sample; fixed for the whole search.
    candidates: Vec<Point>,
    /// Whether `candidates` are all settings.
    complete: bool,
    first: Vec<Point>,
    seen: Vec<Seen>,
    /// What the engine runs with now.
    running: Option<Setting>,
    /// Posterior of the log objective, what is far below the best drawn nearer.
    model: Option<Gp>,
    /// The same of the values as they are.
    plain: Option<Gp>,
    /// Posterior of +1 (works) and -1 (fails).
    works: Option<Gp>,
    asked: Option<TunerAsk>,
}

#[derive(Clone, Debug)]
struct Seen {
    point: Point,
    place: Vec<f64>,
    tried: Tried,
    cost: TrialCost,
}

impl Bayes {
    /// A search of at most `launches` settings.
    pub fn new(space: Space, launches: usize, seed: u64) -> Self {
        let enumerated = space.enumerate(MOST_ENUMERATED);
        let complete = enumerated.is_some();
        let candidates = enumerated.unwrap_or_else(|| space.sobol(SAMPLE, seed));
        let first = first(&space, launches, seed);
        let axes = space.axes();
        Self {
            space,
            axes,
            launches,
            candidates,
            complete,
            first,
            seen: Vec::new(),
            running: None,
            model: None,
            plain: None,
            works: None,
            asked: None,
        }
    }

    fn refit(&mut self) {
        let mut measured = Data::default();
        let mut marks = Data::default();
        for seen in &self.seen {
            marks.places.push(seen.place.clone());
            marks.variances.push(0.01);
            match seen.tried {
                Tried::Measured { log_value, variance } => {
                    measured.places.push(seen.place.clone());
                    measured.values.push(log_value);
                    measured.variances.push(variance);
                    marks.values.push(1.0);
                }
                Tried::Failed(_) => marks.values.push(-1.0),
            }
        }
        let mean = |data: &Data| data.values.iter().sum::<f64>() / data.values.len().max(1) as f64;
        let warm = |model: &Option<Gp>| model.as_ref().map(|model| model.hyper().clone());
        self.plain = fit(&self.axes, mean(&measured), &GOODPUT, warm(&self.plain).as_ref(), &measured);
        nearer(&mut measured.values);
        self.model = fit(&self.axes, mean(&measured), &GOODPUT, warm(&self.model).as_ref(), &measured);
        self.works = None;
        if measured.values.len() < self.seen.len() {
            // Where nothing is known a setting is taken to work rather than not.
            self.works = fit(&self.axes, 0.5, &FEASIBLE, None, &marks);
        }
    }

    /// Probability that a setting works.
    fn probability(&self, place: &[f64]) -> f64 {
        let Some(works) = &self.works else { return 1.0 };
        let (mean, variance) = works.at(place);
        normal_cdf(mean / (0.05 + variance).sqrt()).max(1e-6)
    }

    /// Expected seconds of a setting.
    fn seconds(&self, point: &Point) -> f64 {
        let mean = |of: fn(&TrialCost) -> f64, unknown: f64| {
            let known: Vec<f64> = self.seen.iter().map(|seen| of(&seen.cost)).filter(|&s| s > 0.0).collect();
            if known.is_empty() { unknown } else { known.iter().sum::<f64>() / known.len() as f64 }
        };
        let runs = self
            .running
            .as_ref()
            .is_some_and(|running| *running == self.space.launched_with(&self.space.setting(point)));
        let launch = if runs { 0.0 } else { mean(|cost| cost.launch, UNKNOWN_COST.launch) };
        launch + mean(|cost| cost.measure, UNKNOWN_COST.measure)
    }

    fn is_seen(&self, point: &Point) -> bool {
        self.seen.iter().any(|seen| seen.point == *point)
    }

    /// The untried setting that promises most a second, and the largest expected gain of any.
    fn promising(&self, model: &Gp, best: f64) -> Option<(Point, f64)> {
        let any_cheap = self.space.knobs().iter().any(|knob| !knob.restart);
        let score = |point: &Point| {
            let place = self.space.encode(point);
            let (mean, variance) = model.at(&place);
            let gain = log_expected_improvement(mean, variance.sqrt(), best) + self.probability(&place).ln();
            // All cost the same unless some need no launch.
            let cost = if any_cheap { self.seconds(point).max(1e-3).ln() } else { 0.0 };
            (gain - cost, gain)
        };
        let mut scored: Vec<(Point, f64, f64)> = Vec::with_capacity(self.candidates.len());
        let add = |point: &Point, scored: &mut Vec<(Point, f64, f64)>| {
            if !self.is_seen(point) {
                let (value, gain) = score(point);
                scored.push((point.clone(), value, gain));
            }
        };
        self.candidates.iter().for_each(|point| add(point, &mut scored));
        if !self.complete {
            let visited: Vec<Point> = self.ranking().into_iter().take(2).map(|r| r.point).collect();
            for point in visited {
                self.space.neighbours(&point).iter().for_each(|near| add(near, &mut scored));
            }
            for _ in 0..ROUNDS {
                scored.sort_by(|a, b| b.1.total_cmp(&a.1));
                let tops: Vec<Point> = scored.iter().take(REFINED).map(|(point, ..)| point.clone()).collect();
                for top in tops {
                    for near in self.space.neighbours(&top) {
                        if !scored.iter().any(|(point, ..)| *point == near) {
                            add(&near, &mut scored);
                        }
                    }
                }
            }
        }
        let gain = scored.iter().map(|(.., gain)| gain.exp()).fold(0.0, f64::max);
        let (point, ..) = scored.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((point, gain))
    }

    fn next(&self) -> TunerAsk {
        if self.seen.len() >= self.launches {
            return TunerAsk::Done(Enough::OutOfLaunches);
        }
        if let Some(point) = self.first.iter().find(|point| !self.is_seen(point)) {
            return TunerAsk::Try(point.clone());
        }
        let untried = || self.candidates.iter().find(|point| !self.is_seen(point));
        let (Some(model), Some(best)) = (&self.model, self.recommend()) else {
            // Nothing works so far: where a failure is least likely.
            let safest = self.candidates.iter().filter(|point| !self.is_seen(point)).max_by(|a, b| {
                let chance = |point: &Point| self.probability(&self.space.encode(point));
                chance(a).total_cmp(&chance(b))
            });
            return safest.map_or(TunerAsk::Done(Enough::AllTried), |point| TunerAsk::Try(point.clone()));
        };
        let measured = self.seen.iter().filter(|seen| matches!(seen.tried, Tried::Measured { .. })).count();
        match self.promising(model, best.log_value) {
            None => untried().map_or(TunerAsk::Done(Enough::AllTried), |point| TunerAsk::Try(point.clone())),
            Some((_, gain)) if gain < WORTHWHILE && measured >= LEAST_MEASURED => {
                TunerAsk::Done(Enough::NotWorthALaunch { expected_gain: gain })
            }
            Some((point, _)) => TunerAsk::Try(point),
        }
    }
}

/// Draws values that lie far below the best nearer to it, in the same order. A stationary process that
/// must follow a cliff (a setting that misses the SLO almost at once) takes the function to be rough
/// everywhere, and then says nothing of the few percent that set the best apart.
fn nearer(values: &mut [f64]) {
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for value in values {
        let beyond = best - *value - TELLING;
        if beyond > 0.0 {
            *value = best - TELLING - SOFTNESS * (beyond / SOFTNESS).ln_1p();
        }
    }
}

/// The settings that fill the space: the default, then ones far from each other of which each has
/// as many category values that were not there yet as possible.
fn first(space: &Space, launches: usize, seed: u64) -> Vec<Point> {
    let axes = space.axes();
    let most = axes.iter().map(|axis| if let Axis::Category(values) = axis { *values } else { 0 }).max();
    let count = (FIRST + axes.len()).max(most.unwrap_or(0)).min((launches / 2).max(2));
    let pool = space.sobol(256, seed);
    let mut chosen = vec![space.default_point()];
    let fresh = |point: &Point, chosen: &[Point]| {
        let is_new = |axis: usize| {
            matches!(axes[axis], Axis::Category(_)) && chosen.iter().all(|other| other[axis] != point[axis])
        };
        (0..axes.len()).filter(|&axis| is_new(axis)).count()
    };
    let distance = |point: &Point, chosen: &[Point]| {
        let place = space.encode(point);
        let far = |other: &Point| space.distance(&place, &space.encode(other));
        let nearest = chosen.iter().map(far).fold(f64::INFINITY, f64::min);
        // The farthest points of all are the corners, where engines crash or crawl.
        let face = |(axis, unit): (&Axis, &f64)| match axis {
            Axis::Number => unit.min(1.0 - unit),
            Axis::Category(_) => 0.5,
        };
        nearest.min(0.15 + 2.0 * axes.iter().zip(&place).map(face).fold(0.5, f64::min))
    };
    while chosen.len() < count {
        let next = pool.iter().filter(|point| !chosen.contains(point)).max_by(|a, b| {
            let new = fresh(a, &chosen).cmp(&fresh(b, &chosen));
            new.then_with(|| distance(a, &chosen).total_cmp(&distance(b, &chosen)))
        });
        match next {
            Some(point) => chosen.push(point.clone()),
            None => break,
        }
    }
    chosen
}

impl Tuner for Bayes {
    fn ask(&mut self) -> TunerAsk {
        let ask = self.asked.take().unwrap_or_else(|| self.next());
        self.asked = Some(ask.clone());
        ask
    }

    fn tell(&mut self, point: &Point, tried: Tried, cost: TrialCost) {
        self.asked = None;
        let failed =
            matches!(tried, Tried::Failed(kind) if kind != super::tuner::FailureKind::MissedAtLowest);
        self.running = (!failed).then(|| self.space.launched_with(&self.space.setting(point)));
        let place = self.space.encode(point);
        self.seen.push(Seen { point: point.clone(), place, tried, cost });
        self.refit();
    }

    fn recommend(&self) -> Option<Recommendation> {
        self.ranking().into_iter().next()
    }

    fn model(&self) -> Option<&Gp> {
        self.plain.as_ref()
    }

    fn ranking(&self) -> Vec<Recommendation> {
        let Some(model) = &self.model else { return Vec::new() };
        let mut ranking: Vec<Recommendation> = Vec::new();
        for seen in &self.seen {
            // A setting that was measured once and crashed another time is not one to live with.
            let crashed = |other: &Seen| other.point == seen.point && matches!(other.tried, Tried::Failed(_));
            if self.seen.iter().any(crashed) || ranking.iter().any(|other| other.point == seen.point) {
                continue;
            }
            let (log_value, variance) = model.at(&seen.place);
            ranking.push(Recommendation { point: seen.point.clone(), log_value, sd: variance.sqrt() });
        }
        ranking.sort_by(|a, b| b.log_value.total_cmp(&a.log_value));
        ranking
    }
}
