#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::plan::WorkloadPlan;
use crate::workload::{RequestSpec, Vocabulary, Workload};

fn sample(name: &str) -> String {
    format!("{}/tests/data/workload/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn written(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.to_string_lossy().into_owned();
    (folder, path)
}

fn plan(name: &str, window: Option<WindowPlan>) -> (WorkloadPlan, Arc<Dataset>) {
    let dataset = Dataset::scan(&sample(name), None).unwrap();
    let osl = Lengths::Uniform { min: 500, max: 600 };
    let source = SourcePlan {
        path: sample(name),
        format: dataset.format(),
        strict: false,
        osl: osl.clone(),
        conversations: false,
        window,
    };
    let mut plan = WorkloadPlan::of(dataset.isl(), osl);
    let dataset = Arc::new(Dataset::open(&source).unwrap());
    plan.source = Some(source);
    (plan, dataset)
}

fn requests(plan: &WorkloadPlan, dataset: &Arc<Dataset>, seed: u64, count: usize) -> Vec<RequestSpec> {
    let maker = PromptMaker::new(Arc::new(Vocabulary::word_is_token()), seed);
    Workload::new(plan, seed, maker).with_dataset(plan, seed, Some(dataset.clone())).take(count).collect()
}

#[test]
fn every_format_is_recognised_and_read() {
    for (name, format, entries, left_out, malformed, has_times) in [
        ("sharegpt.json", DatasetFormat::Sharegpt, 5, 1, 0, false),
        ("openai.jsonl", DatasetFormat::Openai, 4, 0, 1, false),
        ("lengths.csv", DatasetFormat::Lengths, 50, 0, 0, false),
        ("mooncake.jsonl", DatasetFormat::Mooncake, 60, 0, 0, true),
        ("azure.csv", DatasetFormat::Azure, 40, 0, 0, true),
        ("burstgpt.csv", DatasetFormat::Burstgpt, 37, 3, 0, true),
    ] {
        let dataset = Dataset::scan(&sample(name), None).unwrap();
        let findings = dataset.findings();
        assert_eq!(dataset.format(), format, "{name}");
        assert_eq!(
            (dataset.len(), findings.left_out, findings.malformed),
            (entries, left_out, malformed),
            "{name}"
        );
        assert_eq!(dataset.times().is_ok(), has_times, "{name}");
        for index in 0..dataset.len() {
            assert!(dataset.entry(index).unwrap().lengths(None).0 > 0, "{name} {index}");
        }
    }
}

#[test]
fn a_conversation_is_its_first_question_and_the_length_of_its_answer() {
    let dataset = Dataset::scan(&sample("sharegpt.json"), None).unwrap();
    let first = dataset.entry(0).unwrap();
    assert_eq!(first.text(), "How do I keep basil alive in a kitchen without much light?");
    assert_eq!(first.lengths(None), (12, Some(22)));
    let with_system = dataset.entry(4).unwrap();
    let roles: Vec<&str> = with_system.messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user"]);
}

#[test]
fn malformed_entries_are_told_with_their_lines_and_refused_where_asked() {
    let dataset = Dataset::scan(&sample("openai.jsonl"), None).unwrap();
    let (line, why) = &dataset.findings().shown[0];
    assert_eq!(*line, 4);
    assert!(why.starts_with("it is not JSON"), "{why}");
    let (mut plan, _) = plan("openai.jsonl", None);
    let source = plan.source.as_mut().unwrap();
    source.strict = true;
    let error = Dataset::open(source).unwrap_err().to_string();
    assert!(error.contains("openai.jsonl` line 4: it is not JSON"), "{error}");

    let (_folder, path) = written("l.csv", "isl,osl\n5,6\nmany,2\n7\n8,\n");
    let dataset = Dataset::scan(&path, None).unwrap();
    assert_eq!(dataset.findings().shown, [(3, "`many` in column 1 is no number of tokens".to_owned())]);
    // A missing answer is no slip.
    assert_eq!((dataset.len(), dataset.findings().with_osl), (3, 1));
}

#[test]
fn what_is_no_dataset_is_named() {
    for (text, problem) in [
        ("", "it is empty"),
        ("a,b\n1,2", "names no column of lengths"),
        ("{\"x\": 1}", "neither `messages`, `prompt` nor lengths"),
        ("isl,osl\nx,y", "holds no usable entry; line 2: `y` in column 2"),
        ("[]", "holds no usable entry"),
    ] {
        let (_folder, path) = written("f", text);
        let error = Dataset::scan(&path, None).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn lengths_are_known_by_any_of_their_usual_names() {
    for text in [
        "100,20",
        "100.0,20\n",
        "Prompt Tokens,Completion Tokens,model\n100,20,\"a, b\"",
        "{\"usage\": {\"prompt_tokens\": 100, \"completion_tokens\": 20}}",
        "{\"input_length\": 100, \"output_length\": 20}",
    ] {
        let (_folder, path) = written("f", text);
        let dataset = Dataset::scan(&path, None).unwrap();
        assert_eq!(dataset.entry(0).unwrap().lengths(None), (100, Some(20)), "{text}");
    }
}

#[test]
fn timestamps_are_seconds_from_the_first_across_midnight_and_a_leap_day() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-28 23:59:59.5000000,5,5\n\
                2024-02-29 00:00:00.7500000,5,5\n2024-03-01 00:00:00,5,5\n2024-02-28 23:59:59.6,5,5\n";
    let (_folder, path) = written("a.csv", text);
    let times = Dataset::scan(&path, None).unwrap().times().unwrap();
    let expected = [0.0, 0.1, 1.25, 86_400.5];
    assert!(times.iter().zip(expected).all(|(at, expected)| (at - expected).abs() < 1e-6), "{times:?}");
}

#[test]
fn the_same_seed_gives_the_same_requests_from_every_thread() {
    for name in ["sharegpt.json", "lengths.csv", "openai.jsonl"] {
        let (plan, dataset) = plan(name, None);
        let here = requests(&plan, &dataset, 7, 130);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (plan, dataset) = (plan.clone(), dataset.clone());
                std::thread::spawn(move || requests(&plan, &dataset, 7, 130))
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), here);
        }
        assert_ne!(requests(&plan, &dataset, 8, 130), here);
    }
}

