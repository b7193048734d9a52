//! The body of a streamed answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::sim::http::api::{self, Call, Refusal};
use crate::sim::http::faults::Fate;
use crate::sim::http::pump::Update;
use crate::sim::http::ticket::Ticket;

/// A stream of server-sent events, one for each chunk of tokens.
pub(super) struct Answer {
    ticket: Ticket,
    updates: UnboundedReceiver<Update>,
    /// The update that was waited for before the answer began.
    waiting: Option<Update>,
    chunks: Chunks,
    plan: StreamPlan,
    /// Tokens produced, and those of them that were sent.
    produced: u32,
    sent: u32,
    state: State,
    /// What a buffering proxy holds back.
    held: Vec<u8>,
}

/// How a stream is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPlan {
    pub(super) fate: Fate,
    pub(super) prompt_tokens: u32,
    /// Most tokens that may come.
    pub(super) osl: u32,
    /// Whether that length was the client's wish, so that reaching it is a cut.
    pub(super) asked: bool,
    pub(super) tokens_per_chunk: u32,
    pub(super) usage: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// The connection is to be cut once what was written has been flushed.
    Flush,
    /// The connection is cut with the next poll.
    Cut,
    Over,
}

/// The parts of a chunk that are the same in all of a stream.
struct Chunks {
    call: Call,
    head: String,
}

impl Chunks {
    fn new(call: Call, id: &str, created: u64, model: &str) -> Self {
        let object = match call {
            Call::Chat => "chat.completion.chunk",
            Call::Completion => "text_completion",
        };
        let head = format!(
            "data: {{\"id\":{},\"object\":\"{object}\",\"created\":{created},\"model\":{},",
            Value::from(id),
            Value::from(model)
        );
        Self { call, head }
    }

