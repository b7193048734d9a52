//! Real engines, launched with each setting and measured over HTTP.

use std::path::Path;
use std::time::Instant;

use tokio::sync::watch;

use super::launcher::{LaunchError, LaunchFailure, Launched, Launcher};
use crate::loadgen::ClientOptions;
use crate::plan::{Plan, TargetPlan};
use crate::search::tuner::FailureKind;
use crate::space::{Domain, Setting, Space};
use crate::target::managed::{self, Attended, Cause, EngineFailure, Running};
use crate::target::{Live, Prepared, Target, TargetError, prepare};

/// The port that a command is shown with, where the plan leaves it open.
const SHOWN_PORT: u16 = 8000;

/// Is told what the operator may want to see.
pub type Tell = Box<dyn FnMut(&str) + Send>;

/// Launches the plan's engine with each setting.
pub struct Managed {
    launcher: managed::Launcher,
    interrupt: watch::Receiver<bool>,
    tell: Tell,
    /// Whether one launch has been measured: what goes wrong later is the setting's doing.
    proved: bool,
    /// Seconds that the last engine took to stop, not yet told as anybody's cost.
    stopping: f64,
}

/// An engine that was launched, and how it is measured.
pub struct ManagedTarget {
    running: Running,
    prepared: Prepared,
}

impl Managed {
    /// A launcher of the plan's engine; logs and the list of launches go to `folder`. `interrupt` turns
    /// true when the operator asks to stop.
    ///
    /// # Errors
    /// When the plan has no engine to launch.
    pub fn new(
        plan: &Plan,
        folder: &Path,
        interrupt: watch::Receiver<bool>,
        tell: Tell,
    ) -> Result<Self, managed::LaunchFailure> {
        let launcher = managed::Launcher::new(plan, folder, interrupt.clone())?;
        Ok(Self { launcher, interrupt, tell, proved: false, stopping: 0.0 })
    }

    /// Checks that every knob reaches the engine.
    ///
    /// # Errors
    /// Names the knob that does not, and the mend.
    pub fn check(plan: &Plan, space: &Space) -> Result<(), String> {
        let TargetPlan::Endpoint(_) = &plan.target else { return Err("the target is no server".to_owned()) };
        let Some(engine) = &plan.engine else { return Err("the plan has no engine to launch".to_owned()) };
        let (launch, reset) = (engine.launch_knobs(), engine.reset_knobs());
        for knob in space.knobs() {
            let own = [knob.name.clone()];
            let names = match &knob.domain {
                Domain::Linked { names, .. } => names.as_slice(),
                _ => &own,
            };
            for name in names {
                if knob.restart && !launch.contains(name) {
                    return Err(format!(
                        "knob `{name}` is used by no template of `engine.launch` or `engine.env`; name it there as \
                         `{{{{ knobs.{name} }}}}`, or leave the knob out"
                    ));
                }
                if !knob.restart && (launch.contains(name) || !reset.contains(name)) {
                    return Err(format!(
                        "knob `{name}` has `restart = false`, so `engine.reset` must be the command that sets it, and \
                         `engine.launch` must not name it"
                    ));
                }
            }
        }
        Ok(())
    }

    async fn prepared(&mut self, running: &Running, plan: &Plan) -> Result<Prepared, LaunchError> {
        match prepare(&running.plan(plan), self.interrupt.clone()).await {
            Ok(prepared) => {
                self.proved = true;
                Ok(prepared)
            }
            Err(TargetError::Engine(failure)) => Err(LaunchError::Failed(of_engine(&failure))),
            Err(error) => Err(self.unfit(error, running.started_seconds)),
        }
    }

    /// An engine that is up but cannot be measured: the setting's doing where others could be.
    fn unfit(&self, error: TargetError, seconds: f64) -> LaunchError {
        if !self.proved {
            return LaunchError::Cannot(managed::LaunchFailure::Target(Box::new(error)));
        }
        let (what, log_tail) = (error.to_string(), Vec::new());
        LaunchError::Failed(LaunchFailure { kind: FailureKind::Void, what, log_tail, seconds, log: None })
    }
}

/// What a failed engine says, in the tuner's terms.
pub fn of_engine(failure: &EngineFailure) -> LaunchFailure {
    let kind = match failure.cause {
        Cause::StartFailed(_) => FailureKind::Start,
        Cause::OutOfMemory => FailureKind::OutOfMemory,
        Cause::NotReady => FailureKind::NotReady,
        Cause::CrashedUnderLoad(_) => FailureKind::Crash,
        Cause::Hung => FailureKind::Hang,
    };
    let last = failure.tail.iter().rev().find(|line| !line.trim().is_empty());
    let seen = failure.exit.map(|exit| exit.to_string()).or_else(|| failure.seen.clone());
    let parts: Vec<String> =
        seen.into_iter().chain(last.map(|line| format!("last line: {}", line.trim()))).collect();
    LaunchFailure {
        kind,
        what: if parts.is_empty() { failure.to_string() } else { parts.join("; ") },
        log_tail: failure.tail.clone(),
        seconds: failure.seconds,
        log: name_of(&failure.log),
    }
}

fn name_of(log: &Path) -> Option<String> {
    log.file_name().map(|name| name.to_string_lossy().into_owned())
}

impl Launcher for Managed {
    type Target = ManagedTarget;

