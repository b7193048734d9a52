//! Flags that several commands share, each group turned into the part of a recipe that it changes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use plimsoll::plan::{GpuChoice, Plan};
use plimsoll::recipe::{
    ApiName, ClassSection, Count, Duration, EngineName, EngineSection, FormatName, Launch, LoadSection,
    Loaded, Pool, Purpose, Recipe, Speed, TargetSection, TelemetrySection, ThinkTime, TokenLengths,
    Tokenizer, TurnCount, WorkloadSection,
};
use plimsoll::slo::Slo;
use plimsoll::space::KnobValue;

use super::complaint::Complaint;
use super::engine::Settings;
use super::exit::ExitCode;

/// What is measured, and what is asked of it.
#[derive(Debug, Args)]
pub struct CommonFlags {
    /// Start from a recipe: a file, or the name of a ready one (`plimsoll recipes list`). Flags win
    /// over it.
    #[arg(long, value_name = "FILE|NAME")]
    recipe: Option<String>,

    /// An objective, such as 'ttft p95 < 500ms'; may be given several times, all must hold.
    ///
    /// <metric> <stat> <op> <value><unit>: metrics ttft, itl, tpot, e2e, ttst, stall,
    /// output-tokens-per-second-per-user, goodput, attainment, errors; stats mean, p50 to p99.9, max.
    /// 'ttft p99 < 800ms over 30s worst' must hold in every window of 30 s.
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,

    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    launch: LaunchFlags,

    #[command(flatten)]
    workload: WorkloadFlags,

    #[command(flatten)]
    telemetry: TelemetryFlags,

    #[command(flatten)]
    output: OutputFlags,
}

/// What is measured, for a command that says itself what is sent.
#[derive(Debug, Args)]
pub struct ServerFlags {
    /// Start from a recipe: a file, or the name of a ready one (`plimsoll recipes list`). Flags win
    /// over it.
    #[arg(long, value_name = "FILE|NAME")]
    recipe: Option<String>,

    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    launch: LaunchFlags,

    /// How prompt tokens are counted: auto, server, usage, or the path of a tokenizer.json.
    #[arg(long, value_name = "FILE|HOW")]
    tokenizer: Option<Tokenizer>,

    /// Seed of every random stream: same seed, same requests [default: 0]
    #[arg(long)]
    seed: Option<u64>,

    #[command(flatten)]
    telemetry: TelemetryFlags,

    #[command(flatten)]
    output: OutputFlags,
}

