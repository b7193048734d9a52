//! The plan on one screen.

use super::{Asked, FleetDocument, FleetEnergy, PowerSource, RankedBy, RunFleet};
use crate::capacity::{Burst, Demand, Level, Relaxed, SeriesPlan};
use crate::report::terminal::Style;
use crate::report::terminal::style::{Ink, labelled, wrap};
use crate::report::words;
use crate::units::{Seconds, significant};

/// Columns that the labels take.
const INDENT: usize = 15;

/// The plan as text.
pub fn screen(document: &FleetDocument, style: Style) -> String {
    let mut out = String::new();
    let Some(best) = document.fleets.first() else { return out };
    headline(&mut out, document, best, style);
    steps(&mut out, document, best, style);
    if let Some(series) = &best.series {
        chart(&mut out, series, style);
    }
    facts(&mut out, document, best, style);
    relaxed(&mut out, best, style);
    if document.fleets.len() > 1 {
        ranking(&mut out, document, style);
    }
    let texts = document.left_out.iter().map(|text| ("left out", text));
    let texts = texts.chain(document.warnings.iter().map(|text| ("warning", text)));
    for (label, text) in texts {
        labelled(&mut out, style, &format!("  {label}"), Ink::Warn, text, INDENT);
    }
    for note in &best.notes {
        labelled(&mut out, style, "  note", Ink::Faint, note, INDENT);
    }
    out
}

fn servers(count: u32) -> String {
    words::counted(count.into(), "server")
}

fn headline(out: &mut String, document: &FleetDocument, best: &RunFleet, style: Style) {
    let range = best.fleet.interval;
    let confidence = words::significant_share(best.server.confidence);
    let peak = if matches!(document.demand, Asked::Series { .. }) { " at the peak" } else { "" };
    let interval = if range.low == range.high {
        String::new()
    } else {
        format!(" ({confidence} CI {}-{})", range.low, range.high)
    };
    let head = format!(
        "{} for {}{peak} under the SLO{interval}",
        servers(best.fleet.servers),
        per_second(best.fleet.rate)
    );
    for line in wrap(&head, style.width) {
        out.push_str(&style.paint(Ink::Strong, &line));
        out.push('\n');
    }
    out.push('\n');
}

