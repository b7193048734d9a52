//! An endpoint behind TLS with an authority of its own.
//!
//! `tests/data` holds an authority and a server's certificate that nobody else trusts, good for a
//! hundred years. They were made by `openssl req -x509 -newkey ec -pkeyopt
//! ec_paramgen_curve:prime256v1 -nodes -days 36500 ...` and `openssl x509 -req -CA ca.pem ...
//! -extfile` with `subjectAltName=DNS:localhost,IP:127.0.0.1`.

use std::sync::Arc;

use plimsoll::loadgen::{ClientOptions, Failure, build_http_client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::{failure, fetch, good_answer};

/// A TLS server that answers every request well; its port.
async fn serve() -> u16 {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("../data/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../data/server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(socket).await else { return };
                let mut buffer = [0; 8192];
                while matches!(stream.read(&mut buffer).await, Ok(read) if read > 0) {
                    let _ = stream.write_all(&good_answer()).await;
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_server_is_trusted_by_its_own_authority_and_by_no_other() {
    let port = serve().await;
    let mut options = ClientOptions::new(format!("https://localhost:{port}"), "m");
    options.ca_pem = Some(include_bytes!("../data/ca.pem").to_vec());
    let record = fetch(&options).await;
    assert!(record.is_completed(), "{record:?}");
    let shared = build_http_client(&options).unwrap();
    let answer = shared.get(format!("https://localhost:{port}/v1/models")).send().await.unwrap();
    assert!(answer.status().is_success());

    // The server's own certificate is no authority.
    options.ca_pem = Some(include_bytes!("../data/server.pem").to_vec());
    let (kind, detail) = failure(&fetch(&options).await);
    assert_eq!(kind, Failure::Tls, "{detail}");
    assert!(detail.contains("certificate"), "{detail}");
}
