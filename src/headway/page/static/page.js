// Draws the losses that the event stream brings, and says whether the stream is there. All else is made by the server.
"use strict";
const stream = document.getElementById("stream"), link = document.getElementById("link");
const section = document.getElementById("losses"), place = document.getElementById("curves");
const charts = new Map();
let isOver = false;

function say(words, state) {
  link.textContent = words;
  link.className = state;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function made(job) {
  const figure = document.createElement("figure"), caption = document.createElement("figcaption");
  const plot = document.createElement("div"), value = document.createElement("span");
  caption.textContent = job;
  value.className = "soft";
  figure.append(caption, value, plot);
  figure.setAttribute("role", "img");
  place.append(figure);
  const axis = () => ({ stroke: () => colour("--soft"), grid: { stroke: () => colour("--grid"), width: 1 },
    ticks: { show: false }, font: "11px system-ui, sans-serif", size: 34, space: 46 });
  const chart = new uPlot({
    width: Math.max(120, plot.clientWidth), height: 150, legend: { show: false }, scales: { x: { time: false } },
    axes: [{ ...axis(), size: 24 }, { ...axis(), size: 52, space: 28 }],
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    series: [{}, { stroke: () => colour("--accent"), width: 1.5, points: { show: false } }],
    hooks: { setCursor: [(u) => { value.textContent = told(u, u.cursor.idx); }] },
  }, [[], []], plot);
  new ResizeObserver(() => { chart.setSize({ width: Math.max(120, plot.clientWidth), height: 150 }); }).observe(plot);
  return { figure, chart, value };
}

function told(chart, at) {
  const [steps, losses] = chart.data, last = at ?? steps.length - 1;
  return last < 0 || losses[last] == null ? "" : `${Number(losses[last].toPrecision(4))} at step ${steps[last]}`;
}

function draw(curves) {
  const names = new Set(curves.map((curve) => curve.job));
  for (const [name, { figure, chart }] of charts) {
    if (!names.has(name)) { chart.destroy(); figure.remove(); charts.delete(name); }
  }
  section.hidden = curves.length === 0;
  for (const { job, steps, losses } of curves) {
    if (!charts.has(job)) charts.set(job, made(job));
    const { figure, chart, value } = charts.get(job);
    chart.setData([steps, losses]);
    value.textContent = told(chart, chart.cursor.idx);
    figure.setAttribute("aria-label", `loss of ${job}: ${value.textContent}`);
  }
}

stream.addEventListener("curves", (event) => draw(JSON.parse(event.detail.data)));
stream.addEventListener("over", () => { isOver = true; say("the run is over", "ended"); });
document.addEventListener("htmx:sse:after:connection", () => say("live", "live"));
document.addEventListener("htmx:sse:error", () => { if (!isOver) say("no connection", "lost"); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const { chart } of charts.values()) chart.redraw(false, true);
});
