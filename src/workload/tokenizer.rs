//! Counting tokens: the trait that every way of counting has, and a local `tokenizer.json`.
//!
//! The ways that need a server (its `/tokenize`, its `usage`) are in [`crate::target`].

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokenizers::Tokenizer;

use super::vocabulary::common_words;

/// Counts the tokens of a text, up to a constant that every text has in common (a chat template).
#[allow(async_fn_in_trait)] // used by one task; no caller needs the future to be Send
pub trait TokenCounter {
    /// What can go wrong.
    type Error: std::error::Error;

    /// Tokens of `text`.
    async fn count(&mut self, text: &str) -> Result<u32, Self::Error>;

    /// Whether a count is of the text alone: the constant is zero.
    fn adds_nothing(&self) -> bool {
        false
    }
}

/// A Hugging Face `tokenizer.json`; clones share it.
#[derive(Clone, Debug)]
pub struct LocalTokenizer {
    path: PathBuf,
    tokenizer: Arc<Tokenizer>,
}

/// A `tokenizer.json` that cannot be used.
#[derive(Debug, Error)]
pub enum TokenizerError {
    /// Nothing is there, or it may not be read.
    #[error(
        "tokenizer `{}` cannot be read: {source}; give the path of a tokenizer.json, or leave it out to count by the server",
        path.display()
    )]
    Unreadable {
        /// What was asked for.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A folder without the file.
    #[error("folder `{}` holds no tokenizer.json; give the model's own folder, or the file itself", path.display())]
    NoneInFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A file that is something else.
    #[error(
        "`{}` is not a Hugging Face tokenizer.json: {detail}; a `tokenizer.model` or `tokenizer_config.json` does not serve",
        path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// What the reader stumbled over.
        detail: String,
    },
}

impl LocalTokenizer {
    /// Reads a `tokenizer.json`, or the one in a folder.
    ///
    /// # Errors
    /// When there is none, or it is not one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TokenizerError> {
        let mut path = path.as_ref().to_owned();
        if path.is_dir() {
            let file = path.join("tokenizer.json");
            if !file.is_file() {
                return Err(TokenizerError::NoneInFolder { path });
            }
            path = file;
        }
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(TokenizerError::Unreadable { path, source }),
        };
        let broken = |detail: String| TokenizerError::Broken { path: path.clone(), detail };
        let mut tokenizer = Tokenizer::from_bytes(&bytes).map_err(|error| broken(error.to_string()))?;
        // Cutting or padding to a length set in the file would falsify every count.
        tokenizer.with_truncation(None).map_err(|error| broken(error.to_string()))?;
        tokenizer.with_padding(None);
        Ok(Self { path, tokenizer: Arc::new(tokenizer) })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tokens of `text`, without those that a template or a start token adds; 0 where the tokenizer
    /// has no token for it.
    pub fn tokens(&self, text: &str) -> u32 {
        self.ids(text).map_or(0, |ids| ids.len() as u32)
    }

    /// Words to build prompts of: common English ones, joined by the tokenizer's own where it keeps
    /// few of those whole. No two look alike to the model, so that different prompts stay different.
    pub fn words(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut words = Vec::new();
        let mut keep = |word: &str| {
            if self.ids(word).is_some_and(|ids| !ids.is_empty() && seen.insert(ids)) {
                words.push(word.to_owned());
            }
        };
        common_words().for_each(&mut keep);
        if common_words().filter(|word| self.tokens(&format!("the {word}")) == 2).count() < 256 {
            self.own_words().iter().for_each(|word| keep(word));
        }
        words
    }

    fn ids(&self, text: &str) -> Option<Vec<u32>> {
        self.tokenizer.encode_fast(text, false).ok().map(|encoding| encoding.get_ids().to_vec())
    }

    /// Lower-case words that are one token of the vocabulary, in the order of their ids.
    fn own_words(&self) -> Vec<String> {
        let mut tokens: Vec<(u32, String)> =
            self.tokenizer.get_vocab(false).into_iter().map(|(token, id)| (id, token)).collect();
        tokens.sort_unstable();
        // Byte-level BPE marks a blank before a word with `Ġ`, SentencePiece with `▁`; without
        // either mark, whole tokens are words (word-level, WordPiece).
        let marked = tokens.iter().any(|(_, token)| token.starts_with(['Ġ', '▁']));
        let word = |token: &str| {
            let word = if marked { token.strip_prefix(['Ġ', '▁'])? } else { token };
            let plain = (3..=12).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
            plain.then(|| word.to_owned())
        };
        tokens.iter().filter_map(|(_, token)| word(token)).take(2048).collect()
    }
}

impl TokenCounter for LocalTokenizer {
    type Error = Infallible;

    async fn count(&mut self, text: &str) -> Result<u32, Infallible> {
        Ok(self.tokens(text))
    }

    fn adds_nothing(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::workload::fixtures;

    #[test]
    fn a_folder_stands_for_the_tokenizer_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let missing = LocalTokenizer::open(folder.path()).unwrap_err().to_string();
        assert!(
            missing.ends_with("holds no tokenizer.json; give the model's own folder, or the file itself")
        );
        fixtures::save(&fixtures::byte_level(&[]), &folder.path().join("tokenizer.json"));
        let tokenizer = LocalTokenizer::open(folder.path()).unwrap();
        assert_eq!(tokenizer.tokens("load line"), 9);
        assert_eq!(tokenizer.path(), folder.path().join("tokenizer.json"));
    }

    #[test]
    fn a_missing_or_broken_file_is_named_with_the_mend() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokenizer.json");
        let missing = LocalTokenizer::open(&file).unwrap_err().to_string();
        assert!(missing.contains("tokenizer.json` cannot be read: No such file"), "{missing}");
        assert!(missing.ends_with("or leave it out to count by the server"), "{missing}");
        std::fs::write(&file, "{\"model_type\": \"llama\"}").unwrap();
        let broken = LocalTokenizer::open(&file).unwrap_err().to_string();
        assert!(broken.contains("is not a Hugging Face tokenizer.json"), "{broken}");
        assert_eq!(broken.lines().count(), 1);
    }

    #[test]
    fn a_cut_or_padding_set_in_the_file_does_not_falsify_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokenizer.json");
        let mut json = serde_json::to_value(fixtures::byte_level(&[])).unwrap();
        json["truncation"] = serde_json::json!({
            "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0
        });
        json["padding"] = serde_json::json!({
            "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "!"
        });
        std::fs::write(&file, json.to_string()).unwrap();
        assert_eq!(LocalTokenizer::open(&file).unwrap().tokens("load line"), 9);
    }

    #[test]
    fn words_that_the_model_cannot_tell_apart_are_left_out() {
        let tokenizer = fixtures::local(&fixtures::word_level(&["load", "line", "ship"]));
        let words = tokenizer.words();
        // `load`, `line`, `ship`, and the one that stands for all unknown words.
        assert_eq!(words.len(), 4, "{words:?}");
    }
}
