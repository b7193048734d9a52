#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::loadgen::record::{Failure, Outcome, Phase};

fn objective(metric: Metric, stat: Stat, op: Op, threshold: f64) -> Objective {
    Objective { metric, turns: Turns::All, stat, op, threshold, window: None }
}

fn over(objective: Objective, seconds: f64) -> Objective {
    Objective { window: Some(seconds), ..objective }
}

fn one(text: &str) -> Objective {
    let slo = Slo::parse([text]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(slo.objectives.len(), 1, "{text}");
    slo.objectives[0]
}

fn error(text: &str) -> SloError {
    Slo::parse([text]).expect_err(text)
}

#[test]
fn every_metric_and_statistic_is_read() {
    use Metric::*;
    let p = Stat::Percentile;
    let per_user = OutputTokensPerSecondPerUser;
    let cases = [
        ("ttft:p95<300ms", objective(Ttft, p(95.0), Op::Less, 0.3)),
        ("ttft p99.9 <= 1.2s", objective(Ttft, p(99.9), Op::AtMost, 1.2)),
        ("TTFT: P50 ≤ 1 sec", objective(Ttft, p(50.0), Op::AtMost, 1.0)),
        ("itl mean < 40 ms", objective(Itl, Stat::Mean, Op::Less, 0.04)),
        ("itl avg<250us", objective(Itl, Stat::Mean, Op::Less, 0.000_25)),
        ("e2e max < 10s", objective(E2e, Stat::Max, Op::Less, 10.0)),
        ("e2e median < 2min", objective(E2e, p(50.0), Op::Less, 120.0)),
        ("ttst p90 < .5s", objective(Ttst, p(90.0), Op::Less, 0.5)),
        ("stall p99 < 2 seconds", objective(Stall, p(99.0), Op::Less, 2.0)),
        ("tpot:p90<=50ms", objective(Tpot, p(90.0), Op::AtMost, 0.05)),
        ("errors < 1%", objective(Errors, Stat::Value, Op::Less, 0.01)),
        ("errors <= 0%", objective(Errors, Stat::Value, Op::AtMost, 0.0)),
        ("errors:<0.02", objective(Errors, Stat::Value, Op::Less, 0.02)),
        ("attainment >= 95%", objective(Attainment, Stat::Value, Op::AtLeast, 0.95)),
        ("goodput > 5", objective(Goodput, Stat::Value, Op::Greater, 5.0)),
        ("goodput>=2.5req/s", objective(Goodput, Stat::Value, Op::AtLeast, 2.5)),
        ("output-tokens-per-second-per-user p5 > 20", objective(per_user, p(5.0), Op::Greater, 20.0)),
        ("tps mean >= 20 tok/s", objective(per_user, Stat::Mean, Op::AtLeast, 20.0)),
        ("time_to_first_token p95 < 1s", objective(Ttft, p(95.0), Op::Less, 1.0)),
        ("request_latency p95 < 1s", objective(E2e, p(95.0), Op::Less, 1.0)),
        ("ttft p99 < 800ms over 30s worst", over(objective(Ttft, p(99.0), Op::Less, 0.8), 30.0)),
        ("TTFT p99<800ms Over 1min", over(objective(Ttft, p(99.0), Op::Less, 0.8), 60.0)),
        ("goodput > 5 over 10 s", over(objective(Goodput, Stat::Value, Op::Greater, 5.0), 10.0)),
        ("errors < 1% over 500ms WORST", over(objective(Errors, Stat::Value, Op::Less, 0.01), 0.5)),
    ];
    for (text, expected) in cases {
        assert_eq!(one(text), expected, "{text}");
    }
}

#[test]
fn several_objectives_stand_in_one_text_or_in_many() {
    let together = Slo::parse(["ttft p95 < 500ms, itl p99 < 50ms; errors < 1%;"]).unwrap();
    let apart = Slo::parse(["ttft p95 < 500ms", "itl p99 < 50ms", "errors < 1%"]).unwrap();
    assert_eq!(together, apart);
    assert_eq!(together.objectives.len(), 3);
}

#[test]
fn objectives_on_requests_become_limits_of_each_request() {
    let slo = Slo::parse([
        "ttft p95 < 1s; itl p99 < 50ms; itl mean < 40ms; e2e max <= 9s; tps p5 > 20; goodput > 3",
    ])
    .unwrap();
    let limit = |metric, op, threshold, allowed_gaps| RequestLimit {
        metric,
        turns: Turns::All,
        op,
        threshold,
        allowed_gaps,
    };
    assert_eq!(
        slo.limits,
        [
            limit(Metric::Ttft, Op::Less, 1.0, 0.0),
            limit(Metric::Itl, Op::Less, 0.05, 0.01),
            limit(Metric::Tpot, Op::Less, 0.04, 0.0),
            limit(Metric::E2e, Op::AtMost, 9.0, 0.0),
            limit(Metric::OutputTokensPerSecondPerUser, Op::Greater, 20.0, 0.0),
        ]
    );
}

#[test]
fn the_goodput_form_of_vllm_limits_each_request() {
    let slo = Slo::parse(["ttft:500 tpot:50 e2el:2000"]).unwrap();
    assert_eq!(slo.objectives, [objective(Metric::Attainment, Stat::Value, Op::AtLeast, 0.95)]);
    let limits: Vec<_> = slo.limits.iter().map(|limit| (limit.metric, limit.op, limit.threshold)).collect();
    assert_eq!(
        limits,
        [(Metric::Ttft, Op::AtMost, 0.5), (Metric::Tpot, Op::AtMost, 0.05), (Metric::E2e, Op::AtMost, 2.0)]
    );
    assert_eq!(Slo::parse(["ttft:500", "tpot : 0.05s", "e2el:2s"]).unwrap(), slo);
    let strict = Slo::parse(["ttft:500 tpot:50", "attainment >= 99%"]).unwrap();
    assert_eq!(strict.objectives, [objective(Metric::Attainment, Stat::Value, Op::AtLeast, 0.99)]);
    assert_eq!(strict.limits.len(), 2);
}

#[test]
fn errors_point_at_the_character_and_name_the_mend() {
    let cases = [
        ("", 0, "write for example `ttft p95 < 500ms`"),
        (" ; ", 0, "empty objective"),
        ("ttft p95 < 500", 14, "write `500ms` or `0.5s`"),
        ("ttft p95 < 1.5 ; errors < 1%", 14, "write `1.5ms` or `0.0015s`"),
        ("ttft p95 < 500kb", 14, "`kb` is no unit of ttft; write `ms` or `s`"),
        ("ttft p95 < 5%", 12, "`%` is no unit of ttft"),
        ("ttft p95 > 500ms", 9, "write `<` instead of `>`"),
        ("errors >= 1%", 7, "write `<=` instead of `>=`"),
        ("attainment < 95%", 11, "write `>` instead of `<`"),
        ("goodput <= 5", 8, "write `>=` instead of `<=`"),
        ("tps p5 < 20", 7, "write `>` instead of `<`"),
        ("ttft p95 500ms", 9, "expected `<`, `<=`, `>` or `>=`, found `500ms`"),
        ("ttft p95 = 500ms", 9, "unknown comparison `=`"),
        ("ttft p95", 8, "found the end of the text"),
        ("ttft p95 <", 10, "expected a number, found the end of the text"),
        ("ttft p95 < fast", 11, "expected a number, found `fast`"),
        ("ttft p95 < -5ms", 11, "below zero"),
        ("ttft p95 < 0ms", 11, "never be kept"),
        ("ttft p95 < 1.2.3s", 11, "`1.2.3` is not a number"),
        ("ttft < 500ms", 5, "write `ttft p95`, `ttft mean` or `ttft max`"),
        ("ttft p100 < 500ms", 5, "write `max`"),
        ("ttft p0 < 500ms", 5, "between p0 and p100"),
        ("ttft p999 < 500ms", 5, "write `p99.9`"),
        ("ttft p < 500ms", 5, "unknown statistic `p`"),
        ("ttft typical < 500ms", 5, "unknown statistic `typical`"),
        ("tfft p95 < 500ms", 0, "did you mean `ttft`?"),
        ("throughput > 5", 0, "known are ttft, ttst"),
        ("p95 ttft < 500ms", 0, "the metric comes first"),
        ("ttft_p95 < 500ms", 0, "write `ttft p95`"),
        ("p99-e2e < 500ms", 0, "write `e2e p99`"),
        ("errors p95 < 1%", 7, "write `errors < ...`"),
        ("errors < 5", 10, "write `5%`"),
        ("errors < 101%", 9, "between 0% and 100%"),
        ("errors < 0%", 9, "write `<=`"),
        ("errors < 1ms", 10, "write `%`"),
        ("attainment > 100%", 13, "write `>=`"),
        ("attainment >= 0%", 14, "always holds"),
        ("goodput > 5 ms", 12, "write `req/s` or nothing"),
        ("goodput > 0", 10, "always holds"),
        ("tps max > 20", 4, "slowest user"),
        ("ttft 500", 5, "write `ttft p95 < 500ms`, or `ttft:500`"),
        ("itl:50", 4, "write `itl p95 < 50ms`"),
        ("errors:5", 7, "write `errors < 5%`"),
        ("ttft:0", 5, "never be kept"),
        ("ttft:500h", 8, "`h` is no unit of ttft"),
        ("ttft:500 ttft:300", 9, "a second limit on ttft"),
        ("ttft p95 < 1s, ttft p95 < 2s", 15, "on the same figure is there already"),
        ("ttft p95 < 1s itl p95 < 2s", 14, "set objectives apart by `,` or `;`"),
        ("< 500ms", 0, "expected a metric"),
        ("ttft p95 < 1s over", 18, "expected a number, found the end of the text"),
        ("ttft p95 < 1s over 30", 21, "a window needs its unit: write `over 30s`"),
        ("ttft p95 < 1s over 30 worst", 21, "a window needs its unit: write `over 30s`"),
        ("ttft p95 < 1s over 30x", 21, "`x` is no unit of a window"),
        ("ttft p95 < 1s over 10ms", 19, "from 0.5 s to a day"),
        ("ttft p95 < 1s over 30s best", 23, "expected the end of the objective, found `best`"),
        ("ttft p95 < 1s over 30s, ttft p95 < 2s over 30s", 24, "on the same figure is there already"),
        ("ttft:500 over 30s", 9, "a window follows an objective's threshold"),
    ];
    for (text, at, problem) in cases {
        let error = error(text);
        assert!(error.problem.contains(problem), "{text}: {}", error.problem);
        assert_eq!(error.at, at, "{text}: {}", error.problem);
    }
    let nothing: [&str; 0] = [];
    assert!(Slo::parse(nothing).unwrap_err().problem.contains("no objective"));
}

#[test]
fn the_caret_stands_under_the_character_whatever_came_before_it() {
    let lines = |text| error(text).to_string().lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        lines("ttft p95 < 500"),
        ["SLO: a time needs its unit: write `500ms` or `0.5s`", "  ttft p95 < 500", "                ^",]
    );
    let wide = lines("itl\tp95 ≤ 50µs; ttft p95 ≥ 1s");
    assert_eq!(wide[1], "  itl p95 ≤ 50µs; ttft p95 ≥ 1s");
    assert_eq!(wide[2].chars().count(), wide[1].chars().position(|c| c == '≥').unwrap() + 1);
    assert_eq!(lines("").len(), 1);
}

