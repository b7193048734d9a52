//! The screen of one trial (`plimsoll measure`): the full table of percentiles.

use super::style::{Ink, Style, labelled};
use crate::metrics::{ColdStart, Distribution};
use crate::plan::Plan;
use crate::report::document::{TrialDocument, VerdictWord};
use crate::report::words;
use crate::units::{Interval, Load, Seconds, significant};

/// Column at which the values behind the labels begin.
const VALUES: usize = 21;

/// The metrics in the order in which a request goes through them, with what they are measured in.
const METRICS: [(&str, Unit); 9] = [
    ("ttft", Unit::Time),
    ("ttst", Unit::Time),
    ("itl", Unit::Time),
    ("tpot", Unit::Time),
    ("stall", Unit::Time),
    ("e2e", Unit::Time),
    ("output-tokens-per-second-per-user", Unit::Rate),
    ("isl", Unit::Tokens),
    ("osl", Unit::Tokens),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Time,
    Rate,
    Tokens,
}

/// The screen of one trial.
pub fn trial(document: &TrialDocument, plan: &Plan, style: Style) -> String {
    let figures = &document.trial;
    let mut out = String::new();
    let (word, ink) = match figures.verdict {
        VerdictWord::Met => ("SLO met", Ink::Good),
        VerdictWord::Missed => ("SLO missed", Ink::Bad),
        VerdictWord::Undecided => ("too few samples to tell", Ink::Warn),
        VerdictWord::Void => ("void: not a valid measurement", Ink::Warn),
    };
    let load = plan.ramp.map_or_else(|| words::load(plan, figures.load), |ramp| words::ramp(&ramp));
    out.push_str(&format!("{}: ", style.paint(Ink::Strong, &load)));
    if plan.slo.objectives.is_empty() && figures.verdict != VerdictWord::Void {
        out.push_str("measured");
    } else {
        out.push_str(&style.paint(ink, word));
    }
    out.push_str("\n\n");
    for (objective, reading) in plan.slo.objectives.iter().zip(&figures.objectives) {
        let figure = reading.figure.map_or("-".to_owned(), |value| words::figure(objective, value));
        let counted = if let Some(windows) = &reading.windows {
            format!(" ({})", words::windows(windows))
        } else if reading.of > 0 {
            format!(
                " ({} of {} samples beyond)",
                words::count(reading.over.into()),
                words::count(reading.of.into())
            )
        } else {
            String::new()
        };
        let ink = match reading.met {
            Some(true) => Ink::Good,
            Some(false) => Ink::Bad,
            None => Ink::Faint,
        };
        let label = format!("  {} {}", words::name(objective), words::limit(objective));
        out.push_str(&style.paint(Ink::Faint, &label));
        out.push_str(&" ".repeat(VALUES.saturating_sub(label.chars().count()).max(2)));
        out.push_str(&format!("{}{counted}\n", style.paint(ink, &figure)));
    }
    for (label, text) in facts(document, plan) {
        labelled(&mut out, style, &format!("  {label}"), Ink::Faint, &text, VALUES);
    }
    out.push('\n');
    out.push_str(&percentiles(document, style));
    out.push_str(&super::slices::table(&figures.slices, style));
    let void = figures.void_reason.iter().map(|text| ("void", text));
    let warnings = document.warnings.iter().map(|text| ("warning", text));
    for (index, (label, text)) in void.chain(warnings).enumerate() {
        if index == 0 {
            out.push('\n');
        }
        labelled(&mut out, style, &format!("  {label}"), Ink::Warn, text, 11);
    }
    out
}

