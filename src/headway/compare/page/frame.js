"use strict";
// Charts drawn as SVG at the width of their place, redrawn when width or theme changes. No library.
const DATA = JSON.parse(document.getElementById("data").textContent);
const DASHES = ["", "", "7 3", "2 3", "9 3 2 3", "12 4", "1 4", "5 2 1 2 1 2"];
const NS = "http://www.w3.org/2000/svg";
const hidden = new Set();
const charts = [];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const color = (index) => css(`--s${index % 8}`);
const dash = (index) => DASHES[index % 8];

function svg(tag, attributes, parent, text) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value !== "" && value !== null) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

function html(tag, attributes, parent, text) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

// ── numbers as text ────────────────────────────────────────────────────────────────────────────────────
function duration(seconds) {
  const s = Math.abs(seconds);
  const short = (v) => String(+v.toPrecision(v >= 100 ? 3 : 2));
  if (s < 1 && s > 0) return `${short(s * 1000)} ms`;
  if (s < 120) return `${short(s)} s`;
  if (s < 7200) return `${short(s / 60)} min`;
  if (s < 172800) return `${short(s / 3600)} h`;
  return `${short(s / 86400)} d`;
}
// One unit for all ticks of an axis over time.
function inOneUnit(ticks) {
  const most = Math.max(0, ...ticks.map(Math.abs));
  const [unit, size] = most < 300 ? ["s", 1] : most < 10800 ? ["min", 60] : most < 345600 ? ["h", 3600] : ["d", 86400];
  return (seconds) => `${(+(seconds / size).toPrecision(4)).toLocaleString("en")} ${unit}`;
}
// As much of a text as has room.
const fit = (text, room) => (text.length * 7 <= room ? text : `${text.slice(0, Math.max(3, Math.floor(room / 7) - 1))}…`);
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
const times = (x) => `${+x.toPrecision(2)}×`;
const count = (x) => (x < 10 ? +x.toFixed(1) : Math.round(x)).toLocaleString("en");

// ── scales ───────────────────────────────────────────────────────────────────────────────────────────────
function scale(domain, range, log) {
  const f = log ? Math.log : (v) => v;
  const [a, b] = domain.map(f);
  const g = (v) => range[0] + ((f(v) - a) / (b - a || 1)) * (range[1] - range[0]);
  g.back = (p) => {
    const v = a + ((p - range[0]) / (range[1] - range[0] || 1)) * (b - a);
    return log ? Math.exp(v) : v;
  };
  return g;
}

function evenTicks(low, high, wanted) {
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough) || power;
  const ticks = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) ticks.push(v);
  return ticks;
}

const CLOCK = [1, 5, 15, 60, 300, 900, 3600, 10800, 43200, 86400, 259200, 604800, 2592000, 7776000, 31536000];
function timeTicks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const step = [...CLOCK, 2 * 604800, 2 * 2592000, 7200, 21600, 172800, 432000, 600, 1800, 10, 30, 120]
    .sort((a, b) => a - b).find((s) => s >= rough) || rough;
  if (high - low < 5) return evenTicks(low, high, wanted);
  const ticks = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) ticks.push(v);
  return ticks;
}

// Ticks of a logarithmic axis over time, and their texts: one unit for all, the one in the middle of the axis.
function logTimeAxis(low, high, wanted) {
  const middle = Math.sqrt(low * high);
  const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].find(([, size]) => middle >= size) || ["s", 1];
  const all = logTicks(low / size, high / size).map((v) => v * size);
  const stride = Math.max(1, Math.ceil(all.length / wanted));
  const ticks = all.filter((_, i) => i % stride === 0);
  return [ticks, (seconds) => `${(+(seconds / size).toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 })} ${unit}`];
}

function logTicks(low, high) {
  const found = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++)
    for (const m of high / low > 500 ? [1] : [1, 2, 5]) if (m * 10 ** p >= low * 0.999 && m * 10 ** p <= high * 1.001) found.push(m * 10 ** p);
  return found;
}

// ── the frame that every chart shares ────────────────────────────────────────────────────────────────────
function frame(place, width, height, label) {
  place.replaceChildren();
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label,
    "font-family": "system-ui, sans-serif", "font-size": 12,
  }, place);
  return root;
}

function axisX(root, x, ticks, form, top, bottom, title, right) {
  for (const tick of ticks) {
    svg("line", { x1: x(tick), x2: x(tick), y1: top, y2: bottom, stroke: css("--grid") }, root);
    svg("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle", fill: css("--soft") }, root, form(tick));
  }
  if (title) svg("text", { x: right, y: bottom + 32, "text-anchor": "end", fill: css("--soft") }, root, fit(title, right));
}

function axisY(root, y, ticks, form, left, right) {
  for (const tick of ticks) {
    svg("line", { x1: left, x2: right, y1: y(tick), y2: y(tick), stroke: css("--grid") }, root);
    svg("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end", fill: css("--soft") }, root, form(tick));
  }
}

function hover(place, root, width, show) {
  const tip = html("div", { class: "tip", hidden: "" }, place);
  const line = svg("g", {}, root);
  const at = (px, py) => {
    line.replaceChildren();
    const said = show(px, line);
    if (!said) { tip.hidden = true; return; }
    tip.hidden = false;
    tip.replaceChildren(...said);
    const ratio = place.clientWidth / width, half = tip.offsetWidth + 16;
    tip.style.left = `${Math.max(0, px * ratio + (px * ratio + half > place.clientWidth ? -half : 12))}px`;
    const above = py * ratio - tip.offsetHeight - 14;
    tip.style.top = `${Math.round(above >= 0 ? above : py * ratio + 18)}px`;
  };
  let position = width / 2;
  root.addEventListener("pointermove", (event) => {
    const box = root.getBoundingClientRect();
    position = ((event.clientX - box.left) / box.width) * width;
    at(position, ((event.clientY - box.top) / box.width) * width);
  });
  const away = () => { line.replaceChildren(); tip.hidden = true; };
  root.addEventListener("pointerleave", away);
  place.onblur = away;
  place.onkeydown = (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    position = Math.min(width, Math.max(0, position + (event.key === "ArrowLeft" ? -1 : 1) * width / 60));
    at(position, 0);
  };
}

function said(title, lines) {
  const nodes = [html("b", {}, null, title)];
  for (const [name, value, index] of lines) {
    const line = html("div");
    if (index !== undefined) line.appendChild(sample(index));
    line.appendChild(document.createTextNode(`${name}  ${value}`));
    nodes.push(line);
  }
  return nodes;
}

function sample(index) {
  const mark = svg("svg", { class: "mark", viewBox: "0 0 26 10", "aria-hidden": "true" });
  svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: `var(--s${index % 8})`, "stroke-width": 3, "stroke-dasharray": dash(index) }, mark);
  return mark;
}

