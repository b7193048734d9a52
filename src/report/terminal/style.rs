//! Width and colour of the text.

use std::io::IsTerminal;

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns that may be used.
    pub width: usize,
    /// Whether colours are written.
    pub colour: bool,
}

/// Narrowest and widest layout: below the tables do not fit, above lines are hard to read.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=110;

impl Default for Style {
    /// 80 columns, no colour: what goes into a file or a pipe.
    fn default() -> Self {
        Self { width: 80, colour: false }
    }
}

impl Style {
    /// The style for standard output: its own width and colours on a terminal (colours not where
    /// `NO_COLOR` is set to anything or `TERM` is `dumb`), the default elsewhere.
    pub fn of_stdout() -> Self {
        Self::of(&std::io::stdout())
    }

    /// The style for standard error, by the same rules.
    pub fn of_stderr() -> Self {
        Self::of(&std::io::stderr())
    }

    fn of(out: &impl Out) -> Self {
        if !out.is_terminal() {
            return Self::default();
        }
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let colour = given("NO_COLOR").is_none() && given("TERM").is_none_or(|term| term != "dumb");
        Self { width: columns(out).clamp(*WIDTHS.start(), *WIDTHS.end()), colour }
    }

    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Bad => "31",
            Ink::Warn => "33",
            Ink::Curve => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Something that may be a terminal.
#[cfg(unix)]
trait Out: IsTerminal + std::os::fd::AsFd {}
#[cfg(unix)]
impl<T: IsTerminal + std::os::fd::AsFd> Out for T {}
#[cfg(not(unix))]
trait Out: IsTerminal {}
#[cfg(not(unix))]
impl<T: IsTerminal> Out for T {}

fn columns(out: &impl Out) -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(out)
        && size.ws_col > 0
    {
        return usize::from(size.ws_col);
    }
    #[cfg(not(unix))]
    let _ = out;
    Style::default().width
}

/// What a colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The answer.
    Strong,
    /// Less important.
    Faint,
    /// Met.
    Good,
    /// Missed.
    Bad,
    /// Void, warnings.
    Warn,
    /// The measured curve.
    Curve,
}

/// Breaks a text into lines of at most `width` columns, at blanks; a longer word stays whole.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text behind a label, wrapped, with its lines under one another.
pub(crate) fn labelled(out: &mut String, style: Style, label: &str, ink: Ink, text: &str, indent: usize) {
    for (index, line) in wrap(text, style.width.saturating_sub(indent)).iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        out.push_str(&style.paint(ink, label));
        out.push_str(&" ".repeat(indent.saturating_sub(label.chars().count()).max(1)));
        out.push_str(line);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_keep_to_the_width_and_lose_no_word() {
        let text = "one two three four five sixteen-characters x";
        let lines = wrap(text, 10);
        assert!(lines.iter().all(|line| line.chars().count() <= 10 || !line.contains(' ')), "{lines:?}");
        assert_eq!(lines.join(" "), text);
    }

    #[test]
    fn without_colour_text_stays_plain() {
        assert_eq!(Style { width: 80, colour: false }.paint(Ink::Bad, "x"), "x");
        assert_eq!(Style { width: 80, colour: true }.paint(Ink::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}
