//! What is looked at beside the requests: the server's own metrics, this machine, its GPUs.
//!
//! [`Telemetry`] looks once a second, on a thread of its own so that neither the load nor the
//! controller waits, and on the run's clock. What is not there is silent: a server without metrics,
//! a system without `/proc`, a machine without a driver.

mod gpu;
mod host;
pub mod names;
mod proc;
pub mod prometheus;
mod scrape;

pub use gpu::{Gpu, GpuReading};
pub use host::Host;

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

use crate::loadgen::{Address, ClientOptions};
use crate::observed::{GpuFigures, HostFigures, Series, ServerFigures, Source, Values};
use crate::plan::{GpuChoice, TargetPlan, TelemetryPlan};
use scrape::{Exporter, Metrics};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Something that was asked for cannot be looked at.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// No GPU of this machine can be read.
    #[error(
        "`gpu` is `required`, but no GPU of this machine can be read: {0}; leave `--gpu required` out, or name the exporter of the machine that has them (`--dcgm URL`)"
    )]
    NoGpu(String),
    /// The exporter does not tell of GPUs.
    #[error(
        "the DCGM exporter `{url}` cannot be used: {reason}; give the URL of its page, such as `http://gpu-host:9400/metrics`"
    )]
    NoExporter {
        /// Its page, without credentials.
        url: String,
        /// What was seen.
        reason: String,
    },
    /// The system refused the thread.
    #[error("telemetry cannot be started: {0}")]
    System(#[from] std::io::Error),
}

/// Looks at everything there is until it is dropped.
#[derive(Debug)]
pub struct Telemetry {
    log: Arc<Mutex<Log>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What was seen over a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// By the server.
    pub server: Option<ServerFigures>,
    /// Of this machine.
    pub host: Option<HostFigures>,
    /// Of the GPUs.
    pub gpu: Option<GpuFigures>,
}

/// What was seen.
#[derive(Debug)]
struct Log {
    /// Where the run's clock is at zero.
    origin: Instant,
    server: Series,
    host: Series,
    gpu: Series,
    /// What was not taken yet, as lines of `telemetry.jsonl`.
    lines: Vec<u8>,
}

impl Telemetry {
    /// Begins to look at the endpoint that `client` reaches, at this machine and at the GPUs that
    /// `plan` names. The run's clock is at zero until [`Telemetry::set_clock`].
    ///
    /// # Errors
    /// When a GPU or an exporter that was asked for cannot be read.
    pub async fn start(
        client: &ClientOptions,
        plan: &TelemetryPlan,
        target: &TargetPlan,
    ) -> Result<Self, TelemetryError> {
        let exporter = match &plan.dcgm {
            Some(url) => Some(Exporter::find(url).await?),
            None => None,
        };
        let gpus = gpus(client, plan, target)?;
        let metrics = Metrics::new(client);
        let log = Arc::new(Mutex::new(Log {
            origin: Instant::now(),
            server: Series::default(),
            host: Series::default(),
            gpu: Series::default(),
            lines: Vec::new(),
        }));
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::clone(&log);
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            runtime.block_on(async {
                let all = async {
                    tokio::join!(
                        watch_server(metrics, &shared),
                        watch_exporter(exporter, &shared),
                        watch_machine(gpus, &shared)
                    );
                    pending::<()>().await;
                };
                tokio::select! {
                    () = all => {}
                    // A dropped sender means the same as a sent word.
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { log, stop: Some(stop), thread: Some(thread) })
    }

    /// Sets the run's clock to `now` seconds.
    pub fn set_clock(&self, now: f64) {
        let past = Duration::try_from_secs_f64(now).unwrap_or_default();
        if let Some(origin) = Instant::now().checked_sub(past) {
            self.log().origin = origin;
        }
    }

    /// What was seen from `from` to `to` on the run's clock. Earlier looks are forgotten.
    pub fn figures(&self, from: f64, to: f64) -> Figures {
        let mut log = self.log();
        let Log { server, host, gpu, .. } = &mut *log;
        let figures =
            Figures { server: server.server(from, to), host: host.host(from, to), gpu: gpu.gpu(from, to) };
        [server, host, gpu].into_iter().for_each(|series| series.forget_before(to));
        figures
    }

    /// Takes the lines of `telemetry.jsonl` since the last call.
    pub fn take_lines(&self) -> Vec<u8> {
        std::mem::take(&mut self.log().lines)
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by itself.
            let _ = thread.join();
        }
    }
}

/// The GPUs of this machine, where they are wanted: those of another machine say nothing of the
/// server, and the simulated engine uses none.
fn gpus(
    client: &ClientOptions,
    plan: &TelemetryPlan,
    target: &TargetPlan,
) -> Result<Option<Box<dyn Gpu>>, TelemetryError> {
    match plan.gpu {
        GpuChoice::Required => gpu::open().map(Some).map_err(TelemetryError::NoGpu),
        GpuChoice::Auto if plan.dcgm.is_none() && matches!(target, TargetPlan::Endpoint(_)) => {
            let here = Address::parse(&client.url).is_ok_and(|address| is_loopback(&address.host));
            Ok(if here { gpu::open().ok() } else { None })
        }
        GpuChoice::Auto | GpuChoice::Off => Ok(None),
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn watch_server(metrics: Option<Metrics>, log: &Mutex<Log>) {
    let Some(mut metrics) = metrics else { return };
    every_interval(async || {
        let values = metrics.look().await;
        if let Some(values) = values {
            note(log, Source::Server, values);
        }
        metrics.is_worth_asking()
    })
    .await;
}

async fn watch_exporter(exporter: Option<Exporter>, log: &Mutex<Log>) {
    let Some(exporter) = exporter else { return };
    every_interval(async || {
        // A look that fails is a gap; the next may do.
        if let Ok(values) = exporter.look().await {
            note(log, Source::Gpu, values);
        }
        true
    })
    .await;
}

async fn watch_machine(mut gpus: Option<Box<dyn Gpu>>, log: &Mutex<Log>) {
    let mut host = Host::new();
    every_interval(async || {
        note(log, Source::Host, host.read());
        if let Some(gpus) = &mut gpus {
            note(log, Source::Gpu, gpu::combined(&gpus.read()));
        }
        true
    })
    .await;
}

/// Calls `look` at a steady interval as long as it says so.
async fn every_interval(mut look: impl AsyncFnMut() -> bool) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        if !look().await {
            return;
        }
    }
}

fn note(log: &Mutex<Log>, source: Source, values: Values) {
    if values.is_empty() {
        return;
    }
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let at = log.origin.elapsed().as_secs_f64();
    log.lines.extend(line(at, source, &values));
    let series = match source {
        Source::Server => &mut log.server,
        Source::Host => &mut log.host,
        Source::Gpu => &mut log.gpu,
    };
    series.push(at, values);
}

/// A look as a line of `telemetry.jsonl`.
fn line(at: f64, source: Source, values: &Values) -> Vec<u8> {
    let named: Map<String, Value> =
        values.iter().map(|(quantity, value)| (quantity.name().to_owned(), json!(value))).collect();
    let at = (at * 1e6).round() / 1e6;
    let mut line = json!({ "at": at, "source": source.name(), "values": named }).to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;
