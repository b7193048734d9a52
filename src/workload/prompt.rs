//! Prompts of an exact token length, each unlike every other from its first words on.

use std::sync::Arc;

use super::tokenizer::LocalTokenizer;
use super::vocabulary::{Piece, Vocabulary};
use crate::plan::PrefixPlan;
use crate::rng::Stream;

/// Remainders up to this many tokens are filled by plan; larger ones take any word. It exceeds the
/// largest sum that words of a few tokens can fail to make.
const PLANNED: usize = 512;

/// Times that a prompt is built anew because a tokenizer counted it otherwise than expected.
const CORRECTIONS: u32 = 8;

/// A prompt and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Its tokens: as asked for, unless no words of the vocabulary sum up to that.
    pub tokens: u32,
}

/// Makes prompts; clones share the vocabulary. The same seed and id give the same prompt.
///
/// The words are drawn by a number that is different for each id of a seed, and the first words
/// spell that number: prompts differ within their first few tokens, so that a prefix cache cannot
/// serve one with another's blocks, in this run or in one with another seed.
#[derive(Clone, Debug)]
pub struct PromptMaker {
    vocabulary: Arc<Vocabulary>,
    key: u64,
    /// `fillable[n]`: some words sum up to `n` tokens.
    fillable: Arc<[bool]>,
    verifier: Option<LocalTokenizer>,
    prefixes: PrefixPlan,
}

/// A stretch of a prompt: the number that its words spell, and its tokens.
#[derive(Clone, Copy, Debug)]
struct Part {
    code: u64,
    tokens: u32,
}

/// Kinds of stretches, so that no number of one kind is one of another.
#[derive(Clone, Copy)]
enum Kind {
    Own,
    Shared,
    Pooled,
    Unpooled,
    Block,
    Turn,
}

impl PromptMaker {
    /// Prompts of the words of `vocabulary`.
    pub fn new(vocabulary: Arc<Vocabulary>, seed: u64) -> Self {
        let mut fillable = vec![false; PLANNED + 1];
        fillable[0] = true;
        let mut sizes: Vec<usize> =
            vocabulary.followers().iter().map(|piece| piece.tokens as usize).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for sum in 1..=PLANNED {
            fillable[sum] = sizes.iter().any(|&size| size > 0 && size <= sum && fillable[sum - size]);
        }
        Self {
            vocabulary,
            key: Stream::new(seed, "prompts").word(),
            fillable: fillable.into(),
            verifier: None,
            prefixes: PrefixPlan::default(),
        }
    }

    /// Puts prefixes before each prompt.
    #[must_use]
    pub fn with_prefixes(mut self, prefixes: PrefixPlan) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// The tokens of a text that was not made here: exact with a tokenizer at hand, else by its words and
    /// what words of the vocabulary have on average.
    pub fn count(&self, text: &str) -> u32 {
        if let Some(verifier) = &self.verifier {
            return verifier.tokens(text).max(1);
        }
        let pieces = self.vocabulary.followers();
        let tokens: u64 = pieces.iter().map(|piece| u64::from(piece.tokens)).sum();
        let mean = tokens as f64 / pieces.len().max(1) as f64;
        ((text.split_whitespace().count() as f64 * mean).round() as u32).max(1)
    }

    /// The code of a stretch of its kind.
    fn code(&self, kind: Kind, number: u64) -> u64 {
        match kind {
            Kind::Own => scramble(number ^ self.key),
            kind => scramble(number ^ scramble(self.key.wrapping_add(kind as u64))),
        }
    }

    /// The prefixes of request `id`.
    fn prefix(&self, id: u64) -> Vec<Part> {
        let mut parts = Vec::new();
        if self.prefixes.shared_tokens > 0 {
            parts.push(Part { code: self.code(Kind::Shared, 0), tokens: self.prefixes.shared_tokens });
        }
        if let Some(pool) = self.prefixes.pool {
            // By the id alone, so that it does not matter who makes which prompt.
            let mut stream = Stream::new(self.code(Kind::Own, id), "prefix");
            let is_pooled = stream.uniform() < pool.hit_rate;
            let number = stream.below(u64::from(pool.count));
            let code =
                if is_pooled { self.code(Kind::Pooled, number) } else { self.code(Kind::Unpooled, id) };
            parts.push(Part { code, tokens: pool.tokens });
        }
        parts
    }

