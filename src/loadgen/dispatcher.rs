//! Sends the requests of an open loop when their time has come.
//!
//! The schedule is computed ahead and kept on a thread of its own. It sleeps until shortly before an
//! arrival is due (a sleeping thread wakes some 0.06 ms late) and then polls the clock without giving its
//! core away; the timers of an event loop, with their grain of 1 ms, have no part in it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::loadgen::engine::Engine;
use crate::workload::Schedule;

/// How long before an arrival the thread stops sleeping.
const AWAKE_BEFORE: Duration = Duration::from_micros(150);

/// What is dispatched to; called on the dispatcher's thread.
pub(crate) trait Dispatched: Send + Sync + 'static {
    /// Seconds on the run's clock.
    fn now(&self) -> f64;
    /// Sends a request that was scheduled for this instant, which has just passed.
    fn send(&self, scheduled: f64);
}

impl Dispatched for Arc<Engine> {
    fn now(&self) -> f64 {
        self.board.now()
    }

    fn send(&self, scheduled: f64) {
        self.arrive(scheduled);
    }
}

/// The thread that sends on schedule.
pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    order: Mutex<Order>,
    changed: Condvar,
    /// Counts the changes of the order, for the thread to see them while it polls the clock.
    version: AtomicU64,
}

#[derive(Default)]
struct Order {
    schedule: Option<(Schedule, f64)>,
    next: Option<f64>,
    stopped: bool,
}

impl Order {
    fn draw(&mut self) {
        self.next = self
            .schedule
            .as_mut()
            .and_then(|(schedule, began)| schedule.next().map(|offset| *began + offset));
    }
}

impl Dispatcher {
    pub(crate) fn start(to: Arc<impl Dispatched>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread =
            thread::Builder::new().name("plimsoll-arrivals".to_owned()).spawn(move || own.run(&*to))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Begins a schedule whose offsets count from `began`, seconds on the run's clock.
    pub(crate) fn begin(&self, schedule: Schedule, began: f64) {
        self.shared.change(|order| {
            order.schedule = Some((schedule, began));
            order.draw();
        });
    }

    /// Ends the schedule: nothing is sent once this has returned.
    pub(crate) fn halt(&self) {
        self.shared.change(|order| {
            order.schedule = None;
            order.next = None;
        });
    }

    /// Ends the thread.
    pub(crate) fn stop(&mut self) {
        self.shared.change(|order| {
            *order = Order { stopped: true, ..Order::default() };
        });
        if let Some(thread) = self.thread.take() {
            // It can only fail by a panic, which was printed by then.
            let _ = thread.join();
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Order)) {
        // Before the lock is asked for: the thread gives it up once it sees this.
        self.version.fetch_add(1, SeqCst);
        change(&mut self.lock());
        self.changed.notify_one();
    }

    fn run(&self, to: &impl Dispatched) {
        let mut order = self.lock();
        loop {
            if order.stopped {
                return;
            }
            let Some(due) = order.next else {
                order = self.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = Duration::try_from_secs_f64(due - to.now()).unwrap_or_default();
            if left > AWAKE_BEFORE {
                let wait = self.changed.wait_timeout(order, left - AWAKE_BEFORE);
                order = wait.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let version = self.version.load(SeqCst);
            drop(order);
            let at = Instant::now() + left;
            while Instant::now() < at && self.version.load(SeqCst) == version {
                std::hint::spin_loop();
            }
            order = self.lock();
            // Under the lock, so that nothing of a schedule is sent once it has been halted.
            if self.version.load(SeqCst) == version && order.next == Some(due) {
                to.send(due);
                order.draw();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::workload::{ArrivalProcess, Arrivals, RateCurve};
    use std::sync::mpsc;

    struct Tap {
        origin: Instant,
        sent: Mutex<mpsc::Sender<(f64, f64)>>,
    }

    impl Dispatched for Tap {
        fn now(&self) -> f64 {
            self.origin.elapsed().as_secs_f64()
        }

        fn send(&self, scheduled: f64) {
            let _ = self.sent.lock().unwrap().send((scheduled, self.now()));
        }
    }

    fn tapped() -> (Dispatcher, mpsc::Receiver<(f64, f64)>) {
        let (sender, sent) = mpsc::channel();
        let tap = Tap { origin: Instant::now(), sent: Mutex::new(sender) };
        (Dispatcher::start(Arc::new(tap)).unwrap(), sent)
    }

    #[test]
    fn every_arrival_is_sent_in_order_and_never_early() {
        let (mut dispatcher, sent) = tapped();
        let arrivals = Arrivals::new(RateCurve::Constant(2000.0), ArrivalProcess::Poisson, 3);
        dispatcher.begin(arrivals.schedule(), 0.05);
        for expected in arrivals.schedule().take(200) {
            let (scheduled, at) = sent.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!(scheduled, 0.05 + expected);
            assert!(at >= scheduled - 1e-6, "{at} is before {scheduled}");
        }
        dispatcher.stop();
    }

    #[test]
    fn nothing_of_a_halted_schedule_is_sent() {
        let (mut dispatcher, sent) = tapped();
        let arrivals = Arrivals::new(RateCurve::Constant(500.0), ArrivalProcess::Constant, 3);
        dispatcher.begin(arrivals.schedule(), 0.0);
        sent.recv_timeout(Duration::from_secs(30)).unwrap();
        dispatcher.halt();
        while sent.try_recv().is_ok() {}
        assert!(sent.recv_timeout(Duration::from_millis(20)).is_err());
        dispatcher.stop();
    }
}
