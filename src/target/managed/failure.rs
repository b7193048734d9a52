//! What can go wrong with a launch, told apart from what was seen.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::plan::TemplateError;
use crate::target::TargetError;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(9) => f.write_str("signal 9, SIGKILL"),
            Self::Signal(11) => f.write_str("signal 11, SIGSEGV"),
            Self::Signal(6) => f.write_str("signal 6, SIGABRT"),
            Self::Signal(15) => f.write_str("signal 15, SIGTERM"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Where in its life an engine failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between the launch and the first good completion.
    Starting,
    /// After it.
    Serving,
}

/// Why an engine failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It ended before it was ready.
    StartFailed(Exit),
    /// It had not enough memory, of the machine or of the GPU.
    OutOfMemory,
    /// It runs, but gave no good completion in time.
    NotReady,
    /// It ended under load.
    CrashedUnderLoad(Exit),
    /// It runs, but answers no more.
    Hung,
}

/// Words of a log that say that memory ran out, in lower case: of the kernel, C++, Python, CUDA, HIP,
/// XLA, and of vLLM, SGLang and llama.cpp about their caches.
const OUT_OF_MEMORY: [&str; 19] = [
    "out of memory",
    "outofmemory",
    "out_of_memory",
    "oom-kill",
    "oomkilled",
    "oom killed",
    "std::bad_alloc",
    "cannot allocate memory",
    "can't allocate memory",
    "failed to allocate",
    "unable to allocate",
    "cudaerrormemoryallocation",
    "resource_exhausted",
    "not enough memory",
    "no available memory for the cache",
    "is larger than the available kv cache memory",
    "is less than requested memory for kv",
    "is less than desired gpu memory utilization",
    "memoryerror",
];

/// Exit code of a process that a shell saw killed (128 + SIGKILL), which is what a container's
/// out-of-memory killer leaves.
const KILLED: i32 = 137;

/// Tells the causes apart: from the phase, how the process ended (`None`: it did not), and the last
/// lines of its log.
pub fn classify(phase: Phase, exit: Option<Exit>, log_tail: &[String]) -> Cause {
    let says_so = || {
        log_tail.iter().any(|line| {
            let line = line.to_lowercase();
            OUT_OF_MEMORY.iter().any(|words| line.contains(words))
        })
    };
    // Nobody but the kernel's out-of-memory killer is expected to end an engine by SIGKILL.
    let killed = matches!(exit, Some(Exit::Code(KILLED) | Exit::Signal(9)));
    match (phase, exit) {
        _ if killed || says_so() => Cause::OutOfMemory,
        (Phase::Starting, Some(exit)) => Cause::StartFailed(exit),
        (Phase::Starting, None) => Cause::NotReady,
        (Phase::Serving, Some(exit)) => Cause::CrashedUnderLoad(exit),
        (Phase::Serving, None) => Cause::Hung,
    }
}

/// An engine that failed, with the last lines of its log.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineFailure {
    /// Why.
    pub cause: Cause,
    /// Where in its life.
    pub phase: Phase,
    /// How its process ended, if it did.
    pub exit: Option<Exit>,
    /// Number of the launch in its run, from 1.
    pub launch: u32,
    /// Seconds from the launch to the failure.
    pub seconds: f64,
    /// What was seen last where there was no exit: an answer, or a time-out.
    pub seen: Option<String>,
    /// File with all of its output.
    pub log: PathBuf,
    /// The last lines of it.
    pub tail: Vec<String>,
}

impl fmt::Display for EngineFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = format!("{:.1} s after its launch", self.seconds);
        match (self.cause, self.phase) {
            (Cause::StartFailed(exit), _) => {
                write!(f, "the engine ended before it was ready: {exit}, {after}")?
            }
            (Cause::OutOfMemory, Phase::Starting) => {
                write!(f, "the engine ran out of memory while it started")?
            }
            (Cause::OutOfMemory, Phase::Serving) => write!(f, "the engine ran out of memory under load")?,
            (Cause::NotReady, _) => write!(f, "the engine was not ready {after}")?,
            (Cause::CrashedUnderLoad(exit), _) => write!(f, "the engine ended under load: {exit}, {after}")?,
            (Cause::Hung, _) => write!(f, "the engine runs but answers no more")?,
        }
        if let (Cause::OutOfMemory, Some(exit)) = (self.cause, self.exit) {
            write!(f, " ({exit})")?;
        }
        if let Some(seen) = &self.seen {
            write!(f, ": {seen}")?;
        }
        Ok(())
    }
}

impl std::error::Error for EngineFailure {}

