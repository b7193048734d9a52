//! The plan's words for an endpoint -> how it is reached: secrets come from the environment, the
//! certificate authority from its file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::loadgen::{Address, ClientError, ClientOptions, Secret};
use crate::plan::{EndpointPlan, Engine};
use crate::target::TargetError;

/// Looks an environment variable up.
pub(super) type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// How the endpoint is reached; model and engine as far as the plan names them.
pub(super) fn options(
    plan: &EndpointPlan,
    environment: Environment<'_>,
) -> Result<ClientOptions, TargetError> {
    let url = plan.url.trim();
    let address = Address::parse(url).map_err(|error| match error {
        ClientError::Url { url, reason } => TargetError::Url { url, reason },
        other => other.into(),
    })?;
    let mut options = ClientOptions::new(address.root(), plan.model.clone().unwrap_or_default());
    options.api = plan.api;
    options.engine = plan.engine.unwrap_or(Engine::Generic);
    options.streaming = plan.streaming;
    options.timeout = Duration::try_from_secs_f64(plan.timeout_seconds)
        .ok()
        .filter(|timeout| !timeout.is_zero())
        .unwrap_or(options.timeout);
    if let Some(name) = &plan.api_key_env {
        options.api_key = Some(Secret::new(variable(name, "`api_key_env`", environment)?));
    }
    for (name, value) in &plan.headers {
        let value = filled_in(value, &format!("header `{name}`"), environment)?;
        options.headers.insert(name.clone(), Secret::new(value));
    }
    options.extra_body = extra_body(&plan.extra_body, environment)?;
    if let Some(path) = &plan.ca_file {
        let fail = |reason: String| TargetError::CaFile { path: path.clone(), reason };
        options.ca_pem = Some(std::fs::read(path).map_err(|error| fail(error.to_string()))?);
    }
    // What cannot be a header is said now and not by the first request.
    options.header_map()?;
    Ok(options)
}

/// The value of a variable, which must hold something.
fn variable(name: &str, place: &str, environment: Environment<'_>) -> Result<String, TargetError> {
    let fail = |problem| TargetError::Variable { name: name.to_owned(), place: place.to_owned(), problem };
    // A key read from a file often bears a line end, which no header may have.
    let value = environment(name).ok_or_else(|| fail("is not set"))?.trim().to_owned();
    if value.is_empty() { Err(fail("is empty")) } else { Ok(value) }
}

/// The text with each `${NAME}` replaced by the variable's value.
pub(super) fn filled_in(
    text: &str,
    place: &str,
    environment: Environment<'_>,
) -> Result<String, TargetError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let after = &rest[start + 2..];
        let name = after.find('}').map(|end| &after[..end]).filter(|name| is_name(name));
        let Some(name) = name else {
            filled.push_str(&rest[..start + 2]);
            rest = after;
            continue;
        };
        filled.push_str(&rest[..start]);
        filled.push_str(&variable(name, place, environment)?);
        rest = &after[name.len() + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Fields of the body; a text that is nothing but `${NAME}` stands for the variable's value. Other
/// texts stay: a template may hold `${` for reasons of its own.
fn extra_body(
    fields: &BTreeMap<String, Value>,
    environment: Environment<'_>,
) -> Result<BTreeMap<String, Value>, TargetError> {
    let mut filled = fields.clone();
    for (field, value) in &mut filled {
        if let Value::String(text) = value
            && let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
            && is_name(name)
        {
            *value = Value::String(variable(name, &format!("`extra_body.{field}`"), environment)?);
        }
    }
    Ok(filled)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
