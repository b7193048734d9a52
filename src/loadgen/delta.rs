//! One JSON document of the OpenAI API -> what a measurement needs of it.
//!
//! Text is never copied or decoded: it only matters whether there is some. Unknown fields are
//! skipped, absent and `null` fields are the same thing.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What one chunk of a stream (or a whole response) says.
#[derive(Debug, Default, PartialEq)]
pub struct Delta<'a> {
    /// Whether it holds output: content, reasoning, a refusal or a tool call that is not empty. A
    /// chunk that only names the role does not.
    pub output: bool,
    /// The finish reason, where given.
    pub finish: Option<Cow<'a, str>>,
    /// The token counts, where given.
    pub usage: Option<Usage>,
    /// Time that llama.cpp's server spent on the prompt, seconds (`timings.prompt_ms`).
    pub prompt_seconds: Option<f64>,
    /// Whether it is an error and not an answer.
    pub error: bool,
    /// Whether it has the form of an answer at all: choices, usage or an error.
    pub known: bool,
}

/// Token counts as the server made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, with the chat template.
    pub prompt_tokens: Option<u32>,
    /// Tokens of the output so far.
    pub completion_tokens: Option<u32>,
}

/// Reads one document.
///
/// # Errors
/// When it is not JSON, or not of the API's form.
pub fn parse(json: &[u8]) -> Result<Delta<'_>, serde_json::Error> {
    let wire: Wire<'_> = serde_json::from_slice(json)?;
    let choices = wire.choices.unwrap_or_default();
    let error =
        wire.error.is_some_and(|error| error.0) || wire.object.is_some_and(|object| object.0 == "error");
    Ok(Delta {
        output: choices.output,
        finish: choices.finish,
        usage: wire.usage,
        prompt_seconds: wire.timings.and_then(|timings| timings.prompt_ms).map(|ms| ms * 1e-3),
        error,
        known: choices.given || wire.usage.is_some() || error,
    })
}

/// The message of an error document, in whatever of the usual forms it comes; the document itself
/// where there is none.
pub fn error_message(json: &[u8]) -> String {
    let text = || String::from_utf8_lossy(json).trim().to_owned();
    let Ok(document) = serde_json::from_slice::<serde_json::Value>(json) else { return text() };
    let places = ["/error/message", "/error", "/message", "/detail/message", "/detail"];
    let found = places.iter().find_map(|place| document.pointer(place)?.as_str());
    found.map_or_else(text, str::to_owned)
}

/// What the choices of a document say, as texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spoken {
    /// The answer.
    pub content: String,
    /// What a reasoning model thinks before it.
    pub reasoning: String,
}

/// Reads the texts of one document; [`parse`] needs none of them, so that few have to.
///
/// # Errors
/// When it is not JSON.
pub fn spoken(json: &[u8]) -> Result<Spoken, serde_json::Error> {
    let document: serde_json::Value = serde_json::from_slice(json)?;
    let mut spoken = Spoken::default();
    for choice in document.get("choices").and_then(serde_json::Value::as_array).into_iter().flatten() {
        let message = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(choice);
        let text = |field: &str| message.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
        spoken.content.push_str(text("content"));
        spoken.content.push_str(text("text"));
        // Some servers send it under both names.
        let reasoning = [text("reasoning_content"), text("reasoning")];
        spoken.reasoning.push_str(reasoning.iter().find(|text| !text.is_empty()).unwrap_or(&""));
    }
    Ok(spoken)
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    choices: Option<Choices<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Filled>,
    #[serde(borrow, default)]
    object: Option<Word<'a>>,
    #[serde(default)]
    timings: Option<Timings>,
}

#[derive(Deserialize)]
struct Timings {
    prompt_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, alias = "message")]
    delta: Option<Message>,
    /// The text of a completion.
    #[serde(default)]
    text: Option<Filled>,
    #[serde(borrow, default)]
    finish_reason: Option<Word<'a>>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<Filled>,
    #[serde(default)]
    reasoning_content: Option<Filled>,
    #[serde(default)]
    reasoning: Option<Filled>,
    #[serde(default)]
    refusal: Option<Filled>,
    #[serde(default)]
    tool_calls: Option<Filled>,
    #[serde(default)]
    function_call: Option<Filled>,
}

impl Message {
    fn output(self) -> bool {
        [
            self.content,
            self.reasoning_content,
            self.reasoning,
            self.refusal,
            self.tool_calls,
            self.function_call,
        ]
        .into_iter()
        .flatten()
        .any(|field| field.0)
    }
}

