//! The SLO grammar.

use thiserror::Error;

use super::Slo;

/// A text that is not an SLO.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("SLO `{text}`: {problem}")]
pub struct SloError {
    /// The text as given.
    pub text: String,
    /// Byte offset of the character at which reading stopped.
    pub at: usize,
    /// What was expected there, and what was found.
    pub problem: String,
}

pub(super) fn parse<'a>(_texts: impl IntoIterator<Item = &'a str>) -> Result<Slo, SloError> {
    todo!()
}

impl TryFrom<Vec<String>> for Slo {
    type Error = SloError;
    fn try_from(texts: Vec<String>) -> Result<Self, SloError> {
        Slo::parse(texts.iter().map(String::as_str))
    }
}

impl From<Slo> for Vec<String> {
    fn from(_slo: Slo) -> Self {
        todo!()
    }
}
