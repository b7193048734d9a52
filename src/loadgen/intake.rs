//! What has come back of one request so far: bytes with their arrival times in, a record out.
//!
//! No sockets and no clock here: the same bytes at the same instants give the same record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::loadgen::delta::{self, Delta, Usage};
use crate::loadgen::record::{Failure, Outcome, Phase, RequestRecord};
use crate::loadgen::session::InFlight;
use crate::loadgen::sse;

/// Largest document that is taken in whole, bytes.
const LARGEST_DOCUMENT: usize = 64 << 20;

/// How far a request is, readable from another thread while it runs.
#[derive(Debug)]
pub struct Progress {
    id: u64,
    sent: AtomicU64,
    first: AtomicU64,
    latest: AtomicU64,
    tokens: AtomicU32,
}

impl Progress {
    fn new(id: u64, began: f64) -> Self {
        let never = || AtomicU64::new(f64::NAN.to_bits());
        Self {
            id,
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
            sent: f64::from_bits(self.sent.load(Relaxed)),
            first: instant(&self.first),
            latest: instant(&self.latest),
            tokens: self.tokens.load(Relaxed),
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
}

/// What the body turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unknown,
    Stream,
    Document,
}

#[derive(Debug, Default)]
struct Tally {
    first: Option<f64>,
    last: f64,
    last_us: i64,
    gaps_us: Vec<u32>,
    /// Tokens of each token chunk by the usage that came with it, as far as usage came with all.
    counted: Vec<u32>,
    /// Output tokens that `counted` accounts for.
    accounted: u32,
    finish: Option<String>,
    usage: Usage,
    prompt_seconds: Option<f64>,
    /// `[DONE]` came.
    done: bool,
    /// Usage or a finish reason came: the answer may end here.
    ending: bool,
    fault: Option<(Failure, String)>,
}

impl Intake {
    /// Nothing has come yet of the request, whose turn began at `began`.
    pub fn new(id: u64, isl: u32, osl: u32, streaming: bool, began: f64) -> Self {
        let gaps = if streaming { (osl as usize).min(1 << 16) } else { 0 };
        Self {
            isl,
            osl,
            streaming,
            progress: Arc::new(Progress::new(id, began)),
            form: Form::Unknown,
            parser: sse::Parser::default(),
            document: Vec::new(),
            tally: Tally { gaps_us: Vec::with_capacity(gaps), ..Tally::default() },
            resends: 0,
            queued: None,
        }
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

    /// When the first token came, seconds.
    pub fn first(&self) -> Option<f64> {
        self.tally.first
    }

    /// Whether the response has said all: nothing that still comes can matter.
    pub fn is_over(&self) -> bool {
        self.tally.done || self.tally.fault.is_some()
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
                tally_outcome(&mut self.tally)
            }
            Form::Document => {
                let document = std::mem::take(&mut self.document);
                self.tally.on_document(&document, at);
                tally_outcome(&mut self.tally)
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

fn tally_outcome(tally: &mut Tally) -> Outcome {
    let failed = |cause, detail: String| Outcome::Failed { cause, detail };
    if let Some((cause, detail)) = tally.fault.take() {
        return failed(cause, detail);
    }
    if !tally.done && !tally.ending {
        return failed(
            Failure::Reset,
            "the stream stopped without a finish reason, usage or `[DONE]`".to_owned(),
        );
    }
    if tally.first.is_none() {
        return failed(Failure::Malformed, "the answer holds no token".to_owned());
    }
    Outcome::Completed { finish: tally.finish.take() }
}

impl Tally {
    fn fail(&mut self, cause: Failure, detail: String) {
        if self.fault.is_none() {
            self.fault = Some((cause, detail));
        }
    }

    fn on_event(&mut self, event: sse::Event<'_>) {
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
        match delta::parse(data) {
            Ok(delta) => self.on_delta(&delta, data, event.at),
            Err(_) => {
                let words = String::from_utf8_lossy(&data[..data.len().min(400)]).into_owned();
                self.fail(Failure::Malformed, format!("a chunk is not JSON of the API: {words}"));
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.done || self.fault.is_some()
    }

    fn on_delta(&mut self, delta: &Delta<'_>, data: &[u8], at: f64) {
        if delta.error {
            self.fail(Failure::InStream, delta::error_message(data));
            return;
        }
        self.note(delta);
        if !delta.output {
            return;
        }
        // Microseconds of the run's clock, so that the gaps add up to the whole without drift.
        let at_us = (at * 1e6).round() as i64;
        if self.first.is_none() {
            self.first = Some(at);
        } else {
            self.gaps_us.push(u32::try_from(at_us - self.last_us).unwrap_or(0));
        }
        self.last = at;
        self.last_us = at_us;
        if let Some(total) = delta.usage.and_then(|usage| usage.completion_tokens) {
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
    fn on_document(&mut self, document: &[u8], at: f64) {
        if document.trim_ascii_start().starts_with(b"<") {
            self.fail(Failure::Malformed, format!("the answer is {}", page(document)));
            return;
        }
        match delta::parse(document) {
            Ok(delta) if delta.error => self.fail(Failure::InStream, delta::error_message(document)),
            Ok(delta) if delta.known => {
                self.note(&delta);
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
    fn chunk_tokens(&self) -> Vec<u32> {
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

/// An HTML page in words: its title.
pub(crate) fn page(html: &[u8]) -> String {
    let text = String::from_utf8_lossy(&html[..html.len().min(4096)]);
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|tag| {
        let from = tag + lower[tag..].find('>')? + 1;
        let to = from + lower[from..].find('<')?;
        Some(text[from..to].trim().to_owned())
    });
    match title.filter(|title| !title.is_empty()) {
        Some(title) => format!("an HTML page (`{title}`), not the API"),
        None => "an HTML page, not the API".to_owned(),
    }
}
