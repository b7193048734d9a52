//! The screen of a search: the answer first, then what it stands on, then what to do next.

use std::path::Path;

use super::style::{Ink, Style, labelled};
use super::{arrivals, curve, table};
use crate::metrics::ColdStart;
use crate::plan::{ArrivalsPlan, Lengths, Plan, TargetPlan, WindowPlan};
use crate::report::document::{Document, TrialFigures, VerdictWord};
use crate::report::words;
use crate::search::{Boundary, Resolution, SearchOutcome, TrialKind};
use crate::units::{Interval, Load, Seconds, rate_figure, significant};

/// What a search's screen is made of.
#[derive(Clone, Copy, Debug)]
pub struct Screen<'a> {
    /// The answer and the trials.
    pub document: &'a Document,
    /// What was to be done.
    pub plan: &'a Plan,
    /// Where the files are, if there are any.
    pub folder: Option<&'a Path>,
}

/// Column at which the values behind the labels begin.
const VALUES: usize = 21;
/// Column at which remarks and next steps begin.
const TEXTS: usize = 11;

/// The screen of a search.
pub fn search(screen: &Screen, style: Style) -> String {
    let Screen { document, plan, folder } = *screen;
    let mut out = String::new();
    for line in super::style::wrap(&words::headline(document), style.width) {
        out.push_str(&style.paint(Ink::Strong, &line));
        out.push('\n');
    }
    out.push('\n');
    for (label, text) in facts(document, plan) {
        labelled(&mut out, style, &format!("  {label}"), Ink::Faint, &text, VALUES);
    }
    for block in [curve::render(document, plan, style), table::near_boundary(document, plan, style)] {
        if !block.is_empty() {
            out.push('\n');
            out.push_str(&block);
        }
    }
    let remarks = remarks(document);
    if !remarks.is_empty() {
        out.push('\n');
    }
    for (label, ink, text) in remarks {
        labelled(&mut out, style, &format!("  {label}"), ink, &text, TEXTS);
    }
    out.push('\n');
    for (index, step) in next_steps(screen).into_iter().enumerate() {
        let label = if index == 0 { "  next" } else { "" };
        labelled(&mut out, style, label, Ink::Strong, &step.text, TEXTS);
        if let Some(command) = step.command {
            // Never wrapped, so that it can be copied.
            out.push_str(&format!("{:TEXTS$}  {command}\n", ""));
        }
    }
    if let Some(folder) = folder {
        labelled(&mut out, style, "  files", Ink::Faint, &folder.display().to_string(), TEXTS);
    }
    out
}

