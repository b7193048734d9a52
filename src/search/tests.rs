//! Searches against servers whose true boundary is known, trial outcomes made up.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

use super::grid::default_levels;
use super::*;
use crate::metrics::{Counts, Summary};
use crate::plan::{LoadRange, TrialPlan};
use crate::rng::Stream;
use crate::slo::Slo;
use crate::units::Load;
use crate::verdict::{Checks, Reading, Verdict, VoidReason, judge};

const PLAN: TrialPlan = TrialPlan { requests: 200, min_seconds: 5.0, max_seconds: 60.0 };

fn slo() -> Slo {
    Slo::parse(["ttft p95 < 500ms", "tpot p95 < 50ms"]).unwrap()
}

fn range(min: u32, max: u32) -> LoadRange {
    LoadRange { min, max }
}

fn concurrency(level: u32) -> Option<Load> {
    Some(Load::Concurrency(level))
}

/// A reading of 200 samples of a p95 objective: 10 over the limit are allowed, and each of them more
/// or less moves the margin.
fn reading(margin: f64) -> Reading {
    let over = if margin > 0.0 { 11.0 + 60.0 * margin } else { 10.0 + 20.0 * margin };
    Reading {
        over: over.clamp(0.0, 200.0) as u32,
        of: 200,
        figure: Some(0.5),
        margin: margin.clamp(-4.0, 4.0),
        variance: 0.01,
        log_load: 0.0,
        profile: Vec::new(),
        blocks: Vec::new(),
        windows: None,
    }
}

fn outcome(id: u32, spec: TrialSpec, verdict: Verdict, readings: Vec<Reading>) -> TrialOutcome {
    let level = spec.load.value();
    TrialOutcome {
        id,
        spec,
        verdict,
        readings,
        began: f64::from(id) * 10.0,
        settled: f64::from(id) * 10.0 + 1.0,
        ended: f64::from(id) * 10.0 + 9.0,
        counts: Counts { issued: 200, completed: 200, ..Counts::default() },
        issued_total: u64::from(id) * 200,
        completion_rate: level,
        mean_ttft: Some(0.2),
        mean_e2e: Some(1.0),
        token_time: None,
        cold_start: None,
        slices: Vec::new(),
        good_rate: 1.0,
        arrivals: None,
        summary: Summary { goodput: level, window: 8.0, ..Summary::default() },
        server: None,
        host: None,
        gpu: None,
        checks: Checks::default(),
        client: None,
    }
}

/// Runs a search against a server with these margins of TTFT and TPOT, and returns the levels that
/// were measured. A trial is judged by its readings.
fn drive(search: &mut dyn Strategy, mut margins: impl FnMut(u32) -> [f64; 2]) -> Vec<u32> {
    drive_judged(search, |spec| {
        let readings = margins(spec.load.value() as u32).map(reading).to_vec();
        (judge(&slo(), &readings), readings)
    })
}

fn drive_judged(
    search: &mut dyn Strategy,
    mut trial: impl FnMut(&TrialSpec) -> (Verdict, Vec<Reading>),
) -> Vec<u32> {
    let mut levels = Vec::new();
    for id in 1..200 {
        let Ask::Trial(spec) = search.ask() else {
            assert_eq!(search.remaining(), 0);
            return levels;
        };
        assert_eq!(search.ask(), Ask::Trial(spec.clone()), "asking twice changes nothing");
        assert!(search.remaining() > 0);
        assert_eq!(search.answer().outcome, SearchOutcome::Interrupted);
        if spec.kind == TrialKind::Warmup {
            search.tell(&outcome(id, spec, Verdict::Undecided, Vec::new()));
            continue;
        }
        levels.push(spec.load.value() as u32);
        let (verdict, readings) = trial(&spec);
        search.tell(&outcome(id, spec, verdict, readings));
    }
    panic!("the search does not end: {levels:?}");
}

/// A jump of the TTFT behind the last level that holds.
fn cliff(holds: u32) -> impl Fn(u32) -> [f64; 2] {
    move |level| [if level <= holds { -0.6 } else { 2.0 }, -1.0 + 0.05 * f64::from(level).ln()]
}