    async fn launch(
        &mut self,
        plan: &Plan,
        setting: &Setting,
    ) -> Result<Launched<ManagedTarget>, LaunchError> {
        let began = Instant::now();
        let before = std::mem::take(&mut self.stopping);
        let knobs = with_fixed(plan, setting);
        let running = match self.launcher.launch(&knobs, &mut self.tell).await {
            Ok(running) => running,
            Err(managed::LaunchFailure::Engine(failure)) => {
                let seconds = before + began.elapsed().as_secs_f64();
                return Err(LaunchError::Failed(LaunchFailure { seconds, ..of_engine(&failure) }));
            }
            Err(managed::LaunchFailure::Target(error)) => {
                return Err(self.unfit(*error, before + began.elapsed().as_secs_f64()));
            }
            Err(managed::LaunchFailure::Interrupted) => return Err(LaunchError::Interrupted),
            Err(other) => return Err(LaunchError::Cannot(other)),
        };
        match self.prepared(&running, plan).await {
            Ok(prepared) => {
                let log = name_of(&running.log);
                let target = ManagedTarget { running, prepared };
                Ok(Launched { target, seconds: before + began.elapsed().as_secs_f64(), log })
            }
            Err(error) => {
                self.end(running).await;
                Err(error)
            }
        }
    }

    async fn adjust(
        &mut self,
        engine: &mut Launched<ManagedTarget>,
        plan: &Plan,
        setting: &Setting,
    ) -> Result<(), LaunchError> {
        let target = &mut engine.target;
        self.launcher.adjust(&mut target.running, &with_fixed(plan, setting)).map_err(LaunchError::Cannot)?;
        target.prepared = self.prepared(&target.running, plan).await?;
        Ok(())
    }

    async fn check(&mut self, engine: &Launched<ManagedTarget>) -> Option<LaunchFailure> {
        engine.target.running.check().await.err().map(|failure| of_engine(&failure))
    }

    async fn stop(&mut self, engine: Launched<ManagedTarget>) {
        self.end(engine.target.running).await;
    }

    fn measured_plan(&self, engine: &Launched<ManagedTarget>, plan: &Plan) -> Plan {
        engine.target.running.plan(plan)
    }

    fn command(&self, plan: &Plan, setting: &Setting) -> String {
        let port = plan.engine.as_ref().and_then(|engine| engine.port).unwrap_or(SHOWN_PORT);
        // Every template was filled in before, for a launch.
        self.launcher.command(&with_fixed(plan, setting), port).unwrap_or_default()
    }
}

impl Managed {
    async fn end(&mut self, running: Running) {
        let (pid, began) = (running.pid, Instant::now());
        let left = running.stop().await;
        self.stopping += began.elapsed().as_secs_f64();
        if left > 0 {
            (self.tell)(&format!("{left} processes of the engine (group {pid}) could not be ended"));
        }
    }
}

/// The knobs of the setting, and those that the plan sets for every launch.
fn with_fixed(plan: &Plan, setting: &Setting) -> Setting {
    let mut knobs = plan.engine.as_ref().map(|engine| engine.knobs.clone()).unwrap_or_default();
    knobs.extend(setting.clone());
    knobs
}

impl Target for ManagedTarget {
    type Session = <Live as Target>::Session;

    async fn open(&mut self, clock: f64, first_request: u64) -> Result<Self::Session, TargetError> {
        Attended::new(&mut self.prepared.live, Some(&self.running)).open(clock, first_request).await
    }

    fn client(&self) -> Option<&ClientOptions> {
        self.prepared.live.client()
    }

    fn describe(&self) -> serde_json::Value {
        self.running.described(self.prepared.live.describe())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::recipe::Recipe;
    use crate::target::managed::{Exit, Phase};
    use crate::tune::TunePlan;

    fn check(engine: &str, knob: &str) -> Result<(), String> {
        let text = format!(
            "slo = ['ttft p95 < 1s']\n[engine]\n{engine}\n[knobs.n]\ntype = 'int'\nrange = [1, 9]\ndefault = 1\n{knob}"
        );
        let plan = TunePlan::of(Recipe::from_toml(&text, "test").unwrap(), None).unwrap();
        Managed::check(&plan.plan, &plan.space().unwrap())
    }

    #[test]
    fn a_knob_that_cannot_reach_the_engine_is_named_with_the_mend() {
        assert_eq!(check("launch = 'serve {knobs.n}'", ""), Ok(()));
        assert_eq!(check("launch = 'serve'\nenv = { N = '{{ knobs.n }}' }", ""), Ok(()));
        assert!(check("launch = 'serve'", "").unwrap_err().starts_with("knob `n` is used by no template"));
        let quick = "restart = false";
        assert!(check("launch = 'serve {knobs.n}'", quick).unwrap_err().contains("`engine.reset` must be"));
        assert_eq!(check("launch = 'serve'\nreset = 'set {knobs.n}'", quick), Ok(()));
        assert!(check("launch = 'serve'\nreset = 'set {knobs.n}'", "").is_err());
    }

    #[test]
    fn a_failure_is_told_by_its_cause_and_the_last_line_of_the_log() {
        let failure = EngineFailure {
            cause: Cause::OutOfMemory,
            phase: Phase::Starting,
            exit: Some(Exit::Code(1)),
            launch: 3,
            seconds: 2.5,
            seen: None,
            log: "runs/x/engine-003.log".into(),
            tail: vec!["loading".to_owned(), "CUDA out of memory".to_owned(), String::new()],
        };
        let told = of_engine(&failure);
        assert_eq!(told.kind, FailureKind::OutOfMemory);
        assert_eq!(told.what, "exit code 1; last line: CUDA out of memory");
        assert_eq!((told.log.as_deref(), told.log_tail.len()), (Some("engine-003.log"), 3));
        let hung = EngineFailure { cause: Cause::Hung, exit: None, tail: Vec::new(), ..failure };
        assert!(of_engine(&hung).what.contains("answers no more"));
    }
}
