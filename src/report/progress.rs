//! What the operator sees while a run goes on: a live line on a terminal, plain lines elsewhere.
//!
//! Everything goes to standard error; standard output is for the answer.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::terminal::Style;
use super::terminal::style::Ink;
use super::words;
use crate::plan::Plan;
use crate::run::{Observer, Progress, Silent};
use crate::search::{Answer, TrialOutcome, TrialSpec};
use crate::slo::Slo;
use crate::units::Seconds;
use crate::verdict::Verdict;

/// How much is said while a run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Nothing (`--quiet`).
    Quiet,
    /// What is being done and what came of it.
    #[default]
    Normal,
}

/// The observer that suits standard error: a live line on a terminal, plain lines elsewhere.
pub fn for_stderr(level: Level) -> Box<dyn Observer> {
    match level {
        Level::Quiet => Box::new(Silent),
        Level::Normal if std::io::stderr().is_terminal() => Box::new(Live::new()),
        Level::Normal => Box::new(Lines::new(std::io::stderr())),
    }
}

/// Seconds between two signs of life of a long trial, where lines are written.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What both forms keep in mind.
#[derive(Debug)]
struct State {
    slo: Slo,
    budget: Option<f64>,
    /// Whether users pause or hold conversations, and whether they hold some.
    users: (bool, bool),
    /// When the run began.
    began: Instant,
    /// When the current trial began.
    trial_began: Instant,
    spec: Option<TrialSpec>,
    remaining: u32,
    /// Trials that have ended, and the time that they took by this process' clock.
    done: u32,
    spent: Duration,
}

impl State {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            slo: Slo { objectives: Vec::new(), limits: Vec::new() },
            budget: None,
            users: (false, false),
            began: now,
            trial_began: now,
            spec: None,
            remaining: 0,
            done: 0,
            spent: Duration::ZERO,
        }
    }

    fn run_started(&mut self, plan: &Plan) {
        self.slo = plan.slo.clone();
        self.budget = plan.budget.seconds;
        self.users = (plan.workload.has_users(), plan.workload.sessions.is_some());
        self.began = Instant::now();
    }

    fn trial_started(&mut self, spec: &TrialSpec, remaining: u32) {
        self.spec = Some(spec.clone());
        self.remaining = remaining;
        self.trial_began = Instant::now();
    }

    fn trial_ended(&mut self) {
        self.done += 1;
        self.spent += self.trial_began.elapsed();
        self.spec = None;
    }

    /// How the current trial stands, its load called what it is.
    fn standing(&self, spec: &TrialSpec, progress: &Progress, style: Style) -> String {
        let text = standing(&self.slo, spec, progress, style);
        text.replacen(&spec.load.to_string(), &words::load_of(self.users.0, self.users.1, spec.load), 1)
    }

    /// Seconds that the run is expected to go on, once there is a trial to tell from.
    fn left(&self) -> Option<f64> {
        let (elapsed, current) =
            (self.began.elapsed().as_secs_f64(), self.trial_began.elapsed().as_secs_f64());
        expected(
            self.done,
            self.spent.as_secs_f64(),
            current,
            self.remaining,
            self.budget.map(|all| all - elapsed),
        )
    }
}

/// Seconds that a run is expected to go on: the trials to come and the rest of the current one, at
/// the mean length of those done; not beyond what the budget leaves.
fn expected(done: u32, spent: f64, current: f64, remaining: u32, budget_left: Option<f64>) -> Option<f64> {
    if done == 0 {
        return None;
    }
    let mean = spent / f64::from(done);
    let left = mean * f64::from(remaining) + (mean - current).max(0.0);
    Some(budget_left.map_or(left, |budget| left.min(budget.max(0.0))))
}