/// All choices of a chunk, folded while they are read so that no list is allocated.
#[derive(Default)]
struct Choices<'a> {
    given: bool,
    output: bool,
    finish: Option<Cow<'a, str>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fold<'a>(PhantomData<Choices<'a>>);
        impl<'de: 'a, 'a> Visitor<'de> for Fold<'a> {
            type Value = Choices<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Choices<'a>, A::Error> {
                let mut all = Choices { given: true, ..Choices::default() };
                while let Some(choice) = seq.next_element::<Choice<'a>>()? {
                    all.output |=
                        choice.delta.is_some_and(Message::output) || choice.text.is_some_and(|text| text.0);
                    if let Some(Word(finish)) = choice.finish_reason {
                        all.finish = Some(finish);
                    }
                }
                Ok(all)
            }
        }
        deserializer.deserialize_seq(Fold(PhantomData))
    }
}

/// Whether a field holds something: a string, list or object that is not empty.
struct Filled(bool);

impl<'de> Deserialize<'de> for Filled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Filled;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_str<E>(self, text: &str) -> Result<Filled, E> {
                Ok(Filled(!text.is_empty()))
            }

            fn visit_unit<E>(self) -> Result<Filled, E> {
                Ok(Filled(false))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Filled, E> {
                Ok(Filled(value))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Filled, E> {
                Ok(Filled(true))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Filled, E> {
                Ok(Filled(true))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Filled, E> {
                Ok(Filled(true))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Filled, A::Error> {
                let mut any = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    any = true;
                }
                Ok(Filled(any))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Filled, A::Error> {
                let mut any = false;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    any = true;
                }
                Ok(Filled(any))
            }
        }
        deserializer.deserialize_any(Look)
    }
}

/// A string, borrowed where the JSON holds it without escapes (serde borrows no `Option<Cow>`).
struct Word<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Read<'a> {
            type Value = Word<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Word<'a>, E> {
                Ok(Word(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Word<'a>, E> {
                Ok(Word(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Read(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn output(json: &str) -> bool {
        parse(json.as_bytes()).unwrap().output
    }

    #[test]
    fn only_content_reasoning_and_tool_calls_are_output() {
        let silent = [
            r#"{"choices":[{"index":0,"delta":{"role":"assistant"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":null,"tool_calls":[]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{}}]}"#,
            r#"{"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"index":0,"text":""}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
            r#"{"choices":null}"#,
        ];
        for json in silent {
            assert!(!output(json), "{json}");
        }
        let spoken = [
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":" "}}]}"#,
            r#"{"choices":[{"delta":{"content":"\u00e9\n"}}]}"#,
            r#"{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning":"hm"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}"#,
            r#"{"choices":[{"text":"a"}]}"#,
            r#"{"choices":[{"message":{"role":"assistant","content":"whole"}}]}"#,
        ];
        for json in spoken {
            assert!(output(json), "{json}");
        }
    }

    #[test]
    fn usage_finish_and_timings_are_read_wherever_they_stand() {
        let json = br#"{"timings":{"prompt_n":5,"prompt_ms":20.5},"choices":[{"finish_reason":"length","delta":{}}],
            "usage":{"prompt_tokens":7,"completion_tokens":64,"total_tokens":71,"prompt_tokens_details":null}}"#;
        let delta = parse(json).unwrap();
        assert_eq!(delta.finish.as_deref(), Some("length"));
        assert_eq!(delta.usage, Some(Usage { prompt_tokens: Some(7), completion_tokens: Some(64) }));
        assert_eq!(delta.prompt_seconds, Some(0.0205));
        assert!(matches!(delta.finish, Some(Cow::Borrowed(_))));
        assert_eq!(parse(br#"{"choices":[],"usage":null}"#).unwrap().usage, None);
    }

    #[test]
    fn an_error_is_an_error_and_null_is_none() {
        assert!(parse(br#"{"error":{"message":"out of memory","code":500}}"#).unwrap().error);
        assert!(parse(br#"{"error":"overloaded"}"#).unwrap().error);
        assert!(parse(br#"{"object":"error","message":"too long","code":400}"#).unwrap().error);
        assert!(!parse(br#"{"error":null,"object":"chat.completion.chunk","choices":[]}"#).unwrap().error);
        assert!(!parse(br#"{"status":"ok"}"#).unwrap().known);
        assert!(parse(b"<html>").is_err());
    }

    #[test]
    fn an_error_message_is_found_in_every_usual_form() {
        let forms = [
            r#"{"error":{"message":"no room"}}"#,
            r#"{"error":"no room","error_type":"overloaded"}"#,
            r#"{"object":"error","message":"no room"}"#,
            r#"{"detail":"no room"}"#,
            " no room \n",
        ];
        for form in forms {
            assert_eq!(error_message(form.as_bytes()), "no room", "{form}");
        }
    }
}
