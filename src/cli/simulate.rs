//! `plimsoll simulate`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use plimsoll::recipe::{Speed, choose_preset};

use super::exit::ExitCode;
use super::{block_on, engine};

/// Run the simulated engine as a server of its own.
///
/// It speaks the OpenAI API (chat and completions, streamed or not), /v1/models, /tokenize, /health
/// and /metrics, and takes its time as an engine on a GPU would. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Simulate {
    /// The engine to play [default: the smallest]
    #[arg(long)]
    preset: Option<String>,

    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,

    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8000)]
    port: u16,

    /// Seconds of the engine's time that pass in a second [default: 1]
    #[arg(long, value_name = "FACTOR")]
    speed: Option<Speed>,

    /// Seed of the engine's noise.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const EXAMPLES: &str = "\
Example:
  plimsoll simulate --port 8000 &
  plimsoll search --url http://127.0.0.1:8000 --slo 'ttft p95 < 500ms'";

impl Simulate {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let settings = engine::SimulateSettings {
            preset: choose_preset(self.preset.as_deref())?,
            address: SocketAddr::new(self.host, self.port),
            speed: self.speed.map_or(1.0, |Speed(factor)| factor),
            seed: self.seed,
        };
        block_on(engine::simulate(settings))
    }
}
