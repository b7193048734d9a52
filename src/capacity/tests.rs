#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::slo::Slo;
use crate::stats::isotonic::Point;

/// A server that carries 40 (32 to 44) in flight and 10 (8 to 11) a second within its SLO: its rate
/// rises by a quarter of a request a second for each of the first 40 in flight, then to 12 at 80.
fn server() -> Server {
    let point = |x, y| Point { x, y, weight: 100.0 };
    let objective = |text: &str| Slo::parse([text]).unwrap().objectives[0];
    Server {
        concurrency: Some(Level { low: 32.0, estimate: 40.0, high: 44.0 }),
        goodput: Level { low: 8.5, estimate: 10.0, high: 10.5 },
        throughput: 12.0,
        confidence: 0.95,
        e2e: Some(4.0),
        isl: Some(500.0),
        osl: Some(200.0),
        rates: vec![point(10.0, 2.5), point(20.0, 5.0), point(40.0, 10.0), point(80.0, 12.0)],
        objectives: vec![
            ObjectiveCurve {
                objective: objective("ttft p95 < 500ms"),
                points: vec![point(10.0, 0.1), point(40.0, 0.5), point(60.0, 0.9), point(80.0, 2.0)],
            },
            ObjectiveCurve {
                objective: objective("tpot p95 < 50ms"),
                points: vec![point(10.0, 0.02), point(40.0, 0.04), point(50.0, 0.05), point(80.0, 0.08)],
            },
        ],
    }
}

fn bare(server: &Server, rate: f64) -> Fleet {
    fleet(server, rate, &Policy::bare()).unwrap()
}

#[test]
fn throughput_buys_38_where_goodput_needs_135() {
    // 500 requests a second. At its best, SLO or not, a server completes 13.3: 500 / 13.3 = 37.6.
    // Within the SLO it is 3.72: 500 / 3.72 = 134.4.
    let fleet = bare(&Server::of_rates(Level::exact(3.72), 13.3), 500.0);
    assert_eq!((fleet.by_throughput.servers, fleet.steps.goodput, fleet.servers), (38, 135, 135));
    assert_eq!(fleet.interval, Range { low: 135, high: 135 });
}

#[test]
fn each_step_is_the_hand_worked_one() {
    // Lower end: at 32 in flight the curve gives 8.0 a second, less than the goodput's own 8.5.
    // 100 / 10 = 10; 100 / 8 = 12.5; 120 / 8 = 15; one spare. Throughput: 100 / 12, 120 / 12 and one.
    let policy = Policy { headroom: 0.2, redundancy: 1, ..Policy::bare() };
    let fleet = fleet(&server(), 100.0, &policy).unwrap();
    let steps = Steps { goodput: 10, lower_end: 13, headroom: 15, burst: 15, redundancy: 16 };
    assert_eq!(fleet.steps, steps);
    assert_eq!(fleet.by_throughput, ByThroughput { servers: 9, headroom: 10, redundancy: 11 });
    // Upper end: at 44 the curve gives 10.2, the goodput's own is 10.5: 120 / 10.5 = 11.4, and one.
    assert_eq!(fleet.interval, Range { low: 13, high: 16 });
    assert!((fleet.utilisation - 100.0 / (16.0 * 8.0)).abs() < 1e-12);
    // 100 / 16 = 6.25 a second each is 25 in flight; 26 is what headroom leaves of 32.
    assert!((fleet.in_flight.unwrap() - 25.0).abs() < 1e-9);
    assert_eq!(fleet.target_concurrency, Some(25));
}

#[test]
fn a_demand_that_just_fits_takes_no_server_more() {
    let server = Server::of_rates(Level::exact(0.1), 0.1);
    assert_eq!(bare(&server, 0.3).servers, 3);
    assert_eq!(bare(&server, 0.300_001).servers, 4);
    assert_eq!(bare(&server, 0.0).servers, 1);
}

#[test]
fn users_and_tokens_become_rates() {
    let server = server();
    // 3,400 users that come back each 4 + 30 s; 2,000 tokens a second of 200 each; and users that never
    // pause are as many requests in flight.
    assert_eq!(Demand::Users { users: 3400.0, think: 30.0 }.rate(&server), Ok(100.0));
    assert_eq!(Demand::OutputTokens(2000.0).rate(&server), Ok(10.0));
    let steady = Demand::Users { users: 400.0, think: 0.0 };
    assert!(steady.is_steady());
    assert_eq!(bare(&server, steady.rate(&server).unwrap()).steps.goodput, 10);
    let unknown = Server { e2e: None, osl: None, ..server };
    assert_eq!(steady.rate(&unknown), Err(DemandError::NoLatency));
    assert_eq!(Demand::OutputTokens(1.0).rate(&unknown), Err(DemandError::NoLengths));
}