fn facts(document: &TrialDocument, plan: &Plan) -> Vec<(&'static str, String)> {
    let figures = &document.trial;
    let requests = figures.requests;
    let mut ends = vec![format!("{} counted", words::count(figures.measured.into()))];
    for (n, word) in
        [(requests.failed, "failed"), (requests.censored, "censored"), (requests.cancelled, "cancelled")]
    {
        if n > 0 {
            ends.push(format!("{} {word}", words::count(n.into())));
        }
    }
    let mut facts = vec![
        (
            "requests",
            format!(
                "{} in {} ({})",
                words::count(requests.issued.into()),
                Seconds(figures.seconds),
                ends.join(", ")
            ),
        ),
        (
            "throughput",
            format!(
                "{} requests/s, {} input and {} output tokens/s",
                significant(figures.requests_per_second),
                significant(figures.input_tokens_per_second),
                significant(figures.output_tokens_per_second)
            ),
        ),
        (
            "goodput",
            format!(
                "{} requests/s ({} of the requests are good)",
                significant(figures.goodput),
                percent(figures.attainment)
            ),
        ),
    ];
    if figures.error_rate > 0.0 {
        let kinds: Vec<String> = figures
            .errors
            .iter()
            .map(|(kind, n)| {
                let name = serde_json::to_value(kind).unwrap_or_default();
                format!("{} {}", words::count((*n).into()), name.as_str().unwrap_or("other"))
            })
            .collect();
        facts.push(("errors", format!("{} ({})", percent(figures.error_rate), kinds.join(", "))));
    }
    if let Some(arrivals) = &figures.arrivals {
        facts.push(("arrivals", super::arrivals::came(arrivals, plan)));
        facts.push(("dispatch", super::arrivals::lateness(arrivals)));
        if arrivals.unstable {
            facts.push(("unstable", super::arrivals::backlog(arrivals)));
        }
    }
    let flying = significant(figures.little_concurrency);
    facts.push(match (figures.load, plan.workload.has_users()) {
        (Load::Concurrency(users), true) => {
            let doing = if plan.workload.think.is_some() { "; the others pause" } else { "" };
            ("in flight", format!("{flying} of {users} users on average, by Little's law{doing}"))
        }
        _ => ("in flight", format!("{flying} by Little's law")),
    });
    facts.extend(figures.sessions.iter().flat_map(words::turns));
    facts.extend(
        figures.cold_start.filter(ColdStart::is_notable).map(|cold| ("cold start", words::cold_start(&cold))),
    );
    facts
}

fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// One line a metric, with the intervals of the median, p95 and p99 on a line of their own.
fn percentiles(document: &TrialDocument, style: Style) -> String {
    let heads = ["", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
    let mut rows: Vec<[String; 8]> = vec![heads.map(str::to_owned)];
    let mut faint: Vec<bool> = vec![true];
    for (name, unit) in METRICS {
        let Some(samples) = document.trial.metrics.get(name) else { continue };
        if samples.n == 0 {
            continue;
        }
        rows.push(row(name, unit, samples));
        faint.push(false);
        let ends = [samples.p50_interval, samples.p95_interval, samples.p99_interval];
        if ends.iter().any(Option::is_some) {
            let [p50, p95, p99] = ends.map(|interval| half_width(unit, interval));
            rows.push([
                String::new(),
                String::new(),
                p50,
                String::new(),
                p95,
                p99,
                String::new(),
                String::new(),
            ]);
            faint.push(true);
        }
    }
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for (row, faint) in rows.iter().zip(faint) {
        let mut line = format!("  {:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        let line = line.trim_end();
        out.push_str(&if faint { style.paint(Ink::Faint, line) } else { line.to_owned() });
        out.push('\n');
    }
    let with_interval = document.trial.metrics.values().any(|samples| samples.p95_interval.is_some());
    if with_interval {
        out.push_str(
            &style.paint(
                Ink::Faint,
                "  ± half the 95 % interval; requests of one trial share the server's mood",
            ),
        );
        out.push('\n');
    }
    out
}

fn row(name: &str, unit: Unit, samples: &Distribution) -> [String; 8] {
    let name = if name == "output-tokens-per-second-per-user" { "tok/s/user" } else { name };
    [
        name.to_owned(),
        value(unit, samples.mean),
        value(unit, samples.p50),
        value(unit, samples.p90),
        value(unit, samples.p95),
        value(unit, samples.p99),
        samples.p999.map_or("-".to_owned(), |p999| value(unit, p999)),
        value(unit, samples.max),
    ]
}

fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time => Seconds(value).to_string(),
        Unit::Rate => significant(value),
        Unit::Tokens => words::whole(value),
    }
}

fn half_width(unit: Unit, interval: Option<Interval>) -> String {
    match interval {
        Some(Interval { low, high: Some(high), .. }) => format!("±{}", value(unit, (high - low) / 2.0)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::sample;
    use crate::search::TrialKind;

    const PLAIN: Style = Style { width: 80, colour: false };

    #[test]
    fn one_trial_shows_every_percentile_with_its_interval() {
        let outcome = sample::outcome(1, 48, TrialKind::Measure);
        let document = TrialDocument::new(&sample::plan(), &outcome, &["the endpoint is shared".to_owned()]);
        insta::assert_snapshot!(trial(&document, &sample::plan(), PLAIN));
    }

    #[test]
    fn a_void_trial_says_why() {
        let document = TrialDocument::new(&sample::plan(), &sample::void(1, 8), &[]);
        let text = trial(&document, &sample::plan(), PLAIN);
        assert!(text.starts_with("8 concurrent: void: not a valid measurement\n"), "{text}");
        assert!(text.contains("came in one burst"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
