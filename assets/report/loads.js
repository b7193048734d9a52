
// Figures against load, and the course of the search.

/** How far above its limit a figure is drawn, as a multiple: beyond, the server is overloaded. */
const BEYOND = 2.2;

const drawnTrials = (data) => data.document.trials.filter((trial) => trial.kind !== "warmup" && loadOf(trial) > 0);

/** How far beyond the interval of the answer the charts reach that show what is around it. */
const AROUND = 1.4;

function loadRange(data, near) {
  const loads = drawnTrials(data).map(loadOf);
  let low = Math.min(...loads), high = Math.max(...loads);
  if (near) [low, high] = [Math.max(low, near.low / AROUND), Math.min(high, near.high * AROUND)];
  const margin = Math.max((high / low) ** 0.04, 1.05);
  return { kind: "log", low: low / margin, high: high * margin, name: data.load_name, unit: "" };
}

const inRange = (trials, near) => (near ? trials.filter((trial) => loadOf(trial) >= near.low / AROUND && loadOf(trial) <= near.high * AROUND) : trials);

/** Where the charts may be drawn closer: an interval well within the loads that were tried. */
function around(data) {
  const { interval } = data.document.answer;
  const trials = drawnTrials(data);
  if (!interval || !(interval.high > 0) || inRange(trials, interval).length < 2) return null;
  return inRange(trials, interval).length < trials.length ? interval : null;
}

/** The interval of the answer as a band, and the answer as a line. */
function drawAnswer(data, { svg, body, x, box }) {
  const { load, interval } = data.document.answer;
  if (interval) {
    const from = Math.max(x(Math.max(interval.low, x.low)), box.left);
    const to = interval.high === null ? box.right : Math.min(x(interval.high), box.right);
    if (to > from) body.append(s("rect", { class: "band", x: from, y: box.top, width: to - from, height: box.bottom - box.top }));
  }
  if (!load) return;
  const at = x(Object.values(load)[0]);
  if (at < box.left || at > box.right) return;
  body.append(s("line", { class: "crossing", x1: at, x2: at, y1: box.top, y2: box.bottom }));
  svg.append(s("text", { class: "crossing-text", x: at, y: box.top - 3, "text-anchor": "middle" }, level(Object.values(load)[0])));
}

function trialText(data, trial, lines) {
  const name = `trial ${trial.id}, ${trial.kind}, ${level(loadOf(trial))} ${data.load_name}`;
  return [name, ...lines, `${trial.verdict}, ${count(trial.measured)} requests counted in ${seconds(trial.window_seconds)}`, trial.void_reason].filter(Boolean).join("\n");
}

function objectiveChart(data, index, choose, near) {
  const objective = data.objectives[index];
  const points = inRange(drawnTrials(data), near).map((trial) => ({ trial, reading: trial.objectives[index] })).filter((p) => p.reading && p.reading.figure !== null);
  if (!points.length) return null;
  const { threshold, unit } = objective;
  const valid = points.filter((p) => p.trial.verdict !== "void").map((p) => p.reading.figure);
  const largest = Math.max(threshold, ...(valid.length ? valid : points.map((p) => p.reading.figure)));
  const top = (objective.wants_large ? largest : Math.min(largest, threshold * BEYOND)) * 1.08 || 1;
  const chartPlot = plot({ x: loadRange(data, near), y: { kind: "linear", low: 0, high: top, unit, name: objective.name } });
  const { svg, body, x, y, box } = chartPlot;
  drawAnswer(data, chartPlot);
  const limit = y(threshold);
  body.append(s("line", { class: "slo", x1: box.left, x2: box.right, y1: limit, y2: limit }));
  svg.append(s("text", { class: "slo-text", x: box.left + 6, y: limit - 5 }, `SLO ${objective.limit}`));
  body.append(s("path", { class: "curve", d: path(objective.curve.map(([load, value]) => [x(load), y(value)])) }));
  const spots = [];
  // Measured trials above navigation, so that what counts is seen.
  points.sort((a, b) => (b.trial.kind === "navigate") - (a.trial.kind === "navigate"));
  for (const { trial, reading } of points) {
    const beyond = reading.figure > top;
    const place = { x: x(loadOf(trial)), y: beyond ? box.top + 6 : y(reading.figure) };
    const interval = objective.intervals[data.document.trials.indexOf(trial)];
    if (interval && !beyond && trial.kind !== "navigate" && trial.verdict !== "void")
      body.append(s("line", { class: `whisker ${trial.verdict}`, x1: place.x, x2: place.x, y1: y(interval[0]), y2: y(Math.min(interval[1], top)) }));
    svg.append(beyond ? s("path", { class: `mark ${trial.verdict}`, d: `M${place.x - 4} ${box.top + 9}L${place.x} ${box.top + 2}L${place.x + 4} ${box.top + 9}` , fill: "none", style: "fill:none" })
      : mark(trial.verdict, place.x, place.y, trial.kind));
    const sure = interval ? ` (95 % within the trial: ${figure(unit, interval[0])}–${figure(unit, interval[1])})` : "";
    const over = reading.of ? `${count(reading.over)} of ${count(reading.of)} samples beyond the limit` : windowsText(reading.windows);
    spots.push({ ...place, text: trialText(data, trial, [`${objective.name} ${figure(unit, reading.figure)}${sure}`, over]), choose: () => choose(trial.id) });
  }
  hover(svg, spots);
  const has = (verdict) => points.some((p) => p.trial.verdict === verdict);
  const key = legend(
    has("met") && [mark("met", 7, 7), "met"], has("missed") && [mark("missed", 7, 7), "missed"],
    has("undecided") && [mark("undecided", 7, 7), "undecided"], has("void") && [mark("void", 7, 7), "void"],
    points.some((p) => p.trial.kind === "navigate") && [mark("met", 7, 7, "navigate"), "pale: navigation, only steers"],
    points.some((p) => objective.intervals[data.document.trials.indexOf(p.trial)]) && [s("line", { class: "whisker met", x1: 7, x2: 7, y1: 0, y2: 14 }), "95 % within the trial"],
    data.document.answer.interval && [sampleBox("band"), "interval of the answer"]);
  const above = points.filter((p) => p.reading.figure > top).length;
  return chart(`${objective.name} against load${objective.binding && data.objectives.length > 1 ? " (binding)" : ""}`, svg, key,
    above ? `${above} trial${above > 1 ? "s" : ""} above the top, marked at the edge.` : null);
}

