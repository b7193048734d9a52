//! Who watches a run while it goes on.

use crate::plan::Plan;
use crate::search::{Answer, TrialOutcome, TrialSpec};

/// Told of what happens in a run, as it happens. Every method does nothing unless it is written.
///
/// The methods are called between the load's own events, so they must be quick.
pub trait Observer {
    /// The run begins against the target that `description` names in a few words.
    fn run_started(&mut self, _plan: &Plan, _description: &str) {}

    /// A trial begins; about `expected_remaining` more are expected after it.
    fn trial_started(&mut self, _spec: &TrialSpec, _expected_remaining: u32) {}

    /// How the trial stands.
    fn trial_progress(&mut self, _progress: &Progress) {}

    /// A trial has ended.
    fn trial_ended(&mut self, _outcome: &TrialOutcome) {}

    /// Something that the operator should know now.
    fn warning(&mut self, _text: &str) {}

    /// The run is over.
    fn finished(&mut self, _answer: &Answer) {}
}

/// How a trial stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Seconds since the trial began, on the run's clock.
    pub elapsed: f64,
    /// Requests counted; 0 while the level settles.
    pub samples: u32,
    /// Requests that the trial counts at the most.
    pub wanted: u32,
    /// The current figure of each objective of the SLO, in order, where there is one.
    pub figures: Vec<Option<f64>>,
}

/// An observer that says nothing (`--quiet`, and the library's default).
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
