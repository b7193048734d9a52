//! A running load over the wire.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Instant;
//! use plimsoll::loadgen::{ClientOptions, Excess, LiveOptions, LiveSession, Session, Wake};
//! use plimsoll::workload::RequestSpec;
//!
//! let requests = (0..).map(|id| RequestSpec::new(id, format!("Tell me of {id}"), 4, 64));
//! let options = LiveOptions::new(ClientOptions::new("http://127.0.0.1:8000", "tiny"), 64);
//! let (_stop, interrupt) = tokio::sync::watch::channel(false);
//! let mut load = LiveSession::open(options, Box::new(requests), Instant::now(), interrupt)?;
//! load.set_level(8, 1.0, Excess::Retire);
//! load.advance(Wake::at(load.now() + 10.0)).await?;
//! println!("{} events in 10 s", load.take_events().len());
//! load.close().await;
//! # Ok(())
//! # }
//! ```

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::watch;

use crate::loadgen::board::{Board, Closing, News, Snapshot};
use crate::loadgen::client::Client;
use crate::loadgen::dispatcher::Dispatcher;
use crate::loadgen::engine::{Engine, Threads};
use crate::loadgen::health::{ClientHealth, Scheduled, tail};
use crate::loadgen::host::HostCpu;
use crate::loadgen::limits::{LimitError, ensure_open_files};
use crate::loadgen::options::{ClientError, ClientOptions};
use crate::loadgen::pacer::Pacer;
use crate::loadgen::ports::{PortError, ensure_ports};
use crate::loadgen::session::{Excess, InFlight, LevelHistory, Session, SessionError, SessionEvent, Wake};
use crate::loadgen::supply::Supply;
use crate::loadgen::talk;
use crate::workload::{Arrivals, RequestSpec};

/// Most requests that are made ahead.
const MOST_AHEAD: usize = 4096;

/// How a load is run.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// How the endpoint is reached.
    pub client: ClientOptions,
    /// The highest level that will be asked for: so many connections must be possible.
    pub most_users: u32,
    /// Open files that a connection costs this process: 2 where the server runs in it too.
    pub files_each: u32,
    /// Threads that carry the load.
    pub threads: usize,
    /// Tokens that a conversation may reach; it ends before a turn that would exceed it.
    pub max_context: Option<u32>,
    /// Number of the first request that is a turn of a conversation.
    pub first_request: u64,
}

impl LiveOptions {
    /// The usual: one thread carries the load (see `benches/client_cpu.rs` for how far that goes).
    pub fn new(client: ClientOptions, most_users: u32) -> Self {
        Self { client, most_users, files_each: 1, threads: 1, max_context: None, first_request: 0 }
    }
}

