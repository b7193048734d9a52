//! The `plimsoll` program: reads the command line, hands a plan to the library, prints what came of it.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
