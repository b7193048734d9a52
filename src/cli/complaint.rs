//! Errors as the user sees them: `error: ` on one line, `hint: ` apart, both on stderr.

use std::fmt;

use clap::error::{ContextKind, ErrorKind};
use plimsoll::recipe::RecipeError;
use plimsoll::report::ReportError;
use plimsoll::run::RunError;

use super::exit::ExitCode;
use super::stored;

/// An error with the exit code and the hint that go with it. Any other error ends with
/// [`ExitCode::Usage`].
#[derive(Debug)]
pub struct Complaint {
    code: ExitCode,
    message: String,
    hint: Option<String>,
    /// Lines shown below the message, such as the end of a log.
    detail: Vec<String>,
}

impl Complaint {
    /// An error that ends the program with `code`.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, detail: Vec::new() }
    }

    /// The same error with a way to mend it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with lines to be shown below it.
    pub fn detail(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.detail.extend(lines);
        self
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Complaint {}

/// Prints an error and gives the exit code that goes with it.
pub fn print(error: &anyhow::Error) -> ExitCode {
    let complaint = error.downcast_ref::<Complaint>();
    let hint = match complaint {
        Some(complaint) => complaint.hint.clone(),
        None => of_library(error),
    };
    let detail = complaint.map_or(&[][..], |complaint| complaint.detail.as_slice());
    show(&format!("{error:#}"), detail, hint.as_deref());
    complaint.map_or(ExitCode::Usage, |complaint| complaint.code)
}

/// The hint that goes with an error of the library.
fn of_library(error: &anyhow::Error) -> Option<String> {
    let recipe = || error.downcast_ref::<RecipeError>().and_then(|error| error.hint.clone());
    let run = || match error.downcast_ref::<RunError>() {
        None => match error.downcast_ref::<ReportError>() {
            Some(ReportError::File(error)) => stored::mend(error),
            _ => None,
        },
        Some(error) => stored::mend(error),
    };
    recipe().or_else(run)
}

/// Prints what is wrong with the command line in the same form, or the help that was asked for.
pub fn print_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe (`| head`) is no reason to fail.
            let _ = error.print();
            return ExitCode::Answered;
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return ExitCode::Usage;
        }
        _ => {}
    }
    // A value that cannot be read says itself what would be right.
    if let (Some(flag), Some(cause)) = (error.get(ContextKind::InvalidArg), std::error::Error::source(error))
    {
        let flag = flag.to_string();
        show(&format!("`{}`: {cause}", flag.split_whitespace().next().unwrap_or_default()), &[], None);
        return ExitCode::Usage;
    }
    let (message, hint) = condense(&error.render().to_string());
    show(&message, &[], Some(&hint));
    ExitCode::Usage
}

/// The first paragraph of the parser's text on one line, and its tip, or else where to read on.
fn condense(text: &str) -> (String, String) {
    let message: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let message = message.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let line_after = |prefix: &str| text.lines().find_map(|line| line.trim().strip_prefix(prefix));
    let hint = line_after("tip: ").map(str::to_owned).unwrap_or_else(|| {
        let usage = line_after("Usage: ").unwrap_or("plimsoll");
        let is_command = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
        let command: Vec<&str> = usage.split_whitespace().take_while(is_command).collect();
        format!("see `{} --help`", command.join(" "))
    });
    (message, hint)
}

fn show(message: &str, detail: &[String], hint: Option<&str>) {
    eprintln!("error: {message}");
    for line in detail {
        eprintln!("  | {line}");
    }
    if let Some(hint) = hint {
        eprintln!("hint: {hint}");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_parsers_text_becomes_a_line_and_a_hint() {
        let text = "error: the following required arguments were not provided:\n  --concurrency <N>\n\nUsage: plimsoll \
                    measure --concurrency <N>\n\nFor more information, try '--help'.\n";
        let (message, hint) = condense(text);
        assert_eq!(message, "the following required arguments were not provided: --concurrency <N>");
        assert_eq!(hint, "see `plimsoll measure --help`");
        let text = "error: unexpected argument '--slos' found\n\n  tip: a similar argument exists: '--slo'\n\nUsage: x\n";
        assert_eq!(condense(text).1, "a similar argument exists: '--slo'");
    }
}
