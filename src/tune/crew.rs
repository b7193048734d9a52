//! The slots of a tuning: which are free, what is under way, and which are given up.

use futures_util::StreamExt;
use futures_util::future::{LocalBoxFuture, join_all};
use futures_util::stream::FuturesUnordered;

use super::attempt::{Bench, Came, Ended, Job, Moved, Slot};
use super::entry::{Entry, Role, Told};
use super::error::TuneError;
use super::launcher::Launcher;
use crate::space::Point;

/// All slots, at work or not.
pub(super) struct Crew<'a, L: Launcher> {
    bench: &'a Bench<'a>,
    /// By their numbers.
    free: Vec<Slot<L>>,
    running: FuturesUnordered<LocalBoxFuture<'a, Ended<L>>>,
    /// What runs where, in the order in which it began.
    under_way: Vec<(u32, Job)>,
    /// Tries that other slots are to repeat.
    pub(super) moved: Vec<Job>,
    /// Tries that have ended, but later on the tuning's clock than others that still run (virtual time).
    early: Vec<Ended<L>>,
    states: Vec<State>,
}

/// What is known of a slot.
#[derive(Clone, Debug, Default)]
struct State {
    /// An engine has come up there.
    served: bool,
    /// The first launch there failed: another slot finds out whether the slot or the setting is to blame.
    suspect: bool,
    /// Why nothing more is tried there.
    given_up: Option<String>,
}

