//! Entries that hold texts.

use serde_json::Value;

use super::{Entry, Message};

/// A conversation of ShareGPT's form: its first question and the answer to it. None without a question.
pub(super) fn sharegpt(value: &Value) -> Result<Option<Entry>, String> {
    let turns = ["conversations", "conversation"].iter().find_map(|name| value.get(name));
    let turns = turns.and_then(Value::as_array).ok_or("it has no list `conversations`")?;
    let turn = |turn: &Value| -> Result<(String, String), String> {
        let text = |names: [&str; 2]| names.iter().find_map(|name| turn.get(name)?.as_str());
        match (text(["from", "role"]), text(["value", "content"])) {
            (Some(from), Some(value)) => Ok((role(from).to_owned(), value.to_owned())),
            _ => Err("a turn has no texts `from` and `value`".to_owned()),
        }
    };
    let turns: Vec<(String, String)> = turns.iter().map(turn).collect::<Result<_, _>>()?;
    let Some(asked) = turns.iter().position(|(role, text)| role == "user" && !text.trim().is_empty()) else {
        return Ok(None);
    };
    let mut messages: Vec<Message> = turns[..asked]
        .iter()
        .filter(|(role, _)| role == "system")
        .map(|(role, content)| Message { role: role.clone(), content: content.clone() })
        .collect();
    messages.push(Message { role: "user".to_owned(), content: turns[asked].1.clone() });
    let answer = turns.get(asked + 1).filter(|(role, text)| role == "assistant" && !text.trim().is_empty());
    Ok(Some(Entry { messages, answer: answer.map(|(_, text)| text.clone()), ..Entry::default() }))
}

fn role(name: &str) -> &str {
    match name {
        "human" | "user" => "user",
        "gpt" | "chatgpt" | "bing" | "bard" | "model" | "assistant" => "assistant",
        other => other,
    }
}

/// A line with `messages` (all up to the last question are sent; the answer after it gives the output
/// length) or with `prompt` (and `completion`, `response` or `output`). None without a question.
pub(super) fn openai(value: &Value) -> Result<Option<Entry>, String> {
    let tokens = |names: &[&str]| {
        let found = names.iter().find_map(|name| value.get(name).or_else(|| value.get("usage")?.get(name)));
        found.and_then(Value::as_u64).and_then(|tokens| u32::try_from(tokens).ok())
    };
    let osl = tokens(&["completion_tokens", "output_tokens", "output_length", "osl", "max_tokens"]);
    // A batch file holds the request within its `body`.
    let inner = value.get("body").unwrap_or(value);
    if let Some(messages) = inner.get("messages") {
        let messages = messages.as_array().ok_or("`messages` is no list")?;
        let mut messages: Vec<Message> = messages.iter().map(message).collect::<Result<_, _>>()?;
        let Some(asked) = messages.iter().rposition(|message| message.role == "user") else {
            return Ok(None);
        };
        let answer = messages.get(asked + 1).filter(|message| message.role == "assistant");
        let answer = answer.map(|message| message.content.clone());
        messages.truncate(asked + 1);
        return Ok(Some(Entry {
            osl: osl.or_else(|| body_osl(inner)),
            messages,
            answer,
            ..Entry::default()
        }));
    }
    let Some(prompt) = inner.get("prompt") else {
        return Err("it has neither `messages` nor `prompt`".to_owned());
    };
    let prompt = prompt.as_str().ok_or("`prompt` is no text")?;
    if prompt.trim().is_empty() {
        return Ok(None);
    }
    let answer =
        ["completion", "response", "output", "answer"].iter().find_map(|name| value.get(name)?.as_str());
    let messages = vec![Message { role: "user".to_owned(), content: prompt.to_owned() }];
    let answer = answer.map(str::to_owned);
    Ok(Some(Entry { osl: osl.or_else(|| body_osl(inner)), messages, answer, ..Entry::default() }))
}

fn body_osl(body: &Value) -> Option<u32> {
    let tokens = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body.get(name)?.as_u64());
    tokens.and_then(|tokens| u32::try_from(tokens).ok())
}

/// A message whose content is a text, or a list of parts of which the texts are taken.
fn message(value: &Value) -> Result<Message, String> {
    let role = value.get("role").and_then(Value::as_str).ok_or("a message has no `role`")?;
    let content = match value.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        Some(Value::Null) | None => String::new(),
        Some(_) => return Err("a message's `content` is neither a text nor a list".to_owned()),
    };
    Ok(Message { role: role.to_owned(), content })
}
