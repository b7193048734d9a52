//! Distribution functions and their inverses.
//!
//! The error and gamma functions are those of `statrs`. Its incomplete beta function stops after 140
//! terms of the continued fraction, which is too few for more than some ten thousand samples, and
//! its inverse holds to four digits in the tail: both are here.

use statrs::function::{erf, gamma};

/// Standard normal distribution function.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * erf::erfc(-x / std::f64::consts::SQRT_2)
}

/// Standard normal quantile; infinite at 0 and 1.
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    -std::f64::consts::SQRT_2 * erf::erfc_inv(2.0 * p)
}

/// Natural logarithm of the gamma function, for positive arguments.
pub fn ln_gamma(x: f64) -> f64 {
    gamma::ln_gamma(x)
}

/// Natural logarithm of the beta function, for positive arguments.
pub fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// Regularized incomplete beta function: the distribution function of Beta(a, b) at `x`.
///
/// Continued fraction DLMF 8.17.22, evaluated by Lentz's method.
pub fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (a * x.ln() + b * (-x).ln_1p() - ln_beta(a, b)).exp();
    // The fraction converges quickly on the near side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    // About the square root of the larger parameter is needed; the bound is never met in practice.
    for m in 1..100_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        h *= d * c;
        if (d * c - 1.0).abs() < 3e-16 {
            break;
        }
    }
    h
}

/// Quantile of Beta(a, b).
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    if p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return 1.0;
    }
    let ln_beta = ln_beta(a, b);
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    let mut x = a / (a + b);
    // Newton's steps within a bracket that shrinks with every one of them; where a step leaves the
    // bracket or the last one gained too little, the bracket is halved.
    let mut last = f64::INFINITY;
    for _ in 0..200 {
        let miss = beta_cdf(x, a, b) - p;
        if miss > 0.0 {
            high = x;
        } else {
            low = x;
        }
        let slope = ((a - 1.0) * x.ln() + (b - 1.0) * (-x).ln_1p() - ln_beta).exp();
        let newton = x - miss / slope;
        let usable = newton > low && newton < high && miss.abs() < 0.5 * last;
        let next = if usable { newton } else { 0.5 * (low + high) };
        last = miss.abs();
        if (next - x).abs() <= 2e-16 * x {
            break;
        }
        x = next;
    }
    x
}

/// Quantile of Student's t with `dof` degrees of freedom.
pub fn student_quantile(p: f64, dof: f64) -> f64 {
    if dof > 1e8 {
        return normal_quantile(p);
    }
    let tail = p.min(1.0 - p);
    if tail <= 0.0 {
        return if p < 0.5 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    // t^2 / (dof + t^2) follows Beta(1/2, dof/2); in the far tail the complement keeps the digits.
    let t = if tail > 1e-4 {
        let z = beta_quantile(1.0 - 2.0 * tail, 0.5, dof / 2.0);
        (dof * z / (1.0 - z)).sqrt()
    } else {
        let y = beta_quantile(2.0 * tail, dof / 2.0, 0.5);
        (dof * (1.0 - y) / y).sqrt()
    };
    if p < 0.5 { -t } else { t }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Golden vectors: scipy 1.17.1, `norm.cdf`, `norm.ppf`, `special.gammaln`, `special.betaln`,
    // `t.ppf`, `beta.ppf`.

    fn close(got: f64, expected: f64, relative: f64) {
        assert!((got - expected).abs() <= relative * expected.abs().max(1e-12), "{got} is not {expected}");
    }

    #[test]
    fn the_normal_distribution_agrees_with_scipy() {
        let cdf = [
            (-8.0, 6.22096057427174e-16),
            (-3.2, 0.0006871379379158471),
            (-1.0, 0.15865525393145707),
            (-0.1, 0.460172162722971),
            (0.0, 0.5),
            (0.5, 0.6914624612740131),
            (1.96, 0.9750021048517795),
            (4.0, 0.9999683287581669),
            (7.0, 0.9999999999987201),
        ];
        cdf.iter().for_each(|&(x, p)| close(normal_cdf(x), p, 1e-10));
        let quantiles = [
            (1e-12, -7.034483825301131),
            (1e-5, -4.264890793922825),
            (0.025, -1.9599639845400545),
            (0.3, -0.5244005127080409),
            (0.5, 0.0),
            (0.95, 1.6448536269514722),
            (0.975, 1.959963984540054),
            (0.999999, 4.753424308817087),
        ];
        quantiles.iter().for_each(|&(p, x)| close(normal_quantile(p), x, 1e-10));
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
    }

    #[test]
    fn the_gamma_and_beta_functions_agree_with_scipy() {
        let gammas = [
            (0.01, 4.599479878042022),
            (0.5, 0.5723649429247),
            (1.5, -0.12078223763524526),
            (7.3, 7.147892523022249),
            (100.0, 359.1342053695754),
            (12345.6, 103959.18506616844),
            (1e7, 151180949.36947393),
        ];
        gammas.iter().for_each(|&(x, y)| close(ln_gamma(x), y, 1e-13));
        let betas = [
            (0.5, 0.5, 1.1447298858494),
            (2.0, 3.0, -2.4849066497880004),
            (0.05, 120.0, 2.7297027778643725),
            (1e4, 2e4, -19098.908538220945),
            (300.0, 0.7, -3.7314305636411973),
        ];
        betas.iter().for_each(|&(a, b, y)| close(ln_beta(a, b), y, 1e-11));
    }

    #[test]
    fn the_beta_quantile_agrees_with_scipy_also_for_many_samples() {
        let cases = [
            (0.025, 1.0, 100.0, 0.00025314603297742064),
            (0.975, 1.0, 100.0, 0.03621669264517641),
            (0.025, 5.0, 96.0, 0.016431879182052155),
            (0.975, 6.0, 95.0, 0.11283491110546275),
            (0.5, 0.5, 0.5, 0.5),
            (0.025, 950.0, 51.0, 0.9346095120845064),
            (0.975, 1.0, 1.0, 0.975),
            (0.975, 20001.0, 80000.0, 0.20249286503840347),
            (0.025, 100000.0, 1.0, 0.9999631118858421),
            (0.0001, 3.0, 9.0, 0.008609869965506514),
        ];
        cases.iter().for_each(|&(p, a, b, x)| close(beta_quantile(p, a, b), x, 1e-9));
    }

    #[test]
    fn the_student_quantile_agrees_with_scipy() {
        let cases = [
            (0.975, 1.0, 12.706204736174694),
            (0.975, 2.0, 4.302652729749462),
            (0.975, 4.5, 2.6589123472044034),
            (0.95, 9.0, 1.833112932656237),
            (0.995, 19.0, 2.8609346064649794),
            (0.975, 1e3, 1.9623390808264083),
            (0.975, 1e6, 1.959966356814107),
            (0.3, 7.0, -0.5491096579472854),
            (0.5, 3.0, 0.0),
            (0.0005, 5.0, -6.86882662588111),
        ];
        cases.iter().for_each(|&(p, dof, t)| close(student_quantile(p, dof), t, 1e-9));
    }
}
