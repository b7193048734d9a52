//! Knobs as written in a recipe.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::SpaceError;
use super::expression::Expression;
use super::knob::{Domain, Knob};
use super::points::Space;
use super::value::KnobValue;

/// A knob as written: `type` and what goes with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KnobSection {
    /// What kind of knob it is.
    #[serde(rename = "type")]
    pub kind: Option<KnobKind>,
    /// Smallest and largest value (`int`, `float`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Distance of neighbouring values, or their ratio on the log scale; any value if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// `linear` (the default) or `log`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<ScaleName>,
    /// The values allowed (`choice`, `int`, `float`), or the tuples of `linked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<KnobWritten>>,
    /// The value of `fixed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<KnobValue>,
    /// What the knob is unless it is tuned; the default setting is measured first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<KnobWritten>,
    /// The knobs that a `linked` one sets together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knobs: Option<Vec<String>>,
    /// Condition on other knobs without which this one does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_when: Option<String>,
    /// Whether a change needs the engine to be launched anew; true if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<bool>,
}

/// A value, or a tuple of values for linked knobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KnobWritten {
    /// One value.
    One(KnobValue),
    /// The values of linked knobs, in their order.
    Tuple(Vec<KnobValue>),
}

/// The kinds of knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KnobKind {
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// One of several words.
    Choice,
    /// On or off.
    Flag,
    /// Always the same.
    Fixed,
    /// Several knobs set together, tuple by tuple.
    Linked,
}

/// How the values of a number are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScaleName {
    /// By equal differences.
    Linear,
    /// By equal factors.
    Log,
}

/// Most levels that steps may make of a range.
const MOST_LEVELS: usize = 100_000;

impl Space {
    /// The space that a recipe's knobs and constraints describe.
    ///
    /// # Errors
    /// Names the knob or the constraint that is wrong, and the mend.
    pub fn from_sections(
        sections: &BTreeMap<String, KnobSection>,
        constraints: &[String],
    ) -> Result<Self, SpaceError> {
        let knobs = sections.iter().map(|(name, section)| section.knob(name)).collect::<Result<_, _>>()?;
        let constraints = constraints
            .iter()
            .map(|text| read_condition("constraint".to_owned(), text))
            .collect::<Result<_, _>>()?;
        Self::new(knobs, constraints)
    }
}

fn read_condition(place: String, text: &str) -> Result<Expression, SpaceError> {
    Expression::parse(text).map_err(|problem| SpaceError::Expression {
        place,
        text: text.to_owned(),
        problem,
    })
}

impl KnobSection {
    fn knob(&self, name: &str) -> Result<Knob, SpaceError> {
        let wrong = |problem: String| SpaceError::knob(name, problem);
        let is_word = |name: &str| {
            name.chars().all(|c| c.is_alphanumeric() || c == '_')
                && !name.starts_with(|c: char| c.is_numeric())
        };
        if !is_word(name) || name.is_empty() {
            let mend = name.replace(['-', '.', ' '], "_");
            return Err(wrong(format!("a name has letters, digits and `_` only; write `{mend}`")));
        }
        let kind = self.kind.ok_or_else(|| {
            wrong("`type` is missing; it is int, float, choice, flag, fixed or linked".to_owned())
        })?;
        self.only_what_fits(kind).map_err(wrong)?;
        let domain = self.domain(kind).map_err(wrong)?;
        let default = self.default_of(kind, &domain).map_err(wrong)?;
        let only_when = self
            .only_when
            .as_deref()
            .map(|text| read_condition(format!("knob `{name}`: `only_when`"), text))
            .transpose()?;
        Ok(Knob { name: name.to_owned(), domain, default, only_when, restart: self.restart.unwrap_or(true) })
    }

    fn only_what_fits(&self, kind: KnobKind) -> Result<(), String> {
        use KnobKind::{Choice, Fixed, Float, Int, Linked};
        let fields: [(&str, bool, &[KnobKind]); 6] = [
            ("range", self.range.is_some(), &[Int, Float]),
            ("step", self.step.is_some(), &[Int, Float]),
            ("scale", self.scale.is_some(), &[Int, Float]),
            ("values", self.values.is_some(), &[Int, Float, Choice, Linked]),
            ("value", self.value.is_some(), &[Fixed]),
            ("knobs", self.knobs.is_some(), &[Linked]),
        ];
        let odd = fields.iter().find(|(_, given, fits)| *given && !fits.contains(&kind));
        match odd {
            Some((field, ..)) => {
                Err(format!("`{field}` does not go with `type = \"{}\"`; leave it out", kind.name()))
            }
            None => Ok(()),
        }
    }

    fn domain(&self, kind: KnobKind) -> Result<Domain, String> {
        match kind {
            KnobKind::Int | KnobKind::Float => self.number(kind == KnobKind::Int),
            KnobKind::Flag => {
                Ok(Domain::Category { values: vec![KnobValue::Flag(false), KnobValue::Flag(true)] })
            }
            KnobKind::Fixed => {
                let value = self.value.clone().ok_or("`value` is missing")?;
                Ok(Domain::Category { values: vec![value] })
            }
            KnobKind::Choice => {
                let mut values = Vec::new();
                for written in self.listed()? {
                    match written {
                        KnobWritten::One(value @ KnobValue::Choice(_)) if !values.contains(value) => {
                            values.push(value.clone());
                        }
                        KnobWritten::One(KnobValue::Choice(word)) => {
                            return Err(format!("`values` has `{word}` twice"));
                        }
                        _ => {
                            return Err("the `values` of a choice are texts in quotes; numbers make an `int` or a `float`"
                                .to_owned());
                        }
                    }
                }
                Ok(Domain::Category { values })
            }
            KnobKind::Linked => {
                let names = self.knobs.clone().unwrap_or_default();
                if names.len() < 2 {
                    return Err("`knobs` is missing; it names the knobs that are set together, as in \
                         `knobs = [\"tensor_parallel_size\", \"data_parallel_size\"]`"
                        .to_owned());
                }
                let mut tuples = Vec::new();
                for written in self.listed()? {
                    match written {
                        KnobWritten::Tuple(tuple) if tuple.len() == names.len() => tuples.push(tuple.clone()),
                        _ => {
                            return Err(format!(
                                "each of `values` is a list of {} values, one a knob",
                                names.len()
                            ));
                        }
                    }
                }
                Ok(Domain::Linked { names, tuples })
            }
        }
    }

