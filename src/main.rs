//! The `plimsoll` program: reads the command line, hands a plan to the library, prints what came of it.

mod cli;

use plimsoll::target::managed;

fn main() -> std::process::ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if managed::is_supervisor(&args) {
        return managed::supervise();
    }
    cli::run(args)
}
