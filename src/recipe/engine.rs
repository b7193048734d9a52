//! The engine to launch, as written: `[engine]` of a recipe, `--launch` and `--set`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

use super::error::{RecipeError, closest};
use super::quantity::Duration;
use crate::plan::{Argument, EnginePlan, Launching, Reset};
use crate::space::KnobValue;

/// Longest from the launch to the first good completion: large models load for minutes.
const START: f64 = 600.0;
/// Time for a clean end, seconds.
const STOP: f64 = 30.0;
/// Paths that say whether an engine is up: most have the first, all that can be measured the second.
const READY: [&str; 2] = ["/health", "/v1/models"];

/// An engine that is launched before the run and stopped after it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSection {
    /// The command: a list of arguments, each a template (`{{ port }}`, `{{ model }}`,
    /// `{{ knobs.<name> }}`), or one text such as `llama-server -m x.gguf --port {port}`.
    pub launch: Option<Launch>,
    /// Give the text to `sh -c`; no shell is used otherwise.
    pub shell: Option<bool>,
    /// `{{ model }}` of the templates; `target.model` (`--model`) if left out.
    pub model: Option<String>,
    /// `{{ host }}`: the address to listen on; 127.0.0.1 if left out.
    pub host: Option<String>,
    /// `{{ port }}`; a free one of this machine if left out.
    pub port: Option<u16>,
    /// Working folder; a relative path starts at the recipe's folder.
    pub folder: Option<String>,
    /// Environment beside the caller's; `${NAME}` in a value stands for the caller's variable.
    pub env: Option<BTreeMap<String, String>>,
    /// Values of the templates' `{{ knobs.<name> }}`; an argument whose knob has no value is left out.
    pub set: Option<BTreeMap<String, KnobValue>>,
    /// Paths asked until one is answered with success; `/health`, then `/v1/models` if left out.
    pub ready: Option<Vec<String>>,
    /// Longest from the launch to the first good completion; 10 minutes if left out.
    pub start_timeout: Option<Duration>,
    /// A command that ends what the first one started elsewhere (a container, a batch job).
    pub stop: Option<Launch>,
    /// Time for a clean end before `SIGKILL`; 30 seconds if left out.
    pub stop_timeout: Option<Duration>,
    /// The command may end while the engine goes on elsewhere; needs `stop`.
    pub detached: Option<bool>,
    /// Requests sent one after the other before the first load; none if left out.
    pub warmup: Option<u32>,
    /// Done before each load, while nothing is in flight: `POST /path`, or a command.
    pub reset: Option<ResetText>,
}

/// A command as written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Launch {
    /// One text, split as a shell would; `{port}` stands for `{{ port }}`.
    Text(String),
    /// Arguments, groups of arguments that are left out together, conditions.
    List(Vec<Argument>),
}

/// A reset as written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ResetText {
    /// `POST /path`, or a command as one text.
    Text(String),
    /// A command.
    List(Vec<Argument>),
}

impl EngineSection {
    /// Whether there is an engine to launch.
    pub fn is_given(&self) -> bool {
        self.launch.is_some()
    }

    /// Takes what flags say. A command named there replaces the recipe's engine, but for the values of
    /// its knobs, which add up.
    pub(super) fn change_by(&mut self, flags: Self) {
        if flags.launch.is_some() {
            let set = self.set.take();
            *self = Self { launch: flags.launch, set, ..Self::default() };
        }
        if let Some(set) = flags.set {
            self.set.get_or_insert_default().extend(set);
        }
        if flags.start_timeout.is_some() {
            self.start_timeout = flags.start_timeout;
        }
    }

