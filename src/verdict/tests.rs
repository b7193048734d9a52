//! Each gate fires on what it is for, and on nothing near it.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::loadgen::health::ClientHealth;
use crate::loadgen::record::{Failure, Outcome, Phase, RequestRecord};
use crate::rng::Stream;
use crate::units::Load;

/// A completed stream of `osl` tokens whose chunks came after these gaps.
fn stream(id: u64, ttft: f64, gaps_us: Vec<u32>) -> RequestRecord {
    let first = ttft;
    let last = first + gaps_us.iter().map(|&gap| f64::from(gap) * 1e-6).sum::<f64>();
    let osl = gaps_us.len() as u32 + 1;
    RequestRecord {
        id,
        trial: 1,
        phase: Phase::Measured,
        sent: 0.0,
        scheduled: None,
        held: None,
        first: Some(first),
        last: Some(last),
        ended: last,
        gaps_us,
        chunk_tokens: Vec::new(),
        isl: 100,
        isl_server: Some(107),
        osl,
        osl_server: Some(osl),
        outcome: Outcome::Completed { finish: Some("length".to_owned()) },
        resends: 0,
        queued: None,
        session: None,
        turn: None,
        context_full: false,
    }
}

fn smooth(id: u64) -> RequestRecord {
    stream(id, 0.1, vec![20_000; 63])
}

/// Everything at once, after as long as the whole answer took.
fn burst(id: u64) -> RequestRecord {
    stream(id, 1.3, vec![10; 63])
}

/// What a proxy with a buffer of 16 chunks makes of it.
fn clumped(id: u64) -> RequestRecord {
    stream(id, 0.4, (1..64).map(|chunk| if chunk % 16 == 0 { 320_000 } else { 15 }).collect())
}

fn failed(id: u64, cause: Failure, detail: &str) -> RequestRecord {
    let outcome = Outcome::Failed { cause, detail: detail.to_owned() };
    RequestRecord { first: None, last: None, gaps_us: Vec::new(), osl_server: None, outcome, ..smooth(id) }
}

fn slo() -> Slo {
    Slo::parse(["ttft p95 < 500ms", "itl p95 < 50ms"]).unwrap()
}

/// `bad` of `of` requests made by one function, the others smooth.
fn mixed(of: u64, bad: u64, make: impl Fn(u64) -> RequestRecord) -> Vec<RequestRecord> {
    (0..of).map(|id| if id < bad { make(id) } else { smooth(id) }).collect()
}

fn void_of(records: &[RequestRecord]) -> Option<VoidReason> {
    void_reason(&slo(), &Checks::of(records), None)
}

fn warned(records: &[RequestRecord], client: Option<ClientHealth>) -> Vec<Warning> {
    let checks = Checks::of(records);
    let load = Load::Concurrency(8);
    warnings(&slo(), [Seen { load, counted: false, checks: &checks, client: client.as_ref(), readings: &[] }])
}

#[test]
fn clean_requests_void_nothing_and_warn_of_nothing() {
    let records = mixed(200, 0, smooth);
    assert_eq!(void_of(&records), None);
    assert_eq!(warned(&records, Some(fit())), []);
}

#[test]
fn streams_in_one_burst_are_no_measurement_of_when_tokens_came() {
    let void = void_of(&mixed(100, 100, burst)).unwrap();
    assert_eq!(void, VoidReason::BufferedStream { share: 1.0 });
    let text = void.to_string();
    for mend in ["proxy", "stream interval 1", "judge by e2e"] {
        assert!(text.contains(mend), "{text}");
    }
}

#[test]
fn streams_in_a_few_bursts_are_told_by_their_gaps() {
    assert_eq!(void_of(&mixed(100, 100, clumped)), Some(VoidReason::BufferedStream { share: 1.0 }));
}

#[test]
fn a_stream_that_is_buffered_only_under_load_is_seen_from_the_share_that_could_decide_the_verdict() {
    assert!(void_of(&mixed(100, 12, burst)).is_some());
    assert!(void_of(&mixed(100, 6, clumped)).is_some());
    assert_eq!(void_of(&mixed(100, 4, burst)), None);
    let warning = Warning::Buffered { share: 0.04 };
    assert!(warning.to_string().contains("proxy that buffers"));
    assert_eq!(warned(&mixed(100, 4, burst), None)[0], warning);
}

#[test]
fn a_buffered_stream_can_be_judged_by_its_end() {
    let slo = Slo::parse(["e2e p95 < 5s"]).unwrap();
    assert_eq!(void_reason(&slo, &Checks::of(&mixed(100, 100, burst)), None), None);
}

