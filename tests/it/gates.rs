//! What is no measurement is void and says why; what is one is not; and faults on the way do not move
//! the boundary.

use std::time::Instant;

use plimsoll::controller::{self, Found};
use plimsoll::loadgen::{
    ClientOptions, Excess, Failure, InFlight, LevelHistory, LiveOptions, LiveSession, Outcome, Session,
    SessionError, SessionEvent, Wake,
};
use plimsoll::plan::{Budget, LoadRange, Plan};
use plimsoll::recipe::{Purpose, Recipe};
use plimsoll::rng::Stream;
use plimsoll::run::{Cost, RunFolder, Silent};
use plimsoll::search::adaptive::Adaptive;
use plimsoll::search::adaptive::settings::Settings;
use plimsoll::search::trial::{Settle, StopRule, TrialKind, TrialSpec};
use plimsoll::search::{Answer, Ask, SearchOutcome, Strategy, TrialOutcome};
use plimsoll::sim::http::{Faults, Options};
use plimsoll::sim::presets;
use plimsoll::sim::scenarios::{self, Scenario};
use plimsoll::sim::session::{SimSession, ready};
use plimsoll::slo::Slo;
use plimsoll::target::{Target, TargetError};
use plimsoll::trial::Trials;
use plimsoll::units::Load;
use plimsoll::verdict::{Verdict, VoidReason, Warning, warnings};
use plimsoll::workload::RequestSpec;
use tokio::sync::watch;

use crate::simulator_client::Server;

/// A load some of whose requests are cut off, as by a proxy: at random, and only until an instant.
struct Lossy {
    inner: SimSession,
    share: f64,
    until: f64,
    draws: Stream,
}

impl Lossy {
    fn cut(&mut self, events: Vec<SessionEvent>) -> Vec<SessionEvent> {
        let mut events = events;
        for event in &mut events {
            if let SessionEvent::Ended(record) = event
                && record.is_completed()
                && record.ended < self.until
                && self.draws.uniform() < self.share
            {
                let detail = "connection reset by peer".to_owned();
                record.outcome = Outcome::Failed { cause: Failure::Reset, detail };
                record.last = None;
            }
        }
        events
    }
}

impl Session for Lossy {
    fn now(&self) -> f64 {
        self.inner.now()
    }

    fn set_arrivals(&mut self, arrivals: Option<plimsoll::workload::Arrivals>, excess: Excess) {
        self.inner.set_arrivals(arrivals, excess);
    }

    fn set_level(&mut self, users: u32, spread: f64, excess: Excess) {
        self.inner.set_level(users, spread, excess);
    }

    async fn advance(&mut self, wake: Wake) -> Result<(), SessionError> {
        self.inner.advance(wake).await
    }

    fn take_events(&mut self) -> Vec<SessionEvent> {
        let events = self.inner.take_events();
        self.cut(events)
    }

    fn in_flight(&self) -> Vec<InFlight> {
        self.inner.in_flight()
    }

    fn levels(&self) -> &LevelHistory {
        self.inner.levels()
    }

    fn issued(&self) -> u64 {
        self.inner.issued()
    }

    async fn close(&mut self) -> Vec<SessionEvent> {
        let events = self.inner.close().await;
        self.cut(events)
    }
}

/// One adaptive search of a scenario in virtual time, with its trials.
fn search(scenario: &Scenario, session: impl Session, seed: u64) -> (Answer, Vec<TrialOutcome>) {
    let slo = Slo::parse(scenario.slo.iter().copied()).unwrap();
    let settings = Settings::new(LoadRange { min: 1, max: scenario.max_load }, 0.2, seed);
    let mut strategy = Adaptive::new(slo.clone(), settings);
    let mut trials = Trials::new(session, slo, Budget::default(), 1, false);
    let mut outcomes = Vec::new();
    while let Ask::Trial(spec) = strategy.ask() {
        let outcome = ready(trials.run(&spec, &mut |_| {})).unwrap().outcome;
        strategy.tell(&outcome);
        outcomes.push(outcome);
    }
    (strategy.answer(), outcomes)
}

#[test]
fn three_percent_of_requests_reset_at_random_leave_the_boundary_where_it_is() {
    for name in ["decode", "seqcliff"] {
        let scenario = scenarios::find(name).unwrap();
        let (mut covered, mut off) = (0, 0.0);
        const SEARCHES: u64 = 12;
        for seed in 1..=SEARCHES {
            let inner = SimSession::new(scenario.params, scenario.traffic.clone(), seed);
            let session =
                Lossy { inner, share: 0.03, until: f64::INFINITY, draws: Stream::new(seed, "losses") };
            let (answer, outcomes) = search(&scenario, session, seed);
            assert_eq!(answer.outcome, SearchOutcome::Found, "{name} {seed}");
            let (interval, capacity) = (answer.interval.unwrap(), f64::from(scenario.capacity));
            covered +=
                u64::from(interval.low <= capacity && interval.high.is_none_or(|high| capacity <= high));
            let error = (answer.load.unwrap().value() / capacity).ln().abs();
            assert!(error < 0.25, "{name} {seed}: {error}");
            off += error / SEARCHES as f64;
            let slo = Slo::parse(scenario.slo.iter().copied()).unwrap();
            let told = warnings(&slo, outcomes.iter().filter_map(TrialOutcome::seen));
            assert!(matches!(told[..], [Warning::Lost { .. }]), "{name} {seed}: {told:?}");
        }
        assert!(off < 0.08, "{name}: mean error {off}");
        assert!(covered * 10 >= SEARCHES * 8, "{name}: {covered} of {SEARCHES} intervals hold the truth");
    }
}