    /// Checks what can be checked before a launch.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        let Some(plan) = self.clone().into_plan()? else { return Ok(()) };
        plan.check_templates().map_err(|error| RecipeError::new(format!("`engine`: {error}")))?;
        let mentioned = plan.launch_knobs().union(&plan.reset_knobs()).cloned().collect::<BTreeSet<_>>();
        if let Some(name) = plan.knobs.keys().find(|name| !mentioned.contains(*name)) {
            let error =
                RecipeError::new(format!("`engine.set.{name}` (`--set`) is used by no template of `engine`"));
            return Err(match closest(name, mentioned.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!(
                    "name it in `engine.launch`: `[\"--{}\", \"{{{{ knobs.{name} }}}}\"]`",
                    name.replace('_', "-")
                )),
            });
        }
        Ok(())
    }

    /// A URL that may name the port, with the port filled in.
    pub(super) fn url_with(&self, url: &str, port: u16) -> Result<String, RecipeError> {
        let Some(plan) = self.clone().into_plan()? else { return Ok(url.to_owned()) };
        let launching = Launching { port, id: "id", plimsoll: "plimsoll", knobs: &plan.knobs };
        plan.text(url, &launching).map_err(|error| RecipeError::new(format!("`target.url`: {error}")))
    }

    /// The plan, if there is an engine to launch.
    pub(super) fn into_plan(self) -> Result<Option<EnginePlan>, RecipeError> {
        let Some(launch) = self.launch else {
            return match self.first_field() {
                None => Ok(None),
                Some(field) => Err(RecipeError::new(format!(
                    "`engine.{field}` is given, but no `engine.launch` (`--launch`)"
                ))
                .hint("for example `launch = [\"llama-server\", \"-m\", \"x.gguf\", \"--port\", \"{{ port }}\"]`")),
            };
        };
        let shell = self.shell.unwrap_or(false);
        let launch = launch.arguments("engine.launch", shell)?;
        let stop = self.stop.map(|stop| stop.arguments("engine.stop", false)).transpose()?;
        let detached = self.detached.unwrap_or(false);
        if detached && stop.is_none() {
            return Err(RecipeError::new("`engine.detached` is set, but no `engine.stop`").hint(
                "say how the engine is ended, for example `stop = [\"docker\", \"rm\", \"-f\", \"{{ id }}\"]`",
            ));
        }
        let ready = self.ready.unwrap_or_else(|| READY.map(str::to_owned).to_vec());
        if let Some(path) = ready.iter().find(|path| !path.starts_with('/')) {
            return Err(RecipeError::new(format!(
                "`engine.ready`: the path `{path}` does not begin with `/`"
            )));
        }
        if ready.is_empty() {
            return Err(
                RecipeError::new("`engine.ready` is empty").hint("for example `ready = [\"/health\"]`")
            );
        }
        if self.port == Some(0) {
            return Err(RecipeError::new("`engine.port` is 0").hint("leave it out to have a free one chosen"));
        }
        let env = self.env.unwrap_or_default();
        if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(RecipeError::new(format!("`engine.env`: `{name}` is not the name of a variable")));
        }
        let reset = match self.reset {
            None => None,
            Some(ResetText::Text(text)) => Some(match text.strip_prefix("POST ") {
                Some(path) if path.trim().starts_with('/') => Reset::Post(path.trim().to_owned()),
                Some(path) => {
                    return Err(RecipeError::new(format!(
                        "`engine.reset`: the path `{}` does not begin with `/`",
                        path.trim()
                    )));
                }
                None => Reset::Command(Launch::Text(text).arguments("engine.reset", false)?),
            }),
            Some(ResetText::List(list)) => {
                Some(Reset::Command(Launch::List(list).arguments("engine.reset", false)?))
            }
        };
        Ok(Some(EnginePlan {
            launch,
            shell,
            model: self.model,
            host: self.host.unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: self.port,
            folder: self.folder,
            env,
            knobs: self.set.unwrap_or_default(),
            ready,
            start_seconds: self.start_timeout.map_or(START, |Duration(seconds)| seconds),
            stop,
            stop_seconds: self.stop_timeout.map_or(STOP, |Duration(seconds)| seconds),
            detached,
            warmup: self.warmup.unwrap_or(0),
            reset,
        }))
    }

    fn first_field(&self) -> Option<&'static str> {
        let fields = [
            (self.shell.is_some(), "shell"),
            (self.model.is_some(), "model"),
            (self.host.is_some(), "host"),
            (self.port.is_some(), "port"),
            (self.folder.is_some(), "folder"),
            (self.env.is_some(), "env"),
            (self.set.is_some(), "set"),
            (self.ready.is_some(), "ready"),
            (self.start_timeout.is_some(), "start_timeout"),
            (self.stop.is_some(), "stop"),
            (self.stop_timeout.is_some(), "stop_timeout"),
            (self.detached.is_some(), "detached"),
            (self.warmup.is_some(), "warmup"),
            (self.reset.is_some(), "reset"),
        ];
        fields.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}

impl Launch {
    fn arguments(self, field: &str, shell: bool) -> Result<Vec<Argument>, RecipeError> {
        let empty = || Err(RecipeError::new(format!("`{field}` is empty")).hint("give the program first"));
        let list = match self {
            Self::List(_) if shell => {
                return Err(RecipeError::new(format!("`{field}` is a list, but `engine.shell` is set"))
                    .hint("write the shell's command as one text, or leave `shell` out"));
            }
            Self::List(list) => list,
            Self::Text(text) if text.trim().is_empty() => return empty(),
            Self::Text(text) if shell => vec![Argument::Word(spread(&tight(&text)))],
            Self::Text(text) => {
                let words = shlex::split(&tight(&text)).ok_or_else(|| {
                    RecipeError::new(format!("`{field}`: a quote is not closed in `{text}`"))
                })?;
                words.iter().map(|word| Argument::Word(spread(word))).collect()
            }
        };
        match list.first() {
            None => empty(),
            Some(Argument::Word(word)) if word.is_empty() => empty(),
            Some(_) => Ok(list),
        }
    }
}

/// `{{ port }}` written as `{port}`, so that it is one word.
fn tight(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}").filter(|(name, _)| is_name(name.trim())) else {
            break;
        };
        result.push_str(before);
        result.push_str(&format!("{{{}}}", name.trim()));
        rest = after;
    }
    result.push_str(rest);
    result
}

