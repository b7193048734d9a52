
// The table of trials.

function columns(data) {
  const distribution = (trial, name, p) => (trial.metrics[name] && trial.metrics[name].n ? trial.metrics[name][p] : null);
  return [
    { name: "trial", value: (t) => t.id, text: (t) => String(t.id) },
    { name: "load", value: loadOf, text: (t) => level(loadOf(t)) },
    { name: "kind", value: (t) => t.kind, text: (t) => t.kind, words: true },
    { name: "verdict", value: (t) => t.verdict, text: (t) => (t.void_cause ? `void: ${t.void_cause.replaceAll("_", " ")}` : t.verdict), words: true, look: (t) => `text verdict-${t.verdict}` },
    ...data.objectives.map((o, k) => ({
      name: `${o.name}\n${o.limit}`,
      value: (t) => (t.objectives[k] ? t.objectives[k].figure : null),
      text: (t) => (t.objectives[k] ? figure(o.unit, t.objectives[k].figure) : "-"),
      look: (t) => (t.verdict !== "void" && t.objectives[k] && t.objectives[k].met === false ? "over" : ""),
    })),
    { name: "ttft\np99", value: (t) => distribution(t, "ttft", "p99"), text: (t) => figure("seconds", distribution(t, "ttft", "p99")) },
    { name: "all\nreq/s", value: (t) => t.requests_per_second, text: (t) => significant(t.requests_per_second) },
    { name: "good\nreq/s", value: (t) => t.goodput, text: (t) => significant(t.goodput) },
    { name: "good\nshare", value: (t) => t.attainment, text: (t) => percent(t.attainment) },
    { name: "output\ntok/s", value: (t) => t.output_tokens_per_second, text: (t) => significant(t.output_tokens_per_second) },
    { name: "counted\nrequests", value: (t) => t.measured, text: (t) => count(t.measured) },
    { name: "failed", value: (t) => t.requests.failed, text: (t) => count(t.requests.failed) },
    { name: "began", value: (t) => t.began, text: (t) => `${t.began.toFixed(1)} s` },
    { name: "length", value: (t) => t.seconds, text: (t) => seconds(t.seconds) },
  ];
}

/** `sort` is `{column, down}` and is kept by the caller. */
function trialTable(data, sort, selected, choose, again) {
  const all = columns(data);
  const by = all[Math.min(sort.column, all.length - 1)];
  const order = (a, b) => {
    const [va, vb] = [by.value(a), by.value(b)];
    if (va === vb) return a.id - b.id;
    // What has no figure stands last, either way round.
    if (va === null || va === undefined) return 1;
    if (vb === null || vb === undefined) return -1;
    return (va < vb ? -1 : 1) * (sort.down ? -1 : 1);
  };
  const head = all.map((column, k) => h("th", { class: column.words ? "text" : null, scope: "col", "aria-sort": k === sort.column ? (sort.down ? "descending" : "ascending") : null },
    h("button", { click: () => { Object.assign(sort, { down: sort.column === k && !sort.down, column: k }); again(); } }, column.name)));
  const rows = [...data.document.trials].sort(order).map((trial) => h("tr", {
    tabindex: 0, "aria-selected": trial.id === selected ? "true" : "false", class: trial.verdict === "void" ? "is-void" : null, title: trial.void_reason,
    click: () => choose(trial.id), keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(trial.id); } },
  }, all.map((column) => h("td", { class: [column.words ? "text" : "", column.look ? column.look(trial) : ""].join(" ").trim() || null }, column.text(trial)))));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}
