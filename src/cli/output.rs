//! Data to stdout.

use std::io::{self, Write};

use anyhow::Context;

/// Writes `text` to stdout. A reader that has gone away (`| head`) has seen enough.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to stdout"),
    }
}
