//! A Gaussian process whose noise is known point by point.
//!
//! Prior: `f(x) = m + c + g(x)`, a constant `c ~ N(0, offset^2)` and `g` with the covariance
//! `scale^2 * Matérn-5/2(r) * product of exp(-w_j) over the categories that differ`,
//! `r^2 = sum ((x_i - x'_i) / l_i)^2` over the numbers (ARD). Each value has its own noise variance.
//! Formulas: Rasmussen and Williams, *Gaussian Processes for Machine Learning* (2006), algorithm 2.1
//! and equation 4.17. Axes that do not matter get long scales or small weights.

use crate::space::Axis;

/// The kernel's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyper {
    /// Prior standard deviation of the function about its constant.
    pub scale: f64,
    /// One for each axis: a length scale for a number, the weight `w` for a category.
    pub lengths: Vec<f64>,
    /// Variance added to each point's own: what one launch differs from the next.
    pub nugget: f64,
}

/// Values seen at places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// Encoded points.
    pub places: Vec<Vec<f64>>,
    /// Their values.
    pub values: Vec<f64>,
    /// The variance of each value's noise.
    pub variances: Vec<f64>,
}

/// The posterior after data.
#[derive(Clone, Debug)]
pub struct Gp {
    axes: Vec<Axis>,
    hyper: Hyper,
    offset: f64,
    mean: f64,
    places: Vec<Vec<f64>>,
    /// Lower Cholesky factor of the covariance of the values, row by row.
    factor: Vec<Vec<f64>>,
    /// Covariance^-1 (values - mean).
    weights: Vec<f64>,
    evidence: f64,
}

/// Correlation of two encoded points under the kernel.
pub fn correlation(axes: &[Axis], lengths: &[f64], a: &[f64], b: &[f64]) -> f64 {
    let (mut square, mut differing) = (0.0, 0.0);
    for (((axis, length), a), b) in axes.iter().zip(lengths).zip(a).zip(b) {
        match axis {
            Axis::Number => square += ((a - b) / length).powi(2),
            Axis::Category(_) if a != b => differing += length,
            Axis::Category(_) => {}
        }
    }
    let r = (5.0 * square).sqrt();
    (1.0 + r + r * r / 3.0) * (-r - differing).exp()
}

impl Gp {
    /// The posterior given `data`, about the prior mean `mean` with a constant of standard deviation
    /// `offset`. None where the covariance is not positive definite or there are no data.
    pub fn new(axes: &[Axis], hyper: Hyper, mean: f64, offset: f64, data: &Data) -> Option<Self> {
        let count = data.values.len();
        if count == 0 {
            return None;
        }
        let covariance = |i: usize, j: usize| {
            let same = if i == j { data.variances[i] + hyper.nugget } else { 0.0 };
            let correlation = correlation(axes, &hyper.lengths, &data.places[i], &data.places[j]);
            hyper.scale.powi(2) * correlation + offset.powi(2) + same
        };
        let factor = cholesky(count, covariance)?;
        let centred: Vec<f64> = data.values.iter().map(|value| value - mean).collect();
        let half = forward(&factor, &centred);
        let log_determinant: f64 = factor.iter().enumerate().map(|(i, row)| row[i].ln()).sum::<f64>() * 2.0;
        let fit: f64 = half.iter().map(|x| x * x).sum();
        let evidence = -0.5 * (fit + log_determinant + count as f64 * std::f64::consts::TAU.ln());
        let weights = backward(&factor, half);
        let (axes, places) = (axes.to_vec(), data.places.clone());
        Some(Self { axes, hyper, offset, mean, places, factor, weights, evidence })
    }

    /// Mean and variance of the function (without noise) at a place.
    pub fn at(&self, place: &[f64]) -> (f64, f64) {
        let scale = self.hyper.scale.powi(2);
        let constant = self.offset.powi(2);
        let covariances: Vec<f64> = self
            .places
            .iter()
            .map(|other| scale * correlation(&self.axes, &self.hyper.lengths, place, other) + constant)
            .collect();
        let mean = self.mean + covariances.iter().zip(&self.weights).map(|(k, w)| k * w).sum::<f64>();
        let half = forward(&self.factor, &covariances);
        let explained: f64 = half.iter().map(|x| x * x).sum();
        (mean, (scale + constant - explained).max(1e-12))
    }

    /// Mean and variance of a weighted sum of the function over places whose weights sum to 0 (a
    /// difference of means), the places' covariance included.
    pub fn contrast(&self, places: &[(f64, Vec<f64>)]) -> (f64, f64) {
        let scale = self.hyper.scale.powi(2);
        let k = |a: &[f64], b: &[f64]| scale * correlation(&self.axes, &self.hyper.lengths, a, b);
        let covariances: Vec<f64> = self
            .places
            .iter()
            .map(|seen| places.iter().map(|(weight, place)| weight * k(place, seen)).sum())
            .collect();
        let mean: f64 = covariances.iter().zip(&self.weights).map(|(k, w)| k * w).sum();
        let prior: f64 = places
            .iter()
            .map(|(a, place)| places.iter().map(|(b, other)| a * b * k(place, other)).sum::<f64>())
            .sum();
        let half = forward(&self.factor, &covariances);
        (mean, (prior - half.iter().map(|x| x * x).sum::<f64>()).max(0.0))
    }

    /// Log marginal likelihood of the data.
    pub fn evidence(&self) -> f64 {
        self.evidence
    }

    /// The kernel's parameters.
    pub fn hyper(&self) -> &Hyper {
        &self.hyper
    }
}

