#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::search::race::{Race, Rival};
use crate::sim::scenarios::find;

use gate::{BOUNDS, broken};
use peers::bench::{Bench, Start};

fn options(scenarios: &[&str], searches: usize) -> Options {
    let scenarios = scenarios.iter().map(|&name| name.to_owned()).collect();
    Options { scenarios, searches, peer_searches: 2, ..Options::default() }
}

/// What one search of each method said.
fn all_said(scenario: &str, seed: u64) -> Vec<Said> {
    let scenario = find(scenario).unwrap();
    let range = LoadRange { min: 1, max: scenario.max_load };
    let slo = Slo::parse(scenario.slo.iter().copied()).unwrap();
    let mut adaptive = Adaptive::new(slo, Settings::new(range, 0.2, seed));
    let mut said = vec![search(&scenario, seed, &mut adaptive, |_| {}).unwrap()];
    said.extend(peers::ALL.iter().map(|peer| peer.search(&scenario, seed).unwrap()));
    said
}

#[test]
fn a_few_searches_are_about_right_and_never_leave_the_range() {
    let result = run(&options(&["seqcliff", "never", "infeasible"], 8), &mut |_| {}).unwrap();
    for result in &result.scenarios {
        let tally = &result.tallies[0];
        assert!(tally.coverage >= 0.75, "{tally:?}");
        assert!(tally.error <= 0.1 && tally.over_safe <= 0.25, "{tally:?}");
        assert!(tally.trials >= 1.0 && tally.requests >= 10.0 && tally.seconds > 0.0, "{tally:?}");
    }
}

#[test]
fn every_method_keeps_to_the_range_and_states_an_interval_around_its_answer() {
    for scenario in ["seqcliff", "smallN", "never"] {
        let highest = find(scenario).unwrap().max_load;
        for (method, said) in all_said(scenario, 5).into_iter().enumerate() {
            assert!(said.low <= said.estimate && said.estimate <= highest, "{scenario} {method}: {said:?}");
            let within = |high| said.estimate <= high && high <= highest;
            assert!(said.high.is_none_or(within), "{scenario} {method}: {said:?}");
        }
    }
}

#[test]
fn the_same_seed_says_the_same_bit_for_bit() {
    for scenario in ["seqcliff", "smallN"] {
        let (first, second) = (all_said(scenario, 9), all_said(scenario, 9));
        assert_eq!(first, second);
        let bits = |said: &[Said]| said.iter().map(|said| said.seconds.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&first), bits(&second));
        assert_ne!(bits(&first), bits(&all_said(scenario, 10)));
    }
}

#[test]
fn results_do_not_depend_on_which_thread_searched() {
    let one_by_one: Vec<Said> = (0..6).map(|index| all_said("smallN", 1 + index)[0]).collect();
    let capacity = find("smallN").unwrap().capacity;
    let result = run(&options(&["smallN"], 6), &mut |_| {}).unwrap();
    assert_eq!(result.scenarios[0].tallies[0], Tally::of("smallN", ADAPTIVE, capacity, &one_by_one));
}

#[test]
fn peers_stand_beside_the_search_and_costs_are_compared_with_the_fairest() {
    let mut seen = Vec::new();
    let options = Options { peers: true, ..options(&["never"], 2) };
    let result = run(&options, &mut |progress| seen.push(progress.done)).unwrap();
    let of = 1 + peers::ALL.len();
    assert_eq!(seen, (1..=of).map(|done| (done, of)).collect::<Vec<_>>());
    let tallies = &result.scenarios[0].tallies;
    let fair = tallies.iter().find(|tally| tally.method == peers::FAIR).unwrap();
    let fewer = result.scenarios[0].fewer.unwrap();
    assert_eq!(fewer.requests, fair.requests / tallies[0].requests);
    assert!(fewer.requests > 1.0 && fewer.seconds > 1.0, "{fewer:?}");
    assert_eq!(result.summary.len(), of);
    let table = result.to_string();
    assert!(tallies.iter().all(|tally| table.contains(&tally.method)), "{table}");
}

#[test]
fn every_scenario_stands_in_one_group_and_can_be_judged_by_the_peers() {
    let names: Vec<&str> = Group::ALL.iter().flat_map(|group| group.scenarios()).map(|s| s.name).collect();
    let all: Vec<&str> = scenarios::all().iter().map(|scenario| scenario.name).collect();
    assert_eq!(names, all);
    for scenario in scenarios::all() {
        assert!(Bench::new(&scenario, 1, Start::Burst, 10).is_ok(), "{}", scenario.name);
    }
}

#[test]
fn a_scenario_that_is_not_there_is_named_with_those_that_are() {
    let error = run(&options(&["decode", "decoed"], 1), &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("no scenario is called `decoed`; there are decode, seqcliff"), "{error}");
}

#[test]
fn a_broken_bound_is_named_with_its_value() {
    let tally = |bound: &gate::Bound| Tally {
        scenario: bound.scenario.to_owned(),
        method: ADAPTIVE.to_owned(),
        capacity: 100,
        searches: 60,
        error: bound.error,
        bias: 0.0,
        coverage: bound.coverage.max(0.97),
        over_estimate: 0.0,
        over_safe: 0.0,
        width: 0.2,
        trials: 10.0,
        requests: bound.requests,
        seconds: bound.seconds,
    };
    let result = |bound: &gate::Bound| {
        ScenarioResult::new(Group::Tuning, &find(bound.scenario).unwrap(), vec![tally(bound)])
    };
    let mut good = SelfTest::new(&gate::quick(), BOUNDS.iter().map(result).collect());
    assert_eq!(broken(&good), Vec::<String>::new());
    good.scenarios[0].tallies[0].coverage = 0.5;
    good.scenarios[1].tallies[0].seconds = 1e6;
    good.scenarios.pop();
    let lines = broken(&good);
    assert!(lines[0].contains("decode: the coverage is 0.500"), "{lines:?}");
    assert!(lines[1].contains("seqcliff: the mean number of seconds is 1000000"), "{lines:?}");
    assert!(lines[2].ends_with("did not run"), "{lines:?}");
    assert!(lines[3].contains("the mean coverage"), "{lines:?}");
}

