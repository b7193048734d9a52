
// A load that moves: percentiles by slice of time against what was in flight, and the windows of an objective.

/** Which of its windows the figure of an objective is from. */
function windowsText(windows) {
  if (!windows) return null;
  const from = windows.count > 1 && windows.worst_from !== null ? `, from ${seconds(windows.worst_from)} on` : "";
  return `worst of ${count(windows.count)} window${windows.count === 1 ? "" : "s"}${from}${windows.missed ? `, ${count(windows.missed)} missed` : ""}`;
}

/** The percentiles of TTFT as lines over a trial's time, one step a slice. */
function slicePanel(data, trial, x, add) {
  const slices = (trial.slices || []).filter((slice) => slice.ttft);
  if (!slices.length) return;
  const began = trial.settled - trial.began;
  const limits = data.objectives.filter((o) => o.metric === "ttft" && o.unit === "seconds");
  const all = slices.flatMap((slice) => [slice.ttft.p50, slice.ttft.p95]).concat(limits.map((o) => o.threshold));
  add("TTFT by slice of time", 110, "seconds", "log", Math.min(...all) / 1.25, Math.max(...all) * 1.25, (g, y) => {
    for (const o of limits) g.append(s("line", { class: "slo", x1: LEFT, x2: RIGHT, y1: y(o.threshold), y2: y(o.threshold) }));
    for (const [name, kind] of [["p50", "first"], ["p95", "second"]]) {
      const points = slices.flatMap((slice) => [[x(began + slice.from), y(slice.ttft[name])], [x(began + slice.to), y(slice.ttft[name])]]);
      g.append(s("path", { class: `line ${kind}`, d: path(points) }));
    }
    return slices.map((slice) => ({
      x: x(began + (slice.from + slice.to) / 2), y: y(slice.ttft.p95),
      text: `${significant(slice.in_flight)} in flight: TTFT p50 ${seconds(slice.ttft.p50)}, p95 ${seconds(slice.ttft.p95)}, p99 ${seconds(slice.ttft.p99)}`,
    }));
  }, [["first", "p50"], ["second", "p95"], ...limits.map((o) => ["slo", `SLO ${o.text}`])]);
}

/** The slices of a trial as a table; nothing for a load that does not move. */
function sliceTable(trial) {
  const slices = trial.slices || [];
  if (!slices.length) return null;
  const of = (distribution, name) => (distribution ? seconds(distribution[name]) : "-");
  const columns = [
    ["from", (k) => seconds(k.from)], ["in flight", (k) => significant(k.in_flight)],
    ["requests/s", (k) => significant(k.requests_per_second)], ["good/s", (k) => significant(k.goodput)], ["failed", (k) => count(k.failed)],
    ["TTFT p50", (k) => of(k.ttft, "p50")], ["p95", (k) => of(k.ttft, "p95")], ["p99", (k) => of(k.ttft, "p99")],
    ["TPOT p50", (k) => of(k.tpot, "p50")], ["p95", (k) => of(k.tpot, "p95")],
    ["E2E p50", (k) => of(k.e2e, "p50")], ["p95", (k) => of(k.e2e, "p95")],
  ];
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map(([name]) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, slices.map((slice) => h("tr", {}, columns.map(([, text]) => h("td", {}, text(slice))))))));
}