impl<'a, L: Launcher + 'a> Crew<'a, L> {
    /// A slot for each launcher, after what was done before.
    pub(super) fn new(bench: &'a Bench<'a>, launchers: Vec<L>, past: &[Entry]) -> Self {
        let mut free: Vec<Slot<L>> = (1..)
            .zip(launchers)
            .map(|(number, launcher)| Slot { number, launcher, engine: None, clock: 0.0 })
            .collect();
        let mut states = vec![State::default(); free.len()];
        for entry in past {
            let index = entry.slot_number() as usize - 1;
            if let (Some(slot), Some(state)) = (free.get_mut(index), states.get_mut(index)) {
                slot.clock = entry.began.unwrap_or(slot.clock) + (entry.cost.launch + entry.cost.measure);
                state.served |= entry.run.is_some() || matches!(entry.told, Told::Measured { .. });
            }
        }
        Self {
            bench,
            free,
            running: FuturesUnordered::new(),
            under_way: Vec::new(),
            moved: Vec::new(),
            early: Vec::new(),
            states,
        }
    }

    /// The latest instant that any slot has reached, seconds of the tuning.
    pub(super) fn latest(&self) -> f64 {
        self.free.iter().map(|slot| slot.clock).fold(0.0, f64::max)
    }

    /// Numbers of the slots that are free.
    pub(super) fn free(&self) -> Vec<u32> {
        self.free.iter().map(|slot| slot.number).collect()
    }

    /// When a free slot became so.
    pub(super) fn clock(&self, number: u32) -> f64 {
        self.free.iter().find(|slot| slot.number == number).map_or(0.0, |slot| slot.clock)
    }

    /// Slots that were not given up.
    pub(super) fn live(&self) -> usize {
        self.states.iter().filter(|state| state.given_up.is_none()).count()
    }

    /// Whether a slot is as good as any: an engine has come up there, or nowhere yet.
    pub(super) fn is_proved(&self, number: u32) -> bool {
        self.state(number).served || !self.states.iter().any(|state| state.served)
    }

    /// Whether it is being found out whether a slot works.
    pub(super) fn is_suspect(&self, number: u32) -> bool {
        self.state(number).suspect
    }

    /// The slots that were given up, and why.
    pub(super) fn given_up(&self) -> Vec<(u32, String)> {
        let why = |(number, state): (u32, &State)| state.given_up.clone().map(|why| (number, why));
        (1..).zip(&self.states).filter_map(why).collect()
    }

    /// What was asked for and is not known yet, in the order of the asking.
    pub(super) fn pending(&self) -> Vec<Point> {
        let mut jobs: Vec<&Job> = self.jobs().filter(|job| job.role == Role::Explore).collect();
        jobs.sort_by_key(|job| job.id);
        jobs.into_iter().map(|job| job.point.clone()).collect()
    }

    /// Everything that has begun and not ended.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.under_way.iter().map(|(_, job)| job).chain(&self.moved)
    }

    /// The roles that are under way, and where.
    pub(super) fn roles(&self) -> impl Iterator<Item = (Role, u32)> {
        self.under_way.iter().map(|(slot, job)| (job.role, *slot))
    }

    /// A try of another slot that `number` is to repeat.
    pub(super) fn take_moved(&mut self, number: u32) -> Option<Job> {
        let elsewhere = |job: &Job| job.moved.as_ref().is_none_or(|moved| moved.from != number);
        let index = self.moved.iter().position(elsewhere)?;
        Some(self.moved.remove(index))
    }

    /// What came of a try that nobody is left to repeat.
    pub(super) fn take_stranded(&mut self) -> Option<(Job, Entry)> {
        if self.live() > 1 {
            return None;
        }
        let index = self.moved.iter().position(|job| {
            job.moved
                .as_ref()
                .is_some_and(|moved| moved.entry.is_some() && self.state(moved.from).given_up.is_none())
        })?;
        let job = self.moved.remove(index);
        let Moved { from, entry } = job.moved.clone()?;
        self.state_mut(from).suspect = false;
        entry.map(|entry| (job, entry))
    }

    /// Lets a free slot try something, from `clock` on.
    pub(super) fn start(&mut self, number: u32, job: Job, clock: f64) {
        let Some(index) = self.free.iter().position(|slot| slot.number == number) else { return };
        let mut slot = self.free.remove(index);
        slot.clock = clock;
        self.under_way.push((number, job.clone()));
        let bench = self.bench;
        self.running.push(Box::pin(bench.attempt(slot, job)));
    }

    /// The next try that ends; none where nothing is under way. In virtual time a try is over as soon as
    /// it is looked at, so the one that ends first is taken by the clock.
    pub(super) async fn next(&mut self) -> Option<Ended<L>> {
        let ended = if L::VIRTUAL {
            while let Some(ended) = self.running.next().await {
                self.early.push(ended);
            }
            let first = (0..self.early.len()).min_by(|&a, &b| {
                let (a, b) = (&self.early[a].slot, &self.early[b].slot);
                a.clock.total_cmp(&b.clock).then(a.number.cmp(&b.number))
            })?;
            self.early.remove(first)
        } else {
            self.running.next().await?
        };
        self.under_way.retain(|(_, job)| job.id != ended.job.id);
        Some(ended)
    }

    /// Takes a slot back after a try. Gives what is known of the setting now; nothing where it is to be
    /// tried again, here or elsewhere. `tell` hears of slots that are given up.
    ///
    /// # Errors
    /// When nothing can be launched and this was the last slot.
    pub(super) fn back(
        &mut self,
        ended: Ended<L>,
        tell: &mut dyn FnMut(u32, &str),
    ) -> Result<Option<Entry>, TuneError> {
        let Ended { slot, mut job, came } = ended;
        let number = slot.number;
        let known = match came? {
            Came::Interrupted => None,
            Came::Cannot(failure) if self.live() <= 1 => return Err(failure.into()),
            Came::Cannot(failure) => {
                self.give_up(number, &failure.to_string(), tell);
                if job.role == Role::Explore {
                    job.moved.get_or_insert(Moved { from: number, entry: None });
                    self.moved.push(job);
                }
                None
            }
            Came::Tried { entry, up } => {
                let state = self.state_mut(number);
                if up {
                    // Whatever was said of it meanwhile.
                    *state = State { served: true, ..State::default() };
                }
                let unproved = !state.served && job.role == Role::Explore && self.live() > 1;
                match &job.moved {
                    Some(moved) => {
                        self.judge(moved, up, number, tell);
                        Some(*entry)
                    }
                    None if unproved => {
                        self.state_mut(number).suspect = true;
                        job.moved = Some(Moved { from: number, entry: Some(*entry) });
                        self.moved.push(job);
                        None
                    }
                    None => Some(*entry),
                }
            }
        };
        if self.state(number).given_up.is_none() {
            self.free.push(slot);
            self.free.sort_by_key(|slot| slot.number);
        }
        Ok(known)
    }

    /// What a setting that failed on one slot and was tried on another says of the first.
    fn judge(&mut self, moved: &Moved, up: bool, here: u32, tell: &mut dyn FnMut(u32, &str)) {
        let state = self.state_mut(moved.from);
        state.suspect = false;
        if up && !state.served && state.given_up.is_none() {
            let what = match moved.entry.as_ref().map(|entry| &entry.told) {
                Some(Told::Failed { kind, what, .. }) => format!("it {}: {what}", kind.words()),
                _ => "it did not start".to_owned(),
            };
            self.give_up(moved.from, &format!("{what}; on slot {here} the same setting starts"), tell);
        }
    }

    fn give_up(&mut self, number: u32, why: &str, tell: &mut dyn FnMut(u32, &str)) {
        self.state_mut(number).given_up = Some(why.to_owned());
        self.free.retain(|slot| slot.number != number);
        tell(number, why);
    }

    /// Ends all engines and gives the launchers back.
    pub(super) async fn dismiss(mut self) -> Vec<L> {
        let stops = self.free.iter_mut().map(|slot| async {
            if let Some(engine) = slot.engine.take() {
                slot.launcher.stop(engine.launched).await;
            }
        });
        join_all(stops).await;
        self.free.into_iter().map(|slot| slot.launcher).collect()
    }

    fn state(&self, number: u32) -> &State {
        &self.states[number as usize - 1]
    }

    fn state_mut(&mut self, number: u32) -> &mut State {
        &mut self.states[number as usize - 1]
    }
}
