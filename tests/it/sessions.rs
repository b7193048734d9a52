//! Users who pause and hold conversations: on the wire, in virtual time, and through the program.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use assert_cmd::Command;
use plimsoll::controller;
use plimsoll::loadgen::{
    Excess, LiveOptions, LiveSession, RequestRecord, Session, SessionEvent, Wake, record::Phase,
};
use plimsoll::metrics::SessionFigures;
use plimsoll::plan::{Lengths, Plan, SessionPlan, Times, WorkloadPlan};
use plimsoll::recipe::{Purpose, Recipe};
use plimsoll::run::{Contents, Cost, RunFolder, Silent};
use plimsoll::search::SearchOutcome;
use plimsoll::sim::model::{Disturbance, KvPolicy, Params};
use plimsoll::sim::presets::SMALL;
use plimsoll::sim::session::{SimSession, ready};
use plimsoll::sim::traffic::Traffic;
use plimsoll::target::{Target, TargetError};
use plimsoll::workload::{
    ArrivalProcess, Arrivals, PromptMaker, RateCurve, RequestSpec, Vocabulary, Workload,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::{Server, Then, chunked, ending, records, token};

fn fixed(tokens: u32) -> Lengths {
    Lengths::Fixed { tokens }
}

fn talks(turns: u32, think: Option<Times>) -> WorkloadPlan {
    let mut plan = WorkloadPlan::of(fixed(20), fixed(3));
    plan.sessions = Some(SessionPlan { turns: fixed(turns), as_recorded: false, max_context: None });
    plan.think = think;
    plan
}

fn requests(plan: &WorkloadPlan, seed: u64) -> Box<dyn Iterator<Item = RequestSpec> + Send> {
    let maker = PromptMaker::new(Arc::new(Vocabulary::word_is_token()), seed);
    Box::new(Workload::new(plan, seed, maker))
}

/// Runs some users until so many requests have ended; gives the records and the bodies that came in.
async fn talk(plan: &WorkloadPlan, seed: u64, users: u32, ended: u32) -> (Vec<RequestRecord>, Vec<Value>) {
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = bodies.clone();
    let server = Server::start(move |mut socket, request| {
        let number = {
            let mut bodies = kept.lock().unwrap();
            bodies.push(request.body);
            bodies.len()
        };
        async move {
            // The middle piece is like the first but for its text, the last has escapes.
            let pieces =
                ["so", "on", " \"é\n\\\u{1f600}"].map(|text| token(&format!("{text}{number}"))).concat();
            let _ = socket.write_all(&chunked(&[pieces.as_bytes(), ending(3).as_bytes()])).await;
            (socket, Then::Keep)
        }
    })
    .await;
    let (_stop, interrupt) = tokio::sync::watch::channel(false);
    let options = LiveOptions { first_request: 1000, ..LiveOptions::new(server.options(), users) };
    let mut load = LiveSession::open(options, requests(plan, seed), Instant::now(), interrupt).unwrap();
    load.set_level(users, 0.0, Excess::Retire);
    load.advance(Wake { at: f64::INFINITY, ended, first_tokens: u32::MAX }).await.unwrap();
    let mut events = load.take_events();
    events.extend(load.close().await);
    let bodies = bodies.lock().unwrap().clone();
    (records(events), bodies)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_turn_sends_the_history_with_the_answers_that_really_came() {
    let (records, bodies) = talk(&talks(4, None), 7, 3, 60).await;
    let ids: HashSet<u64> = records.iter().map(|record| record.id).collect();
    assert!(ids.len() == records.len() && ids.iter().all(|id| *id >= 1000), "each has a number of its own");
    // Bodies by their first message, which no two conversations share.
    let mut conversations: BTreeMap<String, Vec<Vec<Value>>> = BTreeMap::new();
    for body in &bodies {
        let messages = body["messages"].as_array().unwrap().clone();
        conversations.entry(messages[0]["content"].as_str().unwrap().to_owned()).or_default().push(messages);
    }
    let mut whole = 0;
    for turns in conversations.values() {
        for (index, messages) in turns.iter().enumerate() {
            let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
            let expected: Vec<&str> = ["user", "assistant"].into_iter().cycle().take(2 * index + 1).collect();
            assert_eq!(roles, expected);
            if index > 0 {
                // All that was sent before stands there unchanged, then the answer to it.
                let before = &turns[index - 1];
                assert_eq!(messages[..before.len()], before[..]);
                let number = bodies.iter().position(|body| body["messages"] == json!(before)).unwrap() + 1;
                let answer = format!("so{number}on{number} \"é\n\\\u{1f600}{number}");
                assert_eq!(messages[before.len()]["content"], answer);
            }
        }
        whole += usize::from(turns.len() == 4);
        assert!(turns.len() <= 4);
    }
    assert!(whole >= 3, "{whole} conversations came to their end");
    for record in records.iter().filter(|record| record.is_completed()) {
        // 20 tokens said in each turn, 3 in each answer.
        let turn = record.turn.unwrap();
        assert_eq!(record.isl, 20 * turn + 3 * (turn - 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_plan_and_seed_say_the_same() {
    let said = |bodies: &[Value]| -> HashSet<String> {
        let texts = bodies.iter().flat_map(|body| body["messages"].as_array().unwrap().clone());
        texts
            .filter(|message| message["role"] == "user")
            .map(|message| message["content"].to_string())
            .collect()
    };
    // One user alone begins one conversation after the other.
    let first = said(&talk(&talks(3, None), 5, 1, 12).await.1);
    let again = said(&talk(&talks(3, None), 5, 1, 12).await.1);
    let other = said(&talk(&talks(3, None), 6, 1, 12).await.1);
    assert!(first.intersection(&again).count() >= 12 && first.is_disjoint(&other));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_who_pause_are_users_all_the_same_and_leave_at_once() {
    let server = Server::fixed(crate::support::good_answer()).await;
    let (_stop, interrupt) = tokio::sync::watch::channel(false);
    let mut plan = WorkloadPlan::of(fixed(20), fixed(4));
    plan.think = Some(Times::Fixed { seconds: 1e6 });
    let options = LiveOptions::new(server.options(), 8);
    let mut load = LiveSession::open(options, requests(&plan, 1), Instant::now(), interrupt).unwrap();
    load.set_level(8, 0.0, Excess::Retire);
    // They come in the middle of a pause, which is a long one.
    for _ in 0..500 {
        load.advance(Wake::at(load.now() + 0.01)).await.unwrap();
        if load.thinking() == 8 {
            break;
        }
    }
    assert_eq!((load.thinking(), load.in_flight().len(), load.levels().at(load.now())), (8, 0, 8));
    load.set_level(3, 0.0, Excess::Retire);
    load.advance(Wake::at(load.now() + 0.01)).await.unwrap();
    assert_eq!((load.thinking(), load.levels().at(load.now())), (3, 3));
    assert!(load.close().await.is_empty());
}

/// A server without noise.
fn calm() -> Params {
    Params { noise: Disturbance::NONE, ..SMALL.params }
}

/// Requests of users that ended within so many virtual seconds, past the first part of them.
fn measured(
    params: Params,
    plan: &WorkloadPlan,
    users: u32,
    seconds: f64,
) -> (Vec<RequestRecord>, SimSession) {
    let mut session = SimSession::new(params, Traffic::planned(plan), 3);
    session.set_level(users, 1.0, Excess::Retire);
    ready(session.advance(Wake::at(0.3 * seconds))).unwrap();
    session.take_events();
    ready(session.advance(Wake::at(1.3 * seconds))).unwrap();
    let records = session.take_events().into_iter().filter_map(|event| match event {
        SessionEvent::Ended(record) => Some(*record),
        SessionEvent::FirstToken { .. } => None,
    });
    (records.map(|record| RequestRecord { phase: Phase::Measured, ..record }).collect(), session)
}

#[test]
fn a_user_comes_back_after_its_answer_and_its_pause() {
    for think in [Times::Exponential { mean: 2.0 }, Times::Fixed { seconds: 2.0 }] {
        // Of lengths that vary: a fixed pause between fixed lengths lets users fall into step.
        let mut plan = WorkloadPlan::of(fixed(100), Lengths::Uniform { min: 10, max: 70 });
        plan.think = Some(think);
        let (users, seconds) = (60, 400.0);
        let (records, session) = measured(calm(), &plan, users, seconds);
        let answer = records.iter().filter_map(RequestRecord::e2e).sum::<f64>() / records.len() as f64;
        // The interactive response time law: X = N / (R + Z) (Denning and Buzen 1978).
        let expected = f64::from(users) / (answer + 2.0);
        let rate = records.len() as f64 / seconds;
        assert!((rate / expected - 1.0).abs() < 0.02, "{think}: {rate} for {expected}");
        assert_eq!(session.in_flight().len() + session.thinking(), users as usize);
        // Nobody walks in step: half of the users never send within a tenth of a pause.
        let mut sent: Vec<f64> = records.iter().map(|record| record.sent).collect();
        sent.sort_by(f64::total_cmp);
        let most = sent.iter().map(|&at| sent.partition_point(|&other| other < at + 0.2)).zip(0..);
        assert!(most.map(|(end, begin)| end - begin).max().unwrap() < 30, "{think}");
    }
}

#[test]
fn later_turns_are_answered_sooner_where_the_cache_keeps_what_was_said() {
    let mut plan = talks(6, Some(Times::Exponential { mean: 0.5 }));
    (plan.isl, plan.osl) = (fixed(400), fixed(30));
    // Room for all that was ever said.
    let kv = KvPolicy::Paged { blocks: 100_000 };
    let figures = |prefix_caching| {
        let (records, session) = measured(Params { prefix_caching, kv, ..calm() }, &plan, 30, 120.0);
        let counters = *session.model().counters();
        let hits = counters.prefix_hits as f64 / counters.prefix_queries as f64;
        (SessionFigures::of(&records).unwrap(), hits)
    };
    let ((on, hits), (off, none)) = (figures(true), figures(false));
    let p50 = |figures: &SessionFigures| figures.later.ttft.as_ref().unwrap().p50;
    assert!(p50(&on) < 0.6 * p50(&off), "{} {}", p50(&on), p50(&off));
    assert_eq!(none, 0.0);
    // Of turn k of 6, 430 (k - 1) of 430 k - 30 tokens were there before.
    let (mut before, mut all) = (0.0, 0.0);
    for k in 1..=6 {
        before += 430.0 * f64::from(k - 1);
        all += 430.0 * f64::from(k) - 30.0;
    }
    assert!((hits / (before / all) - 1.0).abs() < 0.05, "{hits} for {}", before / all);
    assert_eq!(on.by_turn.len(), 6);
    for turn in &on.by_turn {
        assert_eq!(turn.isl, 430.0 * f64::from(turn.turn) - 30.0);
    }
    // Every turn is reached about as often: who has just come is spread over them.
    let least = on.by_turn.iter().map(|turn| turn.requests).min().unwrap();
    assert!(f64::from(least) > 0.8 * f64::from(on.first.requests), "{:?}", on.by_turn);
}

#[test]
fn a_conversation_ends_before_it_exceeds_the_context() {
    let mut plan = talks(6, None);
    (plan.isl, plan.osl) = (fixed(400), fixed(30));
    plan.sessions.as_mut().unwrap().max_context = Some(1500);
    let (records, _) = measured(calm(), &plan, 10, 60.0);
    // 3 x 430 = 1290 fit, 4 x 430 do not.
    assert_eq!(records.iter().filter_map(|record| record.turn).max(), Some(3));
    let figures = SessionFigures::of(&records).unwrap();
    let ends = figures.by_turn[2].requests;
    assert!(ends > 50 && figures.context_full == ends, "{figures:?}");
}

#[test]
fn conversations_arrive_at_a_rate_and_their_later_turns_are_due_after_a_pause() {
    let plan = talks(3, Some(Times::Fixed { seconds: 1.5 }));
    let mut session = SimSession::new(calm(), Traffic::planned(&plan), 3);
    let arrivals = Arrivals::new(RateCurve::Constant(5.0), ArrivalProcess::Poisson, 1);
    session.set_arrivals(Some(arrivals), Excess::Retire);
    ready(session.advance(Wake::at(200.0))).unwrap();
    let mut turns: BTreeMap<u64, Vec<RequestRecord>> = BTreeMap::new();
    for event in session.take_events() {
        if let SessionEvent::Ended(record) = event {
            turns.entry(record.session.unwrap()).or_default().push(*record);
        }
    }
    assert!((turns.len() as f64 / 200.0 / 5.0 - 1.0).abs() < 0.1, "{} conversations", turns.len());
    for pair in turns.values().flat_map(|turns| turns.windows(2)) {
        assert_eq!(pair[1].turn, pair[0].turn.map(|turn| turn + 1));
        assert!((pair[1].scheduled.unwrap() - pair[0].ended - 1.5).abs() < 1e-9);
    }
    // Once the loop is over nobody goes on.
    session.set_arrivals(None, Excess::Retire);
    assert_eq!(session.thinking(), 0);
    ready(session.advance(Wake::at(210.0))).unwrap();
    assert_eq!(session.in_flight().len() + session.thinking(), 0);
}

/// The embedded engine in virtual time, with the users of a plan.
struct Virtual(WorkloadPlan);

impl Target for Virtual {
    type Session = SimSession;

    async fn open(&mut self, _clock: f64, _first: u64) -> Result<SimSession, TargetError> {
        Ok(SimSession::new(SMALL.params, Traffic::planned(&self.0), 1))
    }

    fn client(&self) -> Option<&plimsoll::loadgen::ClientOptions> {
        None
    }

    fn describe(&self) -> Value {
        json!({ "engine": "virtual" })
    }
}

fn searched(text: &str) -> (Plan, controller::Found, Contents, tempfile::TempDir) {
    let plan = Recipe::from_toml(text, "test").unwrap().into_plan(Some("test"), Purpose::Search).unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut folder = RunFolder::create(Some(out.path()), "test", &plan).unwrap();
    let mut target = Virtual(plan.workload.clone());
    let found = ready(controller::search(&plan, &mut target, &mut folder, &[], Cost::default(), &mut Silent))
        .unwrap();
    let path = folder.path().to_owned();
    folder.close().unwrap();
    let contents = Contents::read(&path).unwrap();
    (plan, found, contents, out)
}

#[test]
fn a_search_finds_users_and_its_journal_leads_to_the_same_answer() {
    let slo = "slo = ['ttft[first] p95 < 80ms', 'ttft[later] p95 < 50ms', 'tpot p95 < 10ms']";
    let load = "[load]\nconcurrency = '1..1024'\nthink = 'exponential(400ms)'\n[workload]\nturns = 4";
    let (plan, found, contents, _out) = searched(&format!("{slo}\n{load}"));
    assert_eq!(found.answer.outcome, SearchOutcome::Found);
    let users = found.answer.load.unwrap().value();
    // Who pauses for two thirds of the time makes room for others.
    let (_, busy, ..) = searched(&format!("{slo}\n{}", load.replace("think = 'exponential(400ms)'", "")));
    assert!(users > 1.5 * busy.answer.load.unwrap().value(), "{users} {:?}", busy.answer.load);
    let mut strategy = plimsoll::search::strategy(&plan);
    let past: Vec<_> = contents.outcomes().cloned().collect();
    controller::replay(strategy.as_mut(), &past).unwrap();
    assert_eq!(strategy.answer().load, found.answer.load);
    let document = plimsoll::report::Document::of_run(&contents);
    let flying = document.users.as_ref().unwrap().in_flight.unwrap();
    assert!(flying > 0.1 * users && flying < 0.7 * users, "{flying} of {users}");
    // Another question to the same run: the first objective alone is the easier one.
    let material = plimsoll::analysis::Material::of_run(&contents).unwrap();
    let judged = |text: &str| material.answered(&plimsoll::slo::Slo::parse([text]).unwrap());
    let loads = ["ttft[later] p95 < 50ms", "ttft[later] p95 < 30ms"].map(|text| judged(text).answer.load);
    assert!(loads[0].is_some() && loads[1] < loads[0], "{loads:?}");
}

fn plimsoll(arguments: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::cargo_bin("plimsoll").unwrap();
    let output = command.args(arguments).current_dir(folder.path()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success() || output.status.code() == Some(2), "{:?}", output.status);
    (text(output.stdout), text(output.stderr))
}

#[test]
fn the_program_measures_users_and_tells_first_turns_from_later_ones() {
    let flags = "measure --simulated small --concurrency 12 --turns 3 --isl 200 --osl 20 --requests 60 --json --quiet \
                 --think exponential:50ms --slo";
    let slo = ["ttft[first] p95 < 5s, ttft[later] p95 < 5s"];
    let arguments: Vec<&str> = flags.split_whitespace().chain(slo).collect();
    let (out, _) = plimsoll(&arguments);
    let trial: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(trial["slo"], json!(["ttft[first] p95 < 5 s", "ttft[later] p95 < 5 s"]));
    let sessions = &trial["sessions"];
    assert!(sessions["first"]["requests"].as_u64().unwrap() > 0);
    assert!(sessions["later"]["requests"].as_u64() > sessions["first"]["requests"].as_u64());
    let of = |index: usize| trial["objectives"][index]["of"].as_u64().unwrap();
    assert!(of(0) > 0 && of(1) > of(0), "{trial}");
    // The template's tokens of each message are no reason to warn.
    assert!(!trial["warnings"].to_string().contains("chat template"), "{}", trial["warnings"]);
}

#[test]
fn the_workload_shows_how_prompts_grow() {
    let (out, _) =
        plimsoll(&["workload", "--turns", "3", "--isl", "100", "--osl", "50", "--think", "2s", "--json"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    let isl: Vec<f64> = document["conversations"]["by_turn"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["isl"].as_f64().unwrap())
        .collect();
    assert_eq!(isl, [100.0, 250.0, 400.0]);
    assert_eq!(document["conversations"]["history_share"], 450.0 / 750.0);
    assert_eq!(document["think"]["mean"], 2.0);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/workload/sharegpt.json");
    let (screen, _) = plimsoll(&["workload", "--dataset", file, "--turns", "all", "--samples", "1"]);
    assert!(screen.contains("the conversations of") && screen.contains("(1 to 2)"), "{screen}");
    let (_, error) = plimsoll(&["workload", "--turns", "all"]);
    assert!(error.contains("error: `workload.turns` (`--turns`) is `all`"), "{error}");
}