/// What fires in 25 clean searches of a scenario, one of them with the gaps between all tokens.
fn false_alarms(name: &str) -> Vec<String> {
    let scenario = scenarios::find(name).unwrap();
    let slo = Slo::parse(scenario.slo.iter().copied()).unwrap();
    let alarm = |seed: u64| {
        let make = if seed == 25 { SimSession::with_gaps } else { SimSession::new };
        let session = make(scenario.params, scenario.traffic.clone(), 1000 + seed);
        let (_, outcomes) = search(&scenario, session, seed);
        let void = outcomes.iter().find(|outcome| matches!(outcome.verdict, Verdict::Void(_)));
        let told = warnings(&slo, outcomes.iter().filter_map(TrialOutcome::seen));
        match void {
            Some(void) => Some(format!("{name} {seed}: {:?}", void.verdict)),
            None => (!told.is_empty()).then(|| format!("{name} {seed}: {told:?}")),
        }
    };
    (1..=25).filter_map(alarm).collect()
}

#[test]
fn no_gate_fires_in_more_than_one_of_a_hundred_clean_searches() {
    let names =
        ["decode", "seqcliff", "kvcliff", "twometric", "smallN", "never", "infeasible", "decode-quiet"];
    let fired: Vec<String> = std::thread::scope(|scope| {
        let workers = names.map(|name| scope.spawn(move || false_alarms(name)));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(fired.len() <= 2, "{} of 200: {fired:#?}", fired.len());
}

/// The embedded engine in virtual time behind a way that loses requests.
struct Behind {
    share: f64,
    until: f64,
}

impl Target for Behind {
    type Session = Lossy;

    async fn open(&mut self, _clock: f64, _first: u64) -> Result<Lossy, TargetError> {
        let preset = presets::SMALL;
        let inner = SimSession::new(preset.params, preset.traffic(), 3);
        Ok(Lossy { inner, share: self.share, until: self.until, draws: Stream::new(3, "losses") })
    }

    fn client(&self) -> Option<&plimsoll::loadgen::ClientOptions> {
        None
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "engine": "virtual" })
    }
}

fn run(mut target: Behind) -> Found {
    let recipe = Recipe::from_toml("[load]\nconcurrency = \"1..256\"\n", "test").unwrap();
    let plan: Plan = recipe.into_plan(Some("test"), Purpose::Search).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut folder = RunFolder::create(Some(dir.path()), "test", &plan).unwrap();
    let mut silent = Silent;
    let found = controller::search(&plan, &mut target, &mut folder, &[], Cost::default(), &mut silent);
    ready(found).unwrap()
}

fn void_causes(found: &Found) -> Vec<&VoidReason> {
    let void = |outcome| match outcome {
        &TrialOutcome { verdict: Verdict::Void(ref reason), .. } => Some(reason),
        _ => None,
    };
    found.outcomes.iter().filter_map(void).collect()
}

#[test]
fn a_storm_that_passes_is_waited_out_and_never_becomes_a_boundary() {
    let clean = run(Behind { share: 0.0, until: 0.0 });
    // The warm-up takes some 12 s of virtual time; the storm goes on for a few after it.
    let stormy = run(Behind { share: 0.6, until: clean.outcomes[0].ended + 2.0 });
    let causes = void_causes(&stormy);
    assert!(!causes.is_empty());
    assert!(causes.iter().all(|cause| matches!(cause, VoidReason::Infrastructure { .. })), "{causes:?}");
    assert_eq!(stormy.answer.outcome, SearchOutcome::Found);
    let (clean, stormy) = (clean.answer.load.unwrap().value(), stormy.answer.load.unwrap().value());
    assert!((stormy / clean).ln().abs() < 0.25, "{stormy} against {clean}");
}

#[test]
fn a_storm_that_does_not_pass_ends_the_search_without_an_answer_after_a_stated_number_of_tries() {
    let found = run(Behind { share: 0.6, until: f64::INFINITY });
    assert_eq!((found.answer.outcome, found.answer.load), (SearchOutcome::Void, None));
    assert_eq!(void_causes(&found).len(), 4);
    // Rests of 1, 2, 4 and 8 s between them.
    let trials = &found.outcomes[1..];
    let rests: Vec<f64> = trials.windows(2).map(|pair| pair[1].began - pair[0].ended).collect();
    assert!(rests.iter().zip([1.0, 2.0, 4.0]).all(|(rest, least)| *rest >= least), "{rests:?}");
}

