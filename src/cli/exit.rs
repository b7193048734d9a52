//! How a command ends, as a number.

/// Exit code of the program: each cause its own, so that scripts need not read texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// An answer was found.
    Answered = 0,
    /// The command line or the recipe is wrong, or this machine refuses (files, sockets).
    Usage = 2,
    /// The SLO is missed already at the lowest load.
    MissedAtLowest = 3,
    /// The SLO is met at the highest load allowed: the answer is a lower bound.
    MetAtHighest = 4,
    /// No valid measurement could be made.
    Void = 5,
    /// The server cannot be reached, or the one to launch failed.
    Unreachable = 6,
    /// Capacity was lost, or the self-test broke a bound.
    GateFailed = 7,
    /// Ended by Ctrl-C.
    Interrupted = 130,
}
