//! The threads that carry the load, and the life of one user or one arrival on them.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::loadgen::board::Board;
use crate::loadgen::body::Prepared;
use crate::loadgen::client::Client;
use crate::loadgen::flight::{Flight, Seat};
use crate::loadgen::health::Probe;
use crate::loadgen::pacer::Paced;
use crate::loadgen::record::Outcome;
use crate::loadgen::supply::Supply;
use crate::loadgen::talk::Step;
use crate::loadgen::wire::Link;

/// First pause of a user whose request failed; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Longest time that a user thinks.
const LONGEST_THINK: Duration = Duration::from_secs(365 * 86_400);

/// What users need.
pub(crate) struct Engine {
    pub(crate) client: Client,
    pub(crate) board: Arc<Board>,
    pub(crate) supply: Arc<Supply>,
    lanes: Vec<Lane>,
    next_lane: AtomicUsize,
    /// Number of the next turn of a conversation.
    next_turn: AtomicU64,
}

/// One thread with an event loop of its own; a user stays on its lane.
pub(crate) struct Lane {
    handle: Handle,
    /// Connections of the open loop that are free, the one used last at the end.
    links: Mutex<Vec<Link>>,
    pub(crate) probe: Arc<Probe>,
}

/// Keeps the threads alive; dropping it ends them.
pub(crate) struct Threads {
    stops: Vec<oneshot::Sender<()>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Threads {
    /// Starts `count` threads.
    pub(crate) fn start(count: usize) -> io::Result<(Self, Vec<Lane>)> {
        let mut all = Self { stops: Vec::new(), threads: Vec::new() };
        let mut lanes = Vec::new();
        for index in 0..count.max(1) {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let handle = runtime.handle().clone();
            let (stop, stopped) = oneshot::channel::<()>();
            let probe: Arc<Probe> = Arc::default();
            let own = probe.clone();
            let run = move || {
                own.settle_in();
                // The sender's end is as good as its word.
                let _ = runtime.block_on(stopped);
            };
            all.threads.push(thread::Builder::new().name(format!("plimsoll-load-{index}")).spawn(run)?);
            all.stops.push(stop);
            lanes.push(Lane { handle, links: Mutex::default(), probe });
        }
        Ok((all, lanes))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            // It can only fail by a panic, which was printed by then.
            let _ = thread.join();
        }
    }
}

impl Engine {
    pub(crate) fn new(client: Client, board: Arc<Board>, supply: Arc<Supply>, lanes: Vec<Lane>) -> Self {
        Self { client, board, supply, lanes, next_lane: AtomicUsize::new(0), next_turn: AtomicU64::new(0) }
    }

    /// The same with turns of conversations numbered from `first` on.
    pub(crate) fn from(self, first: u64) -> Self {
        Self { next_turn: AtomicU64::new(first), ..self }
    }

    pub(crate) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The lane whose turn it is.
    fn turn(&self) -> usize {
        self.next_lane.fetch_add(1, Relaxed) % self.lanes.len()
    }

    /// Sends a request that was scheduled for now, or lets it wait at the cap.
    pub(crate) fn arrive(self: &Arc<Self>, scheduled: f64) {
        let Some(user) = self.board.arrive(scheduled) else { return };
        let lane = self.turn();
        let seat = Seat { board: self.board.clone(), user };
        let task = self.lanes[lane].handle.spawn(arrival(self.clone(), seat, lane, scheduled));
        self.board.attach(user, task.abort_handle());
    }
}

impl Paced for Arc<Engine> {
    fn join(&self) {
        let Some(user) = self.board.join() else { return };
        let lane = &self.lanes[self.turn()];
        let seat = Seat { board: self.board.clone(), user };
        let task = lane.handle.spawn(live(self.clone(), seat));
        self.board.attach(user, task.abort_handle());
    }

    fn probe(&self) {
        for lane in &self.lanes {
            let (probe, asked) = (lane.probe.clone(), Instant::now());
            lane.handle.spawn(async move { probe.answer(asked) });
        }
    }
}

