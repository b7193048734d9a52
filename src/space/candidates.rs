//! Sets of points: all of them where they are few, well-spread ones where they are many.

use std::collections::HashSet;

use super::knob::{Axis, Domain};
use super::points::{Point, Space};
use crate::rng::Stream;

/// Draws in a row that bring nothing new before a sample is taken for complete.
const FRUITLESS: usize = 2000;

impl Space {
    /// Every allowed point, each once, if no more than `most` combinations are to be looked at.
    pub fn enumerate(&self, most: usize) -> Option<Vec<Point>> {
        let axes: Vec<Vec<f64>> = self
            .knobs
            .iter()
            .map(|knob| knob.domain.count().filter(|&n| n <= most).and_then(|_| knob.domain.all()))
            .collect::<Option<_>>()?;
        let total = axes.iter().try_fold(1_usize, |total, axis| total.checked_mul(axis.len()))?;
        (total <= most).then(|| self.product(&axes))
    }

    /// The cartesian product of `levels` values a knob, evenly spaced (categories whole): a grid.
    pub fn grid(&self, levels: usize) -> Vec<Point> {
        let axes: Vec<Vec<f64>> = self.knobs.iter().map(|knob| spread(&knob.domain, levels)).collect();
        self.product(&axes)
    }

    fn product(&self, axes: &[Vec<f64>]) -> Vec<Point> {
        let total: usize = axes.iter().map(Vec::len).product();
        let nth = |mut index: usize| {
            let mut point: Point = Vec::with_capacity(axes.len());
            for axis in axes.iter().rev() {
                point.push(axis[index % axis.len()]);
                index /= axis.len();
            }
            point.reverse();
            point
        };
        self.distinct((0..total).map(nth), total, usize::MAX)
    }

    /// Up to `count` allowed points of a scrambled Sobol sequence (Owen scrambling by Burley's hash),
    /// each once.
    pub fn sobol(&self, count: usize, seed: u64) -> Vec<Point> {
        let scramble = Stream::new(seed, "sobol").word() as u32;
        let nth = |index: usize| {
            let unit = |axis: usize| f64::from(sobol_burley::sample(index as u32, axis as u32, scramble));
            self.at_units((0..self.knobs.len()).map(unit))
        };
        // The crate's tables end at 2^16 samples.
        self.distinct((0..1 << 16).map(nth), count, FRUITLESS)
    }

    /// Up to `count` allowed points of Latin hypercubes (McKay, Beckman and Conover, 1979): the
    /// first `count` rows fall into different slices of every axis.
    pub fn latin_hypercube(&self, count: usize, seed: u64) -> Vec<Point> {
        let mut stream = Stream::new(seed, "lhs");
        let rows = std::iter::repeat_with(|| {
            let columns: Vec<Vec<f64>> = (0..self.knobs.len())
                .map(|_| {
                    let mut slices: Vec<usize> = (0..count).collect();
                    shuffle(&mut slices, &mut stream);
                    slices.iter().map(|&slice| (slice as f64 + stream.uniform()) / count as f64).collect()
                })
                .collect();
            (0..count).map(|row| self.at_units(columns.iter().map(|column| column[row]))).collect::<Vec<_>>()
        });
        if count == 0 {
            return Vec::new();
        }
        self.distinct(rows.flatten(), count, FRUITLESS)
    }

    /// Up to `count` allowed points at random, each once.
    pub fn random(&self, count: usize, seed: u64) -> Vec<Point> {
        let mut stream = Stream::new(seed, "random");
        let draws = std::iter::repeat_with(|| {
            let units: Vec<f64> = (0..self.knobs.len()).map(|_| stream.uniform()).collect();
            self.at_units(units.into_iter())
        });
        self.distinct(draws, count, FRUITLESS)
    }

    /// The allowed points that differ from `point` in one knob and are near in it.
    pub fn neighbours(&self, point: &Point) -> Vec<Point> {
        let moved = self.knobs.iter().enumerate().flat_map(|(axis, knob)| {
            knob.domain.near(point[axis]).into_iter().map(move |coordinate| {
                let mut moved = point.clone();
                moved[axis] = coordinate;
                moved
            })
        });
        let mut near = self.distinct(moved, usize::MAX, usize::MAX);
        near.retain(|other| other != point);
        near
    }

