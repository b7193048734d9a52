//! A file taken apart into its entries, without being held in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Largest entry, bytes: what is longer is no entry but a file of another kind.
const LARGEST: usize = 64 << 20;

/// One entry as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Where it begins, bytes.
    pub offset: u64,
    /// The line that it begins in, from 1.
    pub line: u64,
    /// Its text.
    pub text: String,
}

/// The entries of a file: its lines, or the items of its one JSON array.
pub(super) struct Records<R = BufReader<File>> {
    reader: R,
    is_array: bool,
    offset: u64,
    line: u64,
}

impl Records {
    pub(super) fn new(file: File, is_array: bool) -> Self {
        Self::of(BufReader::with_capacity(1 << 20, file), is_array)
    }
}

impl<R: BufRead> Records<R> {
    fn of(reader: R, is_array: bool) -> Self {
        Self { reader, is_array, offset: 0, line: 1 }
    }

    /// The next entry that is not empty.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        if self.is_array { self.item() } else { self.text_line() }
    }

    fn text_line(&mut self) -> io::Result<Option<Record>> {
        loop {
            let mut bytes = Vec::new();
            let read = self.reader.read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(None);
            }
            let (mut offset, line) = (self.offset, self.line);
            self.offset += read as u64;
            self.line += 1;
            while bytes.last().is_some_and(u8::is_ascii_whitespace) {
                bytes.pop();
            }
            if offset == 0 && bytes.starts_with(b"\xef\xbb\xbf") {
                bytes.drain(..3);
                offset = 3;
            }
            if !bytes.is_empty() {
                let record = Record { offset, line, text: lossless(bytes)? };
                return Ok(Some(record));
            }
        }
    }

    /// The next object at the array's own level, found by its braces; strings are stepped over.
    fn item(&mut self) -> io::Result<Option<Record>> {
        let mut text = Vec::new();
        let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
        let (mut offset, mut line) = (self.offset, self.line);
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                // A file that was cut off: what there is of its last entry is shown as malformed.
                return if text.is_empty() {
                    Ok(None)
                } else {
                    Ok(Some(Record { offset, line, text: lossless(text)? }))
                };
            }
            let mut used = 0;
            let mut done = false;
            for &byte in chunk {
                used += 1;
                if depth == 0 && byte == b'{' {
                    (offset, line) = (self.offset + used as u64 - 1, self.line);
                }
                self.line += u64::from(byte == b'\n');
                if depth > 0 || byte == b'{' {
                    text.push(byte);
                }
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' if depth > 0 => in_string = !in_string,
                    _ if in_string => {}
                    b'{' => depth += 1,
                    b'}' if depth > 0 => {
                        depth -= 1;
                        if depth == 0 {
                            done = true;
                            break;
                        }
                    }
                    _ => {}
                }
            }
            self.reader.consume(used);
            self.offset += used as u64;
            if text.len() > LARGEST {
                return Err(io::Error::other(format!("the entry in line {line} is larger than 64 MiB")));
            }
            if done {
                return Ok(Some(Record { offset, line, text: lossless(text)? }));
            }
        }
    }
}

/// The bytes as a text; the length must stay what it is in the file.
fn lossless(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not a text in UTF-8"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all(text: &str, is_array: bool) -> Vec<(u64, u64, String)> {
        // A buffer of 3 bytes: entries are cut at every place.
        let mut records = Records::of(BufReader::with_capacity(3, text.as_bytes()), is_array);
        let mut all = Vec::new();
        while let Some(record) = records.next().unwrap() {
            let at = record.offset as usize;
            assert_eq!(&text[at..at + record.text.len()], record.text);
            all.push((record.offset, record.line, record.text));
        }
        all
    }

    #[test]
    fn items_of_an_array_are_found_whatever_their_strings_hold() {
        let text = "[\n {\"a\": \"}{[\\\"\"},\n\n {\"b\": {\"c\": []}} ]\n";
        let texts: Vec<_> = all(text, true).into_iter().map(|(_, line, text)| (line, text)).collect();
        assert_eq!(texts, [(2, "{\"a\": \"}{[\\\"\"}".to_owned()), (4, "{\"b\": {\"c\": []}}".to_owned())]);
        assert_eq!(all("[]", true), []);
        assert_eq!(all("[{\"cut\": \"o", true)[0].2, "{\"cut\": \"o");
    }

    #[test]
    fn lines_have_their_numbers_and_empty_ones_are_no_entries() {
        let lines = all("\u{feff}a,b\r\n\n1,2\n3,4", false);
        let expected = [(3, 1, "a,b".to_owned()), (9, 3, "1,2".to_owned()), (13, 4, "3,4".to_owned())];
        assert_eq!(lines, expected);
    }
}
