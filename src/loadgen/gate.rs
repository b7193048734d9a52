//! Keeps a task from waking itself.
//!
//! A connection and the body that it feeds wake each other while their one task polls both. Passed
//! on to the runtime, each such wake-up would poll the task once more for nothing: a third of all
//! polls of a stream. The gate holds them back and polls again on the spot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

const IDLE: u8 = 0;
const POLLING: u8 = 1;
const WOKEN: u8 = 2;

/// Polls in a row on the spot. A runtime that wants a task to yield wakes it at once, again and
/// again: that must get through.
const MOST_POLLS: u32 = 2;

/// A gate in front of a task.
pub(crate) struct Gate {
    door: Arc<Door>,
    waker: Waker,
}

struct Door {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Door {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.compare_exchange(POLLING, WOKEN, SeqCst, SeqCst) == Err(IDLE) {
            self.task.wake();
        }
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        let door = Arc::new(Door { state: AtomicU8::new(IDLE), task: AtomicWaker::new() });
        Self { waker: Waker::from(door.clone()), door }
    }

    /// Polls behind the gate. What wakes during a poll that brings a result is dropped: whoever takes
    /// the result polls again for the next one.
    pub(crate) fn poll<T>(
        &self,
        cx: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.door.task.register(cx.waker());
        let mut inner = Context::from_waker(&self.waker);
        for _ in 0..MOST_POLLS {
            self.door.state.store(POLLING, SeqCst);
            let polled = poll(&mut inner);
            if polled.is_ready() {
                self.door.state.store(IDLE, SeqCst);
                return polled;
            }
            if self.door.state.compare_exchange(POLLING, IDLE, SeqCst, SeqCst).is_ok() {
                return Poll::Pending;
            }
        }
        self.door.state.store(IDLE, SeqCst);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Polls once through a gate; gives the polls behind it and the wake-ups that got through.
    fn polls(mut behind: impl FnMut(u32, &mut Context<'_>) -> Poll<()>) -> (u32, u32, Poll<()>) {
        let (gate, count) = (Gate::new(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let mut polls = 0;
        let polled = gate.poll(&Context::from_waker(&waker), |cx| {
            polls += 1;
            behind(polls, cx)
        });
        (polls, count.0.load(SeqCst), polled)
    }

    #[test]
    fn a_wake_up_from_within_polls_again_on_the_spot() {
        let woken_once = polls(|nth, cx| {
            if nth == 1 {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        });
        assert_eq!(woken_once, (2, 0, Poll::Pending));
        let then_ready = polls(|_, cx| {
            cx.waker().wake_by_ref();
            Poll::Ready(())
        });
        assert_eq!(then_ready, (1, 0, Poll::Ready(())));
    }

    #[test]
    fn a_task_that_must_yield_is_woken_and_does_not_spin() {
        let endless = polls(|_, cx| {
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!(endless, (MOST_POLLS, 1, Poll::Pending));
    }

    #[test]
    fn a_wake_up_from_without_gets_through() {
        let mut kept = None;
        let (gate, count) = (Gate::new(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let polled = gate.poll(&Context::from_waker(&waker), |cx| {
            kept = Some(cx.waker().clone());
            Poll::<()>::Pending
        });
        assert_eq!((polled, count.0.load(SeqCst)), (Poll::Pending, 0));
        kept.into_iter().for_each(Waker::wake);
        assert_eq!(count.0.load(SeqCst), 1);
    }
}
