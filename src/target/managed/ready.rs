//! From a launch to the first good completion.

use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::CONNECTION;
use tokio::sync::watch;

use super::failure::{Exit, LaunchFailure, Phase};
use super::running::{Running, State, Supervised};
use crate::loadgen::{Client, ClientOptions, Outcome, build_http_client};
use crate::plan::{EndpointPlan, EnginePlan};
use crate::target::{Endpoint, TargetError, access, discover};
use crate::workload::RequestSpec;

/// Time between two questions: short at first, since small engines are up at once.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Output tokens of a warm-up request.
const WARM_TOKENS: u32 = 16;

/// What the engine says when it is asked whether it is up.
pub(super) enum Answer {
    Ready,
    NotYet(String),
}

/// Asks the paths in order; one that is not there is passed over.
pub(super) async fn ask(client: &reqwest::Client, root: &str, paths: &[String]) -> Answer {
    let mut seen = String::new();
    for path in paths {
        let url = format!("{}{path}", root.trim_end_matches('/'));
        match client.get(url).header(CONNECTION, "close").timeout(ANSWER).send().await {
            // Whoever asks for a key is up.
            Ok(response)
                if response.status().is_success()
                    || matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) =>
            {
                return Answer::Ready;
            }
            Ok(response) => {
                seen = format!("`GET {path}` is answered with {}", response.status());
                let is_absent =
                    matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
                if !is_absent {
                    break;
                }
            }
            Err(error) => {
                let why = if error.is_connect() {
                    "nobody listens yet"
                } else if error.is_timeout() {
                    "no answer in time"
                } else {
                    "the connection was closed"
                };
                seen = format!("`GET {path}`: {why}");
                break;
            }
        }
    }
    Answer::NotYet(seen)
}

/// Why a start came to nothing.
pub(super) enum Stopped {
    Exited(Exit),
    TimedOut(String),
    Interrupted,
    Unfit(Box<TargetError>),
}

impl Stopped {
    pub(super) fn into_failure(self, running: &Running) -> LaunchFailure {
        let engine =
            |exit, seen| LaunchFailure::Engine(Box::new(running.failure(Phase::Starting, exit, seen)));
        match self {
            Self::Exited(exit) => engine(Some(exit), None),
            Self::TimedOut(seen) => engine(None, Some(seen)),
            Self::Interrupted => LaunchFailure::Interrupted,
            Self::Unfit(error) => LaunchFailure::Target(error),
        }
    }
}

/// A launch that is not ready yet.
pub(super) struct Start<'a> {
    pub(super) engine: &'a EnginePlan,
    pub(super) endpoint: &'a EndpointPlan,
    pub(super) supervised: &'a Supervised,
    pub(super) began: Instant,
    pub(super) interrupt: watch::Receiver<bool>,
}

impl Start<'_> {
    /// Waits until the engine answers, gave a good completion and is warm.
    pub(super) async fn until_ready(&self, tell: &mut (dyn FnMut(&str) + Send)) -> Result<(), Stopped> {
        let mut seen = String::from("nothing was asked yet");
        let (mut state, mut interrupt) = (self.supervised.state(), self.interrupt.clone());
        let limit = Duration::try_from_secs_f64(self.engine.start_seconds).unwrap_or(Duration::MAX);
        let result = tokio::select! {
            result = self.steps(&mut seen, tell) => Some(result),
            exit = self.has_ended(&mut state) => Some(Err(Stopped::Exited(exit))),
            // An operator who can no longer ask to stop does not.
            Ok(_) = interrupt.wait_for(|stop| *stop) => Some(Err(Stopped::Interrupted)),
            () = tokio::time::sleep(limit.saturating_sub(self.began.elapsed())) => None,
        };
        result.unwrap_or(Err(Stopped::TimedOut(seen)))
    }

    /// Ends when the engine has.
    async fn has_ended(&self, state: &mut watch::Receiver<State>) -> Exit {
        let fatal = |state: &State| match state.exit {
            // What was started elsewhere goes on without the command that started it.
            Some(Exit::Code(0)) if self.engine.detached => None,
            Some(exit) => Some(exit),
            None if state.lost => Some(Exit::Signal(9)),
            None => None,
        };
        match state.wait_for(|state| fatal(state).is_some()).await {
            Ok(state) => fatal(&state).unwrap_or(Exit::Signal(0)),
            Err(_) => Exit::Signal(9),
        }
    }

    async fn steps(&self, seen: &mut String, tell: &mut (dyn FnMut(&str) + Send)) -> Result<(), Stopped> {
        let unfit = |error: TargetError| Stopped::Unfit(Box::new(error));
        let options = access::options(self.endpoint, &|name| std::env::var(name).ok()).map_err(unfit)?;
        let client = build_http_client(&options).map_err(|error| unfit(error.into()))?;
        let mut between = BETWEEN.0;
        while let Answer::NotYet(why) = ask(&client, &options.url, &self.engine.ready).await {
            if *seen != why {
                tell(&why);
                *seen = why;
            }
            tokio::time::sleep(between).await;
            between = (between * 2).min(BETWEEN.1);
        }
        let endpoint = loop {
            match discover(self.endpoint, (1, 1), false).await {
                Ok(endpoint) => break endpoint,
                Err(error) if error.is_unreachable() => {
                    *seen = error.to_string();
                    tokio::time::sleep(BETWEEN.1).await;
                }
                Err(error) => return Err(unfit(error)),
            }
        };
        if self.engine.warmup > 0 {
            tell(&format!("warming up with {} requests", self.engine.warmup));
            *seen = "the warm-up requests take longer".to_owned();
            self.warm_up(&endpoint).await.map_err(unfit)?;
        }
        Ok(())
    }

    async fn warm_up(&self, endpoint: &Endpoint) -> Result<(), TargetError> {
        let options: &ClientOptions = &endpoint.options;
        let client = Client::new(options, Instant::now())?;
        for id in 0..self.engine.warmup {
            let prompt = format!("Request {id} that only warms the server up.");
            let record = client.fetch(&RequestSpec::new(u64::from(id), prompt, 8, WARM_TOKENS)).await;
            if let Outcome::Failed { detail, .. } = &record.outcome {
                tracing::warn!("warm-up request {id} failed: {detail}");
            }
        }
        Ok(())
    }
}
