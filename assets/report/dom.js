"use strict";

// A fault of the page is told on the page: nobody looks at the console of a report.
window.onerror = (message, source, line) => {
  const place = document.getElementById("errors");
  place.hidden = false;
  place.append(`This page has a fault: ${message} (line ${line})\n`);
};
window.onunhandledrejection = (event) => window.onerror(event.reason, "", 0);

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (functions are listeners) and children; texts become text nodes. */
function make(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

// Figures in words, as the terminal writes them.

function significant(value) {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size >= 1000) return count(value.toFixed(0));
  return value.toFixed(size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : 2);
}
function seconds(value) {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size < 1e-3 && size !== 0) return `${significant(value * 1e6)} µs`;
  if (size < 1) return `${significant(value * 1e3)} ms`;
  if (size < 120) return `${significant(value)} s`;
  const two = (n) => String(n).padStart(2, "0");
  if (size < 7200) return `${Math.floor(Math.round(value) / 60)} min ${two(Math.round(value) % 60)} s`;
  const minutes = Math.round(value / 60);
  return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
}
function count(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}
const percent = (share) => `${significant(share * 100)} %`;
const level = (value) => (Number.isInteger(value) ? count(value) : significant(value));

/** A figure in its unit. */
function figure(unit, value) {
  if (value === null || value === undefined) return "-";
  if (unit === "seconds") return seconds(value);
  if (unit === "share") return percent(value);
  return `${significant(value)} ${unit}`;
}

/** A tick's label: no more digits than tell it from its neighbours. */
function short(unit, value) {
  const plain = (number, name) => `${Number(number.toPrecision(6))}${name}`;
  if (unit === "share") return plain(value * 100, " %");
  const size = Math.abs(value);
  if (unit !== "seconds" || value === 0) return size >= 10000 ? plain(value / 1000, "k") : plain(value, "");
  if (size < 1e-3) return plain(value * 1e6, " µs");
  if (size < 1) return plain(value * 1e3, " ms");
  return plain(value, " s");
}

/** A load as a number: it is written as `{"concurrency": 8}`. */
const loadOf = (trial) => Object.values(trial.load)[0];

const tip = document.getElementById("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const width = tip.offsetWidth, height = tip.offsetHeight;
  const right = event.pageX + 14 + width > document.documentElement.scrollLeft + document.documentElement.clientWidth;
  const low = event.clientY + 18 + height > window.innerHeight;
  tip.style.left = `${Math.max(4, right ? event.pageX - width - 12 : event.pageX + 14)}px`;
  tip.style.top = `${low ? event.pageY - height - 12 : event.pageY + 16}px`;
}
const hideTip = () => { tip.hidden = true; };
