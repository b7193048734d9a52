//! `report.html`: the whole report as one file that needs no network and no other file.
//!
//! The page is a template, a style and a script (in `assets/report/`) with the run's data between
//! them, as JSON that cannot end its own element. The script draws everything from that data by
//! text nodes and attributes, never by markup, so that nothing in a run can become part of the page.

mod data;
mod histogram;
mod requests;
mod telemetry;
mod template;
#[cfg(test)]
mod tests;
mod ticks;

pub(crate) use data::Page;
pub(crate) use requests::Requests;

use super::document::Document;
use crate::run::Contents;

/// The page of a run, as a text. Records that cannot be read are left out, and the page says so.
pub fn render(contents: &Contents, document: &Document) -> String {
    let mut requests = Requests::default();
    let read = contents.for_each_record(|record| requests.add(&record));
    let mut page = Page::new(contents, document, &requests);
    if let Err(error) = read {
        page.note(format!("not every request could be read: {error}"));
    }
    template::fill(&page)
}

/// The page of a run that goes on, which asks its server for news.
pub(crate) fn render_live(page: &Page<'_>) -> String {
    template::fill(page)
}

/// A value with so many significant digits: what is drawn needs no more, and the file stays small.
fn digits(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = digits - 1 - value.abs().log10().floor() as i32;
    // Powers of ten below 1 are not exact: dividing by their inverse keeps the digits short.
    if scale >= 0 {
        let factor = 10_f64.powi(scale);
        (value * factor).round() / factor
    } else {
        let factor = 10_f64.powi(-scale);
        (value / factor).round() * factor
    }
}
