//! What fields must be to each other. What one field must be alone its own type has checked.

use super::choice::StrategyName;
use super::engine::EngineSection;
use super::error::RecipeError;
use super::quantity::Count;
use super::written::{Recipe, TargetSection};

/// Fields of a request's body that the measurement sets itself.
const OWN_BODY_FIELDS: [&str; 6] = ["model", "messages", "prompt", "stream", "stream_options", "max_tokens"];

impl Recipe {
    /// Checks what fields must be to each other.
    ///
    /// # Errors
    /// Names the fields and the mend.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        self.check_slo()?;
        self.check_target()?;
        self.check_load()?;
        self.check_strategy()?;
        self.launched().check()?;
        if let (Some(min), Some(max)) = (self.trial.min_duration, self.trial.max_duration)
            && min > max
        {
            return Err(RecipeError::new("`trial.min_duration` is above `trial.max_duration`"));
        }
        Ok(())
    }

    /// The engine to launch; the model that is measured is the one that it serves, unless it is given
    /// another name for it.
    pub(super) fn launched(&self) -> EngineSection {
        let mut engine = self.engine.clone();
        if engine.is_given() && engine.model.is_none() {
            engine.model.clone_from(&self.target.model);
        }
        engine
    }

    fn check_slo(&self) -> Result<(), RecipeError> {
        let Some(slo) = &self.slo else { return Ok(()) };
        if slo.objectives.is_empty() {
            return Err(
                RecipeError::new("`slo` has no objective").hint("for example `slo = [\"ttft p95 < 500ms\"]`")
            );
        }
        if self.target.streaming == Some(false) && slo.needs_streaming() {
            return Err(RecipeError::new(
                "the SLO judges when tokens arrive (TTFT, ITL, TPOT and the like), which a response that is not \
                 streamed does not show",
            )
            .hint("judge by `e2e`, or leave streaming on (no `--no-stream`, no `target.streaming = false`)"));
        }
        Ok(())
    }

    fn check_load(&self) -> Result<(), RecipeError> {
        let load = &self.load;
        if load.rate.is_some() && load.concurrency.is_some() {
            return Err(RecipeError::new(
                "both `load.rate` (`--rate`) and `load.concurrency` (`--concurrency`) are given",
            )
            .hint("keep one: requests are sent at a rate (open loop) or kept in flight (closed loop)"));
        }
        let moves = load.moves() || load.ramp_users.is_some();
        let twice = load.moves() && load.ramp_users.is_some();
        if moves && (twice || load.rate.is_some() || load.concurrency.is_some()) {
            return Err(RecipeError::new(
                "a load that moves (`--rate-series`, `--ramp`, `--ramp-users`, `--trace`) is given, and another one as \
                 well",
            )
            .hint("keep one of them, or `--rate`, or `--concurrency`"));
        }
        if !load.is_open() {
            let fields = [
                (load.arrivals.is_some(), "`load.arrivals` (`--arrivals`)"),
                (load.in_flight_cap.is_some(), "`load.in_flight_cap` (`--in-flight-cap`)"),
            ];
            if let Some((_, name)) = fields.into_iter().find(|(given, _)| *given) {
                return Err(RecipeError::new(format!("{name} is an open loop's, but no rate is given"))
                    .hint("add `--rate` (`load.rate`), such as `--rate 20`, or leave it out"));
            }
        }
        Ok(())
    }

    fn check_target(&self) -> Result<(), RecipeError> {
        let target = &self.target;
        if target.url.is_some() && target.simulated.is_some() {
            return Err(RecipeError::new("both `target.url` and `target.simulated` are given")
                .hint("keep one: a run measures either an endpoint or the simulated engine"));
        }
        if self.engine.is_given() && target.simulated.is_some() {
            return Err(RecipeError::new(
                "both `engine.launch` (`--launch`) and `target.simulated` are given",
            )
            .hint("leave `simulated` out: the engine that is launched is what is measured"));
        }
        if let Some(url) = &target.url {
            // Where an engine is launched, its port may not be known yet.
            let url = if self.engine.is_given() { self.launched().url_with(url, 1)? } else { url.clone() };
            check_url(&url)?;
        }
        for (name, value) in target.headers.iter().flatten() {
            check_header(name, value)?;
        }
        if let Some(name) = target
            .extra_body
            .iter()
            .flatten()
            .map(|(name, _)| name)
            .find(|name| OWN_BODY_FIELDS.contains(&name.as_str()))
        {
            return Err(RecipeError::new(format!(
                "`target.extra_body.{name}` is a field that plimsoll sets itself"
            ))
            .hint(match name.as_str() {
                "model" => "give the model as `target.model` (`--model`)",
                "max_tokens" => "give the output length as `workload.osl` (`--osl`)",
                "stream" => "give `target.streaming` (`--no-stream`)",
                _ => "leave it out",
            }));
        }
        if let Some(name) = &target.api_key_env
            && (name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        {
            return Err(RecipeError::new(
                "`target.api_key_env` (`--api-key-env`) is not the name of an environment variable",
            )
            .hint("give the variable's name, such as `OPENAI_API_KEY`, never the key itself"));
        }
        Ok(())
    }

    fn check_strategy(&self) -> Result<(), RecipeError> {
        let strategy = &self.strategy;
        let grid = strategy.kind == Some(StrategyName::Grid) || strategy.levels.is_some();
        if grid && strategy.repeats.is_some_and(|Count(repeats)| repeats > 1) {
            return Err(RecipeError::new(
                "`strategy.repeats` (`--repeats`) puts intervals together, which a `grid` does not give",
            )
            .hint("use `adaptive` or `bisect`, or leave the repeats out"));
        }
        let Some(levels) = &strategy.levels else {
            if strategy.kind == Some(StrategyName::Grid) && strategy.precision.is_some() {
                return Err(RecipeError::new(
                    "`strategy.precision` (`--precision`) has no meaning for `grid`",
                )
                .hint("give the levels to measure with `levels`, or use `adaptive` or `bisect`"));
            }
            return Ok(());
        };
        if strategy.kind.is_some_and(|kind| kind != StrategyName::Grid) {
            return Err(RecipeError::new(
                "`strategy.levels` (`--levels`) is given, but the strategy is not `grid`",
            )
            .hint("add `--strategy grid` (`kind = \"grid\"`), or leave the levels out"));
        }
        if levels.is_empty() {
            return Err(
                RecipeError::new("`strategy.levels` (`--levels`) is empty").hint("for example `1,4,16,64`")
            );
        }
        if let Some(bounds) = self.load.concurrency
            && let Some(level) = levels.iter().find(|level| !(bounds.min..=bounds.max).contains(&level.0))
        {
            return Err(RecipeError::new(format!(
                "level {} of `strategy.levels` (`--levels`) is outside `load.concurrency` (`--concurrency`) {bounds}",
                level.0
            ))
            .hint("widen the range or leave the level out"));
        }
        Ok(())
    }
}

