//! The data of the page, kept up to date with a run folder.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::status::Status;
use crate::report::Document;
use crate::report::html::{self, Page, Requests};
use crate::run::{self, Contents, JOURNAL_FILE, RunError};

/// How long a page that has asked is taken to be open, seconds.
const OPEN: Duration = Duration::from_secs(5);

/// What a page is given of one run.
#[derive(Debug)]
pub struct Feed {
    folder: PathBuf,
    /// What the program that measures is doing; `None` where another one does.
    status: Option<Arc<Mutex<Status>>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    contents: Option<Contents>,
    /// Length of the journal when the contents were read.
    journal: u64,
    requests: Requests,
    /// Trials whose requests were taken in, and whether the last ones were.
    taken: usize,
    took_late: bool,
    /// When a page last asked, and for which journal.
    asked: Option<Instant>,
    given: u64,
}

#[derive(Serialize)]
struct News<'a> {
    revision: u64,
    live: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'a Page<'a>>,
}

impl Feed {
    /// The feed of a run folder. `status` is what the program itself is doing, if it is the one that
    /// measures.
    pub fn new(folder: &Path, status: Option<Arc<Mutex<Status>>>) -> Self {
        Self { folder: folder.to_owned(), status, state: Mutex::new(State::default()) }
    }

    /// The page with the data as it stands.
    pub(super) fn page(&self) -> Result<String, String> {
        self.with_page(|page, _| html::render_live(page))
    }

    /// The news since `revision`: how the run stands, and the page's data if they have changed.
    pub(super) fn data(&self, revision: Option<u64>) -> Result<String, String> {
        let live = self.live();
        if revision.is_some_and(|revision| revision == self.journal_length()) {
            self.state().asked = Some(Instant::now());
            return Ok(to_json(&News { revision: self.journal_length(), live, page: None }));
        }
        self.with_page(|page, revision| to_json(&News { revision, live, page: Some(page) }))
    }

    /// Waits, for at most `longest`, until pages that are open have been given everything.
    pub async fn drained(&self, longest: Duration) {
        let until = Instant::now() + longest;
        let is_waited_for = || {
            let length = self.journal_length();
            let state = self.state();
            state.asked.is_some_and(|asked| asked.elapsed() < OPEN) && state.given != length
        };
        while is_waited_for() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn with_page<T>(&self, use_it: impl FnOnce(&Page<'_>, u64) -> T) -> Result<T, String> {
        let mut state = self.state();
        state.asked = Some(Instant::now());
        let problem =
            state.catch_up(&self.folder, self.journal_length()).map_err(|error| error.to_string())?;
        let Some(contents) = &state.contents else { return Err("the run has not begun".to_owned()) };
        let document = Document::of_run(contents);
        let mut page = Page::new(contents, &document, &state.requests);
        page.live = Some(self.live());
        if let Some(problem) = problem {
            page.note(format!("not every request could be read: {problem}"));
        }
        if !page.ended && self.is_running() {
            page.headline = "the search is running".to_owned();
        }
        page.revision = state.journal;
        let made = use_it(&page, state.journal);
        state.given = state.journal;
        Ok(made)
    }

    fn live(&self) -> serde_json::Value {
        match &self.status {
            Some(status) => json!(*status.lock().unwrap_or_else(PoisonError::into_inner)),
            None => json!(Status { trial: None, over: !self.is_running() }),
        }
    }

    fn is_running(&self) -> bool {
        match &self.status {
            Some(status) => !status.lock().unwrap_or_else(PoisonError::into_inner).over,
            None => run::is_being_written(&self.folder),
        }
    }

    fn journal_length(&self) -> u64 {
        std::fs::metadata(self.folder.join(JOURNAL_FILE)).map_or(0, |meta| meta.len())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reads what is new in the folder. Gives what kept requests from being read.
    fn catch_up(&mut self, folder: &Path, journal: u64) -> Result<Option<RunError>, RunError> {
        if self.contents.is_some() && self.journal == journal {
            return Ok(None);
        }
        let contents = Contents::read(folder)?;
        if contents.trials.len() < self.taken || (self.took_late && contents.ended.is_none()) {
            // Taken up again by another process: what was cut off is no longer true.
            (self.requests, self.taken, self.took_late) = (Requests::default(), 0, false);
        }
        let mut problem = None;
        for trial in &contents.trials[self.taken..] {
            match contents.records_of(trial.outcome.id) {
                Ok(records) => records.iter().for_each(|record| self.requests.add(record)),
                Err(error) => problem = Some(error),
            }
        }
        self.taken = contents.trials.len();
        if contents.ended.is_some() && !self.took_late {
            match contents.late_records() {
                Ok(records) => records.iter().for_each(|record| self.requests.add(record)),
                Err(error) => problem = Some(error),
            }
            self.took_late = true;
        }
        self.contents = Some(contents);
        self.journal = journal;
        Ok(problem)
    }
}

fn to_json(value: &impl Serialize) -> String {
    // Plain data under text keys: there is nothing to fail on.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use serde_json::Value;

    use super::*;
    use crate::run::{Cost, RunFolder, sample};
    use crate::search::TrialKind;

    fn news(feed: &Feed, revision: Option<u64>) -> Value {
        serde_json::from_str(&feed.data(revision).unwrap()).unwrap()
    }

    #[test]
    fn a_page_is_told_what_is_new_and_only_that() {
        let base = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(Some(base.path()), "chat", &sample::plan()).unwrap();
        let status = Arc::new(Mutex::new(Status::default()));
        let feed = Feed::new(folder.path(), Some(Arc::clone(&status)));
        let first = news(&feed, None);
        assert_eq!(first["page"]["headline"], "the search is running");
        let revision = first["revision"].as_u64();
        assert!(news(&feed, revision).get("page").is_none());

        let outcome = sample::outcome(1, 8, TrialKind::Measure);
        folder
            .trial_ended(&outcome, Cost::default(), (0..9).map(|k| sample::record(k, 1)).collect())
            .unwrap();
        folder.flush().unwrap();
        let second = news(&feed, revision);
        assert_eq!(second["page"]["trials"][0]["dots"]["of"], 9);

        folder.ended(&sample::answer(), Cost::default(), vec![sample::record(9, 1)]).unwrap();
        status.lock().unwrap().over = true;
        let last = news(&feed, second["revision"].as_u64());
        assert_eq!(last["page"]["headline"], "max concurrency 42 under the SLO (95 % CI 40-44, safe: 40)");
        assert_eq!(last["page"]["trials"][0]["dots"]["of"], 10, "the late request is taken in once");
        assert_eq!(last["live"]["over"], true);
    }

    #[test]
    fn a_run_of_another_process_is_followed_by_its_folder() {
        let base = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(Some(base.path()), "chat", &sample::plan()).unwrap();
        folder.flush().unwrap();
        let path = folder.path().to_owned();
        let feed = Feed::new(&path, None);
        assert_eq!(news(&feed, None)["live"]["over"], false);
        folder.close().unwrap();
        let news = news(&feed, None);
        assert_eq!(news["live"]["over"], true);
        assert_eq!(news["page"]["headline"], "interrupted before there was an answer");
    }

    #[tokio::test]
    async fn nobody_is_waited_for_where_nobody_looks() {
        let feed = Feed::new(Path::new("/nonexistent"), None);
        feed.drained(Duration::from_secs(600)).await;
        assert!(feed.page().unwrap_err().contains("not a run folder"));
    }
}
