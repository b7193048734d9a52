//! The conduct of a tuning: ask, launch, search, keep, tell.

use tokio::sync::watch;

use super::confirmation;
use super::document::{Outcome, TuneDocument};
use super::entry::{Entry, Role, Told};
use super::error::TuneError;
use super::folder::TuneFolder;
use super::launcher::{LaunchError, LaunchFailure, Launched, Launcher};
use super::measure::told;
use super::plan::TunePlan;
use crate::controller;
use crate::plan::{Budget, Plan};
use crate::recipe::TuneObjective;
use crate::run::{Contents, Cost, RunFolder, Silent};
use crate::search::race::{Race, Rival};
use crate::search::tuner::{Enough, FailureKind, Recommendation, TrialCost, Tuner, TunerAsk};
use crate::search::{self, SearchOutcome};
use crate::space::{Setting, Space};

/// Told of what happens in a tuning. Every method does nothing unless it is written.
pub trait Watcher {
    /// A setting is tried: the `number`th of at most `of`.
    fn trying(&mut self, _number: usize, _of: usize, _role: Role, _setting: &Setting) {}

    /// What came of it.
    fn tried(&mut self, _entry: &Entry, _best: Option<f64>) {}

    /// Exploring is over.
    fn explored(&mut self, _why: Enough) {}
}

/// A tuning under way.
pub struct Conduct<'a, L: Launcher> {
    /// What is to be done.
    pub plan: &'a TunePlan,
    /// Brings engines up.
    pub launcher: &'a mut L,
    /// Where everything is kept.
    pub folder: &'a mut TuneFolder,
    /// Who is told.
    pub watcher: &'a mut dyn Watcher,
    /// Turns true when the operator asks to stop.
    pub interrupt: watch::Receiver<bool>,
}

/// The engine that runs, and what it was launched with.
pub(super) struct Engine<T> {
    with: Setting,
    launched: Launched<T>,
}

/// What was done so far.
pub(super) struct State<T> {
    pub(super) space: Space,
    pub(super) entries: Vec<Entry>,
    pub(super) engine: Option<Engine<T>>,
}

impl<T> State<T> {
    fn spent(&self) -> f64 {
        self.entries.iter().map(|entry| entry.cost.launch + entry.cost.measure).sum()
    }

    /// Mean seconds of a try.
    fn usual(&self) -> f64 {
        self.spent() / self.entries.len().max(1) as f64
    }
}

