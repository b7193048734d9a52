//! The body of a request, made ahead of its send.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::loadgen::options::{ClientError, ClientOptions};
use crate::loadgen::talk::Talk;
use crate::plan::{Api, Engine};
use crate::workload::{Pause, RequestSpec};

/// Which turn of which conversation a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnOf {
    /// The conversation, numbered within the run.
    pub session: u64,
    /// The turn, from 1.
    pub turn: u32,
}

/// A request whose bytes are ready to go out.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Number of the request within the run; of a turn of a conversation it is given when it is sent.
    pub id: u64,
    /// Prompt length asked for, tokens.
    pub isl: u32,
    /// Output length asked for, tokens.
    pub osl: u32,
    /// The body as it goes out.
    pub body: Bytes,
    /// How long its user pauses around it.
    pub pause: Pause,
    /// Which turn of a conversation it is, where it is one.
    pub turn: Option<TurnOf>,
    /// What comes after it.
    pub(crate) talk: Option<Box<Talk>>,
}

impl Prepared {
    /// Bytes that wait with it.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.talk.as_ref().map_or(0, |talk| talk.bytes())
    }
}

/// Everything of a body that is the same for all requests.
#[derive(Clone, Debug)]
pub(crate) struct BodyTemplate {
    api: Api,
    before_prompt: &'static str,
    after_prompt: &'static str,
    min_tokens: bool,
    /// The fields that never change, from the comma before them to the closing brace.
    tail: String,
}

impl BodyTemplate {
    /// The template for an endpoint.
    pub(crate) fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        for (field, instead) in [
            ("model", "set the model"),
            ("messages", "set the workload"),
            ("prompt", "set the workload"),
            ("stream", "set `streaming`"),
            ("max_tokens", "set the output length"),
            ("min_tokens", "set the output length"),
        ] {
            if options.extra_body.contains_key(field) {
                return Err(ClientError::Reserved { field: field.to_owned(), instead });
            }
        }
        let mut fields = Map::new();
        fields.insert("model".to_owned(), Value::from(options.model.as_str()));
        fields.insert("stream".to_owned(), Value::from(options.streaming));
        if options.streaming {
            fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        if options.engine != Engine::Generic {
            fields.insert("ignore_eos".to_owned(), Value::from(true));
        }
        fields.extend(options.extra_body.iter().map(|(field, value)| (field.clone(), value.clone())));
        let fields = Value::Object(fields).to_string();
        let (before_prompt, after_prompt) = match options.api {
            Api::Chat => (r#"{"messages":[{"role":"user","content":"#, "}]"),
            Api::Completions => (r#"{"prompt":"#, ""),
        };
        Ok(Self {
            api: options.api,
            before_prompt,
            after_prompt,
            min_tokens: matches!(options.engine, Engine::Vllm | Engine::TensorrtLlm | Engine::Simulated),
            tail: format!(",{}", fields.trim_start_matches('{')),
        })
    }

    /// The bytes of one request.
    pub(crate) fn prepare(&self, spec: &RequestSpec) -> Prepared {
        let body = match &spec.messages {
            Some(messages) if self.api == Api::Chat => self.whole(r#"{"messages":"#, messages, "", spec.osl),
            _ => {
                let prompt = Value::from(spec.prompt.as_str()).to_string();
                self.whole(self.before_prompt, &prompt, self.after_prompt, spec.osl)
            }
        };
        let RequestSpec { id, isl, osl, pause, .. } = *spec;
        Prepared { id, isl, osl, body, pause, turn: None, talk: None }
    }

    /// The bytes of a chat whose messages stand between the brackets of their list already.
    pub(crate) fn chat(&self, messages: &str, osl: u32) -> Bytes {
        self.whole(r#"{"messages":["#, messages, "]", osl)
    }

    fn whole(&self, before: &str, middle: &str, after: &str, osl: u32) -> Bytes {
        let mut body = String::with_capacity(middle.len() + self.tail.len() + 128);
        body.push_str(before);
        body.push_str(middle);
        body.push_str(after);
        body.push_str(&format!(",\"max_tokens\":{osl}"));
        if self.min_tokens {
            body.push_str(&format!(",\"min_tokens\":{osl}"));
        }
        body.push_str(&self.tail);
        Bytes::from(body)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn body(change: impl FnOnce(&mut ClientOptions)) -> Value {
        let mut options = ClientOptions::new("http://127.0.0.1:1", "tiny \"m\"");
        change(&mut options);
        let spec = RequestSpec::new(1, "say \"hi\"\n世界".to_owned(), 4, 16);
        serde_json::from_slice(&BodyTemplate::new(&options).unwrap().prepare(&spec).body).unwrap()
    }

    #[test]
    fn an_exact_length_is_asked_for_as_each_engine_takes_it() {
        let cases = [
            (Engine::Vllm, true, true),
            (Engine::TensorrtLlm, true, true),
            (Engine::Simulated, true, true),
            (Engine::Sglang, true, false),
            (Engine::LlamaServer, true, false),
            (Engine::Generic, false, false),
        ];
        for (engine, ignore_eos, min_tokens) in cases {
            let body = body(|options| options.engine = engine);
            assert_eq!(body["max_tokens"], 16, "{engine:?}");
            assert_eq!(body["ignore_eos"] == true, ignore_eos, "{engine:?}");
            assert_eq!(body["min_tokens"] == 16, min_tokens, "{engine:?}");
            assert_eq!(body.get("ignore_eos").is_some(), ignore_eos, "{engine:?}");
        }
    }

    #[test]
    fn chat_and_completions_bear_the_prompt_where_it_belongs() {
        let chat = body(|_| {});
        assert_eq!(chat["messages"], json!([{"role": "user", "content": "say \"hi\"\n世界"}]));
        assert_eq!(chat["model"], "tiny \"m\"");
        assert_eq!(chat["stream_options"], json!({"include_usage": true}));
        let plain = body(|options| {
            options.api = Api::Completions;
            options.streaming = false;
        });
        assert_eq!(plain["prompt"], "say \"hi\"\n世界");
        assert_eq!(plain["stream"], false);
        assert!(plain.get("stream_options").is_none());
    }

    #[test]
    fn messages_of_a_dataset_go_out_as_they_are() {
        let messages = r#"[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]"#;
        let spec = RequestSpec {
            messages: Some(messages.to_owned()),
            ..RequestSpec::new(1, "be brief\nhi".to_owned(), 3, 16)
        };
        let mut options = ClientOptions::new("http://127.0.0.1:1", "m");
        let body = |options: &ClientOptions| -> Value {
            serde_json::from_slice(&BodyTemplate::new(options).unwrap().prepare(&spec).body).unwrap()
        };
        assert_eq!(body(&options)["messages"], serde_json::from_str::<Value>(messages).unwrap());
        assert_eq!(body(&options)["max_tokens"], 16);
        options.api = Api::Completions;
        assert_eq!(body(&options)["prompt"], "be brief\nhi");
    }

    #[test]
    fn extra_fields_are_added_and_cannot_break_the_measurement() {
        let body = body(|options| {
            options.extra_body.insert("temperature".to_owned(), json!(0.5));
            options.extra_body.insert("stream_options".to_owned(), json!({"include_usage": false}));
        });
        assert_eq!(body["temperature"], 0.5);
        assert_eq!(body["stream_options"], json!({"include_usage": false}));
        let mut options = ClientOptions::new("http://127.0.0.1:1", "m");
        options.extra_body.insert("max_tokens".to_owned(), json!(1));
        let message = BodyTemplate::new(&options).unwrap_err().to_string();
        assert!(message.contains("extra_body.max_tokens"), "{message}");
    }
}
