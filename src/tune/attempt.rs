//! One try: a setting on a slot, from the launch to what came of it.

use std::path::PathBuf;

use tokio::sync::watch;

use super::entry::{Entry, Role, Told};
use super::error::TuneError;
use super::launcher::{LaunchError, LaunchFailure, Launched, Launcher};
use super::measure::told;
use super::plan::TunePlan;
use crate::controller;
use crate::plan::{Budget, Plan};
use crate::recipe::TuneObjective;
use crate::run::{Contents, Cost, RunFolder, Silent};
use crate::search::race::{Race, Rival};
use crate::search::tuner::{FailureKind, TrialCost};
use crate::search::{self, SearchOutcome};
use crate::space::{Point, Setting, Space};
use crate::target::{Target, managed};

/// A place where an engine runs, one at a time.
pub(super) struct Slot<L: Launcher> {
    /// Its number, from 1.
    pub(super) number: u32,
    /// Brings engines up there.
    pub(super) launcher: L,
    /// The engine that runs there.
    pub(super) engine: Option<Engine<L::Target>>,
    /// When it was or will be free, seconds of the tuning.
    pub(super) clock: f64,
}

/// An engine that runs, and what it was launched with.
pub(super) struct Engine<T> {
    with: Setting,
    pub(super) launched: Launched<T>,
}

/// What a slot is to try.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: u32,
    pub(super) role: Role,
    pub(super) setting: Setting,
    /// The same for the tuner that asked for it.
    pub(super) point: Point,
    pub(super) rival: Option<Rival>,
    /// Where it was tried in vain, if it was.
    pub(super) moved: Option<Moved>,
}

/// A try that another slot is to repeat: on its own slot no engine had come up before.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    /// The slot.
    pub(super) from: u32,
    /// What came of it there; none where nothing could be launched at all.
    pub(super) entry: Option<Entry>,
}

/// What came of a try.
pub(super) enum Came {
    /// It is known what the setting does; `up` where the engine came up.
    Tried { entry: Box<Entry>, up: bool },
    /// The operator interrupted it: it is tried again when the tuning is resumed.
    Interrupted,
    /// No setting can be launched on the slot.
    Cannot(managed::LaunchFailure),
}

/// A try that has ended.
pub(super) struct Ended<L: Launcher> {
    pub(super) slot: Slot<L>,
    pub(super) job: Job,
    pub(super) came: Result<Came, TuneError>,
}

/// What every try needs.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a TunePlan,
    pub(super) space: &'a Space,
    /// Where the runs' folders go.
    pub(super) runs: PathBuf,
    /// Turns true when the operator asks to stop.
    pub(super) interrupt: watch::Receiver<bool>,
}

