//! One run, or several searches that are put together.

use super::{Anew, Material, Trial};
use crate::search::gate::known;
use crate::search::repeats::{self, Repeat};
use crate::search::{Judged, Place};
use crate::slo::{Objective, Slo};
use crate::stats::sequential::Known;

/// The trials of one run, or of several searches of the same server whose answers are put together
/// ([`crate::search::repeats`]).
#[derive(Clone, Debug)]
pub struct Runs(Vec<Material>);

/// What runs say of the boundary together.
#[derive(Clone, Debug)]
pub struct Together {
    /// Each run alone, in order.
    pub each: Vec<Anew>,
    /// The answer; that of several runs has no posterior of its own.
    pub judged: Judged,
    /// The capacity as a posterior, where every run that found one measured it there.
    pub known: Option<Known>,
    /// Spread from run to run as a sd on the log scale, where at least two runs tell.
    pub between_run_sd: Option<f64>,
}

impl From<Material> for Runs {
    fn from(material: Material) -> Self {
        Self(vec![material])
    }
}

impl From<Vec<Material>> for Runs {
    fn from(materials: Vec<Material>) -> Self {
        Self(materials)
    }
}

impl Runs {
    /// An objective of `slo` whose window is longer than every trial of a fixed size of a run, and the
    /// seconds of the longest of these.
    pub fn too_short_for<'a>(&self, slo: &'a Slo) -> Option<(&'a Objective, f64)> {
        self.0.iter().find_map(|material| material.too_short_for(slo))
    }

    /// The runs, in order.
    pub fn each(&self) -> &[Material] {
        &self.0
    }

    /// The trials of all runs.
    pub fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.0.iter().flat_map(|material| &material.trials)
    }

    /// Reads every trial under `slo` and judges the runs together.
    pub fn judged(&self, slo: &Slo) -> Together {
        together(self.0.iter().map(|material| material.judged(slo)).collect())
    }

    /// The same without the figures of each trial: for a table of many SLOs.
    pub fn answered(&self, slo: &Slo) -> Judged {
        let bare = |material: &Material| Anew { outcomes: Vec::new(), judged: material.answered(slo) };
        together(self.0.iter().map(bare).collect()).judged
    }
}

/// A run's answer with its posterior, where it was read off one.
pub fn repeat(judged: &Judged) -> Repeat {
    let crossing = judged.crossing.as_ref().filter(|_| judged.place == Place::Within);
    Repeat { answer: judged.answer.clone(), known: crossing.map(known) }
}

fn together(each: Vec<Anew>) -> Together {
    if let [alone] = each.as_slice() {
        let judged = alone.judged.clone();
        return Together { known: repeat(&judged).known, judged, between_run_sd: None, each };
    }
    let all: Vec<Repeat> = each.iter().map(|anew| repeat(&anew.judged)).collect();
    let (answer, combined) = repeats::answer(&all);
    let beyond = each.iter().map(|anew| anew.judged.place).find(|place| *place != Place::Within);
    let place = beyond.unwrap_or(if each.is_empty() { Place::Beyond { next: 1 } } else { Place::Within });
    let answer = answer.unwrap_or_else(|| crate::search::Answer::bare(crate::search::SearchOutcome::Void));
    Together {
        known: combined.filter(|_| place == Place::Within).map(|all| all.known()),
        between_run_sd: combined.map(|all| all.between_run_sd),
        judged: Judged { answer, place, crossing: None },
        each,
    }
}