#[test]
fn a_gate_lets_an_unchanged_server_pass_and_stops_a_much_slower_one() {
    let scenario = find("seqcliff").unwrap();
    let options = pairs::GateOptions {
        pairs: 12,
        first_seed: 1,
        precision: 0.1,
        max_loss: 0.1,
        rates: (0.05, 0.05),
        budget: 900.0,
        slower: 1.0,
    };
    let same = pairs::gates(&scenario, &options).unwrap();
    assert!(same.pairs >= 10 && same.failed <= 1 && same.passed > same.undecided, "{same:?}");
    let decode = find("decode-quiet").unwrap();
    let slow = pairs::gates(&decode, &pairs::GateOptions { slower: 1.3, ..options }).unwrap();
    assert!(slow.pairs >= 10 && slow.passed <= 1 && slow.failed > slow.undecided, "{slow:?}");
    assert!(slow.change < -0.2, "{slow:?}");
}

#[test]
fn a_run_judged_anew_agrees_with_a_fresh_search() {
    let scenario = find("decode").unwrap();
    let tally = pairs::anew(&scenario, &["ttft p95 < 1s", "tpot p95 < 31ms"], 12, 1).unwrap();
    assert!(tally.agree >= 11 && tally.anew_covers >= 9, "{tally:?}");
    assert!(tally.bias.abs() < 0.1 && tally.within >= 6, "{tally:?}");
}

/// What searches of `scenario` say of drift, and their estimates.
fn drift_notes(scenario: &Scenario, precision: f64, seeds: std::ops::Range<u64>) -> Vec<(bool, u32, f64)> {
    let slo = Slo::parse(scenario.slo.iter().copied()).unwrap();
    let said = in_parallel(seeds.clone().count(), |index| {
        let seed = seeds.start + index as u64;
        let settings = Settings::new(LoadRange { min: 1, max: 1024 }, precision, seed);
        let mut strategy = Adaptive::new(slo.clone(), settings);
        let said = search(scenario, seed, &mut strategy, |_| {})?;
        let noticed = strategy.answer().notes.iter().any(|note| note.contains("(drift)"));
        Ok::<_, SloError>((noticed, said.estimate, said.seconds))
    });
    said.unwrap()
}

#[test]
fn a_server_that_is_swapped_for_a_slower_one_is_noticed_and_measured_anew() {
    let mut scenario = scenarios::find("decode").unwrap();
    scenario.params.noise.swap_at = 150.0;
    scenario.params.noise.swap_factor = 1.2;
    let said = drift_notes(&scenario, 0.1, 0..24);
    // A search that is over soon after the swap has measured the old server.
    let long: Vec<bool> = said.iter().filter(|said| said.2 > 220.0).map(|said| said.0).collect();
    let noticed = long.iter().filter(|noticed| **noticed).count();
    assert!(long.len() >= 12 && noticed * 10 >= long.len() * 9, "{said:?}");
    // A server a fifth slower carries 85 (`sim::truth` with `swap_at` 0), the one before 109.
    let of_the_new: Vec<f64> =
        said.iter().filter(|said| said.0).map(|said| f64::from(said.1) / 85.0).collect();
    let mean = of_the_new.iter().sum::<f64>() / of_the_new.len() as f64;
    assert!((mean - 1.0).abs() < 0.06, "{mean} {said:?}");
}

#[test]
fn steady_servers_are_not_said_to_drift() {
    for name in ["decode", "seqcliff", "kvcliff", "decodeOU120", "bimodal"] {
        let said = drift_notes(&scenarios::find(name).unwrap(), 0.2, 100..120);
        let alarms = said.iter().filter(|said| said.0).count();
        assert!(alarms <= 1, "{name}: {alarms}");
    }
}

/// Trials run on `decode`, whose capacity is 109, against a rival.
fn race(rival: Rival) -> (Race, u32) {
    let scenario = scenarios::find("decode").unwrap();
    let slo = Slo::parse(scenario.slo.iter().copied()).unwrap();
    let session = SimSession::new(scenario.params, scenario.traffic.clone(), 3);
    let mut trials = Trials::new(session, slo.clone(), Budget::default(), 1, false);
    let settings = Settings::new(LoadRange { min: 1, max: 1024 }, 0.2, 3);
    let mut race = Race::new(Box::new(Adaptive::new(slo, settings)), Some(rival));
    let mut count = 0;
    while let Ask::Trial(spec) = race.ask() {
        let finished = ready(trials.run(&spec, &mut |_| {})).unwrap();
        race.tell(&finished.outcome);
        count += 1;
    }
    (race, count)
}

#[test]
fn a_search_that_cannot_win_is_given_up_and_its_bounds_hold_the_truth() {
    let (lost, trials) = race(Rival::Concurrency(400.0));
    let (low, high) = lost.abandoned().unwrap();
    assert!(low <= 109.0 && 109.0 <= high, "{low} {high}");
    let (won, all) = race(Rival::Concurrency(50.0));
    assert!(won.abandoned().is_none());
    assert!(trials < all, "{trials} {all}");
    let truth = won.answer().goodput.unwrap().requests_per_second;
    let (low, high) = race(Rival::Goodput(10.0 * truth)).0.abandoned().unwrap();
    assert!(low <= truth && truth <= high, "{low} {truth} {high}");
}
