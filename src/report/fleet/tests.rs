#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::report::sample_document;
use crate::report::terminal::Style;
use crate::units::Load;

pub(super) fn wanted(rate: &str) -> Wanted {
    Wanted {
        demand: Asked::Constant(Demand::Rate(rate.parse().unwrap())),
        policy: Policy { headroom: 0.2, redundancy: 1, ..Policy::default() },
        confidence: None,
        gpus_per_server: Some(8),
    }
}

pub(super) fn day() -> Asked {
    let rate = |hour: u32| 40.0 + 35.0 * ((f64::from(hour) - 14.0) / 24.0 * std::f64::consts::TAU).cos();
    let rows: String = (0..24).map(|hour| format!("{hour},{:.1}\n", rate(hour))).collect();
    Asked::Series { series: Series::from_csv(&format!("hour,rate\n{rows}")).unwrap() }
}

pub(super) fn sample_runs(document: &Document) -> Vec<Run<'_>> {
    vec![Run { name: "chat", document, cost: Some(12.5), power: None }]
}

#[test]
fn the_screen_of_a_rate() {
    let document = sample_document();
    let plan = plan(&sample_runs(&document), &wanted("100")).unwrap();
    insta::assert_snapshot!(screen(&plan, Style::default()));
}

#[test]
fn the_screen_of_a_day() {
    let document = sample_document();
    let plan = plan(&sample_runs(&document), &Wanted { demand: day(), ..wanted("1") }).unwrap();
    insta::assert_snapshot!(screen(&plan, Style::default()));
}

#[test]
fn runs_are_ranked_by_cost_and_differences_are_told() {
    let document = sample_document();
    let mut other = document.clone();
    other.slo[0] = "ttft p95 < 900 ms".to_owned();
    other.answer.goodput = other.answer.goodput.map(|mut goodput| {
        goodput.requests_per_second = 5.0;
        goodput.interval = None;
        goodput
    });
    let mut missed = document.clone();
    missed.outcome = SearchOutcome::MissedAtLowest;
    missed.answer.load = None;
    let run = |name, document, cost| Run { name, document, cost: Some(cost), power: None };
    let runs = [run("large", &document, 12.5), run("small", &other, 4.0), run("hopeless", &missed, 1.0)];
    let plan = plan(&runs, &wanted("100")).unwrap();
    let names: Vec<&str> = plan.fleets.iter().map(|fleet| fleet.run.as_str()).collect();
    assert_eq!((names, plan.ranked_by), (vec!["small", "large"], RankedBy::Cost));
    assert!(plan.fleets[0].fleet.servers > plan.fleets[1].fleet.servers);
    assert!(plan.warnings[0].contains("another SLO"), "{:?}", plan.warnings);
    assert!(plan.left_out[0].contains("`hopeless` misses its SLO already at the lowest load"));
    let text = screen(&plan, Style::default());
    assert!(text.contains("ranked by cost") && text.contains("left out"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_run_without_an_answer_is_refused_by_its_cause() {
    let mut document = sample_document();
    document.answer.load = None;
    for (outcome, expected) in [
        (SearchOutcome::MissedAtLowest, FleetError::Missed { run: "chat".to_owned() }),
        (SearchOutcome::Void, FleetError::Void { run: "chat".to_owned() }),
        (SearchOutcome::Interrupted, FleetError::Unanswered { run: "chat".to_owned() }),
    ] {
        document.outcome = outcome;
        assert_eq!(plan(&sample_runs(&document), &wanted("100")), Err(expected));
    }
}

#[test]
fn cost_gpus_and_replicas_are_those_of_the_count() {
    let document = sample_document();
    let plan = plan(&sample_runs(&document), &wanted("100")).unwrap();
    let best = &plan.fleets[0];
    let servers = f64::from(best.fleet.servers);
    let cost = best.cost.unwrap();
    assert_eq!(cost.per_day, 24.0 * 12.5 * servers);
    assert_eq!(best.gpus, Some(8 * best.fleet.servers));
    assert_eq!(best.replicas, (2, best.fleet.servers));
    let tokens = 100.0 * best.server.osl.unwrap() * 86_400.0 / 1e6;
    assert!((cost.per_million_output_tokens.unwrap() - cost.per_day / tokens).abs() < 1e-9);
}

#[test]
fn a_fleet_that_follows_the_day_costs_less_than_a_static_one() {
    let document = sample_document();
    let plan = plan(&sample_runs(&document), &Wanted { demand: day(), ..wanted("1") }).unwrap();
    let cost = plan.fleets[0].cost.unwrap();
    assert!(cost.per_day < 0.8 * cost.static_per_day, "{cost:?}");
}

#[test]
fn users_that_never_pause_do_not_burst() {
    let document = sample_document();
    let demand = Asked::Constant(Demand::Users { users: 400.0, think: 0.0 });
    let plan = plan(&sample_runs(&document), &Wanted { demand, ..wanted("1") }).unwrap();
    let fleet = plan.fleets[0].fleet;
    assert_eq!((fleet.unpooled, fleet.steps.burst), (None, fleet.steps.headroom));
}

#[test]
fn the_document_reads_itself_back_and_says_its_version() {
    let document = sample_document();
    let plan = plan(&sample_runs(&document), &Wanted { demand: day(), ..wanted("1") }).unwrap();
    let json: serde_json::Value = serde_json::from_str(&plan.to_json()).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["fleets"][0]["series"]["hours"].as_array().unwrap().len(), 24);
    assert_eq!(serde_json::from_value::<FleetDocument>(json).unwrap(), plan);
}

#[test]
fn the_manifest_holds_a_pod_below_its_safe_load() {
    let document = sample_document();
    let plan = plan(&sample_runs(&document), &wanted("100")).unwrap();
    let target = plan.fleets[0].fleet.target_concurrency.unwrap();
    assert!(f64::from(target) <= 40.0 / 1.2);
    assert_eq!(document.answer.safe_load, Some(Load::Concurrency(40)));
    let max = plan.fleets[0].fleet.servers;
    let hpa = manifest(&plan, Autoscaler::Hpa).unwrap();
    assert!(
        hpa.contains(&format!("averageValue: \"{target}\"")) && hpa.contains(&format!("maxReplicas: {max}"))
    );
    let keda = manifest(&plan, Autoscaler::Keda).unwrap();
    assert!(keda.contains(&format!("threshold: \"{target}\"")) && keda.contains("vllm:num_requests_waiting"));
}