impl TargetSection {
    /// The name of a field that only an endpoint has, if one is given.
    pub(super) fn endpoint_field(&self) -> Option<&'static str> {
        let fields = [
            (self.api.is_some(), "api"),
            (self.model.is_some(), "model"),
            (self.streaming.is_some(), "streaming"),
            (self.engine.is_some(), "engine"),
            (self.api_key_env.is_some(), "api_key_env"),
            (self.headers.is_some(), "headers"),
            (self.ca_file.is_some(), "ca_file"),
            (self.timeout.is_some(), "timeout"),
            (self.extra_body.is_some(), "extra_body"),
        ];
        fields.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}

fn check_url(url: &str) -> Result<(), RecipeError> {
    let wrong =
        |problem: &str| RecipeError::new(format!("the URL `{url}` (`target.url`, `--url`) {problem}"));
    let example = "for example `http://127.0.0.1:8000`";
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(wrong("has no `http://` or `https://`").hint(format!("did you mean `http://{url}`?")));
    };
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return Err(wrong(&format!("begins with `{scheme}://`, not `http://` or `https://`")).hint(example));
    }
    let Ok(uri) = url.parse::<http::Uri>() else {
        return Err(wrong("cannot be read").hint(example));
    };
    if uri.host().is_none_or(str::is_empty) {
        return Err(wrong("names no host").hint(example));
    }
    // `http::Uri` keeps a port that it cannot read as part of the authority.
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    if let Some((_, port)) = after_host.rsplit_once('@').map_or(after_host, |(_, host)| host).rsplit_once(':')
        && !port.parse::<u16>().is_ok_and(|port| port > 0)
    {
        return Err(wrong(&format!("has the port `{port}`, which is not from 1 to 65535")).hint(example));
    }
    for call in ["/chat/completions", "/completions"] {
        if let Some(base) = url.trim_end_matches('/').strip_suffix(call) {
            return Err(wrong("names a call; the base URL is wanted")
                .hint(format!("use `{base}`; which call is measured is said by `--api` (`target.api`)")));
        }
    }
    Ok(())
}

