#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::frontier::{Limits, frontiers};
use super::*;
use crate::loadgen::session::Session;
use crate::plan::{Budget, LoadRange};
use crate::search::adaptive::Adaptive;
use crate::search::adaptive::settings::Settings;
use crate::search::{Answer, Ask, Place, SearchOutcome, Strategy, TrialKind, TrialOutcome};
use crate::sim::scenarios;
use crate::sim::session::{SimSession, ready};
use crate::slo::Slo;
use crate::trial::Trials;

/// A whole search with the records of its requests.
pub(super) fn searched(scenario: &str, slo: &[&str], seed: u64) -> (Vec<TrialOutcome>, Material, Answer) {
    let scenario = scenarios::find(scenario).unwrap();
    let slo = Slo::parse(slo.iter().copied()).unwrap();
    let range = LoadRange { min: 1, max: scenario.max_load };
    let mut strategy = Adaptive::new(slo.clone(), Settings::new(range, 0.2, seed));
    let session = SimSession::with_gaps(scenario.params, scenario.traffic.clone(), seed);
    let mut trials = Trials::new(session, slo, Budget::default(), 1, true);
    let (mut outcomes, mut records) = (Vec::new(), Vec::new());
    while let Ask::Trial(spec) = strategy.ask() {
        let mut finished = ready(trials.run(&spec, &mut |_| {})).unwrap();
        strategy.tell(&finished.outcome);
        outcomes.push(finished.outcome);
        records.append(&mut finished.records);
    }
    assert!(trials.session().now() > 0.0);
    records.append(&mut ready(trials.close()));
    let material = Material::new(&outcomes.iter().collect::<Vec<_>>(), records, range);
    (outcomes, material, strategy.answer())
}

#[test]
fn under_its_own_slo_every_trial_of_a_fixed_size_reads_as_it_did_when_it_was_run() {
    for name in ["decode", "seqcliff"] {
        let scenario = scenarios::find(name).unwrap();
        let slo = Slo::parse(scenario.slo.iter().copied()).unwrap();
        let (outcomes, material, answer) = searched(name, &scenario.slo, 3);
        let anew = material.judged(&slo);
        for (was, is) in outcomes.iter().zip(&anew.outcomes) {
            // Navigation trials only steer, and what was in flight at their ends is known approximately.
            if matches!(was.spec.kind, TrialKind::Warmup | TrialKind::Navigate) {
                continue;
            }
            for (was_read, read) in was.readings.iter().zip(&is.readings) {
                assert_eq!(was.verdict, is.verdict, "trial {}", was.id);
                assert_eq!((was_read.over, was_read.of), (read.over, read.of), "trial {}", was.id);
                assert_eq!(was_read.figure, read.figure);
                // An end and another user's sending within 20 ms are taken for one user's turn: a level
                // that moves is known to that.
                assert!((was_read.log_load - read.log_load).abs() < 2e-3, "trial {}", was.id);
            }
            assert_eq!(was.good_rate, is.good_rate);
            assert_eq!(was.summary, is.summary);
        }
        let judged = anew.judged;
        assert_eq!(judged.place, Place::Within);
        assert_eq!(judged.answer.load, answer.load, "{name}");
        assert_eq!(judged.answer.interval, answer.interval, "{name}");
        assert_eq!(judged.answer.safe_load, answer.safe_load);
        assert_eq!(judged.answer.goodput, answer.goodput);
    }
}

#[test]
fn a_boundary_that_was_not_measured_is_bracketed_and_the_next_load_is_named() {
    let (_, material, answer) = searched("decode", &["ttft p95 < 1s", "tpot p95 < 30ms"], 5);
    let found = answer.load.unwrap().value();
    let tight = material.judged(&Slo::parse(["tpot p95 < 13ms"]).unwrap()).judged;
    assert!(matches!(tight.place, Place::Beyond { next } if f64::from(next) < 0.7 * found), "{tight:?}");
    let interval = tight.answer.interval.unwrap();
    // Without the trials near the boundary the truth lies within what plainly met and missed.
    let truth = searched("decode", &["tpot p95 < 13ms"], 6).2.load.unwrap().value();
    assert!(interval.low <= truth && truth <= interval.high.unwrap(), "{interval:?} {truth}");
    let loose = material.judged(&Slo::parse(["e2e p95 < 3000s"]).unwrap()).judged;
    assert_eq!(loose.answer.outcome, SearchOutcome::MetAtHighest);
    assert!(matches!(loose.place, Place::Beyond { next } if f64::from(next) > found));
    let none = material.judged(&Slo::parse(["tpot p95 < 1ms"]).unwrap()).judged;
    assert_eq!(none.answer.safe_load, None);
}

#[test]
fn the_frontier_does_not_fall_as_its_limit_is_relaxed() {
    let slo = Slo::parse(["ttft p95 < 1s", "tpot p95 < 30ms"]).unwrap();
    let (_, material, _) = searched("decode", &["ttft p95 < 1s", "tpot p95 < 30ms"], 7);
    let limits = Limits { from: 0.02, to: 0.04 };
    let frontier = frontiers(&material.into(), &slo, None, Some(limits)).unwrap();
    let points = frontier.between_tokens.unwrap().points;
    assert_eq!((points[0].0, points[points.len() - 1].0), (0.02, 0.04));
    let loads: Vec<u32> = points.iter().map(|point| point.1.load).collect();
    assert!(loads.windows(2).all(|pair| pair[0] <= pair[1]), "{loads:?}");
    assert!(points.iter().any(|point| point.1.place == Place::Within), "{points:?}");
    let map = frontier.map.unwrap();
    for (row, cells) in map.cells.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            let alone = points.iter().find(|point| point.0 == map.columns[column]);
            assert!(alone.is_none_or(|point| cell.load <= point.1.load + 2), "{row} {column}");
        }
    }
}

#[test]
fn twice_the_latency_of_the_lowest_load_is_a_knee() {
    let slo = Slo::parse(["ttft p95 < 1s", "tpot p95 < 30ms"]).unwrap();
    let runs = searched("decode", &["ttft p95 < 1s", "tpot p95 < 30ms"], 9).1.into();
    let knees = knee::knees(&runs, &slo, 1.0);
    assert_eq!(knees.len(), 2);
    for knee in &knees {
        assert!((knee.limit - 2.0 * knee.figure).abs() < 1e-12);
        assert!(knee.capacity.load >= knee.lowest, "{knee:?}");
    }
    let points = knee::throughputs(&runs);
    let best: Vec<_> = points.iter().filter(|point| point.best).collect();
    assert!(best.len() >= 2);
    // Along the front one side rises as the other falls.
    let mut sorted = best.clone();
    sorted.sort_by(|a, b| a.total.total_cmp(&b.total));
    assert!(sorted.windows(2).all(|pair| pair[1].per_user <= pair[0].per_user), "{sorted:?}");
}
