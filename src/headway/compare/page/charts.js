// The charts themselves. They follow frame.js in the page.
// ── share of jobs done within a time ───────────────────────────────────────────────────────────────────
function shareAt(xs, x) {
  let low = 0, high = xs.length;
  while (low < high) { const mid = (low + high) >> 1; if (xs[mid] <= x) low = mid + 1; else high = mid; }
  return low / xs.length;
}

function drawCdf(place, width) {
  const kind = place.dataset.kind, all = DATA.curves[kind];
  const form = { completion: duration, wait: duration, slowdown: times, ratio: times }[kind];
  const shown = DATA.policies.filter((p) => (all[p.name] || []).length && !hidden.has(p.name));
  const height = width < 520 ? 260 : 340, left = 46, right = width - 14, top = 12, bottom = height - 42;
  const root = frame(place, width, height, place.dataset.label);
  const values = DATA.policies.flatMap((p) => all[p.name] || []);
  if (!values.length) { svg("text", { x: left, y: 40, fill: css("--soft") }, root, "No job has this figure."); return; }
  let low = Math.max(Math.min(...values), kind === "slowdown" ? 1 : kind === "ratio" ? 1e-3 : 1), high = Math.max(...values, low * 1.5);
  if (kind === "ratio") { low = Math.min(low, 0.5); high = Math.min(1000, Math.max(2, high)); }
  const x = scale([low, high], [left, right], true), y = scale([0, 1], [bottom, top]);
  const [ticks, mark] = form === duration ? logTimeAxis(low, high, width < 520 ? 4 : 9) : [logTicks(low, high), form];
  if (kind === "ratio") {
    svg("rect", { x: x(1), y: top, width: right - x(1), height: bottom - top, fill: css("--bad"), opacity: 0.07 }, root);
    svg("rect", { x: left, y: top, width: x(1) - left, height: bottom - top, fill: css("--good"), opacity: 0.07 }, root);
  }
  axisY(root, y, [0, 0.25, 0.5, 0.75, 1], percent, left, right);
  axisX(root, x, ticks, mark, top, bottom, place.dataset.x, right);
  if (kind === "ratio") {
    svg("line", { x1: x(1), x2: x(1), y1: top, y2: bottom, stroke: css("--soft"), "stroke-width": 1.5 }, root);
    svg("text", { x: x(1) - 8, y: bottom - 8, "text-anchor": "end", fill: css("--good") }, root, "← sooner");
    svg("text", { x: x(1) + 8, y: bottom - 8, fill: css("--bad") }, root, "later →");
  }
  for (const policy of shown) {
    const xs = all[policy.name], n = xs.length;
    let path = `M${x(Math.max(low, xs[0])).toFixed(1)} ${y(0).toFixed(1)}`;
    xs.forEach((v, i) => { path += `L${x(Math.min(high, Math.max(low, v))).toFixed(1)} ${y((i + 1) / n).toFixed(1)}`; });
    svg("path", { d: path, fill: "none", stroke: color(policy.index), "stroke-width": 2.2, "stroke-dasharray": dash(policy.index), "stroke-linejoin": "round" }, root);
  }
  hover(place, root, width, (px, line) => {
    if (px < left || px > right) return null;
    const value = x.back(px);
    svg("line", { x1: px, x2: px, y1: top, y2: bottom, stroke: css("--soft") }, line);
    for (const p of shown) svg("circle", { cx: px, cy: y(shareAt(all[p.name], value)), r: 3.5, fill: color(p.index) }, line);
    return said(`within ${form(value)}`, shown.map((p) => [p.name, percent(shareAt(all[p.name], value)), p.index]));
  });
}

