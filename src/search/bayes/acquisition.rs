//! How much a place promises.

use crate::stats::special::normal_cdf;

/// Log of the expected improvement of a normal with `mean` and `sd` over `best`.
///
/// `EI = sd * h(z)`, `h(z) = phi(z) + z Phi(z)`, `z = (mean - best) / sd`. The log is computed without
/// ever forming a number that vanishes (Ament et al., *Unexpected improvements to expected
/// improvement*, 2023): far from the best, places still differ.
pub fn log_expected_improvement(mean: f64, sd: f64, best: f64) -> f64 {
    let z = (mean - best) / sd;
    sd.ln() + log_h(z)
}

fn log_h(z: f64) -> f64 {
    let log_phi = -0.5 * z * z - 0.5 * std::f64::consts::TAU.ln();
    if z > -1.0 {
        return (log_phi.exp() + z * normal_cdf(z)).ln();
    }
    let t = -z;
    // 1 - t * Mills' ratio(t); beyond 30 its asymptotic series (Abramowitz and Stegun 26.2.12).
    let rest = if t < 30.0 {
        1.0 - t * (normal_cdf(z).ln() - log_phi).exp()
    } else {
        let s = 1.0 / (t * t);
        s * (1.0 - 3.0 * s * (1.0 - 5.0 * s))
    };
    log_phi + rest.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_the_improvement_agrees_with_high_precision_far_into_the_tail() {
        // mpmath 1.3, 60 digits: log(npdf(z) + z * ncdf(z)).
        let cases = [
            (3.0, 1.0987396653277077),
            (0.0, -0.9189385332046728),
            (-1.0, -2.4851210257126413),
            (-2.5, -6.212541645443513),
            (-8.0, -37.12236426169263),
            (-20.0, -206.9178385094251),
            (-29.9, -454.72299811949625),
            (-30.5, -472.88260479123596),
            (-100.0, -5010.12957880025),
        ];
        for (z, expected) in cases {
            let got = log_expected_improvement(z, 1.0, 0.0);
            assert!((got - expected).abs() <= 1e-7 * expected.abs().max(1.0), "{z}: {got} is not {expected}");
        }
    }
}