impl Bench<'_> {
    /// Launches (where that is needed) and measures a setting.
    pub(super) async fn attempt<L: Launcher>(&self, mut slot: Slot<L>, job: Job) -> Ended<L> {
        let came = self.try_on(&mut slot, &job).await;
        if let Ok(Came::Tried { entry, .. }) = &came {
            slot.clock += entry.cost.launch + entry.cost.measure;
        }
        Ended { slot, job, came }
    }

    async fn try_on<L: Launcher>(&self, slot: &mut Slot<L>, job: &Job) -> Result<Came, TuneError> {
        let mut plan = self.plan.plan_on(slot.number);
        plan.seed = plan.seed.wrapping_add(u64::from(job.id) * 1_000_003);
        plan.name = format!("{:03}", job.id);
        if let Some(most) = self.plan.seconds {
            let left = (most - slot.clock).max(1.0);
            plan.budget =
                Budget { seconds: Some(plan.budget.seconds.map_or(left, |s| s.min(left))), ..plan.budget };
        }
        let listed = !self.plan.slots.is_empty();
        let mut entry = Entry {
            id: job.id,
            role: job.role,
            told: Told::Failed { kind: FailureKind::Start, what: String::new(), log_tail: Vec::new() },
            cost: TrialCost::default(),
            answer: None,
            run: None,
            log: None,
            setting: job.setting.clone(),
            slot: listed.then_some(slot.number),
            began: listed.then_some(slot.clock),
        };
        if let Some(engine) = &mut plan.engine {
            // So that the run's own folder says what was launched.
            engine.knobs.extend(entry.setting.clone());
        }
        if job.role != Role::Explore
            && let Some(engine) = slot.engine.take()
        {
            // Launched anew: what one launch differs from the next is part of the answer.
            slot.launcher.stop(engine.launched).await;
        }
        let (mut engine, seconds) = match self.bring_up(slot, &plan, &entry.setting).await {
            Err(LaunchError::Interrupted) => return Ok(Came::Interrupted),
            Err(LaunchError::Cannot(failure)) => return Ok(Came::Cannot(failure)),
            Err(LaunchError::Failed(failure)) => {
                entry.cost.launch = failure.seconds;
                failed(failure, &mut entry);
                return Ok(Came::Tried { entry: Box::new(entry), up: false });
            }
            Ok(up) => up,
        };
        entry.cost.launch = seconds;
        entry.log.clone_from(&engine.launched.log);
        let interrupted = self.measure(&slot.launcher, &mut engine, &plan, job.rival, &mut entry).await?;
        let keep = matches!(entry.told, Told::Measured { .. })
            || matches!(entry.told, Told::Failed { kind: FailureKind::MissedAtLowest, .. });
        // A server that hangs misses every SLO, which says nothing of what it carries.
        let dead = match entry.told {
            Told::Failed { .. } if !interrupted => slot.launcher.check(&engine.launched).await,
            _ => None,
        };
        if keep && !interrupted && dead.is_none() {
            slot.engine = Some(engine);
        } else {
            slot.launcher.stop(engine.launched).await;
        }
        if let Some(failure) = dead {
            failed(failure, &mut entry);
        }
        Ok(if interrupted { Came::Interrupted } else { Came::Tried { entry: Box::new(entry), up: true } })
    }

    /// The engine with `setting`: the one that runs where it has it already, or could be changed to it.
    async fn bring_up<L: Launcher>(
        &self,
        slot: &mut Slot<L>,
        plan: &Plan,
        setting: &Setting,
    ) -> Result<(Engine<L::Target>, f64), LaunchError> {
        let with = self.space.launched_with(setting);
        if let Some(mut engine) = slot.engine.take() {
            if engine.with == with {
                return match slot.launcher.adjust(&mut engine.launched, plan, setting).await {
                    Ok(()) => Ok((engine, 0.0)),
                    Err(error) => {
                        slot.launcher.stop(engine.launched).await;
                        Err(error)
                    }
                };
            }
            slot.launcher.stop(engine.launched).await;
        }
        let launched = slot.launcher.launch(plan, setting).await?;
        let seconds = launched.seconds;
        Ok((Engine { with, launched }, seconds))
    }

    /// Searches the load that the engine carries. True where the operator interrupted it.
    async fn measure<L: Launcher>(
        &self,
        launcher: &L,
        engine: &mut Engine<L::Target>,
        plan: &Plan,
        rival: Option<Rival>,
        entry: &mut Entry,
    ) -> Result<bool, TuneError> {
        let mut folder = RunFolder::create(Some(&self.runs), &plan.name, plan)?;
        let path = folder.path().to_owned();
        let plan = &launcher.measured_plan(&engine.launched, plan);
        let mut race = Race::new(search::strategy(plan), rival);
        let target = &mut engine.launched.target;
        folder.target_described(Target::describe(target))?;
        let found =
            controller::search_by(&mut race, plan, target, &mut folder, &[], Cost::default(), &mut Silent)
                .await;
        folder.close()?;
        let found = match found {
            Ok(found) => found,
            // Why it is gone is asked of the engine itself.
            Err(controller::ControllerError::Target(error)) => {
                entry.told = Told::Failed {
                    kind: if error.is_unreachable() { FailureKind::Crash } else { FailureKind::Void },
                    what: error.to_string(),
                    log_tail: Vec::new(),
                };
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        if Contents::read(&path).is_ok_and(|contents| contents.trials.is_empty()) {
            crate::run::discard(&path);
        } else if let Some(name) = path.file_name() {
            entry.run = Some(format!("runs/{}", name.to_string_lossy()));
        }
        entry.cost.measure = found.cost.seconds;
        if *self.interrupt.borrow() && found.answer.outcome == SearchOutcome::Interrupted {
            return Ok(true);
        }
        entry.told = told(plan, self.plan.objective, &race, &found);
        if let (Told::Measured { value, .. }, TuneObjective::Cost) = (&mut entry.told, self.plan.objective) {
            *value /= self.plan.cost_of(&entry.setting);
        }
        entry.answer = Some(found.answer);
        Ok(false)
    }
}

fn failed(failure: LaunchFailure, entry: &mut Entry) {
    entry.told = Told::Failed { kind: failure.kind, what: failure.what, log_tail: failure.log_tail };
    if failure.log.is_some() {
        entry.log = failure.log;
    }
}
