#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::rng::Stream;
use crate::search::tuner::FailureKind;
use crate::space::KnobSection;

fn space(text: &str) -> Space {
    let sections: BTreeMap<String, KnobSection> = toml::from_str(text).unwrap();
    Space::from_sections(&sections, &[]).unwrap()
}

const SPACE: &str = "
    [size]
    type = 'int'
    range = [1, 512]
    scale = 'log'
    step = 2
    default = 256
    [share]
    type = 'float'
    range = [0.0, 1.0]
    step = 0.125
    default = 0.5
    [kind]
    type = 'choice'
    values = ['a', 'b', 'c']
    default = 'a'
";

/// Best at size 32, share 0.75, kind c; sizes over 128 of kind b do not start.
fn truth(space: &Space, point: &Point) -> Option<f64> {
    let [kind, share, size] = [point[0], point[1], point[2]];
    assert_eq!(space.knobs()[0].name, "kind");
    if kind == 1.0 && size > 128.0 {
        return None;
    }
    let bump = [0.0, 0.05, 0.2][kind as usize];
    Some(bump - 0.1 * (size.log2() - 5.0).powi(2) / 4.0 - (share - 0.75).powi(2))
}

fn run(tuner: &mut dyn Tuner, space: &Space, seed: u64) -> (Vec<Point>, Enough) {
    let mut noise = Stream::new(seed, "test");
    let mut tried = Vec::new();
    loop {
        match tuner.ask() {
            TunerAsk::Done(why) => return (tried, why),
            TunerAsk::Try(point) => {
                assert_eq!(tuner.ask(), TunerAsk::Try(point.clone()), "asked twice, it says the same");
                let outcome = match truth(space, &point) {
                    Some(value) => {
                        Tried::Measured { log_value: value + 0.03 * noise.normal(), variance: 0.0009 }
                    }
                    None => Tried::Failed(FailureKind::OutOfMemory),
                };
                tuner.tell(&point, outcome, TrialCost { launch: 60.0, measure: 100.0 });
                tried.push(point);
            }
        }
    }
}

#[test]
fn it_finds_a_setting_near_the_best_in_few_launches_and_tries_none_twice() {
    let space = space(SPACE);
    for seed in 0..5 {
        let mut tuner = Bayes::new(space.clone(), 20, seed);
        let (tried, _) = run(&mut tuner, &space, seed);
        let distinct: BTreeSet<String> = tried.iter().map(|point| format!("{point:?}")).collect();
        assert_eq!(distinct.len(), tried.len());
        let best = tuner.recommend().unwrap();
        let value = truth(&space, &best.point).expect("a setting that fails is never recommended");
        assert!(value > 0.2 - 0.06, "seed {seed}: {value} after {} launches", tried.len());
    }
}

#[test]
fn the_default_comes_first_and_every_category_is_among_the_first() {
    let space = space(SPACE);
    for seed in 0..20 {
        let first = first(&space, 20, seed);
        assert_eq!(first.len(), 6);
        assert_eq!(first[0], space.default_point());
        let kinds: BTreeSet<u64> = first.iter().map(|point| point[0] as u64).collect();
        assert_eq!(kinds.len(), 3);
    }
}

#[test]
fn what_lies_far_below_the_best_is_drawn_nearer_in_its_order() {
    let mut values = [0.0, -0.19, -0.3, -2.0, -9.0];
    nearer(&mut values);
    assert_eq!(values[..2], [0.0, -0.19]);
    // 0.2 + 0.1 ln(1 + (0.3 - 0.2) / 0.1).
    assert!((values[2] - -(0.2 + 0.1 * 2.0_f64.ln())).abs() < 1e-12, "{values:?}");
    assert!(values.windows(2).all(|pair| pair[0] > pair[1]) && values[4] > -0.7, "{values:?}");
}

#[test]
fn told_the_same_it_asks_the_same() {
    let space = space(SPACE);
    let (mut a, mut b) = (Bayes::new(space.clone(), 12, 4), Bayes::new(space.clone(), 12, 4));
    assert_eq!(run(&mut a, &space, 4).0, run(&mut b, &space, 4).0);
}

#[test]
fn a_flat_objective_ends_the_search_before_its_launches() {
    let space = space("[n]\ntype='int'\nrange=[1,40]\ndefault=20");
    let mut tuner = Bayes::new(space.clone(), 30, 1);
    let mut launches = 0;
    let why = loop {
        match tuner.ask() {
            TunerAsk::Done(why) => break why,
            TunerAsk::Try(point) => {
                launches += 1;
                tuner.tell(&point, Tried::Measured { log_value: 1.0, variance: 1e-4 }, TrialCost::default());
            }
        }
    };
    assert!(
        matches!(why, Enough::NotWorthALaunch { expected_gain } if expected_gain < WORTHWHILE),
        "{why:?}"
    );
    assert!(launches < 15, "{launches}");
}

#[test]
fn where_everything_fails_it_recommends_nothing_and_tries_all() {
    let space = space("[n]\ntype='int'\nrange=[1,6]\ndefault=3");
    let mut tuner = Bayes::new(space.clone(), 30, 1);
    let mut launches = 0;
    while let TunerAsk::Try(point) = tuner.ask() {
        launches += 1;
        tuner.tell(&point, Tried::Failed(FailureKind::Start), TrialCost::default());
    }
    assert_eq!((launches, tuner.recommend()), (6, None));
}

#[test]
fn a_setting_that_needs_no_launch_is_preferred_to_an_equal_one_that_does() {
    let space = space(
        "[slow]\ntype='int'\nrange=[1,9]\ndefault=5\n[quick]\ntype='int'\nrange=[1,9]\ndefault=5\nrestart=false",
    );
    let mut tuner = Bayes::new(space.clone(), 40, 2);
    let mut without_launch = 0;
    let mut last: Option<f64> = None;
    for step in 0..16 {
        let TunerAsk::Try(point) = tuner.ask() else { break };
        // Axis 0 is `quick`, axis 1 is `slow`; both count for the same.
        let relaunch = last != Some(point[1]);
        last = Some(point[1]);
        without_launch += u32::from(!relaunch && step >= 5);
        let value = 0.05 * (point[0] + point[1]);
        let launch = if relaunch { 600.0 } else { 0.0 };
        tuner.tell(
            &point,
            Tried::Measured { log_value: value, variance: 1e-4 },
            TrialCost { launch, measure: 20.0 },
        );
    }
    // By chance one try in nine would need no launch, and the search is over in less than nine more.
    assert!(without_launch >= 2, "{without_launch}");
}