#[test]
fn a_request_is_good_within_every_limit() {
    let slo = Slo::parse(["ttft p95 < 500ms; itl p90 < 50ms; e2e p95 < 9s"]).unwrap();
    let good = RequestRecord {
        id: 0,
        trial: 1,
        phase: Phase::Measured,
        scheduled: None,
        held: None,
        sent: 1.0,
        first: Some(1.4),
        last: Some(1.75),
        ended: 1.75,
        gaps_us: vec![30_000; 10],
        chunk_tokens: Vec::new(),
        isl: 10,
        isl_server: None,
        osl: 11,
        osl_server: None,
        outcome: Outcome::Completed { finish: None },
        resends: 0,
        queued: None,
        session: None,
        turn: None,
        context_full: false,
    };
    assert!(slo.is_good(&good));
    let mut one_gap_over = good.clone();
    one_gap_over.gaps_us[3] = 60_000;
    assert!(slo.is_good(&one_gap_over), "a tenth of the gaps may be over");
    let mut two_gaps_over = one_gap_over.clone();
    two_gaps_over.gaps_us[4] = 60_000;
    assert!(!slo.is_good(&two_gaps_over));
    assert!(!slo.is_good(&RequestRecord { first: Some(1.5), ..good.clone() }), "500 ms is not below 500 ms");
    let failed = Outcome::Failed { cause: Failure::Server, detail: String::new() };
    assert!(!slo.is_good(&RequestRecord { outcome: failed, ..good }));
}

