//! Does things on time: lets users join one by one, and probes the engine's lag.
//!
//! A thread of its own waits on a condition variable, which is late by some 0.06 ms; the timers of
//! the engine's runtime have a grain of 1 ms and would be late whenever the engine is busy, which is
//! just what the probes must see.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two probes of the lag; prime, so that it falls into no step with a server.
const PROBE_EVERY: Duration = Duration::from_millis(17);

/// What the pacer does; called on its thread.
pub(crate) trait Paced: Send + Sync + 'static {
    /// Lets one user join.
    fn join(&self);
    /// Probes the lag.
    fn probe(&self);
}

/// The thread that does things on time.
pub(crate) struct Pacer {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ramp: Mutex<Ramp>,
    changed: Condvar,
}

/// Users that are to join evenly over a time.
#[derive(Clone, Copy, Default)]
struct Ramp {
    start: Option<Instant>,
    spread: Duration,
    users: u32,
    joined: u32,
    stopped: bool,
}

impl Ramp {
    /// When the next user joins.
    fn due(&self) -> Option<Instant> {
        let start = self.start.filter(|_| self.joined < self.users)?;
        Some(start + self.spread.mul_f64(f64::from(self.joined) / f64::from(self.users)))
    }
}

impl Pacer {
    pub(crate) fn start(paced: Arc<impl Paced>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread =
            thread::Builder::new().name("plimsoll-pacer".to_owned()).spawn(move || own.run(&*paced))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Lets `users` join, the first at once, evenly over `spread` seconds; forgets an earlier ramp.
    pub(crate) fn ramp(&self, users: u32, spread: f64) {
        let spread = Duration::try_from_secs_f64(spread).unwrap_or_default();
        let mut ramp = self.shared.lock();
        *ramp = Ramp { start: Some(Instant::now()), spread, users, joined: 0, stopped: ramp.stopped };
        drop(ramp);
        self.shared.changed.notify_one();
    }

    /// Ends the thread; nobody joins after that.
    pub(crate) fn stop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It can only fail by a panic, which was printed by then.
            let _ = thread.join();
        }
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ramp> {
        self.ramp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, paced: &impl Paced) {
        let mut next_probe = Instant::now() + PROBE_EVERY;
        let mut ramp = self.lock();
        loop {
            if ramp.stopped {
                return;
            }
            let now = Instant::now();
            if ramp.due().is_some_and(|due| due <= now) {
                ramp.joined += 1;
                drop(ramp);
                paced.join();
                ramp = self.lock();
                continue;
            }
            if next_probe <= now {
                next_probe = now + PROBE_EVERY;
                drop(ramp);
                paced.probe();
                ramp = self.lock();
                continue;
            }
            let until = ramp.due().map_or(next_probe, |due| due.min(next_probe));
            let wait = self.changed.wait_timeout(ramp, until - now);
            ramp = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc;

    struct Tap(Mutex<mpsc::Sender<Instant>>);

    impl Paced for Tap {
        fn join(&self) {
            let _ = self.0.lock().unwrap().send(Instant::now());
        }
        fn probe(&self) {}
    }

    #[test]
    fn users_join_evenly_and_never_early() {
        let (sender, joined) = mpsc::channel();
        let mut pacer = Pacer::start(Arc::new(Tap(Mutex::new(sender)))).unwrap();
        let start = Instant::now();
        pacer.ramp(10, 0.1);
        for user in 0..10 {
            let at = joined.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(at >= start + Duration::from_millis(10) * user, "user {user}");
        }
        pacer.stop();
        assert!(joined.try_recv().is_err());
    }

    #[test]
    fn a_new_ramp_replaces_the_old_one() {
        let (sender, joined) = mpsc::channel();
        let mut pacer = Pacer::start(Arc::new(Tap(Mutex::new(sender)))).unwrap();
        pacer.ramp(2, 3600.0);
        joined.recv_timeout(Duration::from_secs(10)).unwrap();
        pacer.ramp(3, 0.0);
        for _ in 0..3 {
            joined.recv_timeout(Duration::from_secs(10)).unwrap();
        }
        pacer.stop();
        assert!(joined.try_recv().is_err());
    }
}