#[test]
fn each_entry_is_sent_once_before_any_is_sent_again() {
    let (plan, dataset) = plan("sharegpt.json", None);
    let prompts: Vec<String> = requests(&plan, &dataset, 3, 20).into_iter().map(|spec| spec.prompt).collect();
    for round in prompts.chunks(5) {
        assert_eq!(round.iter().collect::<HashSet<_>>().len(), 5);
    }
    assert_ne!(prompts[..5], prompts[5..10]);
}

#[test]
fn a_resumed_run_goes_on_in_the_dataset_and_begins_a_trace_anew() {
    let go_on = |name: &str, window| {
        let (plan, dataset) = plan(name, window);
        let all = requests(&plan, &dataset, 3, 80);
        let maker = PromptMaker::new(Arc::new(Vocabulary::word_is_token()), 3);
        let rest: Vec<RequestSpec> = Workload::new(&plan, 3, maker)
            .with_dataset(&plan, 3, Some(dataset))
            .starting_at(30)
            .take(10)
            .collect();
        (all, rest)
    };
    let (all, rest) = go_on("sharegpt.json", None);
    assert_eq!(rest, all[30..40]);
    let (all, rest) = go_on("azure.csv", Some(WindowPlan::default()));
    let lengths = |specs: &[RequestSpec]| specs.iter().map(|spec| (spec.isl, spec.osl)).collect::<Vec<_>>();
    assert_eq!(lengths(&rest), lengths(&all[..10]));
    assert_eq!(rest[0].id, 30);
}

#[test]
fn an_entry_without_an_answer_has_the_plans_output_length() {
    let (_folder, path) = written("p.jsonl", "{\"prompt\": \"one two\"}\n{\"prompt\": \"three\"}\n");
    let source = SourcePlan {
        path,
        format: DatasetFormat::Openai,
        strict: true,
        osl: Lengths::Fixed { tokens: 77 },
        conversations: false,
        window: None,
    };
    let dataset = Arc::new(Dataset::open(&source).unwrap());
    let mut plan = WorkloadPlan::of(dataset.isl(), Lengths::Fixed { tokens: 77 });
    plan.source = Some(source);
    assert!(requests(&plan, &dataset, 1, 10).iter().all(|spec| spec.osl == 77 && spec.isl <= 2));
}

#[test]
fn a_replayed_trace_has_its_lengths_its_order_and_its_shared_prefixes() {
    let (plan, dataset) = plan("mooncake.jsonl", Some(WindowPlan::default()));
    let specs = requests(&plan, &dataset, 1, 60);
    let (mut seen, mut blocks) = (HashSet::new(), 0);
    for (index, spec) in specs.iter().enumerate() {
        let entry = dataset.entry(index).unwrap();
        assert_eq!((Some(spec.isl), Some(spec.osl)), (entry.isl, entry.osl));
        let words: Vec<&str> = spec.prompt.split(' ').collect();
        assert_eq!(words.len(), spec.isl as usize);
        // A prefix cache keyed by all words up to a block's end sees what the hashes say.
        for end in (1..=words.len() / 512).map(|block| block * 512) {
            blocks += u64::from(!seen.insert(words[..end].join(" ")));
        }
    }
    let hashes: u64 = {
        let mut known = HashSet::new();
        let whole = |entry: &Entry| (entry.isl.unwrap() / 512) as usize;
        (0..60)
            .map(|index| dataset.entry(index).unwrap())
            .flat_map(|entry| entry.blocks[..whole(&entry)].to_vec())
            .map(|hash| u64::from(!known.insert(hash)))
            .sum()
    };
    assert!(hashes > 60, "{hashes}");
    assert_eq!(blocks, hashes);
}

#[test]
fn a_window_holds_the_entries_of_its_time_alone() {
    let (_, all) = plan("burstgpt.csv", Some(WindowPlan::default()));
    let (_, part) = plan("burstgpt.csv", Some(WindowPlan { from: 300.0, to: Some(900.0) }));
    let expected: Vec<f64> = all
        .times()
        .unwrap()
        .into_iter()
        .filter(|at| (300.0..900.0).contains(at))
        .map(|at| at - 300.0)
        .collect();
    assert!(!expected.is_empty() && expected.len() < all.len());
    assert_eq!(part.times().unwrap(), expected);
    let source = SourcePlan {
        path: sample("lengths.csv"),
        format: DatasetFormat::Lengths,
        strict: false,
        osl: Lengths::Fixed { tokens: 1 },
        conversations: false,
        window: Some(WindowPlan::default()),
    };
    assert!(matches!(Dataset::open(&source), Err(DatasetError::NoTimes { .. })));
}
