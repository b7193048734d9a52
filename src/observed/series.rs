//! Looks at a source over time, and what a window of them says.

use super::figures::{GaugeFigures, GpuFigures, HostFigures, ServerFigures, Spent};
use super::quantity::{Kind, Quantity, Source, Values};

/// Share of the largest running count from which a look counts as at it.
const PINNED: f64 = 0.95;

/// One look at a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When, seconds on the run's clock.
    pub at: f64,
    /// What was seen.
    pub values: Values,
}

/// Looks at one source, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    samples: Vec<Sample>,
}

impl Series {
    /// Adds a look; one that is older than the last is left out.
    pub fn push(&mut self, at: f64, values: Values) {
        if self.samples.last().is_none_or(|last| last.at <= at) {
            self.samples.push(Sample { at, values });
        }
    }

    /// Forgets looks that no window from `at` on needs.
    pub fn forget_before(&mut self, at: f64) {
        let first = self.samples.partition_point(|sample| sample.at <= at).saturating_sub(1);
        self.samples.drain(..first);
    }

    /// The latest look.
    pub fn last(&self) -> Option<&Sample> {
        self.samples.last()
    }

    fn within(&self, from: f64, to: f64) -> &[Sample] {
        let first = self.samples.partition_point(|sample| sample.at < from);
        let end = self.samples.partition_point(|sample| sample.at <= to);
        &self.samples[first..end.max(first)]
    }

    /// The looks in a window and the one on each side of it: what growth is read from.
    fn around(&self, from: f64, to: f64) -> &[Sample] {
        let first = self.samples.partition_point(|sample| sample.at < from).saturating_sub(1);
        let end = self.samples.partition_point(|sample| sample.at <= to);
        &self.samples[first..(end + 1).min(self.samples.len()).max(first)]
    }