#[test]
fn irregular_tokens_and_speculative_ones_are_not_taken_for_a_buffer() {
    let mut draws = Stream::new(7, "gaps");
    let exponential = |draws: &mut Stream| (-draws.uniform().max(1e-9).ln() * 20_000.0) as u32;
    let irregular: Vec<RequestRecord> =
        (0..100).map(|id| stream(id, 0.1, (0..63).map(|_| exponential(&mut draws)).collect())).collect();
    assert_eq!(void_of(&irregular), None);
    assert_eq!(warned(&irregular, None), []);
    // Four tokens a step, each in a chunk of its own: no buffer, but ITL is not what it seems.
    let speculative = |id| stream(id, 0.1, (1..64).map(|n| if n % 4 == 0 { 40_000 } else { 20 }).collect());
    let records = mixed(100, 100, speculative);
    assert_eq!(void_of(&records), None);
    assert_eq!(warned(&records, None), [Warning::Clumps { together: 4.0 }]);
}

#[test]
fn several_tokens_a_chunk_are_told_with_their_mean() {
    let several =
        |id| RequestRecord { osl: 192, osl_server: Some(192), chunk_tokens: vec![3; 64], ..smooth(id) };
    let warning = Warning::SeveralTokens { mean: 3.0 };
    assert!(warning.to_string().contains("3.00 tokens on average"));
    assert_eq!(warned(&mixed(50, 50, several), None), [warning]);
}

#[test]
fn many_lost_requests_void_and_a_few_are_left_out() {
    let reset = |id| failed(id, Failure::Reset, "connection reset");
    let void = void_of(&mixed(100, 30, reset)).unwrap();
    assert_eq!(void, VoidReason::Infrastructure { share: 0.3, detail: "connection reset".to_owned() });
    assert!(void.may_pass());
    assert_eq!(void_of(&mixed(100, 3, reset)), None);
    let lost = Warning::Lost { count: 3, of: 100, detail: "connection reset".to_owned() };
    assert_eq!(warned(&mixed(100, 3, reset), None), [lost]);
    // Of a few requests one or two may be lost by chance.
    assert_eq!(void_of(&mixed(8, 2, reset)), None);
    let gateway = |id| failed(id, Failure::Server, "HTTP 502 Bad Gateway");
    assert!(void_of(&mixed(100, 30, gateway)).is_some());
}

#[test]
fn a_server_that_fails_most_requests_is_broken_and_one_that_turns_them_away_is_loaded() {
    let broken = |id| failed(id, Failure::Server, "HTTP 500 Internal Server Error");
    assert!(void_of(&mixed(100, 70, broken)).is_some());
    assert_eq!(void_of(&mixed(100, 30, broken)), None);
    for (cause, detail) in [
        (Failure::Throttled, "HTTP 429 Too Many Requests"),
        (Failure::Server, "HTTP 503 Service Unavailable: busy"),
        (Failure::Server, "HTTP 504 Gateway Timeout"),
        (Failure::Timeout, "no whole answer within 600 s"),
    ] {
        assert_eq!(void_of(&mixed(100, 90, |id| failed(id, cause, detail))), None, "{detail}");
    }
}

#[test]
fn outputs_of_another_length_are_another_load() {
    let short = |id| RequestRecord {
        osl: 256,
        outcome: Outcome::Completed { finish: Some("stop".to_owned()) },
        ..smooth(id)
    };
    let void = void_of(&mixed(100, 100, short)).unwrap();
    assert_eq!(void, VoidReason::OutputLength { asked: 256.0, got: 64.0, stopped: 1.0 });
    assert!(void.to_string().contains("100% ended by themselves"), "{void}");
    let long = |id| RequestRecord { osl: 16, ..smooth(id) };
    assert!(matches!(void_of(&mixed(100, 100, long)), Some(VoidReason::OutputLength { .. })));
    let warned = warned(&mixed(100, 20, short), None);
    assert!(matches!(warned[..], [Warning::OutputLength { stopped: 0.2, .. }]), "{warned:?}");
}

#[test]
fn the_template_is_measured_and_a_spread_of_counts_is_told() {
    let checks = Checks::of(&mixed(10, 0, smooth));
    assert_eq!(checks.overhead, Some(Overhead { min: 7, median: 7, max: 7 }));
    assert_eq!((checks.prompt_built, checks.prompt_counted), (100.0, Some(107.0)));
    let uneven = |id| RequestRecord { isl_server: Some(107 + 10 * (id as u32 % 3)), ..smooth(id) };
    let warned = warned(&mixed(9, 9, uneven), None);
    assert_eq!(warned, [Warning::TokenCounts(Overhead { min: 7, median: 17, max: 27 })]);
}

