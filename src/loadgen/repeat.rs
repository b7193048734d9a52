//! Recognises a chunk that repeats an earlier one in everything but its text.
//!
//! The chunks of a stream are alike but for a few letters. One that has the very bytes of an earlier
//! chunk before and after its text says what that one said, and need not be parsed: two comparisons
//! and a search instead of half a microsecond. Whatever differs is parsed in full.

use memchr::{memchr2, memmem};

/// A chunk that was parsed, cut open at its text.
#[derive(Debug, Default)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Bytes up to the first letter of the text; 0 where there is no template.
    before: usize,
    /// Bytes from the closing quote on.
    after: usize,
    /// What its text is.
    place: Place,
}

/// What a text of an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// The answer itself.
    #[default]
    Content,
    /// What a model thinks before it.
    Reasoning,
}

/// Fields that hold text.
const FIELDS: [(&[u8], Place); 4] = [
    (b"\"content\":", Place::Content),
    (b"\"text\":", Place::Content),
    (b"\"reasoning_content\":", Place::Reasoning),
    (b"\"reasoning\":", Place::Reasoning),
];

impl Template {
    /// The text of a chunk that is like the template but for that, as it stands in the JSON: not empty and
    /// without escapes. None for a chunk that is not like it.
    pub(crate) fn text<'a>(&self, chunk: &'a [u8]) -> Option<(Place, &'a [u8])> {
        if self.before == 0 || chunk.len() <= self.before + self.after {
            return None;
        }
        let (before, rest) = chunk.split_at(self.before);
        let (text, after) = rest.split_at(rest.len() - self.after);
        let is_like = before == &self.bytes[..self.before]
            && after == &self.bytes[self.bytes.len() - self.after..]
            // A quote would end the text early; an escape might hide one.
            && memchr2(b'"', b'\\', text).is_none();
        is_like.then_some((self.place, text))
    }

    /// Takes a chunk as the template, whose only news was a text that is not empty. A chunk with no
    /// such text, or with more than one place for it, makes no template.
    pub(crate) fn learn(&mut self, chunk: &[u8]) {
        self.before = 0;
        let found = FIELDS.iter().find_map(|&(field, place)| Some((cut(chunk, field)?, place)));
        let Some(((before, after), place)) = found else { return };
        self.bytes.clear();
        self.bytes.extend_from_slice(chunk);
        (self.before, self.after, self.place) = (before, after, place);
    }
}

/// Where the text of a field begins, and how many bytes follow it, if the field is there once.
fn cut(chunk: &[u8], field: &[u8]) -> Option<(usize, usize)> {
    // No text can hold the field: its quotes would be escaped.
    let mut found = memmem::find_iter(chunk, field);
    let mut begin = found.next()? + field.len();
    if found.next().is_some() {
        return None;
    }
    if chunk.get(begin) == Some(&b' ') {
        begin += 1;
    }
    if chunk.get(begin) != Some(&b'"') {
        return None;
    }
    begin += 1;
    let end = begin + memchr2(b'"', b'\\', chunk.get(begin..)?)?;
    (end > begin && chunk[end] == b'"').then_some((begin, chunk.len() - end))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::loadgen::delta;
    use proptest::prelude::*;

    fn template(chunk: &str) -> Template {
        let mut template = Template::default();
        template.learn(chunk.as_bytes());
        template
    }

    #[test]
    fn only_the_text_may_differ() {
        let like = template(r#"{"id":"7","choices":[{"delta":{"content":"a"},"finish_reason":null}]}"#);
        let same = [
            r#"{"id":"7","choices":[{"delta":{"content":"b"},"finish_reason":null}]}"#,
            r#"{"id":"7","choices":[{"delta":{"content":" 世界, {}"},"finish_reason":null}]}"#,
        ];
        for chunk in same {
            assert!(like.text(chunk.as_bytes()).is_some(), "{chunk}");
        }
        let different = [
            r#"{"id":"7","choices":[{"delta":{"content":""},"finish_reason":null}]}"#,
            r#"{"id":"8","choices":[{"delta":{"content":"b"},"finish_reason":null}]}"#,
            r#"{"id":"7","choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}"#,
            r#"{"id":"7","choices":[{"delta":{"content":"\n"},"finish_reason":null}]}"#,
            r#"{"id":"7","choices":[{"delta":{"content":"b","x":"c"},"finish_reason":null}]}"#,
            r#"{"id":"7","choices":[{"delta":{"content":null},"finish_reason":null}]}"#,
            "[DONE]",
            "",
        ];
        for chunk in different {
            assert!(like.text(chunk.as_bytes()).is_none(), "{chunk}");
        }
    }

    #[test]
    fn a_chunk_without_one_plain_text_makes_no_template() {
        let none = [
            r#"{"choices":[{"delta":{"content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"a\n"}}]}"#,
            r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"#,
            "",
        ];
        for chunk in none {
            let mut like = template(r#"{"choices":[{"delta":{"content":"a"}}]}"#);
            like.learn(chunk.as_bytes());
            assert!(like.text(br#"{"choices":[{"delta":{"content":"b"}}]}"#).is_none(), "{chunk}");
        }
        assert!(Template::default().text(b"x").is_none());
    }

    #[test]
    fn every_place_for_text_makes_a_template() {
        for field in ["content", "reasoning_content", "reasoning"] {
            let chunk = |text: &str| format!("{{\"choices\": [{{\"delta\": {{\"{field}\": \"{text}\"}}}}]}}");
            let template = template(&chunk("a"));
            let chunk = chunk("bc");
            let (place, text) = template.text(chunk.as_bytes()).unwrap();
            assert_eq!(
                (place == Place::Reasoning, text),
                (field.starts_with("reasoning"), b"bc".as_slice()),
                "{field}"
            );
        }
        let completion = template(r#"{"choices":[{"text":"a","finish_reason":null}]}"#);
        assert!(completion.text(br#"{"choices":[{"text":"b","finish_reason":null}]}"#).is_some());
    }

    proptest! {
        /// What matches is parsed like the template: as output and nothing else.
        #[test]
        fn a_match_means_what_a_parse_would_say(first in "[a-z\"\\\\{}:,]{1,6}", second in "[a-z\"\\\\{}:,é]{0,6}") {
            let chunk = |text: &str| serde_json::json!({"choices": [{"delta": {"content": text}}]}).to_string();
            if template(&chunk(&first)).text(chunk(&second).as_bytes()).is_some() {
                let json = chunk(&second);
                let parsed = delta::parse(json.as_bytes()).unwrap();
                prop_assert!(parsed.output && parsed.finish.is_none() && parsed.usage.is_none() && !parsed.error);
            }
        }
    }
}