    /// The first chunk of a chat: a role and no text.
    fn role(&self) -> String {
        match self.call {
            Call::Chat => self.choice(r#""delta":{"role":"assistant","content":""},"#, "null"),
            Call::Completion => String::new(),
        }
    }

    /// A chunk of text. The words of an answer need no escapes.
    fn text(&self, text: &str) -> String {
        match self.call {
            Call::Chat => self.choice(&format!(r#""delta":{{"content":"{text}"}},"#), "null"),
            Call::Completion => self.choice(&format!(r#""text":"{text}","#), "null"),
        }
    }

    /// The chunk that says why the answer ends.
    fn finish(&self, reason: &str) -> String {
        let empty = match self.call {
            Call::Chat => r#""delta":{},"#,
            Call::Completion => r#""text":"","#,
        };
        self.choice(empty, &format!("\"{reason}\""))
    }

    fn usage(&self, usage: &Value) -> String {
        format!("{}\"choices\":[],\"usage\":{usage}}}\n\n", self.head)
    }

    fn choice(&self, content: &str, finish: &str) -> String {
        format!(
            "{}\"choices\":[{{\"index\":0,{content}\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n",
            self.head
        )
    }
}

impl Answer {
    /// `first` is the update that showed that the answer begins.
    pub(super) fn new(
        ticket: Ticket,
        updates: UnboundedReceiver<Update>,
        first: Update,
        call: Call,
        model: &str,
        plan: StreamPlan,
    ) -> Self {
        let chunks = Chunks::new(call, &ticket.name(call), ticket.created(), model);
        Self {
            ticket,
            updates,
            waiting: Some(first),
            chunks,
            plan,
            produced: 0,
            sent: 0,
            state: State::Running,
            held: Vec::new(),
        }
    }

    /// Writes what an update brings.
    fn write(&mut self, update: Update, out: &mut String) {
        match update {
            Update::Tokens(count) => {
                self.produced += count;
                if self.produced - self.sent >= self.plan.tokens_per_chunk.max(1) {
                    self.write_tokens(out);
                }
                let half_way = self.sent > 0 && 2 * self.produced >= self.plan.osl;
                match self.plan.fate {
                    Fate::Reset if half_way => self.state = State::Flush,
                    Fate::StreamError if half_way => {
                        out.push_str(&format!("data: {}\n\n", Refusal::failed().body()));
                        self.state = State::Over;
                    }
                    _ => {}
                }
            }
            Update::Done { cached, stopped_early } => {
                if self.produced > self.sent {
                    self.write_tokens(out);
                }
                out.push_str(&self.chunks.finish(finish_reason(stopped_early, self.plan.asked)));
                if self.plan.usage {
                    let usage = api::usage(self.plan.prompt_tokens, self.produced, cached);
                    out.push_str(&self.chunks.usage(&usage));
                }
                out.push_str("data: [DONE]\n\n");
                self.ticket.answered();
                self.state = State::Over;
            }
            Update::Failed => {
                out.push_str(&format!("data: {}\n\n", Refusal::failed().body()));
                self.ticket.answered();
                self.state = State::Over;
            }
        }
    }

    fn write_tokens(&mut self, out: &mut String) {
        if self.sent == 0 {
            out.push_str(&self.chunks.role());
        }
        out.push_str(&self.chunks.text(&api::text(self.sent, self.produced)));
        self.sent = self.produced;
        self.ticket.chunk();
    }
}

/// Why an answer of the full length or less ended.
pub(super) fn finish_reason(stopped_early: bool, asked: bool) -> &'static str {
    if stopped_early || !asked { "stop" } else { "length" }
}

impl Stream for Answer {
    type Item = Result<Bytes, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.state {
                State::Over => return Poll::Ready(None),
                State::Flush => {
                    // A body that waits is flushed; one that fails at once takes it all with it.
                    self.state = State::Cut;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Cut => {
                    self.state = State::Over;
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
                }
                State::Running => {}
            }
            let update = match self.waiting.take() {
                Some(update) => update,
                // The pump has gone: the server closes, and the stream is cut.
                None => match ready!(self.updates.poll_recv(context)) {
                    Some(update) => update,
                    None => {
                        self.state = State::Flush;
                        continue;
                    }
                },
            };
            let mut out = String::new();
            self.write(update, &mut out);
            if self.plan.fate == Fate::Buffered {
                self.held.extend_from_slice(out.as_bytes());
                if self.state == State::Over {
                    return Poll::Ready(Some(Ok(std::mem::take(&mut self.held).into())));
                }
            } else if !out.is_empty() {
                return Poll::Ready(Some(Ok(out.into())));
            }
        }
    }
}

/// The whole answer as one JSON document, for a client that does not stream.
pub(super) async fn whole(
    mut ticket: Ticket,
    mut updates: UnboundedReceiver<Update>,
    call: Call,
    model: &str,
    plan: StreamPlan,
) -> Result<Value, Refusal> {
    let mut produced = 0;
    let (cached, stopped_early) = loop {
        match updates.recv().await {
            Some(Update::Tokens(count)) => produced += count,
            Some(Update::Done { cached, stopped_early }) => break (cached, stopped_early),
            Some(Update::Failed) => {
                ticket.answered();
                return Err(Refusal::failed());
            }
            None => return Err(Refusal::closing()),
        }
    };
    let text = api::text(0, produced);
    let finish = finish_reason(stopped_early, plan.asked);
    let (object, choice) = match call {
        Call::Chat => (
            "chat.completion",
            json!({ "index": 0, "message": { "role": "assistant", "content": text }, "logprobs": null, "finish_reason": finish }),
        ),
        Call::Completion => (
            "text_completion",
            json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": finish }),
        ),
    };
    let answer = json!({
        "id": ticket.name(call), "object": object, "created": ticket.created(), "model": model,
        "choices": [choice], "usage": api::usage(plan.prompt_tokens, produced, cached),
    });
    ticket.answered();
    Ok(answer)
}
