//! How an endpoint is reached, and what is put into each request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::BuilderVerifierExt;
use thiserror::Error;

use crate::plan::{Api, Engine};

/// A text that is never shown: it prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the wire alone.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How an endpoint is reached, and what is put into each request.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Base URL, with or without `/v1`.
    pub url: String,
    /// Which call is measured.
    pub api: Api,
    /// Name of the model.
    pub model: String,
    /// The kind of server: decides how an exact output length is asked for.
    pub engine: Engine,
    /// Whether responses are streamed.
    pub streaming: bool,
    /// Further headers; their values may be secrets and are treated so.
    pub headers: BTreeMap<String, Secret>,
    /// Sent as `Authorization: Bearer ...`.
    pub api_key: Option<Secret>,
    /// Certificate authority (PEM) to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// Longest a request may take from its turn to its end.
    pub timeout: Duration,
    /// Fields added to the body of each request.
    pub extra_body: BTreeMap<String, serde_json::Value>,
    /// Whether each request opens a connection of its own; always so for llama.cpp's server, which
    /// drops kept-alive connections while a request is on its way.
    pub fresh_connections: bool,
}

impl ClientOptions {
    /// Streamed chat completions of `model` at `url`, with nothing special asked for.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            api: Api::Chat,
            model: model.into(),
            engine: Engine::Generic,
            streaming: true,
            headers: BTreeMap::new(),
            api_key: None,
            ca_pem: None,
            timeout: Duration::from_secs(600),
            extra_body: BTreeMap::new(),
            fresh_connections: false,
        }
    }

    /// Whether each request opens a connection of its own.
    pub(crate) fn opens_fresh(&self) -> bool {
        self.fresh_connections || self.engine == Engine::LlamaServer
    }

    /// The headers that every request bears: the key and the further ones, marked as sensitive.
    ///
    /// # Errors
    /// When a name or value cannot be a header.
    pub fn header_map(&self) -> Result<HeaderMap, ClientError> {
        let mut map = HeaderMap::new();
        let value_of = |name: &str, text: &str| {
            let mut value = HeaderValue::from_str(text)
                .map_err(|_| ClientError::HeaderValue { name: name.to_owned() })?;
            value.set_sensitive(true);
            Ok(value)
        };
        if let Some(key) = &self.api_key {
            map.insert(AUTHORIZATION, value_of("authorization", &format!("Bearer {}", key.expose()))?);
        }
        for (name, value) in &self.headers {
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| ClientError::HeaderName { name: name.clone() })?;
            map.insert(header, value_of(name, value.expose())?);
        }
        Ok(map)
    }

    /// Every text that must not be shown.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let bare = |value: &Secret| {
            let text = value.expose();
            Secret::new(text.strip_prefix("Bearer ").unwrap_or(text).trim())
        };
        // Shorter values (`1`, `true`) hide nothing and would blot ordinary words out.
        self.headers.values().chain(&self.api_key).map(bare).filter(|secret| secret.0.len() >= 6).collect()
    }
}

/// A client that cannot be made.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The URL is not one.
    #[error("`{url}` is not a usable URL: {reason}; write it as `http://host:port`")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header's name is not one.
    #[error("`{name}` cannot be the name of a header")]
    HeaderName {
        /// As given.
        name: String,
    },
    /// A header's value has characters that no header may have.
    #[error("the value of header `{name}` has characters that a header may not have (a line end?)")]
    HeaderValue {
        /// The header.
        name: String,
    },
    /// The certificate authority cannot be read.
    #[error("the file of the certificate authority holds no usable PEM certificate: {0}")]
    Ca(String),
    /// No TLS could be set up.
    #[error("TLS cannot be set up: {0}; name the certificate authority's PEM file in `ca_file`")]
    Tls(String),
    /// A field of the extra body is the measurement's own.
    #[error("`extra_body.{field}` is set by the measurement itself; {instead}")]
    Reserved {
        /// The field.
        field: String,
        /// Where to set it.
        instead: &'static str,
    },
    /// The HTTP client refused.
    #[error("the HTTP client cannot be set up: {0}")]
    Http(String),
}

/// Where an endpoint is: parts of its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Host name or literal address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `host:port` as the URL had it: the `Host` header.
    pub authority: String,
    /// Path before `/v1`, without a slash at its end.
    prefix: String,
}

