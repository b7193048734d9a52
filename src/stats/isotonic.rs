//! Isotonic regression: the best curve that never falls.

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where it was made.
    pub x: f64,
    /// What was seen.
    pub y: f64,
    /// How much it counts; above 0.
    pub weight: f64,
}

/// The weighted least-squares fit among all curves that do not fall.
#[derive(Clone, Debug, PartialEq)]
pub struct Isotonic {
    /// Distinct places, ascending.
    pub x: Vec<f64>,
    /// Fitted values, not falling.
    pub y: Vec<f64>,
    /// Weight observed at each place.
    pub weight: Vec<f64>,
}

impl Isotonic {
    /// Fits observations in any order by pooling adjacent violators. Repeats at one `x` are pooled
    /// first: the curve has one value there, and their weighted mean says all they have to say
    /// about it.
    pub fn fit(points: &[Point]) -> Self {
        let mut sorted = points.to_vec();
        sorted.sort_by(|a, b| a.x.total_cmp(&b.x));
        let mut places: Vec<Point> = Vec::with_capacity(sorted.len());
        for point in sorted {
            match places.last_mut() {
                Some(last) if last.x == point.x => last.pool(point),
                _ => places.push(point),
            }
        }
        // Blocks of places that share a value; `x` is not used in them.
        let mut blocks: Vec<(Point, usize)> = Vec::with_capacity(places.len());
        for &place in &places {
            let mut block = (place, 1);
            while let Some(&(last, size)) = blocks.last()
                && last.y >= block.0.y
            {
                blocks.pop();
                block.0.pool(last);
                block.1 += size;
            }
            blocks.push(block);
        }
        let y = blocks.iter().flat_map(|&(block, size)| std::iter::repeat_n(block.y, size)).collect();
        Self {
            x: places.iter().map(|place| place.x).collect(),
            y,
            weight: places.iter().map(|place| place.weight).collect(),
        }
    }
}

impl Point {
    fn pool(&mut self, other: Point) {
        let weight = self.weight + other.weight;
        self.y = (self.y * self.weight + other.y * other.weight) / weight;
        self.weight = weight;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fit(y: &[f64], weight: &[f64]) -> Vec<f64> {
        let points = y.iter().zip(weight).enumerate();
        let points: Vec<Point> = points.map(|(i, (&y, &weight))| Point { x: i as f64, y, weight }).collect();
        Isotonic::fit(&points).y
    }

    fn agrees(y: &[f64], weight: &[f64], expected: &[f64]) {
        let got = fit(y, weight);
        assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?} is not {expected:?}");
    }

    #[test]
    fn agrees_with_scipy() {
        // scipy 1.17.1: scipy.optimize.isotonic_regression(y, weights=w).x
        let third = 17.0 / 3.0;
        agrees(&[0.0, 6.0, 10.0, 1.0], &[1.0; 4], &[0.0, third, third, third]);
        agrees(
            &[3.0, 1.0, 2.0, 5.0, 4.0, 4.0, 7.0],
            &[1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0],
            &[1.6666666666666667, 1.6666666666666667, 2.0, 4.6, 4.6, 4.6, 7.0],
        );
        agrees(
            &[-1.5, -0.2, -0.9, 0.1, -0.3, 0.8, 0.6, 2.0],
            &[96.0, 96.0, 250.0, 96.0, 48.0, 96.0, 96.0, 96.0],
            &[
                -1.5,
                -0.7057803468208093,
                -0.7057803468208093,
                -0.03333333333333331,
                -0.03333333333333331,
                0.7000000000000001,
                0.7000000000000001,
                2.0,
            ],
        );
        agrees(&[5.0, 4.0, 3.0, 2.0, 1.0], &[1.0, 2.0, 3.0, 4.0, 5.0], &[7.0 / 3.0; 5]);
        agrees(&[1.0, 2.0, 3.0], &[1.0; 3], &[1.0, 2.0, 3.0]);
        agrees(&[], &[], &[]);
    }

    #[test]
    fn repeats_at_one_place_are_pooled_by_weight() {
        let point = |x, y, weight| Point { x, y, weight };
        let fit = Isotonic::fit(&[point(2.0, 5.0, 1.0), point(1.0, 0.0, 2.0), point(2.0, 2.0, 2.0)]);
        assert_eq!(fit, Isotonic { x: vec![1.0, 2.0], y: vec![0.0, 3.0], weight: vec![2.0, 3.0] });
    }

    fn points() -> impl Strategy<Value = Vec<Point>> {
        let point = (0_u8..12, -10.0_f64..10.0, 0.1_f64..5.0);
        let point = point.prop_map(|(x, y, weight)| Point { x: f64::from(x), y, weight });
        prop::collection::vec(point, 1..30)
    }

    proptest! {
        #[test]
        fn never_falls_and_keeps_the_weighted_mean(points in points()) {
            let fit = Isotonic::fit(&points);
            prop_assert!(fit.y.windows(2).all(|pair| pair[0] <= pair[1] + 1e-12));
            prop_assert!(fit.x.windows(2).all(|pair| pair[0] < pair[1]));
            let total: f64 = fit.weight.iter().sum();
            let fitted: f64 = fit.y.iter().zip(&fit.weight).map(|(y, w)| y * w).sum();
            let seen: f64 = points.iter().map(|point| point.y * point.weight).sum();
            prop_assert!((total - points.iter().map(|point| point.weight).sum::<f64>()).abs() < 1e-9);
            prop_assert!((fitted - seen).abs() < 1e-8);
        }

        /// The min-max formula (Barlow and Brunk) defines the fit without an algorithm: the value at
        /// `i` is the largest over `a <= i` of the smallest over `b >= i` of the mean of `a..=b`.
        #[test]
        fn is_the_min_max_of_block_means(points in points()) {
            let fit = Isotonic::fit(&points);
            let pooled: Vec<(f64, f64)> = fit
                .x
                .iter()
                .map(|&x| {
                    let here = points.iter().filter(|point| point.x == x);
                    here.fold((0.0, 0.0), |(sum, weight), p| (sum + p.y * p.weight, weight + p.weight))
                })
                .collect();
            let mean = |a: usize, b: usize| {
                let (sum, weight) =
                    pooled[a..=b].iter().fold((0.0, 0.0), |(s, w), &(y, v)| (s + y, w + v));
                sum / weight
            };
            for i in 0..pooled.len() {
                let largest = (0..=i)
                    .map(|a| (i..pooled.len()).map(|b| mean(a, b)).fold(f64::INFINITY, f64::min))
                    .fold(f64::NEG_INFINITY, f64::max);
                prop_assert!((fit.y[i] - largest).abs() < 1e-9);
            }
        }

        #[test]
        fn the_order_of_observations_does_not_matter(points in points()) {
            let mut reversed = points.clone();
            reversed.reverse();
            let (one, other) = (Isotonic::fit(&points), Isotonic::fit(&reversed));
            prop_assert!(one.y.iter().zip(&other.y).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }
}
