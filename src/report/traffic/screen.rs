//! The terminal's screen of a workload.

use std::fmt::Write;

use super::{ConversationFigures, LengthFigures, TrafficDocument};
use crate::report::terminal::Style;
use crate::units::Seconds;

/// Characters of a prompt that are shown.
const SHOWN: usize = 400;

/// The screen.
pub fn screen(document: &TrafficDocument, style: Style) -> String {
    let mut text = format!("workload   {}\n", document.workload);
    // Writing to a String cannot fail.
    let _ = body(&mut text, document, style.width.clamp(60, 110));
    text
}

fn body(text: &mut String, document: &TrafficDocument, width: usize) -> std::fmt::Result {
    if let Some(dataset) = &document.dataset {
        let format = serde_json::to_value(dataset.format).unwrap_or_default();
        let format = format.as_str().unwrap_or_default().to_owned();
        let of = dataset.entries;
        write!(
            text,
            "file       {format}, {of} usable entries, {} of them with an output length",
            dataset.with_osl
        )?;
        if dataset.left_out > 0 {
            write!(text, "; {} without a question or tokens are left out", dataset.left_out)?;
        }
        text.push('\n');
        if dataset.malformed > 0 {
            writeln!(text, "malformed  {} entries are left out:", dataset.malformed)?;
            for (line, why) in &dataset.malformed_shown {
                writeln!(text, "             line {line}: {why}")?;
            }
        }
        if dataset.lengths_estimated {
            writeln!(
                text,
                "           lengths are words of the texts; give --tokenizer FILE to count tokens"
            )?;
        }
    }
    if let Some(arrivals) = &document.arrivals {
        write!(text, "arrivals   {:.4} requests/s over {:.0} s", arrivals.mean_rate, arrivals.seconds)?;
        if let Some(rate) = arrivals.busiest_minute_rate {
            write!(text, ", {rate:.4} in the busiest minute")?;
        }
        writeln!(text, "; gaps vary by {:.2} (1 is Poisson)", arrivals.gap_cv)?;
    }
    let share = 100.0 * document.shared_prefix_share;
    let how = match &document.dataset {
        Some(_) if share > 0.0 => " (blocks that came before, by a cache that forgets nothing)",
        _ => "",
    };
    writeln!(text, "prefixes   {share:.0}% of prompt tokens are shared with other prompts{how}")?;
    if let Some(think) = &document.think {
        writeln!(text, "pauses     {} after each answer, {} on average", think.written, Seconds(think.mean))?;
    }
    if let Some(talks) = &document.conversations {
        let each = &talks.turns_each;
        writeln!(
            text,
            "turns      {:.1} a conversation on average ({} to {}); {:.0}% of prompt tokens were said before",
            each.mean,
            each.min,
            each.max,
            100.0 * talks.history_share
        )?;
        if let (Some(most), n) = (talks.max_context, talks.cut_by_context)
            && n > 0
        {
            writeln!(text, "context    {n} conversations end early, before they exceed {most} tokens")?;
        }
    }
    write!(text, "requests   {} looked at", document.requests)?;
    if let Some(correlation) = document.correlation {
        write!(text, "; ISL and OSL correlate by {correlation:.2}")?;
    }
    text.push_str("\n\n");
    writeln!(
        text,
        "tokens {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "mean", "min", "p50", "p90", "p95", "p99", "max"
    )?;
    for (name, figures) in [("ISL", &document.isl), ("OSL", &document.osl)] {
        let LengthFigures { mean, min, p50, p90, p95, p99, max, .. } = figures;
        writeln!(
            text,
            "{name:<6} {mean:>9.1} {min:>7} {p50:>7.0} {p90:>7.0} {p95:>7.0} {p99:>7.0} {max:>7}"
        )?;
    }
    if let Some(talks) = &document.conversations {
        growth(text, talks, width)?;
    }
    for (name, figures) in [("ISL", &document.isl), ("OSL", &document.osl)] {
        histogram(text, name, figures, width)?;
    }
    for sample in &document.samples {
        writeln!(text, "\nrequest {}: {} tokens in, {} out", sample.id, sample.isl, sample.osl)?;
        let shown: String = sample.prompt.chars().take(SHOWN).collect();
        let rest = if shown.len() < sample.prompt.len() { " ..." } else { "" };
        writeln!(text, "  {}{rest}", shown.replace('\n', "\n  "))?;
    }
    Ok(())
}

/// Prompts turn by turn: a bar each, what was said before drawn lighter.
fn growth(text: &mut String, talks: &ConversationFigures, width: usize) -> std::fmt::Result {
    writeln!(text, "\nprompt by turn, tokens (░ said before, █ new)")?;
    let most = talks.by_turn.iter().map(|turn| turn.isl).fold(1.0, f64::max);
    for turn in &talks.by_turn {
        let room = (width - 34) as f64;
        let bar = (turn.isl / most * room).round() as usize;
        let before = (turn.isl / most * room * turn.history_share).round() as usize;
        let drawn = "░".repeat(before) + &"█".repeat(bar.saturating_sub(before));
        let line =
            format!("{:>7} {:>9.1} {:>12}  {drawn}", turn.turn, turn.isl, format!("{} sent", turn.count));
        writeln!(text, "{}", line.trim_end())?;
    }
    Ok(())
}

fn histogram(text: &mut String, name: &str, figures: &LengthFigures, width: usize) -> std::fmt::Result {
    let total: u64 = figures.histogram.iter().map(|bin| bin.count).sum();
    let most = figures.histogram.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    writeln!(text, "\n{name}, tokens")?;
    for bin in &figures.histogram {
        let room = width - 28;
        let bar = (bin.count as f64 / most as f64 * room as f64).round() as usize;
        let bar = if bin.count > 0 { bar.max(1) } else { 0 };
        let share = 100.0 * bin.count as f64 / total.max(1) as f64;
        let line = format!("{:>7} ..{:>7} {share:>5.1}%  {}", bin.from, bin.to, "█".repeat(bar));
        writeln!(text, "{}", line.trim_end())?;
    }
    Ok(())
}