/// A latency that grows as a power of the load, and is at its limit at `crossing`.
fn smooth(crossing: f64, power: f64) -> impl Fn(u32) -> [f64; 2] {
    move |level| [-1.5, power * (f64::from(level) / crossing).ln()]
}

#[test]
fn bisect_finds_every_cliff_exactly() {
    for holds in 1..1024 {
        let mut search = Bisect::new(slo(), range(1, 1024), 1e-6, PLAN);
        let levels = drive(&mut search, cliff(holds));
        let answer = search.answer();
        assert_eq!(answer.outcome, SearchOutcome::Found);
        assert_eq!(answer.load, concurrency(holds));
        assert_eq!(
            (answer.largest_met, answer.smallest_missed),
            (concurrency(holds), concurrency(holds + 1))
        );
        assert_eq!(answer.boundary, Some(Boundary::Cliff));
        assert_eq!(answer.binding_objective.as_deref(), Some("ttft p95 < 500 ms"));
        assert_eq!(answer.goodput.unwrap().requests_per_second, f64::from(holds));
        assert!(levels.len() <= 30, "{holds}: {levels:?}");
    }
}

#[test]
fn bisect_brackets_every_cliff_to_its_precision() {
    for holds in 1..1024_u32 {
        let mut search = Bisect::new(slo(), range(1, 1024), 0.05, PLAN);
        let levels = drive(&mut search, cliff(holds));
        let answer = search.answer();
        let (met, missed) = (answer.largest_met.unwrap().value(), answer.smallest_missed.unwrap().value());
        assert!(met <= f64::from(holds) && f64::from(holds) < missed);
        assert!(missed - met <= 1.0 || (missed - met) / missed < 0.05, "{met} {missed}");
        assert_eq!(answer.load.unwrap().value(), met);
        assert!(levels.len() <= 22, "{holds}: {levels:?}");
    }
}

#[test]
fn bisect_needs_few_probes_on_a_smooth_curve() {
    for (crossing, power) in [(5.5, 1.0), (47.3, 0.8), (108.4, 0.8), (540.9, 0.5), (540.9, 3.0)] {
        let mut search = Bisect::new(slo(), range(1, 1024), 0.05, PLAN);
        let levels = drive(&mut search, smooth(crossing, power));
        let answer = search.answer();
        let (load, missed) = (answer.load.unwrap().value(), answer.smallest_missed.unwrap().value());
        assert!(load < crossing && missed > crossing && (missed - load <= 1.0 || missed / load < 1.06));
        assert_eq!(answer.boundary, Some(Boundary::Smooth));
        assert_eq!(answer.binding_objective.as_deref(), Some("tpot p95 < 50 ms"));
        let climb = (crossing.log2().floor() + 2.0) as usize;
        assert!(levels.len() <= climb + 5, "{crossing}, {power}: {levels:?}");
    }
}

#[test]
fn bisect_lands_on_the_last_step_below_the_limit_of_a_staircase() {
    // The latency rises at multiples of 32 only; 96 is the last load below the limit.
    let stairs = |level: u32| [-2.0, 0.9 * (f64::from(level.div_ceil(32) * 32) / 120.0).ln()];
    let mut search = Bisect::new(slo(), range(1, 1024), 0.005, PLAN);
    drive(&mut search, stairs);
    assert_eq!(search.answer().load, concurrency(96));
    assert_eq!(search.answer().smallest_missed, concurrency(97));
}

#[test]
fn bisect_stays_near_the_crossing_of_a_noisy_server() {
    let mut stream = Stream::new(4, "noise");
    let (mut bias, mut error, mut worst, mut trials) = (0.0, 0.0, 0.0_f64, 0);
    for _ in 0..200 {
        let mut search = Bisect::new(slo(), range(1, 1024), 0.05, PLAN);
        // One trial's latency is off by 4 %: 5 % of the load at this slope.
        let levels = drive(&mut search, |level| {
            [-1.0, 0.8 * (f64::from(level) / 108.0).ln() + 0.04 * stream.normal()]
        });
        let off = (search.answer().load.unwrap().value() / 108.0).ln();
        bias += off / 200.0;
        error += off.abs() / 200.0;
        worst = worst.max(off.abs());
        trials += levels.len();
    }
    assert!(bias.abs() < 0.05 && error < 0.07 && worst < 0.25, "bias {bias}, error {error}, worst {worst}");
    assert!(trials / 200 <= 17, "{trials}");
}

