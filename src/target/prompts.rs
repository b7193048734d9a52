//! How prompts of an exact length are made for an endpoint, and how exact they are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::loadgen::{Client, Outcome};
use crate::plan::{Engine, TokenizerPlan, WorkloadPlan};
use crate::target::endpoint::Endpoint;
use crate::target::error::TargetError;
use crate::target::probe;
use crate::target::web::Web;
use crate::workload::vocabulary::common_words;
use crate::workload::{
    CountedBy, Counting, Effort, Exactness, LearnError, LocalTokenizer, PromptMaker, RequestSpec,
    TokenCounter, Vocabulary,
};

/// Samples count down from here: no request of a run comes this far, so no prompt of a run is one
/// that the server has seen.
const SAMPLE_ID: u64 = u64::MAX;
/// Lengths of the samples that confirm the counts, tokens.
const SAMPLES: [u32; 2] = [24, 96];
/// Longest wait for a count.
const LIMIT: Duration = Duration::from_secs(60);

/// Prompts, and how exact they are.
pub struct Prompts {
    /// Makes them.
    pub maker: PromptMaker,
    /// Who counts, and how exactly.
    pub counting: Counting,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// A way of counting that was settled on.
struct Way {
    by: CountedBy,
    vocabulary: Vocabulary,
    verifier: Option<LocalTokenizer>,
    /// What a server's usage is expected to add to the counted tokens, where that was learned.
    constant: Option<u32>,
}

/// Settles how an endpoint's prompt tokens are counted, and confirms it by samples.
///
/// # Errors
/// When the way of counting that the plan names cannot be used.
pub async fn learn(endpoint: &Endpoint, plan: &WorkloadPlan, seed: u64) -> Result<Prompts, TargetError> {
    let web = Web::new(&endpoint.options, None)?;
    let client = Client::new(&endpoint.options, Instant::now())?;
    let mut usage = Usage { web: &web, endpoint, client: &client };
    let way = match &plan.tokenizer {
        TokenizerPlan::File { path } => from_file(path).await?,
        TokenizerPlan::Server => from_server(&web, endpoint).await?,
        TokenizerPlan::Usage => from_usage(&mut usage).await?,
        TokenizerPlan::Auto if endpoint.options.engine == Engine::Simulated => words(CountedBy::Words),
        TokenizerPlan::Auto => match from_server(&web, endpoint).await {
            Ok(way) => way,
            // No such call there, or one of another form: the next best.
            Err(_) => match from_usage(&mut usage).await {
                Ok(way) => way,
                Err(TargetError::NoUsage | TargetError::Counts { .. }) => words(CountedBy::Assumed),
                Err(error) => return Err(error),
            },
        },
    };
    let mut maker = PromptMaker::new(Arc::new(way.vocabulary), seed);
    if let Some(verifier) = way.verifier {
        maker = maker.verified_by(verifier);
    }
    let samples = sample(&mut usage, plan, &maker).await?;
    // The first sample tells what the server adds; the others, whether that is all they differ by.
    let overhead =
        way.constant.or_else(|| samples.first().map(|&(built, counted)| counted.saturating_sub(built)));
    let expected: Vec<(u32, u32)> =
        samples.iter().map(|&(built, counted)| (built + overhead.unwrap_or(0), counted)).collect();
    let sampled = Exactness::from_samples(&expected);
    let agrees = !matches!(sampled, Exactness::Within { .. });
    let mut notes = Vec::new();
    if !agrees && let CountedBy::File { path } = &way.by {
        notes
            .push(format!("`{path}` counts tokens otherwise than the server: is it this model's tokenizer?"));
    }
    let exactness = match way.by {
        // A word may be any number of tokens there, whatever two samples say.
        CountedBy::Assumed if agrees => Exactness::Unknown,
        CountedBy::File { .. } | CountedBy::Words if agrees => Exactness::Exact,
        _ => sampled,
    };
    Ok(Prompts { maker, counting: Counting { by: way.by, exactness, template_overhead: overhead }, notes })
}

fn words(by: CountedBy) -> Way {
    Way { by, vocabulary: Vocabulary::word_is_token(), verifier: None, constant: None }
}

async fn from_file(path: &str) -> Result<Way, TargetError> {
    let tokenizer = LocalTokenizer::open(path)?;
    let words = tokenizer.words();
    let learned = Vocabulary::learn(&mut tokenizer.clone(), &words, Effort::LOCAL).await;
    let vocabulary = learned
        .map_err(|error| TargetError::Counts { counter: "the tokenizer.json", detail: error.to_string() })?
        .vocabulary;
    let by = CountedBy::File { path: path.to_owned() };
    Ok(Way { by, vocabulary, verifier: Some(tokenizer), constant: None })
}

async fn from_server(web: &Web, endpoint: &Endpoint) -> Result<Way, TargetError> {
    let mut counter = ServerTokenizer { web, endpoint };
    let (vocabulary, _) = remote(&mut counter, Effort::SERVER, "the server's /tokenize").await?;
    Ok(Way { by: CountedBy::Server, vocabulary, verifier: None, constant: None })
}

async fn from_usage(counter: &mut Usage<'_>) -> Result<Way, TargetError> {
    let (vocabulary, constant) = remote(counter, Effort::USAGE, "the server's usage").await?;
    Ok(Way { by: CountedBy::Usage, vocabulary, verifier: None, constant: Some(constant) })
}

async fn remote<C: TokenCounter<Error = TargetError>>(
    counter: &mut C,
    effort: Effort,
    name: &'static str,
) -> Result<(Vocabulary, u32), TargetError> {
    let words: Vec<String> = common_words().map(str::to_owned).collect();
    match Vocabulary::learn(counter, &words, effort).await {
        Ok(learned) => Ok((learned.vocabulary, learned.constant)),
        Err(LearnError::Counter(error)) => Err(error),
        Err(error) => Err(TargetError::Counts { counter: name, detail: error.to_string() }),
    }
}

/// Sends prompts of two lengths: the tokens they were built of, and the server's count. None where
/// the server tells no counts.
async fn sample(
    usage: &mut Usage<'_>,
    plan: &WorkloadPlan,
    maker: &PromptMaker,
) -> Result<Vec<(u32, u32)>, TargetError> {
    let mut samples = Vec::new();
    for (id, tokens) in SAMPLES.iter().enumerate() {
        let prompt = maker.prompt(SAMPLE_ID - id as u64, (*tokens).min(plan.isl.longest()));
        match usage.count(&prompt.text).await {
            Ok(counted) => samples.push((prompt.tokens, counted)),
            Err(TargetError::NoUsage) => return Ok(samples),
            Err(error) => return Err(error),
        }
    }
    Ok(samples)
}

/// The server's `/tokenize`.
struct ServerTokenizer<'a> {
    web: &'a Web,
    endpoint: &'a Endpoint,
}

