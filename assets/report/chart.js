
// Scales, axes and marks: what all charts have in common.

/** Round numbers within a range, about `wanted` of them. */
function roundTicks(low, high, wanted) {
  const raw = (high - low) / wanted;
  if (!(raw > 0)) return [low];
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * unit).find((size) => size >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12); k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}
function logTicks(low, high, wanted) {
  // A narrow range has no decades to speak of.
  if (high / low < 6) return roundTicks(low, high, wanted).filter((tick) => tick > 0);
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (const digit of digits) {
        const tick = Number((digit * 10 ** power).toPrecision(12));
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    if (ticks.length <= wanted + 2) return ticks;
  }
  return [low, high];
}

/** A scale from a range of values to a range of pixels. */
function scale(kind, low, high, from, to) {
  const f = kind === "log" ? Math.log : (v) => v;
  const a = f(low), b = f(high) === a ? a + 1 : f(high);
  const at = (value) => from + ((f(value) - a) / (b - a)) * (to - from);
  at.ticks = (wanted) => (kind === "log" ? logTicks : roundTicks)(low, high, wanted);
  at.back = (pixel) => {
    const v = a + ((pixel - from) / (to - from)) * (b - a);
    return kind === "log" ? Math.exp(v) : v;
  };
  at.low = low;
  at.high = high;
  return at;
}

let clips = 0;

/** An empty plot with its axes: `{svg, body, x, y, box}`. What is put into `body` is cut at its edges. */
function plot({ width = 600, height = 280, left = 58, x, y, top = 14, bottom = 38 }) {
  const box = { left, right: width - 14, top, bottom: height - bottom };
  const sx = scale(x.kind, x.low, x.high, box.left, box.right);
  const sy = scale(y.kind, y.low, y.high, box.bottom, box.top);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": y.name ? `${y.name} against ${x.name}` : x.name });
  axisY(svg, sy, box, y);
  axisX(svg, sx, box, x);
  const id = `clip${clips++}`;
  svg.append(s("clipPath", { id }, s("rect", { x: box.left, y: box.top - 1, width: box.right - box.left, height: box.bottom - box.top + 2 })));
  const body = s("g", { "clip-path": `url(#${id})` });
  svg.append(body);
  return { svg, body, x: sx, y: sy, box };
}
function axisY(svg, sy, box, { unit, wanted = 5 }) {
  for (const tick of sy.ticks(wanted)) {
    const at = sy(tick);
    svg.append(
      s("line", { class: "gridline", x1: box.left, x2: box.right, y1: at, y2: at }),
      s("text", { x: box.left - 7, y: at + 4, "text-anchor": "end" }, short(unit, tick)),
    );
  }
}
function axisX(svg, sx, box, { unit, name, wanted = 7 }) {
  for (const tick of sx.ticks(wanted)) {
    const at = sx(tick);
    svg.append(
      s("line", { class: "axis", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4 }),
      s("text", { x: at, y: box.bottom + 17, "text-anchor": "middle" }, short(unit, tick)),
    );
  }
  svg.append(
    s("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    s("text", { x: (box.left + box.right) / 2, y: box.bottom + 33, "text-anchor": "middle" }, name),
  );
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** The mark of a trial: its shape tells the verdict without its colour. */
function mark(verdict, x, y, more = "") {
  const shape = {
    met: () => s("circle", { cx: x, cy: y, r: 4.4 }),
    missed: () => s("path", { d: `M${x - 4.6} ${y + 4}L${x + 4.6} ${y + 4}L${x} ${y - 5}Z` }),
    undecided: () => s("rect", { x: x - 3.8, y: y - 3.8, width: 7.6, height: 7.6 }),
    void: () => s("circle", { cx: x, cy: y, r: 4.4 }),
  }[verdict]();
  shape.setAttribute("class", `mark ${verdict} ${more}`);
  return shape;
}

/** Tells the nearest of `points` (`{x, y, text, choose}`) under the pointer; a click chooses it. */
function hover(svg, points, reach = 26) {
  const ring = s("circle", { class: "ring", r: 7.5, visibility: "hidden" });
  svg.append(ring);
  const place = (event) => {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    return [((event.clientX - box.left) * view.width) / box.width, ((event.clientY - box.top) * view.height) / box.height];
  };
  const nearest = (event) => {
    const [px, py] = place(event);
    let best = null, least = reach;
    for (const point of points) {
      const distance = Math.hypot(point.x - px, point.y - py);
      if (distance < least) [best, least] = [point, distance];
    }
    return best;
  };
  svg.addEventListener("mousemove", (event) => {
    const point = nearest(event);
    ring.setAttribute("visibility", point ? "visible" : "hidden");
    svg.style.cursor = point && point.choose ? "pointer" : "";
    if (!point) return hideTip();
    ring.setAttribute("cx", point.x);
    ring.setAttribute("cy", point.y);
    showTip(event, point.text);
  });
  svg.addEventListener("mouseleave", () => { ring.setAttribute("visibility", "hidden"); hideTip(); });
  svg.addEventListener("click", (event) => {
    const point = nearest(event);
    if (point && point.choose) point.choose();
  });
}

/** A legend of `[sign, text]`, the sign an SVG element around 7, 7. */
const legend = (...entries) => h("div", { class: "legend" }, entries.filter(Boolean).map(([sign, text]) => h("span", {}, s("svg", { viewBox: "0 0 14 14" }, sign), text)));
const sampleLine = (kind) => s("line", { class: kind, x1: 0, x2: 14, y1: 7, y2: 7, "stroke-width": 2 });
const sampleBox = (kind) => s("rect", { class: kind, x: 0, y: 1, width: 14, height: 12 });

/** A chart with its heading, legend and caption. */
const chart = (heading, svg, key, caption) => h("figure", {}, h("h3", {}, heading), key, svg, caption ? h("figcaption", {}, caption) : null);
