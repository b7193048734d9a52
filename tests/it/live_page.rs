//! The live page is served with its data and is told only what is new.

use std::sync::Arc;

use plimsoll::report::live::{Feed, serve};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::stored_runs::{finished, plan};

async fn get(address: std::net::SocketAddr, path: &str) -> (String, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_served_and_asks_for_news() {
    let out = tempfile::tempdir().unwrap();
    let run = finished(out.path(), &plan());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let feed = Arc::new(Feed::new(&run, None));
    let server = tokio::spawn(serve(listener, feed, async {
        let _ = ended.await;
    }));

    let (head, page) = get(address, "/").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_lowercase().contains("content-type: text/html"));
    assert!(page.contains("id=\"data\"") && page.contains("/data.json?revision="));

    let (_, body) = get(address, "/data.json").await;
    let news: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(news["live"]["over"], true);
    assert_eq!(news["page"]["revision"], news["revision"]);
    let (_, body) = get(address, &format!("/data.json?revision={}", news["revision"])).await;
    let again: Value = serde_json::from_str(&body).unwrap();
    assert!(again.get("page").is_none(), "what is known is not sent again");

    std::fs::remove_file(run.join("journal.jsonl")).unwrap();
    let (head, problem) = get(address, "/data.json").await;
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(problem.contains("not a run folder"), "{problem}");
    end.send(()).unwrap();
    server.await.unwrap().unwrap();
}
