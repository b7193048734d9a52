#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::plan::{Budget, Lengths, Plan};
use crate::recipe::Recipe;
use crate::search::{Ask, TrialOutcome, strategy};
use crate::sim::model::Disturbance;
use crate::sim::presets;
use crate::sim::session::{SimSession, ready};
use crate::sim::traffic::Traffic;
use crate::trial::Trials;

/// Every run of a profile in virtual time, on a server without noise.
fn profiled(text: &str) -> (ProfilePlan, Figures) {
    let plan = ProfilePlan::of(Recipe::from_toml(text, "test").unwrap(), None).unwrap();
    let runs: Vec<(Shape, Vec<TrialOutcome>)> =
        plan.each().map(|(shape, plan)| (shape, run(&plan))).collect();
    let figures = figures(&plan, runs.iter().map(|(shape, outcomes)| (*shape, outcomes.iter().collect())));
    (plan, figures)
}

fn run(plan: &Plan) -> Vec<TrialOutcome> {
    let mut params = presets::LLAMA_8B.params;
    params.noise = Disturbance::NONE;
    let traffic = Traffic::of(plan.workload.isl.clone(), plan.workload.osl.clone());
    let session = SimSession::with_gaps(params, traffic, plan.seed);
    let mut trials = Trials::new(session, plan.slo.clone(), Budget::default(), 1, true);
    let (mut strategy, mut outcomes) = (strategy(plan), Vec::new());
    while let Ask::Trial(spec) = strategy.ask() {
        let finished = ready(trials.run(&spec, &mut |_| {})).unwrap();
        strategy.tell(&finished.outcome);
        outcomes.push(finished.outcome);
    }
    outcomes
}

const LLAMA: &str = "[target]\nsimulated = 'llama-8b'\n";

#[test]
fn the_prefill_curve_finds_what_a_prompt_token_takes() {
    let (_, figures) = profiled(&format!("{LLAMA}[profile]\nkind = 'prefill'\nisl = '256..8000'"));
    assert_eq!(figures.cells.len(), 8);
    let fit = figures.prefill.unwrap();
    let cost = presets::LLAMA_8B.params.cost;
    // Its own work, and its place in the cache that the step reads.
    let token = cost.per_prefill_token + cost.per_kv_token;
    assert!((fit.linear.value / token - 1.0).abs() < 0.01, "{fit:?}");
    assert!((fit.fixed / cost.base - 1.0).abs() < 0.1, "{fit:?}");
    assert_eq!(fit.quadratic, None, "this server has no attention that grows: {fit:?}");
    assert!((fit.at_longest.value * token - 1.0).abs() < 0.01);
}

#[test]
fn the_decode_surface_finds_what_a_step_takes() {
    let (plan, figures) = profiled(&format!(
        "{LLAMA}[profile]\nkind = 'decode'\nisl = 128\nosl = [64, 512]\nconcurrency = [1, 4, 16, 64]"
    ));
    assert_eq!(figures.cells.len(), plan.trials());
    assert_eq!(figures.pace, Some(Pace::Itl));
    let cost = presets::LLAMA_8B.params.cost;
    for step in &figures.step_times {
        // Half of the output is in the cache on average, and each token of a user comes with a share of the
        // next prompt, which the median of long outputs does not see.
        let osl = f64::from(step.osl);
        let decoding = cost.per_sequence + cost.per_kv_token * (128.0 + osl / 2.0);
        let with_prompts = decoding + 128.0 / osl * cost.per_prefill_token;
        let range = 0.9 * decoding..1.1 * with_prompts;
        assert!(range.contains(&step.each.value), "{step:?} {range:?}");
        assert!((step.alone.value / (cost.base + decoding) - 1.0).abs() < 0.06, "{step:?}");
    }
    let itl = |osl: u32, users: u32| {
        let cell = figures.cells.iter().find(|cell| cell.shape.osl == osl && cell.concurrency == users);
        cell.unwrap().itl.unwrap().p50
    };
    for osl in [64, 512] {
        let (many, one) = (itl(osl, 64), itl(osl, 1));
        assert!(many > 1.2 * one, "outputs of {osl}: {many} s with 64 users, {one} s with one");
    }
}

#[test]
fn tokens_that_are_handed_on_together_are_judged_by_their_mean() {
    let (plan, _) = profiled("[profile]\nkind = 'decode'\nosl = 64\nconcurrency = [1, 2, 4, 8]");
    let mut outcomes = run(&plan.each().next().unwrap().1);
    for outcome in &mut outcomes {
        outcome.checks.chunks_together = 2.0;
        if let Some(itl) = outcome.summary.metrics.get_mut("itl") {
            itl.p50 = 0.0;
        }
    }
    let figures = figures(&plan, [(plan.shapes[0], outcomes.iter().collect())]);
    assert_eq!(figures.pace, Some(Pace::Tpot));
    assert!(figures.step_times[0].alone.value > 1e-3 && figures.step_times[0].each.value > 0.0);
}

#[test]
fn each_shape_has_a_front_of_its_own() {
    let (_, figures) = profiled(&format!(
        "{LLAMA}[profile]\nkind = 'pareto'\nisl = [128, 2048]\nosl = 64\nconcurrency = [1, 8, 64]\ngpus = 2"
    ));
    assert_eq!(figures.fronts.len(), 2);
    for front in &figures.fronts {
        assert_eq!(front.points.len(), 3);
        // More load, more in all and less for each: this server has no load that is worse on both sides.
        assert!(front.points.iter().all(|point| point.best), "{front:?}");
        assert!(front.points.windows(2).all(|pair| pair[0].per_user > pair[1].per_user));
        assert!(front.points.iter().all(|point| point.per_gpu == Some(point.total / 2.0)));
    }
    let total = |index: usize| figures.fronts[index].points[2].total;
    assert!(total(0) > total(1), "long prompts leave less time for tokens");
}

#[test]
fn a_shape_whose_trials_are_void_says_why_and_is_in_no_curve() {
    let (plan, _) = profiled("[profile]\nkind = 'pareto'\nisl = 64\nosl = 16\nconcurrency = 2");
    let mut outcomes = run(&plan.each().next().unwrap().1);
    for outcome in &mut outcomes {
        let reason = crate::verdict::VoidReason::BufferedStream { share: 1.0 };
        outcome.verdict = crate::verdict::Verdict::Void(reason);
    }
    let figures = figures(&plan, [(plan.shapes[0], outcomes.iter().collect())]);
    assert!(figures.cells[0].void.as_ref().unwrap().contains("came in one burst"));
    assert!(figures.cells[0].itl.is_none() && figures.fronts.is_empty());
    assert!(matches!(plan.plan.workload.isl, Lengths::Fixed { tokens: 64 }));
}
