//! `plimsoll watch`: a run as it goes on, and the live page in a browser.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use plimsoll::report::live::{Feed, serve};
use plimsoll::report::terminal::{self, Screen, Style};
use plimsoll::report::{Document, progress};
use plimsoll::run::{self, Contents};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::complaint::Complaint;
use super::engine::exit_of;
use super::exit::ExitCode;
use super::output::print;

/// Time between two looks at the journal.
const LOOK: Duration = Duration::from_millis(500);
/// Longest time that a page which is open is given to fetch the end of the run.
const LAST_LOOK: Duration = Duration::from_secs(4);

/// Follow a run in another terminal or in a browser, while it goes on or when it has ended.
///
/// Prints a line for each trial that ends, and the answer at the end. With `--serve` the report's
/// page is shown live in a browser instead, until Ctrl-C.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  plimsoll watch runs/latest\n  plimsoll watch runs/latest --serve 127.0.0.1:8088"
)]
pub struct Watch {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Show the report live in a browser, at this address; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    serve: Option<SocketAddr>,

    /// Print the summary as JSON at the end instead of the lines and the screen.
    #[arg(long, conflicts_with = "serve")]
    json: bool,
}

impl Watch {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        // Whatever `latest` points to later, this run is meant.
        let folder = self.run.canonicalize().unwrap_or_else(|_| self.run.clone());
        super::block_on(async {
            let first = Contents::read(&folder)?;
            match self.serve {
                Some(address) => {
                    let server = PageServer::bind(address).await?;
                    let served = server.serve(Feed::new(&folder, None));
                    tokio::signal::ctrl_c().await?;
                    served.stop();
                    Ok(exit_of(&Contents::read(&folder)?))
                }
                None => follow(first, self.json).await,
            }
        })
    }
}

async fn follow(mut contents: Contents, json: bool) -> anyhow::Result<ExitCode> {
    let style = Style::of_stdout();
    let (mut told, mut warned) = (0, 0);
    loop {
        // Asked before the journal is read: what a run that is over has written is all there then.
        let goes_on = run::is_being_written(&contents.path);
        contents = Contents::read(&contents.path)?;
        if !json {
            for outcome in contents.outcomes().skip(told) {
                print(&format!("{}\n", progress::ended(&contents.plan.slo, outcome, style)))?;
            }
            for warning in contents.warnings.iter().skip(warned) {
                eprintln!("warning: {warning}");
            }
        }
        (told, warned) = (contents.trials.len(), contents.warnings.len());
        if contents.ended.is_some() || !goes_on {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let document = Document::of_run(&contents);
    if json {
        print(&document.to_json())?;
    } else {
        let screen = Screen { document: &document, plan: &contents.plan, folder: Some(&contents.path) };
        print(&format!("\n{}", terminal::search(&screen, style)))?;
    }
    Ok(exit_of(&contents))
}

/// A port that is taken for the live page.
pub struct PageServer {
    listener: TcpListener,
}

/// The live page while it is served.
pub struct Served {
    feed: Arc<Feed>,
    task: JoinHandle<std::io::Result<()>>,
}

impl PageServer {
    /// Takes the port.
    pub async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Complaint::new(ExitCode::Usage, format!("cannot listen on `{address}` (`--serve`): {error}"))
                .hint("name another port; port 0 takes a free one")
        })?;
        Ok(Self { listener })
    }

    /// Serves the page and says where.
    pub fn serve(self, feed: Feed) -> Served {
        if let Ok(address) = self.listener.local_addr() {
            eprintln!("live report at http://{address}/");
        }
        let feed = Arc::new(feed);
        let task = tokio::spawn(serve(self.listener, Arc::clone(&feed), std::future::pending()));
        Served { feed, task }
    }
}

impl Served {
    /// Ends when the pages that are open have the answer.
    pub async fn end(self) {
        self.feed.drained(LAST_LOOK).await;
        self.stop();
    }

    /// Ends at once.
    pub fn stop(self) {
        self.task.abort();
    }
}
