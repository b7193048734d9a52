//! Entries that hold texts.

use serde_json::Value;

use super::{Entry, Exchange, Message};

/// Who speaks in the turns of a list in ShareGPT's form, and what.
fn spoken(value: &Value) -> Result<Option<Vec<Message>>, String> {
    let turns = ["conversations", "conversation"].iter().find_map(|name| value.get(name));
    let Some(turns) = turns else { return Ok(None) };
    let turns = turns.as_array().ok_or("it has no list `conversations`")?;
    let turn = |turn: &Value| -> Result<Message, String> {
        let text = |names: [&str; 2]| names.iter().find_map(|name| turn.get(name)?.as_str());
        match (text(["from", "role"]), text(["value", "content"])) {
            (Some(from), Some(value)) => {
                Ok(Message { role: role(from).to_owned(), content: value.to_owned() })
            }
            _ => Err("a turn has no texts `from` and `value`".to_owned()),
        }
    };
    turns.iter().map(turn).collect::<Result<_, _>>().map(Some)
}

/// A conversation of ShareGPT's form: its first question and the answer to it. None without a question.
pub(super) fn sharegpt(value: &Value) -> Result<Option<Entry>, String> {
    let turns = spoken(value)?.ok_or("it has no list `conversations`")?;
    let is_asked = |turn: &Message| turn.role == "user" && !turn.content.trim().is_empty();
    let Some(asked) = turns.iter().position(is_asked) else { return Ok(None) };
    let mut messages: Vec<Message> =
        turns[..asked].iter().filter(|turn| turn.role == "system").cloned().collect();
    messages.push(turns[asked].clone());
    let answer =
        turns.get(asked + 1).filter(|turn| turn.role == "assistant" && !turn.content.trim().is_empty());
    Ok(Some(Entry { messages, answer: answer.map(|turn| turn.content.clone()), ..Entry::default() }))
}

/// A whole conversation of either form, turn by turn. What one side says in several messages is one
/// message; what is neither a user's, an answer nor a system message before the first question is left
/// out. None without a question.
pub(super) fn whole(value: &Value) -> Result<Option<Entry>, String> {
    let inner = value.get("body").unwrap_or(value);
    let list = match (spoken(value)?, inner.get("messages")) {
        (Some(turns), _) => turns,
        (None, Some(messages)) => {
            let messages = messages.as_array().ok_or("`messages` is no list")?;
            messages.iter().map(message).collect::<Result<_, _>>()?
        }
        // A prompt alone is a conversation of one turn.
        (None, None) => return openai(value),
    };
    let mut system = Vec::new();
    let mut turns: Vec<Exchange> = Vec::new();
    for Message { role, content } in list {
        if content.trim().is_empty() {
            continue;
        }
        match (role.as_str(), turns.last_mut()) {
            ("system", None) => system.push(Message { role, content }),
            ("user", Some(Exchange { question, answer: None })) => {
                question.push('\n');
                question.push_str(&content);
            }
            ("user", _) => turns.push(Exchange { question: content, answer: None }),
            ("assistant", Some(Exchange { answer: Some(answer), .. })) => {
                answer.push('\n');
                answer.push_str(&content);
            }
            ("assistant", Some(turn)) => turn.answer = Some(content),
            _ => {}
        }
    }
    let mut turns = turns.into_iter();
    let Some(Exchange { question, answer }) = turns.next() else { return Ok(None) };
    let mut messages = system;
    messages.push(Message { role: "user".to_owned(), content: question });
    Ok(Some(Entry { messages, answer, later: turns.collect(), ..Entry::default() }))
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