    fn number(&self, whole: bool) -> Result<Domain, String> {
        let log = self.scale == Some(ScaleName::Log);
        let (low, high, levels) = match (&self.values, self.range) {
            (Some(_), None) => {
                if self.step.is_some() {
                    return Err("`step` goes with `range`, not with `values`; leave one out".to_owned());
                }
                let mut levels = Vec::new();
                for written in self.listed()? {
                    levels.push(match written {
                        KnobWritten::One(KnobValue::Int(value)) => *value as f64,
                        KnobWritten::One(KnobValue::Float(value)) => *value,
                        _ => return Err("its `values` are numbers".to_owned()),
                    });
                }
                levels.sort_by(f64::total_cmp);
                levels.dedup();
                (levels[0], levels[levels.len() - 1], Some(levels))
            }
            (None, Some([low, high])) => {
                if !(low.is_finite() && high.is_finite() && low <= high) {
                    return Err(format!("`range` [{low}, {high}] runs backwards or is not finite"));
                }
                (low, high, None)
            }
            (None, None) => return Err("`range` is missing; for example `range = [16, 512]`".to_owned()),
            (Some(_), Some(_)) => return Err("`range` and `values` are both given; leave one out".to_owned()),
        };
        if log && low <= 0.0 {
            return Err(format!(
                "a log scale cannot begin at {low}; begin above 0 or use `scale = \"linear\"`"
            ));
        }
        if whole && levels.iter().flatten().chain([&low, &high]).any(|value| value.fract() != 0.0) {
            return Err("an `int` has whole numbers only; use `type = \"float\"`".to_owned());
        }
        let levels = match (levels, self.step) {
            (Some(levels), _) => Some(levels),
            (None, None) => None,
            (None, Some(step)) => Some(stepped(low, high, step, log, whole)?),
        };
        Ok(Domain::Number { low, high, log, whole, levels })
    }

    fn listed(&self) -> Result<&[KnobWritten], String> {
        match self.values.as_deref() {
            Some([]) => Err("`values` is empty".to_owned()),
            Some(values) => Ok(values),
            None => Err("`values` is missing; for example `values = [\"auto\", \"fp8\"]`".to_owned()),
        }
    }

    fn default_of(&self, kind: KnobKind, domain: &Domain) -> Result<f64, String> {
        if kind == KnobKind::Fixed {
            return Ok(0.0);
        }
        let written = self
            .default
            .as_ref()
            .ok_or("`default` is missing; it is what the engine takes by itself, and it is measured first")?;
        let coordinate = match (written, domain) {
            (KnobWritten::One(value), _) => domain.coordinate(value),
            (KnobWritten::Tuple(tuple), Domain::Linked { tuples, .. }) => {
                tuples.iter().position(|other| other == tuple).map(|index| index as f64)
            }
            (KnobWritten::Tuple(_), _) => None,
        };
        let shown = match written {
            KnobWritten::One(value) => value.to_string(),
            KnobWritten::Tuple(tuple) => {
                format!("[{}]", tuple.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
        };
        coordinate.ok_or_else(|| {
            let near = match domain {
                Domain::Number { levels: Some(levels), .. } => {
                    let number = shown.parse::<f64>().unwrap_or(f64::NAN);
                    let nearest =
                        levels.iter().min_by(|a, b| (*a - number).abs().total_cmp(&(*b - number).abs()));
                    nearest.map_or_else(String::new, |level| format!("; the nearest is {level}"))
                }
                _ => String::new(),
            };
            format!("its `default` {shown} is not among the values that it may have{near}")
        })
    }
}

impl KnobKind {
    fn name(self) -> &'static str {
        match self {
            KnobKind::Int => "int",
            KnobKind::Float => "float",
            KnobKind::Choice => "choice",
            KnobKind::Flag => "flag",
            KnobKind::Fixed => "fixed",
            KnobKind::Linked => "linked",
        }
    }
}

/// The levels of a range with steps; both ends are among them.
fn stepped(low: f64, high: f64, step: f64, log: bool, whole: bool) -> Result<Vec<f64>, String> {
    if log && step <= 1.0 {
        return Err(format!("on the log scale `step` is a factor above 1, such as 2; it is {step}"));
    }
    if step.is_nan() || step <= 0.0 {
        return Err(format!("`step` is {step}; it must be above 0"));
    }
    let mut levels = Vec::new();
    for index in 0..MOST_LEVELS {
        let value = if log { low * step.powi(index as i32) } else { low + step * index as f64 };
        if value >= high * (1.0 - 1e-9) && value >= high - 1e-9 * high.abs() {
            levels.push(high);
            levels.dedup();
            return Ok(levels);
        }
        let value = if whole { value.round() } else { value };
        if levels.last() != Some(&value) {
            levels.push(value);
        }
    }
    Err(format!("`step` {step} makes more than {MOST_LEVELS} values"))
}
