//! Designs that are laid out beforehand: grid, Sobol, Latin hypercube, random, lists.

use super::tuner::{Enough, Recommendation, TrialCost, Tried, Tuner, TunerAsk};
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
    /// The finest cartesian grid that the launches allow, in random order: cut short, it is still
    /// spread.
    pub fn grid(space: &Space, launches: usize, seed: u64) -> Self {
        Self::of(space, grid(space, launches, seed), launches)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::search::tuner::FailureKind;
    use crate::space::{KnobSection, show};

    fn space(text: &str) -> Space {
        let sections: BTreeMap<String, KnobSection> = toml::from_str(text).unwrap();
        Space::from_sections(&sections, &[]).unwrap()
    }

    fn asked(tuner: &mut Listed, space: &Space) -> (Vec<String>, Enough) {
        let mut all = Vec::new();
        loop {
            match tuner.ask() {
                TunerAsk::Done(why) => return (all, why),
                TunerAsk::Try(point) => {
                    all.push(show(&space.setting(&point)));
                    let tried = match all.len() {
                        2 => Tried::Failed(FailureKind::Start),
                        n => Tried::Measured { log_value: -(n as f64), variance: 0.01 },
                    };
                    tuner.tell(&point, tried, TrialCost::default());
                }
            }
        }
    }

    const TWO: &str =
        "[a]\ntype='int'\nvalues=[1,2,3]\ndefault=1\n[b]\ntype='choice'\nvalues=['x','y','z']\ndefault='x'";

    #[test]
    fn zip_pairs_values_and_the_default_comes_first() {
        let space = space(TWO);
        let mut zip = Listed::zip(&space, 10).unwrap();
        let (all, why) = asked(&mut zip, &space);
        assert_eq!(all, ["a=1 b=x", "a=2 b=y", "a=3 b=z"]);
        assert_eq!(why, Enough::AllTried);
        let best = zip.recommend().unwrap();
        assert_eq!(show(&space.setting(&best.point)), "a=1 b=x");
        assert_eq!(zip.ranking().len(), 2, "what failed is never recommended");
    }

    #[test]
    fn a_grid_that_is_cut_short_says_so() {
        let space = space(TWO);
        let (all, why) = asked(&mut Listed::grid(&space, 5, 1), &space);
        assert_eq!((all.len(), all[0].as_str(), why), (5, "a=1 b=x", Enough::OutOfLaunches));
        let (all, why) = asked(&mut Listed::grid(&space, 20, 1), &space);
        assert_eq!((all.len(), why), (9, Enough::AllTried));
    }

    #[test]
    fn settings_that_share_a_launch_stand_together() {
        let space = space(&format!("{TWO}\nrestart=false"));
        let (all, _) = asked(&mut Listed::grid(&space, 20, 1), &space);
        let launches = all.chunk_by(|a, b| a[..3] == b[..3]).count();
        assert_eq!(launches, 3, "{all:?}");
    }
}
