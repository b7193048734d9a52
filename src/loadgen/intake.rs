//! What has come back of one request so far: bytes with their arrival times in, a record out.
//!
//! No sockets and no clock here: the same bytes at the same instants give the same record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::loadgen::body::TurnOf;
use crate::loadgen::record::{Failure, Outcome, Phase, RequestRecord};
use crate::loadgen::session::InFlight;
use crate::loadgen::sse;
use crate::loadgen::tally::Tally;

/// Largest document that is taken in whole, bytes.
const LARGEST_DOCUMENT: usize = 64 << 20;

/// How far a request is, readable from another thread while it runs.
#[derive(Debug)]
pub struct Progress {
    id: u64,
    turn: Option<u32>,
    scheduled: Option<f64>,
    sent: AtomicU64,
    first: AtomicU64,
    latest: AtomicU64,
    tokens: AtomicU32,
}

impl Progress {
    fn new(id: u64, turn: Option<u32>, scheduled: Option<f64>, began: f64) -> Self {
        let never = || AtomicU64::new(f64::NAN.to_bits());
        Self {
            id,
            turn,
            scheduled,
            sent: AtomicU64::new(began.to_bits()),
            first: never(),
            latest: never(),
            tokens: AtomicU32::new(0),
        }
    }

    /// The state now.
    pub fn in_flight(&self) -> InFlight {
        let instant = |bits: &AtomicU64| Some(f64::from_bits(bits.load(Relaxed))).filter(|at| !at.is_nan());
        InFlight {
            id: self.id,
            scheduled: self.scheduled,
            sent: f64::from_bits(self.sent.load(Relaxed)),
            first: instant(&self.first),
            latest: instant(&self.latest),
            tokens: self.tokens.load(Relaxed),
            turn: self.turn,
        }
    }
}

/// One response, as it comes in.
#[derive(Debug)]
pub struct Intake {
    isl: u32,
    osl: u32,
    streaming: bool,
    progress: Arc<Progress>,
    form: Form,
    parser: sse::Parser,
    document: Vec<u8>,
    tally: Tally,
    resends: u32,
    queued: Option<f64>,
    held: Option<f64>,
    session: Option<u64>,
    context_full: bool,
}

/// What the body turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unknown,
    Stream,
    Document,
}

impl Intake {
    /// Nothing has come yet of the request, whose turn began at `began`.
    pub fn new(id: u64, isl: u32, osl: u32, streaming: bool, began: f64) -> Self {
        let gaps = if streaming { (osl as usize).min(1 << 16) } else { 0 };
        Self {
            isl,
            osl,
            streaming,
            progress: Arc::new(Progress::new(id, None, None, began)),
            form: Form::Unknown,
            parser: sse::Parser::default(),
            document: Vec::new(),
            tally: Tally::with_room(gaps),
            resends: 0,
            queued: None,
            held: None,
            session: None,
            context_full: false,
        }
    }

    /// The same for a turn of a conversation, whose answer is kept.
    #[must_use]
    pub(crate) fn of_turn(mut self, TurnOf { session, turn }: TurnOf) -> Self {
        let Progress { id, scheduled, .. } = *self.progress;
        self.progress = Arc::new(Progress::new(id, Some(turn), scheduled, self.sent_at()));
        self.session = Some(session);
        self.tally.keep_text();
        self
    }

    /// The same for a request of an open loop, which was to be sent at `scheduled` and waited `held`
    /// seconds at the cap.
    #[must_use]
    pub fn of_schedule(self, scheduled: f64, held: f64) -> Self {
        let progress = &self.progress;
        let progress = Arc::new(Progress::new(progress.id, progress.turn, Some(scheduled), self.sent_at()));
        Self { progress, held: (held > 0.0).then_some(held), ..self }
    }

    /// A handle that follows this request from another thread.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Notes when the first byte of the request went out.
    pub fn sent(&self, at: f64) {
        self.progress.sent.store(at.to_bits(), Relaxed);
    }

    /// When the request was sent, seconds.
    pub fn sent_at(&self) -> f64 {
        f64::from_bits(self.progress.sent.load(Relaxed))
    }

    /// Notes that the request is sent once more.
    pub fn resend(&mut self) {
        self.resends += 1;
    }

    /// Notes a time in the server's queue that a header told, seconds.
    pub fn queued(&mut self, seconds: f64) {
        self.queued = Some(seconds);
    }

