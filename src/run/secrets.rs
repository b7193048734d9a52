//! What a plan must not tell to whoever reads the run folder.

use serde_json::Value;

use crate::plan::{EnginePlan, Plan, Reset, TargetPlan, hide_in_arguments};

/// Stands in the run folder's files where a secret was left out.
pub const SECRET: &str = "<secret>";

/// The plan as it may be written to a file: the values of headers, body fields and URL parts that
/// carry a secret are replaced by [`SECRET`]. A value that only names an environment variable
/// (`${NAME}`, `Bearer ${NAME}`) stays.
pub fn without_secrets(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    if let TargetPlan::Endpoint(endpoint) = &mut plan.target {
        endpoint.url = hide_in_url(&endpoint.url);
        for (name, value) in &mut endpoint.headers {
            if names_a_secret(name) && !is_reference(value) {
                SECRET.clone_into(value);
            }
        }
        for (name, value) in &mut endpoint.extra_body {
            hide_in_field(name, value);
        }
    }
    if let Some(engine) = &mut plan.engine {
        hide_in_engine(engine);
    }
    if let Some(url) = &mut plan.telemetry.dcgm {
        *url = hide_in_url(url);
    }
    plan
}

fn hide_in_engine(engine: &mut EnginePlan) {
    for (name, value) in &mut engine.env {
        if crate::plan::names_a_secret(name) && !is_reference(value) {
            SECRET.clone_into(value);
        }
    }
    hide_in_arguments(&mut engine.launch, SECRET);
    if let Some(stop) = &mut engine.stop {
        hide_in_arguments(stop, SECRET);
    }
    if let Some(Reset::Command(reset)) = &mut engine.reset {
        hide_in_arguments(reset, SECRET);
    }
}

/// Hides the secrets of a free JSON value, by the names of its fields.
pub(super) fn hide_in_json(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| hide_in_field(name, value)),
        Value::Array(items) => items.iter_mut().for_each(hide_in_json),
        Value::String(text) if text.contains("://") => *text = hide_in_url(text),
        _ => {}
    }
}

/// The places in a plan that was read from a run folder whose secrets must be given anew.
pub fn left_out(plan: &Plan) -> Vec<String> {
    let mut places = Vec::new();
    if let TargetPlan::Endpoint(endpoint) = &plan.target {
        if endpoint.url.contains(SECRET) {
            places.push("the password or key in the URL".to_owned());
        }
        for (name, value) in &endpoint.headers {
            if value == SECRET {
                places.push(format!("header `{name}`"));
            }
        }
        for (name, value) in &endpoint.extra_body {
            if value.to_string().contains(SECRET) {
                places.push(format!("body field `{name}`"));
            }
        }
    }
    if let Some(engine) = &plan.engine {
        let hidden = engine.env.iter().filter(|(_, value)| *value == SECRET);
        places.extend(hidden.map(|(name, _)| format!("variable `{name}` of the engine")));
        if format!("{:?}{:?}{:?}", engine.launch, engine.stop, engine.reset).contains(SECRET) {
            places.push("an argument of the engine's commands".to_owned());
        }
    }
    places
}

fn hide_in_field(name: &str, value: &mut Value) {
    match value {
        Value::String(text) if names_a_secret(name) && !is_reference(text) => SECRET.clone_into(text),
        other => hide_in_json(other),
    }
}

/// Whether a header, field or parameter of this name carries a secret. Names of token counts and
/// special tokens (`max_tokens`, `eos_token`) do not.
fn names_a_secret(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    let parts =
        ["authorization", "api_key", "apikey", "secret", "password", "passwd", "cookie", "credential"];
    let tokens =
        ["access_token", "auth_token", "api_token", "session_token", "security_token", "refresh_token"];
    parts.iter().any(|part| name.contains(part))
        || tokens.iter().any(|token| name.ends_with(token))
        || (name.starts_with("x_") && name.ends_with("_token"))
        || ["token", "auth", "key", "sig", "signature"].contains(&name.as_str())
}

/// Whether a value names an environment variable instead of holding the secret itself.
fn is_reference(value: &str) -> bool {
    let value = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("Basic ")).unwrap_or(value);
    value
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// `http://user:password@host/path?api_key=abc` without the password and the key.
fn hide_in_url(url: &str) -> String {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, Some(query)),
        None => (url, None),
    };
    let mut text = match base.split_once("://") {
        Some((scheme, rest)) => {
            let authority_end = rest.find('/').unwrap_or(rest.len());
            match rest[..authority_end].rsplit_once('@') {
                Some((user, host)) => {
                    let user = match user.split_once(':') {
                        Some((user, _)) => format!("{user}:{SECRET}"),
                        // A user without a password may be a key itself.
                        None => SECRET.to_owned(),
                    };
                    format!("{scheme}://{user}@{host}{}", &rest[authority_end..])
                }
                None => base.to_owned(),
            }
        }
        None => base.to_owned(),
    };
    if let Some(query) = query {
        let kept: Vec<String> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((name, _)) if names_a_secret(name) => format!("{name}={SECRET}"),
                _ => pair.to_owned(),
            })
            .collect();
        text = format!("{text}?{}", kept.join("&"));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn urls_lose_their_password_and_key_and_nothing_else() {
        let cases = [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("http://127.0.0.1:8000/v1?x=1", "http://127.0.0.1:8000/v1?x=1"),
            ("https://me:hunter2@host/v1", "https://me:<secret>@host/v1"),
            ("https://sk-123@host", "https://<secret>@host"),
            ("https://host/v1?api_key=abc&v=2", "https://host/v1?api_key=<secret>&v=2"),
            ("https://host/a@b", "https://host/a@b"),
        ];
        for (url, expected) in cases {
            assert_eq!(hide_in_url(url), expected);
        }
    }

    #[test]
    fn names_of_secrets_are_told_from_names_of_token_counts() {
        for name in
            ["Authorization", "x-api-key", "X-Auth-Token", "Cookie", "token", "client_secret", "access_token"]
        {
            assert!(names_a_secret(name), "{name}");
        }
        for name in
            ["max_tokens", "stop_token_ids", "eos_token", "skip_special_tokens", "user", "x-request-id"]
        {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn a_reference_to_the_environment_is_not_a_secret() {
        for (value, expected) in [
            ("${KEY}", true),
            ("Bearer ${KEY}", true),
            ("Bearer sk-1", false),
            ("$ecret", false),
            ("${}", false),
        ] {
            assert_eq!(is_reference(value), expected, "{value}");
        }
    }

    #[test]
    fn free_json_hides_secrets_at_any_depth() {
        let mut value = serde_json::json!({"a": [{"api_key": "x", "max_tokens": 3}], "url": "http://u:p@h"});
        hide_in_json(&mut value);
        let expected =
            serde_json::json!({"a": [{"api_key": SECRET, "max_tokens": 3}], "url": "http://u:<secret>@h"});
        assert_eq!(value, expected);
    }
}
