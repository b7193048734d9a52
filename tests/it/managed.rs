//! An engine that was launched is gone when the run is over, however that came about.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll::plan::Plan;
use plimsoll::recipe::{Purpose, Recipe};
use plimsoll::space::KnobValue;
use plimsoll::target::managed::{Cause, Exit, LaunchFailure, Launcher, Running, stop_leftovers};
use rustix::process::{Pid, Signal, kill_process};

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// The simulated engine as a server of its own, many times faster than an engine.
const ENGINE: &str = "[\"{{ plimsoll }}\", \"simulate\", \"--port\", \"{{ port }}\", \"--speed\", \"50\"]";
/// Longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The numbers of a field of all launches of a run.
fn launched(run: &Path, field: &str) -> Vec<i32> {
    let text = fs::read_to_string(run.join("launches.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|entry| Some(entry.get("launched")?.get(field)?.as_i64()? as i32))
        .collect()
}

/// How many launches of a run have ended by its own account.
fn ended(run: &Path) -> usize {
    fs::read_to_string(run.join("launches.jsonl")).unwrap().matches("{\"ended\"").count()
}

/// Every process of a group, zombies among them.
fn group(leader: i32) -> Vec<i32> {
    let group_of = |pid: i32| -> Option<i32> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
    };
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid| group_of(*pid) == Some(leader)).collect()
}

fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what} did not come to pass");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// A plan whose engine is launched as `engine` says (TOML, after `[engine]`).
fn plan(engine: &str) -> Plan {
    let recipe = Recipe::from_toml(&format!("[engine]\n{engine}"), "test").unwrap();
    recipe.into_plan(Some("test"), Purpose::Measure).unwrap()
}

/// Launches in `folder`.
async fn launch_in(folder: &Path, plan: &Plan) -> Result<Running, LaunchFailure> {
    let (_tell, interrupt) = tokio::sync::watch::channel(false);
    let launcher = Launcher::new(plan, folder, interrupt).unwrap().supervised_by(PathBuf::from(PLIMSOLL));
    launcher.launch(&plan.engine.as_ref().unwrap().knobs, &mut |_| {}).await
}

/// The failure of an engine launched by a shell script, and that nothing of it is left.
async fn failure(script: &str, further: &str) -> plimsoll::target::managed::EngineFailure {
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("launch = [\"sh\", \"-c\", '''{script}''']\n{further}");
    let failure = launch_in(folder.path(), &plan(&engine)).await.unwrap_err();
    let leader = launched(folder.path(), "pid")[0];
    assert_eq!(group(leader), Vec::<i32>::new(), "{script}");
    assert_eq!(ended(folder.path()), 1);
    failure.engine().unwrap_or_else(|| panic!("{script}: {failure}")).clone()
}

#[tokio::test]
async fn an_engine_serves_at_a_free_port_and_is_gone_after_its_stop() {
    let folder = tempfile::tempdir().unwrap();
    let running = launch_in(folder.path(), &plan(&format!("launch = {ENGINE}\nwarmup = 3"))).await.unwrap();
    assert_eq!(group(running.pid), [running.pid]);
    running.check().await.unwrap();
    let second = launch_in(folder.path(), &plan(&format!("launch = {ENGINE}"))).await.unwrap();
    assert_ne!(running.url, second.url);
    assert_eq!((running.launch, second.launch), (1, 2));
    assert!(second.log.ends_with("engine-002.log") && second.log.exists());
    let (first, pid) = (running.pid, second.pid);
    assert_eq!((running.stop().await, second.stop().await), (0, 0));
    assert_eq!((group(first), group(pid)), (vec![], vec![]));
    assert_eq!(ended(folder.path()), 2);
}