#[test]
fn bursts_take_room_and_pooling_gives_most_of_it_back() {
    let fleet = fleet(&server(), 100.0, &Policy::default()).unwrap();
    // 400 in flight on average with a standard deviation of 20: 400 + 2.33 x 20 = 447 of 32 each is
    // 14.0 servers. Alone, a server of 32 holds 20 on average: 20 + 2.33 x 4.5 = 30.5 (at 21, the
    // tail beyond 32, which is longer than the normal one, is just too much): 400 / 20 = 20.
    assert_eq!((fleet.steps.lower_end, fleet.steps.burst), (13, 14));
    assert_eq!(fleet.unpooled, Some(20));
    let bursty = Policy { burst: Burst::Gamma { shape: 0.25 }, ..Policy::default() };
    assert!(self::fleet::fleet(&server(), 100.0, &bursty).unwrap().servers > 14);
}

#[test]
fn a_looser_objective_saves_what_the_curve_says() {
    // TTFT doubled to 1 s crosses at 60 + 20/11, but TPOT binds at 50 before: 50/40 = 1.25 of the
    // load, 10.5/10 of the rate. The lower end becomes min(8.5 x 1.05, curve at 40 of 32 x 1.25: 10.0)
    // = 8.925; 100 / 8.925 = 11.2.
    let all = relaxations(&server(), 100.0, &Policy::bare()).unwrap();
    let of = |relaxed: &str| all.iter().find(|one| one.relaxed == relaxed).unwrap();
    let doubled = of("ttft p95 < 1 s");
    assert_eq!((doubled.servers, doubled.saves), (12, 1));
    assert_eq!(doubled.binding.as_deref(), Some("tpot p95 < 50 ms"));
    assert!((doubled.concurrency - 50.0).abs() < 1e-9 && !doubled.beyond_measured);
    // TPOT does not bind: to loosen it saves nothing.
    assert_eq!(of("tpot p95 < 100 ms").saves, 0);
    assert_eq!(all.len(), 6);
}

#[test]
fn beyond_what_was_measured_is_said_to_be_so() {
    let mut server = server();
    server.objectives.truncate(1);
    server.objectives[0].points.truncate(3);
    let all = relaxations(&server, 100.0, &Policy::bare()).unwrap();
    let doubled = all.last().unwrap();
    assert_eq!((doubled.relaxed.as_str(), doubled.beyond_measured), ("ttft p95 < 1 s", true));
    assert!((doubled.concurrency - 60.0).abs() < 1e-9);
}

#[test]
fn no_goodput_is_no_fleet() {
    let server = Server::of_rates(Level::exact(0.0), 13.0);
    assert_eq!(fleet(&server, 1.0, &Policy::bare()), Err(CapacityError::NoGoodput));
    let tiny = Server::of_rates(Level::exact(1e-9), 13.0);
    assert_eq!(fleet(&tiny, 1.0, &Policy::bare()), Err(CapacityError::TooMany));
}

#[test]
fn another_confidence_widens_both_ends() {
    // ln(8.5/10) times 2.5758/1.96: 10 x 0.85^1.3142 = 8.077.
    let wide = server().at_confidence(0.99);
    assert!((wide.goodput.low - 8.077).abs() < 1e-3, "{wide:?}");
    assert!(wide.concurrency.unwrap().high > 44.0 && wide.goodput.estimate == 10.0);
}

#[test]
fn a_day_is_counted_hour_by_hour() {
    let series = Series::from_csv("hour,rate\n0,8\n1, 80\n2,40\n").unwrap();
    let policy = Policy { redundancy: 1, ..Policy::bare() };
    let plan = series_plan(&server(), &series, &policy).unwrap();
    let counts: Vec<u32> = plan.hours.iter().map(|hour| hour.fleet.servers).collect();
    assert_eq!((counts.as_slice(), plan.min, plan.max), ([2, 11, 6].as_slice(), 2, 11));
    // The three hours stand for the day: 19 server-hours in 3 hours are 152 in 24.
    assert_eq!((plan.server_hours_per_day, plan.static_server_hours_per_day), (152.0, 264.0));
    assert_eq!(series.peak(), 80.0);
}

