//! Requests made ahead on a thread of their own, so that making one never delays a send.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::Notify;

use crate::loadgen::body::Prepared;

/// Most bytes of bodies that wait.
const MOST_BYTES: usize = 64 << 20;

/// The requests that wait to be sent.
pub(crate) struct Supply {
    shelf: Mutex<Shelf>,
    room: Condvar,
    came: Notify,
    depth: usize,
}

#[derive(Default)]
struct Shelf {
    ready: VecDeque<Prepared>,
    bytes: usize,
    /// The workload has no more.
    dry: bool,
    stopped: bool,
}

impl Shelf {
    fn is_full(&self, depth: usize) -> bool {
        self.ready.len() >= depth || self.bytes >= MOST_BYTES
    }
}

impl Supply {
    /// Starts to fill a shelf of `depth` requests.
    pub(crate) fn start(
        requests: impl Iterator<Item = Prepared> + Send + 'static,
        depth: usize,
    ) -> io::Result<(Arc<Self>, thread::JoinHandle<()>)> {
        let supply = Arc::new(Self {
            shelf: Mutex::default(),
            room: Condvar::new(),
            came: Notify::new(),
            depth: depth.max(1),
        });
        let filler = supply.clone();
        let thread =
            thread::Builder::new().name("plimsoll-supply".to_owned()).spawn(move || filler.fill(requests))?;
        Ok((supply, thread))
    }

    fn fill(&self, mut requests: impl Iterator<Item = Prepared>) {
        loop {
            // Made without the lock: a user must never wait for it.
            let next = requests.next();
            let mut shelf = self.lock();
            match next {
                Some(request) => {
                    shelf.bytes += request.bytes();
                    shelf.ready.push_back(request);
                    self.came.notify_one();
                }
                None => {
                    shelf.dry = true;
                    drop(shelf);
                    self.came.notify_waiters();
                    return;
                }
            }
            while shelf.is_full(self.depth) && !shelf.stopped {
                shelf = self.room.wait(shelf).unwrap_or_else(PoisonError::into_inner);
            }
            if shelf.stopped {
                return;
            }
        }
    }

    /// The next request of the workload; none once it has no more.
    pub(crate) async fn next(&self) -> Option<Prepared> {
        loop {
            let mut came = std::pin::pin!(self.came.notified());
            came.as_mut().enable();
            {
                let mut shelf = self.lock();
                let was_full = shelf.is_full(self.depth);
                if let Some(request) = shelf.ready.pop_front() {
                    shelf.bytes -= request.bytes();
                    let more = !shelf.ready.is_empty();
                    drop(shelf);
                    if was_full {
                        self.room.notify_one();
                    }
                    if more {
                        // Several may have come on one notice: pass it on.
                        self.came.notify_one();
                    }
                    return Some(request);
                }
                if shelf.dry {
                    return None;
                }
            }
            came.await;
        }
    }

    /// Ends the thread; what waits stays unsent.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.room.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::workload::Pause;
    use bytes::Bytes;

    fn requests(count: u64) -> impl Iterator<Item = Prepared> + Send + 'static {
        let body = Bytes::from_static(b"{}");
        let pause = Pause::default();
        (0..count).map(move |id| Prepared {
            id,
            isl: 1,
            osl: 1,
            body: body.clone(),
            pause,
            turn: None,
            talk: None,
        })
    }

    #[tokio::test]
    async fn requests_come_in_order_and_then_none() {
        let (supply, thread) = Supply::start(requests(100), 8).unwrap();
        for id in 0..100 {
            assert_eq!(supply.next().await.map(|request| request.id), Some(id));
        }
        assert!(supply.next().await.is_none());
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn many_takers_get_every_request_once() {
        let (supply, thread) = Supply::start(requests(1000), 4).unwrap();
        let takers: Vec<_> = (0..20)
            .map(|_| {
                let supply = supply.clone();
                tokio::spawn(async move {
                    let mut taken = Vec::new();
                    while let Some(request) = supply.next().await {
                        taken.push(request.id);
                        tokio::task::yield_now().await;
                    }
                    taken
                })
            })
            .collect();
        let mut all = Vec::new();
        for taker in takers {
            all.extend(taker.await.unwrap());
        }
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..1000));
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn an_endless_workload_can_be_stopped() {
        let (supply, thread) = Supply::start(requests(u64::MAX), 4).unwrap();
        assert!(supply.next().await.is_some());
        supply.stop();
        thread.join().unwrap();
    }
}
