#![allow(clippy::unwrap_used, clippy::expect_used)]
use proptest::prelude::*;

use super::*;
use crate::rng::Stream;
use crate::search::Boundary;

fn runs(logs: &[f64], sds: &[f64]) -> Vec<Known> {
    logs.iter().zip(sds).map(|(log, sd)| Known { capacity: log.exp(), log_sd: *sd }).collect()
}

#[test]
fn the_combined_figures_are_those_of_an_independent_integration() {
    // SciPy 1.17: `integrate.quad` over the spread, `optimize.brentq` for median, 2.5 %, 97.5 % and the
    // median of the spread.
    type Golden<'a> = (&'a [f64], &'a [f64], [f64; 4]);
    let golden: [Golden; 4] = [
        (&[4.0, 4.03, 3.98], &[0.03, 0.02, 0.04], [4.0119288, 3.9592757, 4.056777, 0.0164468]),
        (&[4.0, 4.05], &[0.02, 0.02], [4.025, 3.9406933, 4.1093067, 0.0261129]),
        (&[4.0, 4.0], &[0.04, 0.04], [4.0, 3.9167871, 4.0832129, 0.0189737]),
        (
            &[3.0, 3.3, 3.1, 2.9, 3.05],
            &[0.01, 0.02, 0.015, 0.01, 0.02],
            [3.069094, 2.9165243, 3.2226978, 0.1418254],
        ),
    ];
    for (logs, sds, [median, low, high, spread]) in golden {
        let all = combine(&runs(logs, sds)).unwrap();
        for (found, wanted) in
            [(all.capacity.ln(), median), (all.interval.0.ln(), low), (all.interval.1.ln(), high)]
        {
            assert!((found - wanted).abs() < 3e-4, "{logs:?}: {found} {wanted}");
        }
        assert!(
            (all.between_run_sd / spread - 1.0).abs() < 0.02,
            "{logs:?}: {} {spread}",
            all.between_run_sd
        );
    }
    assert!(combine(&[]).is_none());
    assert!(combine(&runs(&[f64::NEG_INFINITY], &[0.1])).is_none());
}

proptest! {
    #[test]
    fn the_estimate_lies_among_the_runs_and_the_interval_holds_it(
        given in prop::collection::vec((0.0..8.0_f64, 0.005..0.2_f64), 2..7),
        factor in 0.1..10.0_f64,
    ) {
        let (logs, sds): (Vec<f64>, Vec<f64>) = given.into_iter().unzip();
        let all = combine(&runs(&logs, &sds)).unwrap();
        let (least, most) = logs.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
        prop_assert!(least - 1e-9 <= all.capacity.ln() && all.capacity.ln() <= most + 1e-9);
        prop_assert!(all.interval.0 <= all.capacity && all.capacity <= all.interval.1);
        prop_assert!(all.between_run_sd > 0.0);
        // In another unit the answer is the same.
        let moved: Vec<f64> = logs.iter().map(|log| log + factor.ln()).collect();
        let other = combine(&runs(&moved, &sds)).unwrap();
        prop_assert!((other.capacity / all.capacity / factor - 1.0).abs() < 1e-6);
        prop_assert!((other.between_run_sd - all.between_run_sd).abs() < 1e-6);
        // Nor does the order of the runs matter.
        let mut turned = runs(&logs, &sds);
        turned.reverse();
        prop_assert!((combine(&turned).unwrap().capacity / all.capacity - 1.0).abs() < 1e-9);
    }

    #[test]
    fn runs_that_lie_further_apart_give_a_wider_interval_and_a_larger_spread(
        step in 0.02..0.3_f64, more in 1.2..3.0_f64, sd in 0.01..0.05_f64,
    ) {
        let near = combine(&runs(&[4.0 - step, 4.0, 4.0 + step], &[sd; 3])).unwrap();
        let far = combine(&runs(&[4.0 - more * step, 4.0, 4.0 + more * step], &[sd; 3])).unwrap();
        prop_assert!(far.interval.1 / far.interval.0 > near.interval.1 / near.interval.0);
        prop_assert!(far.between_run_sd >= near.between_run_sd);
    }
}

