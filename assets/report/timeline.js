
// One trial over time: what the client saw, and what the server said of itself.

const WIDTH = 1200, LEFT = 74, RIGHT = 1186, GAP = 22;

/** A trial's panels above one another, on one time axis. */
function timeline(data, trial) {
  const series = data.trials.find((entry) => entry.trial === trial.id);
  const length = trial.ended - trial.began;
  if (!series) return h("p", { class: "note" }, "No requests of this trial are on the disk.");
  const x = scale("linear", Math.min(series.from, 0), length, LEFT, RIGHT);
  const edges = (values) => values.map((_, k) => series.from + series.step * k);
  const panels = [];
  const add = (heading, height, unit, kind, low, high, draw, key) => panels.push({ heading, height, unit, kind, low, high, draw, key });

  const inFlight = Math.max(loadIsConcurrency(trial) ? loadOf(trial) : 0, ...series.in_flight);
  add("in flight", 84, "", "linear", 0, inFlight * 1.15 || 1, (g, y) => {
    if (loadIsConcurrency(trial)) g.append(s("line", { class: "slo", style: "stroke: var(--soft)", x1: LEFT, x2: RIGHT, y1: y(loadOf(trial)), y2: y(loadOf(trial)) }));
    steps(g, x, y, edges(series.in_flight), series.in_flight, series.step, length, "first");
  });
  const rate = Math.max(...series.sent, ...series.completed);
  add("requests/s", 84, "", "linear", 0, rate * 1.1 || 1, (g, y) => {
    steps(g, x, y, edges(series.sent), series.sent, series.step, length, "first");
    steps(g, x, y, edges(series.completed), series.completed, series.step, length, "second");
  }, [["first", "sent"], ["second", "completed"]]);
  add("output tokens/s", 70, "", "linear", 0, Math.max(...series.tokens) * 1.1 || 1, (g, y) =>
    steps(g, x, y, edges(series.tokens), series.tokens, series.step, length, "first"));
  scatterPanel(data, series, x, add);
  slicePanel(data, trial, x, add);
  telemetryPanels(data, trial, x, add);

  const total = panels.reduce((sum, panel) => sum + panel.height + GAP, 0) + 44;
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${total}`, role: "img", "aria-label": `time line of trial ${trial.id}` });
  const id = `clip${clips++}`;
  let top = GAP;
  const spots = [];
  const bottom = total - 44;
  svg.append(s("clipPath", { id }, s("rect", { x: LEFT, width: RIGHT - LEFT, y: 0, height: bottom + 2 })));
  const shade = s("g", { "clip-path": `url(#${id})` });
  svg.append(shade);
  shade.append(s("rect", { class: "warm", x: LEFT, width: Math.max(0, x(trial.kind === "warmup" ? length : Math.min(length, trial.settled - trial.began)) - LEFT), y: GAP - 6, height: bottom - GAP + 6 }));
  for (const [from, to] of series.stalls)
    shade.append(s("rect", { class: "stall", x: x(from), width: Math.max(1.5, x(to) - x(from)), y: GAP - 6, height: bottom - GAP + 6 }));
  for (const panel of panels) {
    const box = { left: LEFT, right: RIGHT, top, bottom: top + panel.height };
    const y = scale(panel.kind, panel.low, panel.high, box.bottom, box.top);
    axisY(svg, y, box, { unit: panel.unit, wanted: panel.height > 100 ? 5 : 2 });
    svg.append(s("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: box.bottom, y2: box.bottom }));
    const heading = s("text", { class: "strong", x: LEFT, y: top - 6 }, panel.heading);
    svg.append(heading);
    let at = LEFT + panel.heading.length * 6.6 + 16;
    for (const [kind, text] of panel.key || []) {
      const sign = kind === "slo" || kind === "first" || kind === "second" ? s("line", { class: kind, x1: at, x2: at + 14, y1: top - 10, y2: top - 10, "stroke-width": 2 }) : s("path", { class: `dots ${kind}`, d: `M${at + 7} ${top - 10}h0` });
      svg.append(sign, s("text", { x: at + 19, y: top - 6 }, text));
      at += 34 + text.length * 6.2;
    }
    const g = s("g", { "clip-path": `url(#${id})` });
    svg.append(g);
    const found = panel.draw(g, y);
    if (Array.isArray(found)) spots.push(...found);
    top += panel.height + GAP;
  }
  axisX(svg, x, { left: LEFT, right: RIGHT, bottom }, { unit: "seconds", name: "time since the trial began", wanted: 12 });
  crosshair(svg, data, trial, series, x, bottom, spots);
  return h("figure", { class: "wide" },
    legend([sampleBox("warm"), trial.kind === "warmup" ? "warm-up: not counted" : "before the level had settled"],
      series.stalls.length > 0 && [sampleBox("stall"), `stall: no token from any request while responses were under way (${series.stalls.length})`]),
    svg, h("figcaption", {}, dotsNote(series)));
}

const loadIsConcurrency = (trial) => "concurrency" in trial.load;

function dotsNote({ dots, step }) {
  const drawn = dots.at.length < dots.of
    ? `${count(dots.at.length)} of ${count(dots.of)} requests are drawn: of each group of neighbours the slowest and one other.`
    : `All ${count(dots.of)} requests that ended in this trial are drawn.`;
  return `${drawn} Rates and requests in flight in bins of ${seconds(step)}.`;
}

function steps(g, x, y, at, values, step, end, kind) {
  let d = "";
  values.forEach((value, k) => {
    const from = x(at[k]).toFixed(1), to = x(k + 1 < values.length ? at[k] + step : end).toFixed(1), v = y(value).toFixed(1);
    d += `${k ? "L" : "M"}${from} ${v}L${to} ${v}`;
  });
  g.append(s("path", { class: `line ${kind}`, d }));
}

function scatterPanel(data, series, x, add) {
  const { dots } = series;
  const times = dots.ttft.filter((v) => v !== null && v > 0);
  if (!times.length) return;
  const limits = data.objectives.filter((o) => o.metric === "ttft" && o.unit === "seconds");
  const low = Math.min(...times, ...limits.map((o) => o.threshold)) / 1.25;
  const high = Math.max(...times, ...limits.map((o) => o.threshold)) * 1.25;
  const looks = ["", "faint", "failed", "faint"];
  const words = ["measured", "not counted", "failed", "let go at the end"];
  const used = [0, 1, 2].filter((k) => dots.state.some((state) => (k === 1 ? state === 1 || state === 3 : state === k)));
  add("TTFT by time of sending", 190, "seconds", "log", low, high, (g, y) => {
    for (const o of limits) g.append(s("line", { class: "slo", x1: LEFT, x2: RIGHT, y1: y(o.threshold), y2: y(o.threshold) }));
    const paths = ["", "", "", ""], spots = [];
    dots.at.forEach((at, k) => {
      const state = dots.state[k], ttft = dots.ttft[k];
      // A request that failed before its first token is drawn at the top.
      if (ttft === null && state !== 2) return;
      const place = { x: x(at), y: ttft === null ? y(high) + 5 : y(Math.max(ttft, low)) };
      paths[state] += `M${place.x.toFixed(1)} ${place.y.toFixed(1)}h0`;
      spots.push({ ...place, text: `sent at ${seconds(at)}: TTFT ${ttft === null ? "none" : seconds(ttft)}, ${words[state]}` });
    });
    paths.forEach((d, state) => { if (d) g.append(s("path", { class: `dots ${looks[state]}`, d })); });
    return spots;
  }, [...used.map((k) => [looks[k], words[k]]), ...limits.map((o) => ["slo", `SLO ${o.text}`])]);
}

function telemetryPanels(data, trial, x, add) {
  for (const entry of data.telemetry) {
    const points = entry.at.map((at, k) => [at - trial.began, entry.values[k]]);
    const inside = points.filter(([at]) => at >= x.low && at <= x.high);
    if (!inside.length) continue;
    const high = Math.max(...inside.map((p) => p[1])), low = Math.min(0, ...inside.map((p) => p[1]));
    const heading = entry.heading ? `${entry.source}: ${entry.heading} (${entry.name})` : `${entry.source}: ${entry.name}`;
    add(heading, 54, "", "linear", low, high > low ? low + (high - low) * 1.15 : low + 1, (g, y) => {
      g.append(s("path", { class: "line second", d: path(points.map(([at, v]) => [x(at), y(v)])) }));
      return inside.map(([at, v]) => ({ x: x(at), y: y(v), text: `${heading}\n${significant(v)} at ${seconds(at)}` }));
    });
  }
}

/** A line under the pointer with the values of all panels there. */
function crosshair(svg, data, trial, series, x, bottom, spots) {
  const line = s("line", { class: "cross", y1: GAP - 6, y2: bottom, visibility: "hidden" });
  const ring = s("circle", { class: "ring", r: 6, visibility: "hidden" });
  svg.append(line, ring);
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const px = ((event.clientX - box.left) * WIDTH) / box.width, py = ((event.clientY - box.top) * WIDTH) / box.width;
    const at = x.back(px);
    const bin = Math.min(Math.floor((at - series.from) / series.step), series.in_flight.length - 1);
    if (bin < 0 || px < LEFT || px > RIGHT) {
      for (const node of [line, ring]) node.setAttribute("visibility", "hidden");
      return hideTip();
    }
    line.setAttribute("x1", px);
    line.setAttribute("x2", px);
    line.setAttribute("visibility", "visible");
    let near = null, least = 12;
    for (const spot of spots) {
      const distance = Math.hypot(spot.x - px, spot.y - py);
      if (distance < least) [near, least] = [spot, distance];
    }
    ring.setAttribute("visibility", near ? "visible" : "hidden");
    if (near) { ring.setAttribute("cx", near.x); ring.setAttribute("cy", near.y); }
    const stall = series.stalls.find(([from, to]) => at >= from && at <= to);
    showTip(event, [
      `${seconds(at)} since the trial began`,
      `in flight ${significant(series.in_flight[bin])}`,
      `sent ${significant(series.sent[bin])}/s, completed ${significant(series.completed[bin])}/s`,
      `output ${significant(series.tokens[bin])} tokens/s`,
      stall && `stall of ${seconds(stall[1] - stall[0])}`,
      near && near.text,
    ].filter(Boolean).join("\n"));
  });
  svg.addEventListener("mouseleave", () => { for (const node of [line, ring]) node.setAttribute("visibility", "hidden"); hideTip(); });
}

/** The figures of a trial in one line each. */
function trialFacts(data, trial) {
  const requests = trial.requests;
  const ends = ["completed", "failed", "censored", "cancelled"].filter((name) => requests[name]).map((name) => `${count(requests[name])} ${name}`);
  const percentiles = (name) => {
    const d = trial.metrics[name];
    return d && d.n ? `p50 ${seconds(d.p50)}, p90 ${seconds(d.p90)}, p95 ${seconds(d.p95)}, p99 ${seconds(d.p99)}, max ${seconds(d.max)} (${count(d.n)})` : null;
  };
  const rows = [
    ["verdict", trial.void_reason ? `void: ${trial.void_reason}` : trial.verdict],
    ...data.objectives.map((o, k) => [o.text, trial.objectives[k] ? `${figure(o.unit, trial.objectives[k].figure)}, ${trial.objectives[k].met === null ? "undecided" : trial.objectives[k].met ? "kept" : "not kept"}${trial.objectives[k].windows ? ` (${windowsText(trial.objectives[k].windows)})` : ""}` : "-"]),
    ["requests", `${count(requests.issued)} issued: ${ends.join(", ")}; ${count(trial.measured)} counted`],
    ["throughput", `${significant(trial.requests_per_second)} requests/s, good ${significant(trial.goodput)} (${percent(trial.attainment)}); ${significant(trial.output_tokens_per_second)} output tokens/s`],
    ["TTFT", percentiles("ttft")], ...turnLines(trial), ["ITL", percentiles("itl")], ["TPOT", percentiles("tpot")], ["E2E", percentiles("e2e")],
    ["cold start", trial.cold_start && `first request ${trial.cold_start.metric.toUpperCase()} ${seconds(trial.cold_start.first)} against ${seconds(trial.cold_start.steady)} steady, reached after ${count(trial.cold_start.requests)} requests (${seconds(trial.cold_start.seconds)})`],
    ["time", `${seconds(trial.seconds)}, settled after ${seconds(trial.settled - trial.began)}, counted for ${seconds(trial.window_seconds)}`],
  ];
  return h("dl", {}, rows.filter(([, text]) => text).map(([label, text]) => [h("dt", {}, label), h("dd", {}, text)]));
}
