//! Why a measurement is not valid, in words.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Seconds, significant};

/// Why a measurement is not valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum VoidReason {
    /// Responses came in one burst, or in a few, although tokens were made one by one.
    BufferedStream {
        /// Share of the responses that came so.
        share: f64,
    },
    /// Requests were lost on the way, or the server failed most of them.
    Infrastructure {
        /// Share of the requests.
        share: f64,
        /// The most frequent message.
        detail: String,
    },
    /// Responses were much shorter or longer than asked.
    OutputLength {
        /// Mean tokens asked for.
        asked: f64,
        /// Mean tokens that came.
        got: f64,
        /// Share of the responses that ended by themselves (finish reason `stop`).
        #[serde(default)]
        stopped: f64,
    },
    /// The client was too slow to send or read in time.
    Client {
        /// How late it was to see what had happened, seconds (p95 of its event loop, or the mean wait
        /// for a CPU, whichever is longer).
        lag: f64,
        /// The tightest limit that the lag falls on, seconds.
        #[serde(default)]
        limit: Option<f64>,
        /// Share of the time in which its busiest thread ran or waited for a CPU.
        #[serde(default)]
        pressure: f64,
        /// Share of the time in which that thread waited for a CPU.
        #[serde(default)]
        waiting: f64,
    },
    /// The client sent requests too long after they were due.
    LateSends {
        /// How late, seconds (p99).
        lateness: f64,
        /// The tightest limit that the lateness falls on, seconds.
        limit: f64,
    },
    /// The measured part was shorter than the window of an objective.
    ShortForWindow {
        /// The objective.
        objective: String,
        /// Length of its window, seconds.
        window: f64,
    },
    /// No response held a figure that the SLO judges.
    NoSamples {
        /// The objective without samples.
        objective: String,
    },
}

impl VoidReason {
    /// Whether the same trial may well be valid a little later, when what failed has come back.
    pub fn may_pass(&self) -> bool {
        matches!(self, VoidReason::Infrastructure { .. })
    }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{}%", significant(share * 100.0))
}

impl fmt::Display for VoidReason {
    /// What was seen and what to do about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VoidReason::BufferedStream { share } => write!(
                f,
                "{} of the streams came in one burst or a few, so TTFT and ITL cannot be seen; run without the \
                 buffering proxy, let the engine send every token (stream interval 1) and leave its front end a \
                 core, or judge by e2e",
                percent(*share)
            ),
            VoidReason::Infrastructure { share, detail } => write!(
                f,
                "{} of the requests were lost ({detail}), which says nothing of the load; check that the server is \
                 up, that nothing between cuts connections, and its log",
                percent(*share)
            ),
            VoidReason::OutputLength { asked, got, stopped } => {
                write!(
                    f,
                    "responses held {} tokens on average where {} were asked for",
                    significant(*got),
                    significant(*asked)
                )?;
                if *stopped > 0.0 {
                    write!(f, " ({} ended by themselves)", percent(*stopped))?;
                }
                f.write_str(
                    "; name the engine (`--engine`) so that it is told to ignore EOS, or give the true output \
                     lengths (`--osl`)",
                )
            }
            VoidReason::Client { lag, limit, pressure, waiting } => {
                f.write_str("this client, not the server, was the limit: ")?;
                match limit {
                    Some(limit) => {
                        write!(
                            f,
                            "it saw answers {} late against a limit of {}",
                            Seconds(*lag),
                            Seconds(*limit)
                        )?;
                    }
                    None => write!(f, "it saw answers {} late", Seconds(*lag))?,
                }
                write!(f, ", and was busy {} of the time", percent(*pressure))?;
                if *waiting > 0.2 {
                    write!(f, ", {} of it waiting for a CPU", percent(waiting / pressure.max(1e-9)))?;
                }
                f.write_str("; run it on a machine with a free core, or allow fewer concurrent requests")
            }
            VoidReason::LateSends { lateness, limit } => write!(
                f,
                "this client sent requests {} after they were due (p99) against a limit of {}; run it on a machine \
                 with a free core, or allow a lower rate",
                Seconds(*lateness),
                Seconds(*limit)
            ),
            VoidReason::ShortForWindow { objective, window } => write!(
                f,
                "less than {} was measured, the window of `{objective}`; measure for longer, or judge by a shorter window",
                Seconds(*window)
            ),
            VoidReason::NoSamples { objective } => write!(
                f,
                "no response held a figure for `{objective}`; check that responses stream and hold more than one token"
            ),
        }
    }
}
