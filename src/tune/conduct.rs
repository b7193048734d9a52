//! The conduct of a tuning: ask, let a free slot try it, keep, tell.

use tokio::sync::watch;

use super::attempt::{Bench, Ended, Job};
use super::confirmation;
use super::crew::Crew;
use super::document::{Conducted, Outcome, TuneDocument};
use super::entry::{Entry, Role};
use super::error::TuneError;
use super::folder::TuneFolder;
use super::launcher::Launcher;
use super::plan::TunePlan;
use crate::recipe::TuneObjective;
use crate::search::race::Rival;
use crate::search::tuner::{Enough, Recommendation, Tuner, TunerAsk};
use crate::space::{Setting, Space};

/// A setting that is about to be tried.
#[derive(Clone, Copy, Debug)]
pub struct Trying<'a> {
    /// Number of the try in the whole tuning.
    pub id: u32,
    /// Which one it is of its kind (exploring, or confirming), from 1.
    pub number: usize,
    /// Of how many at most.
    pub of: usize,
    /// What it is for.
    pub role: Role,
    /// The knobs.
    pub setting: &'a Setting,
    /// Number of the slot, where slots are listed.
    pub slot: Option<u32>,
    /// Seconds of the tuning that have passed.
    pub clock: f64,
}

/// Told of what happens in a tuning. Every method does nothing unless it is written.
pub trait Watcher {
    /// A setting is tried.
    fn trying(&mut self, _trying: &Trying<'_>) {}

    /// What came of it.
    fn tried(&mut self, _entry: &Entry, _best: Option<f64>) {}

    /// Nothing more is tried on a slot.
    fn gave_up(&mut self, _slot: u32, _why: &str) {}

    /// Exploring is over.
    fn explored(&mut self, _why: Enough) {}
}

/// A tuning under way.
pub struct Conduct<'a, L: Launcher> {
    /// What is to be done.
    pub plan: &'a TunePlan,
    /// Bring engines up: one for each slot of the plan in their order, or a single one where it lists
    /// none.
    pub launchers: Vec<L>,
    /// Where everything is kept.
    pub folder: &'a mut TuneFolder,
    /// Who is told.
    pub watcher: &'a mut dyn Watcher,
    /// Turns true when the operator asks to stop.
    pub interrupt: watch::Receiver<bool>,
}

impl<L: Launcher> Conduct<'_, L> {
    /// Tunes, going on after the settings of `past`.
    ///
    /// # Errors
    /// When files cannot be written, or nothing can be launched. A setting that fails is no error.
    pub async fn run(self, past: Vec<Entry>) -> Result<TuneDocument, TuneError> {
        let Self { plan, launchers, folder, watcher, interrupt } = self;
        let space = plan.space()?;
        let mut tuner = plan.tuner(&space)?;
        for entry in past.iter().filter(|entry| entry.role == Role::Explore) {
            tuner.tell(&space.point(&entry.setting)?, entry.told.tried(), entry.cost);
        }
        let bench = Bench { plan, space: &space, runs: folder.runs(), interrupt: interrupt.clone() };
        let crew = Crew::new(&bench, launchers, &past);
        let now = crew.latest();
        let mut tuning = Tuning { plan, space: &space, crew, folder, watcher, interrupt, entries: past, now };
        let ended = tuning.explore(tuner.as_mut()).await?;
        let mut outcome = Outcome::Interrupted;
        if let Some(why) = ended {
            tuning.watcher.explored(why);
            let candidates = candidates(tuner.as_ref(), &space);
            if tuning.confirm(&candidates).await? {
                outcome = Outcome::Tuned;
            }
        }
        let Tuning { crew, entries, .. } = tuning;
        let given_up = crew.given_up();
        let launchers = crew.dismiss().await;
        let command = |setting: &Setting| {
            launchers.first().map(|launcher| launcher.command(&plan.plan, setting)).unwrap_or_default()
        };
        let conducted = Conducted { entries: &entries, outcome, ended, given_up: &given_up };
        Ok(TuneDocument::new(plan, &space, tuner.as_ref(), &conducted, &command))
    }
}

/// A tuning under way, with what was done so far.
struct Tuning<'a, L: Launcher> {
    plan: &'a TunePlan,
    space: &'a Space,
    crew: Crew<'a, L>,
    folder: &'a mut TuneFolder,
    watcher: &'a mut dyn Watcher,
    interrupt: watch::Receiver<bool>,
    entries: Vec<Entry>,
    /// When the latest try ended, seconds of the tuning.
    now: f64,
}

