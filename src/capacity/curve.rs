//! Curves that rise, through points as they were measured.

use crate::stats::isotonic::{Isotonic, Point};

/// A curve that never falls: the isotonic regression of measured points, straight between them. It
/// begins at the origin where it is a rate, and ends with the last point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Curve {
    /// Fits points in any order; those that are not finite, or not at a load above 0, are left out.
    pub fn fit(points: &[Point]) -> Self {
        let usable = |point: &&Point| {
            point.x.is_finite()
                && point.x > 0.0
                && point.y.is_finite()
                && point.y >= 0.0
                && point.weight > 0.0
        };
        let kept: Vec<Point> = points.iter().filter(usable).copied().collect();
        let fit = Isotonic::fit(&kept);
        Self { x: fit.x, y: fit.y }
    }

    /// The same curve from the origin on: nothing is served where nothing is in flight.
    pub fn from_origin(mut self) -> Self {
        self.x.insert(0, 0.0);
        self.y.insert(0, 0.0);
        self
    }

    /// Whether there is nothing to go by: fewer than two points.
    pub fn is_empty(&self) -> bool {
        self.x.len() < 2
    }

    /// The largest load with a point.
    pub fn end(&self) -> Option<f64> {
        self.x.last().copied()
    }

    /// Value at a load; beyond the ends that of the end. 0 for an empty curve.
    pub fn value(&self, x: f64) -> f64 {
        let right = self.x.partition_point(|&knot| knot <= x);
        match (right.checked_sub(1), self.x.get(right)) {
            (None, _) => self.y.first().copied().unwrap_or(0.0),
            (Some(left), None) => self.y[left],
            (Some(left), Some(_)) => {
                let share = (x - self.x[left]) / (self.x[right] - self.x[left]);
                self.y[left] + share * (self.y[right] - self.y[left])
            }
        }
    }

    /// The largest load at which the curve has not passed `y`; `None` where it never does, or has
    /// from the start.
    pub fn last_within(&self, y: f64) -> Option<f64> {
        let right = self.y.iter().position(|&knot| knot > y)?;
        let left = right.checked_sub(1)?;
        let share = (y - self.y[left]) / (self.y[right] - self.y[left]);
        Some(self.x[left] + share * (self.x[right] - self.x[left]))
    }

    /// The smallest load at which the curve reaches `y`; `None` where it does not.
    pub fn first_reaching(&self, y: f64) -> Option<f64> {
        let right = self.y.iter().position(|&knot| knot >= y)?;
        let Some(left) = right.checked_sub(1) else { return self.x.first().copied() };
        let share = (y - self.y[left]) / (self.y[right] - self.y[left]);
        Some(self.x[left] + share * (self.x[right] - self.x[left]))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn curve() -> Curve {
        let points = [(10.0, 100.0), (20.0, 150.0), (40.0, 150.0), (f64::NAN, 3.0)];
        Curve::fit(&points.map(|(x, y)| Point { x, y, weight: 1.0 }))
    }

    #[test]
    fn lies_straight_between_its_points_and_flat_beyond() {
        let curve = curve().from_origin();
        let values = [(0.0, 0.0), (5.0, 50.0), (15.0, 125.0), (30.0, 150.0), (99.0, 150.0)];
        for (x, y) in values {
            assert_eq!(curve.value(x), y);
        }
        assert_eq!(Curve::default().value(3.0), 0.0);
    }

    #[test]
    fn is_solved_from_both_sides() {
        assert_eq!(curve().first_reaching(150.0), Some(20.0));
        assert_eq!(curve().last_within(125.0), Some(15.0));
        assert_eq!(curve().last_within(150.0), None);
        assert_eq!(curve().first_reaching(151.0), None);
        assert_eq!(curve().last_within(50.0), None);
        assert_eq!(curve().first_reaching(50.0), Some(10.0));
    }
}
