//! Errors of the wire -> kinds of failure, with the first words of the message.

use std::error::Error;
use std::io;

use http::StatusCode;

use crate::loadgen::delta;
use crate::loadgen::intake::page;
use crate::loadgen::record::{Failure, Outcome};

/// Longest detail that is kept, characters.
const LONGEST_DETAIL: usize = 200;

/// A failure with its words.
pub(crate) type Fault = (Failure, String);

/// A connection that could not be opened.
pub(crate) fn of_connect(error: &io::Error, address: &str) -> Fault {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "no answer".to_owned(),
        _ => innermost(error),
    };
    (Failure::Connect, format!("{address}: {reason}"))
}

/// A TLS handshake that failed.
pub(crate) fn of_tls(error: &io::Error, address: &str) -> Fault {
    let reason = innermost(error);
    let hint = if reason.contains("corrupt message") || reason.contains("InvalidContentType") {
        " (does this port speak plain http?)"
    } else {
        ""
    };
    (Failure::Tls, format!("{address}: {reason}{hint}"))
}

/// A connection that failed while a request was on it.
pub(crate) fn of_exchange(error: &hyper::Error) -> Fault {
    if error.is_parse() {
        return (Failure::Malformed, format!("the answer is not HTTP: {}", innermost(error)));
    }
    (Failure::Reset, innermost(error))
}

/// An answer with another status than 2xx, and the start of its body.
pub(crate) fn of_status(status: StatusCode, body: &[u8]) -> Fault {
    let cause = match status.as_u16() {
        429 => Failure::Throttled,
        400..=499 => Failure::Client,
        500..=599 => Failure::Server,
        _ => Failure::Malformed,
    };
    let words =
        if body.trim_ascii_start().starts_with(b"<") { page(body) } else { delta::error_message(body) };
    let detail = if words.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {words}") };
    (cause, detail)
}

/// The outcome of a failure.
pub(crate) fn outcome((cause, detail): Fault) -> Outcome {
    Outcome::Failed { cause, detail }
}

/// A message on one line, cut to a length that a record can hold.
pub(crate) fn words(message: &str) -> String {
    let mut line = String::with_capacity(message.len().min(LONGEST_DETAIL + 4));
    for word in message.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((cut, _)) = line.char_indices().nth(LONGEST_DETAIL) {
            line.truncate(cut);
            line.push('…');
            break;
        }
    }
    line
}

/// The message at the bottom of an error's chain: the one that names the reason.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_its_kind_and_the_first_words_of_its_body() {
        let cases: [(u16, &[u8], Failure, &str); 6] = [
            (429, br#"{"error":{"message":"slow down"}}"#, Failure::Throttled, "slow down"),
            (404, br#"{"object":"error","message":"no model m"}"#, Failure::Client, "no model m"),
            (401, b"", Failure::Client, "401"),
            (500, b"oops\n", Failure::Server, "oops"),
            (502, b"<html><head><title>502 Bad Gateway</title>", Failure::Server, "502 Bad Gateway"),
            (301, b"", Failure::Malformed, "301"),
        ];
        for (status, body, cause, words) in cases {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            let (kind, detail) = of_status(status, body);
            assert_eq!(kind, cause, "{detail}");
            assert!(detail.contains(words) && !detail.contains('{'), "{detail}");
        }
    }

    #[test]
    fn details_are_one_short_line() {
        let detail = words(&"word\n ".repeat(500));
        assert!(detail.chars().count() <= LONGEST_DETAIL + 1 && !detail.contains('\n'), "{detail}");
    }
}
