//! What kind of server it is: it decides how an exact output length is asked for.

use serde_json::Value;

use crate::plan::Engine;
use crate::target::models::Model;
use crate::target::web::Web;

/// What is known of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) engine: Engine,
    pub(super) version: Option<String>,
    /// Context length of one request as the engine itself tells it, tokens.
    pub(super) context: Option<u32>,
    pub(super) notes: Vec<String>,
}

/// The engine's name as people write it.
pub(super) fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Vllm => "vLLM",
        Engine::Sglang => "SGLang",
        Engine::LlamaServer => "llama-server",
        Engine::TensorrtLlm => "TensorRT-LLM",
        Engine::Simulated => "the simulated engine",
        Engine::Generic => "an unknown engine",
    }
}

/// Finds out what serves `model`. `told` is believed; what the server says of itself is then noted
/// where it differs.
pub(super) async fn identify(web: &Web, model: Option<&Model>, told: Option<Engine>) -> Identity {
    let seen = match model.and_then(|model| model.owned_by.as_deref()).and_then(by_owner) {
        Some(engine) => engine,
        None => by_pages(web).await,
    };
    let engine = told.unwrap_or(seen);
    let mut identity = Identity { engine, version: None, context: None, notes: Vec::new() };
    if engine != seen && seen != Engine::Generic {
        identity.notes.push(format!(
            "requests are made for {}, as told; the server looks like {}",
            name(engine),
            name(seen)
        ));
    }
    match seen {
        Engine::Vllm | Engine::TensorrtLlm | Engine::Simulated => {
            let document = json(web, "/version").await;
            identity.version = document.and_then(|document| text(&document, "/version"));
        }
        Engine::LlamaServer => {
            if let Some(props) = json(web, "/props").await {
                identity.version = text(&props, "/build_info");
                // The context of one slot, which is what one request can have.
                identity.context = number(&props, "/default_generation_settings/n_ctx");
                if let Some(slots) = number(&props, "/total_slots") {
                    identity.notes.push(format!("the server has {slots} slots"));
                }
            }
        }
        Engine::Sglang => {
            if let Some(info) = server_info(web).await {
                identity.version = text(&info, "/version");
                identity.context = number(&info, "/context_length");
            }
        }
        Engine::Generic => {}
    }
    identity
}

/// By the owner that the engine writes into its list of models.
fn by_owner(owner: &str) -> Option<Engine> {
    match owner.to_ascii_lowercase().as_str() {
        "vllm" => Some(Engine::Vllm),
        "sglang" => Some(Engine::Sglang),
        "llamacpp" | "llama.cpp" => Some(Engine::LlamaServer),
        "tensorrt_llm" | "tensorrt-llm" | "trtllm" => Some(Engine::TensorrtLlm),
        "plimsoll" => Some(Engine::Simulated),
        _ => None,
    }
}

/// By pages that only one engine has, the plainest first.
async fn by_pages(web: &Web) -> Engine {
    if let Some(page) = web.side_page("/metrics").await
        && let Some(engine) = by_metrics(&String::from_utf8_lossy(&page.body))
    {
        // The simulated engine has vLLM's metrics; its `/version` says which of the two it is.
        return if engine == Engine::Vllm && is_simulated(web).await { Engine::Simulated } else { engine };
    }
    if let Some(props) = json(web, "/props").await
        && props.get("default_generation_settings").is_some()
    {
        return Engine::LlamaServer;
    }
    if let Some(info) = server_info(web).await
        && info.get("version").is_some()
    {
        return Engine::Sglang;
    }
    match json(web, "/version").await {
        Some(document) if text(&document, "/engine").as_deref() == Some("plimsoll-simulated") => {
            Engine::Simulated
        }
        // vLLM answers with the version alone; others that have this page say more.
        Some(Value::Object(fields)) if fields.len() == 1 && fields.contains_key("version") => Engine::Vllm,
        _ => Engine::Generic,
    }
}

async fn is_simulated(web: &Web) -> bool {
    let document = json(web, "/version").await;
    document.is_some_and(|document| text(&document, "/engine").as_deref() == Some("plimsoll-simulated"))
}

/// By the prefix of the metrics' names.
fn by_metrics(page: &str) -> Option<Engine> {
    let prefixes = [
        ("vllm:", Engine::Vllm),
        ("sglang:", Engine::Sglang),
        ("llamacpp:", Engine::LlamaServer),
        ("trtllm", Engine::TensorrtLlm),
    ];
    let names = page.lines().filter(|line| !line.starts_with('#'));
    names
        .flat_map(|line| prefixes.iter().filter(move |(prefix, _)| line.starts_with(prefix)))
        .map(|&(_, engine)| engine)
        .next()
}

async fn server_info(web: &Web) -> Option<Value> {
    match json(web, "/get_server_info").await {
        Some(info) => Some(info),
        None => json(web, "/server_info").await,
    }
}

async fn json(web: &Web, path: &str) -> Option<Value> {
    web.side_page(path).await?.json()
}

fn text(document: &Value, place: &str) -> Option<String> {
    document.pointer(place)?.as_str().map(str::to_owned)
}

fn number(document: &Value, place: &str) -> Option<u32> {
    let number = document.pointer(place)?.as_u64()?;
    u32::try_from(number).ok().filter(|&number| number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_tell_engines_by_their_prefix() {
        let cases = [
            ("# HELP vllm:x y\nvllm:num_requests_running{model=\"m\"} 0", Some(Engine::Vllm)),
            ("python_gc_objects 1\nsglang:num_running_reqs 0", Some(Engine::Sglang)),
            ("llamacpp:requests_processing 0", Some(Engine::LlamaServer)),
            ("trtllm_e2e_request_latency_seconds_count 0", Some(Engine::TensorrtLlm)),
            ("# only a comment about vllm:\ntgi_queue_size 0", None),
            ("", None),
        ];
        for (page, engine) in cases {
            assert_eq!(by_metrics(page), engine, "{page}");
        }
    }
}
