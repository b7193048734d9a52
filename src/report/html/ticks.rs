//! When tokens arrived over the whole run, and when none did although responses were under way.

use crate::loadgen::RequestRecord;

/// Length of a tick, seconds.
pub(super) const TICK: f64 = 0.01;
/// Ticks at the most (a day): what comes later has no token rate.
const MOST: usize = 8_640_000;
/// Shortest silence that is called a stall, seconds.
const SHORTEST: f64 = 0.1;
/// A stall is this many times as long as the usual gap between two tokens.
const UNUSUAL: f64 = 5.0;

/// Tokens and running responses by tick of the run's clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticks {
    tokens: Vec<u32>,
    /// Change of the number of responses between their first and their last token.
    change: Vec<i32>,
}

impl Ticks {
    /// Counts the tokens of a request.
    pub(super) fn add(&mut self, record: &RequestRecord) {
        let (Some(first), Some(last)) = (record.first, record.last) else { return };
        let mut at = first;
        self.arrived(at, record.chunk_tokens.first().copied().unwrap_or(1));
        for (index, &gap) in record.gaps_us.iter().enumerate() {
            at += f64::from(gap) * 1e-6;
            self.arrived(at, record.chunk_tokens.get(index + 1).copied().unwrap_or(1));
        }
        if let (Some(from), Some(to)) = (tick(first), tick(last)) {
            self.reach(to + 1);
            self.change[from] += 1;
            self.change[to + 1] -= 1;
        }
    }

    /// Output tokens that arrived in `from..to`, seconds, to the tick.
    pub(super) fn tokens(&self, from: f64, to: f64) -> u64 {
        let place = |at: f64| ((at.max(0.0) / TICK).round() as usize).min(self.tokens.len());
        self.tokens[place(from)..place(to).max(place(from))].iter().map(|&n| u64::from(n)).sum()
    }

    /// The stalls in `from..to`: times without a token from any request although at least one
    /// response was under way all the while, unusually long against `gap`, the median gap.
    pub(super) fn stalls(&self, from: f64, to: f64, gap: f64) -> Vec<(f64, f64)> {
        let least = (SHORTEST.max(UNUSUAL * gap) / TICK).ceil() as usize;
        let end = ((to.max(0.0) / TICK) as usize).min(self.tokens.len());
        let begin = ((from.max(0.0) / TICK) as usize).min(end);
        let mut running: i64 = self.change[..begin].iter().map(|&n| i64::from(n)).sum();
        let (mut stalls, mut silent) = (Vec::new(), None);
        for tick in begin..=end {
            let quiet = tick < end && {
                running += i64::from(self.change[tick]);
                running > 0 && self.tokens[tick] == 0
            };
            match (quiet, silent) {
                (true, None) => silent = Some(tick),
                (false, Some(since)) => {
                    if tick - since >= least {
                        stalls.push((since as f64 * TICK, tick as f64 * TICK));
                    }
                    silent = None;
                }
                _ => {}
            }
        }
        stalls
    }

    fn arrived(&mut self, at: f64, tokens: u32) {
        if let Some(tick) = tick(at) {
            self.reach(tick);
            self.tokens[tick] += tokens;
        }
    }

    fn reach(&mut self, tick: usize) {
        if self.tokens.len() <= tick {
            self.tokens.resize(tick + 1, 0);
            self.change.resize(tick + 1, 0);
        }
    }
}

fn tick(at: f64) -> Option<usize> {
    let tick = (at.max(0.0) / TICK) as usize;
    (tick + 1 < MOST).then_some(tick)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::sample;

    fn request(first: f64, gaps_us: Vec<u32>) -> RequestRecord {
        let last = first + gaps_us.iter().map(|&gap| f64::from(gap) * 1e-6).sum::<f64>();
        RequestRecord { first: Some(first), last: Some(last), gaps_us, ..sample::record(0, 1) }
    }

    #[test]
    fn every_token_is_counted_where_it_arrived() {
        let mut ticks = Ticks::default();
        ticks.add(&request(1.005, vec![20_000; 9]));
        let chunks = RequestRecord { chunk_tokens: vec![3, 2], ..request(2.005, vec![50_000]) };
        ticks.add(&chunks);
        assert_eq!(ticks.tokens(0.0, 10.0), 10 + 5);
        assert_eq!(ticks.tokens(1.0, 1.1), 5);
        assert_eq!(ticks.tokens(2.04, 2.1), 2);
    }

    #[test]
    fn a_silence_is_a_stall_only_while_every_running_response_waits() {
        let mut ticks = Ticks::default();
        ticks.add(&request(1.005, vec![20_000, 500_000, 20_000]));
        let stalls = ticks.stalls(0.0, 5.0, 0.02);
        assert_eq!(stalls.len(), 1, "{stalls:?}");
        assert!((stalls[0].0 - 1.03).abs() < 0.011 && (stalls[0].1 - 1.52).abs() < 0.011, "{stalls:?}");
        assert!(ticks.stalls(0.0, 5.0, 0.2).is_empty(), "not unusual where gaps are that long");
        // Another response goes on: the server is not stalled.
        ticks.add(&request(0.5, vec![20_000; 100]));
        assert!(ticks.stalls(0.0, 5.0, 0.02).is_empty());
    }
}
