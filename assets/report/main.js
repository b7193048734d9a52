
// The page: sections from top to bottom, drawn anew when something is chosen or arrives.

(() => {
  let data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  const sort = { column: 0, down: false };
  let selected = null;
  let close = false;

  const trials = () => data.document.trials;
  const trialOf = (id) => trials().find((trial) => trial.id === id);

  /** The last measured trial at the load that is nearest to the answer; failing that the last one. */
  function first() {
    const answer = data.document.answer.load ? Object.values(data.document.answer.load)[0] : null;
    const measured = trials().filter((trial) => trial.kind !== "warmup" && trial.kind !== "navigate" && trial.verdict !== "void");
    const pool = measured.length ? measured : trials();
    if (!pool.length) return null;
    if (answer === null) return pool[pool.length - 1].id;
    const away = (trial) => Math.abs(Math.log(loadOf(trial) / answer));
    return pool.reduce((best, trial) => (away(trial) <= away(best) ? trial : best)).id;
  }

  function choose(id) {
    selected = id;
    drawCourse();
    drawTrial();
    drawTable();
    document.getElementById("trial").scrollIntoView({ behavior: "smooth", block: "start" });
    hideTip();
  }

  const into = (id, ...children) => document.getElementById(id).replaceChildren(...children.flat(Infinity).filter(Boolean));
  const section = (id, heading) => h("section", {}, heading ? h("h2", {}, heading) : null, h("div", { id }));

  function drawCourse() {
    into("course", courseChart(data, choose, selected));
  }

  function drawCurves() {
    const near = around(data), shown = close && near;
    const curves = drawnTrials(data).length ? [...data.objectives.map((_, k) => objectiveChart(data, k, choose, shown)), throughputChart(data, choose, shown)].filter(Boolean) : [];
    const turn = h("button", { click: () => { close = !close; drawCurves(); } }, shown ? "show all loads" : "show what is around the answer");
    into("curves",
      near ? h("div", { class: "bar" }, turn) : null,
      curves.length ? h("div", { class: "grid" }, curves) : h("p", { class: "note" }, "Nothing has been measured."));
  }

  function drawTrial() {
    const trial = trialOf(selected);
    if (!trial) return into("trial", h("p", { class: "note" }, "No trial has ended."));
    const ids = trials().map((entry) => entry.id), place = ids.indexOf(selected);
    const step = (by, name) => h("button", { disabled: ids[place + by] === undefined, click: () => choose(ids[place + by]) }, name);
    const list = h("select", { "aria-label": "trial", change: (event) => choose(Number(event.target.value)) },
      trials().map((entry) => h("option", { value: entry.id, selected: entry.id === selected }, `trial ${entry.id}: ${level(loadOf(entry))}, ${entry.kind}, ${entry.verdict}`)));
    into("trial",
      h("h2", {}, `Trial ${trial.id}: ${level(loadOf(trial))} ${data.load_name}, ${trial.kind}, ${trial.verdict}`),
      h("div", { class: "bar" }, step(-1, "previous"), list, step(1, "next")),
      timeline(data, trial), sliceTable(trial) || [], turnCharts(trial), trialFacts(data, trial));
  }

  function drawTable() {
    into("table", trialTable(data, sort, selected, choose, drawTable));
  }

  function provenance() {
    const { provenance: from, schema_version } = data.document;
    const rows = [["plimsoll", from.plimsoll], ["recipe", from.recipe], ["started", from.started], ["seed", from.seed], ["plan hash", from.plan_hash], ["run folder", data.folder], ["summary schema", schema_version]];
    const tell = (value, name) => {
      if (value === null || value === undefined) return;
      if (typeof value === "object" && !Array.isArray(value)) return Object.entries(value).forEach(([key, inner]) => tell(inner, `${name}${name === "target" ? ":" : ""} ${key.replaceAll("_", " ")}`));
      rows.push([name, Array.isArray(value) ? value.map((v) => (typeof v === "object" ? JSON.stringify(v) : v)).join(", ") : String(value)]);
    };
    tell(from.target, "target");
    return h("dl", {}, rows.map(([label, text]) => [h("dt", {}, label), h("dd", {}, String(text))]));
  }

  function draw() {
    if (!trialOf(selected)) selected = first();
    document.title = data.headline;
    document.getElementById("headline").textContent = data.headline;
    const opened = [...page.querySelectorAll("details[open]")].map((details) => details.id);
    const plan = h("details", { id: "plan", open: opened.includes("plan") }, h("summary", {}, "The full plan (plan.toml)"), h("pre", {}, data.plan));
    const at = window.scrollY;
    page.replaceChildren(
      answerSection(data),
      section("course"),
      section("curves", "Latency and throughput against load"),
      section("distributions", "Distributions"),
      h("section", { id: "trial" }),
      section("table", "Trials"),
      h("section", {}, h("h2", {}, "Plan"), plan),
      h("section", { id: "provenance" }, h("h2", {}, "Provenance"), provenance()),
    );
    drawCourse();
    drawCurves();
    const spread = [distributionChart(data, "ttft", "TTFT", choose), distributionChart(data, "itl", "ITL", choose)].filter(Boolean);
    into("distributions", spread.length ? h("div", { class: "grid" }, spread) : h("p", { class: "note" }, "There are no measured requests to tell."));
    drawTrial();
    drawTable();
    window.scrollTo(0, at);
  }

  window.addEventListener("beforeprint", () => { for (const details of document.querySelectorAll("details")) details.open = true; });
  draw();
  if (data.live) follow(data, (news) => { data = news; draw(); });
  document.body.dataset.ready = "yes";
})();
