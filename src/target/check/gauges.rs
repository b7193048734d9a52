//! What the server itself says of other load, by one look at its metrics page.

use crate::target::check::{Figures, Line};
use crate::target::web::Web;
use crate::units::significant;

/// Gauges of requests that are computed, and of those that wait, by engine.
const REQUESTS: [&str; 8] = [
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "llamacpp:requests_processing",
    "llamacpp:requests_deferred",
    "tgi_batch_current_size",
    "tgi_queue_size",
];
/// Counters of prompt tokens that a prefix cache has saved.
const HITS: [&str; 2] = ["vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"];

/// Sum of the samples of one metric, over all of its labels; none where it is not there.
fn sum(page: &str, name: &str) -> Option<f64> {
    let sample = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.split_once('}') {
            Some((labels, value)) if labels.starts_with('{') => value,
            _ if rest.starts_with(char::is_whitespace) => rest,
            _ => return None,
        };
        value.split_whitespace().next()?.parse::<f64>().ok().filter(|value| value.is_finite())
    };
    page.lines().filter_map(sample).reduce(|a, b| a + b)
}

async fn page(web: &Web) -> Option<String> {
    let page = web.side_page("/metrics").await?;
    Some(String::from_utf8_lossy(&page.body).into_owned())
}

/// Prompt tokens that the prefix cache has saved so far.
pub(super) async fn prefix_hits(web: &Web) -> Option<f64> {
    let page = page(web).await?;
    HITS.iter().find_map(|name| sum(&page, name))
}

/// Whether somebody else uses the server now.
pub(super) async fn other_load(web: &Web, figures: &mut Figures) -> Line {
    let page = page(web).await;
    let gauges = |page: &String| REQUESTS.iter().filter_map(|name| sum(page, name)).reduce(|a, b| a + b);
    let requests = page.as_ref().and_then(gauges);
    figures.other_requests = requests;
    match requests {
        Some(0.0) => Line::ok("other load", "the server runs and queues no request"),
        Some(requests) => Line::warn(
            "other load",
            format!("the server has {} requests of others in work", significant(requests)),
            "wait until it is idle: a search would measure what they leave",
        ),
        None => Line::warn(
            "other load",
            "the server has no metrics page that tells of requests in work",
            "make sure that nobody else uses it; some engines tell with `--metrics`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_a_metric_are_added_up_and_longer_names_left_out() {
        let page = "# TYPE a:x gauge\na:x{m=\"t\",e=\"0\"} 2\na:x{m=\"t\",e=\"1\"} 3.0\na:x_total 9\na:xy 4\nb 1e1\nc NaN\n";
        assert_eq!(sum(page, "a:x"), Some(5.0));
        assert_eq!(sum(page, "b"), Some(10.0));
        assert_eq!((sum(page, "c"), sum(page, "d")), (None, None));
    }
}
