//! Settings as points of a space.

use std::collections::BTreeMap;

use super::error::SpaceError;
use super::expression::{Expression, Kind};
use super::knob::{Axis, Domain, Knob};
use super::value::KnobValue;

/// Knob values by name: what an engine is launched with. Knobs that do not apply are absent.
pub type Setting = BTreeMap<String, KnobValue>;

/// One coordinate for each knob of the space, in order; see [`Domain`].
pub type Point = Vec<f64>;

/// All settings that may be tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    pub(super) knobs: Vec<Knob>,
    constraints: Vec<Expression>,
}

/// A setting in one line: `max_num_seqs=256 dtype=fp8`.
pub fn show(setting: &Setting) -> String {
    setting.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

impl Space {
    /// A space of `knobs` in which every constraint holds whose knobs apply.
    ///
    /// # Errors
    /// When two knobs have one name, a condition does not fit the knobs, the default setting is
    /// forbidden, or there is nothing to choose from.
    pub fn new(knobs: Vec<Knob>, constraints: Vec<Expression>) -> Result<Self, SpaceError> {
        let space = Self { knobs, constraints };
        let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
        for knob in &space.knobs {
            for (name, value) in knob.domain.values(&knob.name, knob.default) {
                if kinds.insert(name, value.kind()).is_some() {
                    return Err(SpaceError::knob(name, "it is there twice; leave one out"));
                }
            }
        }
        let kind_of = |name: &str| kinds.get(name).copied();
        let check = |place: String, expression: &Expression| {
            expression.check(&kind_of).map_err(|problem| SpaceError::Expression {
                place,
                text: expression.to_string(),
                problem,
            })
        };
        for knob in space.in_order()? {
            if let Some(condition) = &knob.only_when {
                check(format!("knob `{}`: `only_when`", knob.name), condition)?;
            }
        }
        for constraint in &space.constraints {
            check("constraint".to_owned(), constraint)?;
        }
        let setting = space.setting(&space.default_point());
        if let Some(broken) = space.broken(&setting) {
            return Err(SpaceError::DefaultForbidden {
                constraint: broken.to_string(),
                setting: show(&setting),
            });
        }
        if space.knobs.iter().all(|knob| knob.domain.count() == Some(1)) {
            return Err(SpaceError::NothingToTune);
        }
        Ok(space)
    }

    /// Checks an expression that gives a number, such as what a setting costs.
    ///
    /// # Errors
    /// Says what does not fit; `place` is where the expression stands.
    pub fn check_number(&self, place: &str, expression: &Expression) -> Result<(), SpaceError> {
        let setting: Vec<(&str, KnobValue)> =
            self.knobs.iter().flat_map(|knob| knob.domain.values(&knob.name, knob.default)).collect();
        let kind_of = |name: &str| setting.iter().find(|(other, _)| *other == name).map(|(_, v)| v.kind());
        expression.check_number(&kind_of).map_err(|problem| SpaceError::Expression {
            place: place.to_owned(),
            text: expression.to_string(),
            problem,
        })
    }

    /// The knobs, in the order of a point's coordinates.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    /// How each coordinate of an encoded point is compared.
    pub fn axes(&self) -> Vec<Axis> {
        self.knobs.iter().map(|knob| knob.domain.axis()).collect()
    }

    /// The default setting.
    pub fn default_point(&self) -> Point {
        self.canonical(self.knobs.iter().map(|knob| knob.default).collect())
    }

    /// The values of the knobs that apply.
    pub fn setting(&self, point: &Point) -> Setting {
        let mut setting = Setting::new();
        // A knob's condition may name knobs that have conditions themselves: those come first.
        for index in self.order() {
            let knob = &self.knobs[index];
            if applies(knob, &setting) {
                for (name, value) in knob.domain.values(&knob.name, point[index]) {
                    setting.insert(name.to_owned(), value);
                }
            }
        }
        setting
    }

    /// The point of a setting; knobs that are absent are at their defaults.
    ///
    /// # Errors
    /// Names the value that is not allowed.
    pub fn point(&self, setting: &Setting) -> Result<Point, SpaceError> {
        let coordinate = |knob: &Knob| match &knob.domain {
            Domain::Linked { names, tuples } => {
                let given: Vec<_> = names.iter().map(|name| setting.get(name)).collect();
                if given.iter().all(Option::is_none) {
                    return Ok(knob.default);
                }
                let same = |tuple: &Vec<KnobValue>| tuple.iter().map(Some).eq(given.iter().copied());
                let found = tuples.iter().position(same).map(|index| index as f64);
                found.ok_or_else(|| SpaceError::knob(&knob.name, "no tuple of its `values` has these values"))
            }
            domain => match setting.get(&knob.name) {
                None => Ok(knob.default),
                Some(value) => domain.coordinate(value).ok_or_else(|| {
                    SpaceError::knob(&knob.name, format!("{value} is not among the values that it may have"))
                }),
            },
        };
        Ok(self.canonical(self.knobs.iter().map(coordinate).collect::<Result<_, _>>()?))
    }

    /// The point with knobs that do not apply at their defaults: equal settings are equal points.
    pub fn canonical(&self, mut point: Point) -> Point {
        let setting = self.setting(&point);
        for (knob, coordinate) in self.knobs.iter().zip(&mut point) {
            if !applies(knob, &setting) {
                *coordinate = knob.default;
            }
        }
        point
    }

    /// Whether every constraint holds.
    pub fn allows(&self, point: &Point) -> bool {
        self.broken(&self.setting(point)).is_none()
    }

    /// Where a point lies: numbers within 0..1 on their scales, categories as indices.
    pub fn encode(&self, point: &Point) -> Vec<f64> {
        self.knobs.iter().zip(point).map(|(knob, &coordinate)| knob.domain.encode(coordinate)).collect()
    }

    /// The part of a setting that a running engine has and that cannot be changed without a launch.
    pub fn launched_with(&self, setting: &Setting) -> Setting {
        let stays = |name: &String| {
            let sets = |knob: &Knob| match &knob.domain {
                Domain::Linked { names, .. } => names.contains(name),
                _ => knob.name == *name,
            };
            self.knobs.iter().any(|knob| knob.restart && sets(knob))
        };
        setting.iter().filter(|(name, _)| stays(name)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn broken(&self, setting: &Setting) -> Option<&Expression> {
        self.constraints.iter().find(|constraint| constraint.holds(&|name| setting.get(name)) == Some(false))
    }

    /// Indices of the knobs, those without a condition first, each after those that its condition
    /// names.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::with_capacity(self.knobs.len());
        while order.len() < self.knobs.len() {
            let before = order.len();
            for (index, knob) in self.knobs.iter().enumerate() {
                let waits = |name: &&str| {
                    self.knobs
                        .iter()
                        .enumerate()
                        .any(|(other, k)| k.name == **name && !order.contains(&other))
                };
                if !order.contains(&index) && !knob.only_when.iter().any(|e| e.names().iter().any(&waits)) {
                    order.push(index);
                }
            }
            if order.len() == before {
                break;
            }
        }
        order
    }

    fn in_order(&self) -> Result<Vec<&Knob>, SpaceError> {
        let order = self.order();
        match (0..self.knobs.len()).find(|index| !order.contains(index)) {
            Some(index) => Err(SpaceError::knob(
                &self.knobs[index].name,
                "its `only_when` leads back to itself; break the circle",
            )),
            None => Ok(order.into_iter().map(|index| &self.knobs[index]).collect()),
        }
    }
}

fn applies(knob: &Knob, setting: &Setting) -> bool {
    // A condition on a knob that does not apply is not met.
    knob.only_when.as_ref().is_none_or(|condition| condition.holds(&|name| setting.get(name)) == Some(true))
}
