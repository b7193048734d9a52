//! Templates of commands -> the command that is run.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::Value;
use minijinja::{Environment, UndefinedBehavior};
use thiserror::Error;

use super::engine::{Argument, EnginePlan, Reset, When};
use crate::space::KnobValue;

/// Where an engine listens whose `{{ host }}` is left to its slot, which does not say.
const LOOPBACK: &str = "127.0.0.1";

/// Names that a template may use, beside `knobs.<name>` and `slot.<name>`.
pub const VARIABLES: [&str; 5] = ["port", "host", "model", "id", "plimsoll"];

/// A template that cannot be used. Its text names the template and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{template}`: {problem}")]
pub struct TemplateError {
    /// The template.
    pub template: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What the templates of one launch stand for.
#[derive(Clone, Debug, PartialEq)]
pub struct Launching<'a> {
    /// `port`
    pub port: u16,
    /// `id`: a name that no other launch has.
    pub id: &'a str,
    /// `plimsoll`: path of this program.
    pub plimsoll: &'a str,
    /// `knobs.<name>`
    pub knobs: &'a BTreeMap<String, KnobValue>,
}

impl EnginePlan {
    /// The command that launches the engine. With a shell that is `sh -c` and one text.
    ///
    /// # Errors
    /// When a template is not valid or uses what is not there.
    pub fn command(&self, launching: &Launching<'_>) -> Result<Vec<String>, TemplateError> {
        let words = self.arguments(&self.launch, launching)?;
        Ok(if self.shell { vec!["sh".to_owned(), "-c".to_owned(), words.join(" ")] } else { words })
    }

    /// Any list of arguments of the plan, such as the stop command.
    ///
    /// # Errors
    /// When a template is not valid or uses what is not there.
    pub fn arguments(
        &self,
        list: &[Argument],
        launching: &Launching<'_>,
    ) -> Result<Vec<String>, TemplateError> {
        let scope = Scope::new(self, launching)?;
        let mut words = Vec::new();
        for argument in list {
            match argument {
                Argument::Word(word) => words.extend(scope.group(std::slice::from_ref(word))?),
                Argument::Group(group) => words.extend(scope.group(group)?),
                Argument::When(When { condition, args, otherwise }) => match scope.holds(condition)? {
                    Some(true) => words.extend(scope.group(args)?),
                    Some(false) => words.extend(scope.group(otherwise)?),
                    None => {}
                },
            }
        }
        Ok(words)
    }

    /// The environment's templates filled in; a variable whose knob or slot has no value is left out.
    /// References to the caller's environment (`${NAME}`) still stand.
    ///
    /// # Errors
    /// When a template is not valid or uses what is not there.
    pub fn environment(&self, launching: &Launching<'_>) -> Result<BTreeMap<String, String>, TemplateError> {
        let scope = Scope::new(self, launching)?;
        let mut variables = BTreeMap::new();
        for (name, value) in &self.env {
            if let Some(value) = scope.group(std::slice::from_ref(value))?.pop() {
                variables.insert(name.clone(), value);
            }
        }
        Ok(variables)
    }

    /// A text in which only `{{ host }}`, `{{ port }}` and the like stand, such as the URL.
    ///
    /// # Errors
    /// When the template is not valid or uses what is not there.
    pub fn text(&self, template: &str, launching: &Launching<'_>) -> Result<String, TemplateError> {
        Scope::new(self, launching)?.text(template)
    }

    /// The address that the engine is to listen on: 127.0.0.1 where it is named by a value that the slot
    /// does not have.
    ///
    /// # Errors
    /// When the template is not valid or uses what is not there.
    pub fn listens_on(&self) -> Result<String, TemplateError> {
        let environment = environment();
        let fail = |error: minijinja::Error| wrong(&self.host, &error);
        let template = environment.template_from_str(&self.host).map_err(fail)?;
        let lacks =
            |name: &String| name.strip_prefix("slot.").is_some_and(|name| !self.slot.contains_key(name));
        if template.undeclared_variables(true).iter().any(lacks) {
            return Ok(LOOPBACK.to_owned());
        }
        template.render(BTreeMap::from([("slot", values(&self.slot))])).map_err(fail)
    }

