//! Where in a recipe an error lies, in words.

use super::error::{RecipeError, closest};

/// Turns an error of the TOML reader into one that names the file, the line and the field.
pub(super) fn explain(mut error: toml::de::Error, text: &str, origin: &str) -> RecipeError {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let line = line.map_or_else(String::new, |line| format!(", line {line}"));
    let message = error.message().to_owned();
    // The reader tells the path of the field only when it does not quote the text.
    error.set_input(None);
    let whole = error.to_string();
    let path =
        whole.rsplit_once("in `").and_then(|(_, rest)| rest.trim_end().strip_suffix('`')).unwrap_or("");
    if let Some((seen, known)) = unknown_field(&message) {
        let section = path.strip_suffix(seen).unwrap_or(path).trim_end_matches('.');
        let place = if section.is_empty() { "a recipe".to_owned() } else { format!("`[{section}]`") };
        let list = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        return RecipeError::new(format!("recipe `{origin}`{line}: {place} has no field `{seen}`")).hint(
            match closest(seen, known.iter().copied()) {
                Some(name) => format!("did you mean `{name}`? ({place} has {list})"),
                None => format!("{place} has {list}"),
            },
        );
    }
    let field = if path.is_empty() { String::new() } else { format!(", `{path}`") };
    RecipeError::new(format!("recipe `{origin}`{line}{field}: {message}"))
}

/// The field that is not known and those that are, out of serde's message.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let seen = quoted.next()?;
    Some((seen, quoted.collect()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use crate::recipe::Recipe;

    fn error(text: &str) -> (String, String) {
        let error = Recipe::from_toml(text, "my.toml").unwrap_err();
        (error.message, error.hint.unwrap_or_default())
    }

    #[test]
    fn an_unknown_field_is_named_with_its_line_and_the_likely_one() {
        let (message, hint) = error("seed = 1\n\n[load]\nconcurency = '1..8'\n");
        assert_eq!(message, "recipe `my.toml`, line 4: `[load]` has no field `concurency`");
        assert_eq!(
            hint,
            "did you mean `concurrency`? (`[load]` has `concurrency`, `rate`, `arrivals`, `in_flight_cap`, `series`, \
             `ramp`, `ramp_users`, `replay`, `think`)"
        );
        let (message, hint) = error("sede = 1\n");
        assert_eq!(message, "recipe `my.toml`, line 1: a recipe has no field `sede`");
        assert!(hint.starts_with("did you mean `seed`? (a recipe has `description`, `seed`, "), "{hint}");
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line_its_field_and_the_mend() {
        let (message, _) = error("[load]\nconcurrency = '64..8'\n");
        assert_eq!(
            message,
            "recipe `my.toml`, line 2, `load.concurrency`: `64..8` runs backwards; write `8..64`"
        );
        let (message, _) = error("[target]\n[target.headers]\na = 1\n");
        assert!(
            message.starts_with("recipe `my.toml`, line 3, `target.headers.a`: invalid type: integer `1`"),
            "{message}"
        );
    }

    #[test]
    fn an_objective_that_cannot_be_read_points_at_the_character() {
        let (message, _) = error("slo = ['ttft p95 500ms']\n");
        assert!(message.starts_with("recipe `my.toml`, line 1, `slo`: SLO: "), "{message}");
        assert!(message.contains("^"), "{message}");
    }

    #[test]
    fn broken_toml_is_named_with_its_line() {
        let (message, _) = error("seed = 1\n[load\n");
        assert!(message.starts_with("recipe `my.toml`, line 2: "), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}