/// The figures beside the answer, as label and text.
pub(crate) fn facts(document: &Document, plan: &Plan) -> Vec<(&'static str, String)> {
    let answer = &document.answer;
    let mut facts = crate::report::repeats::facts(document);
    facts.extend(users(document));
    if let Some(goodput) = answer.goodput {
        let sure = goodput.interval.map(|interval| format!(" ({})", words::interval(interval, significant)));
        let text =
            format!("{} requests/s{}", significant(goodput.requests_per_second), sure.unwrap_or_default());
        facts.push(("goodput there", text));
    }
    facts.extend(arrivals::as_a_rate(document).map(|text| ("request rate there", text)));
    facts.extend(arrivals::check(document, plan).map(|text| ("open-loop check", text)));
    if let Some(plan) = &plan.arrivals {
        facts.push(("arrivals", format!("{}, open loop", words::arrivals(plan))));
    }
    facts.extend(of_trace(document, plan).map(|text| ("mean rate there", text)));
    facts.extend(windows(document, plan).map(|text| ("windows", text)));
    if let Some(objective) = &answer.binding_objective {
        let sure =
            answer.binding_probability.map(|p| format!(" ({} sure)", words::significant_share(round(p))));
        facts.push(("binding objective", format!("{objective}{}", sure.unwrap_or_default())));
    }
    if let Some(load) = answer.largest_met {
        facts.push(("largest met", words::load(plan, load)));
    }
    if let Some(load) = answer.smallest_missed {
        facts.push(("smallest missed", words::load(plan, load)));
    }
    if let Some(boundary) = answer.boundary {
        let text = match boundary {
            Boundary::Smooth => "smooth: latency rises gently through the limit",
            Boundary::Cliff => "cliff: a little more load breaks the SLO by far",
            Boundary::Staircase => "staircase: latency rises in steps",
        };
        facts.push(("boundary", text.to_owned()));
    }
    facts.extend(answer.resolution.filter(|it| it.width > 0.0).map(|it| ("resolution", resolution(it))));
    facts.extend(answer.bottleneck.clone().map(|text| ("bottleneck", text)));
    if let Some(bottleneck) = document.bottleneck.as_ref().filter(|_| answer.bottleneck.is_some()) {
        facts.extend(bottleneck.evidence.iter().skip(1).map(|text| ("", text.clone())));
        if !bottleneck.try_next.is_empty() {
            facts.push(("to carry more", bottleneck.try_next.join("; or ")));
        }
    }
    if let Some(cold) = document.cold_start.filter(ColdStart::is_notable) {
        facts.push(("cold start", words::cold_start(&cold)));
    }
    let cost = &document.cost;
    facts.push((
        "cost",
        format!(
            "{}, {}, {}, {} of client CPU",
            Seconds(cost.seconds),
            words::counted(cost.requests, "request"),
            words::counted(document.trials.len() as u64, "trial"),
            Seconds(cost.client_cpu_seconds)
        ),
    ));
    facts
}

/// The mean rate of a trace at the speed-up that was found, and how long it then lasts.
fn of_trace(document: &Document, plan: &Plan) -> Option<String> {
    let (Some(Load::SpeedUp(factor)), Some(arrivals)) = (document.answer.load, &plan.arrivals) else {
        return None;
    };
    let rate = arrivals.trace_rate()?;
    Some(format!(
        "{} requests/s; as it was taken, the trace has {}",
        rate_figure(rate * factor),
        rate_figure(rate)
    ))
}

/// What the figure of an objective with a window is, and what the trial nearest to the answer showed.
fn windows(document: &Document, plan: &Plan) -> Option<String> {
    let answer = document.answer.safe_load.or(document.answer.load);
    let counted = |trial: &&TrialFigures| trial.is_valid() && trial.kind != TrialKind::Navigate;
    let distance = |trial: &TrialFigures| match answer {
        Some(load) => (trial.load.value().max(0.5) / load.value().max(0.5)).ln().abs(),
        None => 0.0,
    };
    let trials = document.trials.iter().filter(counted);
    let nearest = trials.rev().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let told: Vec<String> = plan
        .slo
        .objectives
        .iter()
        .zip(&nearest.objectives)
        .filter_map(|(objective, reading)| {
            let (windows, figure) = (reading.windows?, reading.figure?);
            let figure = words::figure(objective, figure);
            Some(format!("{} {figure} ({})", words::name(objective), words::windows(&windows)))
        })
        .collect();
    (!told.is_empty()).then(|| {
        format!(
            "the figure of a trial is that of its worst window; at {} {}. The worst of a longer time is worse: \
             `plimsoll soak`",
            nearest.load,
            told.join(", ")
        )
    })
}

/// What the users of the answer do, and how many of them are in flight.
fn users(document: &Document) -> Vec<(&'static str, String)> {
    let Some(users) = &document.users else { return Vec::new() };
    let mut parts = Vec::new();
    if let Some(Load::Concurrency(all)) = document.answer.load {
        parts.extend(
            users
                .in_flight
                .map(|flying| format!("{} of the {all} in flight on average", significant(flying))),
        );
    }
    parts.extend(users.think.as_ref().map(|think| format!("pauses of {think}")));
    parts.extend(users.turns.as_ref().map(|turns| format!("conversations of {turns} turns")));
    let at_answer = super::metrics::nearest(document).and_then(|trial| trial.sessions.as_ref());
    let turns = at_answer.map(words::turns).unwrap_or_default();
    std::iter::once(("users", parts.join("; "))).chain(turns).collect()
}