    /// The answer's text, where it is kept.
    pub(crate) fn take_text(&mut self) -> String {
        self.tally.take_text()
    }

    /// Tokens of the prompt by the server's count, where it gave one, and of the answer.
    pub(crate) fn counts(&self) -> (Option<u32>, u32) {
        (self.tally.usage.prompt_tokens, self.tally.output_tokens())
    }

    /// Notes that the conversation ends here for want of context.
    pub(crate) fn context_is_full(&mut self) {
        self.context_full = true;
    }

    /// When the first token came, seconds.
    pub fn first(&self) -> Option<f64> {
        self.tally.first
    }

    /// Whether the response has said all: nothing that still comes can matter.
    pub fn is_over(&self) -> bool {
        self.tally.is_closed()
    }

    /// Takes in bytes of the body that arrived at `at`.
    pub fn on_bytes(&mut self, at: f64, bytes: &[u8]) {
        if self.form == Form::Unknown {
            self.form = self.form_of(bytes);
        }
        match self.form {
            Form::Stream => {
                let tally = &mut self.tally;
                self.parser.feed(bytes, at, |event| tally.on_event(event));
                self.publish();
            }
            // Blanks before the first sign are kept: they are harmless to either form.
            Form::Unknown | Form::Document => {
                if self.document.len() + bytes.len() > LARGEST_DOCUMENT {
                    self.tally.fail(Failure::Malformed, "the answer is larger than 64 MB".to_owned());
                } else {
                    self.document.extend_from_slice(bytes);
                }
            }
        }
    }

    /// The body has ended well at `at`: says how the request ended.
    pub fn on_end(&mut self, at: f64) -> Outcome {
        match self.form {
            Form::Stream => {
                let tally = &mut self.tally;
                self.parser.finish(at, |event| tally.on_event(event));
                self.publish();
                self.tally.outcome()
            }
            Form::Document => {
                let document = std::mem::take(&mut self.document);
                self.tally.on_document(&document, at);
                self.tally.outcome()
            }
            Form::Unknown => {
                Outcome::Failed { cause: Failure::Malformed, detail: "the answer is empty".to_owned() }
            }
        }
    }

    /// The record of the request, which ended at `ended` with `outcome`.
    pub fn into_record(self, ended: f64, outcome: Outcome) -> RequestRecord {
        let sent = self.sent_at();
        let Self { isl, osl, mut tally, .. } = self;
        let completed = matches!(outcome, Outcome::Completed { .. });
        let streamed = self.form == Form::Stream;
        let from_prompt =
            tally.first.zip(tally.prompt_seconds).map(|(first, prompt)| (first - sent - prompt).max(0.0));
        tally.gaps_us.shrink_to_fit();
        RequestRecord {
            id: self.progress.id,
            trial: 0,
            phase: Phase::Transient,
            scheduled: self.progress.scheduled,
            held: self.held,
            sent,
            first: tally.first.filter(|_| streamed),
            last: tally.first.filter(|_| completed).map(|_| tally.last),
            ended,
            chunk_tokens: if completed && streamed { tally.chunk_tokens() } else { Vec::new() },
            gaps_us: tally.gaps_us,
            isl,
            isl_server: tally.usage.prompt_tokens,
            osl,
            osl_server: tally.usage.completion_tokens,
            outcome,
            resends: self.resends,
            queued: self.queued.or(from_prompt.filter(|_| streamed)),
            session: self.session,
            turn: self.progress.turn,
            context_full: self.context_full,
        }
    }