// ── strips over time, one per policy ─────────────────────────────────────────────────────────────────────
function drawStrips(place, width) {
  const field = place.dataset.field, share = field !== "waiting", full = field === "held";
  const shown = DATA.policies.filter((p) => DATA.series[p.name]);
  const narrow = width < 520, left = 46, right = width - 14, rowHeight = narrow ? 62 : 74, gap = 24;
  const height = shown.length * (rowHeight + gap) + 34;
  const begin = Math.min(...shown.map((p) => DATA.series[p.name].begin)), end = Math.max(...shown.map((p) => DATA.series[p.name].end));
  const root = frame(place, width, height, place.dataset.label);
  const most = full ? 1 : Math.max(share ? 0.04 : 1, ...shown.flatMap((p) => DATA.series[p.name][field]));
  const x = scale([begin, end], [left, right]);
  const hatch = hatching(root, place.id);
  shown.forEach((policy, row) => {
    const s = DATA.series[policy.name], top = row * (rowHeight + gap) + 18, bottom = top + rowHeight;
    const y = scale([0, most], [bottom, top]);
    svg("rect", { x: left, y: top, width: right - left, height: rowHeight, fill: css("--empty") }, root);
    axisY(root, y, full ? [0, 0.5, 1] : evenTicks(0, most, 2), share ? percent : count, left, right);
    const area = (values) => {
      const wide = (x(s.end) - x(s.begin)) / values.length;
      let path = `M${x(s.begin).toFixed(1)} ${bottom}`;
      values.forEach((v, i) => { path += `V${y(Math.min(v, most)).toFixed(1)}H${(x(s.begin) + (i + 1) * wide).toFixed(1)}`; });
      return `${path}V${bottom}Z`;
    };
    svg("path", { d: area(s[field]), fill: color(policy.index), opacity: 0.8 }, root);
    if (full && s.stalled.some((v) => v > 0.002)) svg("path", { d: area(s.stalled), fill: hatch }, root);
    const mean = s[field].reduce((a, b) => a + b, 0) / s[field].length;
    svg("text", { x: left, y: top - 6, fill: css("--ink"), "font-weight": 600 }, root, fit(policy.name, right - left - 80));
    svg("text", { x: right, y: top - 6, "text-anchor": "end", fill: css("--soft") }, root, `mean ${share ? percent(mean) : count(mean)}`);
  });
  const bottom = shown.length * (rowHeight + gap) - 6;
  const ticks = timeTicks(begin, end, narrow ? 4 : 8), say = inOneUnit(ticks);
  for (const tick of ticks)
    svg("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle", fill: css("--soft") }, root, say(tick));
  hover(place, root, width, (px, line) => {
    if (px < left || px > right) return null;
    const at = x.back(px);
    svg("line", { x1: px, x2: px, y1: 18, y2: bottom, stroke: css("--ink") }, line);
    return said(`at ${duration(at)}`, shown.map((p) => {
      const s = DATA.series[p.name], i = Math.floor(((at - s.begin) / (s.end - s.begin)) * s[field].length);
      const value = i >= 0 && i < s[field].length ? s[field][i] : 0;
      const idle = full && s.stalled[i] > 0.002 ? ` (${percent(s.stalled[i])} not running)` : "";
      return [p.name, (share ? percent(value) : `${count(value)} waiting`) + idle, p.index];
    }));
  });
}

