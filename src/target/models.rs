//! Which model is measured, by the server's own list.

use std::time::Duration;

use serde_json::Value;

use crate::target::TargetError;
use crate::target::web::{Page, Web, message};

/// Longest wait for the list: the first thing that is asked of a server.
const LIMIT: Duration = Duration::from_secs(30);

/// A model as the server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Model {
    /// Its name in requests.
    pub(super) id: String,
    /// Further names that the server takes for it.
    pub(super) aliases: Vec<String>,
    /// Whose it is; most engines give their own name.
    pub(super) owned_by: Option<String>,
    /// Context length, tokens.
    pub(super) context: Option<u32>,
}

impl Model {
    fn read(value: &Value) -> Option<Self> {
        let texts = |list: &Value| {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Some(Self {
            id: value["id"].as_str()?.to_owned(),
            aliases: texts(&value["aliases"]),
            owned_by: value["owned_by"].as_str().map(str::to_owned),
            context: value["max_model_len"].as_u64().and_then(|tokens| u32::try_from(tokens).ok()),
        })
    }
}

/// The model to be measured: the one named, or the only one there. None where the server keeps no
/// list but a model is named.
pub(super) async fn choose(web: &Web, named: Option<&str>) -> Result<Option<Model>, TargetError> {
    let call = "GET /v1/models";
    let page = web.get_call("models", LIMIT).await?;
    if let Some(refusal) = web.common_refusal(call, &page) {
        return Err(refusal);
    }
    if matches!(page.status.as_u16(), 404 | 405 | 501) {
        return match named {
            Some(_) => Ok(None),
            None => Err(TargetError::NoModel {
                reason: format!("the server keeps no list (`{call}`: {})", web.answer(&page)),
            }),
        };
    }
    let Some(models) = listed(&page) else {
        return Err(TargetError::NotTheApi {
            url: web.root().to_owned(),
            call: call.to_owned(),
            answer: seen(web, &page),
        });
    };
    pick(models, named).map(Some)
}

/// The models of an answer; none where it is not a list of models.
fn listed(page: &Page) -> Option<Vec<Model>> {
    if !page.status.is_success() {
        return None;
    }
    let document = page.json()?;
    // Some gateways answer with the bare list.
    let list = document.get("data").unwrap_or(&document).as_array()?;
    list.iter().map(Model::read).collect()
}

fn pick(models: Vec<Model>, named: Option<&str>) -> Result<Model, TargetError> {
    let names = |models: &[Model]| models.iter().map(|model| model.id.clone()).collect();
    if let Some(name) = named {
        let is_it = |model: &&Model| model.id == name || model.aliases.iter().any(|alias| alias == name);
        return match models.iter().find(is_it) {
            Some(model) => Ok(Model { id: name.to_owned(), ..model.clone() }),
            None => Err(TargetError::UnknownModel { name: name.to_owned(), names: names(&models) }),
        };
    }
    let mut models = models;
    match (models.len(), models.pop()) {
        (1, Some(model)) => Ok(model),
        (_, Some(last)) => {
            models.push(last);
            Err(TargetError::SeveralModels { names: names(&models) })
        }
        (_, None) => Err(TargetError::NoModel { reason: "the server's list of models is empty".to_owned() }),
    }
}

/// What came instead of a list.
fn seen(web: &Web, page: &Page) -> String {
    if !page.status.is_success() {
        return web.answer(page);
    }
    if page.body.trim_ascii().is_empty() {
        return "nothing".to_owned();
    }
    let words = web.words(&message(&page.body));
    match (page.body.trim_ascii_start().first(), page.json()) {
        (Some(b'<'), _) => words,
        (_, Some(_)) => format!("JSON that is no list of models: {words}"),
        (_, None) => format!("a text that is not JSON: {words}"),
    }
}
