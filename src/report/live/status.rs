//! What the run is doing at this moment.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::plan::Plan;
use crate::run::{Observer, Progress};
use crate::search::{Answer, TrialKind, TrialOutcome, TrialSpec};
use crate::units::Load;

/// How the run stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// The trial that is being run.
    pub trial: Option<Running>,
    /// Whether the search is over.
    pub over: bool,
}

/// The trial that is being run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Running {
    /// Its load.
    pub load: Load,
    /// What it is for.
    pub kind: TrialKind,
    /// Seconds since it began.
    pub elapsed: f64,
    /// Requests counted; 0 while the level settles.
    pub samples: u32,
    /// Requests that it counts at the most.
    pub wanted: u32,
    /// The current figure of each objective, where there is one.
    pub figures: Vec<Option<f64>>,
    /// Trials that are expected after it.
    pub remaining: u32,
}

/// Passes everything on to another observer and keeps the status for the page.
pub struct Watched {
    inner: Box<dyn Observer>,
    status: Arc<Mutex<Status>>,
}

impl Watched {
    /// Watches for `inner` and for the page that shows `status`.
    pub fn new(inner: Box<dyn Observer>, status: Arc<Mutex<Status>>) -> Self {
        Self { inner, status }
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Observer for Watched {
    fn run_started(&mut self, plan: &Plan, description: &str) {
        self.inner.run_started(plan, description);
    }

    fn trial_started(&mut self, spec: &TrialSpec, expected_remaining: u32) {
        let running = Running {
            load: spec.load,
            kind: spec.kind,
            elapsed: 0.0,
            samples: 0,
            wanted: 0,
            figures: Vec::new(),
            remaining: expected_remaining,
        };
        self.change(|status| status.trial = Some(running));
        self.inner.trial_started(spec, expected_remaining);
    }

    fn trial_progress(&mut self, progress: &Progress) {
        self.change(|status| {
            if let Some(running) = &mut status.trial {
                running.elapsed = progress.elapsed;
                running.samples = progress.samples;
                running.wanted = progress.wanted;
                running.figures.clone_from(&progress.figures);
            }
        });
        self.inner.trial_progress(progress);
    }

    fn trial_ended(&mut self, outcome: &TrialOutcome) {
        self.change(|status| status.trial = None);
        self.inner.trial_ended(outcome);
    }

    fn warning(&mut self, text: &str) {
        self.inner.warning(text);
    }

    fn finished(&mut self, answer: &Answer) {
        self.change(|status| *status = Status { trial: None, over: true });
        self.inner.finished(answer);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::run::{Silent, sample};

    #[test]
    fn the_status_follows_the_trials() {
        let status = Arc::new(Mutex::new(Status::default()));
        let mut watched = Watched::new(Box::new(Silent), Arc::clone(&status));
        let outcome = sample::outcome(1, 42, TrialKind::Measure);
        watched.trial_started(&outcome.spec, 3);
        let progress = Progress { elapsed: 1.5, samples: 7, wanted: 200, figures: vec![Some(0.2), None] };
        watched.trial_progress(&progress);
        let running = status.lock().unwrap().trial.clone().unwrap();
        assert_eq!((running.load, running.samples, running.remaining), (Load::Concurrency(42), 7, 3));
        watched.trial_ended(&outcome);
        assert_eq!(*status.lock().unwrap(), Status::default());
        watched.finished(&sample::answer());
        assert!(status.lock().unwrap().over);
    }
}
