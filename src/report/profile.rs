//! A profile as data, as a screen, as a table, and its files.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::analysis::table;
use super::document::to_json;
use super::files::ReportError;
use super::plot::profile::{ProfilePicture, png, svg};
use super::terminal::Style;
use super::terminal::style::{Ink, labelled};
use crate::profile::{Cell, Figures, Front, Pace, ProfilePlan};
use crate::recipe::ProfileKind;
use crate::run::{Cost, write_file};
use crate::units::{Interval, Seconds, significant};

/// Version of the schema of [`ProfileDocument`].
pub const PROFILE_VERSION: u32 = 1;

/// A server's own curves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "plimsoll profile")]
pub struct ProfileDocument {
    /// Version of this schema.
    pub schema_version: u32,
    /// What was measured.
    pub kind: ProfileKind,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// What the target said of itself.
    pub target: Option<serde_json::Value>,
    /// GPUs of the server, where they are named.
    pub gpus: Option<u32>,
    /// Trials that the profile has, and how many of them are measured.
    pub trials: (usize, usize),
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// What it took.
    pub cost: Cost,
    /// What the reader should know, each text once.
    pub warnings: Vec<String>,
    /// The run of each shape, relative to the profile's folder.
    pub runs: Vec<String>,
}

impl ProfileDocument {
    /// A profile's document, from its figures.
    pub fn new(plan: &ProfilePlan, started: &str, figures: Figures) -> Self {
        Self {
            schema_version: PROFILE_VERSION,
            kind: plan.kind,
            started: started.to_owned(),
            target: None,
            gpus: plan.gpus,
            trials: (plan.trials(), figures.cells.len()),
            figures,
            cost: Cost::default(),
            warnings: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// As JSON, indented, with a newline at its end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Whether every trial was measured.
    pub fn is_whole(&self) -> bool {
        self.trials.0 == self.trials.1
    }

    /// Whether at least one trial was valid.
    pub fn is_valid(&self) -> bool {
        self.figures.cells.iter().any(|cell| cell.void.is_none())
    }

    /// The answer in a line.
    pub fn headline(&self) -> String {
        match self.kind {
            ProfileKind::Prefill => self.prefill_headline(),
            ProfileKind::Decode => self.decode_headline(),
            ProfileKind::Pareto => self.pareto_headline(),
        }
    }

    fn prefill_headline(&self) -> String {
        let Some(fit) = &self.figures.prefill else {
            return "no prefill speed can be told: TTFT does not plainly grow with these prompt lengths"
                .to_owned();
        };
        let interval = rates(fit.at_longest.interval);
        match fit.quadratic {
            Some(_) => format!(
                "prefill at {} prompt tokens/s for the longest prompts (95 % CI {interval}), {} for the shortest",
                rate(fit.at_longest.value),
                rate(fit.at_shortest.value)
            ),
            None => format!("prefill at {} prompt tokens/s (95 % CI {interval})", rate(fit.at_longest.value)),
        }
    }

    fn decode_headline(&self) -> String {
        let pace = self.figures.pace.unwrap_or(Pace::Itl);
        let medians = || self.figures.cells.iter().filter_map(|cell| Some((cell.pace(pace)?.p50, cell)));
        let fastest = medians().min_by(|a, b| a.0.total_cmp(&b.0));
        let slowest = medians().max_by(|a, b| a.0.total_cmp(&b.0));
        match fastest.zip(slowest) {
            Some(((low, a), (high, b))) => format!(
                "{} {} at {} in flight, {} at {} with outputs of {} tokens",
                Seconds(low),
                if pace == Pace::Itl { "between tokens" } else { "for an output token" },
                a.concurrency,
                Seconds(high),
                b.concurrency,
                b.shape.osl
            ),
            None => "no time between tokens was measured".to_owned(),
        }
    }

    fn pareto_headline(&self) -> String {
        let best = |front: &Front| front.points.iter().map(|point| point.total).fold(0.0, f64::max);
        let fronts = &self.figures.fronts;
        let ends = (
            fronts.iter().max_by(|a, b| best(a).total_cmp(&best(b))),
            fronts.iter().min_by(|a, b| best(a).total_cmp(&best(b))),
        );
        match ends {
            (Some(most), Some(least)) if fronts.len() > 1 => format!(
                "up to {} output tokens/s in all with {}, {} with {} (ISL x OSL)",
                rate(best(most)),
                most.shape,
                rate(best(least)),
                least.shape
            ),
            (Some(most), _) => {
                format!("up to {} output tokens/s in all with {}", rate(best(most)), most.shape)
            }
            _ => "no throughput was measured".to_owned(),
        }
    }

    /// The screen.
    pub fn screen(&self, style: Style) -> String {
        let mut out = style.paint(Ink::Strong, &self.headline()) + "\n\n";
        out.push_str(&match self.kind {
            ProfileKind::Prefill => self.prefill_table(),
            ProfileKind::Decode => self.decode_table(),
            ProfileKind::Pareto => self.pareto_tables(),
        });
        out.push('\n');
        for (label, text) in self.facts() {
            labelled(&mut out, style, &format!("  {label}"), Ink::Faint, &text, 15);
        }
        for cell in &self.figures.cells {
            if let Some(reason) = &cell.void {
                let text = format!("{} at {} in flight: {reason}", cell.shape, cell.concurrency);
                labelled(&mut out, style, "  void", Ink::Warn, &text, 15);
            }
        }
        for warning in &self.warnings {
            labelled(&mut out, style, "  warning", Ink::Warn, warning, 15);
        }
        out
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(fit) = &self.figures.prefill {
            let mut text =
                format!("{} + {} for each prompt token", Seconds(fit.fixed), Seconds(fit.linear.value));
            if let Some(term) = fit.quadratic {
                text.push_str(&format!(" + {} for each pair of them", Seconds(term.value)));
            }
            facts
                .push(("TTFT is", format!("{text}; points lie {} % off", significant(fit.residual * 100.0))));
            let share = fit.quadratic_share.map(|share| significant(share * 100.0));
            facts.push((
                "attention",
                match (share, fit.quadratic) {
                    (Some(share), Some(_)) => {
                        format!("the part that grows with the square is {share} % of the longest prompt's TTFT")
                    }
                    (Some(share), None) => format!(
                        "no part that grows with the square can be seen; it is at most {share} % of the longest \
                         prompt's TTFT"
                    ),
                    (None, _) => "too few lengths tell of a part that grows with the square".to_owned(),
                },
            ));
        }
        if self.figures.pace == Some(Pace::Tpot) {
            let text = "tokens arrive several at a time, so that the gaps between them are not told; TPOT is one \
                        figure a request, with what the prompts of others cost it";
            facts.push(("figure", text.to_owned()));
        }
        for step in &self.figures.step_times {
            let each = step.each.interval;
            facts.push((
                "step time",
                format!(
                    "outputs of {}: {} alone, and {} for each further request in flight (95 % CI {} to {})",
                    step.osl,
                    Seconds(step.alone.value),
                    Seconds(step.each.value),
                    Seconds(each.low),
                    Seconds(each.high.unwrap_or(each.low))
                ),
            ));
        }
        let (wanted, measured) = self.trials;
        if measured < wanted {
            facts.push(("unfinished", format!("{measured} of {wanted} trials are measured")));
        }
        let Cost { seconds, requests, .. } = self.cost;
        facts.push(("cost", format!("{}, {} requests", Seconds(seconds), super::words::count(requests))));
        facts
    }

    fn prefill_table(&self) -> String {
        let row = |cell: &Cell| {
            let (tokens, ttft) = (cell.prompt_tokens, cell.ttft);
            let fit = self.figures.prefill.as_ref().zip(tokens).map(|(fit, tokens)| fit.ttft(tokens));
            vec![
                cell.shape.isl.to_string(),
                tokens.map_or("-".to_owned(), significant_count),
                time(ttft.map(|ttft| ttft.p50)),
                ttft.and_then(|ttft| ttft.p50_interval).map_or("-".to_owned(), times),
                time(ttft.map(|ttft| ttft.p95)),
                time(fit),
                tokens.zip(ttft).map_or("-".to_owned(), |(tokens, ttft)| rate(tokens / ttft.p50)),
                cell.requests.to_string(),
            ]
        };
        let rows: Vec<Vec<String>> = self.figures.cells.iter().map(row).collect();
        table(&["ISL", "counted", "TTFT p50", "95 % CI", "p95", "fit", "prompt tok/s", "requests"], &rows)
    }

    fn decode_table(&self) -> String {
        let (cells, pace) = (&self.figures.cells, self.figures.pace.unwrap_or(Pace::Itl));
        let sorted = |mut values: Vec<u32>| {
            values.sort_unstable();
            values.dedup();
            values
        };
        let lengths = sorted(cells.iter().map(|cell| cell.shape.osl).collect());
        let loads = sorted(cells.iter().map(|cell| cell.concurrency).collect());
        let heads: Vec<String> = std::iter::once("in flight".to_owned())
            .chain(lengths.iter().map(|osl| format!("OSL {osl}")))
            .collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> = loads
            .iter()
            .map(|&users| {
                let text = |osl: &u32| {
                    let at = |cell: &&Cell| cell.concurrency == users && cell.shape.osl == *osl;
                    match cells.iter().find(at).map(|cell| cell.pace(pace)) {
                        Some(Some(times)) => format!("{} ({})", Seconds(times.p50), Seconds(times.p95)),
                        Some(None) => "void".to_owned(),
                        None => "-".to_owned(),
                    }
                };
                std::iter::once(users.to_string()).chain(lengths.iter().map(text)).collect()
            })
            .collect();
        format!("  {}: median (p95)\n{}", pace_words(pace), table(&heads, &rows))
    }

    fn pareto_tables(&self) -> String {
        let mut rows = Vec::new();
        for front in &self.figures.fronts {
            for point in &front.points {
                let mut row = vec![
                    front.shape.to_string(),
                    point.concurrency.to_string(),
                    significant(point.per_user),
                    rate(point.total),
                ];
                row.extend(point.per_gpu.map(rate));
                row.push(if point.best { "front".to_owned() } else { String::new() });
                rows.push(row);
            }
        }
        let mut heads = vec!["ISL x OSL", "in flight", "tok/s a user", "tok/s in all"];
        heads.extend(self.gpus.map(|_| "tok/s a GPU"));
        heads.push("Pareto");
        table(&heads, &rows)
    }

    /// Every cell as CSV.
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "isl,osl,concurrency,requests,prompt_tokens,output_tokens,ttft_p50_seconds,ttft_p50_low,ttft_p50_high,\
             ttft_p95_seconds,itl_p50_seconds,itl_p95_seconds,tpot_p50_seconds,tpot_p95_seconds,tokens_per_second_per_user,tokens_per_second,void\n",
        );
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        for cell in &self.figures.cells {
            let interval = cell.ttft.and_then(|ttft| ttft.p50_interval);
            let row = [
                cell.shape.isl.to_string(),
                cell.shape.osl.to_string(),
                cell.concurrency.to_string(),
                cell.requests.to_string(),
                number(cell.prompt_tokens),
                number(cell.output_tokens),
                number(cell.ttft.map(|ttft| ttft.p50)),
                number(interval.map(|interval| interval.low)),
                number(interval.and_then(|interval| interval.high)),
                number(cell.ttft.map(|ttft| ttft.p95)),
                number(cell.itl.map(|itl| itl.p50)),
                number(cell.itl.map(|itl| itl.p95)),
                number(cell.tpot.map(|tpot| tpot.p50)),
                number(cell.tpot.map(|tpot| tpot.p95)),
                number(cell.tokens_per_second_per_user),
                number(Some(cell.tokens_per_second).filter(|_| cell.void.is_none())),
                cell.void
                    .as_ref()
                    .map_or_else(String::new, |why| format!("\"{}\"", why.replace('"', "\"\""))),
            ];
            out.push_str(&(row.join(",") + "\n"));
        }
        out
    }