    /// Mean and maximum of a state.
    fn gauge(&self, quantity: Quantity, from: f64, to: f64) -> Option<GaugeFigures> {
        let seen = || self.within(from, to).iter().filter_map(|sample| sample.values.get(quantity));
        let count = seen().count();
        (count > 0).then(|| GaugeFigures {
            mean: seen().sum::<f64>() / count as f64,
            max: seen().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    fn mean(&self, quantity: Quantity, from: f64, to: f64) -> Option<f64> {
        self.gauge(quantity, from, to).map(|gauge| gauge.mean)
    }

    /// Growth of a total from `from` to `to`, and the seconds that it was seen over; between looks
    /// it is taken to grow evenly. `None` where fewer than two looks tell, or it went back.
    fn growth(&self, quantity: Quantity, from: f64, to: f64) -> Option<(f64, f64)> {
        let seen: Vec<(f64, f64)> = self
            .around(from, to)
            .iter()
            .filter_map(|sample| Some((sample.at, sample.values.get(quantity)?)))
            .collect();
        let (&(start, _), &(end, _)) = (seen.first()?, seen.last()?);
        let (from, to) = (from.max(start), to.min(end));
        if seen.len() < 2 || to <= from || seen.windows(2).any(|pair| pair[1].1 < pair[0].1) {
            return None;
        }
        Some(((at(&seen, to) - at(&seen, from)).max(0.0), to - from))
    }

    fn grown(&self, quantity: Quantity, from: f64, to: f64) -> Option<f64> {
        self.growth(quantity, from, to).map(|(amount, _)| amount)
    }

    fn rate(&self, quantity: Quantity, from: f64, to: f64) -> Option<f64> {
        self.growth(quantity, from, to).map(|(amount, seconds)| amount / seconds)
    }

    fn spent(&self, seconds: Quantity, count: Quantity, from: f64, to: f64) -> Option<Spent> {
        Some(Spent { seconds: self.grown(seconds, from, to)?, count: self.grown(count, from, to)? })
    }

    fn restarted(&self, from: f64, to: f64) -> bool {
        self.around(from, to).windows(2).any(|pair| {
            Quantity::ALL.iter().filter(|quantity| quantity.source() == Source::Server).any(|&quantity| {
                let (Some(before), Some(after)) =
                    (pair[0].values.get(quantity), pair[1].values.get(quantity))
                else {
                    return false;
                };
                match quantity.kind() {
                    Kind::Counter => after < before,
                    // Engines that compute it from the uptime give it with a jitter.
                    Kind::Gauge => quantity == Quantity::Started && (after - before).abs() > 2.0,
                }
            })
        })
    }

    /// The server's figures from `from` to `to`, seconds; `None` without a look that tells.
    pub fn server(&self, from: f64, to: f64) -> Option<ServerFigures> {
        let looks = self.within(from, to);
        let gauge = |quantity| self.gauge(quantity, from, to);
        let grown = |quantity| self.grown(quantity, from, to);
        let share = |part: Quantity, whole: Quantity| {
            let whole = grown(whole).filter(|whole| *whole > 0.0)?;
            grown(part).map(|part| part / whole)
        };
        let running = gauge(Quantity::Running);
        let seen: Vec<(f64, f64)> = looks
            .iter()
            .filter_map(|sample| {
                Some((sample.values.get(Quantity::Running)?, sample.values.get(Quantity::Waiting)?))
            })
            .collect();
        let queued: Vec<f64> =
            seen.iter().filter(|(_, waiting)| *waiting > 0.0).map(|(running, _)| *running).collect();
        let most = running.map_or(0.0, |running| running.max);
        let at_most = queued.iter().filter(|running| **running >= PINNED * most).count();
        let figures = ServerFigures {
            looks: looks.len() as u32,
            running,
            waiting: gauge(Quantity::Waiting),
            waiting_share: (!seen.is_empty()).then(|| queued.len() as f64 / seen.len() as f64),
            pinned: (!queued.is_empty()).then(|| at_most as f64 / queued.len() as f64),
            kv_use: gauge(Quantity::KvUse),
            preemptions: grown(Quantity::Preemptions),
            prefix_hit_rate: share(Quantity::PrefixHits, Quantity::PrefixQueries)
                .or_else(|| self.mean(Quantity::PrefixHitRate, from, to)),
            prompt_tokens: grown(Quantity::PromptTokens),
            generation_tokens: grown(Quantity::GenerationTokens),
            queue: self.spent(Quantity::QueueSeconds, Quantity::QueueCount, from, to),
            prefill: self.spent(Quantity::PrefillSeconds, Quantity::PrefillCount, from, to),
            decode: self.spent(Quantity::DecodeSeconds, Quantity::DecodeCount, from, to),
            ttft: self.spent(Quantity::TtftSeconds, Quantity::TtftCount, from, to),
            acceptance: share(Quantity::AcceptedTokens, Quantity::DraftTokens),
            accepted_length: self.mean(Quantity::AcceptedLength, from, to),
            started: gauge(Quantity::Started).map(|started| started.max),
            restarted: self.restarted(from, to),
        };
        let nothing = ServerFigures { looks: figures.looks, ..ServerFigures::default() };
        (figures != nothing).then_some(figures)
    }

    /// This machine's figures from `from` to `to`, seconds.
    pub fn host(&self, from: f64, to: f64) -> Option<HostFigures> {
        let looks = self.within(from, to).len() as u32;
        let mean = |quantity| self.mean(quantity, from, to);
        (looks > 0).then(|| HostFigures {
            looks,
            cpu: mean(Quantity::Cpu),
            cpu_own: mean(Quantity::CpuOwn),
            cpu_others: mean(Quantity::CpuOthers),
            memory_used: mean(Quantity::MemoryUsed),
            memory_total: mean(Quantity::MemoryTotal),
            net_received: self.rate(Quantity::NetReceived, from, to),
            net_sent: self.rate(Quantity::NetSent, from, to),
        })
    }

    /// The GPUs' figures from `from` to `to`, seconds.
    pub fn gpu(&self, from: f64, to: f64) -> Option<GpuFigures> {
        let looks = self.within(from, to).len() as u32;
        let mean = |quantity| self.mean(quantity, from, to);
        // Energy that was seen over a part of the window only stands for the whole.
        let energy = self.rate(Quantity::Energy, from, to).map(|watts| watts * (to - from));
        let power = self.gauge(Quantity::Power, from, to);
        (looks > 0).then(|| GpuFigures {
            looks,
            gpus: mean(Quantity::Gpus),
            power,
            energy: energy.or_else(|| power.map(|power| power.mean * (to - from))),
            memory_used: self.gauge(Quantity::GpuMemoryUsed, from, to),
            memory_total: mean(Quantity::GpuMemoryTotal),
            sm_clock: mean(Quantity::SmClock),
            memory_clock: mean(Quantity::MemoryClock),
            temperature: self.gauge(Quantity::Temperature, from, to).map(|gauge| gauge.max),
            sm_activity: mean(Quantity::SmActivity),
            memory_activity: mean(Quantity::MemoryActivity),
            kernel_time: mean(Quantity::KernelTime),
            throttled: mean(Quantity::Throttled),
        })
    }
}

/// The value at an instant between the first and the last of `seen`.
fn at(seen: &[(f64, f64)], instant: f64) -> f64 {
    let next = seen.partition_point(|&(at, _)| at < instant).clamp(1, seen.len() - 1);
    let ((t0, v0), (t1, v1)) = (seen[next - 1], seen[next]);
    if t1 > t0 { v0 + (v1 - v0) * ((instant - t0) / (t1 - t0)).clamp(0.0, 1.0) } else { v1 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    fn series(looks: &[(f64, &[(Quantity, f64)])]) -> Series {
        let mut series = Series::default();
        for (at, seen) in looks {
            let mut values = Values::default();
            seen.iter().for_each(|&(quantity, value)| values.set(quantity, value));
            series.push(*at, values);
        }
        series
    }

    #[test]
    fn states_are_those_within_the_window_and_totals_are_cut_to_it() {
        use Quantity::{QueueCount, QueueSeconds, Running, Waiting};
        let looks: [(f64, &[(Quantity, f64)]); 4] = [
            (0.0, &[(Running, 99.0), (Waiting, 0.0), (QueueSeconds, 1.0), (QueueCount, 10.0)]),
            (1.0, &[(Running, 4.0), (Waiting, 3.0), (QueueSeconds, 2.0), (QueueCount, 20.0)]),
            (2.0, &[(Running, 3.0), (Waiting, 2.0), (QueueSeconds, 4.0), (QueueCount, 30.0)]),
            (3.0, &[(Running, 4.0), (Waiting, 0.0), (QueueSeconds, 8.0), (QueueCount, 40.0)]),
        ];
        let figures = series(&looks).server(0.5, 3.0).unwrap();
        assert_eq!(figures.looks, 3);
        assert_eq!(figures.running, Some(GaugeFigures { mean: 11.0 / 3.0, max: 4.0 }));
        assert_eq!(figures.waiting_share, Some(2.0 / 3.0));
        assert_eq!(figures.pinned, Some(0.5));
        assert_eq!(figures.queue, Some(Spent { seconds: 6.5, count: 25.0 }));
        assert_eq!(figures.kv_use, None);
        assert!(!figures.restarted);
    }

    #[test]
    fn a_total_that_goes_back_is_a_restart_and_no_growth() {
        let looks: [(f64, &[(Quantity, f64)]); 3] = [
            (0.0, &[(Quantity::Preemptions, 5.0), (Quantity::Running, 1.0)]),
            (1.0, &[(Quantity::Preemptions, 0.0), (Quantity::Running, 1.0)]),
            (2.0, &[(Quantity::Preemptions, 1.0), (Quantity::Running, 1.0)]),
        ];
        let figures = series(&looks).server(0.0, 2.0).unwrap();
        assert!(figures.restarted);
        assert_eq!(figures.preemptions, None);
        assert!(!series(&looks).server(1.5, 2.0).unwrap().restarted);
    }

    #[test]
    fn a_window_without_looks_tells_nothing_of_states() {
        let looks: [(f64, &[(Quantity, f64)]); 2] =
            [(0.0, &[(Quantity::Running, 1.0)]), (10.0, &[(Quantity::Running, 2.0)])];
        assert_eq!(series(&looks).server(3.0, 4.0), None);
        assert_eq!(series(&looks).host(3.0, 4.0), None);
    }

    #[test]
    fn energy_is_that_of_the_whole_window() {
        let looks: [(f64, &[(Quantity, f64)]); 3] = [
            (0.0, &[(Quantity::Energy, 1000.0), (Quantity::Power, 300.0)]),
            (1.0, &[(Quantity::Energy, 1300.0), (Quantity::Power, 300.0)]),
            (2.0, &[(Quantity::Energy, 1700.0), (Quantity::Power, 400.0)]),
        ];
        let figures = series(&looks).gpu(0.0, 2.0).unwrap();
        assert_eq!(figures.energy, Some(700.0));
        assert_eq!(figures.energy_per_token(350.0), Some(2.0));
        assert_eq!(figures.energy_per_token(0.0), None);
        assert_eq!(figures.power.unwrap().max, 400.0);
    }

    #[test]
    fn what_is_forgotten_was_not_needed() {
        let looks: Vec<(f64, [(Quantity, f64); 1])> =
            (0..10).map(|k| (f64::from(k), [(Quantity::GenerationTokens, f64::from(k * k))])).collect();
        let looks: Vec<(f64, &[(Quantity, f64)])> = looks.iter().map(|(at, seen)| (*at, &seen[..])).collect();
        let whole = series(&looks);
        let mut cut = whole.clone();
        cut.forget_before(4.5);
        assert_eq!(cut.samples.len(), 6);
        assert_eq!(cut.server(4.5, 9.0), whole.server(4.5, 9.0));
    }

    proptest! {
        #[test]
        fn parts_of_a_window_add_up_to_the_whole(
            steps in proptest::collection::vec((0.01_f64..2.0, 0.0_f64..50.0), 3..20),
            share in 0.1_f64..0.9,
        ) {
            let (mut at, mut total) = (0.0, 0.0);
            let mut series = Series::default();
            for (step, growth) in steps {
                at += step;
                total += growth;
                let mut values = Values::default();
                values.set(Quantity::GenerationTokens, total);
                series.push(at, values);
            }
            let (from, to) = (series.samples[0].at, at);
            let middle = from + share * (to - from);
            let tokens = |from, to| series.grown(Quantity::GenerationTokens, from, to).unwrap();
            prop_assert!((tokens(from, middle) + tokens(middle, to) - tokens(from, to)).abs() < 1e-6);
        }
    }
}
