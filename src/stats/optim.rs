//! Minimisation without derivatives, through `argmin`.

use argmin::core::{CostFunction, Error, Executor};
use argmin::solver::neldermead::NelderMead;

struct Wrapped<'a>(&'a dyn Fn(&[f64]) -> f64);

impl CostFunction for Wrapped<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, at: &Vec<f64>) -> Result<f64, Error> {
        let value = (self.0)(at);
        // The simplex orders its corners: what is no number must be worse than all that is one.
        Ok(if value.is_nan() { f64::MAX } else { value })
    }
}

/// A place near a local minimum of `f` and its value there: Nelder and Mead's simplex (1965) of size
/// `reach` around `start`, for at most `steps` steps. It never gives a place worse than `start`.
pub fn minimise(f: &dyn Fn(&[f64]) -> f64, start: &[f64], reach: f64, steps: u64) -> (Vec<f64>, f64) {
    let here = (start.to_vec(), f(start));
    if start.is_empty() {
        return here;
    }
    let corner = |axis: usize| {
        let mut corner = start.to_vec();
        corner[axis] += reach;
        corner
    };
    let simplex: Vec<Vec<f64>> =
        std::iter::once(start.to_vec()).chain((0..start.len()).map(corner)).collect();
    let found = NelderMead::new(simplex).with_sd_tolerance(1e-6).ok().and_then(|solver| {
        Executor::new(Wrapped(f), solver).configure(|state| state.max_iters(steps)).run().ok()
    });
    let best = found.and_then(|mut result| {
        let value = result.state.get_best_cost();
        result.state.take_best_param().map(|place| (place, value))
    });
    best.filter(|(_, value)| *value < here.1).unwrap_or(here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banana_valley_is_followed_to_its_end() {
        // Rosenbrock's function has its minimum 0 at (1, 1).
        let banana = |x: &[f64]| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2);
        let (place, value) = minimise(&banana, &[-1.2, 1.0], 0.5, 500);
        assert!(value < 1e-4 && (place[0] - 1.0).abs() < 0.05 && (place[1] - 1.0).abs() < 0.05, "{place:?}");
    }

    #[test]
    fn a_place_without_a_value_is_never_given() {
        let root = |x: &[f64]| (x[0].sqrt() - 1.0).powi(2);
        let (place, value) = minimise(&root, &[0.5], -1.0, 200);
        assert!(value < 1e-4 && (place[0] - 1.0).abs() < 0.05, "{place:?}");
        assert_eq!(minimise(&|_| 3.0, &[], 1.0, 10), (Vec::new(), 3.0));
    }
}