#[test]
fn one_unlucky_trial_on_the_way_up_does_not_decide_the_answer() {
    let mut first = true;
    let mut search = Bisect::new(slo(), range(1, 1024), 0.05, PLAN);
    drive(&mut search, |level| {
        let unlucky = level == 8 && std::mem::take(&mut first);
        if unlucky { [0.15, -1.0] } else { smooth(108.0, 0.8)(level) }
    });
    let load = search.answer().load.unwrap().value();
    assert!((100.0..=108.0).contains(&load), "{load}");
}

#[test]
fn missed_at_the_lowest_and_met_at_the_highest_are_answers_of_their_own() {
    for (margin, expected) in [(2.0, SearchOutcome::MissedAtLowest), (0.1, SearchOutcome::MissedAtLowest)] {
        let mut search = Bisect::new(slo(), range(4, 64), 0.05, PLAN);
        let levels = drive(&mut search, |_| [margin, -1.0]);
        let answer = search.answer();
        assert_eq!((answer.outcome, answer.load, answer.goodput), (expected, None, None));
        assert_eq!(answer.smallest_missed, concurrency(4));
        assert_eq!(answer.binding_objective.as_deref(), Some("ttft p95 < 500 ms"));
        assert_eq!(levels, vec![4; if margin < 0.25 { 2 } else { 1 }], "a near miss is measured twice");
    }
    let mut search = Bisect::new(slo(), range(4, 100), 0.05, PLAN);
    let levels = drive(&mut search, |_| [-1.0, -1.0]);
    let answer = search.answer();
    assert_eq!((answer.outcome, answer.load), (SearchOutcome::MetAtHighest, concurrency(100)));
    assert_eq!((answer.smallest_missed, answer.binding_objective), (None, None));
    assert_eq!(levels, [4, 8, 16, 32, 64, 100]);
}

#[test]
fn a_range_of_one_load_is_measured_and_answered() {
    let mut search = Bisect::new(slo(), range(7, 7), 0.05, PLAN);
    assert_eq!(drive(&mut search, |_| [-1.0, -1.0]), [7]);
    assert_eq!(search.answer().outcome, SearchOutcome::MetAtHighest);
}

fn void() -> (Verdict, Vec<Reading>) {
    (Verdict::Void(VoidReason::Client { lag: 0.1, limit: None, pressure: 1.0, waiting: 0.0 }), Vec::new())
}

#[test]
fn a_void_trial_is_retried_and_counts_neither_way() {
    let mut attempt = 0;
    let mut search = Bisect::new(slo(), range(1, 64), 0.05, PLAN);
    let levels = drive_judged(&mut search, |spec| {
        attempt += 1;
        if attempt % 2 == 0 {
            return void();
        }
        let readings = cliff(8)(spec.load.value() as u32).map(reading).to_vec();
        (judge(&slo(), &readings), readings)
    });
    assert_eq!(search.answer().load, concurrency(8));
    assert_eq!(levels[..4], [1, 2, 2, 4]);
}

#[test]
fn a_search_whose_trials_are_all_void_says_why() {
    let mut search = Bisect::new(slo(), range(2, 64), 0.05, PLAN);
    assert_eq!(drive_judged(&mut search, |_| void()), [2; 4]);
    let answer = search.answer();
    assert_eq!((answer.outcome, answer.load), (SearchOutcome::Void, None));
    assert!(
        answer
            .notes
            .iter()
            .any(|note| note.contains("at 2 concurrent: this client, not the server, was the limit")),
        "{answer:?}"
    );
}