#[tokio::test]
async fn a_failed_start_shows_how_it_ended_and_the_end_of_its_log() {
    let seen = failure("seq 1 40; echo 'no such model' >&2; exit 3", "").await;
    assert_eq!(seen.cause, Cause::StartFailed(Exit::Code(3)));
    assert_eq!(seen.tail.len(), 15);
    assert_eq!(seen.tail[13..], ["40", "no such model"]);
    assert!(seen.to_string().contains("exit code 3"), "{seen}");
    let seen = failure("echo 'torch.OutOfMemoryError: CUDA out of memory.'; exit 1", "").await;
    assert_eq!(seen.cause, Cause::OutOfMemory);
    let seen = failure("kill -KILL $$", "").await;
    assert_eq!((seen.cause, seen.exit), (Cause::OutOfMemory, Some(Exit::Signal(9))));
    let seen = failure("kill -SEGV $$", "").await;
    assert_eq!(seen.cause, Cause::StartFailed(Exit::Signal(11)));
}

#[tokio::test]
async fn an_engine_that_is_never_ready_is_given_up_and_stopped() {
    let seen = failure("echo waiting; sleep 600", "start_timeout = '500ms'").await;
    assert_eq!((seen.cause, seen.exit), (Cause::NotReady, None));
    assert_eq!(seen.tail, ["waiting"]);
    assert!(seen.hint().contains("start_timeout"), "{}", seen.hint());
}

#[tokio::test]
async fn a_deaf_engine_and_the_children_it_hides_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let escaped = folder.path().join("escaped");
    // One that ignores SIGTERM, with a child in a session of its own whose parent is gone.
    let script = format!(
        "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ > {}; sleep 600' &) ; while :; do sleep 1; done",
        escaped.display()
    );
    let plan = plan(&format!(
        "launch = [\"sh\", \"-c\", '''{script}''']\nstop_timeout = '300ms'\nstart_timeout = '2s'"
    ));
    launch_in(folder.path(), &plan).await.unwrap_err();
    let escaped: i32 = fs::read_to_string(escaped).unwrap().trim().parse().unwrap();
    assert!(!is_there(escaped), "the process that left the group goes on");
    assert_eq!(group(launched(folder.path(), "pid")[0]), Vec::<i32>::new());
    assert!(!is_there(launched(folder.path(), "supervisor")[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dies_after_it_was_ready_crashed_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let running = launch_in(folder.path(), &plan(&format!("launch = {ENGINE}"))).await.unwrap();
    signal(running.pid as u32, Signal::ABORT);
    wait_for("the crash", || running.ended().is_some());
    let failure = running.check().await.unwrap_err();
    assert_eq!(failure.cause, Cause::CrashedUnderLoad(Exit::Signal(6)));
    running.stop().await;
}

#[tokio::test]
async fn an_engine_that_stands_still_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let running = launch_in(folder.path(), &plan(&format!("launch = {ENGINE}"))).await.unwrap();
    signal(running.pid as u32, Signal::STOP);
    let failure = running.check().await.unwrap_err();
    assert_eq!((failure.cause, failure.exit), (Cause::Hung, None));
    let pid = running.pid;
    running.stop().await;
    assert_eq!(group(pid), Vec::<i32>::new());
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_before_another_server_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let failure =
        launch_in(folder.path(), &plan(&format!("launch = {ENGINE}\nport = {port}"))).await.unwrap_err();
    assert_eq!(failure.to_string(), format!("something listens already on 127.0.0.1:{port}"));
    assert!(!folder.path().join("launches.jsonl").exists());
}

#[tokio::test]
async fn a_program_or_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let failure = launch_in(folder.path(), &plan("launch = 'no-such-engine'")).await.unwrap_err();
    assert_eq!(failure.to_string(), "`no-such-engine` cannot be run: No such file or directory");
    let failure =
        launch_in(folder.path(), &plan("launch = 'true'\nfolder = '/no/such/folder'")).await.unwrap_err();
    assert!(failure.to_string().contains("the folder `/no/such/folder` is not there"), "{failure}");
    let failure = launch_in(folder.path(), &plan("launch = 'true'\nenv = { A = '${NO_SUCH_VARIABLE}' }"))
        .await
        .unwrap_err();
    assert!(failure.to_string().contains("`NO_SUCH_VARIABLE`, which is not set"), "{failure}");
}

