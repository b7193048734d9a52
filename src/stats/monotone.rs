//! Monotone interpolation: a smooth curve through points that never overshoots them.

/// Piecewise cubic Hermite interpolation (PCHIP) with the slopes of Fritsch and Butland (SIAM J. Sci.
/// Stat. Comput. 5, 1984): where the points rise the curve rises, where they are flat it is flat.
#[derive(Clone, Debug, PartialEq)]
pub struct Pchip {
    x: Vec<f64>,
    y: Vec<f64>,
    slope: Vec<f64>,
}

impl Pchip {
    /// A curve through `(x, y)`; `None` unless there are at least two points with `x` rising
    /// strictly and all values finite.
    pub fn new(x: &[f64], y: &[f64]) -> Option<Self> {
        let rising = x.windows(2).all(|pair| pair[0] < pair[1]);
        let finite = x.iter().chain(y).all(|value| value.is_finite());
        if x.len() < 2 || x.len() != y.len() || !rising || !finite {
            return None;
        }
        Some(Self { x: x.to_vec(), y: y.to_vec(), slope: slopes(x, y) })
    }

    /// Value of the curve; beyond its ends that of the end.
    pub fn value(&self, x: f64) -> f64 {
        let last = self.x.len() - 1;
        if x <= self.x[0] {
            return self.y[0];
        }
        if x >= self.x[last] {
            return self.y[last];
        }
        let left = self.x.partition_point(|&knot| knot <= x) - 1;
        self.segment(left, x)
    }

    /// The cubic of the segment that begins at knot `left`.
    fn segment(&self, left: usize, x: f64) -> f64 {
        let width = self.x[left + 1] - self.x[left];
        let t = (x - self.x[left]) / width;
        let (u, v) = (t * t, t * t * t);
        self.y[left] * (2.0 * v - 3.0 * u + 1.0)
            + width * self.slope[left] * (v - 2.0 * u + t)
            + self.y[left + 1] * (3.0 * u - 2.0 * v)
            + width * self.slope[left + 1] * (v - u)
    }

    /// The smallest `x` at which a curve through rising points reaches `y`; `None` where it does not.
    pub fn solve(&self, y: f64) -> Option<f64> {
        let right = self.y.iter().position(|&knot| knot >= y)?;
        // At a knot the root is exact, also where the curve lies flat beside it.
        if self.y[right] == y {
            return Some(self.x[right]);
        }
        if right == 0 {
            return None;
        }
        let (mut low, mut high) = (self.x[right - 1], self.x[right]);
        // Monotone between the knots: halving cannot lose the root, and 60 steps exhaust a double.
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.segment(right - 1, middle) >= y {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }
}

fn slopes(x: &[f64], y: &[f64]) -> Vec<f64> {
    let width: Vec<f64> = x.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let secant: Vec<f64> =
        y.windows(2).zip(&width).map(|(pair, width)| (pair[1] - pair[0]) / width).collect();
    let n = x.len();
    if n == 2 {
        return vec![secant[0]; 2];
    }
    let mut slope = vec![0.0; n];
    for i in 1..n - 1 {
        let (before, after) = (secant[i - 1], secant[i]);
        if before * after > 0.0 {
            let (w1, w2) = (2.0 * width[i] + width[i - 1], width[i] + 2.0 * width[i - 1]);
            slope[i] = (w1 + w2) / (w1 / before + w2 / after);
        }
    }
    slope[0] = end_slope(width[0], width[1], secant[0], secant[1]);
    slope[n - 1] = end_slope(width[n - 2], width[n - 3], secant[n - 2], secant[n - 3]);
    slope
}

/// Three-point slope at an end, bent so that the curve keeps the direction of the data.
fn end_slope(width: f64, next_width: f64, secant: f64, next_secant: f64) -> f64 {
    let slope = ((2.0 * width + next_width) * secant - width * next_secant) / (width + next_width);
    if slope * secant <= 0.0 {
        0.0
    } else if secant * next_secant <= 0.0 && slope.abs() > 3.0 * secant.abs() {
        3.0 * secant
    } else {
        slope
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn agrees_with_scipy() {
        // scipy 1.17.1: scipy.interpolate.PchipInterpolator(x, y)(q), and its roots.
        let curve = Pchip::new(&[0.0, 1.0, 2.0, 4.0, 7.0], &[-2.0, -1.5, -1.5, 0.5, 3.0]).unwrap();
        let values = [
            (0.0, -2.0),
            (0.3, -1.78175),
            (1.0, -1.5),
            (1.4, -1.5),
            (2.5, -1.2732469512195121),
            (3.0, -0.7286585365853658),
            (4.0, 0.5),
            (5.5, 1.817987804878049),
            (6.9, 2.926273080397471),
            (7.0, 3.0),
        ];
        for (x, y) in values {
            assert!((curve.value(x) - y).abs() < 1e-12, "at {x}: {}", curve.value(x));
        }
        assert!((curve.solve(0.0).unwrap() - 3.554229829871772).abs() < 1e-12);
        let steep = Pchip::new(&[0.0, 0.5, 0.7, 3.0], &[-1.0, -0.9, 2.0, 2.1]).unwrap();
        for (x, y) in [(0.1, -0.996931828442438), (0.6, 0.5584526679396521), (2.9, 2.0999489362652546)] {
            assert!((steep.value(x) - y).abs() < 1e-12, "at {x}: {}", steep.value(x));
        }
        assert!((steep.solve(0.0).unwrap() - 0.5735724953666486).abs() < 1e-12);
        let line = Pchip::new(&[0.0, 1.0], &[1.0, 3.0]).unwrap();
        assert!((line.value(0.25) - 1.5).abs() < 1e-15);
    }

    #[test]
    fn a_flat_stretch_is_solved_at_its_left_end() {
        let curve = Pchip::new(&[0.0, 1.0, 2.0, 3.0], &[-1.0, 0.0, 0.0, 1.0]).unwrap();
        assert!((curve.solve(0.0).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(curve.solve(2.0), None);
        assert_eq!(curve.solve(-2.0), None);
        assert_eq!(curve.solve(-1.0), Some(0.0));
    }

    #[test]
    fn points_that_make_no_curve_are_refused() {
        assert_eq!(Pchip::new(&[1.0], &[1.0]), None);
        assert_eq!(Pchip::new(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(Pchip::new(&[1.0, 2.0], &[1.0, f64::INFINITY]), None);
    }

    proptest! {
        #[test]
        fn rises_where_the_points_rise_and_its_root_is_a_root(
            steps in prop::collection::vec((0.01_f64..3.0, 0.0_f64..5.0), 1..12),
            share in 0.0_f64..1.0,
        ) {
            let (mut x, mut y) = (vec![0.0], vec![-1.0]);
            for (dx, dy) in steps {
                x.push(x[x.len() - 1] + dx);
                y.push(y[y.len() - 1] + dy);
            }
            let curve = Pchip::new(&x, &y).unwrap();
            let end = x[x.len() - 1];
            let values: Vec<f64> = (0..=200).map(|i| curve.value(end * f64::from(i) / 200.0)).collect();
            prop_assert!(values.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9));
            let target = -1.0 + share * (y[y.len() - 1] + 1.0);
            let root = curve.solve(target).unwrap();
            prop_assert!((curve.value(root) - target).abs() < 1e-6);
        }
    }
}