/// How finely the answer is known, and what finer would cost.
fn resolution(known: Resolution) -> String {
    let percent = |share: f64| format!("{} %", significant(share * 100.0));
    let mut text = format!(
        "{} wide after {} at the boundary; half of that takes about {} more",
        percent(known.width),
        Seconds(known.measured_seconds),
        Seconds(known.seconds_for(known.width / 2.0))
    );
    if let (Some(floor), Some(sd), Some(time)) = (known.floor, known.slow_noise, known.slow_noise_seconds) {
        text += &format!(
            " (no method beats {} in this time: the server's own pace wanders by {} over {})",
            percent(floor),
            percent(sd),
            Seconds(time)
        );
    }
    text
}

/// A probability in whole percent, short of certainty.
fn round(probability: f64) -> f64 {
    ((probability * 100.0).round() / 100.0).min(0.99)
}

/// Why trials were void, warnings and notes, as kind and text; each text once.
pub(crate) fn remarks(document: &Document) -> Vec<(&'static str, Ink, String)> {
    let mut remarks: Vec<(&'static str, Ink, String)> = Vec::new();
    let mut causes: Vec<&str> = Vec::new();
    for trial in document.trials.iter().filter(|trial| trial.verdict == VerdictWord::Void) {
        let cause = trial.void_cause.as_deref().unwrap_or_default();
        if causes.contains(&cause) {
            continue;
        }
        causes.push(cause);
        let same: Vec<Load> = document
            .trials
            .iter()
            .filter(|other| {
                other.verdict == VerdictWord::Void && other.void_cause.as_deref().unwrap_or_default() == cause
            })
            .map(|other| other.load)
            .collect();
        let levels = levels(&same);
        let reason = trial.void_reason.as_deref().unwrap_or("no reason was kept");
        remarks.push(("void", Ink::Warn, format!("at {levels}: {reason}")));
    }
    remarks.extend(document.warnings.iter().map(|text| ("warning", Ink::Warn, text.clone())));
    remarks.extend(document.answer.notes.iter().map(|text| ("note", Ink::Faint, text.clone())));
    remarks
}

/// `8`, `8 and 16`, `8, 16 and 3 more`.
fn levels(loads: &[Load]) -> String {
    let mut values: Vec<String> = Vec::new();
    for load in loads {
        let text = words::level(load.value());
        if !values.contains(&text) {
            values.push(text);
        }
    }
    match values.len() {
        0 => String::new(),
        1 => values[0].clone(),
        2 | 3 => format!("{} and {}", values[..values.len() - 1].join(", "), values[values.len() - 1]),
        n => format!("{} and {} more", values[..2].join(", "), n - 2),
    }
}

/// Something to do next.
struct Step {
    text: String,
    command: Option<String>,
}

impl Step {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), command: None }
    }

    fn run(text: impl Into<String>, command: String) -> Self {
        Self { text: text.into(), command: Some(command) }
    }
}

