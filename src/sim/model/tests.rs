#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

fn params() -> Params {
    Params {
        cost: StepCost {
            base: 0.010,
            per_sequence: 0.001,
            per_kv_token: 1e-6,
            per_prefill_token: 1e-4,
            pad: 0,
            dip: None,
        },
        noise: Disturbance::NONE,
        max_seqs: 8,
        max_batched_tokens: 256,
        kv: KvPolicy::Reserve { tokens: 1_000_000 },
        prefix_hit: 0.0,
        prefix_caching: true,
        speculation: None,
        failures: 0.0,
        early_stop: None,
    }
}

fn job(id: u64, isl: u32, osl: u32) -> Job {
    Job { id, arrival: 0.0, isl, osl, may_stop: true, after: None, keep: None }
}

/// Runs `jobs`, all there at 0, until the server is idle.
fn run(params: Params, jobs: &[Job]) -> (Model, Vec<Event>) {
    let mut model = Model::new(params, 3);
    model.report_tokens(true);
    let mut events = Vec::new();
    for &job in jobs {
        model.submit(job);
    }
    let mut steps = 0;
    while model.step(&mut events) {
        steps += 1;
        assert!(steps < 100_000, "the server does not come to rest");
    }
    (model, events)
}

fn served(events: &[Event]) -> Vec<Served> {
    let mut all: Vec<Served> = events
        .iter()
        .filter_map(|event| if let Event::Finished(served) = event { Some(*served) } else { None })
        .collect();
    all.sort_by_key(|served| served.job.id);
    all
}

#[test]
fn a_lone_request_takes_the_time_of_its_steps() {
    let (_, events) = run(params(), &[job(0, 300, 4)]);
    let one = served(&events)[0];
    // Prompt in two pieces (256, 44), then three tokens over 301, 302 and 303 resident tokens.
    let first = (0.010 + 256e-6 + 0.0256) + (0.010 + 300e-6 + 0.0044);
    let last = first + 3.0 * 0.011 + (301.0 + 302.0 + 303.0) * 1e-6;
    assert!((one.first.unwrap() - first).abs() < 1e-12, "{one:?}");
    assert!((one.latest.unwrap() - last).abs() < 1e-12, "{one:?}");
    assert_eq!((one.first_step, one.last_step, one.tokens), (2, 5, 4));
}

#[test]
fn never_runs_more_sequences_than_its_cap_and_serves_first_come_first_served() {
    let jobs: Vec<Job> = (0..20).map(|id| job(id, 10, 5 + id as u32 % 3)).collect();
    let mut model = Model::new(params(), 1);
    jobs.iter().for_each(|&job| model.submit(job));
    let mut events = Vec::new();
    let mut most = 0;
    while model.step(&mut events) {
        most = most.max(model.gauges().running);
    }
    assert_eq!(most, 8);
    let firsts: Vec<f64> = served(&events).iter().map(|served| served.first.unwrap()).collect();
    assert!(firsts.is_sorted(), "{firsts:?}");
}

#[test]
fn the_token_budget_bounds_every_step() {
    let jobs: Vec<Job> = (0..8).map(|id| job(id, 200, 4)).collect();
    let (model, events) = run(params(), &jobs);
    // 1,600 prompt tokens at 256 a step, some of them taken by running sequences: seven steps.
    let last_first = served(&events).iter().map(|served| served.first_step).max().unwrap();
    assert_eq!(last_first, 7);
    assert_eq!(model.counters().prompt_tokens, 1600);
    assert_eq!(model.counters().generation_tokens, 32);
}

#[test]
fn a_reserving_server_admits_only_what_fits_whole() {
    let tight = Params { kv: KvPolicy::Reserve { tokens: 250 }, ..params() };
    let mut model = Model::new(tight, 1);
    (0..4).for_each(|id| model.submit(job(id, 60, 60)));
    let mut events = Vec::new();
    let mut most = 0;
    while model.step(&mut events) {
        most = most.max(model.gauges().running);
        assert!(model.gauges().kv_usage <= 1.0);
    }
    assert_eq!((most, served(&events).len()), (2, 4));
    assert_eq!(model.counters().preemptions, 0);
}

#[test]
fn a_paged_server_preempts_the_youngest_and_computes_it_again() {
    let tight = Params { kv: KvPolicy::Paged { blocks: 12 }, ..params() };
    let (model, events) = run(tight, &[job(0, 60, 80), job(1, 60, 80)]);
    let all = served(&events);
    assert_eq!((all[0].preemptions, all[0].tokens), (0, 80));
    assert!(all[1].preemptions >= 1, "{all:?}");
    assert_eq!(all[1].tokens, 80);
    assert!(all[1].latest > all[0].latest);
    assert_eq!(model.counters().preemptions, u64::from(all[1].preemptions));
    assert_eq!(model.counters().generation_tokens, 160);
    let gauges = model.gauges();
    assert_eq!((gauges.running, gauges.waiting, gauges.kv_usage), (0, 0, 0.0));
}