/// A client with nothing wrong.
fn fit() -> ClientHealth {
    ClientHealth {
        lag_p95: 0.0005,
        lag_p99: 0.002,
        lag_samples: 300,
        busy: 0.2,
        waiting: 0.01,
        ..ClientHealth::default()
    }
}

#[test]
fn a_starved_or_saturated_client_voids_by_its_share_of_the_tightest_limit() {
    let checks = Checks::of(&mixed(100, 0, smooth));
    let with = |client: ClientHealth| void_reason(&slo(), &checks, Some(&client));
    assert_eq!(with(fit()), None);
    // The tightest limit is 50 ms between tokens: 6 ms late is worth a word, 15 ms decides.
    assert_eq!(with(ClientHealth { lag_p95: 0.006, ..fit() }), None);
    assert!(matches!(with(ClientHealth { lag_p95: 0.015, ..fit() }), Some(VoidReason::Client { .. })));
    assert!(matches!(with(ClientHealth { read_delay: 0.015, ..fit() }), Some(VoidReason::Client { .. })));
    assert!(matches!(with(ClientHealth { busy: 0.97, ..fit() }), Some(VoidReason::Client { .. })));
    let starved = with(ClientHealth { busy: 0.3, waiting: 0.69, ..fit() }).unwrap();
    assert!(starved.to_string().contains("waiting for a CPU"), "{starved}");
    // Too short a look tells nothing of a tail.
    assert_eq!(with(ClientHealth { lag_p95: 0.015, lag_samples: 5, ..fit() }), None);
    let unprobed = ClientHealth { lag_samples: 1, waiting: 0.98, busy: 0.01, read_delay: 0.06, ..fit() };
    assert!(matches!(with(unprobed), Some(VoidReason::Client { lag: 0.06, .. })));
    let strained = warned(&mixed(100, 0, smooth), Some(ClientHealth { lag_p95: 0.006, ..fit() }));
    assert!(matches!(strained[..], [Warning::Client { .. }]), "{strained:?}");
}

#[test]
fn an_average_over_a_requests_tokens_leaves_the_client_more_room() {
    let slo = Slo::parse(["tpot p95 < 10ms"]).unwrap();
    assert_eq!(gates::tightest_limit(&slo, 101.0), Some(1.0));
    let slo = Slo::parse(["output-tokens-per-second-per-user p5 > 20", "ttft p95 < 8s"]).unwrap();
    assert_eq!(gates::tightest_limit(&slo, 101.0), Some(5.0));
    assert_eq!(gates::tightest_limit(&Slo::none(), 101.0), None);
}

#[test]
fn other_programs_on_the_servers_host_are_told() {
    let others = |cores, apart_from_server| {
        let others = crate::loadgen::host::Others { cores, of: 2.0, server: Some(0.8), apart_from_server };
        warned(&mixed(100, 0, smooth), Some(ClientHealth { others: Some(others), ..fit() }))
    };
    assert_eq!(others(0.2, true), []);
    assert_eq!(others(1.1, true), [Warning::ForeignCpu { cores: 1.1, of: 2.0, load: Load::Concurrency(8) }]);
    // Where the server's share cannot be told from the rest, nothing is said.
    assert_eq!(others(1.1, false), []);
}

#[test]
fn too_few_requests_for_a_percentile_say_how_many_more() {
    let slo = Slo::parse(["ttft p99 < 500ms"]).unwrap();
    let reading = |of| Reading {
        over: 0,
        of,
        figure: Some(0.1),
        margin: -1.0,
        variance: 0.1,
        log_load: 2.0,
        profile: Vec::new(),
        blocks: Vec::new(),
        windows: None,
    };
    let checks = Checks::default();
    let told = |sizes: &[u32]| {
        let readings: Vec<Vec<Reading>> = sizes.iter().map(|&of| vec![reading(of)]).collect();
        let load = Load::Concurrency(8);
        let seen = |readings| Seen { load, counted: true, checks: &checks, client: None, readings };
        warnings(&slo, readings.iter().map(|readings| seen(readings)))
    };
    let expected = Warning::FewSamples {
        objective: "ttft p99 < 500 ms".to_owned(),
        load: Load::Concurrency(8),
        missing: 60,
    };
    assert_eq!(told(&[40]), [expected]);
    assert_eq!(told(&[40, 100]), []);
}
