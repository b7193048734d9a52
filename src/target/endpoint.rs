//! Everything about a live endpoint that can be known before any load is put on it.

use std::fmt;

use serde::Serialize;

use crate::loadgen::{Address, ClientOptions};
use crate::plan::{Api, EndpointPlan, Engine};
use crate::target::TargetError;
use crate::target::access::{self, Environment};
use crate::target::engine::{self, Identity};
use crate::target::models;
use crate::target::probe::{Probe, probe};
use crate::target::web::Web;
use crate::workload::Counting;

/// A live endpoint that answered one request as it should.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// How the load reaches it.
    pub options: ClientOptions,
    /// What was found there.
    pub description: Description,
}

/// What was found at an endpoint. It holds no secrets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The server's root, without `/v1`.
    pub url: String,
    /// The kind of server.
    pub engine: Engine,
    /// Its version, where it tells it.
    pub engine_version: Option<String>,
    /// The model that is measured.
    pub model: String,
    /// The call that is measured.
    pub api: Api,
    /// Whether answers are streamed.
    pub streaming: bool,
    /// Context length of one request, tokens.
    pub max_context: Option<u32>,
    /// Whether answers bear the server's token counts.
    pub usage: bool,
    /// How prompt tokens are counted, once that is settled.
    pub tokens: Option<Counting>,
    /// What else a reader of the results should know.
    pub notes: Vec<String>,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.url, engine::name(self.engine))?;
        if let Some(version) = &self.engine_version {
            write!(f, " {version}")?;
        }
        let api = match self.api {
            Api::Chat => "chat",
            Api::Completions => "completions",
        };
        let streaming = if self.streaming { "streamed" } else { "not streamed" };
        write!(f, ", model {}, {api}, {streaming}", self.model)?;
        if let Some(context) = self.max_context {
            write!(f, ", context {context} tokens")?;
        }
        if let Some(tokens) = &self.tokens {
            write!(f, "; prompt tokens: {tokens}")?;
        }
        Ok(())
    }
}

/// Finds out what serves at the plan's URL and sends it one request, so that whatever is wrong is
/// said before any load. `lengths` are the workload's longest prompt and longest output, tokens;
/// `needs_streaming` says whether the SLO judges when tokens arrive.
///
/// # Errors
/// When the endpoint cannot be measured as planned: each case of [`TargetError`] says why.
pub async fn discover(
    plan: &EndpointPlan,
    lengths: (u32, u32),
    needs_streaming: bool,
) -> Result<Endpoint, TargetError> {
    discover_with(plan, lengths, needs_streaming, &|name| std::env::var(name).ok()).await
}

/// [`discover`] with an environment of its own.
pub(super) async fn discover_with(
    plan: &EndpointPlan,
    lengths: (u32, u32),
    needs_streaming: bool,
    environment: Environment<'_>,
) -> Result<Endpoint, TargetError> {
    if needs_streaming && !plan.streaming {
        return Err(TargetError::NotStreamed { seen: "whole answers are asked for".to_owned() });
    }
    let mut options = access::options(plan, environment)?;
    let web = Web::new(&options, plan.api_key_env.clone())?;
    let model = models::choose(&web, plan.model.as_deref()).await?;
    if let Some(model) = &model {
        options.model.clone_from(&model.id);
    }
    let Identity { engine, version, context, notes } =
        engine::identify(&web, model.as_ref(), plan.engine).await;
    options.engine = engine;
    let max_context = model.and_then(|model| model.context).or(context);
    check_lengths(lengths, max_context)?;
    let seen = probe(&web, &options).await?;
    if options.streaming && !seen.streamed {
        if needs_streaming {
            return Err(TargetError::NotStreamed {
                seen: "the server answers in one piece although a stream was asked for".to_owned(),
            });
        }
        options.streaming = false;
    }
    let mut description = Description {
        url: Address::parse(&options.url)?.root(),
        engine,
        engine_version: version,
        model: options.model.clone(),
        api: plan.api,
        streaming: options.streaming,
        max_context,
        usage: seen.output_tokens.is_some(),
        tokens: None,
        notes,
    };
    let switched = plan.streaming && !options.streaming;
    description.notes.extend(remarks(&seen, switched, lengths, &description));
    Ok(Endpoint { options, description })
}

fn check_lengths((isl, osl): (u32, u32), context: Option<u32>) -> Result<(), TargetError> {
    match context {
        Some(context) if isl.saturating_add(osl) > context => Err(TargetError::TooLong { isl, osl, context }),
        _ => Ok(()),
    }
}

/// What one answer showed that a reader should know.
fn remarks(seen: &Probe, switched: bool, (isl, osl): (u32, u32), found: &Description) -> Vec<String> {
    let mut notes = Vec::new();
    if switched {
        notes.push(
            "the server answers in one piece although a stream was asked for: measured without streaming"
                .to_owned(),
        );
    }
    match seen.obeyed() {
        None => notes.push("answers bear no token counts (`usage`): chunks are counted instead".to_owned()),
        Some(false) => notes.push(format!(
            "the output length is not obeyed: {} tokens came where {} were asked for, so `osl` is an upper bound",
            seen.output_tokens.unwrap_or(0),
            Probe::asked()
        )),
        Some(true) => {}
    }
    let overhead = seen.prompt_tokens.map(|tokens| tokens.saturating_sub(seen.words));
    if let (Api::Chat, Some(overhead)) = (found.api, overhead) {
        notes.push(format!(
            "a prompt of {} words counts {} tokens with the chat template",
            seen.words,
            seen.words + overhead
        ));
        let room = found.max_context.map(|context| context.saturating_sub(isl.saturating_add(osl)));
        if room.is_some_and(|room| room < overhead) {
            notes.push(format!(
                "the longest request leaves less than the about {overhead} tokens of the chat template free in the context: it may be refused"
            ));
        }
    }
    notes
}
