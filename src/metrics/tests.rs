#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::loadgen::record::{Failure, Outcome, Phase, RequestRecord};
use crate::loadgen::session::{InFlight, LevelHistory};
use crate::slo::Slo;
use crate::verdict::{Reading, Verdict, VoidReason, judge};

/// A request that was completed: its tokens come `gap` seconds apart.
pub(super) fn request(sent: f64, ttft: f64, gap: f64, tokens: u32) -> RequestRecord {
    let last = sent + ttft + gap * f64::from(tokens - 1);
    RequestRecord {
        id: 0,
        trial: 1,
        phase: Phase::Measured,
        scheduled: None,
        held: None,
        sent,
        first: Some(sent + ttft),
        last: Some(last),
        ended: last,
        gaps_us: vec![(gap * 1e6).round() as u32; tokens as usize - 1],
        chunk_tokens: Vec::new(),
        isl: 100,
        isl_server: None,
        osl: tokens,
        osl_server: None,
        outcome: Outcome::Completed { finish: None },
        resends: 0,
        queued: None,
        session: None,
        turn: None,
        context_full: false,
    }
}

fn failed(sent: f64, ended: f64, cause: Failure) -> RequestRecord {
    let outcome = Outcome::Failed { cause, detail: String::new() };
    let none = RequestRecord { first: None, last: None, ended, outcome, ..request(sent, 0.1, 0.1, 11) };
    RequestRecord { gaps_us: Vec::new(), ..none }
}

fn waiting(sent: f64, first: Option<f64>) -> InFlight {
    InFlight {
        id: 0,
        scheduled: None,
        sent,
        first,
        latest: first,
        tokens: u32::from(first.is_some()),
        turn: None,
    }
}

fn levels(users: u32) -> LevelHistory {
    let mut levels = LevelHistory::default();
    levels.push(0.0, users);
    levels
}

fn samples<'a>(records: &'a [RequestRecord], pending: &'a [InFlight]) -> Samples<'a> {
    Samples { records, pending, from: 0.0, now: 100.0, partial: false, span: f64::INFINITY }
}