    /// Checks every template as far as that can be done before a launch. `slots` are the names of the
    /// values that slots have.
    ///
    /// # Errors
    /// Names the first template that cannot be used.
    pub fn check_templates(&self, slots: &BTreeSet<String>) -> Result<(), TemplateError> {
        let environment = environment();
        let lists = [
            Some(&self.launch),
            self.stop.as_ref(),
            match &self.reset {
                Some(super::Reset::Command(list)) => Some(list),
                _ => None,
            },
        ];
        for argument in lists.into_iter().flatten().flatten() {
            let texts: Vec<&String> = match argument {
                Argument::Word(word) => vec![word],
                Argument::Group(group) => group.iter().collect(),
                Argument::When(when) => {
                    let expression = environment
                        .compile_expression(&when.condition)
                        .map_err(|error| wrong(&when.condition, &error))?;
                    self.known(&when.condition, expression.undeclared_variables(true), slots)?;
                    when.args.iter().chain(&when.otherwise).collect()
                }
            };
            for text in texts {
                self.check_text(&environment, text, slots)?;
            }
        }
        self.env.values().try_for_each(|text| self.check_text(&environment, text, slots))?;
        let host = environment.template_from_str(&self.host).map_err(|error| wrong(&self.host, &error))?;
        let names = host.undeclared_variables(true);
        if let Some(name) = names.iter().find(|name| !name.starts_with("slot.")) {
            let problem =
                format!("`engine.host` may name values of a slot (`slot.<name>`), but not `{name}`");
            return Err(TemplateError { template: self.host.clone(), problem });
        }
        self.known(&self.host, names, slots)
    }

    /// Names of the knobs that the templates of a launch use: the command, its stop and the environment.
    pub fn launch_knobs(&self) -> BTreeSet<String> {
        let commands = self.launch.iter().chain(self.stop.iter().flatten());
        names_in("knobs.", commands.flat_map(texts).chain(self.env.values().map(String::as_str)))
    }

    /// Names of the slot's values that any template uses, the URL among them.
    pub fn slot_names(&self, url: &str) -> BTreeSet<String> {
        let reset = match &self.reset {
            Some(Reset::Command(list)) => list.as_slice(),
            Some(Reset::Post(_)) | None => &[],
        };
        let commands = self.launch.iter().chain(self.stop.iter().flatten()).chain(reset);
        let further = self.env.values().chain([&self.host]).map(String::as_str).chain([url]);
        names_in("slot.", commands.flat_map(texts).chain(further))
    }

    /// Names of the knobs that the reset command uses.
    pub fn reset_knobs(&self) -> BTreeSet<String> {
        match &self.reset {
            Some(Reset::Command(list)) => names_in("knobs.", list.iter().flat_map(texts)),
            Some(Reset::Post(_)) | None => BTreeSet::new(),
        }
    }

    fn check_text(
        &self,
        environment: &Environment<'_>,
        text: &str,
        slots: &BTreeSet<String>,
    ) -> Result<(), TemplateError> {
        let template = environment.template_from_str(text).map_err(|error| wrong(text, &error))?;
        self.known(text, template.undeclared_variables(true), slots)
    }

    fn known(
        &self,
        text: &str,
        names: impl IntoIterator<Item = String>,
        slots: &BTreeSet<String>,
    ) -> Result<(), TemplateError> {
        let fail = |problem: String| Err(TemplateError { template: text.to_owned(), problem });
        for name in names {
            if name == "model" && self.model.is_none() {
                return fail(
                    "it uses `model`, but neither `engine.model` nor `target.model` (`--model`) is given"
                        .to_owned(),
                );
            }
            if let Some(value) = name.strip_prefix("slot.") {
                if slots.contains(value) {
                    continue;
                }
                let there: Vec<&str> = slots.iter().map(String::as_str).collect();
                return fail(if there.is_empty() {
                    format!(
                        "it uses `{name}`, but the recipe lists no slots; for example `[[tune.slots]]` with `{value} = \"0\"`"
                    )
                } else {
                    format!("no slot of `tune.slots` has a value `{value}`; there are {}", there.join(", "))
                });
            }
            let is_known = VARIABLES.contains(&name.as_str()) || name.starts_with("knobs.");
            if !is_known {
                return fail(format!(
                    "nothing is called `{name}`; there are `port`, `host`, `model`, `id`, `plimsoll`, `knobs.<name>` and \
                     `slot.<name>`"
                ));
            }
        }
        Ok(())
    }
}