    /// Distance of two encoded points: Euclid's over the numbers, with half a unit for each category
    /// that differs.
    pub fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let square = |((axis, a), b): ((Axis, &f64), &f64)| match axis {
            Axis::Number => (a - b).powi(2),
            Axis::Category(_) => 0.25 * f64::from(u8::from(a != b)),
        };
        self.axes().into_iter().zip(a).zip(b).map(square).sum::<f64>().sqrt()
    }

    fn at_units(&self, units: impl Iterator<Item = f64>) -> Point {
        self.knobs.iter().zip(units).map(|(knob, unit)| knob.domain.at(unit)).collect()
    }

    /// The allowed ones of `points` in canonical form, each once, until there are `count` or
    /// `fruitless` in a row were of no use.
    fn distinct(&self, points: impl Iterator<Item = Point>, count: usize, fruitless: usize) -> Vec<Point> {
        let mut seen: HashSet<Vec<u64>> = HashSet::new();
        let mut found = Vec::new();
        let mut in_vain = 0;
        for point in points {
            if found.len() >= count || in_vain >= fruitless {
                break;
            }
            let point = self.canonical(point);
            if self.allows(&point) && seen.insert(point.iter().map(|x| x.to_bits()).collect()) {
                found.push(point);
                in_vain = 0;
            } else {
                in_vain += 1;
            }
        }
        found
    }
}

/// Puts `items` into a random order (Fisher and Yates).
pub(crate) fn shuffle<T>(items: &mut [T], stream: &mut Stream) {
    for last in (1..items.len()).rev() {
        items.swap(last, stream.below(last as u64 + 1) as usize);
    }
}

