//! What a run says of one server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curve::Curve;
use crate::slo::Objective;
use crate::stats::isotonic::Point;
use crate::stats::special::normal_quantile;
use crate::units::Interval;

/// An estimate between its ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Lower end.
    pub low: f64,
    /// The estimate.
    pub estimate: f64,
    /// Upper end.
    pub high: f64,
}

/// Figures of one objective against load.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectiveCurve {
    /// The objective.
    pub objective: Objective,
    /// Its figure by load, weighted by requests.
    pub points: Vec<Point>,
}

/// One server, as measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Requests in flight at which the SLO just holds; `None` where the load was not a concurrency.
    pub concurrency: Option<Level>,
    /// Requests a second within the SLO there.
    pub goodput: Level,
    /// Most requests a second at any load, whatever their latency.
    pub throughput: f64,
    /// Confidence of the ends, 0..1.
    pub confidence: f64,
    /// Mean end-to-end latency at the answer, seconds.
    pub e2e: Option<f64>,
    /// Mean prompt length, tokens.
    pub isl: Option<f64>,
    /// Mean output length, tokens.
    pub osl: Option<f64>,
    /// Requests a second by load, weighted by requests.
    pub rates: Vec<Point>,
    /// The objectives by load.
    pub objectives: Vec<ObjectiveCurve>,
}

/// Which end of the intervals a count is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Low,
    High,
}

/// A server at one end of its intervals.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Capable {
    /// Requests a second within the SLO.
    pub rate: f64,
    /// Requests in flight up to which it holds, and requests a second by requests in flight up to
    /// there.
    pub flight: Option<(f64, Curve)>,
}

impl Level {
    /// An estimate without doubt.
    pub fn exact(estimate: f64) -> Self {
        Self { low: estimate, estimate, high: estimate }
    }

    /// An estimate with its interval; an end that is missing, or on the wrong side, is the estimate.
    pub fn new(estimate: f64, interval: Option<Interval>) -> Self {
        let low = interval.map_or(estimate, |interval| interval.low.min(estimate));
        let high = interval.and_then(|interval| interval.high).map_or(estimate, |high| high.max(estimate));
        Self { low, estimate, high }
    }

    /// The level at another confidence, as if the logarithm of the estimate were normal.
    fn at_confidence(self, from: f64, to: f64) -> Self {
        let wider = normal_quantile(0.5 + to / 2.0) / normal_quantile(0.5 + from / 2.0);
        if self.estimate <= 0.0 || !wider.is_finite() {
            return self;
        }
        let scaled = |end: f64| self.estimate * (end.max(1e-3 * self.estimate) / self.estimate).powf(wider);
        Self { low: scaled(self.low), estimate: self.estimate, high: scaled(self.high) }
    }

    fn at(self, end: End) -> f64 {
        match end {
            End::Low => self.low,
            End::High => self.high,
        }
    }

    fn times(self, factor: f64) -> Self {
        Self { low: self.low * factor, estimate: self.estimate * factor, high: self.high * factor }
    }
}

impl Server {
    /// A server of which only its rates are known: goodput and the highest throughput.
    pub fn of_rates(goodput: Level, throughput: f64) -> Self {
        Self {
            concurrency: None,
            goodput,
            throughput,
            confidence: 0.95,
            e2e: None,
            isl: None,
            osl: None,
            rates: Vec::new(),
            objectives: Vec::new(),
        }
    }

    /// The same server with intervals of another confidence, as if the logarithms of the estimates
    /// were normal.
    pub fn at_confidence(&self, confidence: f64) -> Self {
        let scaled = |level: Level| level.at_confidence(self.confidence, confidence);
        Self {
            concurrency: self.concurrency.map(scaled),
            goodput: scaled(self.goodput),
            confidence,
            ..self.clone()
        }
    }

    /// The highest throughput; no less than the goodput, which is a part of it.
    pub fn top_rate(&self) -> f64 {
        self.throughput.max(self.goodput.estimate)
    }

    /// Requests a second by requests in flight, from the origin; straight through the answer where
    /// no load was measured.
    pub(super) fn rate_curve(&self) -> Option<Curve> {
        let concurrency = self.concurrency?.estimate;
        let fit = Curve::fit(&self.rates).from_origin();
        if !fit.is_empty() && fit.value(concurrency) > 0.0 {
            return Some(fit);
        }
        Some(Curve::fit(&[Point { x: concurrency, y: self.goodput.estimate, weight: 1.0 }]).from_origin())
    }

    /// The same server if it kept its SLO up to `factor` times as many requests in flight; what it
    /// serves there is read off the measured curve.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        let Some((level, curve)) = self.concurrency.zip(self.rate_curve()) else { return self.clone() };
        let gain = curve.value(level.estimate * factor) / curve.value(level.estimate);
        Self { concurrency: Some(level.times(factor)), goodput: self.goodput.times(gain), ..self.clone() }
    }

    /// The server at one end of its intervals. The load's end counts too: at fewer requests in
    /// flight a server also serves fewer a second.
    pub(super) fn at(&self, end: End) -> Capable {
        let rate = self.goodput.at(end);
        let Some((level, curve)) = self.concurrency.zip(self.rate_curve()) else {
            return Capable { rate, flight: None };
        };
        let there = level.at(end);
        let by_curve = self.goodput.estimate * curve.value(there) / curve.value(level.estimate);
        let rate = match end {
            End::Low => rate.min(by_curve),
            End::High => rate.max(by_curve),
        };
        Capable { rate, flight: Some((there, curve)) }
    }
}
