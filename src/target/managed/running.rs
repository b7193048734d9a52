//! An engine that runs, and its supervisor seen from here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use http::header::CONNECTION;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use super::failure::{EngineFailure, Exit, LaunchFailure, Phase, classify};
use super::protocol::{Order, Report};
use super::ready::{self, Answer};
use super::{SUPERVISOR, log, tree};
use crate::loadgen::build_http_client;
use crate::plan::{Argument, EndpointPlan, Plan, Reset, TargetPlan};
use crate::target::{TargetError, access};

/// Lines of the log that are shown with a failure, and those that its cause is read from.
const SHOWN: usize = 15;
const READ: usize = 60;
/// Longest wait for the first word of a supervisor.
const FIRST_WORD: Duration = Duration::from_secs(30);
/// Longest that a supervisor takes beyond the engine's own time.
const SUPERVISOR_TIME: Duration = Duration::from_secs(20);
/// Longest that a reset may take.
const RESET: Duration = Duration::from_secs(60);
/// Time after which an engine that answers nothing is said to hang.
const HUNG: Duration = Duration::from_secs(20);

/// What is known of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// How the process that was launched ended.
    pub(super) exit: Option<Exit>,
    /// Nothing is left of it; so many could not be killed.
    pub(super) gone: Option<usize>,
    /// The supervisor is gone.
    pub(super) lost: bool,
}

/// A supervisor at work.
#[derive(Debug)]
pub(super) struct Supervised {
    pid: i32,
    process: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    state: watch::Receiver<State>,
}

impl Supervised {
    /// Starts a supervisor and lets it launch what is ordered.
    pub(super) async fn start(program: &Path, order: &Order) -> Result<Self, LaunchFailure> {
        let system = |what: &str, error: &dyn std::fmt::Display| {
            LaunchFailure::System(format!("the supervisor {what}: {error}"))
        };
        // A group of its own: Ctrl-C is meant for this program, which stops the engine in its time.
        let mut process = Command::new(program)
            .arg(SUPERVISOR)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| system("cannot be started", &error))?;
        let (Some(mut input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(LaunchFailure::System("the supervisor has no pipes".to_owned()));
        };
        let mut line = serde_json::to_vec(order).map_err(|error| system("cannot be told", &error))?;
        line.push(b'\n');
        input.write_all(&line).await.map_err(|error| system("cannot be told", &error))?;
        let mut lines = BufReader::new(output).lines();
        let mut next = async || -> Option<Report> {
            let line = lines.next_line().await.ok().flatten()?;
            serde_json::from_str(&line).ok()
        };
        let pid = match timeout(FIRST_WORD, next()).await {
            Ok(Some(Report::Launched { pid })) => pid,
            Ok(Some(Report::Refused { reason })) => {
                let program = order.command.first().cloned().unwrap_or_default();
                return Err(LaunchFailure::Program { program, reason });
            }
            _ => {
                let program = program.display();
                return Err(LaunchFailure::System(format!("`{program} {SUPERVISOR}` does not answer")));
            }
        };
        let (tell, state) = watch::channel(State::default());
        tokio::spawn(async move {
            loop {
                let line = lines.next_line().await.ok().flatten();
                let report = line.map(|line| serde_json::from_str(&line));
                tell.send_modify(|state| match &report {
                    Some(Ok(Report::Exited(exit))) => state.exit = Some(*exit),
                    Some(Ok(Report::Gone { left })) => state.gone = Some(*left),
                    Some(_) => {}
                    None => state.lost = true,
                });
                if report.is_none() {
                    return;
                }
            }
        });
        Ok(Self { pid, process: Mutex::new(process), input: Mutex::new(Some(input)), state })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Lets the supervisor stop the engine and waits until it has. Gives the number of processes that
    /// could not be ended.
    async fn stop(&self, grace: Duration) -> usize {
        if let Some(mut input) = self.input.lock().await.take() {
            // One that is gone is seen below.
            let _ = input.write_all(b"stop\n").await;
        }
        let mut state = self.state();
        let limit = grace * 2 + SUPERVISOR_TIME;
        let gone = timeout(limit, state.wait_for(|state| state.gone.is_some() || state.lost)).await;
        let left = match gone {
            Ok(Ok(state)) if state.gone.is_some() => state.gone.unwrap_or(0),
            // The supervisor was killed or hangs: what can be found is ended from here.
            _ => {
                tree::signal_group(self.pid, Signal::TERM);
                tokio::time::sleep(Duration::from_millis(500)).await;
                tree::signal_group(self.pid, Signal::KILL);
                0
            }
        };
        let mut process = self.process.lock().await;
        if timeout(Duration::from_secs(5), process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
        left
    }
}

/// An engine that runs. When it is dropped, its supervisor stops it in its own time;
/// [`Running::stop`] waits for that.
#[derive(Debug)]
pub struct Running {
    /// Where it serves.
    pub url: String,
    /// The process that was launched.
    pub pid: i32,
    /// Seconds from the launch to the first good completion.
    pub started_seconds: f64,
    /// Number of the launch in its run, from 1.
    pub launch: u32,
    /// The command as one would type it, secrets left out.
    pub command: String,
    /// File with its output.
    pub log: PathBuf,
    pub(super) port: u16,
    pub(super) id: String,
    pub(super) endpoint: EndpointPlan,
    pub(super) ready: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) folder: Option<PathBuf>,
    pub(super) reset: Option<Reset>,
    pub(super) detached: bool,
    pub(super) stop_limit: Duration,
    pub(super) began: Instant,
    pub(super) supervised: Supervised,
}

impl Running {
    /// The plan with the address of this engine as its target.
    pub fn plan(&self, plan: &Plan) -> Plan {
        Plan { target: TargetPlan::Endpoint(self.endpoint.clone()), ..plan.clone() }
    }