#[test]
fn the_interval_holds_the_truth_whether_runs_differ_or_not() {
    // Runs drawn outright: what a run is unsure of is 3 %, the spread from run to run 0 to 6 %.
    let mut stream = Stream::new(3, "repeats");
    for count in [2, 3, 5] {
        for (spread, least) in [(0.0, 0.95), (0.03, 0.95), (0.06, 0.91)] {
            const SETS: usize = 300;
            let mut held = 0;
            for _ in 0..SETS {
                let set: Vec<Known> = (0..count)
                    .map(|_| {
                        let off = spread * stream.normal() + 0.03 * stream.normal();
                        Known { capacity: 50.0 * f64::exp(off), log_sd: 0.03 }
                    })
                    .collect();
                let (low, high) = combine(&set).unwrap().interval;
                held += usize::from(low <= 50.0 && 50.0 <= high);
            }
            let coverage = held as f64 / SETS as f64;
            // Two standard errors of 300 draws below what is asked.
            assert!(coverage >= least - 0.025, "{count} runs, spread {spread}: {coverage}");
        }
    }
}

fn found(load: u32, low: f64, high: f64) -> Repeat {
    let answer = Answer {
        outcome: SearchOutcome::Found,
        load: Some(Load::Concurrency(load)),
        interval: Some(Interval { low, high: Some(high), confidence: 0.95 }),
        safe_load: Some(Load::Concurrency(low as u32)),
        largest_met: Some(Load::Concurrency(load)),
        smallest_missed: Some(Load::Concurrency(load + 1)),
        boundary: Some(Boundary::Smooth),
        binding_objective: Some("ttft p95 < 60 ms".to_owned()),
        binding_probability: Some(0.9),
        goodput: Some(Goodput { requests_per_second: f64::from(load), interval: None }),
        resolution: None,
        notes: vec!["a note".to_owned()],
    };
    Repeat { answer, known: None }
}

#[test]
fn three_runs_at_the_same_cliff_are_that_number_of_users() {
    let runs = [found(8, 8.0, 8.0), found(8, 8.0, 8.0), found(8, 8.0, 8.0)];
    let (answer, combined) = answer(&runs);
    let answer = answer.unwrap();
    assert_eq!(answer.load, Some(Load::Concurrency(8)));
    assert_eq!(answer.interval, Some(Interval { low: 8.0, high: Some(8.0), confidence: 0.95 }));
    assert_eq!(answer.safe_load, Some(Load::Concurrency(8)));
    assert_eq!(answer.notes, ["run 1: a note"]);
    assert!(combined.unwrap().between_run_sd < 0.02);
}

#[test]
fn runs_that_differ_widen_the_interval_beyond_that_of_each() {
    let runs = [found(50, 48.0, 52.0), found(60, 58.0, 62.0), found(55, 53.0, 57.0)];
    let answer = answer(&runs).0.unwrap();
    let interval = answer.interval.unwrap();
    assert!(interval.low < 50.0 && interval.high.unwrap() > 60.0, "{interval:?}");
    assert_eq!(answer.safe_load.unwrap().value(), interval.low);
    assert_eq!(answer.largest_met, Some(Load::Concurrency(60)));
    assert_eq!(answer.smallest_missed, Some(Load::Concurrency(51)));
    assert_eq!(answer.goodput.unwrap().requests_per_second, 55.0);
    assert!((answer.binding_probability.unwrap() - 0.9).abs() < 1e-12);
}

#[test]
fn a_run_without_an_answer_is_named_and_left_out() {
    let mut high = found(64, 64.0, 64.0);
    high.answer.outcome = SearchOutcome::MetAtHighest;
    let (mixed, combined) = answer(&[found(50, 48.0, 52.0), high.clone(), found(51, 49.0, 53.0)]);
    let mixed = mixed.unwrap();
    assert_eq!(mixed.load, Some(Load::Concurrency(50)));
    assert!(mixed.notes.iter().any(|note| note.starts_with("run 2 met the SLO at the highest")), "{mixed:?}");
    assert!(combined.is_some());
    // One that found a load stands for itself; none at all is what most of them say.
    let (one, combined) = answer(&[high.clone(), found(50, 48.0, 52.0)]);
    assert_eq!(one.unwrap().interval.unwrap().low, 48.0);
    assert!(combined.is_none());
    let mut low = high.clone();
    low.answer.outcome = SearchOutcome::MissedAtLowest;
    let none = answer(&[low, high.clone(), high]).0.unwrap();
    assert_eq!(none.outcome, SearchOutcome::MetAtHighest);
    assert!(answer(&[]).0.is_none());
}