impl Address {
    /// Reads a base URL, with or without `/v1`.
    ///
    /// # Errors
    /// When it is not an `http` or `https` URL, or holds credentials or a query.
    pub fn parse(url: &str) -> Result<Self, ClientError> {
        let fail =
            |reason: &str| ClientError::Url { url: without_credentials(url), reason: reason.to_owned() };
        let uri: http::Uri =
            url.trim().parse().map_err(|error: http::uri::InvalidUri| fail(&error.to_string()))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(fail("the scheme must be http or https")),
            None => return Err(fail("the scheme is missing")),
        };
        let authority = uri.authority().ok_or_else(|| fail("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(fail("credentials do not belong there; use a header or the API key"));
        }
        if uri.query().is_some() {
            return Err(fail("a query does not belong there"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(fail("the host is missing"));
        }
        // `port_u16` is silent about a port that is none.
        if authority.as_str() != authority.host() && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(fail("the port is not one"));
        }
        let path = uri.path().trim_end_matches('/');
        Ok(Self {
            tls,
            host,
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            prefix: path.strip_suffix("/v1").unwrap_or(path).to_owned(),
        })
    }

    /// The server's root, without `/v1`: `http://host:8000`.
    pub fn root(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.prefix)
    }

    /// The path of a call of the API: `models` gives `/v1/models`.
    pub fn path(&self, call: &str) -> String {
        format!("{}/v1/{call}", self.prefix)
    }
}

fn without_credentials(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}***{}", &url[..scheme + 3], &url[at..]),
        _ => url.to_owned(),
    }
}

/// The TLS set-up: the given authority, or else the system's.
pub(crate) fn tls_config(ca_pem: Option<&[u8]>) -> Result<rustls::ClientConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Tls(error.to_string()))?;
    let mut config = match ca_pem {
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| ClientError::Ca(error.to_string()))?;
                roots.add(certificate).map_err(|error| ClientError::Ca(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(ClientError::Ca("no `BEGIN CERTIFICATE` in it".to_owned()));
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        None => builder
            .with_platform_verifier()
            .map_err(|error| ClientError::Tls(error.to_string()))?
            .with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The client for everything around the load: discovery, `/tokenize`, `/metrics`.
///
/// It bears the same headers and trusts the same authority as the load itself; it follows no
/// redirect, uses no proxy and never sends anything twice.
///
/// # Errors
/// When the URL, a header or the certificate authority is not usable.
pub fn build_http_client(options: &ClientOptions) -> Result<reqwest::Client, ClientError> {
    let address = Address::parse(&options.url)?;
    // reqwest panics without a provider; a second installation is refused, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tls = if address.tls {
        tls_config(options.ca_pem.as_deref())?
    } else {
        // Nothing will be verified: the system's certificates need not be there.
        rustls::ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    };
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .tcp_nodelay(true)
        .default_headers(options.header_map()?)
        .connect_timeout(Duration::from_secs(10))
        .timeout(options.timeout)
        .build()
        .map_err(|error| ClientError::Http(error.without_url().to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_base_url_works_with_and_without_v1() {
        for url in [
            "http://127.0.0.1:8000",
            "http://127.0.0.1:8000/",
            "http://127.0.0.1:8000/v1",
            "http://127.0.0.1:8000/v1/",
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.path("models"), "/v1/models", "{url}");
            assert_eq!(address.root(), "http://127.0.0.1:8000", "{url}");
        }
        let address = Address::parse("https://host/openai/v1").unwrap();
        assert_eq!((address.port, address.tls), (443, true));
        assert_eq!(address.path("chat/completions"), "/openai/v1/chat/completions");
        assert_eq!(Address::parse("http://[::1]:81").unwrap().host, "::1");
    }

    #[test]
    fn an_unusable_url_says_what_is_wrong() {
        let cases = [
            ("localhost:8000", "scheme"),
            ("ftp://host", "http or https"),
            ("http://", ""),
            ("http://host:99999", "port"),
            ("http://host/?x=1", "query"),
            ("http://me:hunter2secret@host", "credentials"),
        ];
        for (url, word) in cases {
            let message = Address::parse(url).unwrap_err().to_string();
            assert!(message.contains(word), "{url}: {message}");
            assert!(!message.contains("hunter2secret"), "{message}");
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let mut options = ClientOptions::new("http://127.0.0.1:1", "m");
        options.api_key = Some(Secret::new("sk-very-secret"));
        options.headers.insert("x-key".to_owned(), Secret::new("other-secret"));
        let text =
            format!("{options:?} {} {:?}", Secret::new("sk-very-secret"), options.header_map().unwrap());
        assert!(!text.contains("secret") && text.contains("***"), "{text}");
        let client = build_http_client(&options).unwrap();
        assert!(!format!("{client:?}").contains("secret"));
        options.headers.insert("x-bad".to_owned(), Secret::new("other-secret\n"));
        let message = options.header_map().unwrap_err().to_string();
        assert!(message.contains("x-bad") && !message.contains("secret"), "{message}");
    }

    #[test]
    fn a_certificate_file_without_a_certificate_is_refused() {
        let message = tls_config(Some(b"hello")).unwrap_err().to_string();
        assert!(message.contains("PEM"), "{message}");
    }
}
