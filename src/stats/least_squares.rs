//! Weighted least squares for a polynomial of low degree, with Student's intervals.
//!
//! Each point is one replicate: its weight says how its variance compares with that of the others, and the
//! common scale is that of the residuals (Draper and Smith, Applied Regression Analysis, 1998, chapter 9).

use crate::stats::special::student_quantile;
use crate::units::Interval;

/// Smallest pivot, relative to a column scaled to 1, at which the points still tell the columns apart.
const LEAST_PIVOT: f64 = 1e-12;

/// A polynomial through weighted points.
#[derive(Clone, Debug, PartialEq)]
pub struct Polynomial {
    /// Coefficients, the constant first.
    pub coefficients: Vec<f64>,
    /// Sd of a point of weight 1 around the curve.
    pub residual_sd: f64,
    /// Points beyond the number of coefficients.
    pub freedom: usize,
    /// Covariance of the coefficients.
    covariance: Vec<Vec<f64>>,
}

impl Polynomial {
    /// Fits a polynomial of `degree` to `(x, y, weight)`; `None` where the points do not tell it, of which
    /// there must be more than coefficients.
    ///
    /// ```
    /// use plimsoll::stats::least_squares::Polynomial;
    /// let line = Polynomial::fit(&[(1.0, 3.0, 1.0), (2.0, 5.0, 1.0), (3.0, 7.0, 1.0)], 1).unwrap();
    /// assert!((line.coefficients[1] - 2.0).abs() < 1e-12 && line.residual_sd < 1e-12);
    /// ```
    pub fn fit(points: &[(f64, f64, f64)], degree: usize) -> Option<Self> {
        let count = degree + 1;
        let usable = |&(x, y, weight): &(f64, f64, f64)| {
            x.is_finite() && y.is_finite() && weight.is_finite() && weight > 0.0
        };
        if points.len() <= count || !points.iter().all(usable) {
            return None;
        }
        // Scaled to 1: powers of thousands of tokens would drown each other.
        let scale = points.iter().map(|point| point.0.abs()).fold(0.0, f64::max);
        let heaviest = points.iter().map(|point| point.2).fold(0.0, f64::max);
        if scale <= 0.0 {
            return None;
        }
        let power = |x: f64, k: usize| (x / scale).powi(k as i32);
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            points.iter().map(|&(x, y, weight)| weight / heaviest * of(x, y)).sum()
        };
        let normal: Vec<Vec<f64>> = (0..count)
            .map(|i| (0..count).map(|j| sum(&|x, _| power(x, i) * power(x, j))).collect())
            .collect();
        let inverse = inverse(normal)?;
        let right: Vec<f64> = (0..count).map(|i| sum(&|x, y| power(x, i) * y)).collect();
        let scaled: Vec<f64> =
            inverse.iter().map(|row| row.iter().zip(&right).map(|(a, b)| a * b).sum()).collect();
        let at = |x: f64| -> f64 { scaled.iter().enumerate().map(|(k, c)| c * power(x, k)).sum() };
        let freedom = points.len() - count;
        let variance = heaviest * sum(&|x, y| (y - at(x)).powi(2)) / freedom as f64;
        let unit = |k: usize| scale.powi(k as i32);
        Some(Self {
            coefficients: scaled.iter().enumerate().map(|(k, c)| c / unit(k)).collect(),
            residual_sd: variance.sqrt(),
            freedom,
            covariance: inverse
                .iter()
                .enumerate()
                .map(|(i, row)| {
                    let entry = |(j, value): (usize, &f64)| value * variance / heaviest / unit(i) / unit(j);
                    row.iter().enumerate().map(entry).collect()
                })
                .collect(),
        })
    }

    /// The curve at `x`.
    pub fn value(&self, x: f64) -> f64 {
        self.coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
    }

    /// A linear combination of the coefficients, and where it lies.
    pub fn combination(&self, of: &[f64], confidence: f64) -> (f64, Interval) {
        let estimate: f64 = self.coefficients.iter().zip(of).map(|(c, a)| c * a).sum();
        let products = self
            .covariance
            .iter()
            .zip(of)
            .map(|(row, a)| -> f64 { row.iter().zip(of).map(|(value, b)| a * b * value).sum() });
        let sd = products.sum::<f64>().max(0.0).sqrt();
        let half = student_quantile(0.5 + confidence / 2.0, self.freedom as f64) * sd;
        (estimate, Interval { low: estimate - half, high: Some(estimate + half), confidence })
    }

    /// The slope of the curve at `x`, and where it lies.
    pub fn slope(&self, x: f64, confidence: f64) -> (f64, Interval) {
        let of: Vec<f64> = (0..self.coefficients.len())
            .map(|k| if k == 0 { 0.0 } else { k as f64 * x.powi(k as i32 - 1) })
            .collect();
        self.combination(&of, confidence)
    }
}

