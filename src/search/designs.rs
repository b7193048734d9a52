//! Designs that are laid out beforehand: grid, Sobol, Latin hypercube, random, lists.

use super::tuner::{Design, Enough, Recommendation, TrialCost, Tried, Tuner, TunerAsk};
use crate::rng::Stream;
use crate::space::candidates::shuffle;
use crate::space::{Point, Space, SpaceError};

/// Most levels a knob that a grid is tried with.
const MOST_LEVELS: usize = 64;

/// Settings tried one after the other, the default first.
#[derive(Clone, Debug)]
pub struct Listed {
    points: Vec<Point>,
    next: usize,
    exhaustive: bool,
    seen: Vec<(Point, Tried)>,
}

impl Listed {
    /// The design's settings.
    pub fn new(design: Design, space: &Space, launches: usize, seed: u64) -> Self {
        let points = match design {
            Design::Sobol | Design::Bayes => space.sobol(launches, seed),
            Design::Lhs => space.latin_hypercube(launches, seed),
            Design::Random => space.random(launches, seed),
            Design::Grid => grid(space, launches, seed),
        };
        Self::of(space, points, launches)
    }

    /// These settings, as many as the launches allow; the default comes first.
    pub fn of(space: &Space, points: Vec<Point>, launches: usize) -> Self {
        let default = space.default_point();
        let mut all = vec![default.clone()];
        all.extend(points.into_iter().filter(|point| *point != default));
        let exhaustive = all.len() <= launches;
        all.truncate(launches);
        // Settings that share a launch stand together, in the order of the first of them.
        let mut ordered: Vec<Point> = Vec::with_capacity(all.len());
        let key = |point: &Point| space.launched_with(&space.setting(point));
        while let Some(first) = all.first().map(&key) {
            let (same, rest): (Vec<Point>, Vec<Point>) =
                all.into_iter().partition(|point| key(point) == first);
            ordered.extend(same);
            all = rest;
        }
        Self { points: ordered, next: 0, exhaustive, seen: Vec::new() }
    }

    /// The k-th value of every knob with the k-th of the others: as many settings as the shortest
    /// list of values.
    ///
    /// # Errors
    /// When a knob's values cannot be counted.
    pub fn zip(space: &Space, launches: usize) -> Result<Self, SpaceError> {
        let mut columns = Vec::new();
        for knob in space.knobs() {
            let values = knob.domain.all().ok_or_else(|| SpaceError::Knob {
                knob: knob.name.clone(),
                problem: "its values cannot be counted, so they cannot be paired; give it `values`"
                    .to_owned(),
            })?;
            columns.push(values);
        }
        let longest = columns.iter().map(Vec::len).filter(|&count| count > 1).min().unwrap_or(0);
        let row = |k: usize| columns.iter().map(|values| values[k.min(values.len() - 1)]).collect::<Point>();
        let rows =
            (0..longest).map(|k| space.canonical(row(k))).filter(|point| space.allows(point)).collect();
        Ok(Self::of(space, rows, launches))
    }
}

/// The finest cartesian grid that the launches allow, in random order: cut short, it is still spread.
fn grid(space: &Space, launches: usize, seed: u64) -> Vec<Point> {
    let mut grid = space.grid(1);
    for levels in 2..=MOST_LEVELS {
        let finer = space.grid(levels);
        if finer.len() > launches && levels > 2 {
            break;
        }
        grid = finer;
        if grid.len() > launches {
            break;
        }
    }
    shuffle(&mut grid, &mut Stream::new(seed, "grid"));
    grid
}

impl Tuner for Listed {
    fn ask(&mut self) -> TunerAsk {
        match self.points.get(self.next) {
            Some(point) => TunerAsk::Try(point.clone()),
            None if self.exhaustive => TunerAsk::Done(Enough::AllTried),
            None => TunerAsk::Done(Enough::OutOfLaunches),
        }
    }

    fn tell(&mut self, point: &Point, tried: Tried, _cost: TrialCost) {
        if self.points.get(self.next) == Some(point) {
            self.next += 1;
        }
        self.seen.push((point.clone(), tried));
    }

    fn recommend(&self) -> Option<Recommendation> {
        self.ranking().into_iter().next()
    }

    fn ranking(&self) -> Vec<Recommendation> {
        let measured = |(point, tried): &(Point, Tried)| match *tried {
            Tried::Measured { log_value, variance } => {
                Some(Recommendation { point: point.clone(), log_value, sd: variance.sqrt() })
            }
            Tried::Failed(_) => None,
        };
        let mut ranking: Vec<Recommendation> = self.seen.iter().filter_map(measured).collect();
        ranking.sort_by(|a, b| b.log_value.total_cmp(&a.log_value));
        ranking
    }
}