fn check_header(name: &str, value: &str) -> Result<(), RecipeError> {
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(RecipeError::new(format!(
            "`{name}` (`target.headers`, `--header`) is not the name of a header"
        )));
    }
    if http::HeaderValue::from_str(value).is_err() {
        // The value may be a secret: it is not shown.
        return Err(RecipeError::new(format!(
            "the value of the header `{name}` holds a character that cannot be sent"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn problem(text: &str) -> String {
        let error = Recipe::from_toml(text, "my.toml").unwrap_err();
        format!("{}; {}", error.message, error.hint.unwrap_or_default())
    }

    #[test]
    fn fields_that_contradict_each_other_are_named() {
        for (text, expected) in [
            ("slo = []", "no objective"),
            ("slo = ['ttft p95 < 1s']\n[target]\nstreaming = false", "not streamed"),
            ("[target]\nurl = 'http://a'\nsimulated = 'small'", "both `target.url` and `target.simulated`"),
            ("[strategy]\nkind = 'bisect'\nlevels = [1, 2]", "the strategy is not `grid`"),
            ("[strategy]\nkind = 'grid'\nprecision = '5%'", "no meaning for `grid`"),
            ("[strategy]\nlevels = [1]\nrepeats = 2", "which a `grid` does not give"),
            ("[strategy]\nlevels = []", "is empty"),
            ("[load]\nrate = '1..5'\nconcurrency = '1..5'", "both `load.rate`"),
            ("[load]\narrivals = 'poisson'", "no rate is given"),
            ("[strategy]\nlevels = [1, 99]\n[load]\nconcurrency = '1..8'", "level 99 of"),
            ("[trial]\nmin_duration = '2m'\nmax_duration = '1m'", "`trial.min_duration` is above"),
            ("[target]\nextra_body = { model = 'x' }", "give the model as `target.model`"),
            ("[target]\napi_key_env = 'sk-123'", "never the key itself"),
            ("[target]\nheaders = { 'a b' = 'x' }", "`a b` (`target.headers`, `--header`) is not the name"),
            ("[target]\nheaders = { a = \"x\\ny\" }", "a character that cannot be sent"),
        ] {
            let problem = problem(text);
            assert!(
                problem.starts_with("recipe `my.toml`: ") && problem.contains(expected),
                "{text}: {problem}"
            );
        }
    }

    #[test]
    fn a_url_that_no_request_can_go_to_is_refused_with_the_mend() {
        for (url, expected) in [
            ("localhost:8000", "did you mean `http://localhost:8000`?"),
            ("ftp://a", "begins with `ftp://`"),
            ("http://", "for example `http://127.0.0.1:8000`"),
            ("http://a:port", "the port `port`"),
            ("http://a:0/v1", "the port `0`"),
            ("http://a:99999", "the port `99999`"),
            ("http://a b", "cannot be read"),
            ("http://a/v1/chat/completions", "use `http://a/v1`"),
        ] {
            let problem = problem(&format!("[target]\nurl = '{url}'"));
            assert!(problem.contains(expected), "{url}: {problem}");
        }
        for url in [
            "http://127.0.0.1:8000",
            "https://me:pw@host/v1/",
            "http://[::1]:80/v1",
            "http://[::1]",
            "http://host?v=1",
        ] {
            assert!(check_url(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_headers_value_is_never_shown() {
        assert!(!problem("[target]\nheaders = { authorization = \"hunter2\\n\" }").contains("hunter2"));
    }
}