/// The inverse by Gauss and Jordan with pivots; `None` where there is none to speak of.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let mut inverse: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for column in 0..n {
        let pivot =
            (column..n).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let divisor = matrix[column][column];
        if divisor.abs() < LEAST_PIVOT {
            return None;
        }
        matrix[column].iter_mut().chain(&mut inverse[column]).for_each(|value| *value /= divisor);
        let (pivot_row, pivot_inverse) = (matrix[column].clone(), inverse[column].clone());
        for row in (0..n).filter(|&row| row != column) {
            let factor = matrix[row][column];
            matrix[row].iter_mut().zip(&pivot_row).for_each(|(value, p)| *value -= factor * p);
            inverse[row].iter_mut().zip(&pivot_inverse).for_each(|(value, p)| *value -= factor * p);
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-7, "{found} {expected}");
    }

    fn sd(curve: &Polynomial, k: usize) -> f64 {
        curve.covariance[k][k].sqrt()
    }

    #[test]
    fn a_parabola_has_the_certified_values_of_nist() {
        // NIST Statistical Reference Datasets, linear regression, "Pontius" (load cells; 40 observations).
        let y = [
            0.11019, 0.21956, 0.32949, 0.43899, 0.54803, 0.65694, 0.76562, 0.87487, 0.98292, 1.09146,
            1.20001, 1.30822, 1.41599, 1.52399, 1.63194, 1.73947, 1.84646, 1.95392, 2.06128, 2.16844,
            0.11052, 0.22018, 0.32939, 0.43886, 0.54798, 0.65739, 0.76596, 0.87474, 0.98300, 1.09150,
            1.20004, 1.30818, 1.41613, 1.52408, 1.63159, 1.73965, 1.84696, 1.95445, 2.06177, 2.16829,
        ];
        let points: Vec<(f64, f64, f64)> =
            y.iter().enumerate().map(|(k, &y)| (150_000.0 * (k % 20 + 1) as f64, y, 1.0)).collect();
        let curve = Polynomial::fit(&points, 2).unwrap();
        for (found, expected) in curve.coefficients.iter().zip([
            0.673565789473684e-3,
            0.732059160401003e-6,
            -0.316081871345029e-14,
        ]) {
            close(*found, expected);
        }
        for (k, expected) in
            [0.107938612033077e-3, 0.157817399981659e-9, 0.486652849992036e-16].into_iter().enumerate()
        {
            close(sd(&curve, k), expected);
        }
        close(curve.residual_sd, 0.205177424076185e-3);
        assert_eq!(curve.freedom, 37);
    }

    #[test]
    fn weights_count_as_variances_do() {
        // The normal equations in exact fractions (Python's `fractions`), weights 1 / y^2.
        let points = [(128.0, 0.0121), (256.0, 0.0203), (512.0, 0.0362), (1024.0, 0.0711), (2048.0, 0.1502)]
            .map(|(x, y): (f64, f64)| (x, y, 1.0 / (y * y)));
        let curve = Polynomial::fit(&points, 2).unwrap();
        close(curve.coefficients[1], 5.958_568_862_267_86e-5);
        close(curve.coefficients[2], 5.587_266_497_901_676e-9);
        close(sd(&curve, 1), 1.173_811_636_081_593_4e-6);
        let line = Polynomial::fit(&points, 1).unwrap();
        close(line.coefficients[0], 0.003_233_397_188_056_565);
        close(line.residual_sd, 0.045_035_684_620_070_11);
        // t(0.975, 3) = 3.182446 of the slope's sd.
        let (slope, interval) = line.slope(100.0, 0.95);
        close(interval.high.unwrap() - slope, 3.182_446_305_284_263 * 2.247_807_440_600_332e-6);
        close(curve.slope(1000.0, 0.95).0, 5.958_568_862_267_86e-5 + 2000.0 * 5.587_266_497_901_676e-9);
    }

    #[test]
    fn points_that_do_not_tell_the_curve_give_none() {
        let same = [(5.0, 1.0, 1.0), (5.0, 2.0, 1.0), (5.0, 3.0, 1.0)];
        assert_eq!(Polynomial::fit(&same, 1), None);
        assert_eq!(Polynomial::fit(&same[..2], 1), None, "as many points as coefficients");
        assert_eq!(Polynomial::fit(&[(1.0, f64::NAN, 1.0), (2.0, 1.0, 1.0), (3.0, 1.0, 1.0)], 1), None);
    }
}