impl<L: Launcher> Conduct<'_, L> {
    /// Tunes, going on after the settings of `past`.
    ///
    /// # Errors
    /// When files cannot be written. A setting that fails is no error.
    pub async fn run(mut self, past: Vec<Entry>) -> Result<TuneDocument, TuneError> {
        let space = self.plan.space()?;
        let mut tuner = self.plan.tuner(&space)?;
        let mut state = State { space, entries: Vec::new(), engine: None };
        for entry in past {
            if entry.role == Role::Explore {
                // Asked first: the tuner moves on as it did then.
                let _ = tuner.ask();
                tuner.tell(&state.space.point(&entry.setting)?, entry.told.tried(), entry.cost);
            }
            state.entries.push(entry);
        }
        let explored = self.explore(tuner.as_mut(), &mut state).await?;
        let mut outcome = Outcome::Tuned;
        match explored {
            Some(why) => {
                self.watcher.explored(why);
                let candidates = candidates(tuner.as_ref(), &state.space);
                if !self.confirm(&candidates, &mut state).await? {
                    outcome = Outcome::Interrupted;
                }
            }
            None => outcome = Outcome::Interrupted,
        }
        if let Some(engine) = state.engine.take() {
            self.launcher.stop(engine.launched).await;
        }
        let command = |setting: &Setting| self.launcher.command(&self.plan.plan, setting);
        Ok(TuneDocument::new(
            self.plan,
            &state.space,
            tuner.as_ref(),
            &state.entries,
            outcome,
            explored,
            &command,
        ))
    }

    /// Tries settings until the tuner has had enough; none where the operator has.
    async fn explore(
        &mut self,
        tuner: &mut dyn Tuner,
        state: &mut State<L::Target>,
    ) -> Result<Option<Enough>, TuneError> {
        loop {
            if *self.interrupt.borrow() {
                return Ok(None);
            }
            let point = match tuner.ask() {
                TunerAsk::Done(why) => return Ok(Some(why)),
                TunerAsk::Try(point) => point,
            };
            // What the confirmation will take is kept back.
            let still = 1.0 + 2.0 * self.plan.confirmations as f64;
            if self
                .plan
                .seconds
                .is_some_and(|most| !state.entries.is_empty() && state.spent() + still * state.usual() > most)
            {
                return Ok(Some(Enough::OutOfTime));
            }
            let best = tuner.recommend();
            let setting = state.space.setting(&point);
            self.watcher.trying(state.entries.len() + 1, self.plan.launches, Role::Explore, &setting);
            let rival = best.as_ref().map(|best| self.rival(best, &setting));
            let Some(entry) = self.try_setting(state, Role::Explore, setting, rival).await? else {
                return Ok(None);
            };
            tuner.tell(&point, entry.told.tried(), entry.cost);
            self.watcher.tried(&entry, tuner.recommend().map(|best| best.log_value.exp()));
        }
    }

    /// What a setting must beat, in the terms of its own run.
    fn rival(&self, best: &Recommendation, setting: &Setting) -> Rival {
        let value = best.log_value.exp();
        match self.plan.objective {
            TuneObjective::Goodput => Rival::Goodput(value),
            TuneObjective::Concurrency => Rival::Concurrency(value),
            TuneObjective::Cost => Rival::Goodput(value * self.plan.cost_of(setting)),
        }
    }

    /// Measures the candidates and the default in turns. False where the operator ended it.
    async fn confirm(
        &mut self,
        candidates: &[Setting],
        state: &mut State<L::Target>,
    ) -> Result<bool, TuneError> {
        let default = state.space.setting(&state.space.default_point());
        if candidates.first().is_none_or(|best| *best == default) {
            return Ok(true);
        }
        let of = self.plan.confirmations * (candidates.len() + 1);
        let mut number = 0;
        for turn in 0..self.plan.confirmations {
            for role in confirmation::turn(turn, candidates.len()) {
                number += 1;
                if state.entries.iter().any(|entry| entry.role == role) {
                    continue;
                }
                if *self.interrupt.borrow() {
                    return Ok(false);
                }
                let setting = match role {
                    Role::ConfirmCandidate { candidate, .. } => candidates[candidate].clone(),
                    _ => default.clone(),
                };
                // Each one is launched anew: what one launch differs from the next is part of the answer.
                if let Some(engine) = state.engine.take() {
                    self.launcher.stop(engine.launched).await;
                }
                self.watcher.trying(number, of, role, &setting);
                match self.try_setting(state, role, setting, None).await? {
                    Some(entry) => self.watcher.tried(&entry, None),
                    None => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Launches (where that is needed), measures and keeps a setting; none where the operator
    /// interrupted it, which is not kept: it is tried again when the tuning is resumed.
    async fn try_setting(
        &mut self,
        state: &mut State<L::Target>,
        role: Role,
        setting: Setting,
        rival: Option<Rival>,
    ) -> Result<Option<Entry>, TuneError> {
        let id = state.entries.len() as u32 + 1;
        let mut plan = self.plan.plan.clone();
        plan.seed = plan.seed.wrapping_add(u64::from(id) * 1_000_003);
        plan.name = format!("{id:03}");
        if let Some(most) = self.plan.seconds {
            let left = (most - state.spent()).max(1.0);
            plan.budget =
                Budget { seconds: Some(plan.budget.seconds.map_or(left, |s| s.min(left))), ..plan.budget };
        }
        let mut entry = Entry {
            id,
            role,
            told: Told::Failed { kind: FailureKind::Start, what: String::new(), log_tail: Vec::new() },
            cost: TrialCost::default(),
            answer: None,
            run: None,
            log: None,
            setting,
        };
        if let Some(engine) = &mut plan.engine {
            // So that the run's own folder says what was launched.
            engine.knobs.extend(entry.setting.clone());
        }
        match self.bring_up(state, &plan, &entry.setting).await {
            Err(LaunchError::Interrupted) => return Ok(None),
            Err(LaunchError::Cannot(failure)) => return Err(failure.into()),
            Err(LaunchError::Failed(failure)) => {
                entry.cost.launch = failure.seconds;
                failed(failure, &mut entry);
            }
            Ok((mut engine, seconds)) => {
                entry.cost.launch = seconds;
                entry.log.clone_from(&engine.launched.log);
                let interrupted = self.measure(&mut engine, &plan, rival, &mut entry).await?;
                let keep = matches!(entry.told, Told::Measured { .. })
                    || matches!(entry.told, Told::Failed { kind: FailureKind::MissedAtLowest, .. });
                // A server that hangs misses every SLO, which says nothing of what it carries.
                let dead = match entry.told {
                    Told::Failed { .. } if !interrupted => self.launcher.check(&engine.launched).await,
                    _ => None,
                };
                if keep && !interrupted && dead.is_none() {
                    state.engine = Some(engine);
                } else {
                    self.launcher.stop(engine.launched).await;
                }
                if let Some(failure) = dead {
                    failed(failure, &mut entry);
                }
                if interrupted {
                    return Ok(None);
                }
            }
        }
        self.folder.keep(&entry)?;
        state.entries.push(entry.clone());
        Ok(Some(entry))
    }

    /// The engine with `setting`: the one that runs where it has it already, or could be changed to it.
    async fn bring_up(
        &mut self,
        state: &mut State<L::Target>,
        plan: &Plan,
        setting: &Setting,
    ) -> Result<(Engine<L::Target>, f64), LaunchError> {
        let with = state.space.launched_with(setting);
        if let Some(mut engine) = state.engine.take() {
            if engine.with == with {
                return match self.launcher.adjust(&mut engine.launched, plan, setting).await {
                    Ok(()) => Ok((engine, 0.0)),
                    Err(error) => {
                        self.launcher.stop(engine.launched).await;
                        Err(error)
                    }
                };
            }
            self.launcher.stop(engine.launched).await;
        }
        let launched = self.launcher.launch(plan, setting).await?;
        let seconds = launched.seconds;
        Ok((Engine { with, launched }, seconds))
    }

    /// Searches the load that the engine carries. True where the operator interrupted it.
    async fn measure(
        &mut self,
        engine: &mut Engine<L::Target>,
        plan: &Plan,
        rival: Option<Rival>,
        entry: &mut Entry,
    ) -> Result<bool, TuneError> {
        let mut folder = RunFolder::create(Some(&self.folder.runs()), &plan.name, plan)?;
        let path = folder.path().to_owned();
        let plan = &self.launcher.measured_plan(&engine.launched, plan);
        let mut race = Race::new(search::strategy(plan), rival);
        let target = &mut engine.launched.target;
        folder.target_described(crate::target::Target::describe(target))?;
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

/// The best setting, and the runner-up where it is within the doubt of the best.
fn candidates(tuner: &dyn Tuner, space: &Space) -> Vec<Setting> {
    let ranking = tuner.ranking();
    let Some(best) = ranking.first() else { return Vec::new() };
    let default = space.default_point();
    let close = |other: &&Recommendation| {
        other.point != default
            && best.log_value - other.log_value < 0.5 * (best.sd.powi(2) + other.sd.powi(2)).sqrt()
    };
    let second = ranking.iter().skip(1).take(1).filter(close);
    std::iter::once(best).chain(second).map(|one| space.setting(&one.point)).collect()
}
