//! Single requests around the load, and what goes wrong with them.

use std::error::Error;
use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, CONNECTION, LOCATION};
use serde_json::Value;

use crate::loadgen::delta::error_message;
use crate::loadgen::failure::page;
use crate::loadgen::{Address, ClientOptions, Secret, build_http_client};
use crate::target::TargetError;

/// Largest answer that is read, bytes.
const LARGEST: usize = 8 << 20;
/// Longest message of a server that is shown, characters.
const LONGEST_MESSAGE: usize = 300;

/// The endpoint, asked one thing at a time.
pub(super) struct Web {
    client: reqwest::Client,
    address: Address,
    /// The server's root as shown.
    root: String,
    key: Option<String>,
    secrets: Vec<Secret>,
}

/// An answer, whatever it says.
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
    /// Where it redirects to.
    location: Option<String>,
}

impl Page {
    /// The JSON in it, if there is some.
    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl Web {
    /// `key` is the name of the variable that holds the API key.
    pub(super) fn new(options: &ClientOptions, key: Option<String>) -> Result<Self, TargetError> {
        let address = Address::parse(&options.url)?;
        Ok(Self {
            client: build_http_client(options)?,
            root: address.root(),
            address,
            key,
            secrets: options.secrets(),
        })
    }

    /// The server's root: `http://host:port`.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// Asks for a call of the API (`models` is `/v1/models`).
    pub(super) async fn get_call(&self, call: &str, limit: Duration) -> Result<Page, TargetError> {
        self.get(&format!("{}/v1/{call}", self.root), limit).await
    }

    /// Asks for a page beside the API (`/version`), if it is there.
    pub(super) async fn side_page(&self, path: &str) -> Option<Page> {
        let page = self.get(&format!("{}{path}", self.root), Duration::from_secs(5)).await.ok()?;
        page.status.is_success().then_some(page)
    }

    async fn get(&self, url: &str, limit: Duration) -> Result<Page, TargetError> {
        let request =
            self.client.get(url).header(ACCEPT, "application/json, text/plain;q=0.5").timeout(limit);
        // Some servers drop kept-alive connections, and nothing here is sent twice.
        let response = request.header(CONNECTION, "close").send().await;
        let response = response.map_err(|error| self.failure(&error, limit))?;
        Ok(self.page_of(response).await)
    }

    /// The server's own time by its `Date` header, and this machine's when it came.
    pub(super) async fn date(&self) -> Option<(String, jiff::Timestamp)> {
        let url = format!("{}/v1/models", self.root);
        let request = self.client.get(url).header(CONNECTION, "close").timeout(Duration::from_secs(5));
        let response = request.send().await.ok()?;
        let date = response.headers().get(http::header::DATE)?.to_str().ok()?.to_owned();
        Some((date, jiff::Timestamp::now()))
    }

    /// Sends a body to a call of the API.
    pub(super) async fn post(
        &self,
        call: &str,
        body: bytes::Bytes,
        limit: Duration,
    ) -> Result<reqwest::Response, TargetError> {
        let url = format!("{}/v1/{call}", self.root);
        let request = self.client.post(url).header(http::header::CONTENT_TYPE, "application/json");
        let request = request.header(CONNECTION, "close").body(body).timeout(limit);
        request.send().await.map_err(|error| self.failure(&error, limit))
    }

    /// Sends a body to a page beside the API (`/tokenize`).
    pub(super) async fn post_beside(
        &self,
        path: &str,
        body: bytes::Bytes,
        limit: Duration,
    ) -> Result<Page, TargetError> {
        let request = self.client.post(format!("{}{path}", self.root));
        let request = request.header(http::header::CONTENT_TYPE, "application/json");
        let sent = request.header(CONNECTION, "close").body(body).timeout(limit).send().await;
        Ok(self.page_of(sent.map_err(|error| self.failure(&error, limit))?).await)
    }

    /// Reads an answer to its end.
    pub(super) async fn page_of(&self, mut response: reqwest::Response) -> Page {
        let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
        let status = response.status();
        let mut body = Vec::new();
        // A body that is cut off is judged by what came of it.
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() > LARGEST {
                break;
            }
        }
        Page { status, body, location }
    }

