//! The open loop of a simulated load: arrivals at their exact instants, in virtual time.

use std::collections::{HashMap, VecDeque};

use super::SimSession;
use crate::loadgen::record::{Outcome, RequestRecord};
use crate::loadgen::session::Excess;
use crate::units::Load;
use crate::workload::{Arrivals, RateCurve, Schedule};

/// The state of the open loop.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenLoop {
    running: Option<Running>,
    cap: u32,
    /// When those were to be sent that wait at the cap.
    waiting: VecDeque<f64>,
    /// When those in flight were to be sent.
    scheduled: HashMap<u64, f64>,
}

#[derive(Clone, Debug)]
struct Running {
    schedule: Schedule,
    began: f64,
    next: Option<f64>,
}

impl Running {
    fn draw(&mut self) {
        self.next = self.schedule.next().map(|offset| self.began + offset);
    }
}

impl OpenLoop {
    /// Whether a schedule is in force.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Nothing more arrives, and what waits stays unsent.
    pub(super) fn stop(&mut self) {
        self.running = None;
        self.waiting.clear();
    }

    /// When the next request arrives.
    pub(super) fn next(&self) -> Option<f64> {
        self.running.as_ref()?.next
    }

    /// When those were to be sent that wait at the cap.
    pub(super) fn waiting(&self) -> impl Iterator<Item = f64> + '_ {
        self.waiting.iter().copied()
    }

    /// Notes when a request was to be sent.
    pub(super) fn note(&mut self, id: u64, scheduled: f64) {
        self.scheduled.insert(id, scheduled);
    }

    /// When a request in flight was to be sent; none for one of a closed loop.
    pub(super) fn scheduled(&self, id: u64) -> Option<f64> {
        self.scheduled.get(&id).copied()
    }

    /// Notes in its record when a request was to be sent, and forgets it; says whether it is one of
    /// the open loop.
    pub(super) fn settle(&mut self, record: &mut RequestRecord) -> bool {
        let Some(scheduled) = self.scheduled.remove(&record.id) else { return false };
        record.scheduled = Some(scheduled);
        record.held = Some(record.sent - scheduled).filter(|&held| held > 0.0);
        true
    }
}

impl SimSession {
    pub(super) fn begin_arrivals(&mut self, arrivals: Option<Arrivals>, excess: Excess) {
        let now = self.model.now();
        if excess == Excess::Abort {
            self.open.waiting.clear();
            let mut ids: Vec<u64> = self.open.scheduled.keys().copied().collect();
            ids.sort_unstable();
            ids.into_iter().for_each(|id| self.remove(id, Outcome::Cancelled));
        }
        if arrivals.is_none() || excess == Excess::Abort {
            // Conversations of a loop that is over are not gone on with.
            self.hang_up();
        }
        if let Some(arrivals) = &arrivals {
            self.open.cap = arrivals.in_flight_cap.max(1);
            self.levels.push_load(now, Load::RequestRate(arrivals.curve.at(0.0)));
            if matches!(arrivals.curve, RateCurve::Instants(_)) {
                // A trace has requests of its own, which come again whenever it is replayed.
                self.sampler.restart();
            }
        }
        self.open.running = arrivals.map(|arrivals| {
            let mut running = Running { schedule: arrivals.schedule(), began: now, next: None };
            running.draw();
            running
        });
    }

    /// Sends what was due by now.
    pub(super) fn arrive(&mut self) {
        let now = self.model.now();
        while let Some(due) = self.open.next().filter(|&due| due <= now) {
            if let Some(running) = &mut self.open.running {
                running.draw();
            }
            let present = self.open.scheduled.len() + self.pausing();
            if present as u32 >= self.open.cap {
                self.open.waiting.push_back(due);
            } else {
                self.begin_anew(due, Some(due));
            }
        }
    }

    /// A request of the open loop has ended: its place goes to the one that has waited longest.
    pub(super) fn place_is_free(&mut self) {
        if let Some(scheduled) = self.open.waiting.pop_front() {
            self.begin_anew(self.model.now(), Some(scheduled));
        }
    }
}
