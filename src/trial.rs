//! One trial: move the running load to a level, let it settle, measure until the rule says stop.
//!
//! The same code drives a live endpoint and virtual time. The load is never drained between trials:
//! requests that are in flight at a trial's end go on into the next one.

mod open;
mod ramp;
mod running;
#[cfg(test)]
mod tests;

pub use open::OpenLoad;

use running::{Flow, Running, expected};

use crate::loadgen::record::{Phase, RequestRecord};
use crate::loadgen::session::{Excess, Session, SessionError, SessionEvent, Wake};
use crate::metrics::reading::{Samples, readings};
use crate::metrics::{ColdStart, Counts, Summary, slices, token_time};
use crate::plan::{Budget, WorkloadPlan};
use crate::search::trial::{ClearRule, StopRule, TrialKind, TrialOutcome, TrialSpec};
use crate::slo::{Slo, Turns};
use crate::units::Load;
use crate::verdict::{Checks, Reading, Verdict, judge, void_reason};
use crate::workload::{ArrivalProcess, UserRamp};

/// Longest time between looks at a running trial, seconds: what the progress display sees.
const GLANCE: f64 = 0.5;
/// Longest time between looks of a navigation trial without a TTFT limit, seconds.
const PATIENCE: f64 = 20.0;

/// Misses that a percentile on some turns of conversations should allow within a trial, to be seen.
const TOLD: f64 = 1.5;

/// Runs trials one after another on one session.
pub struct Trials<S> {
    session: S,
    slo: Slo,
    next_id: u32,
    level: u32,
    /// How open loops are run, and whether one runs now.
    open: OpenLoad,
    is_open: bool,
    /// How the number of users moves within a trial of a closed loop, where it does.
    ramp: Option<UserRamp>,
    /// Completions a second at the level in force, once known.
    rate: Option<f64>,
    /// Mean life of a request, seconds, once known.
    life: Option<f64>,
    /// Whether outcomes carry a full [`Summary`] (thousands of simulated searches do without).
    summarise: bool,
    /// Mean turns of a conversation and mean pause after an answer, seconds: 1 and 0 where users only
    /// send requests.
    habits: (f64, f64),
    /// Fewest requests of a trial of fixed size: an objective on some turns of conversations has fewer
    /// samples than there are requests.
    least_requests: u32,
    budget: Budget,
    /// Requests that earlier loads of the same run issued.
    issued_before: u64,
    /// Records of a trial that could not be finished.
    unfinished: Vec<RequestRecord>,
}

/// What a trial left behind.
#[derive(Debug)]
pub struct Finished {
    /// What it says.
    pub outcome: TrialOutcome,
    /// Every request that ended during it.
    pub records: Vec<RequestRecord>,
}

/// A glance at a trial that is running.
#[derive(Clone, Debug)]
pub struct Glance<'a> {
    /// Seconds since the trial began.
    pub elapsed: f64,
    /// Whether the level has settled.
    pub settled: bool,
    /// Samples so far, and how many are wanted.
    pub samples: (u32, u32),
    /// The readings so far, one for each objective; empty while settling.
    pub readings: &'a [Reading],
}

impl<S: Session> Trials<S> {
    /// Takes over a session on which no load runs yet. Trials are numbered from `first_id`; when
    /// `budget` is used up, the trial under way ends with [`SessionError::OutOfBudget`].
    pub fn new(session: S, slo: Slo, budget: Budget, first_id: u32, summarise: bool) -> Self {
        Self {
            session,
            slo,
            next_id: first_id,
            level: 0,
            open: OpenLoad {
                process: ArrivalProcess::Poisson,
                in_flight_cap: u32::MAX,
                seed: 0,
                curve: None,
            },
            is_open: false,
            ramp: None,
            rate: None,
            life: None,
            summarise,
            habits: (1.0, 0.0),
            least_requests: 0,
            budget,
            issued_before: 0,
            unfinished: Vec::new(),
        }
    }