/// The only reading of a one-objective SLO at 10 users.
fn read(slo: &str, records: &[RequestRecord], pending: &[InFlight]) -> Reading {
    let slo = Slo::parse([slo]).unwrap();
    let mut readings = readings(&slo, &samples(records, pending), &levels(10));
    assert_eq!(readings.len(), 1);
    readings.remove(0)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

#[test]
fn requests_over_the_limit_are_counted() {
    let mut records: Vec<RequestRecord> = (0..97).map(|i| request(f64::from(i), 0.1, 0.02, 11)).collect();
    records.extend((0..3).map(|i| request(f64::from(i), 0.9, 0.02, 11)));
    let reading = read("ttft p95 < 500ms", &records, &[]);
    assert_eq!((reading.over, reading.of), (3, 100));
    assert!(reading.margin < 0.0 && close(reading.figure.unwrap(), 0.1));
    assert!(close(reading.log_load, 10_f64.ln()));
    let tight = read("ttft p98 < 500ms", &records, &[]);
    assert!(tight.margin > 0.0 && close(tight.figure.unwrap(), 0.9));
}

#[test]
fn a_value_equal_to_the_limit_breaks_less_than_but_not_at_most() {
    let records: Vec<RequestRecord> = (0..20).map(|_| request(0.0, 0.5, 0.02, 11)).collect();
    assert_eq!(read("ttft p95 < 500ms", &records, &[]).over, 20);
    assert_eq!(read("ttft p95 <= 500ms", &records, &[]).over, 0);
}

#[test]
fn the_figure_is_true_far_beyond_the_clip_of_the_margin() {
    let records: Vec<RequestRecord> = (0..50).map(|_| request(0.0, 0.01, 0.001, 5)).collect();
    let reading = read("ttft p95 < 10s", &records, &[]);
    assert!(close(reading.figure.unwrap(), 0.01));
    assert_eq!(reading.margin, -4.0);
}

#[test]
fn a_failed_request_misses_every_counted_objective() {
    let mut records: Vec<RequestRecord> = (0..38).map(|i| request(f64::from(i), 0.1, 0.02, 11)).collect();
    records.push(failed(1.0, 2.0, Failure::Server));
    records.push(failed(1.0, 61.0, Failure::Timeout));
    for slo in ["ttft p95 < 1s", "tpot p95 < 1s", "e2e p95 < 9s", "stall p95 < 1s", "tps p5 > 1"] {
        let reading = read(slo, &records, &[]);
        assert_eq!((reading.over, reading.of), (2, 40), "{slo}");
        assert_eq!(*reading.profile.last().unwrap(), 4.0, "{slo}");
        assert!(reading.profile.windows(2).all(|pair| pair[0] <= pair[1]), "{slo}");
    }
    // Among gaps it weighs as much as a whole request.
    let reading = read("itl p95 < 1s", &records, &[]);
    assert_eq!((reading.over, reading.of), (20, 400));
    assert_eq!(read("errors < 1%", &records, &[]).over, 2);
    assert_eq!(read("attainment >= 95%", &records, &[]).over, 2);
}

#[test]
fn a_pending_first_token_is_a_miss_once_overdue_and_no_sample_before() {
    let records: Vec<RequestRecord> = (0..20).map(|i| request(f64::from(i), 0.1, 0.02, 11)).collect();
    let pending =
        [waiting(99.9, None), waiting(99.0, None), waiting(98.0, Some(98.2)), waiting(97.0, Some(99.0))];
    let reading = read("ttft p90 < 500ms", &records, &pending);
    assert_eq!((reading.over, reading.of), (2, 23));
    let e2e = read("e2e p90 < 2.5s", &records, &pending);
    assert_eq!((e2e.over, e2e.of), (1, 21), "only the one sent 3 s ago is overdue");
    assert_eq!(read("tpot p90 < 50ms", &records, &pending).of, 20);
}

#[test]
fn a_first_token_counts_in_the_window_in_which_it_came() {
    let records = [request(1.0, 8.5, 0.5, 11), request(1.0, 9.5, 0.5, 11)];
    let slo = Slo::parse(["ttft p95 < 20s; e2e p95 < 90s"]).unwrap();
    let window = Samples { from: 10.0, now: 20.0, ..samples(&records, &[]) };
    let readings = readings(&slo, &window, &levels(4));
    assert_eq!(readings[0].of, 1);
    assert_eq!(readings[1].of, 2, "a request that ended in the window has its E2E in it");
}

#[test]
fn a_request_that_was_let_go_counts_only_when_overdue() {
    let let_go = |age: f64, first: Option<f64>, outcome: Outcome| RequestRecord {
        first,
        ended: 50.0 + age,
        outcome,
        ..failed(50.0, 60.0, Failure::Server)
    };
    let records = [
        let_go(0.2, None, Outcome::Censored),
        let_go(3.0, None, Outcome::Censored),
        let_go(3.0, None, Outcome::Cancelled),
        let_go(0.3, Some(50.1), Outcome::Cancelled),
    ];
    let reading = read("ttft p95 < 1s", &records, &[]);
    assert_eq!((reading.over, reading.of), (2, 3));
    let reading = read("e2e p95 < 1s", &records, &[]);
    assert_eq!((reading.over, reading.of), (2, 2));
    assert_eq!(read("tpot p95 < 1s", &records, &[]).of, 0);
    let slo = Slo::parse(["attainment >= 95%; ttft p95 < 1s"]).unwrap();
    let both = readings(&slo, &samples(&records, &[]), &levels(4));
    assert_eq!((both[0].over, both[0].of), (2, 2));
    assert_eq!(read("errors < 5%", &records, &[]).of, 0);
}

#[test]
fn every_gap_is_an_itl_sample_and_tpot_stands_in_where_gaps_were_not_kept() {
    let records: Vec<RequestRecord> = (0..10).map(|_| request(0.0, 0.1, 0.02, 31)).collect();
    let reading = read("itl p95 < 50ms", &records, &[]);
    assert_eq!((reading.over, reading.of), (0, 300));
    assert!(close(reading.figure.unwrap(), 0.02));
    let without: Vec<RequestRecord> = records
        .iter()
        .map(|record| RequestRecord { gaps_us: Vec::new(), osl_server: Some(31), ..record.clone() })
        .collect();
    let reading = read("itl p95 < 50ms", &without, &[]);
    assert_eq!(reading.of, 10);
    assert!(close(reading.figure.unwrap(), 0.02));
}

#[test]
fn the_pace_of_requests_in_flight_counts_for_navigation_only() {
    let flight = InFlight {
        id: 1,
        scheduled: None,
        sent: 1.0,
        first: Some(2.0),
        latest: Some(7.0),
        tokens: 26,
        turn: None,
    };
    let young = InFlight { tokens: 5, ..flight };
    let slo = Slo::parse(["tpot p95 < 100ms"]).unwrap();
    let pending = [flight, young];
    let whole = samples(&[], &pending);
    assert_eq!(readings(&slo, &whole, &levels(4))[0].of, 0);
    let partial = readings(&slo, &Samples { partial: true, ..whole }, &levels(4));
    assert_eq!((partial[0].over, partial[0].of), (1, 1));
    assert!(close(partial[0].figure.unwrap(), 0.2));
}

#[test]
fn a_mean_leaves_a_few_failures_out_but_not_many() {
    let quick: Vec<RequestRecord> = (0..99).map(|i| request(f64::from(i), 0.1, 0.02, 11)).collect();
    let with = |failures: u32, cause| {
        let mut records = quick.clone();
        records.extend((0..failures).map(|_| failed(1.0, 31.0, cause)));
        read("ttft mean < 500ms", &records, &[])
    };
    assert!(close(with(1, Failure::Server).figure.unwrap(), 0.1));
    assert_eq!(with(1, Failure::Server).over, 1, "it still counts as a miss");
    assert_eq!(with(20, Failure::Server).margin, 4.0);
    // A time-out has waited 30 s at least.
    assert!(close(with(1, Failure::Timeout).figure.unwrap(), (9.9 + 30.0) / 100.0));
}

#[test]
fn rates_that_should_be_large_are_judged_at_their_lower_tail() {
    let records: Vec<RequestRecord> =
        (0..100).map(|i| request(f64::from(i), 0.1, if i < 10 { 0.1 } else { 0.025 }, 11)).collect();
    let reading = read("tps p5 > 20", &records, &[]);
    assert_eq!((reading.over, reading.of), (10, 100));
    assert!(close(reading.figure.unwrap(), 10.0) && close(reading.margin, 2_f64.ln()));
    assert!(close(f64::from(reading.profile[0]), f64::from(-(2_f64.ln()) as f32)));
    assert!(read("tps p20 > 20", &records, &[]).margin < 0.0);
}

#[test]
fn shares_and_goodput_follow_their_definitions() {
    let mut records: Vec<RequestRecord> = (0..95).map(|i| request(f64::from(i), 0.1, 0.02, 11)).collect();
    records.extend((0..5).map(|i| request(f64::from(i), 0.9, 0.02, 11)));
    let slo = Slo::parse(["ttft p99 < 500ms; attainment >= 95%; errors < 1%; goodput > 0.9"]).unwrap();
    let readings = readings(&slo, &samples(&records, &[]), &levels(10));
    assert_eq!((readings[1].over, readings[1].of), (5, 100));
    assert!(close(readings[1].figure.unwrap(), 0.95));
    assert!(readings[1].margin < 0.0, "exactly the allowed share is met");
    assert!(close(readings[2].figure.unwrap(), 0.0));
    assert!(close(readings[3].figure.unwrap(), 0.95) && readings[3].margin < 0.0);
}

#[test]
fn no_sample_at_all_is_void_not_met() {
    let slo = Slo::parse(["tpot p95 < 50ms"]).unwrap();
    let readings = readings(&slo, &samples(&[], &[]), &levels(10));
    assert_eq!(readings[0].figure, None);
    let expected = VoidReason::NoSamples { objective: "tpot p95 < 50 ms".to_owned() };
    assert_eq!(judge(&slo, &readings), Verdict::Void(expected));
}

#[test]
fn the_load_of_a_reading_is_that_of_its_samples() {
    let mut levels = LevelHistory::default();
    levels.push(0.0, 10);
    levels.push(50.0, 20);
    // Sent at level 10; decodes for 10 s before and 10 s after the step.
    let records = [request(30.0, 10.0, 2.0, 11)];
    let slo = Slo::parse(["ttft p95 < 60s; tpot p95 < 9s; e2e p95 < 90s"]).unwrap();
    let readings = readings(&slo, &samples(&records, &[]), &levels);
    assert!(close(readings[0].log_load, 10_f64.ln()));
    assert!(close(readings[1].log_load, (10_f64.ln() + 20_f64.ln()) / 2.0));
    assert!(close(readings[2].log_load, (2.0 * 10_f64.ln() + 20_f64.ln()) / 3.0));
}

#[test]
fn misses_in_runs_widen_the_variance() {
    let at = |over: &dyn Fn(u32) -> bool| -> Vec<RequestRecord> {
        (0..1000)
            .map(|i| {
                let spread = 0.2 + 0.0003 * f64::from(i * 7919 % 1000);
                request(f64::from(i) * 0.05, if over(i) { spread + 0.35 } else { spread }, 0.02, 5)
            })
            .collect()
    };
    let even = read("ttft p95 < 500ms", &at(&|i| i % 20 == 0), &[]);
    let runs = read("ttft p95 < 500ms", &at(&|i| (400..450).contains(&i)), &[]);
    assert!(runs.variance > 4.0 * even.variance, "{} {}", runs.variance, even.variance);
}

#[test]
fn a_summary_holds_rates_shares_and_distributions_of_the_measured_requests() {
    let mut records: Vec<RequestRecord> = (0..40).map(|i| request(f64::from(i), 0.1, 0.02, 11)).collect();
    records[0].chunk_tokens = vec![1, 2, 2, 2, 2, 2];
    records[0].gaps_us = vec![40_000; 5];
    records.push(failed(1.0, 2.0, Failure::Throttled));
    records.push(RequestRecord { phase: Phase::Transient, ..request(0.0, 9.0, 0.02, 11) });
    records.push(RequestRecord { outcome: Outcome::Censored, ..request(0.0, 9.0, 0.02, 11) });
    let slo = Slo::parse(["ttft p95 < 500ms"]).unwrap();
    let summary = Summary::of(&slo, &records, 20.0);
    assert_eq!(summary.requests, 41);
    assert!(close(summary.requests_per_second, 2.0));
    assert!(close(summary.input_tokens_per_second, 200.0));
    assert!(close(summary.output_tokens_per_second, 22.0));
    assert!(close(summary.goodput, 2.0));
    assert!(close(summary.attainment, 40.0 / 41.0));
    assert!(close(summary.error_rate, 1.0 / 41.0));
    assert_eq!(summary.errors[&Failure::Throttled], 1);
    assert!(close(summary.little_concurrency, 40.0 * 0.3 / 20.0));
    assert!(close(summary.tokens_per_chunk, 440.0 / (39.0 * 11.0 + 6.0)));
    let ttft = &summary.metrics["ttft"];
    assert_eq!((ttft.n, ttft.p999), (40, None));
    assert!(close(ttft.p95, 0.1) && close(ttft.max, 0.1));
    assert_eq!(summary.metrics["itl"].n, 400);
    assert!(close(summary.metrics["osl"].mean, 11.0) && close(summary.metrics["isl"].p50, 100.0));
    assert!(close(summary.metrics["output-tokens-per-second-per-user"].p50, 50.0));

    let counts = Counts::of(&records);
    assert_eq!(counts, Counts { issued: 43, completed: 41, failed: 1, censored: 1, cancelled: 0 });
}

#[test]
fn a_summary_of_nothing_is_empty_and_finite() {
    let slo = Slo::parse(["ttft p95 < 500ms"]).unwrap();
    assert_eq!(Summary::of(&slo, &[], 0.0), Summary::default());
}

fn any_record() -> impl Strategy<Value = RequestRecord> {
    (0.0_f64..90.0, 0.001_f64..5.0, 0.0_f64..0.5, 1_u32..40, 0_u8..12).prop_map(
        |(sent, ttft, gap, tokens, end)| {
            let whole = request(sent, ttft, gap, tokens);
            match end {
                0 => failed(sent, sent + ttft, Failure::Timeout),
                1 => RequestRecord { outcome: Outcome::Censored, ..whole },
                2 => RequestRecord { outcome: Outcome::Cancelled, first: None, last: None, ..whole },
                _ => whole,
            }
        },
    )
}

proptest! {
    #[test]
    fn readings_are_finite_and_their_signs_agree_with_the_counts(
        records in prop::collection::vec(any_record(), 0..120),
        which in 0_usize..8,
    ) {
        let texts = [
            "ttft p95 < 1s", "itl p90 < 100ms", "tpot mean < 100ms", "e2e max < 6s",
            "tps p10 >= 8", "ttft:2000 tpot:300", "errors <= 10%", "goodput > 0.3",
        ];
        let slo = Slo::parse([texts[which]]).unwrap();
        let objective = slo.objectives[0];
        let reading = &readings(&slo, &samples(&records, &[waiting(97.0, None)]), &levels(7))[0];
        prop_assert!(reading.over <= reading.of);
        prop_assert!(reading.margin.abs() <= 4.0 && reading.variance > 0.0 && reading.variance.is_finite());
        prop_assert!(close(reading.log_load, 7_f64.ln()));
        prop_assert!(reading.profile.len() <= 200);
        prop_assert!(reading.profile.windows(2).all(|pair| pair[0] <= pair[1]));
        if matches!(objective.metric, crate::slo::Metric::Errors | crate::slo::Metric::Attainment)
            && let Some(holds) = reading.holds(&objective)
        {
            prop_assert_eq!(holds, reading.margin <= 0.0);
        }
    }
}

#[test]
fn tokens_read_all_at_once_have_no_infinite_pace() {
    let at_once = RequestRecord { first: Some(1.0), last: Some(1.0), ..request(0.0, 1.0, 0.0, 11) };
    let summary = Summary::of(&Slo::none(), &[at_once], 1.0);
    assert!(!summary.metrics.contains_key("output-tokens-per-second-per-user"));
    assert_eq!(summary.metrics["tpot"].max, 0.0);
}
