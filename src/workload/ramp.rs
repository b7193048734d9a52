//! Users who join or leave one by one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of users that rises or falls from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserRamp {
    /// Users at the start.
    pub from: u32,
    /// Users at the end.
    pub to: u32,
    /// Time between, seconds.
    pub seconds: f64,
    /// How it goes from one to the other.
    pub shape: RampShape,
}

/// How a ramp goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RampShape {
    /// By as many users each second.
    Linear,
    /// By as large a share of the users each second.
    Exponential,
}

impl UserRamp {
    /// The instants at which the level changes, seconds from the start, with the level from then on: every
    /// level between the ends once, so that users come and go one by one. A level holds from where the
    /// curve is half a user away until it is half a user further.
    pub fn steps(&self) -> impl Iterator<Item = (f64, u32)> {
        let ramp = *self;
        let up = ramp.to >= ramp.from;
        let half = if up { 0.5 } else { -0.5 };
        (1..=ramp.from.abs_diff(ramp.to)).map(move |step| {
            let level = if up { ramp.from + step } else { ramp.from - step };
            (ramp.reaches(f64::from(level) - half), level)
        })
    }

    /// Most users.
    pub fn most(&self) -> u32 {
        self.from.max(self.to)
    }

    /// When the curve is at `users`, seconds.
    fn reaches(&self, users: f64) -> f64 {
        let (from, to) = (f64::from(self.from), f64::from(self.to));
        let share = match self.shape {
            RampShape::Linear => (users - from) / (to - from),
            RampShape::Exponential => (users / from).ln() / (to / from).ln(),
        };
        share * self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_and_go_one_by_one_at_the_instants_of_the_curve() {
        let ramp = |from, to, shape| UserRamp { from, to, seconds: 60.0, shape };
        let up: Vec<(f64, u32)> = ramp(1, 5, RampShape::Linear).steps().collect();
        assert_eq!(up, [(7.5, 2), (22.5, 3), (37.5, 4), (52.5, 5)]);
        let down: Vec<(f64, u32)> = ramp(5, 1, RampShape::Linear).steps().collect();
        assert_eq!(down, [(7.5, 4), (22.5, 3), (37.5, 2), (52.5, 1)]);
        let steps: Vec<(f64, u32)> = ramp(1, 64, RampShape::Exponential).steps().collect();
        assert_eq!(steps.iter().map(|step| step.1).collect::<Vec<_>>(), (2..=64).collect::<Vec<_>>());
        assert!(steps.windows(2).all(|pair| pair[1].0 > pair[0].0) && steps[62].0 < 60.0);
        // Eight users, an eighth of the way up, are reached at half of the time: 64^0.5.
        let eight = steps[6];
        assert!((eight.0 - 60.0 * 7.5_f64.ln() / 64_f64.ln()).abs() < 1e-9, "{eight:?}");
        assert_eq!(ramp(3, 3, RampShape::Linear).steps().count(), 0);
    }
}
