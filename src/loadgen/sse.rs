//! Server-sent events, read from byte slices as the network cuts them.
//!
//! Written from the WHATWG specification (HTML Living Standard, 9.2.6 "Interpreting an event
//! stream"), with the arrival time of each event's data kept: an event whose closing blank line
//! comes late (or never) still bears the instant at which its data was there.
//!
//! ```
//! use plimsoll::loadgen::sse::{Event, Parser};
//!
//! let mut parser = Parser::default();
//! let mut seen = Vec::new();
//! parser.feed(b"data: {\"a\"", 1.0, |event: Event| seen.push((event.data.to_vec(), event.at)));
//! parser.feed(b":1}\n\ndata:[DONE]", 2.0, |event: Event| seen.push((event.data.to_vec(), event.at)));
//! parser.finish(3.0, |event: Event| seen.push((event.data.to_vec(), event.at)));
//! assert_eq!(seen, [(b"{\"a\":1}".to_vec(), 2.0), (b"[DONE]".to_vec(), 3.0)]);
//! ```

/// One event: its data, without the line ends of the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// The data; the lines of a multi-line event are joined by `\n`.
    pub data: &'a [u8],
    /// When the last line of the data was complete, on the caller's clock.
    pub at: f64,
    /// Whether the event says that it is an error (`event: error`, or llama.cpp's `error:` field).
    pub error: bool,
}

/// An incremental parser. Data that arrive in one slice are handed out without a copy.
#[derive(Debug, Default)]
pub struct Parser {
    /// Start of a line whose end has not come yet.
    partial: Vec<u8>,
    /// Data of the event that is being read, from earlier slices or from several lines.
    data: Vec<u8>,
    /// Whether the event has a data line (an empty one counts).
    has_data: bool,
    data_at: f64,
    error: bool,
    /// The last byte was a CR, so that an LF that follows belongs to it.
    after_cr: bool,
    /// Bytes of a byte order mark that were seen at the start; 3 once the start is over.
    bom: u8,
}

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

