//! When a trial is no measurement.

use crate::loadgen::health::ClientHealth;
use crate::slo::{Metric, Slo};
use crate::verdict::VoidReason;
use crate::verdict::checks::{Checks, share};

/// Share of the requests lost on the way from which a trial says nothing of the server.
const LOST_SHARE: f64 = 0.1;
/// Share of the requests that the server fails from which it is broken rather than loaded.
const FAILED_SHARE: f64 = 0.5;
/// Bounds of the share of buffered streams from which TTFT and ITL are not measurable; between them
/// it is the share of misses that the tightest objective allows, which such streams could use up.
const BUFFERED_SHARE: (f64, f64) = (0.02, 0.1);
/// Fewest buffered streams that are no accident.
const LEAST_BUFFERED: u32 = 3;
/// Achieved output length, as a share of the one asked for, outside which the load was not the one
/// that was asked for.
const LENGTH_SHARE: (f64, f64) = (0.5, 1.5);
/// Share of the tightest limit from which the client's own lag decides the verdict.
const LAG_SHARE: f64 = 0.25;
/// Share of the time that the busiest thread of the client may run or wait for a CPU.
const PRESSURE: f64 = 0.95;
/// Fewest probes of the lag that tell its tail.
const LEAST_PROBES: usize = 20;

/// Why a trial is no valid measurement, if it is not: by what its requests showed, and how fit the
/// client was meanwhile (where there is a client: virtual time has none).
pub fn void_reason(slo: &Slo, checks: &Checks, client: Option<&ClientHealth>) -> Option<VoidReason> {
    infrastructure(checks)
        .or_else(|| client.and_then(|client| client_bound(slo, checks, client)))
        .or_else(|| buffered(slo, checks))
        .or_else(|| output_length(checks))
}

/// Plainly more than the share allowed: by two standard errors, so that a few losses among few
/// requests are taken for what they may be, chance.
fn plainly_above(count: u32, of: u32, allowed: f64) -> bool {
    let n = f64::from(of);
    f64::from(count) > allowed * n + 2.0 * (allowed * (1.0 - allowed) * n).sqrt()
}

fn infrastructure(checks: &Checks) -> Option<VoidReason> {
    let lost = plainly_above(checks.lost, checks.requests, LOST_SHARE);
    let failed = plainly_above(checks.server_failed, checks.requests, FAILED_SHARE);
    (lost || failed).then(|| VoidReason::Infrastructure {
        share: share(checks.lost + checks.server_failed, checks.requests),
        detail: checks.detail.clone().unwrap_or_default(),
    })
}

fn client_bound(slo: &Slo, checks: &Checks, client: &ClientHealth) -> Option<VoidReason> {
    // A starved client brings few probes; its wait for a CPU then tells what they cannot.
    let told = client.lag_samples >= LEAST_PROBES;
    let lag = if told { client.delay() } else { client.read_delay };
    let limit = tightest_limit(slo, checks.output_got);
    let late = limit.is_some_and(|limit| lag > LAG_SHARE * limit);
    (late || client.pressure() >= PRESSURE).then(|| VoidReason::Client {
        lag,
        limit,
        pressure: client.pressure(),
        waiting: client.waiting,
    })
}

/// The shortest time that an objective leaves for one event to be seen late, seconds. A figure that
/// is an average over the tokens of a request (`osl` of them) has as many times more room.
pub(super) fn tightest_limit(slo: &Slo, osl: f64) -> Option<f64> {
    let after_first = (osl - 1.0).max(1.0);
    let room = |metric: Metric, threshold: f64| match metric {
        Metric::Ttft | Metric::Ttst | Metric::Itl | Metric::Stall | Metric::E2e => Some(threshold),
        Metric::Tpot => Some(threshold * after_first),
        Metric::OutputTokensPerSecondPerUser => Some(after_first / threshold.max(1e-9)),
        Metric::Goodput | Metric::Attainment | Metric::Errors => None,
    };
    let objectives = slo.objectives.iter().filter_map(|o| room(o.metric, o.threshold));
    let limits = slo.limits.iter().filter_map(|limit| room(limit.metric, limit.threshold));
    objectives.chain(limits).reduce(f64::min)
}

fn buffered(slo: &Slo, checks: &Checks) -> Option<VoidReason> {
    if !slo.needs_streaming() || checks.buffered < LEAST_BUFFERED {
        return None;
    }
    let allowed = slo.objectives.iter().filter_map(crate::slo::Objective::allowed_misses);
    let allowed = allowed.fold(BUFFERED_SHARE.1, f64::min).max(BUFFERED_SHARE.0);
    let seen = checks.buffered_share();
    (seen > allowed).then_some(VoidReason::BufferedStream { share: seen })
}

fn output_length(checks: &Checks) -> Option<VoidReason> {
    let (asked, got) = (checks.output_asked, checks.output_got);
    let fits = got >= LENGTH_SHARE.0 * asked && got <= LENGTH_SHARE.1 * asked;
    (checks.completed > 0 && !fits).then(|| VoidReason::OutputLength {
        asked,
        got,
        stopped: checks.stopped_share(),
    })
}