function throughputChart(data, choose, near) {
  const trials = inRange(drawnTrials(data), near);
  if (!trials.length) return null;
  const valid = trials.filter((trial) => trial.verdict !== "void");
  const top = Math.max(...(valid.length ? valid : trials).map((trial) => trial.requests_per_second)) * 1.1 || 1;
  const chartPlot = plot({ x: loadRange(data, near), y: { kind: "linear", low: 0, high: top, unit: "requests/s", name: "requests/s" } });
  const { svg, body, x, y } = chartPlot;
  drawAnswer(data, chartPlot);
  const spots = [];
  for (const [curve, kind, value] of [[data.throughput, "first", "requests_per_second"], [data.goodput, "second", "goodput"]]) {
    body.append(s("path", { class: `line ${kind}`, d: path(curve.map(([load, rate]) => [x(load), y(rate)])) }));
    for (const trial of trials) {
      const place = { x: x(loadOf(trial)), y: y(Math.min(trial[value], top)) };
      const look = trial.verdict === "void" ? "void" : `dot-${kind} ${trial.kind}`;
      body.append(s("circle", { class: `mark ${look}`, cx: place.x, cy: place.y, r: 3.6 }));
      spots.push({ ...place, choose: () => choose(trial.id), text: trialText(data, trial, [
        `${significant(trial.requests_per_second)} requests/s, of them good ${significant(trial.goodput)} (${percent(trial.attainment)})`,
        `${significant(trial.output_tokens_per_second)} output tokens/s, ${significant(trial.input_tokens_per_second)} input tokens/s`]) });
    }
  }
  hover(svg, spots);
  return chart("Throughput and goodput against load, requests/s", svg,
    legend([sampleLine("first"), "completed"], [sampleLine("second"), "good: within every limit of the SLO"], trials.some((t) => t.kind === "navigate") && [s("circle", { class: "mark dot-second navigate", cx: 7, cy: 7, r: 3.6 }), "pale: navigation"]));
}

/** Each trial as a bar on the run's clock, as high as its load. */
function courseChart(data, choose, selected) {
  const trials = data.document.trials.filter((trial) => loadOf(trial) > 0);
  if (!trials.length) return null;
  const end = Math.max(data.document.cost.seconds, ...trials.map((trial) => trial.ended));
  const loads = trials.map(loadOf);
  const { svg, body, x, y, box } = plot({
    width: 1200, height: 190, x: { kind: "linear", low: 0, high: end, unit: "seconds", name: "time since the run began", wanted: 12 },
    y: { kind: "log", low: Math.min(...loads) / 1.3, high: Math.max(...loads) * 1.15, unit: "", wanted: 4 },
  });
  const { interval } = data.document.answer;
  if (interval) {
    const high = y(interval.high === null ? y.high : interval.high);
    body.append(s("rect", { class: "band", x: box.left, width: box.right - box.left, y: high, height: Math.max(1, y(interval.low) - high) }));
  }
  const spots = [];
  for (const trial of trials) {
    const from = x(trial.began), to = x(trial.ended), at = y(loadOf(trial));
    const bar = s("rect", { class: `mark ${trial.verdict} ${trial.kind}${trial.id === selected ? " chosen" : ""}`, x: from, width: Math.max(2, to - from - 1), y: at, height: Math.max(1, box.bottom - at) });
    bar.style.fillOpacity = trial.kind === "navigate" || trial.kind === "warmup" ? 0.25 : 0.6;
    body.append(bar);
    if (to - from > 22) svg.append(s("text", { x: (from + to) / 2, y: at - 4, "text-anchor": "middle" }, level(loadOf(trial))));
    const text = trialText(data, trial, [`${seconds(trial.began)} to ${seconds(trial.ended)}`]);
    for (let px = from; px <= to + 1; px += 12) for (let py = at; py <= box.bottom; py += 14) spots.push({ x: Math.min(px, to), y: py, text, choose: () => choose(trial.id) });
  }
  hover(svg, spots, 15);
  const course = chart("Course of the search: each trial as high as its load", svg, h("p", { class: "hint" }, "A click on a trial, here or in any chart, opens it below."));
  course.classList.add("wide");
  return course;
}