    /// The description of what is measured, and how it was launched.
    pub fn described(&self, mut description: serde_json::Value) -> serde_json::Value {
        if let Some(fields) = description.as_object_mut() {
            fields.insert("launched".to_owned(), self.command.clone().into());
            fields.insert("started_seconds".to_owned(), self.started_seconds.into());
        }
        description
    }

    /// The failure of an engine whose process has ended by itself.
    pub fn ended(&self) -> Option<EngineFailure> {
        let state = self.supervised.state.borrow().clone();
        let exit = state.exit.filter(|exit| !(self.detached && *exit == Exit::Code(0)));
        match exit {
            Some(exit) => Some(self.failure(Phase::Serving, Some(exit), None)),
            None if state.lost => Some(self.failure(
                Phase::Serving,
                Some(Exit::Signal(9)),
                Some("its supervisor was killed".to_owned()),
            )),
            None => None,
        }
    }

    /// Whether the engine still serves.
    ///
    /// # Errors
    /// When its process has ended, or it runs and answers no more.
    pub async fn check(&self) -> Result<(), EngineFailure> {
        if let Some(failure) = self.ended() {
            return Err(failure);
        }
        let until = Instant::now() + HUNG;
        let asked = async {
            let options = access::options(&self.endpoint, &|name| std::env::var(name).ok()).ok()?;
            let client = build_http_client(&options).ok()?;
            let mut seen = None;
            while Instant::now() < until {
                match ready::ask(&client, &options.url, &self.ready).await {
                    Answer::Ready => return None,
                    Answer::NotYet(why) => seen = Some(why),
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            seen
        };
        match asked.await {
            None => Ok(()),
            // It may have ended meanwhile.
            Some(seen) => Err(self.ended().unwrap_or_else(|| self.failure(Phase::Serving, None, Some(seen)))),
        }
    }

    /// Does what the plan wants done before each load, while nothing is in flight.
    ///
    /// # Errors
    /// When that fails.
    pub async fn reset(&self) -> Result<(), TargetError> {
        match &self.reset {
            None => Ok(()),
            Some(Reset::Post(path)) => self.post(path).await,
            Some(Reset::Command(list)) => self.run_reset(list).await,
        }
    }

    async fn post(&self, path: &str) -> Result<(), TargetError> {
        let options = access::options(&self.endpoint, &|name| std::env::var(name).ok())?;
        let client = build_http_client(&options)?;
        let url = format!("{}{path}", options.url.trim_end_matches('/'));
        let sent = client.post(url).header(CONNECTION, "close").timeout(RESET).send().await;
        match sent {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => {
                Err(TargetError::Reset(format!("`POST {path}` is answered with {}", response.status())))
            }
            Err(error) => Err(TargetError::Reset(format!("`POST {path}`: {}", error.without_url()))),
        }
    }

    async fn run_reset(&self, list: &[Argument]) -> Result<(), TargetError> {
        let words: Vec<&str> = list
            .iter()
            .filter_map(|argument| match argument {
                Argument::Word(word) => Some(word.as_str()),
                _ => None,
            })
            .collect();
        let Some((program, args)) = words.split_first() else { return Ok(()) };
        let mut command = Command::new(program);
        command.args(args).envs(&self.env).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        match timeout(RESET, command.kill_on_drop(true).status()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(TargetError::Reset(format!("`{program}` ended with {status}"))),
            Ok(Err(error)) => Err(TargetError::Reset(format!("`{program}` cannot be run: {error}"))),
            Err(_) => Err(TargetError::Reset(format!("`{program}` took longer than {} s", RESET.as_secs()))),
        }
    }

    pub(super) fn failure(&self, phase: Phase, exit: Option<Exit>, seen: Option<String>) -> EngineFailure {
        let tail = log::tail(&self.log, READ);
        EngineFailure {
            cause: classify(phase, exit, &tail),
            phase,
            exit,
            launch: self.launch,
            seconds: self.began.elapsed().as_secs_f64(),
            seen,
            log: self.log.clone(),
            tail: tail[tail.len().saturating_sub(SHOWN)..].to_vec(),
        }
    }

    /// Stops the engine with all its processes. Gives the number of those that could not be ended.
    pub async fn stop(self) -> usize {
        self.supervised.stop(self.stop_limit).await
    }
}
