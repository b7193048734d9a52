//! What goes into the model and what comes out of it.

/// A request as the server receives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Name of the request, unique among those in the server.
    pub id: u64,
    /// When it arrived, seconds.
    pub arrival: f64,
    /// Prompt length, tokens.
    pub isl: u32,
    /// Output length asked for, tokens.
    pub osl: u32,
    /// Whether the server may end it early (the client did not ask to ignore EOS).
    pub may_stop: bool,
    /// Name of the turn that it goes on with.
    pub after: Option<u64>,
    /// Name under which what is computed for it can be found by the next turn.
    pub keep: Option<u64>,
}

/// Something that a client would notice, at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A request's first token.
    FirstToken {
        /// The request.
        id: u64,
        /// When it arrived.
        arrival: f64,
        /// When the token came.
        at: f64,
    },
    /// Tokens of one request, the first one included; only where they were asked for.
    Tokens {
        /// The request.
        id: u64,
        /// How many; above 1 with speculative decoding.
        count: u32,
        /// When they came.
        at: f64,
    },
    /// A request has got its last token.
    Finished(Served),
    /// A request was refused with a server error.
    Failed {
        /// The request.
        job: Job,
        /// When.
        at: f64,
    },
}

/// A request that was served to its end, or as far as it had come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// The request.
    pub job: Job,
    /// When it was first taken from the queue.
    pub admitted: Option<f64>,
    /// When its first token came.
    pub first: Option<f64>,
    /// When its latest token came.
    pub latest: Option<f64>,
    /// Tokens produced.
    pub tokens: u32,
    /// Prompt tokens that were found in the prefix cache.
    pub cached: u32,
    /// Times its KV cache was taken away and computed again.
    pub preemptions: u32,
    /// Engine step that gave its first token (the first step is 1; 0: none yet).
    pub first_step: u64,
    /// Engine step that had last been run.
    pub last_step: u64,
    /// Whether it ended before the length asked for.
    pub stopped_early: bool,
}

/// Totals since the server began, as its metrics page would show them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Engine steps.
    pub steps: u64,
    /// Seconds in which a step was running.
    pub busy: f64,
    /// Requests finished.
    pub finished: u64,
    /// Requests refused with a server error.
    pub failed: u64,
    /// Requests given up by their client.
    pub cancelled: u64,
    /// Sequences that lost their KV cache.
    pub preemptions: u64,
    /// Prompt tokens of requests whose prefill is done, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens produced.
    pub generation_tokens: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Prompt tokens found there.
    pub prefix_hits: u64,
    /// First admissions from the queue.
    pub admitted: u64,
    /// Seconds from arrival to first admission, summed over `admitted`.
    pub queue_seconds: f64,
    /// First tokens.
    pub first_tokens: u64,
    /// Seconds from arrival to first token, summed over `first_tokens`.
    pub ttft_seconds: f64,
    /// Seconds from first admission to first token, summed over `first_tokens`.
    pub prefill_seconds: f64,
    /// Seconds from first to last token, summed over `finished`.
    pub decode_seconds: f64,
    /// Seconds from arrival to last token, summed over `finished`.
    pub e2e_seconds: f64,
}

/// The state of the server between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Requests that have been admitted: prefilling or decoding.
    pub running: u32,
    /// Requests in the queue.
    pub waiting: u32,
    /// Share of the KV cache in use.
    pub kv_usage: f64,
}
