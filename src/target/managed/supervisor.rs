//! The supervisor: the parent of an engine, in a process of its own.
//!
//! It adopts whatever the engine's processes leave behind, so that nothing of the tree can escape and
//! nothing stays as a zombie, and it ends the tree when its input ends: however the program that
//! launched it ended, that happens.

use std::fs::OpenOptions;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, wait};

use super::failure::Exit;
use super::launches::{self, Entry, Launched};
use super::protocol::{Order, Report};
use super::{output, tree};

/// Time between looks at the processes.
const LOOK: Duration = Duration::from_millis(50);
/// Longest that processes that were killed are waited for: one that hangs in a driver stays.
const KILLED: Duration = Duration::from_secs(10);
/// Longest that an engine gets for a clean end when nobody is left who waits for it.
const ORPHANED: Duration = Duration::from_secs(10);
/// Longest wait for the rest of the output of a process that has ended.
const OUTPUT: Duration = Duration::from_millis(500);

/// Runs as the supervisor of one engine: reads what to launch from the standard input, reports on the
/// standard output, and returns when nothing of the engine is left.
pub fn supervise() -> ExitCode {
    let mut line = String::new();
    let order = io::stdin().lock().read_line(&mut line).map(|_| serde_json::from_str::<Order>(&line));
    let Ok(Ok(order)) = order else {
        eprintln!("error: this command is used by plimsoll itself");
        return ExitCode::from(2);
    };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(getpid())) {
        // Without it a process that leaves the group is not followed.
        tracing::warn!("processes that leave the engine's group are not followed: {error}");
    }
    match Family::launch(order) {
        Ok(family) => family.look_after(),
        Err(error) => {
            let text = error.to_string();
            // Without the number that Rust adds.
            let reason = text.split(" (os error").next().unwrap_or(&text).to_owned();
            report(&Report::Refused { reason });
        }
    }
    ExitCode::SUCCESS
}

/// Tells the program, if it is still there.
fn report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// The engine with all its processes.
struct Family {
    order: Order,
    engine: i32,
    exit: Option<Exit>,
    /// Whether no process is left.
    empty: bool,
    /// The last one that was reaped, beside the engine.
    reaped: Vec<i32>,
    log: JoinHandle<()>,
}

impl Family {
    fn launch(order: Order) -> io::Result<Self> {
        let mut log = OpenOptions::new().create(true).append(true).open(&order.log)?;
        let (reader, writer) = io::pipe()?;
        let mut command = command(&order, &order.command)?;
        command.stdout(writer.try_clone()?).stderr(writer).process_group(0);
        let engine = command.spawn()?.id() as i32;
        // Closes this process's ends of the pipe: the log ends with the last process.
        drop(command);
        let secrets = order.secrets.clone();
        let log = thread::Builder::new()
            .name("engine-log".to_owned())
            .spawn(move || output::copy(reader, &mut log, &secrets))?;
        let started = |pid: i32| tree::stat(pid).map_or(0, |stat| stat.started);
        let own = std::process::id() as i32;
        let entry = Entry::Launched(Launched {
            launch: order.launch,
            id: order.id.clone(),
            utc: jiff::Timestamp::now().to_string(),
            command: order.shown.clone(),
            pid: engine,
            started: started(engine),
            supervisor: own,
            supervisor_started: started(own),
            boot: tree::boot(),
            stop: order.stop.clone(),
            stop_seconds: order.stop_seconds,
        });
        let family = Self { order, engine, exit: None, empty: false, reaped: Vec::new(), log };
        if let Err(error) = launches::append(&family.order.launches, &entry) {
            let reason = format!("`{}` cannot be written: {error}", family.order.launches.display());
            family.stop(false);
            return Err(io::Error::other(reason));
        }
        report(&Report::Launched { pid: engine });
        Ok(family)
    }