    /// The prompt of a request that is made of prefix blocks of `block` tokens, the last of them as long as
    /// is left of `tokens`: equal hashes give equal words.
    pub fn of_blocks(&self, id: u64, hashes: &[u64], block: u32, tokens: u32) -> Prompt {
        let mut left = tokens.max(1);
        let mut parts = Vec::with_capacity(hashes.len() + 1);
        for &hash in hashes {
            if left == 0 {
                break;
            }
            let tokens = left.min(block.max(1));
            left -= tokens;
            parts.push(Part { code: self.code(Kind::Block, hash), tokens });
        }
        if left > 0 {
            parts.push(Part { code: self.code(Kind::Own, id), tokens: left });
        }
        self.checked(parts)
    }

    /// Counts each prompt with `tokenizer` before it is given out, and corrects it.
    pub fn verified_by(mut self, tokenizer: LocalTokenizer) -> Self {
        self.verifier = Some(tokenizer);
        self
    }

    /// The prompt of request `id`: its prefixes, and `tokens` of its own (at least one).
    pub fn prompt(&self, id: u64, tokens: u32) -> Prompt {
        let mut parts = self.prefix(id);
        parts.push(Part { code: self.code(Kind::Own, id), tokens: tokens.max(1) });
        self.checked(parts)
    }

    /// The message of a later turn of conversation `session`: `tokens` of its own, without prefixes.
    pub fn message(&self, session: u64, turn: u32, tokens: u32) -> Prompt {
        let code = self.code(Kind::Turn, scramble(session).wrapping_add(u64::from(turn)));
        self.checked(vec![Part { code, tokens: tokens.max(1) }])
    }

    /// Builds a prompt, and corrects the length of its last part where a tokenizer counts otherwise.
    fn checked(&self, mut parts: Vec<Part>) -> Prompt {
        let Some(verifier) = &self.verifier else {
            return self.build(&parts);
        };
        let tokens: u32 = parts.iter().map(|part| part.tokens).sum();
        let before = tokens - parts.last().map_or(0, |part| part.tokens);
        let mut aim = tokens;
        let mut nearest: Option<Prompt> = None;
        for _ in 0..=CORRECTIONS {
            if let Some(last) = parts.last_mut() {
                last.tokens = aim.saturating_sub(before).max(1);
            }
            let text = self.build(&parts).text;
            let counted = verifier.tokens(&text);
            if nearest.as_ref().is_none_or(|prompt| counted.abs_diff(tokens) < prompt.tokens.abs_diff(tokens))
            {
                nearest = Some(Prompt { text, tokens: counted });
            }
            if counted == tokens {
                break;
            }
            aim = corrected(aim, tokens, counted);
        }
        nearest.unwrap_or_else(|| self.build(&parts))
    }

    fn build(&self, parts: &[Part]) -> Prompt {
        let (openers, followers) = (self.vocabulary.openers(), self.vocabulary.followers());
        let aim: u32 = parts.iter().map(|part| part.tokens).sum();
        let mut text = String::with_capacity(aim as usize * 7);
        let (mut sum, mut end) = (0, 0);
        for part in parts {
            end += part.tokens;
            let mut stream = Stream::new(part.code, "prompt");
            let mut digits = Digits { rest: u128::from(part.code), left: 1 << 64 };
            if text.is_empty() {
                let at = digits.next(openers.len()).unwrap_or(0);
                let Some(opener) =
                    self.choose(openers, at, end).or(openers.iter().min_by_key(|piece| piece.tokens))
                else {
                    return Prompt { text, tokens: 0 };
                };
                text.push_str(&opener.word);
                sum += opener.tokens;
            }
            while sum < end {
                let at = digits
                    .next(followers.len())
                    .unwrap_or_else(|| stream.below(followers.len() as u64) as usize);
                let Some(piece) = self.choose(followers, at, end - sum) else { break };
                text.push(' ');
                text.push_str(&piece.word);
                sum += piece.tokens;
            }
        }
        Prompt { text, tokens: sum }
    }

    /// The piece at `at`, or the next one that leaves a remainder that words can fill.
    fn choose<'a>(&self, pieces: &'a [Piece], at: usize, room: u32) -> Option<&'a Piece> {
        let fits = |piece: &&Piece| {
            piece.tokens > 0
                && room
                    .checked_sub(piece.tokens)
                    .is_some_and(|rest| self.fillable.get(rest as usize).copied().unwrap_or(true))
        };
        pieces[at..].iter().chain(&pieces[..at]).find(fits)
    }
}

