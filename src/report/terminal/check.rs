//! The checklist on the terminal.

use crate::target::check::{CheckReport, Status};

use super::style::{Ink, Style, labelled};

/// The checklist, a line a point, each with its mend where there is one.
pub fn check(report: &CheckReport, style: Style) -> String {
    let mut out = String::new();
    let widest = report.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    for line in &report.lines {
        let (word, ink) = match line.status {
            Status::Ok => ("ok", Ink::Good),
            Status::Warn => ("warn", Ink::Warn),
            Status::Fail => ("fail", Ink::Bad),
        };
        let label = format!("{word:<5} {:<widest$}", line.name);
        labelled(&mut out, style, &label, ink, &line.seen, widest + 8);
        if let Some(mend) = &line.mend {
            labelled(&mut out, style, "", ink, &format!("-> {mend}"), widest + 8);
        }
    }
    let words = match (report.reachable, report.valid) {
        (false, _) => "the server cannot be reached",
        (true, false) => "a measurement would not be valid",
        (true, true) => "this endpoint can be measured from here",
    };
    out.push_str(&format!("\n{} ({:.1} s)\n", style.paint(Ink::Strong, words), report.seconds));
    out
}
