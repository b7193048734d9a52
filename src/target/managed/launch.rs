//! One launch after another.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::failure::LaunchFailure;
use super::launches::LAUNCHES_FILE;
use super::protocol::Order;
use super::ready::Start;
use super::running::{Running, Supervised};
use crate::plan::{
    EndpointPlan, EnginePlan, Launching, Plan, Reset, TargetPlan, hide_in_words, names_a_secret, shown,
};
use crate::space::KnobValue;
use crate::target::access;

/// Shortest text that is looked for as a secret: hiding a letter would hide everything.
const SHORTEST_SECRET: usize = 4;

/// Launches the engine of a plan, as often as need be.
#[derive(Debug)]
pub struct Launcher {
    engine: EnginePlan,
    endpoint: EndpointPlan,
    folder: PathBuf,
    supervisor: PathBuf,
    interrupt: watch::Receiver<bool>,
}

impl Launcher {
    /// A launcher that keeps its files in the run folder `folder`. `interrupt` turns true when the
    /// operator asks to stop.
    ///
    /// # Errors
    /// When the plan has no engine, or this program's file is not known.
    pub fn new(plan: &Plan, folder: &Path, interrupt: watch::Receiver<bool>) -> Result<Self, LaunchFailure> {
        let (Some(engine), TargetPlan::Endpoint(endpoint)) = (&plan.engine, &plan.target) else {
            return Err(LaunchFailure::NoEngine);
        };
        let system = |error: std::io::Error| LaunchFailure::System(error.to_string());
        Ok(Self {
            engine: engine.clone(),
            endpoint: endpoint.clone(),
            folder: folder.to_owned(),
            supervisor: std::env::current_exe().map_err(system)?,
            interrupt,
        })
    }

    /// The same with another program as the supervisor: one that calls [`super::supervise`] when its
    /// only argument is [`super::SUPERVISOR`].
    #[must_use]
    pub fn supervised_by(mut self, program: PathBuf) -> Self {
        self.supervisor = program;
        self
    }