/// One trial of a fixed size on the simulated engine with some faults, over the wire.
async fn trial(faults: Faults, slo: &[&str]) -> TrialOutcome {
    let server = Server::start(presets::SMALL, Options { speed: 2.0, faults, ..Options::default() }).await;
    let options = ClientOptions::new(format!("http://{}", server.address), presets::SMALL.model);
    let specs = (0..).map(|id| RequestSpec::new(id, format!("prompt {id}"), 2, 40));
    let (_stop, interrupt) = watch::channel(false);
    let load = LiveSession::open(LiveOptions::new(options, 8), Box::new(specs), Instant::now(), interrupt);
    let slo = Slo::parse(slo.iter().copied()).unwrap();
    let mut trials = Trials::new(load.unwrap(), slo, Budget::default(), 1, true);
    let spec = TrialSpec {
        load: Load::Concurrency(6),
        kind: TrialKind::Measure,
        retreat: false,
        settle: Settle { completions_per_user: 1.0, truncate: false },
        rule: StopRule::Fixed { requests: 60, min_seconds: 0.0, max_seconds: 30.0 },
    };
    let outcome = trials.run(&spec, &mut |_| {}).await.unwrap().outcome;
    trials.close().await;
    server.stop().await;
    outcome
}

fn void_cause(outcome: &TrialOutcome) -> &VoidReason {
    match &outcome.verdict {
        Verdict::Void(reason) => reason,
        other => panic!("{other}: {:?}", outcome.checks),
    }
}

fn told(outcome: &TrialOutcome) -> Vec<Warning> {
    warnings(&Slo::none(), outcome.seen())
}

/// Limits so wide that neither the server nor a busy machine breaks them.
const WIDE: [&str; 2] = ["ttft p95 < 60s", "itl p95 < 60s"];

#[tokio::test]
async fn a_proxy_that_buffers_voids_also_when_it_buffers_only_some_streams() {
    for share in [1.0, 0.4] {
        let outcome = trial(Faults { buffered: share, ..Faults::default() }, &WIDE).await;
        assert!(matches!(void_cause(&outcome), VoidReason::BufferedStream { .. }), "{:?}", outcome.verdict);
        // Tokens read at one instant must not leave a figure that no journal can hold.
        let kept = serde_json::to_string(&outcome).unwrap();
        assert!(serde_json::from_str::<TrialOutcome>(&kept).is_ok(), "{kept}");
    }
    let outcome = trial(Faults { buffered: 1.0, ..Faults::default() }, &["e2e p95 < 60s"]).await;
    assert_eq!(outcome.verdict, Verdict::Met);
}

#[tokio::test]
async fn cut_and_misdirected_requests_void_while_throttled_ones_are_the_servers_answer() {
    for faults in
        [Faults { resets: 0.5, ..Faults::default() }, Faults { html_errors: 0.5, ..Faults::default() }]
    {
        let outcome = trial(faults, &WIDE).await;
        assert!(matches!(void_cause(&outcome), VoidReason::Infrastructure { .. }), "{:?}", outcome.verdict);
    }
    let outcome = trial(Faults { throttled: 0.5, ..Faults::default() }, &WIDE).await;
    assert_eq!(outcome.verdict, Verdict::Missed, "{:?}", outcome.checks);
    assert!(outcome.checks.turned_away > 10);
}

#[tokio::test]
async fn a_few_cut_requests_are_told_and_count_neither_way() {
    let outcome = trial(Faults { resets: 0.06, ..Faults::default() }, &["ttft p99 < 60s"]).await;
    assert!(!matches!(outcome.verdict, Verdict::Missed | Verdict::Void(_)), "{:?}", outcome.verdict);
    assert_eq!(outcome.checks.lost > 0, told(&outcome).iter().any(|w| matches!(w, Warning::Lost { .. })));
}

#[tokio::test]
async fn chunks_of_several_tokens_are_told_with_their_mean() {
    let outcome = trial(Faults { tokens_per_chunk: 4, ..Faults::default() }, &["e2e p95 < 60s"]).await;
    assert!((outcome.checks.tokens_per_chunk - 4.0).abs() < 0.2, "{:?}", outcome.checks);
    assert!(told(&outcome).iter().any(|warning| matches!(warning, Warning::SeveralTokens { .. })));
}

#[tokio::test]
async fn a_trial_keeps_what_the_client_was_like_and_both_token_counts() {
    let outcome = trial(Faults::default(), &WIDE).await;
    let client = outcome.client.unwrap();
    assert!(client.lag_samples > 0 && client.busy > 0.0 && client.pressure() <= 1.0, "{client:?}");
    assert!(client.others.is_some_and(|others| others.apart_from_server), "{client:?}");
    // `prompt 7` is two words; the chat template adds 4 tokens a message and 3 to begin the answer.
    assert_eq!(outcome.checks.overhead.unwrap().median, 7);
    assert_eq!((outcome.checks.output_asked, outcome.checks.output_got), (40.0, 40.0));
    let only: Vec<&String> = outcome.checks.finish.keys().collect();
    assert_eq!(only, ["length"]);
}