    /// Seconds on the session's clock.
    pub fn now(&self) -> f64 {
        self.session.now()
    }

    /// The same, in a run of which earlier loads have issued `requests`.
    #[must_use]
    pub fn after(mut self, requests: u64) -> Self {
        self.issued_before = requests;
        self
    }

    /// The same with users who pause or hold conversations, as a plan says.
    #[must_use]
    pub fn with_users(mut self, plan: &WorkloadPlan) -> Self {
        let turns = plan.mean_turns();
        self.habits = (turns, plan.mean_think());
        let needed = self.slo.objectives.iter().filter_map(|objective| {
            let share = match objective.turns {
                Turns::All => return None,
                Turns::First => 1.0 / turns,
                Turns::Later => 1.0 - 1.0 / turns,
            };
            let allowed = objective.allowed_misses().filter(|&allowed| allowed > 0.0)?;
            (share > 0.0).then(|| (TOLD / allowed / share).ceil())
        });
        self.least_requests = needed.fold(0.0, f64::max) as u32;
        self
    }

    /// Mean time from one request of a user to its next, seconds, once known.
    fn cycle(&self) -> Option<f64> {
        self.life.map(|life| life + self.habits.1)
    }

    /// Users of the closed loop, in flight or pausing.
    fn present(&self) -> usize {
        self.session.in_flight().len() + self.session.thinking()
    }

    /// Requests that the run has issued so far.
    pub fn issued(&self) -> u64 {
        self.issued_before + self.session.issued()
    }

    /// The session, for what only its kind can tell (lag of the client, say).
    pub fn session(&mut self) -> &mut S {
        &mut self.session
    }

    /// Ends the load. Gives the records of a trial that could not be finished, and of the requests
    /// that were cut off now (censored).
    pub async fn close(mut self) -> Vec<RequestRecord> {
        let mut records = std::mem::take(&mut self.unfinished);
        let mut events = self.session.take_events();
        events.extend(self.session.close().await);
        file(&mut records, events);
        for record in &mut records {
            record.trial = self.next_id.saturating_sub(1);
            record.phase = Phase::Transient;
        }
        records
    }

    /// Takes the load off for so many seconds: what has failed may come back meanwhile.
    ///
    /// # Errors
    /// When the load cannot go on.
    pub async fn rest(&mut self, seconds: f64) -> Result<(), SessionError> {
        self.session.set_level(0, 0.0, Excess::Retire);
        self.level = 0;
        let mut idle = Running::begin(self.session.now());
        let until = self.session.now() + seconds;
        let result = self.advance_to(until, &mut idle, &mut |_| {}).await;
        self.unfinished.append(&mut idle.records);
        result
    }

