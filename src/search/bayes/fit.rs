//! The kernel's parameters by the maximum of their posterior.
//!
//! Log-normal priors keep them sensible while data are few: a length scale of about a third of the range,
//! a function that varies by some tens of percent, launches that differ by some percent.

use crate::space::Axis;
use crate::stats::optim::minimise;

use super::gp::{Data, Gp, Hyper};

/// Priors of the logs of the parameters: centre and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priors {
    /// The function's standard deviation.
    pub scale: (f64, f64),
    /// A number's length scale; numbers lie within 0..1.
    pub length: (f64, f64),
    /// A category's weight.
    pub weight: (f64, f64),
    /// The standard deviation of the nugget.
    pub nugget: (f64, f64),
    /// Standard deviation of the constant (not fitted).
    pub offset: f64,
}

/// For logs of goodput: 1 is a factor of 2.7.
pub const GOODPUT: Priors =
    Priors { scale: (-1.0, 0.7), length: (-1.0, 0.8), weight: (-1.2, 1.2), nugget: (-4.0, 0.6), offset: 1.0 };

/// For marks of +1 (launched) and -1 (failed). What fails fails over wide regions, whatever the
/// other knobs: longer scales than goodput has, smaller weights.
pub const FEASIBLE: Priors =
    Priors { scale: (0.0, 0.4), length: (0.0, 0.7), weight: (-2.0, 1.0), nugget: (-1.5, 0.3), offset: 0.0 };

/// Steps of the simplex from the best start.
const STEPS: u64 = 150;

/// The posterior with the parameters that fit best. `warm` are those of an earlier fit.
pub fn fit(axes: &[Axis], mean: f64, priors: &Priors, warm: Option<&Hyper>, data: &Data) -> Option<Gp> {
    let hyper = |logs: &[f64]| Hyper {
        scale: logs[0].exp(),
        nugget: (2.0 * logs[1]).exp(),
        lengths: logs[2..].iter().map(|log| log.exp()).collect(),
    };
    let prior = |index: usize| match index {
        0 => priors.scale,
        1 => priors.nugget,
        _ => match axes[index - 2] {
            Axis::Number => priors.length,
            Axis::Category(_) => priors.weight,
        },
    };
    let loss = |logs: &[f64]| {
        let penalty: f64 = logs
            .iter()
            .enumerate()
            .map(|(index, log)| {
                let (centre, sd) = prior(index);
                0.5 * ((log - centre) / sd).powi(2)
            })
            .sum();
        let gp = Gp::new(axes, hyper(logs), mean, priors.offset, data);
        gp.map_or(f64::MAX, |gp| penalty - gp.evidence())
    };
    let centre: Vec<f64> = (0..axes.len() + 2).map(|index| prior(index).0).collect();
    // Two basins are common: few axes matter much, or all matter a little.
    let moved = |by: f64| {
        let shift = |(index, log): (usize, &f64)| if index < 2 { *log } else { log + by };
        centre.iter().enumerate().map(shift).collect::<Vec<_>>()
    };
    let mut starts = vec![moved(-0.7), moved(0.7), centre.clone()];
    starts.extend(warm.map(|warm| {
        let logs = [warm.scale.ln(), 0.5 * warm.nugget.ln()];
        logs.into_iter().chain(warm.lengths.iter().map(|length| length.ln())).collect()
    }));
    let best = starts.into_iter().min_by(|a, b| loss(a).total_cmp(&loss(b)))?;
    let (logs, _) = minimise(&loss, &best, 0.5, STEPS);
    Gp::new(axes, hyper(&logs), mean, priors.offset, data)
}