impl TokenCounter for ServerTokenizer<'_> {
    type Error = TargetError;

    async fn count(&mut self, text: &str) -> Result<u32, TargetError> {
        let body = match self.endpoint.options.engine {
            Engine::LlamaServer => json!({ "content": text, "add_special": false }),
            _ => json!({ "model": self.endpoint.options.model, "prompt": text, "add_special_tokens": false }),
        };
        let page = self.web.post_beside("/tokenize", Bytes::from(body.to_string()), LIMIT).await?;
        let answer: Value = page.json().unwrap_or_default();
        let listed = answer["tokens"].as_array().map(Vec::len);
        let count = answer["count"].as_u64().or(listed.map(|length| length as u64));
        match count.and_then(|count| u32::try_from(count).ok()) {
            Some(count) if page.status.is_success() => Ok(count),
            _ => Err(TargetError::NoTokenize { seen: self.web.answer(&page) }),
        }
    }

    fn adds_nothing(&self) -> bool {
        true
    }
}

/// The `usage` of requests for one output token.
struct Usage<'a> {
    web: &'a Web,
    endpoint: &'a Endpoint,
    client: &'a Client,
}

impl TokenCounter for Usage<'_> {
    type Error = TargetError;

    async fn count(&mut self, text: &str) -> Result<u32, TargetError> {
        let spec = RequestSpec::new(SAMPLE_ID, text.to_owned(), 1, 1);
        let record = probe::ask(self.web, &self.endpoint.options, self.client, &spec).await?;
        match (record.isl_server, record.outcome) {
            (Some(tokens), _) => Ok(tokens),
            (None, Outcome::Failed { detail, .. }) => {
                Err(TargetError::Counts { counter: "the server's usage", detail: self.web.words(&detail) })
            }
            (None, _) => Err(TargetError::NoUsage),
        }
    }
}