#[tokio::test]
async fn a_knob_reaches_the_command_and_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let engine = "launch = ['sh', '-c', 'echo \"$0 $@ / $SPACE\"; exit 1', ['--seqs', '{{ knobs.seqs }}'], \
                  ['--unset', '{{ knobs.unset }}']]\nenv = { SPACE = '{{ knobs.seqs }} GiB' }";
    let plan = plan(engine);
    let (_tell, interrupt) = tokio::sync::watch::channel(false);
    let launcher = Launcher::new(&plan, folder.path(), interrupt).unwrap().supervised_by(PLIMSOLL.into());
    let knobs = BTreeMap::from([("seqs".to_owned(), KnobValue::Int(8))]);
    let failure = launcher.launch(&knobs, &mut |_| {}).await.unwrap_err();
    assert_eq!(failure.engine().unwrap().tail, ["--seqs 8 / 8 GiB"]);
}

#[tokio::test]
async fn a_stop_command_ends_what_goes_on_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    // The command starts the engine under another name and ends, as a batch system's does.
    let engine = format!(
        "launch = ['sh', '-c', '''setsid \"$0\" simulate --speed 50 --port \"$1\" & echo $! > \"$2\"''', \
         '{{{{ plimsoll }}}}', '{{{{ port }}}}', '{file}']\n\
         stop = ['sh', '-c', 'echo stopping {{{{ id }}}}; kill $(cat {file})']\ndetached = true",
        file = elsewhere.display()
    );
    let running = launch_in(folder.path(), &plan(&engine)).await.unwrap();
    let engine: i32 = fs::read_to_string(&elsewhere).unwrap().trim().parse().unwrap();
    assert!(is_there(engine) && running.ended().is_none());
    let log = running.log.clone();
    running.stop().await;
    assert!(!is_there(engine));
    assert!(fs::read_to_string(log).unwrap().contains("stopping plimsoll-"));
}

#[tokio::test]
async fn a_reset_is_done_by_a_post_or_a_command_and_its_failure_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let engine = format!("launch = {ENGINE}\nreset = 'touch {}'", done.display());
    let running = launch_in(folder.path(), &plan(&engine)).await.unwrap();
    assert!(!done.exists());
    running.reset().await.unwrap();
    assert!(done.exists());
    running.stop().await;
    let engine = format!("launch = {ENGINE}\nreset = 'POST /no_such_path'");
    let running = launch_in(folder.path(), &plan(&engine)).await.unwrap();
    let error = running.reset().await.unwrap_err().to_string();
    assert!(error.contains("`POST /no_such_path` is answered with 404"), "{error}");
    running.stop().await;
}

/// A search by the program, with a simulated engine that it launches.
struct Search {
    folder: tempfile::TempDir,
    process: Child,
}

impl Search {
    fn start(launch: &str, further: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = Command::new(PLIMSOLL)
            .args(["search", "--slo", "ttft p95 < 30s", "--launch", launch, "--quiet", "--out"])
            .arg(folder.path())
            .args(further)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { folder, process }
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("latest")
    }

    /// Waits until trials are under way.
    #[track_caller]
    fn until_under_load(&self) {
        let journal = self.run().join("journal.jsonl");
        wait_for("a trial", || fs::read_to_string(&journal).is_ok_and(|text| text.contains("trial_ended")));
    }

