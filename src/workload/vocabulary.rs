//! Words whose token counts are known in context, and how they are learned from counts alone.

use thiserror::Error;

use super::tokenizer::TokenCounter;

/// Stands before a word under test, so that the word is counted as it counts inside a text.
const ANCHOR: &str = "the";

/// With so many words of one token, longer words are not needed.
const ENOUGH_WHOLE: usize = 64;

/// Common English words, the most common first.
pub fn common_words() -> impl Iterator<Item = &'static str> {
    include_str!("words.txt").split_whitespace()
}

/// A word and what it adds to a prompt, tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The word, without blanks.
    pub word: String,
    /// Tokens that it adds.
    pub tokens: u32,
}

/// Words to build prompts of. Counts add up: a prompt has the tokens of its opener plus those of
/// each word that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    openers: Vec<Piece>,
    followers: Vec<Piece>,
}

/// How much may be asked to learn a vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Counts of groups that may be asked for.
    pub calls: u32,
    /// Words counted at once; a group that is not one token a word is split.
    pub group: usize,
    /// Words of one token after which no more are looked for.
    pub enough: usize,
    /// Words tried as the first of a prompt, one call each.
    pub openers: usize,
}

impl Effort {
    /// For a tokenizer in this process: every word by itself.
    pub const LOCAL: Self = Self { calls: u32::MAX, group: 1, enough: usize::MAX, openers: usize::MAX };
    /// For a server's `/tokenize`: cheap calls, but each goes over the wire.
    pub const SERVER: Self = Self { calls: 96, group: 32, enough: 512, openers: 64 };
    /// For counts that each cost a request to the model.
    pub const USAGE: Self = Self { calls: 16, group: 32, enough: 192, openers: 8 };
}

/// A vocabulary that was learned.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The words.
    pub vocabulary: Vocabulary,
    /// Tokens that the counter adds to every text.
    pub constant: u32,
}

/// A vocabulary that could not be learned.
#[derive(Debug, Error)]
pub enum LearnError<E: std::error::Error> {
    /// The counter failed.
    #[error(transparent)]
    Counter(#[from] E),
    /// The counts do not grow with the text, or contradict each other.
    #[error("token counts do not add up: {0}")]
    NotAdditive(String),
}

impl Vocabulary {
    /// For a counter that takes each word for one token.
    pub fn word_is_token() -> Self {
        let pieces: Vec<Piece> =
            common_words().map(|word| Piece { word: word.to_owned(), tokens: 1 }).collect();
        Self { openers: pieces.clone(), followers: pieces }
    }

    /// Learns what each of `words` adds to a text, from counts of short texts.
    ///
    /// # Errors
    /// When the counter fails, or its counts do not add up.
    pub async fn learn<C: TokenCounter>(
        counter: &mut C,
        words: &[String],
        effort: Effort,
    ) -> Result<Learned, LearnError<C::Error>> {
        // The anchor repeated: the slope is what it adds to a text, the rest is constant.
        let short = counter.count(&[ANCHOR; 4].join(" ")).await?;
        let long = counter.count(&[ANCHOR; 12].join(" ")).await?;
        let slope = match long.checked_sub(short) {
            Some(grown) if grown >= 8 && grown % 8 == 0 => grown / 8,
            _ => {
                let told = format!("4 words were {short} tokens, 12 of the same were {long}");
                return Err(LearnError::NotAdditive(told));
            }
        };
        let Some(before) = short.checked_sub(3 * slope) else {
            return Err(LearnError::NotAdditive(format!("4 words were {short} tokens, each adding {slope}")));
        };
        let mut asked = Asked { counter, calls: effort.calls, before };
        let followers = asked.followers(words, effort).await?;
        // Where a constant is hidden in the counts, the anchor at the start is taken for what it is
        // further on; a prompt's total is right either way.
        let constant = if asked.counter.adds_nothing() { 0 } else { before.saturating_sub(slope) };
        let openers = asked.openers(&followers, constant, effort.openers).await?;
        if followers.is_empty() || openers.is_empty() {
            return Err(LearnError::NotAdditive("no word adds a token of its own".to_owned()));
        }
        Ok(Learned { vocabulary: Self::of(openers, followers), constant })
    }

