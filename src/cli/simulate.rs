//! `plimsoll simulate`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use plimsoll::recipe::{Speed, choose_preset};
use plimsoll::sim::knobs;
use plimsoll::sim::presets::Preset;
use plimsoll::space::{KnobValue, Setting};

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

    #[command(flatten)]
    knobs: Knobs,
}

// No doc comment: it would take the place of the command's own description in the help.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
struct Knobs {
    /// Most sequences that run at once [default: the preset's]
    #[arg(long, value_name = "N")]
    max_num_seqs: Option<u32>,

    /// Most tokens that one step computes [default: the preset's]
    #[arg(long, value_name = "TOKENS")]
    max_num_batched_tokens: Option<u32>,

    /// Tokens proposed a step, of which 7 in 10 are right; 0 is off [default: the preset's]
    #[arg(long, value_name = "N")]
    num_speculative_tokens: Option<u32>,

    /// plain, long-context (cheap attention) or prefill (cheap prompts) [default: plain]
    #[arg(long, value_name = "NAME")]
    kernels: Option<String>,

    /// Whether a turn of a conversation finds in the cache what was computed for the turn before it [default:
    /// true]
    #[arg(long, value_name = "BOOL")]
    enable_prefix_caching: Option<bool>,

    /// Does nothing, so that there is a knob that does not matter.
    #[arg(long, value_name = "GIB")]
    swap_space: Option<u32>,
}

const EXAMPLES: &str = "\
Example:
  plimsoll simulate --port 8000 &
  plimsoll search --url http://127.0.0.1:8000 --slo 'ttft p95 < 500ms'
  plimsoll simulate --enable-prefix-caching false   # for `plimsoll search --turns 5`, on and off
  plimsoll simulate --max-num-seqs 512   # does not fit into its memory, and ends";

impl Simulate {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let settings = engine::SimulateSettings {
            preset: self.knobs.applied(choose_preset(self.preset.as_deref())?)?,
            address: SocketAddr::new(self.host, self.port),
            speed: self.speed.map_or(1.0, |Speed(factor)| factor),
            seed: self.seed,
        };
        block_on(engine::simulate(settings))
    }
}

impl Knobs {
    /// The preset with the knobs that are given; untouched where none is.
    fn applied(self, preset: &Preset) -> anyhow::Result<Preset> {
        let number = |value: u32| KnobValue::Int(i64::from(value));
        let given = [
            ("max_num_seqs", self.max_num_seqs.map(number)),
            ("max_num_batched_tokens", self.max_num_batched_tokens.map(number)),
            ("num_speculative_tokens", self.num_speculative_tokens.map(number)),
            ("kernels", self.kernels.map(KnobValue::Choice)),
            ("swap_space", self.swap_space.map(number)),
        ];
        let setting: Setting =
            given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let mut preset = preset.clone();
        // It takes no memory, so that alone it leaves the pool as it is.
        preset.params.prefix_caching = self.enable_prefix_caching.unwrap_or(preset.params.prefix_caching);
        if !setting.is_empty() {
            preset.params = knobs::apply(preset.params, &setting)?;
        }
        Ok(preset)
    }
}