    /// Tells a stream from a document by its first sign: servers send either under any content type.
    fn form_of(&self, bytes: &[u8]) -> Form {
        if !self.streaming {
            return Form::Document;
        }
        match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => Form::Unknown,
            Some(b'{' | b'[' | b'<') => Form::Document,
            Some(_) => Form::Stream,
        }
    }

    fn publish(&self) {
        let Some(first) = self.tally.first else { return };
        self.progress.first.store(first.to_bits(), Relaxed);
        self.progress.latest.store(self.tally.last.to_bits(), Relaxed);
        let chunks = self.tally.gaps_us.len() as u32 + 1;
        self.progress.tokens.store(chunks.max(self.tally.accounted), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn chunk(content: &str, usage: Option<u32>) -> String {
        let usage = usage.map(|tokens| serde_json::json!({"prompt_tokens": 5, "completion_tokens": tokens}));
        let chunk = serde_json::json!({"choices": [{"delta": {"content": content}}], "usage": usage});
        format!("data: {chunk}\n\n")
    }

    fn last_usage(tokens: u32) -> String {
        format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":{tokens}}}}}\n\n"
        )
    }

    /// Takes each piece in at its instant and ends the answer at the last of them.
    fn intake(pieces: &[(f64, String)]) -> RequestRecord {
        let mut intake = Intake::new(7, 5, 8, true, 1.0);
        intake.sent(1.25);
        for (at, piece) in pieces {
            intake.on_bytes(*at, piece.as_bytes());
        }
        let end = pieces.last().map_or(1.25, |piece| piece.0);
        let outcome = intake.on_end(end);
        intake.into_record(end, outcome)
    }

    fn chunk_tokens(chunks: u32, total: u32) -> Vec<u32> {
        let mut pieces: Vec<_> = (0..chunks).map(|n| (2.0 + f64::from(n), chunk("x", None))).collect();
        pieces.push((100.0, last_usage(total)));
        intake(&pieces).chunk_tokens
    }

    #[test]
    fn instants_are_those_of_the_bytes() {
        let record = intake(&[
            (1.5, chunk("", None)),
            (2.0, chunk("a", None)),
            (2.5, chunk("b", None) + &chunk("c", None)),
            (4.0, chunk("", None) + &last_usage(3)),
        ]);
        assert_eq!((record.sent, record.first, record.last, record.ended), (1.25, Some(2.0), Some(2.5), 4.0));
        assert_eq!(record.gaps_us, [500_000, 0]);
        assert_eq!((record.id, record.isl_server, record.osl_server), (7, Some(5), Some(3)));
    }

    #[test]
    fn a_surplus_in_usage_is_spread_over_the_chunks_and_adds_up() {
        let none = Vec::<u32>::new();
        assert_eq!(chunk_tokens(4, 4), none);
        assert_eq!(chunk_tokens(4, 5), none, "one surplus token is the end token");
        assert_eq!(chunk_tokens(4, 3), none, "fewer tokens than chunks cannot be spread");
        assert_eq!(chunk_tokens(4, 6), [1, 1, 2, 2]);
        assert_eq!(chunk_tokens(3, 12), [4, 4, 4]);
        assert_eq!(chunk_tokens(1, 64), [64]);
        for (chunks, total) in [(3, 100), (7, 64), (10, 13)] {
            let tokens = chunk_tokens(chunks, total);
            assert_eq!((tokens.len() as u32, tokens.iter().sum::<u32>()), (chunks, total));
        }
    }

    #[test]
    fn usage_with_each_chunk_tells_its_tokens_exactly() {
        let record = intake(&[
            (2.0, chunk("a", Some(1))),
            (3.0, chunk("bcd", Some(4))),
            (4.0, chunk("", Some(5))),
            (5.0, chunk("ef", Some(7))),
            (6.0, last_usage(8)),
        ]);
        assert_eq!(record.chunk_tokens, [1, 3, 4], "tokens without text belong to the next chunk");
        let one_each =
            intake(&[(2.0, chunk("a", Some(1))), (3.0, chunk("b", Some(2))), (4.0, last_usage(3))]);
        assert!(one_each.chunk_tokens.is_empty());
    }

    #[test]
    fn a_request_given_up_keeps_what_came_and_claims_no_end() {
        let mut intake = Intake::new(1, 5, 8, true, 0.0);
        let progress = intake.progress();
        intake.on_bytes(0.5, chunk("a", None).as_bytes());
        intake.on_bytes(0.75, chunk("b", None).as_bytes());
        let seen = progress.in_flight();
        assert_eq!((seen.first, seen.latest, seen.tokens), (Some(0.5), Some(0.75), 2));
        let record = intake.into_record(0.9, Outcome::Cancelled);
        assert_eq!((record.first, record.last, record.ended), (Some(0.5), None, 0.9));
        assert_eq!((record.gaps_us.as_slice(), record.e2e()), ([250_000].as_slice(), None));
    }

    #[test]
    fn what_follows_done_or_an_error_is_not_counted() {
        let done =
            intake(&[(2.0, chunk("a", None)), (3.0, "data: [DONE]\n\n".to_owned() + &chunk("b", None))]);
        assert!(done.is_completed() && done.gaps_us.is_empty());
        let error = intake(&[(2.0, "data: {\"error\":\"no room\"}\n\n".to_owned() + &chunk("b", None))]);
        assert_eq!((error.failure(), error.first), (Some(Failure::InStream), None));
    }
}
