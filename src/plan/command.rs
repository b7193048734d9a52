//! Templates of commands -> the command that is run.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::Value;
use minijinja::{Environment, UndefinedBehavior};
use thiserror::Error;

use super::engine::{Argument, EnginePlan, Reset, When};
use crate::space::KnobValue;

/// Names that a template may use, beside `knobs.<name>`.
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
        let scope = Scope::new(self, launching);
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

    /// The environment's templates filled in; a variable whose knob has no value is left out.
    /// References to the caller's environment (`${NAME}`) still stand.
    ///
    /// # Errors
    /// When a template is not valid or uses what is not there.
    pub fn environment(&self, launching: &Launching<'_>) -> Result<BTreeMap<String, String>, TemplateError> {
        let scope = Scope::new(self, launching);
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
        Scope::new(self, launching).text(template)
    }

    /// Checks every template as far as that can be done before a launch.
    ///
    /// # Errors
    /// Names the first template that cannot be used.
    pub fn check_templates(&self) -> Result<(), TemplateError> {
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
                    self.known(&when.condition, expression.undeclared_variables(true))?;
                    when.args.iter().chain(&when.otherwise).collect()
                }
            };
            for text in texts {
                self.check_text(&environment, text)?;
            }
        }
        self.env.values().try_for_each(|text| self.check_text(&environment, text))
    }

    /// Names of the knobs that the templates of a launch use: the command, its stop and the environment.
    pub fn launch_knobs(&self) -> BTreeSet<String> {
        let commands = self.launch.iter().chain(self.stop.iter().flatten());
        knobs_in(commands.flat_map(texts).chain(self.env.values().map(String::as_str)))
    }

    /// Names of the knobs that the reset command uses.
    pub fn reset_knobs(&self) -> BTreeSet<String> {
        match &self.reset {
            Some(Reset::Command(list)) => knobs_in(list.iter().flat_map(texts)),
            Some(Reset::Post(_)) | None => BTreeSet::new(),
        }
    }

    fn check_text(&self, environment: &Environment<'_>, text: &str) -> Result<(), TemplateError> {
        let template = environment.template_from_str(text).map_err(|error| wrong(text, &error))?;
        self.known(text, template.undeclared_variables(true))
    }

    fn known(&self, text: &str, names: impl IntoIterator<Item = String>) -> Result<(), TemplateError> {
        let fail = |problem: String| Err(TemplateError { template: text.to_owned(), problem });
        for name in names {
            if name == "model" && self.model.is_none() {
                return fail(
                    "it uses `model`, but neither `engine.model` nor `target.model` (`--model`) is given"
                        .to_owned(),
                );
            }
            let is_known = VARIABLES.contains(&name.as_str()) || name.starts_with("knobs.");
            if !is_known {
                return fail(format!(
                    "nothing is called `{name}`; there are `port`, `host`, `model`, `id`, `plimsoll` and `knobs.<name>`"
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

fn knobs_in<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    texts.flat_map(|text| text.split("knobs.").skip(1)).map(name).collect()
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
}

impl<'a> Scope<'a> {
    fn new(plan: &'a EnginePlan, launching: &Launching<'a>) -> Self {
        let knobs: BTreeMap<String, Value> =
            launching.knobs.iter().map(|(name, value)| (name.clone(), value_of(value))).collect();
        let mut variables = BTreeMap::from([
            ("port", Value::from(u32::from(launching.port))),
            ("host", Value::from(plan.host.as_str())),
            ("id", Value::from(launching.id)),
            ("plimsoll", Value::from(launching.plimsoll)),
            ("knobs", Value::from(knobs)),
        ]);
        if let Some(model) = &plan.model {
            variables.insert("model", Value::from(model.as_str()));
        }
        Self { environment: environment(), variables: Value::from(variables), knobs: launching.knobs }
    }

    /// The texts filled in; none of them where one names a knob that has no value.
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

    /// Whether the condition holds; `None` where it names a knob that has no value.
    fn holds(&self, condition: &str) -> Result<Option<bool>, TemplateError> {
        let fail = |error: minijinja::Error| wrong(condition, &error);
        let expression = self.environment.compile_expression(condition).map_err(fail)?;
        if self.lacks(expression.undeclared_variables(true)) {
            return Ok(None);
        }
        Ok(Some(expression.eval(self.variables.clone()).map_err(fail)?.is_true()))
    }

    /// Whether a knob among the names has no value.
    fn lacks(&self, names: impl IntoIterator<Item = String>) -> bool {
        names
            .into_iter()
            .any(|name| name.strip_prefix("knobs.").is_some_and(|knob| !self.knobs.contains_key(knob)))
    }
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
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn plan(launch: &str) -> EnginePlan {
        let launch: toml::Table = toml::from_str(&format!("launch = {launch}")).unwrap();
        EnginePlan {
            launch: launch["launch"].clone().try_into().unwrap(),
            shell: false,
            model: Some("m 1".to_owned()),
            host: "127.0.0.1".to_owned(),
            port: None,
            folder: None,
            env: BTreeMap::new(),
            knobs: BTreeMap::new(),
            ready: Vec::new(),
            start_seconds: 1.0,
            stop: None,
            stop_seconds: 1.0,
            detached: false,
            warmup: 0,
            reset: None,
        }
    }

    fn command(launch: &str, knobs: &[(&str, KnobValue)]) -> Result<Vec<String>, TemplateError> {
        let knobs = knobs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let launching = Launching { port: 81, id: "x-1", plimsoll: "/bin/plimsoll", knobs: &knobs };
        plan(launch).command(&launching)
    }

    #[test]
    fn an_argument_is_never_split_or_joined() {
        let words = command("['a', '{{ model }}', '--port={{ port }}', '{\"json\": 1}', '']", &[]).unwrap();
        assert_eq!(words, ["a", "m 1", "--port=81", "{\"json\": 1}", ""]);
        assert_eq!(shown(&words), "a 'm 1' --port=81 '{\"json\": 1}' ''");
    }

    #[test]
    fn a_knob_without_a_value_drops_its_whole_group() {
        let launch = "['a', ['--seqs', '{{ knobs.seqs }}'], '--util={{ knobs.util }}', '-x']";
        assert_eq!(command(launch, &[]).unwrap(), ["a", "-x"]);
        let set = [("seqs", KnobValue::Int(8)), ("util", KnobValue::Float(0.9))];
        assert_eq!(command(launch, &set).unwrap(), ["a", "--seqs", "8", "--util=0.9", "-x"]);
    }

    #[test]
    fn a_flag_chooses_between_two_lists() {
        let launch = "['a', {when = 'knobs.cache', args = ['--cache'], else = ['--no-cache']}]";
        assert_eq!(command(launch, &[("cache", KnobValue::Flag(true))]).unwrap(), ["a", "--cache"]);
        assert_eq!(command(launch, &[("cache", KnobValue::Flag(false))]).unwrap(), ["a", "--no-cache"]);
        assert_eq!(command(launch, &[]).unwrap(), ["a"]);
        let launch = "['a', {when = \"knobs.kind == 'fp8'\", args = ['-8']}]";
        assert_eq!(command(launch, &[("kind", KnobValue::Choice("fp8".to_owned()))]).unwrap(), ["a", "-8"]);
    }

    #[test]
    fn an_unknown_name_and_a_broken_template_are_named_before_any_launch() {
        let error = plan("['a', '{{ prot }}']").check_templates().unwrap_err().to_string();
        assert!(error.starts_with("`{{ prot }}`: nothing is called `prot`; there are `port`"), "{error}");
        let error = plan("['a', '{{ port ']").check_templates().unwrap_err().to_string();
        assert!(error.starts_with("`{{ port `: "), "{error}");
        let error = plan("[{when = 'knobs.a &', args = []}]").check_templates().unwrap_err().to_string();
        assert!(error.starts_with("`knobs.a &`: "), "{error}");
        let mut without_model = plan("['{{ model }}']");
        without_model.model = None;
        let error = without_model.check_templates().unwrap_err().to_string();
        assert!(error.contains("neither `engine.model` nor"), "{error}");
    }

    #[test]
    fn a_plan_survives_its_file() {
        let plan = plan("['a', ['-b', '{{ port }}'], {when = 'knobs.c', args = ['-c'], else = ['-d']}]");
        let text = toml::to_string(&plan).unwrap();
        assert_eq!(toml::from_str::<EnginePlan>(&text).unwrap(), plan, "{text}");
    }
}
