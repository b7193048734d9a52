
// How the latencies are spread, load by load.

/** Curves that can be told apart in one chart. */
const CURVES = 8;

/** Colours from low to high load that can be told apart on light and dark paper. */
function ramp(share) {
  const stops = [[48, 112, 214], [112, 92, 214], [184, 76, 176], [222, 84, 110], [226, 118, 52]];
  const at = share * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2), part = at - k;
  return `rgb(${stops[k].map((v, i) => Math.round(v + (stops[k + 1][i] - v) * part)).join(",")})`;
}

/** The ends, the loads nearest to the answer, then what lies widest apart. */
function pickLoads(loads, answer) {
  if (loads.length <= CURVES) return loads;
  const wanted = new Set([0, loads.length - 1]);
  const near = loads.map((entry, i) => [Math.abs(Math.log(entry.load / (answer || entry.load))), i]).sort((a, b) => a[0] - b[0]);
  if (answer) near.slice(0, 3).forEach(([, i]) => wanted.add(i));
  while (wanted.size < CURVES) {
    let best = null, widest = -1;
    for (let i = 0; i < loads.length; i++) {
      if (wanted.has(i)) continue;
      const gap = Math.min(...[...wanted].map((j) => Math.abs(Math.log(loads[i].load / loads[j].load))));
      if (gap > widest) [best, widest] = [i, gap];
    }
    wanted.add(best);
  }
  return [...wanted].sort((a, b) => a - b).map((i) => loads[i]);
}

function distributionChart(data, metric, heading, choose) {
  const answer = data.document.answer.load ? Object.values(data.document.answer.load)[0] : null;
  const all = data.loads.filter((entry) => entry[metric]);
  if (!all.length) return null;
  const loads = pickLoads(all, answer);
  const lowest = (entry) => entry[metric].at.find((v) => v > 0) || 1e-6;
  const last = data.probabilities.length - 1;
  const limits = data.objectives.filter((o) => o.metric === metric && o.unit === "seconds");
  const low = Math.max(1e-5, Math.min(...loads.map((entry) => quantileAt(data, entry[metric], 0.05) || lowest(entry))));
  const high = Math.max(low * 3, ...loads.map((entry) => entry[metric].at[last]), ...limits.map((o) => o.threshold));
  const { svg, body, x, y, box } = plot({
    x: { kind: "log", low: low / 1.6, high: high * 1.05, unit: "seconds", name: heading, wanted: 6 },
    y: { kind: "linear", low: 0, high: 1, unit: "share", name: "share of samples" },
  });
  for (const o of limits) {
    const at = x(o.threshold);
    body.append(s("line", { class: "slo", x1: at, x2: at, y1: box.top, y2: box.bottom }));
    svg.append(s("text", { class: "slo-text", x: at, y: box.top - 3, "text-anchor": "middle" }, `SLO ${o.limit}`));
    if (o.quantile !== null) body.append(s("line", { class: "slo", x1: box.left, x2: box.right, y1: y(o.quantile), y2: y(o.quantile), opacity: .5 }));
  }
  const spots = [];
  const buttons = loads.map((entry, rank) => {
    const colour = ramp(rank / Math.max(1, loads.length - 1));
    const curve = entry[metric];
    const line = s("path", { class: "line", stroke: colour, d: path(curve.at.map((v, i) => [x(Math.max(v, low * 0.5)), y(data.probabilities[i])])) });
    line.style.strokeWidth = entry.load === answer ? 2.6 : 1.6;
    body.append(line);
    const open = () => choose(entry.trials[entry.trials.length - 1]);
    curve.at.forEach((v, i) => spots.push({ x: x(Math.max(v, low * 0.5)), y: y(data.probabilities[i]), choose: open, text:
      `${level(entry.load)} ${data.load_name}\n${percent(data.probabilities[i])} of ${count(curve.n)} samples at most ${seconds(v)}\ntrial${entry.trials.length > 1 ? "s" : ""} ${entry.trials.join(", ")}` }));
    const strong = (on) => () => { line.style.strokeWidth = on ? 4 : entry.load === answer ? 2.6 : 1.6; };
    return h("button", { click: open, mouseenter: strong(true), mouseleave: strong(false), title: "open its trial" },
      s("svg", { viewBox: "0 0 14 14" }, s("line", { x1: 0, x2: 14, y1: 7, y2: 7, stroke: colour, "stroke-width": 3 })), level(entry.load));
  });
  hover(svg, spots);
  const drawn = loads.length < all.length ? `${loads.length} of ${all.length} loads are drawn. ` : "";
  return chart(`${heading} by load: share of samples at or below`, svg, h("div", { class: "legend" }, data.load_name, buttons),
    `${drawn}Measured requests of valid trials, drawn to 0.25 %.`);
}

/** The quantile of a curve nearest to a probability. */
function quantileAt(data, curve, p) {
  const index = data.probabilities.findIndex((probability) => probability >= p);
  return curve.at[index];
}