#[test]
fn an_undecided_trial_is_run_again_with_more_requests() {
    let mut sizes = Vec::new();
    let mut search = Bisect::new(slo(), range(1, 64), 0.05, PLAN);
    drive_judged(&mut search, |spec| {
        let level = spec.load.value() as u32;
        if let (1, StopRule::Fixed { requests, max_seconds, .. }) = (level, spec.rule) {
            sizes.push((requests, max_seconds));
        }
        let readings = cliff(8)(level).map(reading).to_vec();
        (if level == 1 { Verdict::Undecided } else { judge(&slo(), &readings) }, readings)
    });
    assert_eq!(sizes, [(200, 60.0), (400, 120.0), (800, 240.0)]);
    let answer = search.answer();
    assert_eq!(answer.load, concurrency(8));
    assert!(answer.notes.iter().any(|note| note.contains("too few samples for a verdict at 1 concurrent")));
}

#[test]
fn a_search_that_turns_void_keeps_what_it_has_seen_but_has_no_answer() {
    let mut search = Bisect::new(slo(), range(1, 64), 0.05, PLAN);
    drive_judged(&mut search, |spec| {
        if spec.load.value() > 4.0 {
            return void();
        }
        let readings = vec![reading(-1.0), reading(-1.0)];
        (judge(&slo(), &readings), readings)
    });
    let answer = search.answer();
    assert_eq!(
        (answer.outcome, answer.load, answer.largest_met),
        (SearchOutcome::Void, None, concurrency(4))
    );
}

#[test]
fn an_undecided_level_is_stepped_over_and_the_answer_stands_below_it() {
    let mut search = Bisect::new(slo(), range(4, 16), 0.05, PLAN);
    drive_judged(&mut search, |spec| {
        let readings = vec![reading(-1.0), reading(-1.0)];
        (if spec.load.value() > 8.0 { Verdict::Undecided } else { judge(&slo(), &readings) }, readings)
    });
    let answer = search.answer();
    assert_eq!((answer.outcome, answer.load), (SearchOutcome::MetAtHighest, concurrency(8)));
    assert!(answer.notes.iter().any(|note| note.contains("too few samples for a verdict at 16")));
}

#[test]
fn an_answer_never_stands_on_a_level_without_a_verdict() {
    let mut search = Bisect::new(slo(), range(1, 64), 0.05, PLAN);
    drive_judged(&mut search, |spec| {
        let readings = cliff(1)(spec.load.value() as u32).map(reading).to_vec();
        let verdict = judge(&slo(), &readings);
        (if verdict == Verdict::Met { Verdict::Undecided } else { verdict }, readings)
    });
    assert_eq!((search.answer().outcome, search.answer().load), (SearchOutcome::Void, None));
}

#[test]
fn trials_are_large_enough_for_their_load_and_percentile() {
    let size = |slo: &str, level: u32| {
        let spec = evidence::fixed_trial(&Slo::parse([slo]).unwrap(), &PLAN, level, 1, None);
        match spec.rule {
            StopRule::Fixed { requests, .. } => requests,
            _ => panic!("{spec:?}"),
        }
    };
    assert_eq!(size("ttft p95 < 1s", 8), 200);
    assert_eq!(size("ttft p95 < 1s", 300), 600);
    assert_eq!(size("ttft p99.9 < 1s", 8), 1250);
    assert_eq!(size("itl p99.9 < 1s", 8), 200, "gaps are many");
}

#[test]
fn an_overload_is_left_by_cancelling_requests() {
    let retreats = |last| evidence::fixed_trial(&slo(), &PLAN, 48, 1, last).retreat;
    assert!(retreats(Some((64, 2.0))));
    assert!(!retreats(Some((64, 0.3))) && !retreats(Some((32, 2.0))) && !retreats(None));
}

#[test]
fn grid_measures_every_level_and_leaves_none_out_in_silence() {
    assert_eq!(default_levels(range(1, 1024)), [1, 3, 7, 19, 52, 139, 373, 1000, 1024]);
    assert_eq!(default_levels(range(5, 60)), [5, 7, 19, 52, 60]);
    assert_eq!(default_levels(range(9, 9)), [9]);
    let mut search = Grid::new(slo(), range(2, 100), &[64, 4, 4, 16, 200, 1, 32], PLAN);
    let levels = drive(&mut search, cliff(16));
    assert_eq!(levels, [4, 16, 32, 64], "far above the boundary too");
    let answer = search.answer();
    assert_eq!((answer.outcome, answer.load), (SearchOutcome::Found, concurrency(16)));
    assert_eq!((answer.largest_met, answer.smallest_missed), (concurrency(16), concurrency(32)));
    assert_eq!(answer.boundary, None, "a bracket this wide shows no shape");
    assert!(answer.notes.iter().any(|note| note.ends_with("left out: 1 and 200")), "{:?}", answer.notes);
}