/// `{port}` written as a template: `{{ port }}`. Other braces stay.
fn spread(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        result.push_str(before);
        match after.split_once('}').filter(|(name, _)| is_name(name) && !before.ends_with('$')) {
            Some((name, after)) => {
                result.push_str(&format!("{{{{ {name} }}}}"));
                rest = after;
            }
            None => {
                result.push('{');
                rest = after;
            }
        }
    }
    result.push_str(rest);
    result
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::plan::{Plan, TargetPlan};
    use crate::recipe::{Purpose, Recipe};

    fn plan(text: &str) -> Plan {
        let recipe = Recipe::from_toml(&format!("slo = ['ttft p95 < 1s']\n{text}"), "test.toml").unwrap();
        recipe.into_plan(None, Purpose::Search).unwrap()
    }

    fn problem(text: &str) -> String {
        let error = Recipe::from_toml(text, "test.toml").unwrap_err();
        format!("{}; {}", error.message, error.hint.unwrap_or_default())
    }

    fn words(list: &[&str]) -> Vec<Argument> {
        list.iter().map(|word| Argument::Word((*word).to_owned())).collect()
    }

    #[test]
    fn a_command_in_one_text_is_split_as_a_shell_would() {
        let plan =
            plan("[engine]\nlaunch = \"serve -m 'a b' --port {port} --h={{ host }} {\\\\\\\"a\\\\\\\":1}\"");
        let engine = plan.engine.unwrap();
        let expected = ["serve", "-m", "a b", "--port", "{{ port }}", "--h={{ host }}", "{\"a\":1}"];
        assert_eq!(engine.launch, words(&expected));
        let TargetPlan::Endpoint(endpoint) = plan.target else { panic!("{:?}", plan.target) };
        assert_eq!(endpoint.url, "http://{{ host }}:{{ port }}");
    }

    #[test]
    fn a_shells_text_is_one_argument_and_keeps_the_shells_own_variables() {
        let engine = plan("[engine]\nshell = true\nlaunch = 'A=${B} serve | tee {port}'").engine.unwrap();
        assert_eq!(engine.launch, words(&["A=${B} serve | tee {{ port }}"]));
    }

    #[test]
    fn what_cannot_be_launched_is_named_with_the_mend() {
        for (text, expected) in [
            ("[engine]\nport = 8000", "`engine.port` is given, but no `engine.launch` (`--launch`)"),
            ("[engine]\nlaunch = []", "`engine.launch` is empty"),
            ("[engine]\nlaunch = 'a \"b'", "a quote is not closed"),
            ("[engine]\nlaunch = 'a {prot}'", "nothing is called `prot`"),
            ("[engine]\nlaunch = 'a {model}'", "neither `engine.model` nor"),
            ("[engine]\nlaunch = 'a'\ndetached = true", "`engine.detached` is set, but no `engine.stop`"),
            ("[engine]\nlaunch = 'a'\nready = ['health']", "`health` does not begin with `/`"),
            ("[engine]\nlaunch = ['a']\nshell = true", "is a list, but `engine.shell` is set"),
            ("[engine]\nlaunch = 'a'\nreset = 'POST reset'", "`reset` does not begin with `/`"),
            ("[engine]\nlaunch = 'a {knobs.seqs}'\nset = { seq = 8 }", "did you mean `seqs`?"),
            ("[engine]\nlaunch = 'a'\n[target]\nsimulated = 'small'", "both `engine.launch`"),
            (
                "[engine]\nlaunch = 'a'\n[target]\nurl = 'http://{{ hots }}'",
                "`target.url`: `http://{{ hots }}`",
            ),
        ] {
            let problem = problem(text);
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn a_command_named_by_a_flag_replaces_the_recipes_engine() {
        let written = "[engine]\nlaunch = 'a {knobs.seqs}'\nport = 81\nset = { seqs = 1 }";
        let recipe = |text: &str| Recipe::from_toml(text, "test.toml").unwrap();
        let mut set = Recipe::default();
        set.engine.set = Some([("seqs".to_owned(), KnobValue::Int(2))].into());
        let engine = recipe(written).changed_by(set).engine;
        assert_eq!((engine.port, engine.set.unwrap()["seqs"].clone()), (Some(81), KnobValue::Int(2)));
        let launched = recipe(written).changed_by(recipe("[engine]\nlaunch = 'b {knobs.seqs}'")).engine;
        assert_eq!((launched.port, launched.launch), (None, Some(Launch::Text("b {knobs.seqs}".to_owned()))));
        let url = recipe(written).changed_by(recipe("[target]\nurl = 'http://127.0.0.1:1'")).engine;
        assert_eq!(url, EngineSection::default());
    }

    #[test]
    fn a_reset_is_a_post_or_a_command() {
        let reset =
            |text: &str| plan(&format!("[engine]\nlaunch = 'a'\nreset = {text}")).engine.unwrap().reset;
        assert_eq!(reset("'POST /reset'"), Some(Reset::Post("/reset".to_owned())));
        assert_eq!(reset("'curl {port}'"), Some(Reset::Command(words(&["curl", "{{ port }}"]))));
        assert_eq!(reset("['x', 'y']"), Some(Reset::Command(words(&["x", "y"]))));
    }
}
