//! From an engine's output to its log, without the secrets.

use std::io::{BufRead, BufReader, Read, Write};

/// Longest piece of a line that is kept together, bytes: a progress bar has no line ends.
const LONGEST: u64 = 64 << 10;
/// Stands where a secret was.
const MASK: &str = "***";

/// Copies until the last writer is gone. Never ends early: an engine whose output is not read stands
/// still.
pub(super) fn copy(from: impl Read, to: &mut impl Write, secrets: &[String]) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                // A full disk is no reason to stop the engine.
                let _ = to.write_all(&masked(&line, secrets));
            }
        }
    }
}

fn masked(line: &[u8], secrets: &[String]) -> Vec<u8> {
    if !secrets.iter().any(|secret| memchr::memmem::find(line, secret.as_bytes()).is_some()) {
        return line.to_vec();
    }
    let text = String::from_utf8_lossy(line);
    secrets.iter().fold(text.into_owned(), |text, secret| text.replace(secret.as_str(), MASK)).into_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_secret_does_not_reach_the_log() {
        let mut log = Vec::new();
        copy(&b"args: --api-key sk-hunter2\nnext\xff"[..], &mut log, &["sk-hunter2".to_owned()]);
        assert_eq!(log, b"args: --api-key ***\nnext\xff");
    }
}
