#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;

fn plan(launch: &str) -> EnginePlan {
    let launch: toml::Table = toml::from_str(&format!("launch = {launch}")).unwrap();
    EnginePlan {
        launch: launch["launch"].clone().try_into().unwrap(),
        shell: false,
        model: Some("m 1".to_owned()),
        host: "127.0.0.1".to_owned(),
        port: None,
        folder: None,
        env: BTreeMap::new(),
        knobs: BTreeMap::new(),
        ready: Vec::new(),
        start_seconds: 1.0,
        stop: None,
        stop_seconds: 1.0,
        detached: false,
        warmup: 0,
        reset: None,
        slot: BTreeMap::new(),
    }
}

fn command(launch: &str, knobs: &[(&str, KnobValue)]) -> Result<Vec<String>, TemplateError> {
    let knobs = knobs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let launching = Launching { port: 81, id: "x-1", plimsoll: "/bin/plimsoll", knobs: &knobs };
    plan(launch).command(&launching)
}

#[test]
fn an_argument_is_never_split_or_joined() {
    let words = command("['a', '{{ model }}', '--port={{ port }}', '{\"json\": 1}', '']", &[]).unwrap();
    assert_eq!(words, ["a", "m 1", "--port=81", "{\"json\": 1}", ""]);
    assert_eq!(shown(&words), "a 'm 1' --port=81 '{\"json\": 1}' ''");
}

#[test]
fn a_knob_without_a_value_drops_its_whole_group() {
    let launch = "['a', ['--seqs', '{{ knobs.seqs }}'], '--util={{ knobs.util }}', '-x']";
    assert_eq!(command(launch, &[]).unwrap(), ["a", "-x"]);
    let set = [("seqs", KnobValue::Int(8)), ("util", KnobValue::Float(0.9))];
    assert_eq!(command(launch, &set).unwrap(), ["a", "--seqs", "8", "--util=0.9", "-x"]);
}

#[test]
fn a_flag_chooses_between_two_lists() {
    let launch = "['a', {when = 'knobs.cache', args = ['--cache'], else = ['--no-cache']}]";
    assert_eq!(command(launch, &[("cache", KnobValue::Flag(true))]).unwrap(), ["a", "--cache"]);
    assert_eq!(command(launch, &[("cache", KnobValue::Flag(false))]).unwrap(), ["a", "--no-cache"]);
    assert_eq!(command(launch, &[]).unwrap(), ["a"]);
    let launch = "['a', {when = \"knobs.kind == 'fp8'\", args = ['-8']}]";
    assert_eq!(command(launch, &[("kind", KnobValue::Choice("fp8".to_owned()))]).unwrap(), ["a", "-8"]);
}

#[test]
fn an_unknown_name_and_a_broken_template_are_named_before_any_launch() {
    let check = |plan: EnginePlan| plan.check_templates(&BTreeSet::new()).unwrap_err().to_string();
    let error = check(plan("['a', '{{ prot }}']"));
    assert!(error.starts_with("`{{ prot }}`: nothing is called `prot`; there are `port`"), "{error}");
    let error = check(plan("['a', '{{ port ']"));
    assert!(error.starts_with("`{{ port `: "), "{error}");
    let error = check(plan("[{when = 'knobs.a &', args = []}]"));
    assert!(error.starts_with("`knobs.a &`: "), "{error}");
    let mut without_model = plan("['{{ model }}']");
    without_model.model = None;
    let error = check(without_model);
    assert!(error.contains("neither `engine.model` nor"), "{error}");
}

#[test]
fn a_slot_fills_in_its_values_and_what_it_does_not_have_is_left_out() {
    let mut plan = plan("['a', '--gpu={{ slot.gpu }}', ['--node', '{{ slot.node }}'], '{{ host }}']");
    plan.host = "{{ slot.address }}".to_owned();
    plan.env = BTreeMap::from([("GPU".to_owned(), "{{ slot.gpu }}".to_owned())]);
    let slot = |values: &str| toml::from_str::<BTreeMap<String, KnobValue>>(values).unwrap();
    let (first, second) = (slot("gpu = 0"), slot("gpu = '1'\nnode = 'n2'\naddress = '10.0.0.2'\nport = 82"));
    let knobs = BTreeMap::new();
    let launching = Launching { port: 81, id: "x-1", plimsoll: "p", knobs: &knobs };
    let on = |slot: &BTreeMap<String, KnobValue>| {
        let plan = plan.clone().on_slot(slot);
        (plan.command(&launching).unwrap(), plan.environment(&launching).unwrap()["GPU"].clone(), plan.port)
    };
    assert_eq!(on(&first), (["a", "--gpu=0", "127.0.0.1"].map(str::to_owned).to_vec(), "0".to_owned(), None));
    let words = ["a", "--gpu=1", "--node", "n2", "10.0.0.2"].map(str::to_owned).to_vec();
    assert_eq!(on(&second), (words, "1".to_owned(), Some(82)));
    assert_eq!(
        plan.slot_names("http://{{ slot.url }}"),
        ["address", "gpu", "node", "url"].map(str::to_owned).into()
    );
    let check = |names: &[&str]| plan.check_templates(&names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(check(&["address", "gpu", "node"]), Ok(()));
    assert!(
        check(&["gpu", "node"])
            .unwrap_err()
            .to_string()
            .contains("has a value `address`; there are gpu, node")
    );
    assert!(check(&[]).unwrap_err().to_string().contains("the recipe lists no slots"));
}

#[test]
fn a_plan_survives_its_file() {
    let plan = plan("['a', ['-b', '{{ port }}'], {when = 'knobs.c', args = ['-c'], else = ['-d']}]");
    let text = toml::to_string(&plan).unwrap();
    assert_eq!(toml::from_str::<EnginePlan>(&text).unwrap(), plan, "{text}");
}