function hatching(root, id) {
  const name = `hatch-${id}`, defs = svg("defs", {}, root);
  const pattern = svg("pattern", { id: name, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, defs);
  svg("rect", { width: 6, height: 6, fill: css("--paper"), opacity: 0.55 }, pattern);
  svg("line", { x1: 0, x2: 0, y1: 0, y2: 6, stroke: css("--bad"), "stroke-width": 3 }, pattern);
  return `url(#${name})`;
}

// ── nodes over time ──────────────────────────────────────────────────────────────────────────────────────
let ganttOf = null;
function drawGantt(place, width) {
  const name = ganttOf || DATA.policies.find((p) => DATA.gantt[p.name]).name, g = DATA.gantt[name];
  const narrow = width < 520, longest = Math.max(...g.rows.map((r) => r.length));
  const left = Math.min(narrow ? 84 : 170, 14 + longest * 6.4), right = width - 14;
  const unit = g.bars ? 1 : 0, rows = g.rows.length;
  const rowHeight = g.bars ? Math.max(12, Math.min(40, Math.max(...g.slots) * 8, 900 / rows)) : Math.max(7, Math.min(16, 560 / rows));
  const gap = g.bars ? 4 : 1, top = 6, bottom = top + rows * (rowHeight + gap), height = bottom + 40;
  const root = frame(place, width, height, `${place.dataset.label} under ${name}`);
  const x = scale([g.begin, g.end], [left, right]), step = Math.ceil(13 / (rowHeight + gap));
  g.rows.forEach((row, i) => {
    const y = top + i * (rowHeight + gap);
    svg("rect", { x: left, y, width: right - left, height: rowHeight, fill: css("--empty") }, root);
    if (i % step === 0) svg("text", { x: left - 6, y: y + Math.min(rowHeight, 14) / 2 + 5, "text-anchor": "end", fill: css("--soft"), "font-size": 11 }, root,
      row.length * 6.4 > left ? `${row.slice(0, Math.floor(left / 6.4) - 2)}…` : row);
  });
  const ticks = timeTicks(g.begin, g.end, narrow ? 4 : 8);
  axisX(root, x, ticks, inOneUnit(ticks), bottom, bottom, "", right);
  if (unit) ganttBars(root, g, x, top, rowHeight, gap, place.id); else ganttShares(root, g, x, top, rowHeight, gap);
  hover(place, root, width, ganttTip(g, x, top, rowHeight, gap, left, right, root));
}

function ganttBars(root, g, x, top, rowHeight, gap, id) {
  const hatch = hatching(root, id);
  for (const [row, slot, slots, begin, end, job, trains] of g.bars) {
    const tall = rowHeight / g.slots[row], y = top + row * (rowHeight + gap) + slot * tall;
    const wide = Math.max(0.8, x(end) - x(begin));
    const box = { x: x(begin).toFixed(1), y: y.toFixed(1), width: wide.toFixed(1), height: Math.max(1, slots * tall - 0.6).toFixed(1), rx: wide > 4 ? 1.5 : 0 };
    svg("rect", { ...box, fill: css(`--j${job % 4}`), opacity: trains ? 1 : 0.5 }, root);
    if (!trains) svg("rect", { ...box, fill: hatch }, root);
    const text = g.jobs[job];
    if (slots * tall >= 11 && wide > text.length * 6.6 + 8 && trains)
      svg("text", { x: x(begin) + 4, y: y + (slots * tall) / 2 + 4, fill: css("--ink"), "font-size": 11 }, root, text);
  }
}

function ganttShares(root, g, x, top, rowHeight, gap) {
  const levels = 8, paths = Array.from({ length: levels + 1 }, () => "");
  g.shares.forEach((values, row) => {
    const y = top + row * (rowHeight + gap), wide = (x(g.end) - x(g.begin)) / values.length;
    for (let i = 0; i < values.length;) {
      const level = Math.min(levels, Math.round(values[i] * levels));
      let j = i + 1;
      while (j < values.length && Math.min(levels, Math.round(values[j] * levels)) === level) j++;
      if (level) paths[level] += `M${(x(g.begin) + i * wide).toFixed(1)} ${y.toFixed(1)}h${((j - i) * wide).toFixed(1)}v${rowHeight.toFixed(1)}h-${((j - i) * wide).toFixed(1)}z`;
      i = j;
    }
  });
  const opacity = (level) => (0.12 + 0.88 * level / levels).toFixed(2);
  paths.forEach((d, level) => { if (d) svg("path", { d, fill: css("--held"), opacity: opacity(level) }, root); });
  const bottom = top + g.shares.length * (rowHeight + gap) + 24, left = x(g.end) - 9 * 14 - 46;
  svg("text", { x: left - 7, y: bottom + 10, "text-anchor": "end", fill: css("--soft") }, root, "idle");
  for (let level = 0; level <= levels; level++)
    svg("rect", { x: left + level * 14, y: bottom, width: 14, height: 12, fill: level ? css("--held") : css("--empty"), opacity: level ? opacity(level) : 1 }, root);
  svg("text", { x: left + 9 * 14 + 7, y: bottom + 10, fill: css("--soft") }, root, "full");
}

function ganttTip(g, x, top, rowHeight, gap, left, right, root) {
  let rowAt = 0;
  root.addEventListener("pointermove", (event) => {
    const box = root.getBoundingClientRect(), y = ((event.clientY - box.top) / box.height) * root.viewBox.baseVal.height;
    rowAt = Math.floor((y - top) / (rowHeight + gap));
  }, true);
  return (px, line) => {
    if (px < left || px > right || rowAt < 0 || rowAt >= g.rows.length) return null;
    const at = x.back(px), y = top + rowAt * (rowHeight + gap);
    svg("rect", { x: left, y, width: right - left, height: rowHeight, fill: "none", stroke: css("--ink") }, line);
    svg("line", { x1: px, x2: px, y1: top, y2: top + g.rows.length * (rowHeight + gap), stroke: css("--soft") }, line);
    if (!g.bars) {
      const values = g.shares[rowAt], i = Math.min(values.length - 1, Math.max(0, Math.floor(((at - g.begin) / (g.end - g.begin)) * values.length)));
      return said(`${g.rows[rowAt]} at ${duration(at)}`, [["held", percent(values[i])]]);
    }
    const here = g.bars.filter((b) => b[0] === rowAt && b[3] <= at && at < b[4]);
    return said(`${g.rows[rowAt]} at ${duration(at)}`, here.length
      ? here.map((b) => [g.jobs[b[5]], `${b[6] ? "runs" : "held, not running,"} for ${duration(b[4] - b[3])} from ${duration(b[3])}`]) : [["", "idle"]]);
  };
}

// ── wiring ───────────────────────────────────────────────────────────────────────────────────────────────
const DRAW = { cdf: drawCdf, strips: drawStrips, gantt: drawGantt };

function drawAll() {
  for (const chart of charts) {
    const width = Math.max(280, Math.round(chart.place.clientWidth));
    if (chart.place.clientWidth) chart.draw(chart.place, width);
  }
}

function addLegend(place) {
  const legend = html("div", { class: "legend", role: "group", "aria-label": "Show or hide policies" });
  place.before(legend);
  for (const policy of DATA.policies) {
    if (!(DATA.curves[place.dataset.kind] || {})[policy.name]) continue;
    const button = html("button", { type: "button", "aria-pressed": "true", "data-policy": policy.name }, legend);
    button.append(sample(policy.index), policy.name);
    button.onclick = () => {
      hidden.has(policy.name) ? hidden.delete(policy.name) : hidden.add(policy.name);
      document.querySelectorAll(".legend button").forEach((b) => b.setAttribute("aria-pressed", String(!hidden.has(b.dataset.policy))));
      drawAll();
    };
  }
}

function addSave(place) {
  const button = html("button", { type: "button", class: "save" }, null, "Save SVG");
  place.closest("figure").prepend(button);
  button.onclick = () => {
    const copy = place.querySelector("svg").cloneNode(true);
    copy.setAttribute("xmlns", NS);
    copy.style.background = css("--paper");
    const link = html("a", { download: `${place.id}.svg`, href: URL.createObjectURL(new Blob([copy.outerHTML], { type: "image/svg+xml" })) });
    link.click();
    URL.revokeObjectURL(link.href);
  };
}

for (const place of document.querySelectorAll(".plot")) {
  charts.push({ place, draw: DRAW[place.dataset.chart] });
  place.tabIndex = 0;
  if (place.dataset.chart === "cdf") addLegend(place);
  addSave(place);
}
for (const mark of document.querySelectorAll("[data-sample]")) mark.replaceWith(sample(+mark.dataset.sample));
for (const group of document.querySelectorAll("[data-choose]")) {
  for (const button of group.querySelectorAll("button")) button.onclick = () => {
    for (const other of group.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
    const place = document.getElementById(group.dataset.choose);
    if (place.dataset.chart === "gantt") ganttOf = button.dataset.value;
    else Object.assign(place.dataset, { kind: button.dataset.value, x: button.dataset.x });
    drawAll();
  };
}
document.getElementById("theme").onclick = () => {
  const root = document.documentElement, next = root.dataset.theme === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  try { localStorage.setItem("headway-theme", next); } catch { /* private window: the choice lasts as long as the page */ }
  drawAll();
};
let waiting = 0;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 120); });
addEventListener("beforeprint", drawAll);
drawAll();
document.documentElement.dataset.drawn = String(document.querySelectorAll(".plot svg").length);
