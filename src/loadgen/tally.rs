//! What an answer adds up to: tokens with their instants, counts, the reason why it ended.

use crate::loadgen::delta::{self, Delta, Usage};
use crate::loadgen::failure::page;
use crate::loadgen::record::{Failure, Outcome};
use crate::loadgen::repeat::{Place, Template};
use crate::loadgen::sse;

/// The sum of one answer so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) first: Option<f64>,
    pub(crate) last: f64,
    last_us: i64,
    pub(crate) gaps_us: Vec<u32>,
    /// Tokens of each token chunk by the usage that came with it, as far as usage came with all.
    counted: Vec<u32>,
    /// Output tokens that `counted` accounts for.
    pub(crate) accounted: u32,
    finish: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) prompt_seconds: Option<f64>,
    /// `[DONE]` came.
    done: bool,
    /// Usage or a finish reason came: the answer may end here.
    ending: bool,
    fault: Option<(Failure, String)>,
    template: Template,
    /// The text so far, where it is kept.
    text: Option<Text>,
}

/// What an answer says.
#[derive(Debug, Default)]
struct Text {
    content: String,
    /// What a reasoning model thinks aloud before it.
    reasoning: String,
}

impl Text {
    fn push(&mut self, place: Place, text: &str) {
        match place {
            Place::Content => self.content.push_str(text),
            Place::Reasoning => self.reasoning.push_str(text),
        }
    }
}

impl Tally {
    /// A tally with room for so many gaps.
    pub(crate) fn with_room(gaps: usize) -> Self {
        Self { gaps_us: Vec::with_capacity(gaps), ..Self::default() }
    }

    /// From now on the text is kept.
    pub(crate) fn keep_text(&mut self) {
        self.text = Some(Text::default());
    }

    /// The text that was kept: what was answered. Chats send no reasoning back, unless there is nothing
    /// else.
    pub(crate) fn take_text(&mut self) -> String {
        let Text { content, reasoning } = self.text.take().unwrap_or_default();
        if content.is_empty() { reasoning } else { content }
    }

    /// Output tokens so far: the server's count where it gave one, else those of the chunks.
    pub(crate) fn output_tokens(&self) -> u32 {
        let chunks = self.gaps_us.len() as u32 + u32::from(self.first.is_some());
        self.usage.completion_tokens.unwrap_or(chunks.max(self.accounted))
    }

    /// How the request ended, once its answer has.
    pub(crate) fn outcome(&mut self) -> Outcome {
        let failed = |cause, detail: String| Outcome::Failed { cause, detail };
        if let Some((cause, detail)) = self.fault.take() {
            return failed(cause, detail);
        }
        if !self.done && !self.ending {
            return failed(
                Failure::Reset,
                "the stream stopped without a finish reason, usage or `[DONE]`".to_owned(),
            );
        }
        if self.first.is_none() {
            return failed(Failure::Malformed, "the answer holds no token".to_owned());
        }
        Outcome::Completed { finish: self.finish.take() }
    }

    pub(crate) fn fail(&mut self, cause: Failure, detail: String) {
        if self.fault.is_none() {
            self.fault = Some((cause, detail));
        }
    }

    pub(crate) fn on_event(&mut self, event: sse::Event<'_>) {
        let data = event.data.trim_ascii();
        if self.is_closed() || data.is_empty() {
            return;
        }
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        if event.error {
            self.fail(Failure::InStream, delta::error_message(data));
            return;
        }
        if let Some((place, text)) = self.template.text(data) {
            if let Some(kept) = &mut self.text {
                // Without an escape in it, the JSON's bytes are the text's.
                kept.push(place, &String::from_utf8_lossy(text));
            }
            self.on_tokens(event.at, None);
            return;
        }
        match delta::parse(data) {
            Ok(delta) => self.on_delta(&delta, data, event.at),
            Err(_) => {
                let words = String::from_utf8_lossy(&data[..data.len().min(400)]).into_owned();
                self.fail(Failure::Malformed, format!("a chunk is not JSON of the API: {words}"));
            }
        }
    }

    /// Whether nothing that still comes can matter.
    pub(crate) fn is_closed(&self) -> bool {
        self.done || self.fault.is_some()
    }