fn steps(out: &mut String, document: &FleetDocument, best: &RunFleet, style: Style) {
    let (fleet, server, policy) = (&best.fleet, &best.server, &document.policy);
    let (steps, other) = (&fleet.steps, &fleet.by_throughput);
    let row = |name: &str, good: u32, through: Option<u32>, why: &str| {
        let through = through.map_or(String::new(), |count| words::count(count.into()));
        format!("  {name:<27}{:>10}  {through:>13}   {why}", words::count(good.into()))
    };
    let low = steps.lower_end;
    let each = |rate: f64| format!("{}/s each", significant(rate));
    let head = format!("  {:<27}{:>10}  {:>13}", "servers", "by goodput", "by throughput");
    let mut lines = vec![style.paint(Ink::Strong, &head)];
    let rates =
        format!("{} and {}/s each", significant(server.goodput.estimate), significant(server.throughput));
    lines.push(row("for the demand itself", steps.goodput, Some(other.servers), &rates));
    let rate = server.goodput.low.min(fleet.rate / (f64::from(fleet.servers) * fleet.utilisation));
    lines.push(row("from the interval's low end", low, None, &each(rate)));
    if policy.headroom > 0.0 {
        let name = format!("headroom {} %", significant_percent(policy.headroom));
        lines.push(row(&name, steps.headroom, Some(other.headroom), ""));
    }
    if fleet.unpooled.is_some() {
        let name = match policy.burst {
            Burst::Gamma { shape } => format!("bursts (gamma, shape {shape})"),
            _ => "bursts (Poisson)".to_owned(),
        };
        let why = format!("fits {} % of the time", significant_percent(policy.within));
        lines.push(row(&name, steps.burst, None, &why));
    }
    if policy.redundancy > 0 {
        lines.push(row(
            &format!("to lose {} of them", policy.redundancy),
            steps.redundancy,
            Some(other.redundancy),
            "",
        ));
    }
    for line in lines {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let missing = fleet.servers - other.redundancy.min(fleet.servers);
    if missing > 0 {
        let share = f64::from(missing) / f64::from(fleet.servers);
        let text = format!(
            "sizing by throughput would buy {} too few ({:.0} % of the fleet): throughput counts requests \
             that came too late",
            servers(missing),
            100.0 * share
        );
        out.push('\n');
        labelled(out, style, "  beware", Ink::Warn, &text, INDENT);
    }
    out.push('\n');
}

fn facts(out: &mut String, document: &FleetDocument, best: &RunFleet, style: Style) {
    let (fleet, server) = (&best.fleet, &best.server);
    let mut fact =
        |label: &str, text: String| labelled(out, style, &format!("  {label}"), Ink::Faint, &text, INDENT);
    match &document.demand {
        Asked::Constant(Demand::Users { users, think }) => {
            let e2e = server.e2e.map_or(String::new(), |e2e| Seconds(e2e).to_string());
            let pause =
                if *think > 0.0 { format!(" and {} of thinking", Seconds(*think)) } else { String::new() };
            fact(
                "demand",
                format!(
                    "{} users, each back after {e2e}{pause}: {}",
                    words::count(*users as u64),
                    per_second(fleet.rate)
                ),
            );
        }
        Asked::Constant(Demand::OutputTokens(tokens)) => {
            let osl = server.osl.unwrap_or_default();
            fact(
                "demand",
                format!(
                    "{} output tokens/s in requests of {osl:.0}: {}",
                    significant(*tokens),
                    per_second(fleet.rate)
                ),
            );
        }
        _ => {}
    }
    let level = |level: Level, end: &dyn Fn(f64) -> String| {
        if level.low == level.high {
            end(level.estimate)
        } else {
            format!("{} ({}-{})", end(level.estimate), end(level.low), end(level.high))
        }
    };
    let concurrency = server.concurrency.map(|c| format!("{} in flight, ", level(c, &|n| format!("{n:.0}"))));
    let goodput = level(server.goodput, &significant);
    fact(
        "one server",
        format!("{}{goodput} good requests/s under {}", concurrency.unwrap_or_default(), best.slo.join(", ")),
    );
    let flight = fleet
        .in_flight
        .map_or(String::new(), |n| format!(", {} requests in flight a server", significant(n)));
    fact("utilisation", format!("{:.0} % of the goodput's low end{flight}", 100.0 * fleet.utilisation));
    if let Some(unpooled) = fleet.unpooled {
        let text = format!(
            "behind a balancer that picks the server with the fewest requests; with random routing it takes {}",
            servers(unpooled)
        );
        fact("pooling", text);
    }
    if let Some(target) = fleet.target_concurrency {
        let (min, max) = best.replicas;
        let range = if min == max { format!("{max}") } else { format!("{min} to {max}") };
        fact("autoscaling", format!("{range} servers, held at {target} requests in flight each"));
    }
    if let Some(gpus) = best.gpus {
        fact("GPUs", words::count(gpus.into()));
    }
    if let Some(cost) = best.cost {
        let mut text = match &best.series {
            Some(series) => format!(
                "{} a day for {} server-hours; {} without autoscaling ({} server-hours)",
                money(cost.per_day),
                words::count(series.server_hours_per_day.round() as u64),
                money(cost.static_per_day),
                words::count(series.static_server_hours_per_day.round() as u64)
            ),
            None => format!("{} an hour, {} a day", money(cost.per_day / 24.0), money(cost.per_day)),
        };
        if let Some(each) = cost.per_million_output_tokens {
            text += &format!("; {} for a million output tokens", money(each));
        }
        fact("cost", text);
    }
    if let Some(energy) = best.energy {
        fact("energy", energy_words(&energy, best.series.is_some()));
    }
}

fn energy_words(energy: &FleetEnergy, follows: bool) -> String {
    let kwh = |amount: f64| format!("{} kWh", trimmed(significant(amount)));
    let per_hour = if follows { String::new() } else { format!("{} an hour, ", kwh(energy.kwh_per_hour)) };
    let mut text = format!("{per_hour}{} a day", kwh(energy.kwh_per_day));
    if let Some(each) = energy.kwh_per_million_output_tokens {
        text += &format!("; {} for a million output tokens", kwh(each));
    }
    let watts = energy.watts_per_server;
    let power =
        if watts < 1000.0 { format!("{watts:.0} W") } else { format!("{} kW", significant(watts / 1000.0)) };
    text + &match energy.source {
        PowerSource::Given => format!(" ({power} a server, as given)"),
        PowerSource::Gpus => format!(" ({power} a server: its GPUs as measured, the rest of it not counted)"),
    }
}

/// What looser objectives save: for each the first factor that saves anything, or that nothing does.
fn relaxed(out: &mut String, best: &RunFleet, style: Style) {
    let mut label = "  looser SLO";
    let mut objectives: Vec<&str> = Vec::new();
    for one in &best.relaxations {
        if !objectives.contains(&one.objective.as_str()) {
            objectives.push(&one.objective);
        }
    }
    for objective in objectives {
        let of: Vec<&Relaxed> = best.relaxations.iter().filter(|one| one.objective == objective).collect();
        let text = match of.iter().filter(|one| one.saves > 0).collect::<Vec<_>>().as_slice() {
            [] => match of.last() {
                Some(last) => {
                    format!("{objective}: nothing is saved up to {}{}", limit(&last.relaxed), because(last))
                }
                None => continue,
            },
            saving => {
                let parts: Vec<String> = saving
                    .iter()
                    .map(|one| {
                        let beyond =
                            if one.beyond_measured { " or more (beyond what was measured)" } else { "" };
                        format!("{} saves {}{beyond}", limit(&one.relaxed), words::count(one.saves.into()))
                    })
                    .collect();
                format!("{objective}: {}", parts.join(", "))
            }
        };
        labelled(out, style, label, Ink::Faint, &text, INDENT);
        label = "";
    }
}

fn because(one: &Relaxed) -> String {
    match &one.binding {
        Some(binding) if *binding != one.objective => format!(" ({binding} binds)"),
        _ if one.beyond_measured => " as far as was measured".to_owned(),
        _ => String::new(),
    }
}

/// Threshold of an objective: `< 700 ms`.
fn limit(objective: &str) -> &str {
    objective.find(['<', '>']).map_or(objective, |at| &objective[at..])
}

/// Servers by hour, in blocks.
fn chart(out: &mut String, series: &SeriesPlan, style: Style) {
    const ROWS: u32 = 6;
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let label = series.max.to_string().len().max(5);
    let room = style.width.saturating_sub(label + 4);
    let column = (room / series.hours.len().max(1)).clamp(1, 3);
    let counts: Vec<u32> = series.hours.iter().map(|hour| hour.fleet.servers).collect();
    // A series of more intervals than columns is drawn by the highest of each group.
    let group = (counts.len() * column).div_ceil(room.max(1)).max(1);
    let bars: Vec<u32> = counts.chunks(group).map(|chunk| chunk.iter().copied().max().unwrap_or(0)).collect();
    for row in (0..ROWS).rev() {
        let name = match row {
            5 => series.max.to_string(),
            0 => "0".to_owned(),
            _ => String::new(),
        };
        let mut line = String::new();
        for &bar in &bars {
            let eighths =
                (f64::from(bar) / f64::from(series.max.max(1)) * f64::from(ROWS * 8)).round() as u32;
            let block = BLOCKS[eighths.saturating_sub(row * 8).min(8) as usize];
            line.extend(std::iter::repeat_n(block, (column - 1).max(1)));
            if column > 1 {
                line.push(' ');
            }
        }
        out.push_str(&format!("  {name:>label$} ┤{}\n", style.paint(Ink::Curve, line.trim_end())));
    }
    let mut axis = String::new();
    let mut free = 0;
    for (index, hour) in series.hours.iter().enumerate().step_by(group) {
        let at = index / group * column;
        if at >= free && (index / group).is_multiple_of(2) {
            while axis.chars().count() < at {
                axis.push(' ');
            }
            axis.push_str(&hour.time);
            free = axis.chars().count() + 1;
        }
    }
    out.push_str(&format!("  {:>label$}  {}\n\n", "", axis));
}

fn ranking(out: &mut String, document: &FleetDocument, style: Style) {
    let by = match document.ranked_by {
        RankedBy::Cost => "cost",
        RankedBy::Servers => "servers (give `--cost` for each run to rank by cost)",
    };
    out.push_str(&format!("\n  ranked by {by}\n"));
    let head = format!("  {:<34}{:>9}{:>9}{:>12}{:>12}", "run", "servers", "CI from", "goodput/s", "a day");
    out.push_str(&style.paint(Ink::Strong, head.trim_end()));
    out.push('\n');
    for fleet in &document.fleets {
        let mut name: String = fleet.run.chars().take(33).collect();
        if fleet.run.chars().count() > 33 {
            name = format!("…{}", fleet.run.chars().skip(fleet.run.chars().count() - 32).collect::<String>());
        }
        let cost = fleet.cost.map_or("-".to_owned(), |cost| money(cost.per_day));
        out.push_str(&format!(
            "  {name:<34}{:>9}{:>9}{:>12}{cost:>12}\n",
            words::count(fleet.fleet.servers.into()),
            words::count(fleet.fleet.interval.low.into()),
            significant(fleet.server.goodput.low),
        ));
    }
    out.push('\n');
}

fn per_second(rate: f64) -> String {
    let rate = if rate >= 1000.0 { words::count(rate.round() as u64) } else { trimmed(significant(rate)) };
    format!("{rate} requests/s")
}

/// Without zeros behind the point.
fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn significant_percent(share: f64) -> String {
    ((share * 1e6).round() / 1e4).to_string()
}

/// An amount with two digits behind the point below 100, none above.
fn money(amount: f64) -> String {
    if amount < 100.0 { format!("{amount:.2}") } else { words::count(amount.round() as u64) }
}
