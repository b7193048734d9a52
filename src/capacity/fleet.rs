//! The number of servers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::burst::{Burst, share_above};
use super::policy::Policy;
use super::server::{Capable, End, Server};

/// A fleet that cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum CapacityError {
    /// One server carries nothing under the SLO.
    #[error("the run has no goodput under its SLO: no number of servers would hold it")]
    NoGoodput,
    /// More servers than anybody has.
    #[error("it would take more than {MOST} servers")]
    TooMany,
}

/// Servers at the most.
const MOST: u32 = 10_000_000;

/// The ends of an interval of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// Fewest.
    pub low: u32,
    /// Most.
    pub high: u32,
}

/// How the count comes about; each is the one before with one thing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Steps {
    /// By the estimated goodput.
    pub goodput: u32,
    /// By the lower end of its interval.
    pub lower_end: u32,
    /// With headroom.
    pub headroom: u32,
    /// With room for the bursts of arrivals.
    pub burst: u32,
    /// With spare servers: the count.
    pub redundancy: u32,
}

/// What a sizing by throughput would buy, under the same policy but for bursts, which it knows
/// nothing of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByThroughput {
    /// For the demand itself.
    pub servers: u32,
    /// With headroom.
    pub headroom: u32,
    /// With spare servers.
    pub redundancy: u32,
}

/// A fleet for one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Requests a second to be carried.
    pub rate: f64,
    /// Servers, from the lower end of the interval.
    pub servers: u32,
    /// Interval of the count, of the run's confidence: `servers` is its upper end.
    pub interval: Range,
    /// How it comes about.
    pub steps: Steps,
    /// What throughput would have said.
    pub by_throughput: ByThroughput,
    /// Servers if each had its own stream of arrivals, as random routing gives it: what pooling
    /// behind a balancer that knows the load saves. Null without bursts, or where no concurrency was
    /// measured.
    pub unpooled: Option<u32>,
    /// Share of the fleet's goodput (lower end) that the demand takes.
    pub utilisation: f64,
    /// Requests in flight a server at this rate with all servers up; null where the load was not a
    /// concurrency.
    pub in_flight: Option<f64>,
    /// Requests in flight a server that an autoscaler should hold: the mean at this rate, so that it
    /// runs just this fleet, and never more than the safe load less the headroom. Null as above.
    pub target_concurrency: Option<u32>,
}

/// The fleet that carries `rate` requests a second.
///
/// # Errors
/// When the server has no goodput, or the count has no bounds.
pub fn fleet(server: &Server, rate: f64, policy: &Policy) -> Result<Fleet, CapacityError> {
    let low = server.at(End::Low);
    let peak = rate * (1.0 + policy.headroom);
    let needed = |end: End| Ok(needed(&server.at(end), peak, policy)? + policy.redundancy);
    let steps_headroom = at_least(peak, low.rate)?;
    let burst = self::needed(&low, peak, policy)?;
    let servers = burst + policy.redundancy;
    let top = server.top_rate();
    let by_headroom = at_least(peak, top)?;
    let all = f64::from(servers);
    let flight = |servers: u32| {
        let (most, curve) = low.flight.as_ref()?;
        let scale = low.rate / curve.value(*most);
        curve.first_reaching(rate / f64::from(servers) / scale).map(|n| n.min(*most))
    };
    let roomless = |most: f64| (most / (1.0 + policy.headroom)).floor().max(1.0) as u32;
    let target = low.flight.as_ref().map(|(most, _)| roomless(*most));
    let at_demand = flight(servers).map(|n| (n.floor() as u32).max(1));
    Ok(Fleet {
        rate,
        servers,
        interval: Range { low: needed(End::High)?.min(servers), high: servers },
        steps: Steps {
            goodput: at_least(rate, server.goodput.estimate)?,
            lower_end: at_least(rate, low.rate)?,
            headroom: steps_headroom,
            burst,
            redundancy: servers,
        },
        by_throughput: ByThroughput {
            servers: at_least(rate, top)?,
            headroom: by_headroom,
            redundancy: by_headroom + policy.redundancy,
        },
        unpooled: unpooled(&low, peak, policy)?.map(|count| count.max(burst) + policy.redundancy),
        utilisation: rate / (all * low.rate),
        in_flight: flight(servers),
        target_concurrency: target.map(|target| at_demand.map_or(target, |n| n.min(target))),
    })
}

/// Servers that carry `rate` with `each`, at least one.
fn at_least(rate: f64, each: f64) -> Result<u32, CapacityError> {
    if each <= 0.0 || !each.is_finite() {
        return Err(CapacityError::NoGoodput);
    }
    // A demand that is a whole multiple of what a server carries must not cost one more for the
    // rounding of a product.
    let count = (rate / each * (1.0 - 1e-12)).ceil().max(1.0);
    if count > f64::from(MOST) { Err(CapacityError::TooMany) } else { Ok(count as u32) }
}

/// Servers that carry `rate` and its bursts.
fn needed(server: &Capable, rate: f64, policy: &Policy) -> Result<u32, CapacityError> {
    let least = at_least(rate, server.rate)?;
    match &server.flight {
        Some((most, curve)) if policy.burst != Burst::None => smallest(least, |servers| {
            share_above(servers, rate, *most, server.rate, curve, policy.burst) <= 1.0 - policy.within
        }),
        _ => Ok(least),
    }
}

/// The same where each server has its own arrivals.
fn unpooled(server: &Capable, rate: f64, policy: &Policy) -> Result<Option<u32>, CapacityError> {
    let least = at_least(rate, server.rate)?;
    match &server.flight {
        Some((most, curve)) if policy.burst != Burst::None => smallest(least, |servers| {
            let own = rate / f64::from(servers);
            share_above(1, own, *most, server.rate, curve, policy.burst) <= 1.0 - policy.within
        })
        .map(Some),
        _ => Ok(None),
    }
}

/// The smallest count from `least` on that is enough, given that more are then enough too.
fn smallest(least: u32, enough: impl Fn(u32) -> bool) -> Result<u32, CapacityError> {
    let (mut low, mut high) = (least, least);
    while !enough(high) {
        if high >= MOST {
            return Err(CapacityError::TooMany);
        }
        low = high + 1;
        // In small steps at first: the answer is mostly near.
        high = (high + (high - least).max(1) + high / 64).min(MOST);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    Ok(high)
}