    /// Keeps only words of one token where there are enough of them.
    fn of(openers: Vec<Piece>, followers: Vec<Piece>) -> Self {
        let whole = |pieces: Vec<Piece>, enough: usize| {
            if pieces.iter().filter(|piece| piece.tokens == 1).count() < enough {
                return pieces;
            }
            pieces.into_iter().filter(|piece| piece.tokens == 1).collect()
        };
        let openers = whole(openers, 4);
        Self { openers, followers: whole(followers, ENOUGH_WHOLE) }
    }

    /// Words that a prompt may begin with.
    pub fn openers(&self) -> &[Piece] {
        &self.openers
    }

    /// Words that may follow, each after a blank.
    pub fn followers(&self) -> &[Piece] {
        &self.followers
    }
}

/// A counter with the calls that are left for groups.
struct Asked<'a, C> {
    counter: &'a mut C,
    calls: u32,
    /// Tokens of the anchor alone, constant included.
    before: u32,
}

impl<C: TokenCounter> Asked<'_, C> {
    /// Tokens that `words` add after the anchor; `None` when the calls are used up.
    async fn added(&mut self, words: &[&str]) -> Result<Option<u32>, C::Error> {
        if self.calls == 0 {
            return Ok(None);
        }
        self.calls -= 1;
        let count = self.counter.count(&format!("{ANCHOR} {}", words.join(" "))).await?;
        Ok(Some(count.saturating_sub(self.before)))
    }

    async fn followers(&mut self, words: &[String], effort: Effort) -> Result<Vec<Piece>, C::Error> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut whole = 0;
        'groups: for group in words.chunks(effort.group.max(1)) {
            let group: Vec<&str> = group.iter().map(String::as_str).collect();
            let Some(total) = self.added(&group).await? else { break };
            let mut open = vec![(group, total)];
            while let Some((group, total)) = open.pop() {
                // Each word is at least one token, so a total of one a word leaves nothing open.
                let all_whole = total as usize == group.len();
                if all_whole || group.len() == 1 {
                    let tokens = if all_whole { 1 } else { total };
                    whole += if all_whole { group.len() } else { 0 };
                    let known = group.iter().map(|word| Piece { word: (*word).to_owned(), tokens });
                    pieces.extend(known.filter(|piece| piece.tokens > 0));
                    continue;
                }
                let (left, right) = group.split_at(group.len() / 2);
                let Some(count) = self.added(left).await? else { break 'groups };
                // The other half needs no call: counts add up.
                open.push((right.to_vec(), total.saturating_sub(count)));
                open.push((left.to_vec(), count));
            }
            if whole >= effort.enough {
                break;
            }
        }
        Ok(pieces)
    }

    /// Tries words at the very start of a text, short-count words first.
    async fn openers(
        &mut self,
        followers: &[Piece],
        constant: u32,
        limit: usize,
    ) -> Result<Vec<Piece>, C::Error> {
        let mut tried: Vec<&Piece> = followers.iter().collect();
        tried.sort_by_key(|piece| piece.tokens);
        let mut openers = Vec::new();
        for piece in tried.into_iter().take(limit) {
            let tokens = self.counter.count(&piece.word).await?.saturating_sub(constant);
            if tokens > 0 {
                openers.push(Piece { word: piece.word.clone(), tokens });
            }
        }
        Ok(openers)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::convert::Infallible;

    use super::*;
    use crate::workload::fixtures;
    use crate::workload::tokenizer::LocalTokenizer;

    /// Counts as a server's usage does: a template around the text, and calls that are counted.
    struct Remote {
        tokenizer: LocalTokenizer,
        template: u32,
        calls: u32,
    }

    impl TokenCounter for Remote {
        type Error = Infallible;

        async fn count(&mut self, text: &str) -> Result<u32, Infallible> {
            self.calls += 1;
            Ok(self.tokenizer.tokens(text) + self.template)
        }
    }

    fn words() -> Vec<String> {
        common_words().map(str::to_owned).collect()
    }

    /// Tokens that the tokenizer gives a text made of an opener and some followers.
    fn check(vocabulary: &Vocabulary, tokenizer: &LocalTokenizer) {
        for opener in vocabulary.openers().iter().take(20) {
            for follower in vocabulary.followers().iter().step_by(7) {
                let text = format!("{} {} {}", opener.word, follower.word, follower.word);
                assert_eq!(tokenizer.tokens(&text), opener.tokens + 2 * follower.tokens, "{text}");
            }
        }
    }

    #[test]
    fn common_words_are_plain_and_different() {
        let words: Vec<_> = common_words().collect();
        let different: std::collections::HashSet<_> = words.iter().collect();
        assert!(words.len() > 1500 && different.len() == words.len());
        assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
    }

    #[tokio::test]
    async fn what_a_local_tokenizer_counts_is_what_was_learned() {
        let mut tokenizer = fixtures::local(&fixtures::english());
        let learned = Vocabulary::learn(&mut tokenizer.clone(), &words(), Effort::LOCAL).await.unwrap();
        assert_eq!(learned.constant, 0);
        assert!(learned.vocabulary.followers().len() >= ENOUGH_WHOLE);
        assert!(learned.vocabulary.followers().iter().all(|piece| piece.tokens == 1));
        check(&learned.vocabulary, &tokenizer);
        assert_eq!(tokenizer.count("the").await, Ok(1));
    }

    #[tokio::test]
    async fn words_without_whole_tokens_are_learned_by_their_size() {
        let mut tokenizer = fixtures::local(&fixtures::byte_level(&[]));
        let learned = Vocabulary::learn(&mut tokenizer, &words(), Effort::LOCAL).await.unwrap();
        assert_eq!(learned.constant, 0);
        assert!(learned.vocabulary.openers().iter().all(|piece| piece.tokens as usize == piece.word.len()));
        check(&learned.vocabulary, &tokenizer);
    }

    #[tokio::test]
    async fn a_few_usage_counts_tell_the_template_and_the_words() {
        let tokenizer = fixtures::local(&fixtures::english());
        let mut remote = Remote { tokenizer: tokenizer.clone(), template: 11, calls: 0 };
        let learned = Vocabulary::learn(&mut remote, &words(), Effort::USAGE).await.unwrap();
        assert_eq!(learned.constant, 11);
        assert!(remote.calls <= 2 + Effort::USAGE.calls + Effort::USAGE.openers as u32, "{}", remote.calls);
        check(&learned.vocabulary, &tokenizer);
    }

    #[tokio::test]
    async fn few_calls_suffice_where_most_words_are_whole() {
        let all: Vec<&str> = common_words().collect();
        let tokenizer = fixtures::local(&fixtures::byte_level(&all));
        let mut remote = Remote { tokenizer: tokenizer.clone(), template: 5, calls: 0 };
        let learned = Vocabulary::learn(&mut remote, &words(), Effort::USAGE).await.unwrap();
        assert!(learned.vocabulary.followers().len() >= Effort::USAGE.enough);
        assert_eq!(remote.calls, 2 + 6 + 8);
        check(&learned.vocabulary, &tokenizer);
    }

    #[tokio::test]
    async fn counts_that_do_not_grow_with_the_text_are_refused() {
        struct Stuck;
        impl TokenCounter for Stuck {
            type Error = Infallible;
            async fn count(&mut self, _: &str) -> Result<u32, Infallible> {
                Ok(9)
            }
        }
        let error = Vocabulary::learn(&mut Stuck, &words(), Effort::SERVER).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "token counts do not add up: 4 words were 9 tokens, 12 of the same were 9"
        );
    }
}
