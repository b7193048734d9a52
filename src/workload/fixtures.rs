//! Small real tokenizers for tests, made here by the `tokenizers` crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use tokenizers::Tokenizer;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::whitespace::Whitespace;

use super::tokenizer::LocalTokenizer;
use super::vocabulary::common_words;

/// Byte-level BPE: one token a byte, plus the merges that training on `words` gives.
pub fn byte_level(words: &[&str]) -> Tokenizer {
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    let mut trainer: TrainerWrapper = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(if words.is_empty() { 256 } else { 256 + 16 * words.len() })
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build()
        .into();
    // Each word at the start of a text and further on, often enough to be merged whole.
    let texts = words.iter().map(|word| format!("{word} {word} {word}"));
    tokenizer.train(&mut trainer, texts).unwrap();
    tokenizer
}

/// Byte-level BPE that keeps every third common word whole.
pub fn english() -> Tokenizer {
    byte_level(&common_words().step_by(3).collect::<Vec<_>>())
}

/// Whole words only; all others are one unknown token.
pub fn word_level(words: &[&str]) -> Tokenizer {
    let vocab = words.iter().chain(&["[UNK]"]).zip(0..).map(|(word, id)| ((*word).to_owned(), id)).collect();
    let model = WordLevel::builder().vocab(vocab).unk_token("[UNK]".to_owned()).build().unwrap();
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(Whitespace {}));
    tokenizer
}

/// Writes a tokenizer as Hugging Face does.
pub fn save(tokenizer: &Tokenizer, file: &Path) {
    std::fs::write(file, serde_json::to_string(tokenizer).unwrap()).unwrap();
}

/// The tokenizer as read back from a file.
pub fn local(tokenizer: &Tokenizer) -> LocalTokenizer {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    save(tokenizer, &file);
    LocalTokenizer::open(file).unwrap()
}
