//! The end of an engine's log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of the end is read, bytes.
const WINDOW: u64 = 64 << 10;
/// Longest line that is shown, characters.
const WIDEST: usize = 400;

/// The last `count` lines that are not empty. A progress bar counts by what it showed last. A log that
/// cannot be read has none.
pub(super) fn tail(path: &Path, count: usize) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.take(WINDOW).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let shown = |line: &str| {
        let last = line.trim_end().rsplit('\r').next().unwrap_or_default();
        last.chars().filter(|c| *c == '\t' || !c.is_control()).take(WIDEST).collect::<String>()
    };
    let lines: Vec<String> = text.lines().map(shown).filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines_without_empty_ones_and_control_characters() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let noise = "x".repeat(100_000);
        std::fs::write(file.path(), format!("{noise}\none\n\n 10%\r 99%\r\x1b[31mtwo\x1b[0m\nthree"))
            .unwrap();
        assert_eq!(tail(file.path(), 2), ["[31mtwo[0m", "three"]);
        assert_eq!(tail(file.path(), 3)[0], "one");
        assert!(tail(Path::new("/nowhere"), 3).is_empty());
    }
}
