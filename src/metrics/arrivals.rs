//! What a trial says of an open loop itself: whether the client kept its schedule, and whether the
//! server kept up with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::record::RequestRecord;
use crate::loadgen::session::InFlight;
use crate::stats::growth::Growth;

/// Probability with which one look at a stable server says that its backlog grows.
pub const LOOK_ALPHA: f64 = 0.001;
/// Growth of requests in flight, as a share of those at the window's start, below which they are not
/// called a backlog: a new level may still be filling up.
const IN_FLIGHT_GROWTH: f64 = 0.5;
/// Fewest requests by which a backlog has grown.
const LEAST_GROWTH: f64 = 8.0;

/// The open loop of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivalFigures {
    /// Requests that were due within the measured window.
    pub due: u32,
    /// The same a second.
    pub per_second: f64,
    /// 99th percentile of how late the client sent them, seconds; the wait at the cap is not the
    /// client's.
    pub lateness_p99: f64,
    /// The longest lateness, seconds.
    pub lateness_max: f64,
    /// Share of them that waited at the cap on requests in flight.
    pub held_share: f64,
    /// Requests a second by which the backlog (due, without a first token) grew over the window.
    pub growth: f64,
    /// Whether the trial was ended because the backlog grew: the rate is above what the server can
    /// carry.
    pub unstable: bool,
    /// Whether the trial was ended in the middle of its trace, as so many requests had missed that the rest
    /// could not mend it.
    #[serde(default)]
    pub cut: bool,
}

impl ArrivalFigures {
    /// The figures of the window from `from` to `to`.
    pub fn of(records: &[RequestRecord], pending: &[InFlight], from: f64, to: f64) -> Self {
        let within = |at: f64| at >= from && at < to;
        let due = records.iter().filter(|record| record.scheduled.is_some_and(within));
        let flying = pending.iter().filter(|flight| flight.scheduled.is_some_and(within));
        let (mut lateness, mut held) = (Vec::new(), 0_u32);
        for record in due {
            lateness.extend(record.lateness());
            held += u32::from(record.held.is_some());
        }
        let mut count = lateness.len() as u32;
        for flight in flying {
            count += 1;
            held += u32::from(flight.id == InFlight::WAITS);
        }
        lateness.sort_unstable_by(f64::total_cmp);
        let rank = (lateness.len() * 99).div_ceil(100).saturating_sub(1);
        Self {
            due: count,
            per_second: f64::from(count) / (to - from).max(1e-9),
            lateness_p99: lateness.get(rank).copied().unwrap_or(0.0),
            lateness_max: lateness.last().copied().unwrap_or(0.0),
            held_share: f64::from(held) / f64::from(count.max(1)),
            growth: backlog(records, pending, from, to).per_second,
            unstable: false,
            cut: false,
        }
    }
}

/// Growth of the requests that are due and have no first token.
fn backlog(records: &[RequestRecord], pending: &[InFlight], from: f64, to: f64) -> Growth {
    let came = records.iter().filter_map(|record| record.scheduled);
    let came = came.chain(pending.iter().filter_map(|flight| flight.scheduled));
    let went = records.iter().filter(|record| record.scheduled.is_some());
    let went = went.map(|record| record.first.unwrap_or(record.ended));
    let went = went.chain(pending.iter().filter_map(|flight| flight.first));
    Growth::of(came, went, from, to)
}

/// Growth of the requests that are due and have not ended.
fn in_flight(records: &[RequestRecord], pending: &[InFlight], from: f64, to: f64) -> Growth {
    let came = records.iter().filter_map(|record| record.scheduled);
    let came = came.chain(pending.iter().filter_map(|flight| flight.scheduled));
    let went = records.iter().filter(|record| record.scheduled.is_some()).map(|record| record.ended);
    Growth::of(came, went, from, to)
}

/// Whether the backlog of an open loop grows from `from` to `to`: of requests without a first token, or,
/// by half at least, of requests in flight. A stable server is said to with probability
/// [`LOOK_ALPHA`] at the most.
pub fn is_unstable(records: &[RequestRecord], pending: &[InFlight], from: f64, to: f64) -> bool {
    let waiting = backlog(records, pending, from, to);
    if waiting.items >= LEAST_GROWTH && waiting.is_sure(LOOK_ALPHA / 2.0) {
        return true;
    }
    let flying = in_flight(records, pending, from, to);
    let before = (pending.len() as f64 - flying.items).max(0.0);
    flying.items >= LEAST_GROWTH.max(IN_FLIGHT_GROWTH * before) && flying.is_sure(LOOK_ALPHA / 2.0)
}