impl ServerFlags {
    /// The recipe, if one is named, changed by these flags and by `further` ones of the command; its name,
    /// and where results go.
    pub fn recipe(self, further: Recipe) -> anyhow::Result<(Option<String>, Recipe, Settings)> {
        let loaded = self.recipe.as_deref().map(Loaded::open).transpose()?;
        let (name, recipe) =
            loaded.map_or((None, Recipe::default()), |loaded| (Some(loaded.name), loaded.recipe));
        let flags = Recipe {
            seed: self.seed,
            target: self.target.into_section()?,
            engine: self.launch.into_section()?,
            workload: WorkloadSection { tokenizer: self.tokenizer, ..WorkloadSection::default() },
            telemetry: TelemetrySection { gpu: self.telemetry.gpu, dcgm: self.telemetry.dcgm },
            ..further
        };
        let OutputFlags { out, json, quiet, force } = self.output;
        Ok((name, recipe.changed_by(flags), Settings { out, json, quiet, force }))
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct TargetFlags {
    /// Base URL of a server that speaks the OpenAI API; without it the simulated engine is measured.
    #[arg(long, value_name = "URL", conflicts_with_all = ["simulated", "speed"])]
    url: Option<String>,

    /// Preset of the simulated engine to start and measure over HTTP.
    #[arg(long, value_name = "PRESET")]
    simulated: Option<String>,

    /// Seconds of the simulated engine's time that pass in a second.
    #[arg(long, value_name = "FACTOR")]
    speed: Option<Speed>,

    /// Which call is measured: chat (the default) or completions.
    #[arg(long)]
    api: Option<ApiName>,

    /// The model; asked of the server (GET /v1/models) if left out.
    #[arg(long)]
    model: Option<String>,

    /// The kind of server: vllm, sglang, llama-server, tensorrt-llm, simulated or generic; found out
    /// if left out.
    #[arg(long)]
    engine: Option<EngineName>,

    /// Environment variable that holds the API key.
    #[arg(long, value_name = "VARIABLE")]
    api_key_env: Option<String>,

    /// A further header of each request; may be given several times.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// PEM file with the certificate authority to trust instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,

    /// Longest a request may take [default: 10m]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Duration>,

    /// Ask for whole responses; only end-to-end latency can be judged then.
    #[arg(long)]
    no_stream: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Launched server")]
struct LaunchFlags {
    /// Launch the server with this command, measure it, and stop it after: {port} stands for a free
    /// port. `engine.launch` of a recipe says more.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["url", "simulated", "speed"])]
    launch: Option<String>,

    /// The value of a knob that the command names as {knobs.NAME}; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// Longest from the launch to the first good completion [default: 10m]
    #[arg(long, value_name = "DURATION")]
    start_timeout: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadFlags {
    /// Prompt lengths in tokens: 100, 'uniform(100..900)', 'normal(mean=400, sd=90)',
    /// 'lognormal(mean=400, cv=0.6, min=4, max=2400)', 'mix(0.8: fixed(100), 0.2: uniform(1000..4000))',
    /// or file:lengths.csv.
    #[arg(long, value_name = "TOKENS")]
    isl: Option<TokenLengths>,

    /// Output lengths in tokens, in the same form.
    #[arg(long, value_name = "TOKENS")]
    osl: Option<TokenLengths>,

    /// A kind of request, with prompt and output lengths of its own, instead of --isl and --osl:
    /// '0.8: isl=uniform(20..200) osl=100'; may be given several times, the weights are relative.
    #[arg(long, value_name = "WEIGHT: ISL OSL")]
    class: Vec<ClassSection>,

    /// Send the requests of a file: ShareGPT JSON, OpenAI-style JSONL, a CSV or JSONL of lengths, or a trace
    /// (Mooncake, Azure, BurstGPT). --osl is for entries that tell no output length.
    #[arg(long, value_name = "FILE")]
    dataset: Option<String>,

    /// What the file holds: auto, sharegpt, openai, lengths, mooncake, azure or burstgpt [default: auto]
    #[arg(long, value_name = "FORMAT")]
    dataset_format: Option<FormatName>,

    /// Refuse a file with a malformed entry; they are counted and left out otherwise.
    #[arg(long)]
    strict: bool,

    /// Tokens that all prompts begin with (a system prompt), before those of --isl.
    #[arg(long, value_name = "TOKENS")]
    shared_prefix: Option<Count>,

    /// Prefixes of which each prompt has one, before the tokens of --isl: 20x1024 (count x tokens), or
    /// 20x1024@80% with the share of prompts that take theirs from the pool.
    #[arg(long, value_name = "COUNTxTOKENS[@SHARE]")]
    prefix_pool: Option<Pool>,

    /// Hold conversations of so many turns, each sent with all that was said before: 5, 'uniform(2..8)', or
    /// all, for those of --dataset. --isl is the length of each message then, --osl that of each answer;
    /// a user who has come to the end begins another conversation.
    #[arg(long, value_name = "N")]
    turns: Option<TurnCount>,

    /// Tokens that a conversation may reach; it ends before a turn that would exceed it [default: the
    /// server's limit]
    #[arg(long, value_name = "TOKENS")]
    max_context: Option<Count>,

    /// How long a user pauses after each answer: 2s, 'exponential(2s)', 'lognormal(mean=5s, cv=1)',
    /// 'normal(mean=5s, sd=1s)', 'uniform(1s..5s)'. The load is a number of users then, of whom fewer are in
    /// flight.
    #[arg(long, value_name = "DURATION")]
    think: Option<ThinkTime>,

    /// How prompt tokens are counted: auto, server, usage, or the path of a tokenizer.json.
    #[arg(long, value_name = "FILE|HOW")]
    tokenizer: Option<Tokenizer>,

    /// Seed of every random stream: same seed, same requests [default: 0]
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Telemetry")]
struct TelemetryFlags {
    /// Read the GPUs of this machine by NVML: auto (where the server is on this machine and a driver
    /// is there), required or off [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = gpu_choice)]
    gpu: Option<GpuChoice>,

    /// Read the server's GPUs from a DCGM exporter instead, such as http://gpu-host:9400/metrics.
    #[arg(long, value_name = "URL")]
    dcgm: Option<String>,
}

fn gpu_choice(text: &str) -> Result<GpuChoice, String> {
    match text {
        "auto" => Ok(GpuChoice::Auto),
        "required" => Ok(GpuChoice::Required),
        "off" => Ok(GpuChoice::Off),
        _ => Err("it is `auto`, `required` or `off`".to_owned()),
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct OutputFlags {
    /// Folder in which the run's folder is made.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,

    /// Print the result as JSON on stdout instead of the screen.
    #[arg(long)]
    json: bool,

    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,

    /// Measure even where another run on this machine is measuring the same server.
    #[arg(long)]
    force: bool,
}

impl CommonFlags {
    /// Whether a server is named: by a flag or by a recipe.
    pub fn names_target(&self) -> bool {
        self.target.url.is_some() || self.target.simulated.is_some() || self.recipe.is_some()
    }

    /// A flag that says what is sent or what is asked of the answers, if one is given.
    pub fn names_question(&self) -> Option<&'static str> {
        let WorkloadFlags {
            isl,
            osl,
            tokenizer,
            class,
            dataset,
            shared_prefix,
            prefix_pool,
            turns,
            think,
            ..
        } = &self.workload;
        let given = [
            (!self.slo.is_empty(), "--slo"),
            (isl.is_some(), "--isl"),
            (osl.is_some(), "--osl"),
            (!class.is_empty(), "--class"),
            (dataset.is_some(), "--dataset"),
            (shared_prefix.is_some(), "--shared-prefix"),
            (prefix_pool.is_some(), "--prefix-pool"),
            (turns.is_some(), "--turns"),
            (think.is_some(), "--think"),
            (tokenizer.is_some(), "--tokenizer"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }

    /// The plan that the recipe, these flags and `further` ones of the command make, and where its
    /// results go.
    pub fn resolve(self, purpose: Purpose, further: Recipe) -> anyhow::Result<(Plan, Settings)> {
        let loaded = self.recipe.as_deref().map(Loaded::open).transpose()?;
        let (name, recipe) = match loaded {
            Some(Loaded { name, recipe }) => (Some(name), recipe),
            None => (None, Recipe::default()),
        };
        let slo = match self.slo.as_slice() {
            [] => further.slo.clone(),
            texts => Some(Slo::parse(texts.iter().map(String::as_str))?),
        };
        let flags = Recipe {
            seed: self.workload.seed(),
            slo,
            target: self.target.into_section()?,
            engine: self.launch.into_section()?,
            load: LoadSection { think: self.workload.think, ..further.load },
            workload: with_trace(self.workload.into_section(), further.workload)?,
            telemetry: TelemetrySection { gpu: self.telemetry.gpu, dcgm: self.telemetry.dcgm },
            ..further
        };
        let plan = recipe.changed_by(flags).into_plan(name.as_deref(), purpose)?;
        let OutputFlags { out, json, quiet, force } = self.output;
        Ok((plan, Settings { out, json, quiet, force }))
    }
}

/// The workload with the file that the command itself names (`--trace`).
fn with_trace(flags: WorkloadSection, own: WorkloadSection) -> Result<WorkloadSection, Complaint> {
    match (&flags.dataset, own.dataset) {
        (Some(_), Some(_)) => {
            Err(Complaint::new(ExitCode::Usage, "both `--dataset` and `--trace` are given")
                .hint("a trace is sent at its own timestamps; keep one of them"))
        }
        (_, Some(trace)) => Ok(WorkloadSection { dataset: Some(trace), ..flags }),
        (_, None) => Ok(flags),
    }
}

impl WorkloadFlags {
    /// The seed, where one is given.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// How long a user pauses, where it is given.
    pub fn think(&self) -> Option<ThinkTime> {
        self.think
    }

    /// The recipe's section that these flags change.
    pub fn into_section(self) -> WorkloadSection {
        WorkloadSection {
            isl: self.isl,
            osl: self.osl,
            tokenizer: self.tokenizer,
            classes: (!self.class.is_empty()).then_some(self.class),
            dataset: self.dataset,
            dataset_format: self.dataset_format,
            strict: self.strict.then_some(true),
            shared_prefix: self.shared_prefix,
            prefix_pool: self.prefix_pool,
            turns: self.turns,
            max_context: self.max_context,
        }
    }
}

impl TargetFlags {
    /// The recipe's section that these flags change.
    pub fn into_section(self) -> anyhow::Result<TargetSection> {
        let headers: BTreeMap<String, String> =
            self.header.iter().map(|header| read_header(header)).collect::<Result<_, _>>()?;
        Ok(TargetSection {
            url: self.url,
            simulated: self.simulated,
            speed: self.speed,
            api: self.api,
            model: self.model,
            streaming: self.no_stream.then_some(false),
            engine: self.engine,
            api_key_env: self.api_key_env,
            headers: (!headers.is_empty()).then_some(headers),
            ca_file: self.ca_file,
            timeout: self.timeout,
            extra_body: None,
        })
    }
}

impl LaunchFlags {
    fn into_section(self) -> anyhow::Result<EngineSection> {
        Ok(EngineSection {
            launch: self.launch.map(Launch::Text),
            set: read_knobs(&self.set)?,
            start_timeout: self.start_timeout,
            ..EngineSection::default()
        })
    }
}

/// The values of `--set`, if any.
pub fn read_knobs(set: &[String]) -> anyhow::Result<Option<BTreeMap<String, KnobValue>>> {
    let set: BTreeMap<String, KnobValue> =
        set.iter().map(|text| read_knob(text)).collect::<Result<_, _>>()?;
    Ok((!set.is_empty()).then_some(set))
}

/// `name=value`: a number, `true`, `false`, or else a word.
fn read_knob(text: &str) -> Result<(String, KnobValue), Complaint> {
    let (name, value) =
        text.split_once('=').filter(|(name, _)| !name.trim().is_empty()).ok_or_else(|| {
            Complaint::new(ExitCode::Usage, format!("`--set {text}` is not `NAME=VALUE`"))
                .hint("for example `--set max_num_seqs=64`")
        })?;
    let value = value.trim();
    let value = match (value.parse(), value.parse(), value.parse::<f64>()) {
        (Ok(flag), _, _) => KnobValue::Flag(flag),
        (_, Ok(int), _) => KnobValue::Int(int),
        (_, _, Ok(float)) if float.is_finite() => KnobValue::Float(float),
        _ => KnobValue::Choice(value.to_owned()),
    };
    Ok((name.trim().replace('-', "_"), value))
}

/// `Name: value`. The text is not shown when it is wrong: it may be a key.
fn read_header(text: &str) -> Result<(String, String), Complaint> {
    let (name, value) = text.split_once(':').ok_or_else(|| {
        Complaint::new(ExitCode::Usage, "a `--header` has no `:` between name and value")
            .hint("for example `--header 'X-Tenant: test'`; a key is better given by `--api-key-env`")
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_knobs_value_is_what_it_looks_like() {
        for (text, expected) in [
            ("max-num-seqs=64", ("max_num_seqs", KnobValue::Int(64))),
            ("share=0.9", ("share", KnobValue::Float(0.9))),
            ("cache=true", ("cache", KnobValue::Flag(true))),
            ("kind=fp8", ("kind", KnobValue::Choice("fp8".to_owned()))),
            ("path=a=b", ("path", KnobValue::Choice("a=b".to_owned()))),
        ] {
            let (name, value) = read_knob(text).unwrap();
            assert_eq!((name.as_str(), value), expected, "{text}");
        }
        assert!(read_knob("64").unwrap_err().to_string().contains("`--set 64` is not `NAME=VALUE`"));
    }
}