fn cholesky(count: usize, matrix: impl Fn(usize, usize) -> f64) -> Option<Vec<Vec<f64>>> {
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(count);
    for i in 0..count {
        let mut row = Vec::with_capacity(i + 1);
        for (j, earlier) in rows.iter().enumerate() {
            let product: f64 = row.iter().zip(earlier).map(|(a, b): (&f64, &f64)| a * b).sum();
            row.push((matrix(i, j) - product) / earlier[j]);
        }
        let square = matrix(i, i) - row.iter().map(|x| x * x).sum::<f64>();
        if square.is_nan() || square <= 0.0 {
            return None;
        }
        row.push(square.sqrt());
        rows.push(row);
    }
    Some(rows)
}

/// Solves `L x = b`.
fn forward(factor: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let mut x: Vec<f64> = Vec::with_capacity(b.len());
    for (i, row) in factor.iter().enumerate() {
        let known: f64 = row[..i].iter().zip(&x).map(|(l, x)| l * x).sum();
        x.push((b[i] - known) / row[i]);
    }
    x
}

/// Solves `L' x = b`.
fn backward(factor: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    for i in (0..b.len()).rev() {
        b[i] /= factor[i][i];
        let solved = b[i];
        for (j, l) in factor[i][..i].iter().enumerate() {
            b[j] -= l * solved;
        }
    }
    b
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const NUMBERS: [Axis; 2] = [Axis::Number, Axis::Number];

    fn data() -> Data {
        Data {
            places: vec![vec![0.0, 0.1], vec![0.25, 0.9], vec![0.5, 0.4], vec![0.8, 0.75], vec![1.0, 0.2]],
            values: vec![1.2, 1.5, 1.9, 1.7, 1.1],
            variances: vec![0.01, 0.04, 0.0025, 0.01, 0.09],
        }
    }

    #[test]
    fn posterior_and_evidence_agree_with_scikit_learn() {
        // scikit-learn 1.9.1: GaussianProcessRegressor(ConstantKernel(0.6**2) * Matern([0.4, 1.3],
        // nu=2.5) + ConstantKernel(1.0), alpha=variances + 0.0009, optimizer=None).fit(X, y - 1.5).
        let hyper = Hyper { scale: 0.6, lengths: vec![0.4, 1.3], nugget: 0.0009 };
        let gp = Gp::new(&NUMBERS, hyper, 1.5, 1.0, &data()).unwrap();
        assert!((gp.evidence() - -3.220409012005696).abs() < 1e-9, "{}", gp.evidence());
        let golden = [
            ([0.1, 0.1], 1.3088626850910865, 0.03054951699380193),
            ([0.5, 0.4], 1.8924309932058652, 0.003314227549253035),
            ([0.6, 0.9], 1.8702891698941568, 0.04834974313367235),
            ([2.0, -1.0], 1.3610690429762322, 0.5062839009092975),
        ];
        for (place, mean, variance) in golden {
            let (m, v) = gp.at(&place);
            assert!((m - mean).abs() < 1e-9 && (v - variance).abs() < 1e-9, "{place:?}: {m} {v}");
        }
    }

    #[test]
    fn a_category_that_differs_weakens_the_tie_by_its_weight() {
        let axes = [Axis::Number, Axis::Category(3)];
        let same = correlation(&axes, &[0.5, 0.7], &[0.2, 1.0], &[0.2, 1.0]);
        let other = correlation(&axes, &[0.5, 0.7], &[0.2, 1.0], &[0.2, 2.0]);
        assert_eq!(same, 1.0);
        assert!((other - (-0.7_f64).exp()).abs() < 1e-15);
    }

    #[test]
    fn an_exact_value_is_returned_and_a_vague_one_hardly_heeded() {
        let hyper = Hyper { scale: 1.0, lengths: vec![0.3, 0.3], nugget: 0.0 };
        let mut data = data();
        data.variances = vec![1e-10, 1e-10, 1e-10, 1e-10, 1e4];
        let gp = Gp::new(&NUMBERS, hyper, 0.0, 1.0, &data).unwrap();
        for (place, value) in data.places.iter().zip(&data.values).take(4) {
            let (mean, variance) = gp.at(place);
            assert!((mean - value).abs() < 1e-6 && variance < 1e-6);
        }
        assert!(gp.at(&data.places[4]).1 > 0.5);
    }

    #[test]
    fn a_contrast_of_two_places_is_the_difference_of_their_means() {
        let hyper = Hyper { scale: 0.6, lengths: vec![0.4, 1.3], nugget: 0.0009 };
        let gp = Gp::new(&NUMBERS, hyper, 1.5, 1.0, &data()).unwrap();
        let (a, b) = (vec![0.1, 0.1], vec![0.6, 0.9]);
        let (mean, variance) = gp.contrast(&[(1.0, a.clone()), (-1.0, b.clone())]);
        assert!((mean - (gp.at(&a).0 - gp.at(&b).0)).abs() < 1e-9);
        assert!(variance > 0.0 && variance < 2.0 * (gp.at(&a).1 + gp.at(&b).1));
        assert_eq!(gp.contrast(&[(1.0, a.clone()), (-1.0, a)]), (0.0, 0.0));
    }

    #[test]
    fn the_same_place_twice_without_noise_is_no_posterior() {
        let hyper = Hyper { scale: 1.0, lengths: vec![1.0, 1.0], nugget: 0.0 };
        let places = vec![vec![0.5, 0.5], vec![0.5, 0.5]];
        let data = Data { places, values: vec![1.0, 2.0], variances: vec![0.0, 0.0] };
        assert!(Gp::new(&NUMBERS, hyper.clone(), 0.0, 0.0, &data).is_none());
        assert!(Gp::new(&NUMBERS, hyper, 0.0, 0.0, &Data::default()).is_none());
    }
}
