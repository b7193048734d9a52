//! Where a series has settled: the MSER-5 truncation rule.

/// Samples that are averaged before the rule is applied.
const GROUP: usize = 5;

/// The number of leading samples to cut so that the mean of the rest is known best: the cut that
/// makes the squared standard error of the means of groups of five smallest (White, Cobb and Spratt,
/// Winter Simulation Conference 2000). At most half of the series is cut; a result of half or nearly
/// so means that the series had not settled.
pub fn mser5(series: &[f64]) -> usize {
    let groups: Vec<f64> =
        series.chunks_exact(GROUP).map(|group| group.iter().sum::<f64>() / GROUP as f64).collect();
    let n = groups.len();
    let (mut best, mut least) = (0, f64::INFINITY);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    // Centred on one of the values, so that the difference of squares keeps its digits.
    let origin = groups.last().copied().unwrap_or(0.0);
    for cut in (0..n).rev() {
        let value = groups[cut] - origin;
        sum += value;
        squares += value * value;
        count += 1.0;
        if cut <= n / 2 {
            let error = (squares - sum * sum / count).max(0.0) / (count * count);
            // Ties go to the smaller cut: no sample is given away for nothing.
            if error <= least {
                (best, least) = (cut, error);
            }
        }
    }
    best * GROUP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn a_transient_is_cut_and_a_settled_series_is_kept() {
        let mut stream = Stream::new(5, "mser");
        let noise: Vec<f64> = (0..400).map(|_| stream.normal()).collect();
        assert!(mser5(&noise) <= 60, "{}", mser5(&noise));
        let transient: Vec<f64> =
            noise.iter().enumerate().map(|(i, x)| 10.0 + x + if i < 80 { 20.0 } else { 0.0 }).collect();
        let cut = mser5(&transient);
        assert!((80..=140).contains(&cut), "{cut}");
    }

    #[test]
    fn never_cuts_more_than_half() {
        let rising: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(mser5(&rising), 100);
    }

    #[test]
    fn a_constant_or_very_short_series_is_left_whole() {
        assert_eq!(mser5(&[0.25; 50]), 0);
        assert_eq!(mser5(&[3.0, 1.0, 2.0]), 0);
        assert_eq!(mser5(&[]), 0);
    }
}