impl<'a, L: Launcher + 'a> Tuning<'a, L> {
    /// Tries settings until the tuner has had enough; none where the operator has.
    async fn explore(&mut self, tuner: &mut dyn Tuner) -> Result<Option<Enough>, TuneError> {
        loop {
            while let Some((job, entry)) = self.crew.take_stranded() {
                self.know(tuner, &job, entry)?;
            }
            let enough = self.employ(tuner);
            // Nothing that is under way can change the tuner's mind any more.
            let Some(ended) = self.crew.next().await else { return Ok(enough) };
            let job = ended.job.clone();
            if let Some(entry) = self.take_back(ended)? {
                self.know(tuner, &job, entry)?;
            }
        }
    }

    /// Gives every free slot something to try, as far as there is something: else the reason is given,
    /// none where the operator asks to stop.
    fn employ(&mut self, tuner: &dyn Tuner) -> Option<Enough> {
        let mut enough = None;
        for number in self.crew.free() {
            if *self.interrupt.borrow() {
                return None;
            }
            let job = match self.crew.take_moved(number) {
                Some(job) => Ok(job),
                None if self.crew.is_suspect(number) => continue,
                None => self.next_job(tuner, number),
            };
            match job {
                Ok(job) => self.begin(number, job, self.plan.launches),
                Err(why) => enough = Some(why),
            }
        }
        enough
    }

    fn next_job(&self, tuner: &dyn Tuner, number: u32) -> Result<Job, Enough> {
        let point = match tuner.ask(&self.crew.pending()) {
            TunerAsk::Done(why) => return Err(why),
            TunerAsk::Try(point) => point,
        };
        // What the confirmation will take is kept back.
        let still = 1.0 + 2.0 * self.plan.confirmations.div_ceil(self.crew.live().max(1)) as f64;
        let clock = self.crew.clock(number).max(self.now);
        let over = |most: f64| !self.entries.is_empty() && clock + still * self.usual() > most;
        if self.plan.seconds.is_some_and(over) {
            return Err(Enough::OutOfTime);
        }
        let setting = self.space.setting(&point);
        let rival = tuner.recommend().map(|best| self.rival(&best, &setting));
        Ok(Job { id: self.free_id(), role: Role::Explore, setting, point, rival, moved: None })
    }

    /// Mean seconds of a try.
    fn usual(&self) -> f64 {
        let spent: f64 = self.entries.iter().map(|entry| entry.cost.launch + entry.cost.measure).sum();
        spent / self.entries.len().max(1) as f64
    }

    /// The first number that no try has.
    fn free_id(&self) -> u32 {
        let taken = |id: u32| {
            self.entries.iter().any(|entry| entry.id == id) || self.crew.jobs().any(|job| job.id == id)
        };
        (1..u32::MAX).find(|&id| !taken(id)).unwrap_or(u32::MAX)
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

    /// Measures the candidates and the default in turns, each turn on one slot. False where the operator
    /// ended it.
    async fn confirm(&mut self, candidates: &[Setting]) -> Result<bool, TuneError> {
        let default = self.space.setting(&self.space.default_point());
        if candidates.first().is_none_or(|best| *best == default) {
            return Ok(true);
        }
        let (turns, count) = (self.plan.confirmations, candidates.len());
        let setting_of = |role: Role| match role {
            Role::ConfirmCandidate { candidate, .. } => &candidates[candidate],
            _ => &default,
        };
        let mut whole = true;
        loop {
            for number in self.crew.free() {
                let done = self.entries.iter().map(|entry| (entry.role, entry.slot_number()));
                let taken: Vec<(Role, u32)> = done.chain(self.crew.roles()).collect();
                let role = confirmation::next_role(turns, count, number, &taken);
                let Some(role) = role.filter(|_| self.crew.is_proved(number)) else { continue };
                if *self.interrupt.borrow() {
                    whole = false;
                    break;
                }
                let setting = setting_of(role).clone();
                let point = self.space.point(&setting)?;
                let job = Job { id: self.free_id(), role, setting, point, rival: None, moved: None };
                self.begin(number, job, turns * (count + 1));
            }
            let Some(ended) = self.crew.next().await else { return Ok(whole) };
            if let Some(entry) = self.take_back(ended)? {
                self.folder.keep(&entry)?;
                self.watcher.tried(&entry, None);
                self.entries.push(entry);
            }
        }
    }

    fn begin(&mut self, number: u32, job: Job, of: usize) {
        let exploring = job.role == Role::Explore;
        let of_kind = |role: Role| (role == Role::Explore) == exploring;
        let before = self.entries.iter().map(|entry| entry.role).chain(self.crew.jobs().map(|job| job.role));
        let clock = self.crew.clock(number).max(self.now);
        self.watcher.trying(&Trying {
            id: job.id,
            number: before.filter(|role| of_kind(*role)).count() + 1,
            of,
            role: job.role,
            setting: &job.setting,
            slot: (!self.plan.slots.is_empty()).then_some(number),
            clock,
        });
        self.crew.start(number, job, clock);
    }

    fn take_back(&mut self, ended: Ended<L>) -> Result<Option<Entry>, TuneError> {
        self.now = self.now.max(ended.slot.clock);
        let watcher = &mut *self.watcher;
        self.crew.back(ended, &mut |slot, why| watcher.gave_up(slot, why))
    }

    /// Keeps what came of a setting, then tells the tuner.
    fn know(&mut self, tuner: &mut dyn Tuner, job: &Job, entry: Entry) -> Result<(), TuneError> {
        self.folder.keep(&entry)?;
        tuner.tell(&job.point, entry.told.tried(), entry.cost);
        self.watcher.tried(&entry, tuner.recommend().map(|best| best.log_value.exp()));
        self.entries.push(entry);
        Ok(())
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