#[test]
fn a_paged_server_never_holds_more_than_its_cache() {
    let tight = Params { kv: KvPolicy::Paged { blocks: 60 }, ..params() };
    for speculation in [None, Some(Speculation { draft: 3, acceptance: 0.7 })] {
        let mut model = Model::new(Params { speculation, ..tight }, 1);
        let mut stream = Stream::new(9, "test");
        let jobs = (0..60).map(|id| job(id, 1 + stream.below(400) as u32, 1 + stream.below(300) as u32));
        jobs.for_each(|job| model.submit(job));
        let mut events = Vec::new();
        while model.step(&mut events) {
            assert!(model.gauges().kv_usage <= 1.0, "{:?}", model.gauges());
            assert!(model.counters().steps < 1_000_000);
        }
        assert_eq!(served(&events).len(), 60);
        assert!(model.counters().preemptions > 0);
        assert_eq!(model.gauges().kv_usage, 0.0);
    }
}

#[test]
fn a_request_larger_than_the_cache_is_served_alone() {
    for kv in [KvPolicy::Reserve { tokens: 64 }, KvPolicy::Paged { blocks: 4 }] {
        let (_, events) = run(Params { kv, ..params() }, &[job(0, 500, 20), job(1, 10, 5), job(2, 500, 5)]);
        assert_eq!(served(&events).len(), 3, "{kv:?}");
    }
}

#[test]
fn token_reports_agree_with_what_was_served() {
    let fast = Params { speculation: Some(Speculation { draft: 4, acceptance: 0.6 }), ..params() };
    let jobs: Vec<Job> = (0..12).map(|id| job(id, 50, 1 + 17 * id as u32)).collect();
    let (_, events) = run(fast, &jobs);
    for served in served(&events) {
        let mut times = Vec::new();
        let mut tokens = 0;
        for event in &events {
            if let Event::Tokens { id, count, at } = *event
                && id == served.job.id
            {
                times.push(at);
                tokens += count;
            }
        }
        assert_eq!(tokens, served.job.osl);
        assert_eq!((times.first().copied(), times.last().copied()), (served.first, served.latest));
        assert!(times.is_sorted());
    }
}

#[test]
fn speculation_gives_its_mean_tokens_a_step() {
    let speculation = Speculation { draft: 4, acceptance: 0.6 };
    let fast = Params { speculation: Some(speculation), ..params() };
    let (_, events) = run(fast, &[job(0, 50, 200_000)]);
    let counts: Vec<u32> = events
        .iter()
        .filter_map(|event| if let Event::Tokens { count, .. } = event { Some(*count) } else { None })
        .skip(1)
        .collect();
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    assert!((mean / speculation.mean_tokens() - 1.0).abs() < 0.01, "{mean}");
    assert_eq!(counts.iter().max(), Some(&5));
}

#[test]
fn cached_prompt_tokens_need_no_prefill() {
    let cached = Params { prefix_hit: 0.5, ..params() };
    let (model, events) = run(cached, &[job(0, 200, 2)]);
    let first = served(&events)[0].first.unwrap();
    // 96 of 200 tokens (whole blocks) are there already.
    assert!((first - (0.010 + 200e-6 + 104.0 * 1e-4)).abs() < 1e-12, "{first}");
    assert_eq!((model.counters().prefix_hits, model.counters().prefix_queries), (96, 200));
}

#[test]
fn failures_and_early_stops_come_at_their_shares() {
    let odd =
        Params { failures: 0.2, early_stop: Some(EarlyStop { share: 0.5, fraction: 0.25 }), ..params() };
    let jobs: Vec<Job> = (0..2000).map(|id| Job { may_stop: id % 2 == 0, ..job(id, 10, 40) }).collect();
    let (model, events) = run(odd, &jobs);
    let all = served(&events);
    assert_eq!(model.counters().failed + all.len() as u64, 2000);
    assert!((320..480).contains(&model.counters().failed), "{}", model.counters().failed);
    let stopped = all.iter().filter(|served| served.stopped_early).count();
    assert!((300..500).contains(&stopped), "{stopped}");
    assert!(all.iter().all(|served| served.tokens == if served.stopped_early { 10 } else { 40 }));
    assert!(all.iter().all(|served| !served.stopped_early || served.job.may_stop));
}

