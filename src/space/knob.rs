//! One knob: what it may be set to and when it applies.

use super::expression::Expression;
use super::value::KnobValue;

/// An engine setting that may be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// Its name: that of the engine's flag, with `_`.
    pub name: String,
    /// What it may be.
    pub domain: Domain,
    /// What it is unless it is tuned, as the coordinate of a point.
    pub default: f64,
    /// When it applies at all.
    pub only_when: Option<Expression>,
    /// Whether a change of it needs the engine to be launched anew.
    pub restart: bool,
}

/// What a knob may be set to. A point keeps a number for it: the value itself, or the index among
/// the values of a category.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// A number from `low` to `high`.
    Number {
        /// Smallest.
        low: f64,
        /// Largest.
        high: f64,
        /// Whether steps are equal factors, not equal differences.
        log: bool,
        /// Whether it is a whole number.
        whole: bool,
        /// The only values allowed, ascending; any between the ends where there are none.
        levels: Option<Vec<f64>>,
    },
    /// One of several words, or on and off.
    Category {
        /// The values.
        values: Vec<KnobValue>,
    },
    /// Several knobs that are set together.
    Linked {
        /// The knobs.
        names: Vec<String>,
        /// The values of each of them, tuple by tuple.
        tuples: Vec<Vec<KnobValue>>,
    },
}

/// How a coordinate of an encoded point is compared with another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// By distance; the coordinate lies within 0..1.
    Number,
    /// By equality; the coordinate is the index of one of so many values.
    Category(usize),
}

impl Domain {
    /// How many values there are; none where that cannot be counted (a float without steps).
    pub fn count(&self) -> Option<usize> {
        match self {
            Domain::Number { levels: Some(levels), .. } => Some(levels.len()),
            Domain::Number { low, high, whole: true, .. } => Some((high - low) as usize + 1),
            Domain::Number { low, high, .. } => (low == high).then_some(1),
            Domain::Category { values } => Some(values.len()),
            Domain::Linked { tuples, .. } => Some(tuples.len()),
        }
    }

    /// How the domain's coordinate is compared.
    pub fn axis(&self) -> Axis {
        match self {
            Domain::Number { .. } => Axis::Number,
            Domain::Category { values } => Axis::Category(values.len()),
            Domain::Linked { tuples, .. } => Axis::Category(tuples.len()),
        }
    }

    /// The coordinate at a share `unit` of the way from the first value to the last (0..1), so that
    /// equal shares are equally likely.
    pub fn at(&self, unit: f64) -> f64 {
        let unit = unit.clamp(0.0, 1.0);
        let index = |count: usize| ((unit * count as f64) as usize).min(count - 1);
        match self {
            Domain::Number { levels: Some(levels), .. } => levels[index(levels.len())],
            Domain::Number { low, high, whole, .. } => {
                let value = self.unwarp(unit);
                if *whole { value.round().clamp(*low, *high) } else { value }
            }
            Domain::Category { values } => index(values.len()) as f64,
            Domain::Linked { tuples, .. } => index(tuples.len()) as f64,
        }
    }

    /// A number's place between its ends on its scale, 0..1; a category's index.
    pub fn encode(&self, coordinate: f64) -> f64 {
        match self {
            Domain::Number { low, high, log, .. } => {
                if low == high {
                    0.5
                } else if *log {
                    (coordinate / low).ln() / (high / low).ln()
                } else {
                    (coordinate - low) / (high - low)
                }
            }
            Domain::Category { .. } | Domain::Linked { .. } => coordinate,
        }
    }

    /// All values; none where they cannot be counted.
    pub fn all(&self) -> Option<Vec<f64>> {
        match self {
            Domain::Number { levels: Some(levels), .. } => Some(levels.clone()),
            Domain::Number { low, whole: true, .. } => {
                Some((0..self.count()?).map(|step| low + step as f64).collect())
            }
            Domain::Number { low, high, .. } => (low == high).then(|| vec![*low]),
            Domain::Category { .. } | Domain::Linked { .. } => {
                Some((0..self.count()?).map(|index| index as f64).collect())
            }
        }
    }

    /// Values near `coordinate`: the next ones where they are few, else some at distances that
    /// halve; every other one of a category.
    pub fn near(&self, coordinate: f64) -> Vec<f64> {
        let mut near = match self {
            Domain::Number { levels: Some(levels), .. } => {
                let at = levels.iter().position(|&level| level >= coordinate).unwrap_or(levels.len() - 1);
                vec![levels[at.saturating_sub(1)], levels[(at + 1).min(levels.len() - 1)]]
            }
            Domain::Number { whole, low, high, .. } => {
                let unit = self.encode(coordinate);
                let mut near: Vec<f64> = [0.1, 0.05, 0.025, 0.0125]
                    .iter()
                    .flat_map(|distance| [unit - distance, unit + distance])
                    .filter(|unit| (0.0..=1.0).contains(unit))
                    .map(|unit| self.at(unit))
                    .collect();
                if *whole {
                    near.extend([(coordinate - 1.0).max(*low), (coordinate + 1.0).min(*high)]);
                }
                near
            }
            Domain::Category { .. } | Domain::Linked { .. } => self.all().unwrap_or_default(),
        };
        near.retain(|&other| other != coordinate);
        near
    }

    /// The coordinate of a value; none where it is not among those allowed.
    pub fn coordinate(&self, value: &KnobValue) -> Option<f64> {
        match self {
            Domain::Number { low, high, whole, levels, .. } => {
                let number = match value {
                    KnobValue::Int(number) => *number as f64,
                    KnobValue::Float(number) if !whole || number.fract() == 0.0 => *number,
                    _ => return None,
                };
                let same = |level: &f64| (level - number).abs() <= 1e-9 * number.abs();
                match levels {
                    Some(levels) => levels.iter().copied().find(same),
                    None => (*low..=*high).contains(&number).then_some(number),
                }
            }
            Domain::Category { values } => {
                values.iter().position(|other| other == value).map(|index| index as f64)
            }
            Domain::Linked { .. } => None,
        }
    }

    /// The names that the domain sets with `coordinate`, and their values.
    pub fn values<'a>(&'a self, name: &'a str, coordinate: f64) -> Vec<(&'a str, KnobValue)> {
        match self {
            Domain::Number { whole: true, .. } => vec![(name, KnobValue::Int(coordinate as i64))],
            Domain::Number { .. } => vec![(name, KnobValue::Float(coordinate))],
            Domain::Category { values } => vec![(name, values[coordinate as usize].clone())],
            Domain::Linked { names, tuples } => {
                names.iter().map(String::as_str).zip(tuples[coordinate as usize].iter().cloned()).collect()
            }
        }
    }

    fn unwarp(&self, unit: f64) -> f64 {
        match self {
            Domain::Number { low, high, log: true, .. } => low * (high / low).powf(unit),
            Domain::Number { low, high, .. } => low + (high - low) * unit,
            Domain::Category { .. } | Domain::Linked { .. } => unit,
        }
    }
}