    /// Watches until the program asks for the end or is gone, or nothing is left to watch.
    fn look_after(mut self) {
        let asked = end_of_input();
        loop {
            let word = asked.recv_timeout(LOOK);
            self.reap();
            match word {
                Ok(was_asked) => return self.stop(was_asked),
                Err(RecvTimeoutError::Disconnected) => return self.stop(false),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.empty && self.order.stop.is_none() {
                return self.gone(false);
            }
        }
    }

    /// Takes note of the processes that have ended, so that they do not stay as zombies.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let pid = Pid::as_raw(Some(pid));
                    if pid == self.engine {
                        let exit = exit_of(status);
                        self.exit = Some(exit);
                        self.wait_for_log();
                        report(&Report::Exited(exit));
                    } else {
                        self.reaped.push(pid);
                    }
                    self.empty = false;
                }
                Ok(None) => return self.empty = false,
                // No children: nothing of the tree is left, since orphans become ours.
                Err(_) => return self.empty = true,
            }
        }
    }

    /// Ends all: the stop command, `SIGTERM` to the group, `SIGKILL` to everything.
    fn stop(mut self, asked: bool) {
        let mut grace = Duration::try_from_secs_f64(self.order.stop_seconds).unwrap_or_default();
        if !asked {
            grace = grace.min(ORPHANED);
        }
        self.run_stop_command(grace);
        if !self.empty {
            tree::signal_group(self.engine, Signal::TERM);
            self.wait_until(grace, |family| family.empty);
        }
        if !self.empty {
            let own = std::process::id() as i32;
            self.wait_until(KILLED, |family| {
                tree::signal_group(family.engine, Signal::KILL);
                tree::signal_all(&tree::descendants(own), Signal::KILL);
                family.empty
            });
        }
        self.gone(asked);
    }

    fn run_stop_command(&mut self, grace: Duration) {
        let Some(stop) = self.order.stop.clone() else { return };
        let output = || {
            OpenOptions::new().append(true).open(&self.order.log).map_or_else(|_| Stdio::null(), Stdio::from)
        };
        let child = command(&self.order, &stop)
            .and_then(|mut command| command.stdout(output()).stderr(output()).process_group(0).spawn());
        match child {
            Ok(child) => {
                let pid = child.id() as i32;
                self.wait_until(grace, |family| family.reaped.contains(&pid));
                tree::signal_group(pid, Signal::KILL);
            }
            Err(error) => self.note(&format!("the stop command could not be run: {error}")),
        }
    }

    /// Adds a line to the log.
    fn note(&self, text: &str) {
        let log = OpenOptions::new().append(true).open(&self.order.log);
        let _ = log.and_then(|mut log| writeln!(log, "plimsoll: {text}"));
    }

    fn wait_until(&mut self, longest: Duration, mut is_over: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + longest;
        loop {
            self.reap();
            if is_over(self) || Instant::now() >= until {
                return;
            }
            thread::sleep(LOOK / 5);
        }
    }

    fn wait_for_log(&self) {
        let until = Instant::now() + OUTPUT;
        while !self.log.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn gone(self, asked: bool) {
        self.wait_for_log();
        let left = if self.empty { 0 } else { tree::descendants(std::process::id() as i32).len() };
        if left == 0 {
            let entry = Entry::Ended { launch: self.order.launch, exit: self.exit, asked };
            // Looked for once more by a resume if this cannot be kept.
            let _ = launches::append(&self.order.launches, &entry);
        }
        report(&Report::Gone { left });
    }
}

/// A command in the engine's folder and environment, without input.
fn command(order: &Order, words: &[String]) -> io::Result<Command> {
    let (program, args) = words.split_first().ok_or_else(|| io::Error::other("the command is empty"))?;
    let mut command = Command::new(program);
    command.args(args).envs(&order.env).env(tree::MARK, &order.id).stdin(Stdio::null());
    if let Some(folder) = &order.folder {
        if !folder.is_dir() {
            return Err(io::Error::other(format!("the folder `{}` is not there", folder.display())));
        }
        command.current_dir(folder);
    }
    Ok(command)
}

/// Says so when a line comes (true) or the input ends without one (false).
fn end_of_input() -> Receiver<bool> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let read = io::stdin().lock().read_line(&mut String::new());
        // Nobody listens any more when the engine ended by itself.
        let _ = tell.send(read.is_ok_and(|bytes| bytes > 0));
    });
    told
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}
