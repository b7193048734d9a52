//! The API key is on the wire and nowhere else.

use plimsoll::loadgen::{Client, ClientOptions, Secret};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::AsyncWriteExt;

use crate::support::{Server, Then, plain, spec};

const KEY: &str = "sk-7f3a9c1e5b";

#[tokio::test]
async fn the_key_reaches_the_server_and_no_record_even_if_the_server_repeats_it() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    let server = Server::start(move |mut socket, request| {
        seen.lock().unwrap().push(request.head);
        async move {
            let echo = format!("Incorrect API key provided: {KEY}. {} and team {KEY}-team", "x".repeat(170));
            let body = serde_json::json!({"error": {"message": echo}}).to_string();
            let _ = socket.write_all(plain("401 Unauthorized", "application/json", &body).as_bytes()).await;
            (socket, Then::Keep)
        }
    })
    .await;
    let mut options: ClientOptions = server.options();
    options.api_key = Some(Secret::new(KEY));
    options.headers.insert("x-team".to_owned(), Secret::new(format!("{KEY}-team")));
    let record = Client::new(&options, Instant::now()).unwrap().fetch(&spec(0)).await;

    let head = heads.lock().unwrap()[0].clone();
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head}");
    assert!(head.contains(&format!("x-team: {KEY}-team")), "{head}");
    let shown = format!("{record:?} {} {options:?}", serde_json::to_string(&record).unwrap());
    assert!(shown.contains("Incorrect API key provided: ***"), "{shown}");
    assert!(!shown.contains(&KEY[3..8]), "{shown}");
}