/// A load that cannot be opened. Nothing was sent.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The endpoint cannot be reached as described.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system's limits are too low.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The system has too few ports.
    #[error(transparent)]
    Ports(#[from] PortError),
    /// The system refused a thread or an event loop.
    #[error("the load engine cannot be started: {0}")]
    System(#[from] io::Error),
}

/// A running load over the wire: a closed loop whose level moves without drain or burst, or an open
/// loop whose requests are sent on schedule.
///
/// What the session shows (events, requests in flight, levels) is its state when
/// [`Session::advance`] last returned, so that its parts always fit together; the load itself runs on.
/// Dropping the session ends the load without its last records.
pub struct LiveSession {
    engine: Arc<Engine>,
    pacer: Pacer,
    dispatcher: Dispatcher,
    supplier: Option<thread::JoinHandle<()>>,
    /// After the engine in this list, as its threads must outlive what runs on them.
    threads: Option<Threads>,
    interrupt: watch::Receiver<bool>,
    seen: Snapshot,
    /// What was known of the lanes when [`Session::health`] was last asked.
    asked: Asked,
    /// CPU of this host, where the server runs on it too.
    host: Option<HostCpu>,
}

/// What was known of the lanes at an instant.
struct Asked {
    at: Instant,
    /// CPU seconds of each, and how it was scheduled.
    lanes: Vec<(f64, Option<Scheduled>)>,
}

impl LiveSession {
    /// Opens a load of nobody: no connection is made before the level is raised. Instants are seconds
    /// since `origin`; `interrupt` turns true when the operator asks to stop.
    ///
    /// # Errors
    /// When the options are not usable or the system's limits are too low.
    pub fn open(
        options: LiveOptions,
        requests: Box<dyn Iterator<Item = RequestSpec> + Send>,
        origin: Instant,
        interrupt: watch::Receiver<bool>,
    ) -> Result<Self, OpenError> {
        ensure_open_files(options.most_users, options.files_each)?;
        ensure_ports(options.most_users)?;
        let client = Client::new(&options.client, origin)?;
        let maker = talk::maker(client.template(), options.max_context);
        let ahead = (options.most_users as usize).clamp(64, MOST_AHEAD);
        let (supply, supplier) = Supply::start(requests.map(maker), ahead)?;
        let (threads, lanes) = Threads::start(options.threads)?;
        let asked = Asked { at: Instant::now(), lanes: vec![(0.0, None); lanes.len()] };
        let host = HostCpu::of_server_at(&options.client.url);
        let engine = Arc::new(
            Engine::new(client, Arc::new(Board::new(origin)), supply, lanes).from(options.first_request),
        );
        let pacer = Pacer::start(Arc::new(engine.clone()))?;
        let dispatcher = Dispatcher::start(Arc::new(engine.clone()))?;
        Ok(Self {
            engine,
            pacer,
            dispatcher,
            supplier: Some(supplier),
            threads: Some(threads),
            interrupt,
            seen: Snapshot::default(),
            asked,
            host,
        })
    }

    async fn wait(&mut self, wake: Wake) -> Result<(), SessionError> {
        let board = &self.engine.board;
        board.want(wake);
        let left = wake.at - board.now();
        // A wake-up time beyond what a timer can hold is none.
        let left = Duration::try_from_secs_f64(left.max(0.0)).unwrap_or(Duration::MAX);
        let mut timer = std::pin::pin!(tokio::time::sleep(left));
        loop {
            match board.look_for_news() {
                Some(News::Enough) => return Ok(()),
                Some(News::Unreachable(cause, detail)) => {
                    return Err(SessionError::Unreachable { cause, detail });
                }
                Some(News::Dry) => {
                    return Err(SessionError::Client("the workload has no more requests".to_owned()));
                }
                None => {}
            }
            tokio::select! {
                biased;
                () = interrupted(&mut self.interrupt) => return Err(SessionError::Interrupted),
                () = &mut timer => return Ok(()),
                () = board.news.notified() => {}
            }
        }
    }

    /// Ends everything that runs, without waiting for users.
    fn stop(&mut self, closing: Closing) {
        self.pacer.stop();
        self.dispatcher.stop();
        self.engine.supply.stop();
        self.engine.board.close(closing);
    }
}

impl Session for LiveSession {
    fn now(&self) -> f64 {
        self.engine.board.now()
    }

    fn set_level(&mut self, users: u32, spread: f64, excess: Excess) {
        let missing = self.engine.board.set_level(users, excess);
        self.pacer.ramp(missing, spread);
    }

    fn set_arrivals(&mut self, arrivals: Option<Arrivals>, excess: Excess) {
        // In this order: nothing of the old schedule is sent once the new one is in force.
        self.dispatcher.halt();
        let board = &self.engine.board;
        let load = arrivals.as_ref().map(|arrivals| (arrivals.curve.at(0.0), arrivals.in_flight_cap));
        board.set_arrivals(load, excess);
        if let Some(arrivals) = arrivals {
            self.dispatcher.begin(arrivals.schedule(), board.now());
        }
    }

    async fn advance(&mut self, wake: Wake) -> Result<(), SessionError> {
        let result = self.wait(wake).await;
        self.engine.board.collect(&mut self.seen);
        result
    }

    fn take_events(&mut self) -> Vec<SessionEvent> {
        std::mem::take(&mut self.seen.events)
    }

    fn in_flight(&self) -> Vec<InFlight> {
        self.seen.in_flight.clone()
    }

    fn thinking(&self) -> usize {
        self.seen.thinking
    }

    fn levels(&self) -> &LevelHistory {
        &self.seen.levels
    }

    fn issued(&self) -> u64 {
        self.seen.issued
    }

    fn health(&mut self) -> Option<ClientHealth> {
        let lanes = self.engine.lanes();
        let lags: Vec<f32> = lanes.iter().flat_map(|lane| lane.probe.take_lags()).collect();
        let lag_samples = lags.len();
        let (lag_p95, lag_p99, lag_max) = tail(lags);
        let now = Instant::now();
        let after: Vec<_> =
            lanes.iter().map(|lane| (lane.probe.cpu_seconds(), lane.probe.scheduled())).collect();
        let wall = (now - self.asked.at).as_secs_f64().max(1e-3);
        let mut health = ClientHealth {
            lag_p95,
            lag_p99,
            lag_max,
            lag_samples,
            cpu_seconds: after.iter().map(|(cpu, _)| cpu).sum(),
            connects: self.engine.client.connects(),
            others: self.host.as_mut().and_then(HostCpu::others),
            ..ClientHealth::default()
        };
        for ((cpu, scheduled), (cpu_before, scheduled_before)) in after.iter().zip(&self.asked.lanes) {
            let busy = ((cpu - cpu_before) / wall).min(1.0);
            let (mut waiting, mut delay) = (0.0, 0.0);
            if let (Some(now), Some(before)) = (scheduled, scheduled_before) {
                let waited = now.waited - before.waited;
                waiting = (waited / wall).clamp(0.0, 1.0);
                delay = waited / (now.slices - before.slices).max(1.0);
            }
            if busy + waiting >= health.pressure() {
                (health.busy, health.waiting) = (busy, waiting);
            }
            health.read_delay = health.read_delay.max(delay);
        }
        self.asked = Asked { at: now, lanes: after };
        Some(health)
    }

    async fn close(&mut self) -> Vec<SessionEvent> {
        let closing = if *self.interrupt.borrow() { Closing::Cancel } else { Closing::Censor };
        self.stop(closing);
        while self.engine.board.present() > 0 {
            self.engine.board.gone.notified().await;
        }
        if let Some(supplier) = self.supplier.take() {
            // It can only fail by a panic, which was printed by then.
            let _ = supplier.join();
        }
        self.threads = None;
        self.engine.board.collect(&mut self.seen);
        self.take_events()
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        self.stop(Closing::Censor);
    }
}

/// Waits until the operator asks to stop; for ever, where nobody can ask any more.
async fn interrupted(interrupt: &mut watch::Receiver<bool>) {
    if interrupt.wait_for(|&stop| stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