    /// Launches the engine with these values of its knobs and waits until it gave a good completion.
    /// `tell` is called with what the operator may want to see meanwhile.
    ///
    /// # Errors
    /// When no engine came of it that can be measured; then nothing of it is left running.
    pub async fn launch(
        &self,
        knobs: &BTreeMap<String, KnobValue>,
        tell: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Running, LaunchFailure> {
        let port = self.choose_port()?;
        let (launch, log) = self.next_log();
        let id = format!("plimsoll-{:x}-{launch}", seed());
        let plimsoll = self.supervisor.to_string_lossy();
        let launching = Launching { port, id: &id, plimsoll: &plimsoll, knobs };
        let (order, shown_command) = self.order(&launching, launch, &id, &log)?;
        let mut endpoint = self.endpoint.clone();
        endpoint.url = self.engine.text(&endpoint.url, &launching)?;
        let reset = self.reset(&launching)?;
        tell(&format!("launching: {shown_command}"));
        tell(&format!("its output goes to {}", log.display()));
        let began = Instant::now();
        let supervised = Supervised::start(&self.supervisor, &order).await?;
        let start = Start {
            engine: &self.engine,
            endpoint: &endpoint,
            supervised: &supervised,
            began,
            interrupt: self.interrupt.clone(),
        };
        let outcome = start.until_ready(tell).await;
        let running = Running {
            url: endpoint.url.clone(),
            pid: supervised.pid(),
            started_seconds: began.elapsed().as_secs_f64(),
            launch,
            port,
            id: id.clone(),
            command: shown_command,
            log,
            endpoint,
            ready: self.engine.ready.clone(),
            env: order.env,
            folder: order.folder,
            reset,
            detached: self.engine.detached,
            stop_limit: Duration::try_from_secs_f64(self.engine.stop_seconds).unwrap_or_default(),
            began,
            supervised,
        };
        match outcome {
            Ok(()) => {
                tell(&format!("ready after {:.1} s at {}", running.started_seconds, running.url));
                Ok(running)
            }
            Err(stopped) => {
                let failure = stopped.into_failure(&running);
                running.stop().await;
                Err(failure)
            }
        }
    }

    /// The command that launches the engine with these knobs at `port`, as one would type it; secrets
    /// left out.
    ///
    /// # Errors
    /// When a template cannot be filled in.
    pub fn command(&self, knobs: &BTreeMap<String, KnobValue>, port: u16) -> Result<String, LaunchFailure> {
        let plimsoll = self.supervisor.to_string_lossy();
        let launching = Launching { port, id: "plimsoll", plimsoll: &plimsoll, knobs };
        let mut words = self.engine.command(&launching)?;
        hide_in_words(&mut words, "***");
        Ok(shown(&words))
    }

    /// Gives a running engine other values of the knobs that its reset command sets before each load.
    ///
    /// # Errors
    /// When a template cannot be filled in.
    pub fn adjust(
        &self,
        running: &mut Running,
        knobs: &BTreeMap<String, KnobValue>,
    ) -> Result<(), LaunchFailure> {
        let plimsoll = self.supervisor.to_string_lossy();
        let launching = Launching { port: running.port, id: &running.id, plimsoll: &plimsoll, knobs };
        running.reset = self.reset(&launching)?;
        Ok(())
    }

    fn reset(&self, launching: &Launching<'_>) -> Result<Option<Reset>, LaunchFailure> {
        Ok(match &self.engine.reset {
            Some(Reset::Command(list)) => {
                Some(Reset::Command(list_of(self.filled(self.engine.arguments(list, launching)?)?)))
            }
            other => other.clone(),
        })
    }

    fn order(
        &self,
        launching: &Launching<'_>,
        launch: u32,
        id: &str,
        log: &Path,
    ) -> Result<(Order, String), LaunchFailure> {
        let secrets = Mutex::new(Vec::new());
        let keep = |name: &str, value: &str| {
            if names_a_secret(name)
                && value.len() >= SHORTEST_SECRET
                && let Ok(mut secrets) = secrets.lock()
            {
                secrets.push(value.to_owned());
            }
        };
        let lookup = |name: &str| {
            let value = std::env::var(name).ok()?;
            keep(name, value.trim());
            Some(value)
        };
        let fill = |text: &str, place: &str| {
            access::filled_in(text, place, &lookup).map_err(|error| LaunchFailure::from(Box::new(error)))
        };
        let templates = self.engine.command(launching)?;
        let mut words = templates.clone();
        if !self.engine.shell {
            for word in &mut words {
                *word = fill(word, "`engine.launch`")?;
            }
        }
        let mut shown_words = templates;
        hide_in_words(&mut shown_words, "***");
        for pair in words.windows(2) {
            if pair[0].starts_with('-') && !pair[1].starts_with('-') {
                keep(&pair[0], &pair[1]);
            }
        }
        let mut env = self.engine.environment(launching)?;
        for (name, value) in &mut env {
            *value = fill(value, &format!("`engine.env.{name}`"))?;
            keep(name, value);
        }
        if let Some(name) = &self.endpoint.api_key_env {
            // Whatever its name, it holds a key. One that is not set is told of by the first request.
            if let Ok(key) = std::env::var(name) {
                keep("key", key.trim());
            }
        }
        let stop = match &self.engine.stop {
            Some(list) => Some(self.engine.arguments(list, launching)?),
            None => None,
        };
        let shown_command = shown(&shown_words);
        let order = Order {
            launch,
            id: id.to_owned(),
            command: words,
            shown: shown_words,
            env,
            folder: self.engine.folder.as_ref().map(PathBuf::from),
            log: log.to_owned(),
            launches: self.folder.join(LAUNCHES_FILE),
            stop,
            stop_seconds: self.engine.stop_seconds,
            secrets: secrets.into_inner().unwrap_or_default(),
        };
        Ok((order, shown_command))
    }

    fn filled(&self, words: Vec<String>) -> Result<Vec<String>, LaunchFailure> {
        let fill =
            |word: String| access::filled_in(&word, "`engine.reset`", &|name| std::env::var(name).ok());
        words.into_iter().map(|word| fill(word).map_err(|error| Box::new(error).into())).collect()
    }

    /// The port asked for if it is free, or a free one. Where the engine listens on another machine, the
    /// number is only likely to be free there.
    fn choose_port(&self) -> Result<u16, LaunchFailure> {
        let free = |port: u16| -> std::io::Result<u16> {
            let host = self.engine.host.as_str();
            let address = match host.parse::<IpAddr>() {
                Ok(address) => SocketAddr::new(address, port),
                Err(_) => (host, port)
                    .to_socket_addrs()?
                    .next()
                    .ok_or_else(|| std::io::Error::other(format!("`{host}` has no address")))?,
            };
            Ok(TcpListener::bind(address)?.local_addr()?.port())
        };
        match (self.engine.port, free(self.engine.port.unwrap_or(0))) {
            (_, Ok(port)) => Ok(port),
            (Some(port), Err(error)) if error.kind() == std::io::ErrorKind::AddrInUse => {
                Err(LaunchFailure::PortTaken { address: format!("{}:{port}", self.engine.host) })
            }
            // A host of another machine: what is free there cannot be seen from here.
            (Some(port), Err(_)) => Ok(port),
            (None, Err(_)) => {
                let any = TcpListener::bind(("0.0.0.0", 0)).and_then(|listener| listener.local_addr());
                any.map(|address| address.port())
                    .map_err(|error| LaunchFailure::System(format!("no free port: {error}")))
            }
        }
    }

    /// The first number without a log.
    fn next_log(&self) -> (u32, PathBuf) {
        let path = |launch: u32| self.folder.join(format!("engine-{launch:03}.log"));
        let launch = (1..u32::MAX).find(|launch| !path(*launch).exists()).unwrap_or(u32::MAX);
        (launch, path(launch))
    }
}

fn list_of(words: Vec<String>) -> Vec<crate::plan::Argument> {
    words.into_iter().map(crate::plan::Argument::Word).collect()
}

/// A number that no other launch of this machine has at this time.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (now.as_micros() as u64) << 16 | u64::from(std::process::id() & 0xffff)
}