/// `levels` values from the first to the last; all values of a category.
fn spread(domain: &Domain, levels: usize) -> Vec<f64> {
    if let Some(all) = domain.all()
        && (all.len() <= levels || !matches!(domain, Domain::Number { .. }))
    {
        return all;
    }
    let share = |k: usize| if levels < 2 { 0.5 } else { k as f64 / (levels - 1) as f64 };
    let mut values: Vec<f64> = (0..levels.max(1)).map(|k| domain.at(share(k))).collect();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::space::{KnobSection, KnobValue, SpaceError, show};

    fn space(text: &str, constraints: &[&str]) -> Result<Space, SpaceError> {
        let sections: BTreeMap<String, KnobSection> = toml::from_str(text).unwrap();
        Space::from_sections(&sections, &constraints.iter().map(|&c| c.to_owned()).collect::<Vec<_>>())
    }

    const ENGINE: &str = "
        [max_num_batched_tokens]
        type = 'int'
        range = [256, 16384]
        scale = 'log'
        step = 2
        default = 2048
        [max_num_seqs]
        type = 'int'
        range = [16, 512]
        scale = 'log'
        default = 256
        [chunked]
        type = 'flag'
        default = true
        [long_prefill]
        type = 'float'
        range = [0.0, 1.0]
        default = 0.5
        only_when = 'chunked'
        [dtype]
        type = 'choice'
        values = ['auto', 'fp8']
        default = 'auto'
        restart = false
        [parallel]
        type = 'linked'
        knobs = ['tp', 'dp']
        values = [[1, 4], [2, 2], [4, 1]]
        default = [2, 2]
        [model_len]
        type = 'fixed'
        value = 4096
    ";

    fn engine() -> Space {
        space(ENGINE, &["max_num_batched_tokens >= max_num_seqs", "tp * dp == 4"]).unwrap()
    }

    #[test]
    fn the_default_setting_has_every_knob_that_applies() {
        let space = engine();
        assert_eq!(
            show(&space.setting(&space.default_point())),
            "chunked=true dp=2 dtype=auto long_prefill=0.5 max_num_batched_tokens=2048 max_num_seqs=256 model_len=4096 tp=2"
        );
        let fixed = space.launched_with(&space.setting(&space.default_point()));
        assert!(!fixed.contains_key("dtype") && fixed.contains_key("tp"));
    }

    #[test]
    fn a_knob_that_does_not_apply_makes_no_second_setting() {
        let space = space(
            "[a]\ntype='flag'\ndefault=true\n[b]\ntype='int'\nvalues=[1,2,5]\ndefault=1\nonly_when='a'",
            &[],
        )
        .unwrap();
        let all = space.enumerate(10).unwrap();
        let shown: Vec<String> = all.iter().map(|point| show(&space.setting(point))).collect();
        assert_eq!(shown, ["a=false", "a=true b=1", "a=true b=2", "a=true b=5"]);
        assert_eq!(space.enumerate(3), None);
    }

    proptest! {
        #[test]
        fn every_candidate_is_allowed_distinct_and_survives_its_setting(seed in 0_u64..1000, count in 1_usize..40) {
            let space = engine();
            for points in [space.sobol(count, seed), space.latin_hypercube(count, seed), space.random(count, seed)] {
                prop_assert_eq!(points.len(), count);
                for (index, point) in points.iter().enumerate() {
                    prop_assert!(space.allows(point));
                    prop_assert!(!points[..index].contains(point));
                    prop_assert_eq!(&space.point(&space.setting(point)).unwrap(), point);
                    for (axis, unit) in space.axes().into_iter().zip(space.encode(point)) {
                        let high = match axis { Axis::Number => 1.0, Axis::Category(n) => (n - 1) as f64 };
                        prop_assert!((0.0..=high).contains(&unit), "{}", unit);
                    }
                    for near in space.neighbours(point) {
                        prop_assert!(space.allows(&near) && near != *point);
                    }
                }
            }
        }
    }

    #[test]
    fn a_latin_hypercube_visits_every_slice_of_every_axis() {
        let space = space("[x]\ntype='float'\nrange=[0,1]\ndefault=0\n[y]\ntype='float'\nrange=[1,100]\nscale='log'\ndefault=1", &[]).unwrap();
        let points = space.latin_hypercube(10, 3);
        for axis in 0..2 {
            let mut slices: Vec<usize> =
                points.iter().map(|point| (space.encode(point)[axis] * 10.0) as usize).collect();
            slices.sort_unstable();
            assert_eq!(slices, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_grid_holds_the_ends_and_every_category() {
        let space = engine();
        let grid = space.grid(2);
        // 2 token levels x 2 seq levels x (chunked with 2 prefill levels, or not) x 2 x 3; one pair is forbidden.
        assert_eq!(grid.len(), 3 * 3 * 2 * 3);
    }

    #[test]
    fn what_is_wrong_with_a_knob_is_said_with_the_mend() {
        let error = |text: &str| space(text, &[]).unwrap_err().to_string();
        assert_eq!(
            error("[n]\nrange=[1,2]"),
            "knob `n`: `type` is missing; it is int, float, choice, flag, fixed or linked"
        );
        assert_eq!(
            error("[n]\ntype='int'\ndefault=1"),
            "knob `n`: `range` is missing; for example `range = [16, 512]`"
        );
        assert_eq!(
            error("[n]\ntype='int'\nrange=[16,64]\nscale='log'\nstep=2\ndefault=40"),
            "knob `n`: its `default` 40 is not among the values that it may have; the nearest is 32"
        );
        assert_eq!(
            error("[n]\ntype='int'\nrange=[16,64]\nscale='log'\nstep=1\ndefault=16"),
            "knob `n`: on the log scale `step` is a factor above 1, such as 2; it is 1"
        );
        assert_eq!(
            error("[n]\ntype='flag'\nrange=[0,1]\ndefault=true"),
            "knob `n`: `range` does not go with `type = \"flag\"`; leave it out"
        );
        assert_eq!(
            error("[max-num]\ntype='flag'\ndefault=true"),
            "knob `max-num`: a name has letters, digits and `_` only; write `max_num`"
        );
        assert!(error("[n]\ntype='flag'").starts_with("knob `n`: `default` is missing"));
        assert!(error("[n]\ntype='fixed'\nvalue=1").starts_with("no knob has more than one value"));
        assert!(
            error(
                "[a]\ntype='flag'\ndefault=true\nonly_when='b'\n[b]\ntype='flag'\ndefault=true\nonly_when='a'"
            )
            .contains("leads back to itself")
        );
        let constrained = |constraint: &str| space(ENGINE, &[constraint]).unwrap_err().to_string();
        assert_eq!(
            constrained("max_num_seq < 3"),
            "constraint `max_num_seq < 3`: no knob is called `max_num_seq`; a text stands in quotes, as in `'max_num_seq'`"
        );
        assert!(constrained("max_num_seqs < 3").starts_with("the default setting (chunked=true dp=2 "));
        let mut setting = engine().setting(&engine().default_point());
        setting.insert("max_num_seqs".to_owned(), KnobValue::Int(4));
        assert_eq!(
            engine().point(&setting).unwrap_err().to_string(),
            "knob `max_num_seqs`: 4 is not among the values that it may have"
        );
    }
}
