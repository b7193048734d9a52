//! The embedded engine, served within this process on a loopback port for the time of a run.

use std::thread;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::plan::SimulatedPlan;
use crate::sim::http::{Options, serve};
use crate::sim::presets;
use crate::target::TargetError;

/// A running embedded engine; it ends when this is dropped.
pub struct Embedded {
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Embedded {
    /// Serves the plan's preset on a free port of 127.0.0.1, on a thread of its own: as a server
    /// would, it does not wait for the client.
    ///
    /// # Errors
    /// When the preset is unknown or no port can be had.
    pub async fn start(plan: &SimulatedPlan, seed: u64) -> Result<Self, TargetError> {
        let failed = |error: std::io::Error| TargetError::Embedded(error.to_string());
        let preset = presets::find(&plan.preset)
            .ok_or_else(|| TargetError::Embedded(format!("no preset is called `{}`", plan.preset)))?;
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let url = format!("http://{}", listener.local_addr().map_err(failed)?);
        let options = Options { speed: plan.speed, seed, ..Options::default() };
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let preset = preset.clone();
        let thread = thread::Builder::new().name("embedded-engine".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                let shutdown = async move {
                    // A dropped sender means the same as a sent word.
                    let _ = stopped.await;
                };
                if let Err(error) = serve(listener, preset, options, shutdown).await {
                    tracing::error!("the embedded engine stopped: {error}");
                }
            });
        });
        Ok(Self { url, stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }

    /// Where it serves.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the engine's thread was reported by itself.
            let _ = thread.join();
        }
    }
}