impl EngineFailure {
    /// How to mend it.
    pub fn hint(&self) -> String {
        let log = self.log.display();
        match self.cause {
            Cause::StartFailed(Exit::Code(126 | 127)) => {
                format!("the shell did not find or could not run a program: see `{log}`")
            }
            Cause::StartFailed(_) => format!("its output is in `{log}`; the command is `engine.launch`"),
            Cause::OutOfMemory => {
                format!(
                    "give it less to hold (context, batch, share of the memory); its output is in `{log}`"
                )
            }
            Cause::NotReady => format!(
                "give it longer with `engine.start_timeout` (`--start-timeout`), or see `{log}`; what is asked is \
                 `engine.ready`"
            ),
            Cause::CrashedUnderLoad(_) | Cause::Hung => format!(
                "its output is in `{log}`; `plimsoll resume` launches it anew and goes on from the last trial"
            ),
        }
    }
}

/// A launch that gave no engine that can be measured. Nothing of it is left running.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LaunchFailure {
    /// The plan has no engine.
    #[error("the plan has no engine to launch")]
    NoEngine,
    /// A template cannot be filled in.
    #[error("`engine`: {0}")]
    Template(#[from] TemplateError),
    /// The program could not be run at all.
    #[error("`{program}` cannot be run: {reason}")]
    Program {
        /// The program.
        program: String,
        /// The system's words.
        reason: String,
    },
    /// Another server is at the port already, and would have been measured.
    #[error("something listens already on {address}")]
    PortTaken {
        /// Host and port.
        address: String,
    },
    /// The supervisor, the run folder or a port could not be had.
    #[error("the engine cannot be launched: {0}")]
    System(String),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] Box<EngineFailure>),
    /// The engine is up, but cannot be measured as planned.
    #[error(transparent)]
    Target(#[from] Box<TargetError>),
    /// The operator asked to stop.
    #[error("interrupted while the engine started")]
    Interrupted,
}

impl LaunchFailure {
    /// The failure of the engine itself, which a tuner learns from; everything else is to be mended.
    pub fn engine(&self) -> Option<&EngineFailure> {
        match self {
            Self::Engine(failure) => Some(failure),
            _ => None,
        }
    }

    /// How to mend it, where the message does not already say so.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Program { .. } => Some(
                "check the first word of `engine.launch` (`--launch`), `engine.folder` and the PATH"
                    .to_owned(),
            ),
            Self::PortTaken { .. } => {
                Some("end that server, or leave `engine.port` out to have a free port chosen".to_owned())
            }
            Self::Engine(failure) => Some(failure.hint()),
            Self::Target(error) => error.hint(),
            Self::NoEngine | Self::Template(_) | Self::System(_) | Self::Interrupted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn failures_are_told_apart_by_phase_exit_and_log() {
        let quiet = log(&["loading the model", "ready"]);
        for (phase, exit, expected) in [
            (Phase::Starting, Some(Exit::Code(1)), Cause::StartFailed(Exit::Code(1))),
            (Phase::Starting, Some(Exit::Code(0)), Cause::StartFailed(Exit::Code(0))),
            (Phase::Starting, None, Cause::NotReady),
            (Phase::Serving, Some(Exit::Signal(11)), Cause::CrashedUnderLoad(Exit::Signal(11))),
            (Phase::Serving, None, Cause::Hung),
            (Phase::Starting, Some(Exit::Code(137)), Cause::OutOfMemory),
            (Phase::Serving, Some(Exit::Signal(9)), Cause::OutOfMemory),
        ] {
            assert_eq!(classify(phase, exit, &quiet), expected, "{phase:?} {exit:?}");
        }
    }

    #[test]
    fn a_log_that_speaks_of_lacking_memory_tells_more_than_the_exit_code() {
        for line in [
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
            "... 8.0 GiB KV cache is needed, which is larger than the available KV cache memory (1.0 GiB)",
            "ValueError: Available memory on node 0 (11.54/23.54 GiB) on kv cache allocation is less than requested memory \
             for kv (4000.0 GiB).",
            "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 1099511627776",
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        ] {
            let tail = log(&["Traceback", line, "exiting"]);
            assert_eq!(classify(Phase::Starting, Some(Exit::Code(1)), &tail), Cause::OutOfMemory, "{line}");
            // A worker that is gone can leave the server standing.
            assert_eq!(classify(Phase::Serving, None, &tail), Cause::OutOfMemory, "{line}");
        }
    }

    #[test]
    fn a_failure_says_what_when_and_the_mend() {
        let failure = EngineFailure {
            cause: Cause::NotReady,
            phase: Phase::Starting,
            exit: None,
            launch: 1,
            seconds: 60.02,
            seen: Some("`GET /health` is answered with 503".to_owned()),
            log: PathBuf::from("runs/x/engine-001.log"),
            tail: Vec::new(),
        };
        assert_eq!(
            failure.to_string(),
            "the engine was not ready 60.0 s after its launch: `GET /health` is answered with 503"
        );
        assert!(failure.hint().contains("`engine.start_timeout`"), "{}", failure.hint());
    }
}