#[test]
fn a_malformed_series_is_refused_with_its_line() {
    for (text, expected) in [
        ("", "there are no rates"),
        ("hour,rate\n", "there are no rates"),
        ("hour,load\n0,1\n", "line 1: expected the header `hour,rate` or `time,rate`, found `hour,load`"),
        ("hour,rate\n0,1\n1,x\n", "line 3: `x` is not a rate"),
        ("hour,rate\n0,1\n1,-2\n", "line 3: `-2` is not a rate"),
        ("hour,rate\n0,1\n\n1,2,3\n", "line 4: expected 2 fields (`hour,rate`), found 3"),
        ("hour,rate\n24,1\n", "line 2: `24` is not an hour from 0 to 23"),
        ("time,rate\n08:00,1\n8.30,1\n", "line 3: `8.30` is not a time of day"),
        ("hour,rate\n3,1\n2,1\n", "line 3: `2` does not come after"),
        ("time,rate\n08:00,1\n08:30,1\n09:30,1\n", "line 4: `09:30` breaks the even spacing"),
    ] {
        let error = Series::from_csv(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    assert_eq!(Series::from_csv("\u{feff}time,rate\n08:00,1\n08:30,2\n").unwrap().step_hours, 0.5);
}

fn any_server() -> impl Strategy<Value = Server> {
    let parts = (2.0_f64..200.0, 0.1_f64..50.0, 0.5_f64..1.0, 1.0_f64..1.5, 1.0_f64..6.0, 0.3_f64..1.0);
    parts.prop_map(|(users, goodput, low, high, excess, bend)| {
        let point = |share: f64| Point { x: users * share, y: goodput * share.powf(bend), weight: 1.0 };
        Server {
            concurrency: Some(Level { low: users * low, estimate: users, high: users * high }),
            goodput: Level { low: goodput * low, estimate: goodput, high: goodput * high },
            throughput: goodput * excess,
            rates: [0.25, 0.5, 1.0, 2.0].map(point).to_vec(),
            ..server()
        }
    })
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let burst = prop_oneof![
        Just(Burst::None),
        Just(Burst::Poisson),
        (0.1_f64..3.0).prop_map(|shape| Burst::Gamma { shape })
    ];
    (0.0_f64..1.0, 0_u32..4, burst, 0.9_f64..0.999).prop_map(|(headroom, redundancy, burst, within)| Policy {
        headroom,
        redundancy,
        burst,
        within,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn more_demand_never_needs_fewer_servers(
        server in any_server(), policy in any_policy(), rate in 0.0_f64..2000.0, more in 0.0_f64..500.0,
    ) {
        let (less, more) =
            (fleet(&server, rate, &policy).unwrap(), fleet(&server, rate + more, &policy).unwrap());
        prop_assert!(more.servers >= less.servers, "{less:?} {more:?}");
        prop_assert!(more.by_throughput.redundancy >= less.by_throughput.redundancy);
    }

    #[test]
    fn goodput_never_needs_fewer_than_throughput_and_each_step_adds(
        server in any_server(), policy in any_policy(), rate in 0.0_f64..2000.0,
    ) {
        let fleet = fleet(&server, rate, &policy).unwrap();
        let Steps { goodput, lower_end, headroom, burst, redundancy } = fleet.steps;
        prop_assert!(fleet.servers >= fleet.by_throughput.redundancy);
        prop_assert!(goodput >= fleet.by_throughput.servers);
        prop_assert!(goodput <= lower_end && lower_end <= headroom && headroom <= burst);
        prop_assert_eq!(burst + policy.redundancy, redundancy);
        prop_assert!(fleet.interval.low <= fleet.servers && fleet.servers <= fleet.interval.high);
        prop_assert!(fleet.unpooled.is_none_or(|unpooled| unpooled >= fleet.servers));
    }

    /// Load x N / (N - r) must still hold: what is left carries the demand, its headroom included.
    #[test]
    fn the_rest_carries_the_load_when_the_spare_ones_are_lost(
        server in any_server(), policy in any_policy(), rate in 0.0_f64..2000.0,
    ) {
        let fleet = fleet(&server, rate, &policy).unwrap();
        let left = f64::from(fleet.servers - policy.redundancy);
        let low = server.goodput.low.min(server.at(super::server::End::Low).rate);
        prop_assert!(rate * (1.0 + policy.headroom) / left <= low * (1.0 + 1e-9));
        let each = rate / f64::from(fleet.servers);
        prop_assert!(each * f64::from(fleet.servers) / left <= low * (1.0 + 1e-9));
    }

    #[test]
    fn a_looser_slo_never_needs_more(server in any_server(), rate in 1.0_f64..500.0) {
        for one in relaxations(&server, rate, &Policy::default()).unwrap() {
            prop_assert!(one.saves <= fleet(&server, rate, &Policy::default()).unwrap().servers);
        }
    }
}