/// Every template of an argument, conditions included.
fn texts(argument: &Argument) -> Vec<&str> {
    match argument {
        Argument::Word(word) => vec![word],
        Argument::Group(group) => group.iter().map(String::as_str).collect(),
        Argument::When(When { condition, args, otherwise }) => {
            std::iter::once(condition).chain(args).chain(otherwise).map(String::as_str).collect()
        }
    }
}

/// What follows `prefix` in the texts, as far as it is a name.
fn names_in<'a>(prefix: &str, texts: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    texts.flat_map(|text| text.split(prefix).skip(1)).map(name).collect()
}

/// A command as one would type it: words in quotes where a shell would need them.
pub fn shown(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}

fn wrong(template: &str, error: &minijinja::Error) -> TemplateError {
    let problem = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    TemplateError { template: template.to_owned(), problem }
}

/// The variables of one launch.
struct Scope<'a> {
    environment: Environment<'a>,
    variables: Value,
    knobs: &'a BTreeMap<String, KnobValue>,
    slot: &'a BTreeMap<String, KnobValue>,
}

impl<'a> Scope<'a> {
    fn new(plan: &'a EnginePlan, launching: &Launching<'a>) -> Result<Self, TemplateError> {
        let mut variables = BTreeMap::from([
            ("port", Value::from(u32::from(launching.port))),
            ("host", Value::from(plan.listens_on()?)),
            ("id", Value::from(launching.id)),
            ("plimsoll", Value::from(launching.plimsoll)),
            ("knobs", values(launching.knobs)),
            ("slot", values(&plan.slot)),
        ]);
        if let Some(model) = &plan.model {
            variables.insert("model", Value::from(model.as_str()));
        }
        let variables = Value::from(variables);
        Ok(Self { environment: environment(), variables, knobs: launching.knobs, slot: &plan.slot })
    }

    /// The texts filled in; none of them where one names a knob or a slot's value that is not there.
    fn group(&self, texts: &[String]) -> Result<Vec<String>, TemplateError> {
        for text in texts {
            let template = self.environment.template_from_str(text).map_err(|error| wrong(text, &error))?;
            if self.lacks(template.undeclared_variables(true)) {
                return Ok(Vec::new());
            }
        }
        texts.iter().map(|text| self.text(text)).collect()
    }

    fn text(&self, text: &str) -> Result<String, TemplateError> {
        self.environment.render_str(text, self.variables.clone()).map_err(|error| wrong(text, &error))
    }

    /// Whether the condition holds; `None` where it names a knob or a slot's value that is not there.
    fn holds(&self, condition: &str) -> Result<Option<bool>, TemplateError> {
        let fail = |error: minijinja::Error| wrong(condition, &error);
        let expression = self.environment.compile_expression(condition).map_err(fail)?;
        if self.lacks(expression.undeclared_variables(true)) {
            return Ok(None);
        }
        Ok(Some(expression.eval(self.variables.clone()).map_err(fail)?.is_true()))
    }

    /// Whether a knob or a slot's value among the names is not there.
    fn lacks(&self, names: impl IntoIterator<Item = String>) -> bool {
        names.into_iter().any(|name| match name.split_once('.') {
            Some(("knobs", knob)) => !self.knobs.contains_key(knob),
            Some(("slot", value)) => !self.slot.contains_key(value),
            _ => false,
        })
    }
}

fn values(named: &BTreeMap<String, KnobValue>) -> Value {
    named.iter().map(|(name, value)| (name.clone(), value_of(value))).collect::<BTreeMap<_, _>>().into()
}

fn value_of(value: &KnobValue) -> Value {
    match value {
        KnobValue::Flag(value) => Value::from(*value),
        KnobValue::Int(value) => Value::from(*value),
        KnobValue::Float(value) => Value::from(*value),
        KnobValue::Choice(value) => Value::from(value.as_str()),
    }
}

#[cfg(test)]
mod tests;
