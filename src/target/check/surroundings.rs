//! What lies around the requests: the way to the server, its clock and model, and this machine.

use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::loadgen::calibration::calibrate;
use crate::loadgen::limits::possible_files;
use crate::loadgen::ports::possible_connections;
use crate::loadgen::{Address, ClientOptions};
use crate::target::check::{CheckReport, Figures, Line};
use crate::target::engine;
use crate::target::web::Web;
use crate::units::Seconds;

/// Times that a connection is opened for the round trip; the quickest counts.
const TRIPS: u32 = 5;
/// Difference of the clocks that is worth a word, seconds. The server tells whole seconds.
const CLOCK: f64 = 2.0;
/// TTFT that a client may add.
const ADDED: f64 = 0.005;

/// The quickest of a few connections: one round trip, seconds.
pub(super) async fn round_trip(url: &str) -> Option<f64> {
    let address = Address::parse(url).ok()?;
    let mut best: Option<f64> = None;
    for _ in 0..TRIPS {
        let began = Instant::now();
        let opened =
            timeout(Duration::from_secs(1), TcpStream::connect((address.host.as_str(), address.port)));
        opened.await.ok()?.ok()?;
        let took = began.elapsed().as_secs_f64();
        best = Some(best.map_or(took, |best| best.min(took)));
    }
    best
}

/// The server is there.
pub(super) fn reached(root: &str, round_trip: Option<f64>) -> Line {
    match round_trip {
        Some(trip) if trip > 0.02 => Line::warn(
            "reachable",
            format!("{root}, a round trip takes {}", Seconds(trip)),
            "every latency holds the way there; measure from nearby to know the server alone",
        ),
        Some(trip) => Line::ok("reachable", format!("{root}, a round trip takes {}", Seconds(trip))),
        None => Line::ok("reachable", root.to_owned()),
    }
}

/// Whether the server's clock agrees with this one.
pub(super) async fn clock(web: &Web, figures: &mut Figures) -> Line {
    let Some((date, now)) = web.date().await else {
        return Line::ok("clock", "the server does not tell its time (no `Date` header)");
    };
    let Ok(date) = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&date) else {
        return Line::warn("clock", format!("the server's time cannot be read: `{date}`"), "none is needed");
    };
    // The middle of the second that the server names.
    let offset = seconds(date) + 0.5 - seconds(now);
    figures.clock_offset = Some(offset);
    if offset.abs() > CLOCK {
        Line::warn(
            "clock",
            format!(
                "the server's clock is {} {} this one",
                Seconds(offset.abs()),
                if offset > 0.0 { "ahead of" } else { "behind" }
            ),
            "latencies are unharmed; compare the server's logs with that in mind, or keep both by NTP",
        )
    } else {
        Line::ok("clock", "the server's clock agrees with this one, to about a second")
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 * 1e-3
}

/// What would be measured.
pub(super) fn model(
    options: &ClientOptions,
    version: Option<&str>,
    context: Option<u32>,
    (isl, osl): (u32, u32),
    notes: &[String],
) -> Line {
    let mut seen = format!("`{}` on {}", options.model, engine::name(options.engine));
    if let Some(version) = version {
        seen += &format!(" {version}");
    }
    if let Some(context) = context {
        seen += &format!(", context {context} tokens");
    }
    for note in notes {
        seen += &format!("; {note}");
    }
    match context {
        Some(context) if isl.saturating_add(osl) > context => Line::fail(
            "model",
            format!("{seen}: the longest request, {isl} tokens in and {osl} out, does not fit"),
            "use a smaller `--isl` or `--osl`, or start the server with a longer context",
        ),
        _ => Line::ok("model", seen),
    }
}

/// What this machine can do for `most` requests at once.
pub(super) async fn machine(report: &mut CheckReport, most: u32) {
    let files = possible_files();
    let possible = [files, possible_connections()].into_iter().flatten().min();
    report.figures.connections = possible;
    let line = match possible {
        Some(possible) if possible < most => Line::fail(
            "connections",
            format!("{possible} connections are possible, {most} may be needed"),
            format!(
                "raise the limit with `ulimit -n {}`, widen `net.ipv4.ip_local_port_range`, or search up to \
                 `--concurrency 1..{possible}`",
                u64::from(most) + 128
            ),
        ),
        Some(possible) => {
            Line::ok("connections", format!("{possible} are possible, up to {most} are asked for"))
        }
        None => Line::ok("connections", "this system sets no limit"),
    };
    report.push(line);
    let line = match calibrate().await {
        Ok(client) => {
            report.figures.client = Some(client);
            let seen = format!(
                "this client can hold {} streams at {:.0} tok/s, with {} of added TTFT at p95",
                client.holds,
                client.tokens_per_second,
                Seconds(client.added_ttft_p95)
            );
            let mend = "run it where a core is free; a trial that this client limits is void";
            if client.holds < most || client.added_ttft_p95 > ADDED {
                Line::warn("client", seen, mend)
            } else {
                Line::ok("client", seen)
            }
        }
        Err(error) => {
            Line::warn("client", format!("not calibrated: {error}"), "a trial that it limits is void")
        }
    };
    report.push(line);
}