/// Spells a 64-bit number in digits of any base: one index for each word, until it is told apart
/// from every other number.
struct Digits {
    rest: u128,
    left: u128,
}

impl Digits {
    fn next(&mut self, base: usize) -> Option<usize> {
        let base = base as u128;
        if self.left <= 1 || base == 0 {
            return None;
        }
        let digit = self.rest % base;
        self.rest /= base;
        self.left = self.left.div_ceil(base);
        Some(digit as usize)
    }
}

/// The next length to build, after `aim` came out as `counted` where `tokens` were wanted.
fn corrected(aim: u32, tokens: u32, counted: u32) -> u32 {
    let scaled = f64::from(aim) * f64::from(tokens) / f64::from(counted.max(1));
    match scaled.round() as u32 {
        same if same == aim && counted > tokens => aim.saturating_sub(1).max(1),
        same if same == aim => aim.saturating_add(1),
        other => other.max(1),
    }
}

/// A bijection of 64-bit numbers that leaves no trace of their order: the finaliser of SplitMix64
/// (Steele, Lea, Flood, OOPSLA 2014).
fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::collections::HashSet;
    use std::sync::OnceLock;

    use proptest::prelude::*;
    use tokenizers::Tokenizer;

    use super::*;
    use crate::workload::fixtures;
    use crate::workload::vocabulary::{Effort, common_words};

    fn learn(tokenizer: &Tokenizer) -> (Arc<Vocabulary>, LocalTokenizer) {
        let tokenizer = fixtures::local(tokenizer);
        let words = tokenizer.words();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let learned =
            runtime.block_on(Vocabulary::learn(&mut tokenizer.clone(), &words, Effort::LOCAL)).unwrap();
        (Arc::new(learned.vocabulary), tokenizer)
    }

    /// One that keeps many words whole, and one that keeps none.
    fn tokenizers() -> &'static [(Arc<Vocabulary>, LocalTokenizer); 2] {
        static BOTH: OnceLock<[(Arc<Vocabulary>, LocalTokenizer); 2]> = OnceLock::new();
        BOTH.get_or_init(|| [learn(&fixtures::english()), learn(&fixtures::byte_level(&[]))])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_prompt_has_exactly_the_tokens_asked_for(seed: u64, id: u64, tokens in 1_u32..700) {
            for (vocabulary, tokenizer) in tokenizers() {
                // Built from what was learned alone, without a look at the tokenizer.
                let prompt = PromptMaker::new(vocabulary.clone(), seed).prompt(id, tokens);
                prop_assert_eq!(prompt.tokens, tokens);
                prop_assert_eq!(tokenizer.tokens(&prompt.text), tokens);
            }
        }
    }

    #[test]
    fn the_same_seed_and_id_give_the_same_prompt() {
        let maker = |seed| PromptMaker::new(Arc::new(Vocabulary::word_is_token()), seed);
        assert_eq!(maker(1).prompt(9, 40), maker(1).prompt(9, 40));
        assert_ne!(maker(1).prompt(9, 40), maker(1).prompt(10, 40));
        assert_ne!(maker(1).prompt(9, 40), maker(2).prompt(9, 40));
    }

    #[test]
    fn prompts_are_fixed_across_versions() {
        let maker = PromptMaker::new(Arc::new(Vocabulary::word_is_token()), 7);
        assert_eq!(maker.prompt(0, 8).text, "should refer wipe gas poor trial before hide");
        assert_eq!(maker.prompt(1, 8).text, "apply cast suggest writer ghost battery ten organize");
    }

    #[test]
    fn no_two_prompts_share_their_first_words() {
        let mut heads = HashSet::new();
        for seed in 0..4 {
            let maker = PromptMaker::new(Arc::new(Vocabulary::word_is_token()), seed);
            for id in 0..5_000 {
                let text = maker.prompt(id, 20).text;
                let head: Vec<&str> = text.split(' ').take(7).collect();
                assert!(heads.insert(head.join(" ")), "seed {seed}, id {id}: {text}");
            }
        }
    }

    #[test]
    fn prompts_of_a_tiny_vocabulary_differ_as_soon_as_they_can() {
        let (vocabulary, _) = &learn(&fixtures::word_level(&["the", "load", "line", "ship"]));
        let maker = PromptMaker::new(vocabulary.clone(), 3);
        let prompts: HashSet<String> = (0..2_000).map(|id| maker.prompt(id, 32).text).collect();
        assert_eq!(prompts.len(), 2_000);
    }

    #[test]
    fn a_wrong_vocabulary_is_corrected_by_the_tokenizer() {
        let (_, tokenizer) = &tokenizers()[0];
        // Takes each word for one token, which two of three are not.
        let maker = PromptMaker::new(Arc::new(Vocabulary::word_is_token()), 5);
        assert_ne!(tokenizer.tokens(&maker.prompt(0, 200).text), 200);
        let maker = maker.verified_by(tokenizer.clone());
        // Whole words are added or left out, so the last one decides how near it comes.
        let longest = common_words().map(|word| tokenizer.tokens(&format!("the {word}")) - 1).max().unwrap();
        for id in 0..50 {
            let prompt = maker.prompt(id, 200);
            assert_eq!(tokenizer.tokens(&prompt.text), prompt.tokens);
            assert!(prompt.tokens.abs_diff(200) <= longest, "{} {longest}", prompt.tokens);
        }
    }

    fn words() -> PromptMaker {
        PromptMaker::new(Arc::new(Vocabulary::word_is_token()), 7)
    }

    fn common(a: &str, b: &str) -> usize {
        a.split(' ').zip(b.split(' ')).take_while(|(a, b)| a == b).count()
    }

    #[test]
    fn a_shared_prefix_is_the_same_for_all_and_what_follows_is_not() {
        let maker = words().with_prefixes(PrefixPlan { shared_tokens: 50, pool: None });
        let prompts: Vec<Prompt> = (0..200).map(|id| maker.prompt(id, 30)).collect();
        assert!(prompts.iter().all(|prompt| prompt.tokens == 80 && prompt.text.split(' ').count() == 80));
        for pair in prompts.windows(2) {
            let common = common(&pair[0].text, &pair[1].text);
            assert!((50..57).contains(&common), "{common}");
        }
    }

    #[test]
    fn a_pool_is_hit_as_often_as_asked_for() {
        let pool = crate::plan::PoolPlan { count: 5, tokens: 40, hit_rate: 0.7 };
        let maker = words().with_prefixes(PrefixPlan { shared_tokens: 0, pool: Some(pool) });
        let mut seen = std::collections::HashMap::<String, u32>::new();
        for id in 0..4_000 {
            let text = maker.prompt(id, 10).text;
            let prefix: Vec<&str> = text.split(' ').take(40).collect();
            *seen.entry(prefix.join(" ")).or_default() += 1;
        }
        let pooled: Vec<u32> = seen.values().copied().filter(|&count| count > 1).collect();
        assert_eq!(pooled.len(), 5);
        let share = f64::from(pooled.iter().sum::<u32>()) / 4_000.0;
        // Five standard errors of a share of 0.7 among 4,000.
        assert!((share - 0.7).abs() < 0.037, "{share}");
    }

    #[test]
    fn prompts_share_just_the_blocks_whose_hashes_they_share() {
        let maker = words();
        let first = maker.of_blocks(0, &[1, 2, 3], 64, 150);
        let second = maker.of_blocks(1, &[1, 2, 9], 64, 192);
        let unrelated = maker.of_blocks(2, &[4], 64, 64);
        assert_eq!((first.tokens, second.tokens, unrelated.tokens), (150, 192, 64));
        let shared = common(&first.text, &second.text);
        assert!((128..135).contains(&shared), "{shared}");
        assert!(common(&first.text, &unrelated.text) < 7);
        // Blocks that run out leave the rest to words of the request's own.
        assert_eq!(maker.of_blocks(3, &[1], 64, 100).tokens, 100);
    }

    #[test]
    fn prefixes_and_blocks_have_exactly_the_tokens_asked_for() {
        for (vocabulary, tokenizer) in tokenizers() {
            let maker = PromptMaker::new(vocabulary.clone(), 5)
                .with_prefixes(PrefixPlan { shared_tokens: 77, pool: None });
            let prompt = maker.prompt(1, 33);
            assert_eq!((prompt.tokens, tokenizer.tokens(&prompt.text)), (110, 110));
            let prompt = maker.of_blocks(1, &[8, 9], 64, 100);
            assert_eq!((prompt.tokens, tokenizer.tokens(&prompt.text)), (100, 100));
        }
    }
}