    /// What any call may be refused with: a redirect, a missing key, a server that does not serve.
    pub(super) fn common_refusal(&self, call: &str, page: &Page) -> Option<TargetError> {
        let call = call.to_owned();
        let answer = self.answer(page);
        match page.status.as_u16() {
            301 | 302 | 303 | 307 | 308 => {
                let to = page.location.as_deref().unwrap_or("(nowhere)");
                Some(TargetError::Redirected { call, to: self.words(to) })
            }
            401 | 403 => Some(TargetError::Unauthorized { call, answer, key: self.key.clone() }),
            429 => Some(TargetError::NotServing { call, answer, throttled: true }),
            500..=599 => Some(TargetError::NotServing { call, answer, throttled: false }),
            _ => None,
        }
    }

    /// An answer in words: its status and the server's own message.
    pub(super) fn answer(&self, page: &Page) -> String {
        let words = self.words(&message(&page.body));
        if words.is_empty() {
            format!("HTTP {}", page.status)
        } else {
            format!("HTTP {}: {words}", page.status)
        }
    }

    /// A server's words on one short line, without secrets: servers like to repeat the key that
    /// they refuse.
    pub(super) fn words(&self, text: &str) -> String {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = self.secrets.iter().fold(line, |line, secret| line.replace(secret.expose(), "***"));
        match line.char_indices().nth(LONGEST_MESSAGE) {
            Some((cut, _)) => format!("{}…", &line[..cut]),
            None => line,
        }
    }

    /// A request that got no answer at all.
    pub(super) fn failure(&self, error: &reqwest::Error, limit: Duration) -> TargetError {
        let url = self.root.clone();
        let reason = self.words(&innermost(error));
        if has_tls_fault(error) {
            let plain = reason.contains("corrupt message") || reason.contains("InvalidContentType");
            return TargetError::Tls { url, reason, plain };
        }
        let unreachable = |reason: String, hint| TargetError::Unreachable { url: url.clone(), reason, hint };
        if error.is_timeout() {
            let what = if error.is_connect() { "no connection" } else { "no answer" };
            return unreachable(
                format!("{what} within {} s", limit.as_secs()),
                "is the server up, and does a firewall stand between?",
            );
        }
        if error.is_connect() {
            let lower = reason.to_lowercase();
            return if lower.contains("refused") {
                unreachable(
                    "the connection is refused".to_owned(),
                    "is the server up, and is it this port that it listens on?",
                )
            } else if lower.contains("lookup") || lower.contains("dns") {
                unreachable(
                    format!("the host `{}` is not known ({reason})", self.address.host),
                    "check the host's name",
                )
            } else {
                unreachable(reason, "is the server up, and is there a way to it?")
            };
        }
        let hint = if self.address.tls {
            "check the port; what answers there ends the conversation"
        } else {
            "check the port; if the server speaks TLS, write the URL with `https://`"
        };
        if is_no_http(error) {
            unreachable(format!("what answers there does not speak HTTP ({reason})"), hint)
        } else {
            unreachable(format!("the connection was cut before an answer came ({reason})"), hint)
        }
    }
}

/// What a body says, in words.
pub(super) fn message(body: &[u8]) -> String {
    if body.trim_ascii_start().starts_with(b"<") { page(body) } else { error_message(body) }
}

/// The error and what caused it, outermost first, with what I/O errors wrap.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        // An I/O error's source is the source of what it wraps: the wrapped error would be skipped.
        match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn innermost(error: &reqwest::Error) -> String {
    chain(error).last().map_or_else(String::new, ToString::to_string)
}

fn has_tls_fault(error: &reqwest::Error) -> bool {
    chain(error).any(|error| error.is::<rustls::Error>())
}

fn is_no_http(error: &reqwest::Error) -> bool {
    chain(error).any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse))
}