impl Parser {
    /// Takes in the bytes that arrived at `at` and hands out every event that they complete.
    pub fn feed<'a>(&mut self, bytes: &'a [u8], at: f64, mut on_event: impl FnMut(Event<'_>)) {
        let mut rest = self.skip_bom(bytes);
        // Data of the current event that lie in this slice: the common case, handed out uncopied.
        let mut whole: Option<&'a [u8]> = None;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            let line = &rest[..end];
            let ended_by_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if ended_by_cr {
                match rest.split_first() {
                    Some((b'\n', tail)) => rest = tail,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            if self.partial.is_empty() {
                self.line(line, at, &mut whole, &mut on_event);
            } else {
                let mut joined = std::mem::take(&mut self.partial);
                joined.extend_from_slice(line);
                self.joined_line(&joined, at, &mut whole, &mut on_event);
                joined.clear();
                self.partial = joined; // keeps its allocation
            }
        }
        if let Some(data) = whole {
            self.data.extend_from_slice(data);
        }
        self.partial.extend_from_slice(rest);
    }

    /// Takes the end of the stream: a last line without its end and a last event without its blank
    /// line are handed out all the same.
    ///
    /// The specification drops such an event; servers that leave the blank line out mean it.
    pub fn finish(&mut self, at: f64, mut on_event: impl FnMut(Event<'_>)) {
        let joined = std::mem::take(&mut self.partial);
        let mut whole = None;
        if !joined.is_empty() {
            self.joined_line(&joined, at, &mut whole, &mut on_event);
        }
        self.dispatch(&mut whole, &mut on_event);
    }

    /// One line of the slice that is being fed.
    fn line<'a>(
        &mut self,
        line: &'a [u8],
        at: f64,
        whole: &mut Option<&'a [u8]>,
        on_event: &mut impl FnMut(Event<'_>),
    ) {
        if line.is_empty() {
            self.dispatch(whole, on_event);
        } else if let Some(value) = self.data_value(line) {
            if self.has_data {
                self.append(whole, value);
            } else {
                *whole = Some(value);
            }
            self.has_data = true;
            self.data_at = at;
        }
    }

    /// A line that began in an earlier slice: its data must be copied.
    fn joined_line(
        &mut self,
        line: &[u8],
        at: f64,
        whole: &mut Option<&[u8]>,
        on_event: &mut impl FnMut(Event<'_>),
    ) {
        if line.is_empty() {
            self.dispatch(whole, on_event);
        } else if let Some(value) = self.data_value(line) {
            if self.has_data {
                self.append(whole, value);
            } else {
                self.data.extend_from_slice(value);
            }
            self.has_data = true;
            self.data_at = at;
        }
    }

    /// Adds one more data line to the event.
    fn append(&mut self, whole: &mut Option<&[u8]>, value: &[u8]) {
        if let Some(before) = whole.take() {
            self.data.extend_from_slice(before);
        }
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
    }

    /// The value of a `data` field; notes what else the line says.
    fn data_value<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => Some(value),
            b"event" => {
                self.error = value.trim_ascii() == b"error";
                None
            }
            b"error" => {
                self.error = true;
                Some(value)
            }
            _ => None, // a comment (empty field), `id`, `retry`, or something unknown
        }
    }

    fn dispatch(&mut self, whole: &mut Option<&[u8]>, on_event: &mut impl FnMut(Event<'_>)) {
        if self.has_data {
            let data = whole.unwrap_or(&self.data);
            on_event(Event { data, at: self.data_at, error: self.error });
        }
        *whole = None;
        self.data.clear();
        self.has_data = false;
        self.error = false;
    }

    /// Drops a byte order mark at the very start, also when it comes in pieces.
    fn skip_bom<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        while self.bom < 3 {
            let Some((&byte, tail)) = rest.split_first() else { return rest };
            if byte != BOM[usize::from(self.bom)] {
                // Not a mark after all: what was held back belongs to the first line.
                self.partial.extend_from_slice(&BOM[..usize::from(self.bom)]);
                self.bom = 3;
                return rest;
            }
            self.bom += 1;
            rest = tail;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn events(slices: &[&[u8]]) -> Vec<String> {
        let mut parser = Parser::default();
        let mut seen = Vec::new();
        let mut keep = |event: Event<'_>| {
            let mark = if event.error { "!" } else { "" };
            seen.push(format!("{mark}{}", std::str::from_utf8(event.data).unwrap()));
        };
        for slice in slices {
            parser.feed(slice, 0.0, &mut keep);
        }
        parser.finish(0.0, &mut keep);
        seen
    }

    /// Every quirk with the events that it must give.
    fn samples() -> Vec<(&'static str, Vec<&'static str>)> {
        vec![
            ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec!["a", "b"]),
            ("data: a\r\rdata: b\r\r", vec!["a", "b"]),
            ("data: a\r\n\ndata: b\n\r\n", vec!["a", "b"]),
            (": ping\n\ndata: a\n: ping\n\n:\n\n", vec!["a"]),
            ("data:a\n\ndata:  b\n\n", vec!["a", " b"]),
            ("data: a  \n\n", vec!["a  "]),
            ("data: {\ndata:  \"x\": 1\ndata: }\n\n", vec!["{\n \"x\": 1\n}"]),
            ("data: a\n\n\n\n\ndata: b\n\n", vec!["a", "b"]),
            ("data: a\n\ndata: b", vec!["a", "b"]),
            ("data: a\n\ndata: b\n", vec!["a", "b"]),
            ("\u{feff}data: a\n\n", vec!["a"]),
            ("data: \u{feff}a\n\n", vec!["\u{feff}a"]),
            ("data: héllo 世界 🚢\n\n", vec!["héllo 世界 🚢"]),
            ("id: 7\nevent: message\nretry: 10\ndata: a\n\n", vec!["a"]),
            ("event: error\ndata: boom\n\ndata: fine\n\n", vec!["!boom", "fine"]),
            ("error: boom\n\n", vec!["!boom"]),
            ("data\n\ndata:\n\n", vec!["", ""]),
            ("event: ping\n\ndata: a\n\n", vec!["a"]),
            ("nonsense\ndatabase: x\ndata: a\n\n", vec!["a"]),
            ("", vec![]),
        ]
    }

    #[test]
    fn every_quirk_survives_a_split_at_every_byte() {
        for (text, expected) in samples() {
            let bytes = text.as_bytes();
            assert_eq!(events(&[bytes]), expected, "{text:?} whole");
            for first in 0..=bytes.len() {
                let (a, b) = bytes.split_at(first);
                assert_eq!(events(&[a, b]), expected, "{text:?} split at {first}");
                for second in 0..=b.len() {
                    let (b, c) = b.split_at(second);
                    assert_eq!(events(&[a, b, c]), expected, "{text:?} split at {first}, {second}");
                }
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(events(&single), expected, "{text:?} byte by byte");
        }
    }

    #[test]
    fn an_event_bears_the_time_of_its_data_and_not_of_its_blank_line() {
        let mut parser = Parser::default();
        let mut at = Vec::new();
        parser.feed(b"data: a\n", 1.0, |event| at.push(event.at));
        assert!(at.is_empty());
        parser.feed(b"\ndata: b\n", 2.0, |event| at.push(event.at));
        parser.feed(b"\n", 3.0, |event| at.push(event.at));
        assert_eq!(at, [1.0, 2.0]);
    }

    #[test]
    fn bytes_like_half_a_byte_order_mark_are_kept() {
        let mut parser = Parser::default();
        let mut seen = Vec::new();
        parser.feed(b"\xEF", 0.0, |event| seen.push(event.data.to_vec()));
        parser.feed(b"\xBBdata: lost\ndata: kept\n\n", 0.0, |event| seen.push(event.data.to_vec()));
        // The first line's field name is not `data` but two odd bytes and `data`.
        assert_eq!(seen, [b"kept".to_vec()]);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_the_same_events_however_they_are_cut(
            text in "(data|:|event|\r|\n|\r\n| |a|é|\\{\\}){0,40}",
            cuts in proptest::collection::vec(0_usize..100, 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut slices = Vec::new();
            let mut from = 0;
            for cut in cuts {
                slices.push(&bytes[from..cut]);
                from = cut;
            }
            slices.push(&bytes[from..]);
            proptest::prop_assert_eq!(events(&slices), events(&[bytes]));
        }
    }
}