    fn on_delta(&mut self, delta: &Delta<'_>, data: &[u8], at: f64) {
        if delta.error {
            self.fail(Failure::InStream, delta::error_message(data));
            return;
        }
        self.note(delta);
        self.keep(data);
        if !delta.output {
            return;
        }
        if delta.finish.is_none() && delta.usage.is_none() && delta.prompt_seconds.is_none() {
            self.template.learn(data);
        }
        self.on_tokens(at, delta.usage.and_then(|usage| usage.completion_tokens));
    }

    /// Keeps the text of a chunk or a whole response, where it is kept.
    fn keep(&mut self, data: &[u8]) {
        let Some(kept) = &mut self.text else { return };
        let Ok(spoken) = delta::spoken(data) else { return };
        kept.push(Place::Content, &spoken.content);
        kept.push(Place::Reasoning, &spoken.reasoning);
    }

    /// A chunk with output came; `total` is the server's count of output tokens up to and with it.
    fn on_tokens(&mut self, at: f64, total: Option<u32>) {
        // Microseconds of the run's clock, so that the gaps add up to the whole without drift.
        let at_us = (at * 1e6).round() as i64;
        if self.first.is_none() {
            self.first = Some(at);
        } else {
            self.gaps_us.push(u32::try_from(at_us - self.last_us).unwrap_or(0));
        }
        self.last = at;
        self.last_us = at_us;
        if let Some(total) = total {
            self.counted.push(total.saturating_sub(self.accounted));
            self.accounted = total;
        }
    }

    fn note(&mut self, delta: &Delta<'_>) {
        if let Some(finish) = &delta.finish {
            self.finish = Some(finish.clone().into_owned());
            self.ending = true;
        }
        if let Some(usage) = delta.usage {
            self.usage.prompt_tokens = usage.prompt_tokens.or(self.usage.prompt_tokens);
            self.usage.completion_tokens = usage.completion_tokens.or(self.usage.completion_tokens);
            self.ending |= !delta.output;
        }
        self.prompt_seconds = delta.prompt_seconds.or(self.prompt_seconds);
    }

    /// A whole response: its tokens have no times of their own, only its end has one.
    pub(crate) fn on_document(&mut self, document: &[u8], at: f64) {
        if document.trim_ascii_start().starts_with(b"<") {
            self.fail(Failure::Malformed, format!("the answer is {}", page(document)));
            return;
        }
        match delta::parse(document) {
            Ok(delta) if delta.error => self.fail(Failure::InStream, delta::error_message(document)),
            Ok(delta) if delta.known => {
                self.note(&delta);
                self.keep(document);
                self.ending = true;
                if delta.output {
                    self.first = Some(at);
                    self.last = at;
                }
            }
            Ok(_) => self.fail(Failure::Malformed, "the answer has no `choices`".to_owned()),
            Err(error) => {
                self.fail(Failure::Malformed, format!("the answer is not JSON of the API: {error}"))
            }
        }
    }

    /// Output tokens in each token chunk, or nothing where each chunk held one.
    ///
    /// The usage that came with each chunk tells it exactly. Without it, a final usage that is
    /// larger than the number of chunks is spread over them as evenly as whole tokens allow, the
    /// remainder to the later ones (the first chunk of a speculating server holds one token). One
    /// surplus token is no sign of full chunks: it is the end token, which has no text.
    pub(crate) fn chunk_tokens(&self) -> Vec<u32> {
        let chunks = self.gaps_us.len() + usize::from(self.first.is_some());
        let Some(total) = self.usage.completion_tokens else { return Vec::new() };
        if chunks == 0 {
            return Vec::new();
        }
        if self.counted.len() == chunks {
            let rest = total.saturating_sub(self.accounted);
            if rest <= 1 && self.counted.iter().all(|&tokens| tokens == 1) {
                return Vec::new();
            }
            let mut counted = self.counted.clone();
            if let Some(last) = counted.last_mut() {
                *last += rest;
            }
            return counted;
        }
        if (total as usize) <= chunks + 1 {
            return Vec::new();
        }
        let (each, rest) = (total as usize / chunks, total as usize % chunks);
        (0..chunks).map(|chunk| (each + usize::from(chunk >= chunks - rest)) as u32).collect()
    }
}
