// Plots of the last five minutes.

/* global uPlot */
import { byId, el, setText } from "./dom.js";
import { clock } from "./format.js";

const WINDOW_S = 300;
const rate = (v) => (v === null || v === undefined ? "–" : String(v));
const ms = (v) => (v === null || v === undefined ? "–" : v < 10 ? v.toFixed(1) : String(Math.round(v)));

const PLOTS = [
  { title: "Acquire latency", unit: "ms", show: ms, empty: "no lock was acquired", series: [["p50_ms", "p50", "--line-a"], ["p99_ms", "p99", "--line-b"]] },
  { title: "Throughput", unit: "per s", show: rate, empty: "no traffic", series: [["acquires", "acquires", "--line-a", "area"], ["releases", "releases", "--line-c", "thin"]] },
  { title: "Contention", unit: "per s", show: rate, empty: "none refused, none lost", series: [["refused", "refused", "--line-b", "bars"], ["losses", "lost", "--line-d", "flag"]] },
].map(build);

function build(plot) {
  plot.values = plot.series.map(([, label, color]) => {
    const value = el("b");
    const item = el("span", { class: "key" }, el("i"), `${label} `, value);
    item.style.setProperty("--line", `var(${color})`);
    return { item, value };
  });
  plot.note = el("p", { class: "note" });
  plot.when = el("span", { class: "when" });
  plot.frame = el("div", { class: "frame" }, plot.note, plot.when);
  plot.figure = el("figure", {},
    el("figcaption", {}, el("h3", {}, plot.title, el("span", { class: "soft" }, ` ${plot.unit}`)), ...plot.values.map((it) => it.item)), plot.frame);
  byId("plots").append(plot.figure);
  return plot;
}

let series = null;

export function showPlots(overview) {
  series = overview.series;
  for (const plot of PLOTS) {
    if (!plot.chart) draw(plot);
    plot.data = [series.at.map((at) => at / 1000), ...plot.series.map(([key]) => series[key])];
    plot.chart.setData(drawn(plot));
    const quiet = plot.data.slice(1).every((values) => values.every((v) => !v));
    setText(plot.note, quiet ? plot.empty : "");
    if (plot.chart.cursor.idx === null || plot.chart.cursor.idx === undefined) showValues(plot, null);
  }
}

// Latencies differ by orders of magnitude, so their scale counts in tens.
const LEAST_MS = 0.1;
const power = (round, v) => 10 ** round(Math.log10(v));
const decades = (_, min, max) => [power(Math.floor, Math.max(min || 1, LEAST_MS)), power(Math.ceil, Math.max(max || 10, 10))];
const TENS = {
  splits: (_, __, min, max) => Array.from({ length: Math.round(Math.log10(max / min)) + 1 }, (___, i) => min * 10 ** i),
  values: (_, splits) => splits.map((v) => String(Number(v.toPrecision(1)))), filter: (_, splits) => splits,
};
const WHOLE = { incrs: [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6, 7].map((e) => n * 10 ** e)).sort((a, b) => a - b) };

/** A logarithm has no zero. */
const drawn = (plot) => (plot.unit === "ms" ? plot.data.map((values, i) => (i ? values.map((v) => (v === null ? v : Math.max(v, LEAST_MS))) : values)) : plot.data);

function showValues(plot, index) {
  const at = index ?? plot.data[0].length - 1;
  plot.values.forEach(({ value }, i) => setText(value, plot.show(plot.data[i + 1][at])));
  setText(plot.when, index === null ? "" : clock(plot.data[0][at] * 1000));
}

/** A custom property as a colour that a canvas understands. */
function color(name, alpha = 1) {
  const probe = byId("plots");
  probe.style.color = `var(${name})`;
  const rgb = getComputedStyle(probe).color;
  probe.style.color = "";
  return alpha === 1 ? rgb : rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
}

/** Points that have no neighbour would be lines without length. */
function lonely(chart, index, _, gaps) {
  const values = chart.data[index];
  return values.flatMap((v, i) => (v !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null ? [i] : []));
}

const LOOKS = {
  line: (line) => ({ stroke: color(line), width: 1.5, points: { show: true, size: 3, width: 0, fill: color(line), filter: lonely } }),
  area: (line) => ({ stroke: color(line), width: 1.5, fill: color(line, 0.16), points: { show: false }, paths: uPlot.paths.stepped({ align: -1 }) }),
  thin: (line) => ({ stroke: color(line), width: 1, points: { show: false }, paths: uPlot.paths.stepped({ align: -1 }) }),
  bars: (line) => ({ stroke: color(line), width: 0, fill: color(line, 0.75), points: { show: false }, paths: uPlot.paths.bars({ size: [1, 100] }) }),
  // One loss must be seen beside a thousand refusals: it marks the full height.
  flag: (line) => ({ scale: "flag", stroke: color(line), width: 0, fill: color(line), points: { show: false }, paths: uPlot.paths.bars({ size: [1, 2, 2] }) }),
};

const LEAST_AXIS = 34, AXIS_GAP = 4;

/** An axis as wide as its longest label. */
function axisSize(chart, labels, index, cycle) {
  // uPlot asks again with the labels that fit this size: the second answer must be the same.
  if (cycle > 1) return chart.axes[index]._size;
  chart.ctx.font = chart.axes[index].font[0];
  const widths = (labels ?? []).map((label) => chart.ctx.measureText(label).width / devicePixelRatio);
  return Math.ceil(Math.max(LEAST_AXIS, ...widths.map((width) => width + AXIS_GAP + 2)));
}

function draw(plot) {
  const soft = color("--ink-soft"), rule = color("--rule"), font = "11px system-ui, sans-serif";
  const axis = { stroke: soft, font, ticks: { show: false }, grid: { stroke: rule, width: 1 } };
  plot.chart?.destroy();
  plot.chart = new uPlot({
    width: plot.frame.clientWidth || 300, height: plot.frame.clientHeight || 96,
    legend: { show: false }, padding: [6, 6, 0, 0],
    cursor: { sync: { key: "quorlock" }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: false, range: (_, __, max) => [max - WINDOW_S, max] },
      flag: { range: [0, 1] },
      y: plot.unit === "ms" ? { distr: 3, range: decades } : { range: (_, __, max) => [0, Math.max(max || 0, 4) * 1.08] },
    },
    axes: [
      { ...axis, size: 18, gap: 2, grid: { show: false }, splits: (_, __, min, max) => [4, 3, 2, 1].map((m) => max - m * 60), values: (_, splits) => splits.map((__, i) => `−${4 - i} min`) },
      { ...axis, size: axisSize, gap: AXIS_GAP, space: 28, ...(plot.unit === "ms" ? TENS : WHOLE) },
    ],
    series: [{}, ...plot.series.map(([, label, line, look]) => ({ label, ...LOOKS[look ?? "line"](line) }))],
    hooks: { setCursor: [(chart) => plot.data && showValues(plot, chart.cursor.idx ?? null)] },
  }, [[], ...plot.series.map(() => [])], plot.frame);
}

function redraw() {
  if (!series) return;
  for (const plot of PLOTS) {
    draw(plot);
    plot.chart.setData(drawn(plot));
  }
}

window.addEventListener("themechange", redraw);
new ResizeObserver(() => {
  for (const { chart, frame } of PLOTS) {
    const size = { width: frame.clientWidth, height: frame.clientHeight };
    if (chart && size.width > 0 && (chart.width !== size.width || chart.height !== size.height)) chart.setSize(size);
  }
}).observe(byId("plots"));
