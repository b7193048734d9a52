//! Flags that several commands share, each group turned into the part of a recipe that it changes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use plimsoll::plan::Plan;
use plimsoll::recipe::{
    ApiName, Duration, EngineName, Loaded, Purpose, Recipe, Speed, TargetSection, TokenLengths, Tokenizer,
    WorkloadSection,
};
use plimsoll::slo::Slo;

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
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,

    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    workload: WorkloadFlags,

    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
struct TargetFlags {
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
#[command(next_help_heading = "Workload")]
struct WorkloadFlags {
    /// Prompt lengths in tokens: 100, or 'lognormal(mean=400, cv=0.6, min=4, max=2400)'.
    #[arg(long, value_name = "TOKENS")]
    isl: Option<TokenLengths>,

    /// Output lengths in tokens, in the same form.
    #[arg(long, value_name = "TOKENS")]
    osl: Option<TokenLengths>,

    /// How prompt tokens are counted: auto, server, usage, or the path of a tokenizer.json.
    #[arg(long, value_name = "FILE|HOW")]
    tokenizer: Option<Tokenizer>,

    /// Seed of every random stream: same seed, same requests [default: 0]
    #[arg(long)]
    seed: Option<u64>,
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
}

impl CommonFlags {
    /// Whether a server is named: by a flag or by a recipe.
    pub fn names_target(&self) -> bool {
        self.target.url.is_some() || self.target.simulated.is_some() || self.recipe.is_some()
    }

    /// A flag that says what is sent or what is asked of the answers, if one is given.
    pub fn names_question(&self) -> Option<&'static str> {
        let WorkloadFlags { isl, osl, tokenizer, .. } = &self.workload;
        let given = [
            (!self.slo.is_empty(), "--slo"),
            (isl.is_some(), "--isl"),
            (osl.is_some(), "--osl"),
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
            seed: self.workload.seed,
            slo,
            target: self.target.into_section()?,
            workload: WorkloadSection {
                isl: self.workload.isl,
                osl: self.workload.osl,
                tokenizer: self.workload.tokenizer,
            },
            ..further
        };
        let plan = recipe.changed_by(flags).into_plan(name.as_deref(), purpose)?;
        let OutputFlags { out, json, quiet } = self.output;
        Ok((plan, Settings { out, json, quiet }))
    }
}

impl TargetFlags {
    fn into_section(self) -> anyhow::Result<TargetSection> {
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

/// `Name: value`. The text is not shown when it is wrong: it may be a key.
fn read_header(text: &str) -> Result<(String, String), Complaint> {
    let (name, value) = text.split_once(':').ok_or_else(|| {
        Complaint::new(ExitCode::Usage, "a `--header` has no `:` between name and value")
            .hint("for example `--header 'X-Tenant: test'`; a key is better given by `--api-key-env`")
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
