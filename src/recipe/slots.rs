//! The slots of a recipe: places where engines run side by side.

use std::collections::BTreeSet;

use super::engine::EngineSection;
use super::error::RecipeError;
use crate::plan::{EnginePlan, Launching, SLOT_PORT, names_a_secret};
use crate::space::KnobValue;

impl EngineSection {
    /// Whether each slot can have an engine of its own, and all that is said of it is used.
    pub(super) fn check_slots(
        &self,
        plan: &EnginePlan,
        names: &BTreeSet<String>,
        url: &str,
    ) -> Result<(), RecipeError> {
        let used = plan.slot_names(url);
        if let Some(name) = names.iter().find(|name| *name != SLOT_PORT && !used.contains(*name)) {
            return Err(RecipeError::new(format!(
                "`tune.slots`: the value `{name}` is used by no template of `engine`"
            ))
            .hint(format!(
                "name it as `{{{{ slot.{name} }}}}` in `engine.launch` or `engine.env`, for example \
                     `env = {{ CUDA_VISIBLE_DEVICES = \"{{{{ slot.{name} }}}}\" }}`"
            )));
        }
        let mut reached: Vec<String> = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let number = index + 1;
            let secret = |(name, value): &(&String, &KnobValue)| {
                names_a_secret(name) && !value.to_string().starts_with("${")
            };
            if let Some((name, _)) = slot.iter().find(secret) {
                return Err(RecipeError::new(format!(
                    "`tune.slots`, number {number}: `{name}` looks like a secret"
                ))
                .hint("name an environment variable instead (`${NAME}`): the value is written down"));
            }
            if let Some(port) = slot.get(SLOT_PORT)
                && !matches!(port, KnobValue::Int(1..=65535))
            {
                return Err(RecipeError::new(format!(
                    "`tune.slots`, number {number}: `{SLOT_PORT}` is {port}, but a port is a number from 1 to 65535"
                )));
            }
            let plan = plan.clone().on_slot(slot);
            // Free ports differ, whatever they will be.
            let port = plan.port.unwrap_or(number as u16);
            let launching = Launching { port, id: "id", plimsoll: "plimsoll", knobs: &plan.knobs };
            let url = plan
                .text(url, &launching)
                .map_err(|error| RecipeError::new(format!("`target.url`, slot {number}: {error}")))?;
            if let Some(other) = reached.iter().position(|other| *other == url) {
                return Err(RecipeError::new(format!(
                    "slots {} and {number} of `tune.slots` are both reached at `{url}`",
                    other + 1
                ))
                .hint(
                    "leave `engine.port` out to have free ports chosen, give each slot a `port`, or name the slot's host in \
                     `target.url`",
                ));
            }
            reached.push(url);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::recipe::{Purpose, Recipe};

    #[test]
    fn slots_are_told_apart_and_what_they_say_must_be_used() {
        let engine = "[engine]\nlaunch = 'a --gpu {slot.gpu} {port}'\n";
        let slots = "[[tune.slots]]\ngpu = 0\n[[tune.slots]]\ngpu = 1\n";
        let recipe = |text: &str| Recipe::from_toml(&format!("slo = ['ttft p95 < 1s']\n{text}"), "test.toml");
        let plan = recipe(&format!("{engine}{slots}")).unwrap().into_plan(None, Purpose::Search).unwrap();
        assert_eq!(plan.engine.unwrap().slot["gpu"], KnobValue::Int(0), "a search takes the first");
        for (text, expected) in [
            (engine.to_owned(), "the recipe lists no slots"),
            (format!("{engine}{slots}host = 'x'"), "the value `host` is used by no template"),
            (
                format!("{engine}port = 80\n{slots}"),
                "slots 1 and 2 of `tune.slots` are both reached at `http://127.0.0.1:80`",
            ),
            (format!("{engine}{slots}port = 99999"), "number 2: `port` is 99999"),
            (
                format!("{engine}env = {{ K = '{{{{ slot.api_key }}}}' }}\n{slots}api_key = 'abcd'"),
                "looks like a secret",
            ),
            (format!("{engine}host = '{{{{ port }}}}'\n{slots}"), "`engine.host` may name values of a slot"),
            (format!("{engine}{slots}[target]\nurl = 'http://{{{{ slot.host }}}}'"), "`target.url`"),
        ] {
            let problem = recipe(&text).unwrap_err().message;
            assert!(problem.contains(expected), "{text}: {problem}");
        }
        let apart = "[target]\nurl = 'http://{{ slot.host }}:80'\n[[tune.slots]]\nhost = 'a'\n[[tune.slots]]\nhost = 'b'";
        assert!(recipe(&format!("[engine]\nlaunch = 'a'\nport = 80\n{apart}")).is_ok());
        let ports = "port = 80\n[[tune.slots]]\n[[tune.slots]]\nport = 81";
        assert!(recipe(&format!("[engine]\nlaunch = 'a {{port}}'\n{ports}")).is_ok());
    }
}