#[test]
fn grid_promises_nothing_above_its_first_miss_but_names_it() {
    let mut search = Grid::new(slo(), range(1, 64), &[1, 8, 16, 32, 64], PLAN);
    drive(&mut search, |level| [if level == 16 || level == 64 { 0.3 } else { -0.3 }, -1.0]);
    let answer = search.answer();
    assert_eq!(
        (answer.load, answer.largest_met, answer.smallest_missed),
        (concurrency(8), concurrency(32), concurrency(16))
    );
    assert!(answer.notes.iter().any(|note| note.contains("missed at 16 concurrent but met at 32")));
}

#[test]
fn grid_has_the_same_answers_at_its_ends() {
    let ends = |margin: f64| {
        let mut search = Grid::new(slo(), range(1, 64), &[2, 4], PLAN);
        drive(&mut search, move |_| [margin, -1.0]);
        let answer = search.answer();
        (answer.outcome, answer.load)
    };
    assert_eq!(ends(-1.0), (SearchOutcome::MetAtHighest, concurrency(4)));
    assert_eq!(ends(1.0), (SearchOutcome::MissedAtLowest, None));
}

#[test]
fn grid_goes_on_after_a_level_that_stays_void() {
    let mut search = Grid::new(slo(), range(1, 64), &[1, 8, 16], PLAN);
    let levels = drive_judged(&mut search, |spec| {
        if spec.load == Load::Concurrency(8) {
            return void();
        }
        let readings = cliff(9)(spec.load.value() as u32).map(reading).to_vec();
        (judge(&slo(), &readings), readings)
    });
    assert_eq!(levels, [1, 8, 8, 8, 8, 16]);
    let answer = search.answer();
    assert_eq!((answer.outcome, answer.load), (SearchOutcome::Found, concurrency(1)));
    assert!(answer.notes.iter().any(|note| note.starts_with("no valid measurement at 8 concurrent")));
    let mut search = Grid::new(slo(), range(1, 64), &[1, 8], PLAN);
    drive_judged(&mut search, |_| void());
    assert_eq!(search.answer().outcome, SearchOutcome::Void);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_search_leaves_the_bounds_or_runs_on(
        min in 1_u32..300,
        span in 0_u32..2000,
        precision in 0.0_f64..0.3,
        noise in 0.0_f64..2.0,
        crossing in 0.5_f64..3000.0,
        seed in any::<u64>(),
    ) {
        let bounds = range(min, min + span);
        let mut stream = Stream::new(seed, "bounds");
        let mut server = |level: u32| {
            let margin = (f64::from(level) / crossing).ln();
            [margin + noise * stream.normal(), margin - 0.1 + noise * stream.normal()]
        };
        let mut bisect = Bisect::new(slo(), bounds, precision, PLAN);
        let mut levels = drive(&mut bisect, &mut server);
        prop_assert!(levels.len() <= 64);
        let mut grid = Grid::new(slo(), bounds, &default_levels(bounds), PLAN);
        levels.extend(drive(&mut grid, &mut server));
        prop_assert!(levels.iter().all(|level| (bounds.min..=bounds.max).contains(level)), "{:?}", levels);
        for answer in [bisect.answer(), grid.answer()] {
            for load in [answer.load, answer.largest_met, answer.smallest_missed].into_iter().flatten() {
                prop_assert!((bounds.min..=bounds.max).contains(&(load.value() as u32)));
            }
            prop_assert_eq!(answer.load.is_some(), matches!(answer.outcome, SearchOutcome::Found | SearchOutcome::MetAtHighest));
        }
    }

    #[test]
    fn the_same_outcomes_bring_the_same_search(crossing in 2.0_f64..900.0) {
        let levels = |_| drive(&mut Bisect::new(slo(), range(1, 1024), 0.05, PLAN), smooth(crossing, 0.7));
        prop_assert_eq!(levels(1), levels(2));
    }
}