/// What to do with the answer.
fn next_steps(screen: &Screen) -> Vec<Step> {
    let Screen { document, plan, folder } = *screen;
    let answer = &document.answer;
    let mut steps = Vec::new();
    match document.outcome {
        SearchOutcome::Found => {
            if let Some(safe) = answer.safe_load.or(answer.load) {
                let at_most = words::load(plan, safe);
                steps.push(Step::new(format!("plan with at most {at_most} for this server (the safe load)")));
                let level = words::level(safe.value());
                let (why, command) = match trace(plan) {
                    Some(trace) => ("replay it alone at that:", format!("{trace} {level}")),
                    None => (
                        "see whether it holds for longer:",
                        format!(
                            "plimsoll measure{} {} {level}{} --duration 300s",
                            url(plan),
                            flag(plan),
                            users_flags(plan)
                        ),
                    ),
                };
                steps.push(Step::run(why, command));
            }
            if let Some(Interval { low, high: Some(high), .. }) = answer.interval
                && high > 1.25 * low
            {
                let (from, to) = match plan.arrivals {
                    Some(_) => (low * 0.8, high * 1.2),
                    None => ((low * 0.8).floor().max(1.0), (high * 1.2).ceil()),
                };
                let around = format!("{}..{}", words::level(from), words::level(to));
                steps.push(Step::new(format!(
                    "for a narrower interval search around it: `{} {around}`",
                    flag(plan)
                )));
            }
            steps.extend(real_lengths(plan).map(Step::new));
        }
        SearchOutcome::MissedAtLowest => {
            steps.extend(worst_at_lowest(document, plan).map(Step::new));
            let lower = plan.arrivals.as_ref().map(|arrivals| {
                let (low, high) = ends(arrivals);
                let (low, high) = (words::level(low / 10.0), words::level(high));
                format!("allow lower ones (`{} {low}..{high}`) or relax the SLO (`--slo`)", flag(plan))
            });
            steps.push(Step::new(if let Some(lower) = lower {
                lower
            } else if plan.load.min > 1 {
                format!("allow lower loads (`--concurrency 1..{}`) or relax the SLO (`--slo`)", plan.load.max)
            } else {
                "no load meets this SLO: relax it (`--slo`), send shorter prompts (`--isl`), or make the server faster"
                    .to_owned()
            }));
        }
        SearchOutcome::MetAtHighest => {
            let (min, max) = match &plan.arrivals {
                Some(arrivals) => ends(arrivals),
                None => (f64::from(plan.load.min), f64::from(plan.load.max)),
            };
            let text = format!(
                "the answer is a lower bound; raise the highest load: `{} {}..{}`",
                flag(plan),
                words::level(min),
                words::level(max * 8.0)
            );
            steps.push(Step::new(text));
        }
        SearchOutcome::Void => {
            steps.push(Step::new("mend what made the trials void (above), then search again"));
        }
        SearchOutcome::Interrupted => {
            if let Some(folder) = folder {
                let command = format!("plimsoll resume {}", folder.display());
                steps.push(Step::run("go on from the last finished trial:", command));
            }
        }
    }
    steps
}

/// The flag that says the plan's kind of load.
fn flag(plan: &Plan) -> &'static str {
    match &plan.arrivals {
        Some(arrivals) if arrivals.trace_rate().is_some() => "--speed-up",
        Some(_) => "--rate",
        None => "--concurrency",
    }
}

/// The least and the most that a search over an open loop may try, in the unit of its answer.
fn ends(arrivals: &ArrivalsPlan) -> (f64, f64) {
    let unit = arrivals.trace_rate().unwrap_or(1.0);
    (arrivals.min / unit, arrivals.max / unit)
}

/// The command that replays the trace of a search, without the factor.
fn trace(plan: &Plan) -> Option<String> {
    plan.arrivals.as_ref()?.trace_rate()?;
    let source = plan.workload.source.as_ref()?;
    let window = source.window.filter(|window| *window != WindowPlan::default()).map(|window| {
        let to = window.to.map_or(String::new(), |to| format!("{to}s"));
        format!(" --window {}s..{to}", window.from)
    });
    let window = window.unwrap_or_default();
    Some(format!("plimsoll measure{} --trace {}{window} --speed-up", url(plan), source.path))
}

/// The flags that say what the plan's users do.
fn users_flags(plan: &Plan) -> String {
    let workload = &plan.workload;
    let turns = workload.sessions.as_ref().map_or_else(String::new, |sessions| match sessions.as_recorded {
        true => " --turns all".to_owned(),
        false => format!(" --turns '{}'", sessions.turns),
    });
    let think = workload.think.map_or_else(String::new, |think| format!(" --think '{think}'"));
    turns + &think
}

/// The flag that names the plan's endpoint.
fn url(plan: &Plan) -> String {
    match &plan.target {
        TargetPlan::Endpoint(endpoint) => format!(" --url {}", endpoint.url),
        TargetPlan::Simulated(_) => String::new(),
    }
}

