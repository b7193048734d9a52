//! Endpoints that cannot be reached as given.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;

#[tokio::test]
async fn a_url_that_is_none_says_how_to_write_it() {
    let (error, text) = complaint(&plan("localhost:8000")).await;
    assert!(text.ends_with("did you mean `http://localhost:8000`?") && !error.is_unreachable(), "{text}");
    let (_, text) = complaint(&plan("http://me:sk-hidden-key@host")).await;
    assert!(text.contains("credentials"), "{text}");
}

#[tokio::test]
async fn secrets_come_from_the_environment_and_a_missing_variable_is_named() {
    let url = serve(Router::new().route(
        "/v1/models",
        get(|headers: HeaderMap| async move {
            let told = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            let right = told("authorization").as_deref() == Some("Bearer sk-hidden-key")
                && told("x-team").as_deref() == Some("a-sk-hidden-key-b");
            let refusal = json!({"error": {"message": format!("wrong: {:?}", told("authorization"))}});
            if right { json_page(200, &json!({"data": []})) } else { json_page(401, &refusal) }
        }),
    ))
    .await;
    let mut with = plan(url);
    let (_, text) = complaint(&with).await;
    assert!(text.contains("HTTP 401") && text.ends_with("`--api-key-env NAME`"), "{text}");
    with.api_key_env = Some("KEY".to_owned());
    let (_, text) = complaint(&with).await;
    assert!(text.contains("***") && text.ends_with("check the key in `KEY`"), "{text}");
    with.headers.insert("x-team".to_owned(), "a-${KEY}-b".to_owned());
    let (_, text) = complaint(&with).await;
    assert!(text.contains("list of models is empty"), "{text}");
    for (name, problem) in [("ABSENT", "is not set"), ("EMPTY", "is empty")] {
        with.headers.insert("x-team".to_owned(), format!("${{{name}}}"));
        let (error, text) = complaint(&with).await;
        assert!(text.contains(&format!("`x-team` names the environment variable `{name}`, which {problem}")));
        assert!(!error.is_unreachable());
    }
    with.api_key_env = Some("ABSENT".to_owned());
    let (_, text) = complaint(&with).await;
    assert!(text.contains("`api_key_env`") && text.contains("export ABSENT=..."), "{text}");
}

#[tokio::test]
async fn a_certificate_file_that_is_absent_or_none_is_refused() {
    let absent = EndpointPlan { ca_file: Some("/absent/ca.pem".to_owned()), ..plan("https://127.0.0.1:1") };
    let (_, text) = complaint(&absent).await;
    assert!(text.contains("`/absent/ca.pem`") && text.contains("--ca-file"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, "hello").unwrap();
    let (error, text) =
        complaint(&EndpointPlan { ca_file: Some(path.display().to_string()), ..plan("https://127.0.0.1:1") })
            .await;
    assert!(text.contains("PEM") && !error.is_unreachable(), "{text}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (error, text) = complaint(&plan(format!("http://{address}"))).await;
    assert!(text.contains("refused") && text.contains("port"), "{text}");
    assert!(error.is_unreachable());
    let (error, text) = complaint(&plan("http://no-such-host.invalid:8000")).await;
    assert!(text.contains("`no-such-host.invalid` is not known") && error.is_unreachable(), "{text}");
}

#[tokio::test]
async fn a_port_that_speaks_something_else_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                let _ = socket.read(&mut buffer).await;
                let _ = socket.write_all(b"SSH-2.0-server\r\n").await;
            });
        }
    });
    let (error, text) = complaint(&plan(format!("http://{address}"))).await;
    assert!(text.contains("does not speak HTTP") && text.contains("https://"), "{text}");
    assert!(error.is_unreachable());
}

#[tokio::test]
async fn tls_to_a_plain_port_is_told() {
    let url = serve(chatting(|| stream(16, true))).await.replace("http://", "https://");
    let (error, text) = complaint(&trusting("ca.pem", url)).await;
    assert!(matches!(error, TargetError::Tls { plain: true, .. }), "{error:?}");
    assert!(text.contains("`http://`") && error.is_unreachable(), "{text}");
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_asks_for_its_authority() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let acceptor = acceptor();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // Once TLS is agreed the connection ends without an answer.
            drop(acceptor.accept(socket).await);
        }
    });
    // The server's own certificate is no authority.
    let (error, text) = complaint(&trusting("server.pem", url.clone())).await;
    assert!(matches!(error, TargetError::Tls { plain: false, .. }), "{error:?}");
    assert!(text.contains("--ca-file FILE"), "{text}");
    let (error, text) = complaint(&trusting("ca.pem", url)).await;
    assert!(matches!(error, TargetError::Unreachable { .. }) && text.contains("cut"), "{text}");
}

/// A plan whose authority is a file of `tests/data`.
fn trusting(file: &str, url: String) -> EndpointPlan {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    EndpointPlan { ca_file: Some(path), ..plan(url) }
}

fn acceptor() -> tokio_rustls::TlsAcceptor {
    let certificate =
        CertificateDer::from_pem_slice(include_bytes!("../../../tests/data/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../../tests/data/server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}
