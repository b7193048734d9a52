//! What is sent: lengths, prompts, and how their tokens are counted.

/// One request to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSpec {
    /// Number of the request within the run, from 0.
    pub id: u64,
    /// The prompt's text; empty where only lengths matter (virtual time).
    pub prompt: String,
    /// Prompt length asked for, tokens.
    pub isl: u32,
    /// Output length asked for, tokens.
    pub osl: u32,
}