    fn engines(&self) -> Vec<i32> {
        launched(&self.run(), "pid")
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Long enough to be interrupted.
const LONG: [&str; 6] = ["--strategy", "grid", "--levels", "1,2,3,4,5,6,7,8", "--requests", "100000"];
const SHORT: [&str; 8] = ["--strategy", "grid", "--levels", "1,2", "--requests", "20", "--osl", "200"];

fn simulated() -> String {
    format!("{PLIMSOLL} simulate --speed 4 --port {{port}}")
}

#[test]
fn a_search_launches_measures_and_stops_its_engine() {
    let mut search = Search::start(&simulated(), &SHORT);
    let status = search.process.wait().unwrap();
    assert_eq!(status.code(), Some(4));
    assert_eq!(search.engines().len(), 1);
    assert_eq!(group(search.engines()[0]), Vec::<i32>::new());
    assert_eq!(ended(&search.run()), 1);
}

#[test]
fn ctrl_c_ends_the_engine_and_keeps_what_was_measured() {
    let mut search = Search::start(&simulated(), &LONG);
    search.until_under_load();
    signal(search.process.id(), Signal::INT);
    assert_eq!(search.process.wait().unwrap().code(), Some(130));
    assert_eq!(group(search.engines()[0]), Vec::<i32>::new());
    assert_eq!(ended(&search.run()), 1);
}

#[test]
fn a_killed_program_takes_its_engine_with_it_and_can_be_resumed() {
    let mut search = Search::start(&simulated(), &SHORT);
    search.until_under_load();
    signal(search.process.id(), Signal::KILL);
    search.process.wait().unwrap();
    let engine = search.engines()[0];
    wait_for("the engine's end", || group(engine).is_empty());
    wait_for("the supervisor's note", || ended(&search.run()) == 1);
    let output = Command::new(PLIMSOLL).arg("resume").arg(search.run()).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((search.engines().len(), ended(&search.run())), (2, 2));
    assert!(search.engines().iter().all(|engine| group(*engine).is_empty()));
}

#[test]
fn resume_stops_an_engine_that_nobody_was_left_to_stop() {
    let mut search = Search::start(&simulated(), &SHORT);
    search.until_under_load();
    let (engine, supervisor) = (search.engines()[0], launched(&search.run(), "supervisor")[0]);
    signal(supervisor as u32, Signal::KILL);
    signal(search.process.id(), Signal::KILL);
    search.process.wait().unwrap();
    let output = Command::new(PLIMSOLL).arg("resume").arg(search.run()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    wait_for("the engine's end", || {
        group(engine).iter().all(|pid| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
        })
    });
    assert_eq!((search.engines().len(), ended(&search.run())), (2, 2));
}

#[tokio::test]
async fn a_folder_without_launches_has_nothing_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    assert!(stop_leftovers(folder.path()).await.is_empty());
}

#[test]
fn a_failed_launch_is_told_with_the_end_of_its_log_and_a_secret_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("secret.toml");
    fs::write(
        &recipe,
        "[engine]\nlaunch = [\"sh\", \"-c\", 'echo args \"$@\"; echo key $ENGINE_KEY; exit 9', \"x\", \
         \"--api-key\", \"${TEST_ENGINE_KEY}\", \"--hf-token\", \"hf-literal\"]\n\
         env = { ENGINE_KEY = \"${TEST_ENGINE_KEY}\", OTHER_TOKEN = \"tok-literal\" }\n",
    )
    .unwrap();
    let output = Command::new(PLIMSOLL)
        .args(["measure", "--concurrency", "1", "--recipe"])
        .arg(&recipe)
        .arg("--out")
        .arg(folder.path().join("runs"))
        .env("TEST_ENGINE_KEY", "sk-hunter2")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(6), "{stderr}");
    assert!(stderr.contains("error: the engine ended before it was ready: exit code 9"), "{stderr}");
    assert!(stderr.contains("  | args --api-key *** --hf-token ***\n  | key ***\n"), "{stderr}");
    assert!(stderr.contains("--api-key '${TEST_ENGINE_KEY}' --hf-token '***'"), "{stderr}");
    let mut files = 0;
    for entry in fs::read_dir(folder.path().join("runs/latest")).unwrap() {
        let text = fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&text);
        files += 1;
        for secret in ["hunter2", "hf-literal", "tok-literal"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
    assert!(files >= 4);
    assert!(
        !["hunter2", "hf-literal", "tok-literal"].iter().any(|secret| stderr.contains(secret)),
        "{stderr}"
    );
}

#[test]
fn a_supervisor_without_an_order_says_what_it_is_for() {
    let output = Command::new(PLIMSOLL).arg("engine-supervisor").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("used by plimsoll itself"));
}