    /// Runs one trial.
    ///
    /// # Errors
    /// When the load cannot go on; [`Trials::close`] still gives the records that there are.
    pub async fn run(
        &mut self,
        spec: &TrialSpec,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<Finished, SessionError> {
        let id = self.next_id;
        self.next_id += 1;
        let mut trial = Running::begin(self.session.now());
        match self.measure(spec, &mut trial, watch).await {
            Ok(verdict) => Ok(self.conclude(id, spec, trial, verdict)),
            Err(error) => {
                self.unfinished.append(&mut trial.records);
                Err(error)
            }
        }
    }

    async fn measure(
        &mut self,
        spec: &TrialSpec,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<Option<Verdict>, SessionError> {
        let users = match spec.load {
            Load::Concurrency(users) => users,
            load @ (Load::RequestRate(_) | Load::SpeedUp(_)) => {
                return self.measure_open(load, spec, trial, watch).await;
            }
        };
        self.leave_open_loop(spec);
        if let (Some(ramp), StopRule::Fixed { .. }) = (self.ramp, spec.rule) {
            self.measure_ramp(ramp, trial, watch).await?;
            return Ok(None);
        }
        let added = users.saturating_sub(self.level);
        self.reach(users, spec, trial, watch).await?;
        self.settle(users, added, spec, trial, watch).await?;
        trial.settled = Some(self.session.now());
        // What the client was like until now is not this trial's.
        self.session.health();
        match spec.rule {
            StopRule::Fixed { requests, min_seconds, max_seconds } => {
                let requests = requests.max(self.least_requests);
                self.measure_fixed(requests, min_seconds, max_seconds, trial, watch).await?;
                Ok(None)
            }
            StopRule::Clear(rule) => Ok(Some(self.navigate(users, rule, trial, watch).await?)),
            StopRule::Warm { window, improvement, windows } => {
                self.warm_up(users, (window, improvement, windows), trial, watch).await?;
                Ok(Some(Verdict::Undecided))
            }
        }
    }

    /// Moves the load to `users`: up one by one as capacity frees, down as requests end.
    async fn reach(
        &mut self,
        users: u32,
        spec: &TrialSpec,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        let before = self.level;
        self.level = users;
        if users > before {
            let added = f64::from(users - before);
            // As fast as the server completes, so that no burst of prompts meets it; before its
            // pace is known, 20 a second and at most two seconds.
            let spread = match (self.rate, self.life) {
                (Some(rate), Some(life)) if rate > 0.0 => (added / rate).min(life),
                _ => (added * 0.05).min(2.0),
            };
            let spread = if added <= 1.0 { 0.0 } else { spread };
            self.session.set_level(users, spread, Excess::Retire);
            let until = self.session.now() + spread;
            self.advance_to(until, trial, watch).await
        } else if users < before {
            let excess = if spec.retreat { Excess::Abort } else { Excess::Retire };
            self.session.set_level(users, 0.0, excess);
            let deadline = self.session.now() + 3.0 * self.cycle().unwrap_or(60.0).max(1.0) * 40.0;
            while self.present() > users as usize && self.session.now() < deadline {
                let surplus = self.present() as u32 - users;
                self.advance(
                    Wake { at: self.session.now() + GLANCE, ended: surplus, first_tokens: u32::MAX },
                    trial,
                )
                .await?;
                self.glance(trial, (0, 0), &[], watch);
            }
            Ok(())
        } else {
            Ok(())
        }
    }

    /// Waits for the completions at the new level that make the old one's mark fade. Users who were added
    /// have to get through as many turns as a conversation has: until then they are nearer to its
    /// beginning than others.
    async fn settle(
        &mut self,
        users: u32,
        added: u32,
        spec: &TrialSpec,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        let (turns, think) = self.habits;
        let whole = f64::from(users) + (turns - 1.0) * f64::from(added);
        let wanted = (spec.settle.completions_per_user * whole).ceil() as u32;
        let longest = self.cycle().map_or(60.0 + 12.0 * turns * think, |cycle| 12.0 * turns * cycle + 5.0);
        let until = self.session.now() + longest;
        let mut seen = 0;
        while seen < wanted && self.session.now() < until {
            let before = trial.records.len();
            let at = until.min(self.session.now() + GLANCE);
            self.advance(Wake { at, ended: wanted - seen, first_tokens: u32::MAX }, trial).await?;
            seen += (trial.records.len() - before) as u32;
            self.glance(trial, (seen, wanted), &[], watch);
        }
        Ok(())
    }

    async fn measure_fixed(
        &mut self,
        requests: u32,
        min_seconds: f64,
        max_seconds: f64,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        let start = self.session.now();
        let first = trial.records.len();
        loop {
            let now = self.session.now();
            let seen = (trial.records.len() - first) as u32;
            if now >= start + max_seconds || (seen >= requests && now >= start + min_seconds) {
                return Ok(());
            }
            let left = requests.saturating_sub(seen);
            let wake = if left > 0 {
                Wake { at: (now + GLANCE).min(start + max_seconds), ended: left, first_tokens: u32::MAX }
            } else {
                Wake::at((start + min_seconds).min(now + GLANCE))
            };
            self.advance(wake, trial).await?;
            if self.summarise {
                let so_far = self.read(trial, false);
                let seen = (trial.records.len() - first) as u32;
                let wanted = expected(seen, requests, self.session.now() - start, min_seconds);
                self.glance(trial, (seen, wanted), &so_far, watch);
            }
        }
    }

    /// A sequentially stopped trial: ends as soon as the verdict is clear. It only steers, as the
    /// size that depends on the data biases what it counts.
    async fn navigate(
        &mut self,
        users: u32,
        rule: ClearRule,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<Verdict, SessionError> {
        let start = self.session.now();
        let chunk = (users / 4).clamp(8, 24);
        loop {
            let at = (self.session.now() + self.patience()).min(start + rule.max_seconds);
            self.advance(Wake { at, ended: u32::MAX, first_tokens: chunk }, trial).await?;
            let so_far = self.read(trial, true);
            let seen = so_far.iter().map(|reading| reading.of).min().unwrap_or(0);
            self.glance(trial, (seen, rule.give_up), &so_far, watch);
            if let Some(verdict) = rule.judge(&self.slo, &so_far) {
                return Ok(verdict);
            }
            if self.session.now() >= start + rule.max_seconds {
                return Ok(Verdict::Undecided);
            }
        }
    }

    /// A look at the latest after the time in which a request without a first token would break the
    /// limit: a stuck server is left within seconds.
    fn patience(&self) -> f64 {
        self.slo.ttft_limit().unwrap_or(PATIENCE).clamp(GLANCE, PATIENCE)
    }

    /// Holds the level until the time that a token takes no longer falls.
    async fn warm_up(
        &mut self,
        users: u32,
        rule: (f64, f64, u32),
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        let (window, improvement, windows) = rule;
        let (mut best, mut steady) = (f64::INFINITY, 0);
        for number in 0..windows {
            let (from, before) = (self.session.now(), self.tokens(trial));
            let flying_before = self.session.in_flight().len() as f64;
            // A window in which nothing came says nothing: wait on, ten windows at the most.
            while self.tokens(trial) < before + 16 && self.session.now() < from + 10.0 * window {
                let until = self.session.now() + window;
                self.advance_to(until, trial, watch).await?;
            }
            let tokens = self.tokens(trial).saturating_sub(before).max(1) as f64;
            let flying = 0.5 * (flying_before + self.session.in_flight().len() as f64);
            // Of users who pause only those in flight wait for tokens.
            let waiting = if self.habits == (1.0, 0.0) { f64::from(users) } else { flying.max(1.0) };
            let step = (waiting * (self.session.now() - from) / tokens).ln();
            self.glance(trial, (number + 1, windows), &[], watch);
            // A warm server is as often slower as faster than before; a cold one only gets faster.
            let slower = step >= best;
            steady = if best - step < improvement { steady + 1 } else { 0 };
            best = best.min(step);
            if slower || steady >= 2 {
                break;
            }
        }
        Ok(())
    }

    /// Output tokens received since the trial began, those of requests in flight included.
    fn tokens(&self, trial: &Running) -> u64 {
        let ended: u64 = trial.records.iter().map(|record| u64::from(record.output_tokens())).sum();
        let flying: u64 = self.session.in_flight().iter().map(|flight| u64::from(flight.tokens)).sum();
        ended + flying
    }

    /// The readings of what came since the level settled.
    fn read(&self, trial: &Running, partial: bool) -> Vec<Reading> {
        let from = trial.settled.unwrap_or(trial.began);
        let records = trial.since(from);
        let pending = self.session.in_flight();
        let now = self.session.now();
        let samples = Samples { records, pending: &pending, from, now, partial, span: f64::INFINITY };
        readings(&self.slo, &samples, self.session.levels())
    }

    /// Draws the outcome from what was kept.
    fn conclude(
        &mut self,
        id: u32,
        spec: &TrialSpec,
        mut trial: Running,
        verdict: Option<Verdict>,
    ) -> Finished {
        let ended = self.session.now();
        let mut from = trial.settled.unwrap_or(ended);
        if spec.settle.truncate && !trial.moves {
            from = trial.truncated(from);
            trial.settled = Some(from);
        }
        let readings = self.read(&trial, matches!(spec.rule, StopRule::Clear(_)));
        for record in &mut trial.records {
            record.trial = id;
            record.phase = match spec.kind {
                TrialKind::Warmup => Phase::Warmup,
                _ if record.ended < from => Phase::Transient,
                _ => Phase::Measured,
            };
        }
        let window = (ended - from).max(1e-9);
        let measured = trial.since(from);
        let (checks, client) = (Checks::of(measured), self.session.health());
        let arrivals = self.arrival_figures(&trial, from);
        let pending = self.session.in_flight();
        let void = void_reason(&self.slo, &checks, client.as_ref())
            .or_else(|| open::too_late(&self.slo, arrivals.as_ref()));
        let verdict = match void {
            Some(reason) if spec.kind != TrialKind::Warmup => Verdict::Void(reason),
            _ => verdict.unwrap_or_else(|| judge(&self.slo, &readings)),
        };
        let flow = Flow::of(measured, &pending, from, window);
        if flow.completions > 0 {
            self.rate = Some(flow.rate);
        }
        if let Some(e2e) = flow.mean_e2e {
            self.life = Some(self.life.map_or(e2e, |life| 0.7 * life + 0.3 * e2e));
        }
        let summary =
            if self.summarise { Summary::of(&self.slo, measured, window) } else { Summary::default() };
        let warms = self.summarise && spec.kind == TrialKind::Warmup;
        let cold_start = if warms { ColdStart::of(&trial.records, &pending) } else { None };
        let slices =
            if trial.moves { slices(&self.slo, measured, &pending, from, ended) } else { Vec::new() };
        let outcome = TrialOutcome {
            id,
            spec: spec.clone(),
            verdict,
            readings,
            began: trial.began,
            settled: from,
            ended,
            counts: Counts::of(&trial.records),
            issued_total: self.issued(),
            completion_rate: flow.rate,
            mean_ttft: flow.mean_ttft,
            mean_e2e: flow.mean_e2e,
            token_time: token_time(measured),
            cold_start,
            slices,
            good_rate: f64::from(measured.iter().filter(|record| self.slo.is_good(record)).count() as u32)
                / window,
            summary,
            server: self.session.server_figures(from, ended),
            host: None,
            gpu: None,
            arrivals,
            checks,
            client,
        };
        Finished { outcome, records: trial.records }
    }

    async fn advance_to(
        &mut self,
        until: f64,
        trial: &mut Running,
        watch: &mut dyn FnMut(Glance<'_>),
    ) -> Result<(), SessionError> {
        while self.session.now() < until {
            self.advance(Wake::at(until.min(self.session.now() + GLANCE)), trial).await?;
            self.glance(trial, (0, 0), &[], watch);
        }
        Ok(())
    }

    /// Advances the session and files what happened.
    async fn advance(&mut self, mut wake: Wake, trial: &mut Running) -> Result<(), SessionError> {
        let deadline = self.budget.seconds.unwrap_or(f64::INFINITY);
        wake.at = wake.at.min(deadline);
        let result = self.session.advance(wake).await;
        file(&mut trial.records, self.session.take_events());
        result?;
        let spent = self.budget.requests.is_some_and(|most| self.issued() >= most);
        if spent || self.session.now() >= deadline { Err(SessionError::OutOfBudget) } else { Ok(()) }
    }

    fn glance(
        &self,
        trial: &Running,
        samples: (u32, u32),
        readings: &[Reading],
        watch: &mut dyn FnMut(Glance<'_>),
    ) {
        watch(Glance {
            elapsed: self.session.now() - trial.began,
            settled: trial.settled.is_some(),
            samples,
            readings,
        });
    }
}

fn file(records: &mut Vec<RequestRecord>, events: Vec<SessionEvent>) {
    records.extend(events.into_iter().filter_map(|event| match event {
        SessionEvent::Ended(record) => Some(*record),
        SessionEvent::FirstToken { .. } => None,
    }));
}
