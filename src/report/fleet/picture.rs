//! The plan as a picture.

use super::{FleetDocument, Run, RunFleet, Wanted, figures, policy_for};
use crate::capacity::{Fleet, SeriesPlan, fleet};
use crate::report::plot::{PlotError, ServersChart, ServersPoint, servers_svg};
use crate::units::significant;

/// Points of the curve over the rate.
const POINTS: u32 = 240;

/// The best fleet as SVG: its servers by hour where the demand is a series, else servers against the
/// rate up to twice the demand. `runs` and `wanted` are what the document was made of.
///
/// # Errors
/// When the drawing library fails.
pub fn svg(document: &FleetDocument, runs: &[Run<'_>], wanted: &Wanted) -> Result<Option<String>, PlotError> {
    let Some(best) = document.fleets.first() else { return Ok(None) };
    let chart = match &best.series {
        Some(series) => by_hour(best, series),
        None => match by_rate(best, runs, wanted) {
            Some(chart) => chart,
            None => return Ok(None),
        },
    };
    servers_svg(&chart).map(Some)
}

fn point(x: f64, fleet: &Fleet) -> ServersPoint {
    ServersPoint {
        x,
        goodput: f64::from(fleet.servers),
        low: f64::from(fleet.interval.low),
        throughput: f64::from(fleet.by_throughput.redundancy),
    }
}

fn subtitle(best: &RunFleet) -> String {
    format!(
        "{}  ·  {} good requests/s a server  ·  {}",
        best.slo.join(", "),
        significant(best.server.goodput.estimate),
        best.run
    )
}

fn by_hour(best: &RunFleet, series: &SeriesPlan) -> ServersChart {
    ServersChart {
        title: format!("{} to {} servers over the day", series.min, series.max),
        subtitle: subtitle(best),
        x_name: "time of day".to_owned(),
        points: series
            .hours
            .iter()
            .enumerate()
            .map(|(index, hour)| point(index as f64, &hour.fleet))
            .collect(),
        names: series.hours.iter().map(|hour| hour.time.clone()).collect(),
        at: None,
    }
}

fn by_rate(best: &RunFleet, runs: &[Run<'_>], wanted: &Wanted) -> Option<ServersChart> {
    let run = runs.iter().find(|run| run.name == best.run)?;
    let measured = figures::server(run.document)?;
    let server = wanted.confidence.map_or(measured.clone(), |confidence| measured.at_confidence(confidence));
    let policy = policy_for(wanted);
    let points: Vec<ServersPoint> = (0..=POINTS)
        .filter_map(|index| {
            let rate = 2.0 * best.fleet.rate * f64::from(index) / f64::from(POINTS);
            Some(point(rate, &fleet(&server, rate, &policy).ok()?))
        })
        .collect();
    (points.len() > 1 && best.fleet.rate > 0.0).then(|| ServersChart {
        title: format!("{} servers for {} requests/s", best.fleet.servers, significant(best.fleet.rate)),
        subtitle: subtitle(best),
        x_name: "requests/s".to_owned(),
        points,
        names: Vec::new(),
        at: Some(best.fleet.rate),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::report::fleet::plan;
    use crate::report::fleet::tests::{day, sample_runs, wanted};

    fn picture(wanted: &Wanted) -> String {
        let document = crate::report::sample_document();
        let runs = sample_runs(&document);
        svg(&plan(&runs, wanted).unwrap(), &runs, wanted).unwrap().unwrap()
    }

    #[test]
    fn the_picture_names_the_count_and_both_ways_of_sizing() {
        let by_rate = picture(&wanted("100"));
        for text in ["servers for 100 requests/s", "by throughput: too few", "interval of the count"] {
            assert!(by_rate.contains(text), "`{text}`");
        }
        let by_hour = picture(&Wanted { demand: day(), ..wanted("1") });
        assert!(by_hour.contains("servers over the day") && by_hour.contains("time of day"));
        assert!(by_rate.starts_with("<svg width=\"960\" height=\"440\""));
    }
}
