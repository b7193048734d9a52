//! Every way in which servers write their streams is read right, however the network cuts it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use plimsoll::loadgen::{Outcome, RequestRecord};
use tokio::io::AsyncWriteExt;

use crate::support::{STREAM_HEAD, Server, Then, chunked, ending, fetch, http_chunk, plain, token};

/// What a stream must be read as.
struct Expected {
    chunks: usize,
    osl_server: Option<u32>,
    chunk_tokens: Vec<u32>,
    finish: Option<&'static str>,
}

fn expect(
    chunks: usize,
    osl_server: Option<u32>,
    chunk_tokens: &[u32],
    finish: Option<&'static str>,
) -> Expected {
    Expected { chunks, osl_server, chunk_tokens: chunk_tokens.to_vec(), finish }
}

fn check(record: &RequestRecord, expected: &Expected, what: &str) {
    let finish = expected.finish.map(str::to_owned);
    assert_eq!(record.outcome, Outcome::Completed { finish }, "{what}");
    assert_eq!(record.gaps_us.len() + 1, expected.chunks, "{what}");
    assert_eq!(record.osl_server, expected.osl_server, "{what}");
    assert_eq!(record.chunk_tokens, expected.chunk_tokens, "{what}");
    let (first, last) = (record.first.unwrap(), record.last.unwrap());
    assert!(record.sent <= first && first <= last && last <= record.ended, "{what}");
    let gaps: f64 = record.gaps_us.iter().map(|&gap| f64::from(gap) * 1e-6).sum();
    assert!((last - first - gaps).abs() < 2e-6, "{what}: gaps add up");
}

fn samples() -> Vec<(&'static str, String, Expected)> {
    let usage = |n: u32| {
        format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":{n}}}}}")
    };
    let two = [token("é世"), token("🚢")].concat();
    let role =
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n";
    let stop = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let done = "data: [DONE]\n\n";
    vec![
        (
            "role, empty and null first",
            format!(
                "{role}data: {{\"choices\":[{{\"delta\":{{\"content\":null}}}}]}}\n\n{two}data: {{\"choices\":[{{\"delta\":{{}}}}]}}\n\n{stop}{done}"
            ),
            expect(2, None, &[], Some("stop")),
        ),
        (
            "usage-only last chunk, no blank line after [DONE]",
            format!("{two}{stop}{}\n\ndata: [DONE]", usage(2)),
            expect(2, Some(2), &[], Some("stop")),
        ),
        ("one surplus token is the end token", format!("{two}{stop}{}\n\n", usage(3)), expect(2, Some(3), &[], Some("stop"))),
        ("several tokens a chunk", format!("{two}{stop}{}\n\n{done}", usage(5)), expect(2, Some(5), &[2, 3], Some("stop"))),
        (
            "comments and CRLF",
            format!(": ping\n\n{two}: ping\n\n{stop}{done}").replace('\n', "\r\n"),
            expect(2, None, &[], Some("stop")),
        ),
        ("bare CR", format!("{two}{stop}{done}").replace('\n', "\r"), expect(2, None, &[], Some("stop"))),
        (
            "no space after the colon, trailing blanks",
            format!("{two}{stop}{done}").replace("data: ", "data:").replace("\n\n", "  \n\n"),
            expect(2, None, &[], Some("stop")),
        ),
        (
            "data over several lines",
            "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n".to_owned(),
            expect(1, None, &[], Some("stop")),
        ),
        ("no [DONE]", format!("{two}{stop}"), expect(2, None, &[], Some("stop"))),
        ("a byte order mark", format!("\u{feff}{two}{stop}{done}"), expect(2, None, &[], Some("stop"))),
        (
            "reasoning, then a tool call",
            format!(
                "{role}data: {{\"choices\":[{{\"delta\":{{\"reasoning_content\":\"h\"}}}}]}}\n\ndata: {{\"choices\":[{{\"delta\":{{\"reasoning\":\"m\"}}}}]}}\n\ndata: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"x\"}}}}]}}}}]}}\n\n{stop}{done}"
            ),
            expect(3, None, &[], Some("stop")),
        ),
        (
            "completions",
            "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\ndata: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n".to_owned(),
            expect(2, None, &[], Some("length")),
        ),
        (
            "usage with every chunk",
            [3, 4]
                .map(|n| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}}}}],\"usage\":{{\"completion_tokens\":{n}}}}}\n\n"))
                .concat()
                + &format!("{stop}{}\n\n{done}", usage(4)),
            expect(2, Some(4), &[3, 1], Some("stop")),
        ),
        ("only usage, no finish reason", format!("{two}{}\n\n", usage(2)), expect(2, Some(2), &[], None)),
    ]
}

