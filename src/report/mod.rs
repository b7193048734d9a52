//! What a run has to say, for people and for programs.
//!
//! [`Document`] is the whole answer as data (`summary.json`); the terminal's screen, the plots and
//! the table are drawn from it and from the plan, so that an old run can be drawn anew. [`html`]
//! draws the requests too; [`live`] shows the same page while the run goes on.

pub mod analysis;
pub mod comparison;
pub mod csv;
pub mod document;
mod files;
pub mod fleet;
pub mod gate;
pub mod html;
pub mod live;
pub mod parquet;
pub mod plot;
pub mod profile;
pub mod progress;
mod rate_check;
pub mod repeats;
mod series;
pub mod soak;
pub mod terminal;
pub mod traffic;
mod words;

pub use document::{
    AnswerDocument, Document, Provenance, SUMMARY_VERSION, TrialDocument, TrialFigures, cold_start,
};
pub use files::{ReportError, write_all, write_files};
pub use progress::Level;
pub use rate_check::keep_rate_check;
pub use terminal::rate_at_answer;

/// The document of the fabricated search, for tests of every form of the report.
#[cfg(test)]
pub(crate) fn sample_document() -> Document {
    use crate::run::{Cost, sample};
    let provenance = Provenance {
        plimsoll: "0.1.0".to_owned(),
        recipe: "chat".to_owned(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        seed: 7,
        plan_hash: "0123456789abcdef".to_owned(),
        target: Some(serde_json::json!({"engine": "generic", "model": "tiny"})),
    };
    let cost = Cost { seconds: 252.0, requests: 3214, client_cpu_seconds: 2.13 };
    let warnings = ["the server reports other requests in flight".to_owned()];
    Document::new(&sample::plan(), &sample::answer(), &sample::trials(), cost, &warnings, provenance)
}