/// Where all requests have the same lengths: how to send such as users do. Equal requests run in lock
/// step, start and end together, and never leave a long one to wait behind.
fn real_lengths(plan: &Plan) -> Option<String> {
    let (Lengths::Fixed { tokens: isl }, Lengths::Fixed { tokens: osl }) =
        (&plan.workload.isl, &plan.workload.osl)
    else {
        return None;
    };
    let text = format!(
        "all requests were equally long, which flatters a server: send yours (`--dataset FILE`), or such as \
         `--isl 'lognormal(mean={isl}, cv=0.6)' --osl 'lognormal(mean={osl}, cv=0.6)'`"
    );
    plan.workload.source.is_none().then_some(text)
}

/// How far the objective that is missed most is from its limit at the lowest load.
fn worst_at_lowest(document: &Document, plan: &Plan) -> Option<String> {
    let lowest = document
        .trials
        .iter()
        .filter(|trial| trial.is_valid() && trial.verdict == VerdictWord::Missed)
        .min_by(|a, b| a.load.value().total_cmp(&b.load.value()).then(b.measured.cmp(&a.measured)))?;
    let (objective, figure) = plan
        .slo
        .objectives
        .iter()
        .zip(&lowest.objectives)
        .filter_map(|(objective, reading)| Some((objective, reading.figure?)))
        .max_by(|a, b| a.0.margin(a.1).total_cmp(&b.0.margin(b.1)))?;
    Some(format!(
        "{} was {} at {}, where the SLO asks for {}",
        words::name(objective),
        words::figure(objective, figure),
        lowest.load,
        words::limit(objective)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample_document;
    use crate::run::sample;

    const PLAIN: Style = Style { width: 80, colour: false };

    fn render(document: &Document, style: Style) -> String {
        search(
            &Screen {
                document,
                plan: &sample::plan(),
                folder: Some(Path::new("runs/20260102T030405Z-chat")),
            },
            style,
        )
    }

    #[test]
    fn a_found_answer_stands_first_with_what_it_stands_on() {
        insta::assert_snapshot!(render(&sample_document(), PLAIN));
    }

    #[test]
    fn colours_change_no_word() {
        let coloured = render(&sample_document(), Style { colour: true, ..PLAIN });
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain.push_str(before);
            rest = after.split_once('m').map_or("", |(_, rest)| rest);
        }
        plain.push_str(rest);
        assert_eq!(plain, render(&sample_document(), PLAIN));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [60, 80, 110] {
            let text = render(&sample_document(), Style { width, colour: false });
            for line in text.lines().filter(|line| !line.contains("plimsoll measure")) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn every_other_end_has_its_own_words_and_mend() {
        let mut document = sample_document();
        let at = Load::Concurrency;
        let empty = crate::report::document::AnswerDocument::default();
        let mut texts = String::new();
        for outcome in [
            SearchOutcome::MissedAtLowest,
            SearchOutcome::MetAtHighest,
            SearchOutcome::Void,
            SearchOutcome::Interrupted,
        ] {
            document.outcome = outcome;
            document.answer = empty.clone();
            document.warnings.clear();
            let all = sample_document().trials;
            document.trials = match outcome {
                SearchOutcome::MissedAtLowest => {
                    document.answer.smallest_missed = Some(at(48));
                    all.into_iter().filter(|trial| trial.load == at(48)).collect()
                }
                SearchOutcome::MetAtHighest => {
                    document.answer.largest_met = Some(at(16));
                    all.into_iter().filter(|trial| trial.load <= at(16)).collect()
                }
                SearchOutcome::Void => {
                    all.into_iter().filter(|trial| trial.verdict == VerdictWord::Void).collect()
                }
                _ => {
                    document.answer.largest_met = Some(at(16));
                    all.into_iter().take(4).collect()
                }
            };
            texts.push_str(&render(&document, PLAIN));
            texts.push_str("\n----\n\n");
        }
        insta::assert_snapshot!(texts);
    }
}
