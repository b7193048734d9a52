//! What can be wrong with a recipe.

use thiserror::Error;

/// Something in a recipe, or in the flags that change it, that no plan can be made of.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct RecipeError {
    /// What is wrong, where, and what was seen there.
    pub message: String,
    /// How to mend it, where the message does not already say so.
    pub hint: Option<String>,
}

impl RecipeError {
    /// An error whose message says it all.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// The same error with a way to mend it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error, told to be in the file or ready recipe `origin`.
    #[must_use]
    pub(super) fn within(mut self, origin: &str) -> Self {
        self.message = format!("recipe `{origin}`: {}", self.message);
        self
    }
}

/// The word of `known` that `seen` was probably meant to be.
pub(crate) fn closest<'a>(seen: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let seen = seen.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|word| (strsim::jaro_winkler(&seen, &word.to_lowercase().replace('-', "_")), word))
        .filter(|&(likeness, _)| likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_another_word_is_not() {
        let known = ["concurrency", "requests", "llama-server"];
        assert_eq!(closest("concurency", known), Some("concurrency"));
        assert_eq!(closest("Request", known), Some("requests"));
        assert_eq!(closest("llama_sever", known), Some("llama-server"));
        assert_eq!(closest("banana", known), None);
    }
}
