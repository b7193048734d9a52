//! What a fleet draws, where a run has measured power or a server's is given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::document::Document;
use crate::stats::isotonic::{Isotonic, Point};

/// Where the power of a server is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PowerSource {
    /// Given on the command line.
    Given,
    /// The GPUs' own meters during the run's trials; the rest of the server is not in it.
    Gpus,
}

/// What a fleet draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetEnergy {
    /// Power of a server at the planned load, watts.
    pub watts_per_server: f64,
    /// Where it is from.
    pub source: PowerSource,
    /// Energy of an hour, kWh; with a series, its mean over the day.
    pub kwh_per_hour: f64,
    /// Energy of a day, kWh; with a series, of a fleet that follows it.
    pub kwh_per_day: f64,
    /// Energy of a million output tokens at the demand, kWh.
    pub kwh_per_million_output_tokens: Option<f64>,
}

impl FleetEnergy {
    /// The energy of so many server-hours a day; `tokens` are a day's output tokens in millions.
    pub(super) fn new(watts: f64, source: PowerSource, server_hours: f64, tokens: Option<f64>) -> Self {
        let per_day = server_hours * watts / 1000.0;
        Self {
            watts_per_server: watts,
            source,
            kwh_per_hour: per_day / 24.0,
            kwh_per_day: per_day,
            kwh_per_million_output_tokens: tokens.map(|tokens| per_day / tokens),
        }
    }
}

/// Power of a server's GPUs at `load`, watts: read off the trials by isotonic regression over their loads,
/// straight between them; `None` where no trial has measured it.
pub(super) fn measured(document: &Document, load: f64) -> Option<f64> {
    let points: Vec<Point> = document
        .trials
        .iter()
        .filter(|trial| trial.is_valid())
        .filter_map(|trial| {
            let gpu = trial.gpu?;
            let watts = gpu.power.map(|power| power.mean).filter(|&watts| watts > 0.0)?;
            Some(Point { x: trial.load.value(), y: watts, weight: f64::from(gpu.looks.max(1)) })
        })
        .collect();
    let curve = Isotonic::fit(&points);
    let (x, y) = (&curve.x, &curve.y);
    let above = x.partition_point(|&x| x < load);
    match (above.checked_sub(1), y.get(above)) {
        (None, first) => first.copied(),
        (Some(below), None) => y.get(below).copied(),
        (Some(below), Some(&high)) => {
            Some(y[below] + (high - y[below]) * (load - x[below]) / (x[above] - x[below]))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::tests::{day, sample_runs, wanted};
    use super::super::{Run, Wanted, plan, screen};
    use super::*;
    use crate::observed::{GaugeFigures, GpuFigures};
    use crate::report::sample_document;
    use crate::report::terminal::Style;

    /// A run whose GPUs draw 200 W and 10 W for each request in flight.
    fn metered() -> Document {
        let mut document = sample_document();
        for trial in &mut document.trials {
            let mean = 200.0 + 10.0 * trial.load.value();
            trial.gpu = Some(GpuFigures {
                looks: 4,
                power: Some(GaugeFigures { mean, max: mean }),
                ..GpuFigures::default()
            });
        }
        document
    }

    #[test]
    fn measured_power_is_read_between_the_measured_loads() {
        let document = metered();
        for load in [38.0, 41.3, 44.0] {
            assert!((measured(&document, load).unwrap() - (200.0 + 10.0 * load)).abs() < 1e-9, "{load}");
        }
        let ends = |load| measured(&document, load).unwrap();
        assert_eq!(ends(0.5), ends(1.0), "nothing is known below the lowest load");
        assert_eq!(ends(1e6), ends(1e7));
        assert_eq!(measured(&sample_document(), 40.0), None);
    }

    #[test]
    fn the_energy_is_that_of_the_servers_at_their_planned_load() {
        let document = metered();
        let fleets = plan(&sample_runs(&document), &wanted("100")).unwrap().fleets;
        let (fleet, energy) = (fleets[0].fleet, fleets[0].energy.unwrap());
        assert_eq!(energy.source, PowerSource::Gpus);
        assert!((energy.watts_per_server - 200.0 - 10.0 * fleet.in_flight.unwrap()).abs() < 1e-6);
        let an_hour = f64::from(fleet.servers) * energy.watts_per_server / 1000.0;
        assert!((energy.kwh_per_hour - an_hour).abs() < 1e-9);
        let tokens = 100.0 * fleets[0].server.osl.unwrap() * 3600.0 / 1e6;
        assert!((energy.kwh_per_million_output_tokens.unwrap() - an_hour / tokens).abs() < 1e-9);
    }

    #[test]
    fn a_given_power_wins_and_without_either_nothing_is_said() {
        let document = metered();
        let runs = [Run { power: Some(5600.0), ..sample_runs(&document)[0] }];
        let whole = plan(&runs, &Wanted { demand: day(), ..wanted("1") }).unwrap();
        let (energy, series) = (whole.fleets[0].energy.unwrap(), whole.fleets[0].series.clone().unwrap());
        assert_eq!((energy.watts_per_server, energy.source), (5600.0, PowerSource::Given));
        assert!((energy.kwh_per_day - 5.6 * series.server_hours_per_day).abs() < 1e-6);
        let text = screen(&whole, Style { width: 110, colour: false });
        assert!(text.contains("  energy") && text.contains("5.60 kW a server, as given"), "{text}");
        let document = sample_document();
        let without = plan(&sample_runs(&document), &wanted("100")).unwrap();
        assert_eq!(without.fleets[0].energy, None);
        assert!(!screen(&without, Style::default()).contains("energy"));
    }
}