/// One user: sends its next request as soon as its last one has ended, or after a pause.
async fn live(engine: Arc<Engine>, seat: Seat) {
    let mut link = None;
    let mut failures = 0;
    let mut has_just_come = true;
    loop {
        let Some(mut request) = engine.supply.next().await else {
            engine.board.ran_dry();
            return;
        };
        if std::mem::take(&mut has_just_come) {
            if let Some(talk) = &mut request.talk {
                talk.shorten();
            }
            if !engine.rest(&seat, Instant::now(), request.pause.lead).await {
                return;
            }
        }
        // A request alone, or the turns of a conversation.
        let mut turn = Some(request);
        while let Some(request) = turn {
            let (began, think) = (Instant::now(), request.pause.think);
            let Some(done) = engine.exchange(&seat, &mut link, request, None).await else { return };
            failures = if done.failed { failures + 1 } else { 0 };
            let mut until = done.ended + seconds(think);
            if done.failed {
                // Counted from the send: a request that took long to fail has waited enough.
                until = until.max(began + pause(failures));
                tokio::time::sleep_until((began + pause(failures)).into()).await;
                if !engine.board.may_stay(seat.user) {
                    return;
                }
            }
            if think > 0.0 && !engine.rest_until(&seat, until).await {
                return;
            }
            turn = done.next;
        }
    }
}

/// A request that has ended, and what its user does next.
struct Done {
    failed: bool,
    ended: Instant,
    /// The next turn of its conversation.
    next: Option<Prepared>,
}

impl Engine {
    /// Sends a request and takes in its answer. None where its user has no more to send.
    async fn exchange(
        &self,
        seat: &Seat,
        link: &mut Option<Link>,
        mut request: Prepared,
        due: Option<(f64, f64)>,
    ) -> Option<Done> {
        let Engine { client, board, .. } = self;
        if request.turn.is_some() {
            request.id = self.next_turn.fetch_add(1, Relaxed);
        }
        let mut talk = request.talk.take();
        let intake = client.intake(&request);
        let intake = match due {
            Some((scheduled, held)) => intake.of_schedule(scheduled, held),
            None => intake,
        };
        let mut flight = Flight::begin(seat, intake);
        let intake = flight.intake()?;
        let on_first = |sent, at| board.first_token(request.id, sent, at);
        let outcome = client.perform(link, &request, intake, on_first).await;
        let failed = matches!(outcome, Outcome::Failed { .. });
        let (prompt, tokens) = intake.counts();
        let answer = intake.take_text();
        // Who gets no answer has nothing to go on from.
        talk = talk.filter(|_| !failed && !answer.is_empty());
        if let Some(on) = &mut talk {
            match on.step(prompt, tokens) {
                Step::On => {}
                Step::Full => {
                    intake.context_is_full();
                    talk = None;
                }
                Step::Over => talk = None,
            }
        }
        let goes_on = flight.finish(outcome);
        let ended = Instant::now();
        goes_on.then(|| Done { failed, ended, next: talk.and_then(|talk| talk.go_on(&answer, tokens)) })
    }

    /// Lets a user pause; says whether it may go on.
    async fn rest(&self, seat: &Seat, from: Instant, pause: f64) -> bool {
        pause <= 0.0 || self.rest_until(seat, from + seconds(pause)).await
    }

    async fn rest_until(&self, seat: &Seat, until: Instant) -> bool {
        if !self.board.pause(seat.user) {
            return false;
        }
        tokio::time::sleep_until(until.into()).await;
        self.board.wake(seat.user)
    }
}

/// A span of time; one that no clock holds is for ever.
fn seconds(pause: f64) -> Duration {
    Duration::try_from_secs_f64(pause.max(0.0)).unwrap_or(LONGEST_THINK).min(LONGEST_THINK)
}

impl Lane {
    fn links(&self) -> MutexGuard<'_, Vec<Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One arrival: a request, or the turns of a conversation, the later ones due when their user has thought.
/// Its place then goes to one that waits at the cap, if there is one.
async fn arrival(engine: Arc<Engine>, seat: Seat, lane: usize, mut scheduled: f64) {
    let Engine { board, supply, lanes, .. } = &*engine;
    let mut held = 0.0;
    loop {
        let Some(request) = supply.next().await else {
            board.ran_dry();
            return;
        };
        let mut turn = Some(request);
        while let Some(request) = turn {
            let think = request.pause.think;
            let mut link = lanes[lane].links().pop();
            let done = engine.exchange(&seat, &mut link, request, Some((scheduled, held))).await;
            lanes[lane].links().extend(link);
            let Some(done) = done else { return };
            turn = done.next;
            if turn.is_some() {
                (scheduled, held) = (board.now() + think, 0.0);
                if !engine.rest_until(&seat, done.ended + seconds(think)).await {
                    break;
                }
            }
        }
        let Some(waited_longest) = board.next_waiting() else { return };
        (scheduled, held) = (waited_longest, board.now() - waited_longest);
    }
}

/// How long after the send of a request that failed the next may follow, after so many failures in
/// a row.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_two_seconds() {
        let pauses: Vec<u128> = [1, 2, 3, 6, 7, 100, u32::MAX].map(|n| pause(n).as_millis()).to_vec();
        assert_eq!(pauses, [50, 100, 200, 1600, 2000, 2000, 2000]);
    }
}