/// The objectives' current figures against their limits.
fn figures(slo: &Slo, figures: &[Option<f64>], style: Style) -> String {
    let told = slo.objectives.iter().zip(figures).filter_map(|(objective, figure)| {
        let figure = (*figure)?;
        let ink = if objective.op.holds(figure, objective.threshold) { Ink::Good } else { Ink::Bad };
        let value = style.paint(ink, &words::figure(objective, figure));
        Some(format!("{} {value} ({})", words::name(objective), words::limit(objective)))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// How the current trial stands.
fn standing(slo: &Slo, spec: &TrialSpec, progress: &Progress, style: Style) -> String {
    let mut text = format!("{} {}", spec.load, words::kind(spec.kind));
    if progress.samples == 0 {
        text.push_str(", settling");
    } else {
        text.push_str(&format!(
            ", {}/{} requests",
            words::count(progress.samples.into()),
            words::count(progress.wanted.into())
        ));
    }
    text.push_str(&format!(", {}", Seconds(progress.elapsed)));
    let figures = figures(slo, &progress.figures, style);
    if !figures.is_empty() {
        text.push_str(&format!(": {figures}"));
    }
    text
}

/// What came of a trial.
pub fn ended(slo: &Slo, outcome: &TrialOutcome, style: Style) -> String {
    let ink = match outcome.verdict {
        Verdict::Met => Ink::Good,
        Verdict::Missed => Ink::Bad,
        Verdict::Undecided => Ink::Faint,
        Verdict::Void(_) => Ink::Warn,
    };
    // Padded before it is painted: the colour's own characters have no width.
    let verdict = style.paint(ink, &format!("{:<9}", outcome.verdict.to_string()));
    let mut text = format!(
        "trial {:>2}  {:>5}  {:<8}  {verdict}",
        outcome.id,
        words::level(outcome.spec.load.value()),
        words::kind(outcome.spec.kind),
    );
    if let Verdict::Void(reason) = &outcome.verdict {
        text.push_str(&format!("  {reason}"));
        return text;
    }
    for (objective, reading) in slo.objectives.iter().zip(&outcome.readings) {
        if let Some(figure) = reading.figure {
            text.push_str(&format!("  {} {}", words::name(objective), words::figure(objective, figure)));
        }
    }
    text.push_str(&format!("  ({})", Seconds(outcome.ended - outcome.began)));
    text
}

/// A run's first line.
fn begun(plan: &Plan, description: &str) -> String {
    let slo: Vec<String> = plan
        .slo
        .objectives
        .iter()
        .map(|objective| format!("{} {}", words::name(objective), words::limit(objective)))
        .collect();
    let slo = if slo.is_empty() { String::new() } else { format!(" under {}", slo.join(", ")) };
    format!("measuring {description}{slo}")
}

/// A live line at the bottom of a terminal, above it a line for each trial that has ended.
pub struct Live {
    state: State,
    style: Style,
    bar: ProgressBar,
}

impl Live {
    /// A live line on standard error.
    pub fn new() -> Self {
        Self::on(ProgressBar::new_spinner(), Style::of_stderr())
    }

    fn on(bar: ProgressBar, style: Style) -> Self {
        if let Ok(template) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(template);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { state: State::new(), style, bar }
    }

    fn show(&self, text: &str) {
        let trial = format!("trial {}", self.state.done + 1);
        let left = match self.state.left() {
            Some(left) => format!("about {} left, ", Seconds(left.round())),
            None => String::new(),
        };
        self.bar.set_message(format!("{left}{trial}: {text}"));
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Live {
    fn run_started(&mut self, plan: &Plan, description: &str) {
        self.state.run_started(plan);
        self.bar.println(begun(plan, description));
    }

    fn trial_started(&mut self, spec: &TrialSpec, expected_remaining: u32) {
        self.state.trial_started(spec, expected_remaining);
        self.show(&self.state.standing(spec, &Progress::default(), self.style));
    }

    fn trial_progress(&mut self, progress: &Progress) {
        if let Some(spec) = &self.state.spec {
            self.show(&self.state.standing(spec, progress, self.style));
        }
    }

    fn trial_ended(&mut self, outcome: &TrialOutcome) {
        self.state.trial_ended();
        self.bar.println(ended(&self.state.slo, outcome, self.style));
    }

    fn warning(&mut self, text: &str) {
        self.bar.println(format!("{} {text}", self.style.paint(Ink::Warn, "warning:")));
    }

    fn finished(&mut self, _answer: &Answer) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Live {
    /// A run that fails leaves no half line behind.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Plain lines: one when the run begins, one a trial, and signs of life within long ones.
pub struct Lines<W: Write> {
    state: State,
    out: W,
    said: Instant,
}

impl<W: Write> Lines<W> {
    /// Lines written to `out`.
    pub fn new(out: W) -> Self {
        Self { state: State::new(), out, said: Instant::now() }
    }

    fn say(&mut self, line: &str) {
        self.said = Instant::now();
        // Nobody listens to a closed pipe; the run goes on.
        let _ = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
    }
}

impl<W: Write> Observer for Lines<W> {
    fn run_started(&mut self, plan: &Plan, description: &str) {
        self.state.run_started(plan);
        self.say(&begun(plan, description));
    }

    fn trial_started(&mut self, spec: &TrialSpec, expected_remaining: u32) {
        self.state.trial_started(spec, expected_remaining);
    }

    fn trial_progress(&mut self, progress: &Progress) {
        if self.said.elapsed() < HEARTBEAT {
            return;
        }
        if let Some(spec) = &self.state.spec {
            let mut text = self.state.standing(spec, progress, Style::default());
            if let Some(left) = self.state.left() {
                text.push_str(&format!("; about {} left", Seconds(left.round())));
            }
            self.say(&text);
        }
    }

    fn trial_ended(&mut self, outcome: &TrialOutcome) {
        self.state.trial_ended();
        let text = ended(&self.state.slo, outcome, Style::default());
        self.say(&text);
    }

    fn warning(&mut self, text: &str) {
        self.say(&format!("warning: {text}"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use indicatif::ProgressDrawTarget;

    use super::*;
    use crate::run::sample;
    use crate::search::TrialKind;

    fn watch(observer: &mut impl Observer) {
        let plan = sample::plan();
        observer.run_started(&plan, "tiny at http://127.0.0.1:8000");
        for outcome in [
            sample::outcome(1, 8, TrialKind::Navigate),
            sample::outcome(2, 48, TrialKind::Measure),
            sample::void(3, 32),
        ] {
            observer.trial_started(&outcome.spec, 4);
            let progress =
                Progress { elapsed: 3.2, samples: 20, wanted: 200, figures: vec![Some(0.21), None] };
            observer.trial_progress(&progress);
            observer.trial_ended(&outcome);
        }
        observer.warning("the endpoint is shared");
        observer.finished(&sample::answer());
    }

    #[test]
    fn plain_lines_tell_the_run_trial_by_trial() {
        let mut lines = Lines::new(Vec::new());
        watch(&mut lines);
        insta::assert_snapshot!(String::from_utf8(lines.out).unwrap());
    }

    #[test]
    fn the_live_line_shows_figures_against_their_limits() {
        let slo = sample::slo();
        let spec = sample::outcome(1, 42, TrialKind::Measure).spec;
        let style = Style::default();
        assert_eq!(
            standing(&slo, &spec, &Progress::default(), style),
            "42 concurrent measure, settling, 0 ms"
        );
        let progress =
            Progress { elapsed: 12.0, samples: 120, wanted: 200, figures: vec![Some(0.421), Some(0.06)] };
        assert_eq!(
            standing(&slo, &spec, &progress, style),
            "42 concurrent measure, 120/200 requests, 12.0 s: ttft p95 421 ms (< 500 ms), itl p95 60.0 ms (< 50 ms)"
        );
    }

    #[test]
    fn the_live_line_follows_the_trials() {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let mut live = Live::on(bar.clone(), Style::default());
        let outcome = sample::outcome(1, 42, TrialKind::Measure);
        live.run_started(&sample::plan(), "tiny");
        live.trial_started(&outcome.spec, 3);
        assert_eq!(bar.message(), "trial 1: 42 concurrent measure, settling, 0 ms");
        live.trial_ended(&outcome);
        live.trial_started(&outcome.spec, 2);
        assert!(bar.message().contains("left, trial 2: 42 concurrent"), "{}", bar.message());
        drop(live);
        assert!(bar.is_finished());
    }

    #[test]
    fn the_time_left_comes_from_the_trials_done_and_the_budget() {
        assert_eq!(expected(0, 0.0, 3.0, 5, None), None);
        assert_eq!(expected(4, 40.0, 4.0, 5, None), Some(56.0));
        assert_eq!(expected(4, 40.0, 14.0, 5, None), Some(50.0), "a trial that lasts longer has no rest");
        assert_eq!(expected(4, 40.0, 4.0, 5, Some(20.0)), Some(20.0));
    }
}