/// Every body, cut in two at every byte, each half a chunk of its own.
#[tokio::test]
async fn every_quirk_is_read_right_when_cut_at_every_byte() {
    for (what, body, expected) in samples() {
        let body: Arc<str> = body.into();
        let bytes = body.clone();
        let server = Server::start(move |mut socket, request| {
            let cut: usize = request.body["cut"].as_u64().unwrap() as usize;
            let bytes = bytes.clone();
            async move {
                let (a, b) = bytes.as_bytes().split_at(cut);
                let _ = socket.write_all(&chunked(&[a, b])).await;
                (socket, Then::Keep)
            }
        })
        .await;
        let cuts: Vec<usize> = (0..=body.len()).collect();
        for some in cuts.chunks(64) {
            let fetches = some.iter().map(|&cut| {
                let mut options = server.options();
                options.extra_body.insert("cut".to_owned(), cut.into());
                async move { (cut, fetch(&options).await) }
            });
            for (cut, record) in join_all(fetches).await {
                check(&record, &expected, &format!("{what}, cut at {cut}"));
            }
        }
    }
}

/// The whole answer, framing and all, cut at every byte into two segments of the network.
#[tokio::test]
async fn an_answer_is_read_right_whatever_the_network_cuts() {
    let tokens = [token("é"), token("b")].concat();
    let whole: Arc<[u8]> = chunked(&[tokens.as_bytes(), ending(2).as_bytes()]).into();
    let bytes = whole.clone();
    let server = Server::start(move |mut socket, request| {
        let cut: usize = request.body["cut"].as_u64().unwrap() as usize;
        let bytes = bytes.clone();
        async move {
            let _ = socket.write_all(&bytes[..cut]).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            let _ = socket.write_all(&bytes[cut..]).await;
            (socket, Then::Keep)
        }
    })
    .await;
    let expected = expect(2, Some(2), &[], Some("length"));
    let cuts: Vec<usize> = (1..whole.len()).collect();
    for some in cuts.chunks(64) {
        let fetches = some.iter().map(|&cut| {
            let mut options = server.options();
            options.extra_body.insert("cut".to_owned(), cut.into());
            async move { (cut, fetch(&options).await) }
        });
        for (cut, record) in join_all(fetches).await {
            check(&record, &expected, &format!("cut at {cut}"));
        }
    }
}

#[tokio::test]
async fn a_stream_under_another_content_type_is_a_stream_all_the_same() {
    let body = format!("{}{}", token("a"), ending(1));
    let server = Server::fixed(plain("200 OK", "text/plain", &body)).await;
    check(&server.fetch().await, &expect(1, Some(1), &[], Some("length")), "text/plain");
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_has_an_end_but_no_first_token() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"four words of text"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":9,"completion_tokens":4}}"#;
    let server = Server::fixed(plain("200 OK", "application/json", body)).await;
    for streaming in [false, true] {
        let mut options = server.options();
        options.streaming = streaming;
        let record = fetch(&options).await;
        assert_eq!(record.outcome, Outcome::Completed { finish: Some("stop".to_owned()) });
        assert_eq!((record.first, record.ttft(), record.tpot()), (None, None, None));
        assert!(record.e2e().unwrap() > 0.0);
        assert_eq!((record.isl_server, record.output_tokens()), (Some(9), 4));
    }
}

#[tokio::test]
async fn the_queue_time_that_a_server_tells_is_kept() {
    let head = STREAM_HEAD.replace("\r\n\r\n", "\r\nx-queue-time: 125\r\n\r\n");
    let body = format!("{}{}", token("a"), ending(1));
    let answer = [head.as_bytes(), &http_chunk(body.as_bytes()), &http_chunk(b"")].concat();
    assert_eq!(Server::fixed(answer).await.fetch().await.queued, Some(0.125));

    // llama.cpp's server tells how long it worked on the prompt: the rest of TTFT was the queue.
    let timings = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}],"timings":{"prompt_ms":0.001}}"#;
    let body = format!("{}{timings}\n\n", token("a"));
    let record = Server::fixed(chunked(&[body.as_bytes()])).await.fetch().await;
    assert!((record.queued.unwrap() - (record.ttft().unwrap() - 1e-6)).abs() < 1e-9);
}

#[tokio::test]
async fn a_body_left_open_after_done_does_not_hold_its_user_for_ever() {
    let server = Server::start(|mut socket, _| async move {
        let body = format!("{}{}", token("a"), ending(1));
        let _ = socket.write_all(&[STREAM_HEAD.as_bytes(), &http_chunk(body.as_bytes())].concat()).await;
        std::future::pending::<()>().await;
        (socket, Then::Keep)
    })
    .await;
    assert!(server.fetch().await.is_completed());
}
