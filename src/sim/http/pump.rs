//! Plays the model in real time: one thread steps it, waits until the step has really passed, and
//! hands out its tokens.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use crate::sim::model::{Counters, Event, Gauges, Job, Model, Served};

/// A sleeping thread wakes up to this much late; the rest of a wait is spent on the core.
const SPIN: Duration = Duration::from_micros(100);

/// What the handlers ask of the pump.
#[derive(Debug)]
pub(super) enum Command {
    /// A request has come.
    Submit {
        /// Its number and lengths; its arrival is set by the pump.
        job: Job,
        /// When it came.
        arrived: Instant,
        /// Where its tokens go.
        updates: UnboundedSender<Update>,
    },
    /// The client of this request has gone.
    Cancel(u64),
    /// The server closes.
    Stop,
}

/// What the pump tells a handler.
#[derive(Clone, Copy, Debug)]
pub(super) enum Update {
    /// Tokens were produced.
    Tokens(u32),
    /// That was all.
    Done {
        /// Prompt tokens that came from the prefix cache.
        cached: u32,
        /// Whether it ended before the length asked for.
        stopped_early: bool,
    },
    /// The server failed the request.
    Failed,
}

/// The server's state for its metrics page; times are virtual seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) counters: Counters,
    pub(super) gauges: Gauges,
}

/// The thread's state.
pub(super) struct Pump {
    model: Model,
    speed: f64,
    epoch: Instant,
    commands: Receiver<Command>,
    clients: HashMap<u64, UnboundedSender<Update>>,
    snapshot: Arc<Mutex<Snapshot>>,
}

impl Pump {
    /// Starts the thread. It ends with [`Command::Stop`], or when nobody can command it any more.
    pub(super) fn start(
        model: Model,
        speed: f64,
        snapshot: Arc<Mutex<Snapshot>>,
    ) -> std::io::Result<Sender<Command>> {
        let (sender, commands) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("simulated-engine".to_owned()).spawn(move || {
            let mut pump =
                Self { model, speed, epoch: Instant::now(), commands, clients: HashMap::new(), snapshot };
            pump.model.report_tokens(true);
            pump.run();
        })?;
        Ok(sender)
    }

    fn run(&mut self) {
        let mut events = Vec::new();
        loop {
            if self.model.is_idle() {
                self.publish(*self.model.counters(), self.model.gauges());
                let goes_on = self.commands.recv().is_ok_and(|command| self.obey(command));
                if !goes_on {
                    return;
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                if !self.obey(command) {
                    return;
                }
            }
            let before = *self.model.counters();
            if !self.model.step(&mut events) {
                continue;
            }
            // While the step runs, those who get their last token from it are still running.
            let mut gauges = self.model.gauges();
            gauges.running +=
                events.iter().filter(|event| matches!(event, Event::Finished(_))).count() as u32;
            self.publish(before, gauges);
            wait_until(self.epoch + Duration::from_secs_f64(self.model.now() / self.speed));
            // Before the tokens go out: who has read an answer finds it counted.
            self.publish(*self.model.counters(), self.model.gauges());
            for event in events.drain(..) {
                self.deliver(event);
            }
        }
    }

    /// Returns `false` when the server closes.
    fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Submit { job, arrived, updates } => {
                let arrival = arrived.saturating_duration_since(self.epoch).as_secs_f64() * self.speed;
                self.model.wait_until(arrival);
                self.clients.insert(job.id, updates);
                self.model.submit(Job { arrival, ..job });
                true
            }
            Command::Cancel(id) => {
                if self.clients.remove(&id).is_some() {
                    self.model.cancel(id);
                }
                true
            }
            Command::Stop => false,
        }
    }

    fn deliver(&mut self, event: Event) {
        let (id, update) = match event {
            Event::FirstToken { .. } => return,
            Event::Tokens { id, count, .. } => (id, Update::Tokens(count)),
            Event::Finished(Served { job, cached, stopped_early, .. }) => {
                (job.id, Update::Done { cached, stopped_early })
            }
            Event::Failed { job, .. } => (job.id, Update::Failed),
        };
        let Some(client) = self.clients.get(&id) else { return };
        // A handler that has gone sends its `Cancel`; what is sent to it until then is lost.
        let _ = client.send(update);
        if !matches!(update, Update::Tokens(_)) {
            self.clients.remove(&id);
        }
    }

    fn publish(&self, counters: Counters, gauges: Gauges) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Snapshot { counters, gauges };
    }
}

/// Returns at `deadline` within a few microseconds, at the cost of [`SPIN`] of processor time.
fn wait_until(deadline: Instant) {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(SPIN) {
            Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
            _ => std::hint::spin_loop(),
        }
    }
}