#[test]
fn a_cancelled_request_leaves_nothing_behind() {
    for kv in [KvPolicy::Reserve { tokens: 2000 }, KvPolicy::Paged { blocks: 100 }] {
        let mut model = Model::new(Params { kv, ..params() }, 1);
        (0..12).for_each(|id| model.submit(job(id, 100, 50)));
        let mut events = Vec::new();
        for _ in 0..4 {
            model.step(&mut events);
        }
        let ids: Vec<u64> = model.in_service().map(|served| served.job.id).collect();
        assert_eq!(ids.len(), 12);
        let seen: Vec<Served> = ids.iter().map(|&id| model.cancel(id).unwrap()).collect();
        assert!(seen.iter().any(|served| served.tokens > 0) && seen.iter().any(|served| served.tokens == 0));
        assert!(model.is_idle() && model.cancel(0).is_none());
        assert_eq!(model.gauges(), Gauges::default());
        assert_eq!(model.kv.resident, 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_bit_for_bit() {
    let noisy = Params {
        noise: Disturbance {
            step: 0.1,
            slow_sd: 0.05,
            slow_time: 10.0,
            stall_rate: 0.1,
            stall_mean: 0.2,
            ..Disturbance::NONE
        },
        failures: 0.1,
        ..params()
    };
    let jobs: Vec<Job> = (0..50).map(|id| job(id, 70, 20)).collect();
    let (_, one) = run(noisy, &jobs);
    let (_, two) = run(noisy, &jobs);
    assert_eq!(one, two);
}

#[test]
fn padding_and_a_dip_change_the_cost_of_their_batches_only() {
    let odd = Params {
        cost: StepCost { pad: 4, dip: Some(Dip { low: 3, high: 3, factor: 2.0 }), ..params().cost },
        ..params()
    };
    let model = Model::new(odd, 1);
    let work: Vec<f64> = (0..6).map(|batch| model.work(batch, 0)).collect();
    for (got, expected) in work.iter().zip([0.010, 0.014, 0.014, 0.028, 0.014, 0.018]) {
        assert!((got - expected).abs() < 1e-12, "{work:?}");
    }
}

#[test]
fn params_that_cannot_run_are_named() {
    let cases = [
        (Params { max_seqs: 0, ..params() }, "max_seqs"),
        (Params { failures: 1.5, ..params() }, "failures"),
        (Params { cost: StepCost { base: f64::NAN, ..params().cost }, ..params() }, "cost.base"),
    ];
    assert_eq!(params().check(), Ok(()));
    for (params, field) in cases {
        let message = params.check().unwrap_err().to_string();
        assert!(message.contains(field), "{message}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, ..Default::default() })]

    /// Whatever the server and the requests: each ends once, with all its tokens, and leaves nothing.
    #[test]
    fn every_request_ends_once_and_nothing_is_left(
        max_seqs in 1_u32..20,
        max_batched_tokens in 1_u32..300,
        blocks in 1_u64..60,
        paged: bool,
        draft in 0_u32..4,
        prefix_hit in 0.0..1.0_f64,
        failures in 0.0..0.3_f64,
        lengths in proptest::collection::vec((1_u32..200, 1_u32..100), 1..30),
        cancel in 0_usize..30,
    ) {
        let kv = if paged { KvPolicy::Paged { blocks } } else { KvPolicy::Reserve { tokens: 16 * blocks } };
        let speculation = (draft > 0).then_some(Speculation { draft, acceptance: 0.6 });
        let server = Params { max_seqs, max_batched_tokens, kv, speculation, prefix_hit, failures, ..params() };
        let mut model = Model::new(server, 1);
        let mut events = Vec::new();
        for (id, &(isl, osl)) in lengths.iter().enumerate() {
            model.submit(job(id as u64, isl, osl));
            model.step(&mut events);
        }
        let cancelled = model.cancel(cancel as u64);
        let mut steps = 0;
        while model.step(&mut events) {
            steps += 1;
            proptest::prop_assert!(steps < 200_000, "the server does not come to rest");
        }
        let served = served(&events);
        for one in &served {
            proptest::prop_assert_eq!(one.tokens, one.job.osl);
            proptest::prop_assert!(one.first >= one.admitted && one.latest >= one.first);
        }
        let mut ids: Vec<u64> = served.iter().map(|one| one.job.id).collect();
        ids.extend(events.iter().filter_map(|event| if let Event::Failed { job, .. } = event { Some(job.id) } else { None }));
        ids.extend(cancelled.map(|one| one.job.id));
        ids.sort_unstable();
        proptest::prop_assert_eq!(ids, (0..lengths.len() as u64).collect::<Vec<u64>>());
        proptest::prop_assert_eq!(model.gauges(), Gauges::default());
        proptest::prop_assert_eq!(model.kv.resident, 0);
        let produced: u32 = served.iter().map(|one| one.tokens).sum::<u32>() + cancelled.map_or(0, |one| one.tokens);
        proptest::prop_assert_eq!(model.counters().generation_tokens, u64::from(produced));
    }
}
