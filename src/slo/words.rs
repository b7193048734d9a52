//! The vocabulary of the SLO grammar: names, statistics, units, and what a mistyped one may mean.

use super::{Metric, Stat};

/// Every name that the grammar knows, the first of each metric being the one that is printed.
pub(super) const METRICS: [(&str, Metric); 31] = [
    ("ttft", Metric::Ttft),
    ("time-to-first-token", Metric::Ttft),
    ("ttst", Metric::Ttst),
    ("time-to-second-token", Metric::Ttst),
    ("itl", Metric::Itl),
    ("inter-token-latency", Metric::Itl),
    ("tbt", Metric::Itl),
    ("time-between-tokens", Metric::Itl),
    ("tpot", Metric::Tpot),
    ("time-per-output-token", Metric::Tpot),
    ("e2e", Metric::E2e),
    ("e2el", Metric::E2e),
    ("end-to-end", Metric::E2e),
    ("end-to-end-latency", Metric::E2e),
    ("latency", Metric::E2e),
    ("request-latency", Metric::E2e),
    ("stall", Metric::Stall),
    ("longest-stall", Metric::Stall),
    ("output-tokens-per-second-per-user", Metric::OutputTokensPerSecondPerUser),
    ("output-token-throughput-per-user", Metric::OutputTokensPerSecondPerUser),
    ("tokens-per-second-per-user", Metric::OutputTokensPerSecondPerUser),
    ("tps-per-user", Metric::OutputTokensPerSecondPerUser),
    ("tps", Metric::OutputTokensPerSecondPerUser),
    ("goodput", Metric::Goodput),
    ("request-goodput", Metric::Goodput),
    ("attainment", Metric::Attainment),
    ("slo-attainment", Metric::Attainment),
    ("errors", Metric::Errors),
    ("error", Metric::Errors),
    ("error-rate", Metric::Errors),
    ("failures", Metric::Errors),
];

pub(super) const METRIC_NAMES: &str =
    "ttft, ttst, itl, tpot, e2e, stall, output-tokens-per-second-per-user, goodput, attainment or errors";

/// Divisors that turn a number with the unit into seconds: dividing by a power of ten is exact
/// where multiplying by 0.001 is not.
const TIME_UNITS: [(&str, f64); 12] = [
    ("ms", 1e3),
    ("msec", 1e3),
    ("millisecond", 1e3),
    ("milliseconds", 1e3),
    ("s", 1.0),
    ("sec", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("us", 1e6),
    ("µs", 1e6),
    ("μs", 1e6),
    ("min", 1.0 / 60.0),
];

pub(super) fn in_seconds(number: f64, unit: &str) -> Option<f64> {
    TIME_UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, divisor)| number / divisor)
}

/// A statistic; the percentile is not checked for its range.
pub(super) fn parse_stat(word: &str) -> Option<Stat> {
    match word {
        "mean" | "avg" | "average" => Some(Stat::Mean),
        "median" => Some(Stat::Percentile(50.0)),
        "max" | "maximum" => Some(Stat::Max),
        _ => {
            let digits = word.strip_prefix('p')?;
            if !digits.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            digits.parse().ok().map(Stat::Percentile)
        }
    }
}

/// `ttft-p95` or `p95-ttft`, taken apart.
pub(super) fn split_joined(name: &str) -> Option<(&str, &str)> {
    let known = |word: &str| METRICS.iter().any(|(metric, _)| *metric == word);
    let pairs = [name.rsplit_once('-'), name.split_once('-').map(|(stat, metric)| (metric, stat))];
    pairs.into_iter().flatten().find(|&(metric, stat)| known(metric) && parse_stat(stat).is_some())
}

/// The known name that takes at most two changes of a letter.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    METRICS
        .iter()
        .map(|&(known, _)| (changes(name, known), known))
        .filter(|&(distance, known)| distance <= 2 && distance * 2 <= known.len())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, known)| known)
}

/// Levenshtein's distance.
fn changes(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