fn any_objective() -> impl Strategy<Value = Objective> {
    let time = (0_usize..6, 0_usize..3, 1_u32..1000, any::<bool>(), 1e-6_f64..5000.0).prop_map(
        |(metric, stat, tenths, strict, threshold)| {
            let metrics = [Metric::Ttft, Metric::Ttst, Metric::Itl, Metric::Tpot, Metric::E2e, Metric::Stall];
            let stats = [Stat::Mean, Stat::Max, Stat::Percentile(f64::from(tenths) / 10.0)];
            let op = if strict { Op::Less } else { Op::AtMost };
            objective(metrics[metric], stats[stat], op, threshold)
        },
    );
    let share = (any::<bool>(), 1e-6_f64..0.999).prop_map(|(errors, share)| match errors {
        true => objective(Metric::Errors, Stat::Value, Op::AtMost, share),
        false => objective(Metric::Attainment, Stat::Value, Op::AtLeast, share),
    });
    let rate = (any::<bool>(), 1e-3_f64..1e6).prop_map(|(goodput, rate)| match goodput {
        true => objective(Metric::Goodput, Stat::Value, Op::Greater, rate),
        false => objective(Metric::OutputTokensPerSecondPerUser, Stat::Percentile(5.0), Op::AtLeast, rate),
    });
    prop_oneof![time, share, rate]
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same(
        objectives in prop::collection::vec(any_objective(), 1..5),
        limits in prop::collection::btree_map(0_usize..3, 1e-4_f64..100.0, 0..3),
    ) {
        let limit_names = ["ttft", "tpot", "e2e"];
        let mut texts: Vec<String> =
            limits.iter().map(|(&name, limit)| format!("{}:{limit}s", limit_names[name])).collect();
        texts.extend(objectives.iter().map(Objective::to_string));
        // Drawn twice, the same figure is refused; that has a test of its own.
        if let Ok(slo) = Slo::try_from(texts) {
            for drawn in &objectives {
                prop_assert!(slo.objectives.contains(drawn), "{drawn:?} in {slo:?}");
            }
            prop_assert_eq!(&Slo::try_from(Vec::from(&slo)).unwrap(), &slo);
            prop_assert_eq!(&Slo::parse([slo.to_string().as_str()]).unwrap(), &slo);
        }
    }

    #[test]
    fn no_text_breaks_the_reader(text in "[ -~µ≤é]{0,40}") {
        if let Err(error) = Slo::parse([text.as_str()]) {
            prop_assert!(text.is_char_boundary(error.at));
            prop_assert!(error.to_string().lines().count() <= 3);
        }
    }

    #[test]
    fn no_mixture_of_known_words_breaks_the_reader(
        words in prop::collection::vec(
            prop::sample::select(vec!["ttft", "errors", "goodput", "p95", "mean", "<", ">=", ":", "5", "0.5", "ms", "%", ";", "tps"]),
            0..12,
        ),
        blank in prop::sample::select(vec!["", " "]),
    ) {
        let text = words.join(blank);
        if let Ok(slo) = Slo::parse([text.as_str()]) {
            prop_assert_eq!(Slo::try_from(Vec::from(&slo)).unwrap(), slo);
        }
    }
}

