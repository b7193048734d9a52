//! How prompt tokens were counted in a run, and how exact that is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How prompt tokens are counted, in a form that a report keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counting {
    /// Who counts.
    pub by: CountedBy,
    /// How far the prompts are from the length asked for.
    pub exactness: Exactness,
    /// Tokens that the server adds to each prompt (chat template, start token), measured from its
    /// `usage`; absent where the server tells none.
    pub template_overhead: Option<u32>,
}

/// Who counts prompt tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum CountedBy {
    /// A local `tokenizer.json`.
    File {
        /// Its path.
        path: String,
    },
    /// The server's `/tokenize`.
    Server,
    /// The server's `usage`, with word counts learned from a few tiny requests.
    Usage,
    /// The embedded engine, where one word is one token.
    Words,
    /// Nobody: the server tells no counts, and a common English word is taken for one token.
    Assumed,
}

/// How far prompts are from the length asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Exactness {
    /// Every prompt is counted before it is sent, or one word is one token by definition.
    Exact,
    /// Samples were sent and the server counted what was expected.
    Sampled {
        /// How many samples.
        samples: u32,
    },
    /// Samples were off by at most this share of their length.
    Within {
        /// Share, 0..1.
        share: f64,
    },
    /// Nothing could be compared.
    Unknown,
}

impl Exactness {
    /// From pairs of tokens expected and tokens counted.
    pub fn from_samples(samples: &[(u32, u32)]) -> Self {
        let off = |&(expected, counted): &(u32, u32)| {
            f64::from(expected.abs_diff(counted)) / f64::from(expected.max(1))
        };
        match samples.iter().map(off).fold(0.0, f64::max) {
            _ if samples.is_empty() => Exactness::Unknown,
            share if share > 0.0 => Exactness::Within { share },
            _ => Exactness::Sampled { samples: samples.len() as u32 },
        }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            CountedBy::File { path } => write!(f, "counted by `{path}`")?,
            CountedBy::Server => f.write_str("counted by the server's /tokenize")?,
            CountedBy::Usage => f.write_str("calibrated from the server's usage")?,
            CountedBy::Words => f.write_str("one word is one token")?,
            CountedBy::Assumed => {
                f.write_str("one word assumed to be one token: the server tells no counts")?
            }
        }
        match self.exactness {
            Exactness::Exact => f.write_str(", exact")?,
            Exactness::Sampled { samples } => write!(f, ", exact in {samples} of {samples} samples")?,
            Exactness::Within { share } => write!(f, ", within {:.1} % in samples", share * 100.0)?,
            Exactness::Unknown => f.write_str(", not verified")?,
        }
        match self.template_overhead {
            Some(0) | None => Ok(()),
            Some(tokens) => write!(f, "; the server adds {tokens} to each prompt"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_who_counted_and_how_exactly() {
        let text =
            |by, exactness, template_overhead| Counting { by, exactness, template_overhead }.to_string();
        assert_eq!(text(CountedBy::Words, Exactness::Exact, Some(0)), "one word is one token, exact");
        assert_eq!(
            text(CountedBy::Server, Exactness::from_samples(&[(16, 16), (64, 64)]), Some(12)),
            "counted by the server's /tokenize, exact in 2 of 2 samples; the server adds 12 to each prompt"
        );
        assert_eq!(
            text(CountedBy::Usage, Exactness::from_samples(&[(100, 102), (50, 50)]), None),
            "calibrated from the server's usage, within 2.0 % in samples"
        );
        assert_eq!(Exactness::from_samples(&[]), Exactness::Unknown);
    }
}
