//! Metrics pages over HTTP.

use std::time::Duration;

use http::header::{ACCEPT, CONNECTION};

use super::TelemetryError;
use crate::loadgen::{Address, ClientOptions, build_http_client};
use crate::observed::Values;
use crate::plan::Engine;
use crate::telemetry::names;

/// Longest that a page is waited for: an overloaded server is slow to answer anything.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest page that is read, bytes.
const LARGEST: usize = 16 << 20;
/// Times that the page is looked for.
const TRIES: u32 = 3;

/// The metrics page of the server under test.
#[derive(Debug)]
pub(super) struct Metrics {
    client: reqwest::Client,
    /// Some servers drop connections that are kept: each look then has its own.
    fresh: bool,
    /// Where the page may be; one, once it was found.
    places: Vec<String>,
    found: bool,
    tries: u32,
}

impl Metrics {
    /// The page of the server that `options` reach, with the same key and headers. None where no
    /// client can be made, which the load itself then reports.
    pub(super) fn new(options: &ClientOptions) -> Option<Self> {
        let address = Address::parse(&options.url).ok()?;
        Some(Self {
            client: build_http_client(options).ok()?,
            fresh: options.engine == Engine::LlamaServer,
            places: places(&address),
            found: false,
            tries: 0,
        })
    }

    /// What the page says now; nothing where it does not answer.
    pub(super) async fn look(&mut self) -> Option<Values> {
        for place in self.places.clone() {
            let Ok(body) = fetch(&self.client, &place, self.fresh).await else { continue };
            let values = names::server(&body);
            if !values.is_empty() {
                self.found = true;
                self.places = vec![place];
                return Some(values);
            }
        }
        self.tries += 1;
        None
    }

    /// Whether the page was ever there, or may still be.
    pub(super) fn is_worth_asking(&self) -> bool {
        self.found || self.tries < TRIES
    }
}

/// Where a server's metrics may be: at its origin, or below the path that its API has.
fn places(address: &Address) -> Vec<String> {
    let scheme = if address.tls { "https" } else { "http" };
    let origin = format!("{scheme}://{}", address.authority);
    let root = address.root();
    // TensorRT-LLM has JSON at `/metrics`, which names nothing that is known.
    let mut places = vec![
        format!("{origin}/metrics"),
        format!("{origin}/metrics/"),
        format!("{origin}/prometheus/metrics"),
    ];
    if root != origin {
        places.push(format!("{root}/metrics"));
    }
    places
}

/// A DCGM exporter.
#[derive(Debug)]
pub(super) struct Exporter {
    client: reqwest::Client,
    url: String,
}

impl Exporter {
    /// Makes sure that the exporter is there. It is another server than the one under test: keys and
    /// headers are not for it.
    pub(super) async fn find(url: &str) -> Result<Self, TelemetryError> {
        let failed =
            |shown: &str, reason: String| TelemetryError::NoExporter { url: shown.to_owned(), reason };
        let address = Address::parse(url).map_err(|error| failed("--dcgm", error.to_string()))?;
        let root = address.root();
        let page = if root.ends_with("/metrics") { root } else { format!("{root}/metrics") };
        let client = build_http_client(&ClientOptions::new(url, ""))
            .map_err(|error| failed(&page, error.to_string()))?;
        let exporter = Self { client, url: page };
        match exporter.look().await {
            Ok(values) if values.is_empty() => {
                Err(failed(&exporter.url, "its page names no GPU (`DCGM_FI_...`)".to_owned()))
            }
            Ok(_) => Ok(exporter),
            Err(reason) => Err(failed(&exporter.url, reason)),
        }
    }

    /// What the page says now.
    pub(super) async fn look(&self) -> Result<Values, String> {
        fetch(&self.client, &self.url, false).await.map(|body| names::dcgm(&body))
    }
}

/// Fetches a page.
async fn fetch(client: &reqwest::Client, url: &str, fresh: bool) -> Result<String, String> {
    let mut request = client.get(url).header(ACCEPT, "text/plain;version=0.0.4, */*;q=0.1").timeout(PATIENCE);
    if fresh {
        request = request.header(CONNECTION, "close");
    }
    let words = |error: reqwest::Error| {
        if error.is_connect() { "it cannot be reached".to_owned() } else { error.without_url().to_string() }
    };
    let mut response = request.send().await.map_err(words)?;
    if !response.status().is_success() {
        return Err(format!("it answers HTTP {}", response.status()));
    }
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(words)? {
        body.extend_from_slice(&bytes);
        if body.len() > LARGEST {
            return Err(format!("its page is longer than {} MiB", LARGEST >> 20));
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn metrics_are_looked_for_at_the_origin_first() {
        let places = places(&Address::parse("https://host:8443/llm/v1").unwrap());
        assert_eq!(
            places,
            [
                "https://host:8443/metrics",
                "https://host:8443/metrics/",
                "https://host:8443/prometheus/metrics",
                "https://host:8443/llm/metrics",
            ]
        );
    }
}