    /// Writes `summary.json`, `<kind>.csv` and, where there is something to draw, `<kind>.svg` and
    /// `<kind>.png` into a folder, each whole or not at all.
    ///
    /// # Errors
    /// When a file cannot be written or a picture cannot be drawn.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let word = self.kind.word();
        let mut written = vec![
            write_file(folder, "summary.json", self.to_json().as_bytes())?,
            write_file(folder, &format!("{word}.csv"), self.csv().as_bytes())?,
        ];
        let title = self.headline();
        let picture = ProfilePicture {
            kind: self.kind,
            figures: &self.figures,
            title: &title,
            per_gpu: self.gpus.is_some(),
        };
        if let Some(text) = svg(picture)? {
            written.push(write_file(folder, &format!("{word}.svg"), text.as_bytes())?);
        }
        if let Some(bytes) = png(picture)? {
            written.push(write_file(folder, &format!("{word}.png"), &bytes)?);
        }
        Ok(written)
    }
}

/// What a decode profile shows.
pub(super) fn pace_words(pace: Pace) -> &'static str {
    match pace {
        Pace::Itl => "time between tokens (ITL)",
        Pace::Tpot => "time per output token (TPOT)",
    }
}

fn time(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |seconds| Seconds(seconds).to_string())
}

fn times(interval: Interval) -> String {
    match interval.high {
        Some(high) => format!("{} to {}", Seconds(interval.low), Seconds(high)),
        None => format!("from {}", Seconds(interval.low)),
    }
}

/// Tokens a second: three digits, thousands apart.
fn rate(value: f64) -> String {
    if value < 1000.0 {
        return significant(value);
    }
    let unit = 10_f64.powf(value.log10().floor() - 2.0);
    super::words::count(((value / unit).round() * unit).round() as u64)
}

fn rates(interval: Interval) -> String {
    match interval.high {
        Some(high) => format!("{}-{}", rate(interval.low), rate(high)),
        None => format!("from {}", rate(interval.low)),
    }
}

fn significant_count(tokens: f64) -> String {
    super::words::count(tokens.round() as u64)
}