#[test]
fn a_window_is_printed_as_it_is_read_and_stands_beside_the_same_figure_over_the_whole() {
    let slo =
        Slo::parse(["ttft p95 < 500ms; ttft p95 < 800ms over 30s worst; goodput > 5 over 2min"]).unwrap();
    let texts: Vec<String> = slo.objectives.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["ttft p95 < 500 ms", "ttft p95 < 800 ms over 30 s worst", "goodput > 5 over 120 s worst"]
    );
    assert_eq!(Slo::parse(texts.iter().map(String::as_str)).unwrap(), slo);
    assert_eq!(slo.longest_window(), Some(120.0));
    assert_eq!(slo.objectives[1].allowed_misses(), None);
    assert_eq!(slo.objectives[1].whole().allowed_misses(), Some(0.05));
}

#[test]
fn objectives_on_turns_read_back_and_are_kept_by_those_turns_alone() {
    let text = "ttft[first] p95 < 1 s; ttft[later] p95 < 300 ms; tpot[ LATER ]:mean<=50ms; ttft p99 < 2s";
    let slo = Slo::parse([text]).unwrap();
    let texts = Vec::from(&slo);
    assert_eq!(
        texts,
        ["ttft[first] p95 < 1 s", "ttft[later] p95 < 300 ms", "tpot[later] mean <= 50 ms", "ttft p99 < 2 s"]
    );
    assert_eq!(Slo::parse(texts.iter().map(String::as_str)).unwrap(), slo);
    assert!(slo.names_turns());
    assert_eq!(
        (slo.ttft_limit(), slo.ttft_limit_of(None), slo.ttft_limit_of(Some(2))),
        (Some(0.3), Some(1.0), Some(0.3))
    );
    let limits = Slo::parse(["ttft[later]:300"]).unwrap();
    assert_eq!(Vec::from(&limits), ["ttft[later]:300 ms", "attainment >= 95%"]);
    for (text, problem) in [
        ("ttft[second] p95 < 1s", "`[second]` names no turns; write `ttft[first]`"),
        ("ttft[first p95 < 1s", "names no turns"),
        ("goodput[first] > 5", "not of some turns"),
        ("ttft[first] p95 < 1s, ttft[first] p95 < 2s", "keep one"),
    ] {
        let error = Slo::parse([text]).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}
