//! New questions to what was measured: another SLO, the frontier, tiers, knees, a comparison.
//!
//! A [`Material`] holds trials with the records of their requests, from a run folder or from the
//! result file of another tool. [`Material::judged`] reads every trial anew under an SLO and gives
//! the answer through the posterior that a search uses, with no load sent.
//!
//! ```no_run
//! use plimsoll::analysis::Material;
//! use plimsoll::run::Contents;
//! use plimsoll::slo::Slo;
//! let run = Contents::read("runs/latest".as_ref()).unwrap();
//! let material = Material::of_run(&run).unwrap();
//! let slo = Slo::parse(["ttft p99 < 1s"]).unwrap();
//! println!("{:?}", material.judged(&slo).judged.answer.load);
//! ```

pub mod compare;
pub mod foreign;
pub mod frontier;
pub mod knee;
mod material;
mod runs;
mod source;
#[cfg(test)]
mod tests;

pub use material::{Anew, Beside, Material, Trial};
pub use runs::{Runs, Together, repeat};
pub use source::Part;
