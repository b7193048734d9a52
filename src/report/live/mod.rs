//! The report's page while the run goes on: served to a browser, asked for news every two seconds.
//!
//! Nothing is computed unless somebody looks, and what was read of the run folder is kept, so that
//! the page takes little from the load that is being measured.

mod feed;
mod status;

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

pub use feed::Feed;
pub use status::{Status, Watched};

/// Serves the page of `feed`'s run at `/` and its data at `/data.json` until `shutdown` is ready.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    feed: Arc<Feed>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new().route("/", get(page)).route("/data.json", get(data)).with_state(feed);
    tokio::select! {
        served = axum::serve(listener, router) => served,
        () = shutdown => Ok(()),
    }
}

async fn page(State(feed): State<Arc<Feed>>) -> Response {
    answer("text/html; charset=utf-8", move || feed.page()).await
}

/// `?revision=` names the state that the page has.
async fn data(State(feed): State<Arc<Feed>>, RawQuery(query): RawQuery) -> Response {
    let revision = query.and_then(|query| query.strip_prefix("revision=")?.parse().ok());
    answer("application/json", move || feed.data(revision)).await
}

/// Reads the run folder away from the tasks that drive the load.
async fn answer(
    kind: &'static str,
    make: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Response {
    let made = tokio::task::spawn_blocking(make).await.unwrap_or_else(|error| Err(error.to_string()));
    let headers = |kind| [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
    match made {
        Ok(text) => (headers(kind), text).into_response(),
        Err(problem) => {
            (StatusCode::SERVICE_UNAVAILABLE, headers("text/plain; charset=utf-8"), problem).into_response()
        }
    }
}
