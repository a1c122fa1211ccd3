"use strict";

(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  // Okabe and Ito: apart for the colour-blind. Dashes and symbols keep series apart in grey.
  const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999900"];
  const DASHES = ["solid", [7, 4], [2, 3], [10, 3, 2, 3]];
  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "pin", "roundRect", "arrow"];
  const CAUSE_COLORS = {
    host: "#0072b2", gc: "#d55e00", merge: "#009e73", map: "#cc79a7", metadata: "#e69f00",
    lsb_backup: "#56b4e9", cache_flush: "#999900", wear_level: "#777777", recovery: "#000000",
  };
  const PAPER_WIDTH = 660;
  let onPaper = false;
  // What is drawn in the colour of text, of faint lines, and of the page.
  let INK, FAINT, SHEET;
  // How much there is of the colour of a band, of its mark in the legend, and of a line behind another one.
  let BAND, MARK, BEHIND;
  const paint = (dark) => {
    [INK, FAINT, SHEET] = dark ? ["#e6edf3", "#30363d", "#0d1117"] : ["#1b1f24", "#e3e7eb", "#fff"];
    [BAND, MARK, BEHIND] = dark ? [0.4, 0.7, 0.25] : [0.25, 0.4, 0.45];
  };
  const night = window.matchMedia("screen and (prefers-color-scheme: dark)");
  paint(night.matches);
  // Black is a colour like others on paper, and none at night.
  const visible = (color) => (color === "#000000" ? INK : color);
  const charts = new Map();

  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

  // Numbers

  const digits = (value) => {
    if (Number.isInteger(value) && Math.abs(value) < 1e15) {
      return Math.abs(value) >= 1e4 ? value.toLocaleString("en-US") : String(value);
    }
    return Number(value.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 4 });
  };

  // The unit in which a quantity of this size is shown, as ftlab.labels chooses it.
  const step = (axis, largest) => {
    const steps = DATA.steps[axis.base];
    if (!steps || axis.base === "") return [1 / axis.factor, ""];
    const least = axis.base === "IOPS" ? 10 : 1;
    return steps.find(([size]) => Math.abs(largest) * axis.factor >= size * least) ?? steps[steps.length - 1];
  };

  const text = (axis, value) => {
    if (value === null || value === undefined) return "-";
    if (typeof value === "boolean") return value ? "on" : "off";
    if (typeof value !== "number") return String(value);
    if (axis.scale === "tail") return percent(1 - 10 ** -value);
    const [size, unit] = step(axis, value);
    if (unit === "ns" && value && Math.abs(value * axis.factor) < 1) {
      const short = (value * axis.factor).toFixed(2);
      return Number(short) ? `${short} ns` : "below 0.01 ns";
    }
    return axis.base && unit && value ? `${digits((value * axis.factor) / size)} ${unit}` : digits(value);
  };

  const percent = (share) => {
    const left = 1 - share;
    const places = left > 0 && left < 0.1 ? Math.ceil(-Math.log10(left) - 1e-9) - 2 : 0;
    return `${(100 * share).toFixed(Math.max(0, places))} %`;
  };

  // Axes

  const margin = (ticks) => 0.05 * (ticks[ticks.length - 1] - ticks[0]) || 1;

  const axisOption = (axis, values, position) => {
    const numbers = values.filter((v) => typeof v === "number" && Number.isFinite(v));
    const largest = numbers.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    const ticks = axis.ticks ? { customValues: axis.ticks } : {};
    const [size, unit] = axis.scale === "log" ? [1, ""] : step(axis, largest);
    const scaled = axis.scale === "log" || !unit;
    const option = {
      name: unit && !scaled ? `${axis.name} (${unit})` : axis.name,
      nameLocation: "middle",
      nameTextStyle: { color: INK, fontSize: 12 },
      axisLine: { show: true, lineStyle: { color: INK } },
      axisTick: { show: true, ...ticks },
      axisLabel: { color: INK, fontSize: 11, hideOverlap: true, ...ticks },
      splitLine: { lineStyle: { color: FAINT } },
      nameGap: position === "x" ? 26 : 50,
    };
    if (axis.scale === "category") {
      return { ...option, type: "category", data: axis.values.map((v) => text(axis, v)), splitLine: { show: false } };
    }
    if (axis.scale === "tail") {
      const top = Math.ceil(largest);
      return {
        ...option, type: "value", min: 0, max: top, interval: 1,
        axisLabel: { ...option.axisLabel, formatter: (v) => percent(1 - 10 ** -v) },
      };
    }
    if (axis.scale === "log") {
      const smallest = numbers.filter((v) => v > 0).reduce((a, b) => Math.min(a, b), Infinity);
      const base = axis.log2 ? 2 : 10;
      const floor = (v) => base ** Math.floor(Math.log(v) / Math.log(base) + 1e-9);
      const ceil = (v) => base ** Math.ceil(Math.log(v) / Math.log(base) - 1e-9);
      return {
        ...option, type: "log", logBase: base,
        min: axis.ticks ? smallest / 1.15 : Number.isFinite(smallest) ? floor(smallest) : undefined,
        max: axis.ticks ? largest * 1.15 : largest > 0 ? ceil(largest) : undefined,
        axisLabel: { ...option.axisLabel, formatter: (v) => text(axis, v) },
      };
    }
    return {
      ...option, type: "value", scale: position === "x" || axis.far,
      // A line at the edge would be half a line. What begins at zero stays there.
      boundaryGap: position === "x" || axis.most !== null && axis.most !== undefined ? undefined : [axis.far ? "5%" : 0, "5%"],
      min: axis.ticks ? axis.ticks[0] - margin(axis.ticks) : undefined,
      max: axis.ticks ? axis.ticks[axis.ticks.length - 1] + margin(axis.ticks) : axis.most ?? (position === "x" && numbers.length ? numbers.reduce((a, b) => Math.max(a, b)) : undefined),
      axisLabel: {
        ...option.axisLabel,
        showMaxLabel: position === "x" && !axis.ticks ? false : undefined,
        formatter: (v) => digits(unit ? Number(((v * axis.factor) / size).toPrecision(6)) : v),
      },
    };
  };

  // Drawing

  const look = (series, at) => {
    const color = visible(series.color ?? COLORS[at % COLORS.length]);
    const dash = series.dashed ? [6, 4] : series.faint || series.solid || series.band ? "solid" : DASHES[at % DASHES.length];
    return { color, dash, symbol: SYMBOLS[at % SYMBOLS.length] };
  };

  const lineSeries = (each, at) => {
    const { color, dash, symbol } = each.look;
    if (each.dots) {
      return {
        type: "scatter", name: each.id, data: each.data, symbol, symbolSize: each.size ?? 3.5, itemStyle: { color },
        cursor: each.pick ? "pointer" : "default", emphasis: { disabled: !each.pick }, z: each.pick ? 4 : 2,
      };
    }
    return {
      type: "line", name: each.id, data: each.data, showSymbol: Boolean(each.marked), symbol, symbolSize: 8,
      lineStyle: { color, width: each.bare ? 0 : each.faint ? 1 : 2, opacity: each.faint ? BEHIND : 1, type: dash },
      itemStyle: { color }, emphasis: { disabled: true }, z: each.faint ? 1 : 3, connectNulls: false,
      ...(each.stack ? { stack: each.stack, areaStyle: { color, opacity: 0.55 } } : {}),
    };
  };

  // From one value to another: the lower one carries the upper one, and cannot be seen. Both have one name in the legend.
  const bandSeries = (each) => {
    const { color } = each.look;
    const part = (part, data, opacity) => ({
      type: "line", id: `${each.id}/${part}`, name: each.id, data, stack: each.id, showSymbol: false, silent: true, z: 1,
      lineStyle: { width: 0 }, itemStyle: { color }, areaStyle: { color, opacity }, emphasis: { disabled: true },
    });
    return [
      part("low", each.data.map(([x, low]) => [x, low]), 0),
      part("high", each.data.map(([x, low, high]) => ({ value: [x, high - low], ends: [low, high] })), BAND),
    ];
  };

  const swatch = (spec, { color, dash, symbol }, each) => {
    const pattern = Array.isArray(dash) ? `stroke-dasharray="${dash.join(" ")}"` : "";
    if (spec.kind === "bars" || each.stack || each.band) {
      return `<svg width="16" height="12"><rect width="16" height="12" fill="${color}" opacity="${each.band ? MARK : 1}"/></svg>`;
    }
    const shapes = {
      circle: '<circle cx="14" cy="6" r="3.5"/>', rect: '<rect x="10.5" y="2.5" width="7" height="7"/>',
      triangle: '<path d="M14 2l4 8h-8z"/>', diamond: '<path d="M14 1l4 5l-4 5l-4-5z"/>',
    };
    const mark = each.dots || each.marked ? `<g fill="${color}">${shapes[symbol] ?? shapes.circle}</g>` : "";
    const line = each.dots || each.bare ? "" : `<line x1="0" x2="28" y1="6" y2="6" stroke="${color}" stroke-width="${each.faint ? 1 : 2}" ${pattern}/>`;
    return `<svg width="28" height="12" aria-hidden="true">${line}${mark}</svg>`;
  };

  const boxes = (id) => [...document.querySelectorAll(`[data-legend="${id}"] input`)];

  const legend = (spec, chart) => {
    const place = document.querySelector(`[data-legend="${spec.id}"]`);
    place.replaceChildren();
    if (spec.legend) place.append(`${spec.legend}:`);
    for (const each of spec.series) {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      box.addEventListener("change", () => {
        chart.dispatchAction({ type: box.checked ? "legendSelect" : "legendUnSelect", name: each.id });
      });
      label.append(box);
      label.insertAdjacentHTML("beforeend", swatch(spec, each.look, each));
      label.append(each.name);
      place.append(label);
    }
  };

  const tooltip = (spec) => (hits) => {
    const list = (Array.isArray(hits) ? hits : [hits])
      .filter((hit) => hit.value?.[1] !== null && !hit.seriesId?.endsWith("/low"));
    if (!list.length) return "";
    const rows = list.map((hit) => {
      const told = hit.data.told ? `<br>${hit.data.told.map(escape).join("<br>")}` : "";
      const shown = hit.data.ends ? hit.data.ends.map((end) => text(spec.y, end)).join(" to ") : text(spec.y, hit.value[1]);
      const { name } = spec.series.find((each) => each.id === hit.seriesName);
      return `${hit.marker}${escape(name)}: <b>${escape(shown)}</b>${told}`;
    });
    const x = spec.x.scale === "category" ? spec.x.values[list[0].value[0]] : list[0].value[0];
    return `${escape(spec.x.name)} ${escape(text(spec.x, x))}<br>${rows.join("<br>")}`;
  };

  const lines = (spec) => {
    const all = (at) => spec.series.flatMap((each) => each.data.flatMap((point) => {
      const value = point.value ?? point;
      return each.band && at === 1 ? value.slice(1) : [value[at]];
    }));
    return {
      grid: { left: 68, right: 16, top: 12, bottom: 46 },
      xAxis: axisOption(spec.x, all(0), "x"),
      yAxis: axisOption(spec.y, all(1), "y"),
      tooltip: { trigger: spec.trigger ?? "axis", confine: true, formatter: tooltip(spec), transitionDuration: 0 },
      axisPointer: { snap: true },
      series: spec.series.flatMap((each, at) => (each.band ? bandSeries(each) : [lineSeries(each, at)])),
    };
  };

  // Pixels of a label on a bar with a little room beside it, and of the whole bar.
  const LABEL_WIDTH = 46, BAR_LEFT = 110, BAR_RIGHT = 20;
  const room = (spec) => (onPaper ? PAPER_WIDTH : document.querySelector(`[data-chart="${spec.id}"]`).clientWidth) - BAR_LEFT - BAR_RIGHT;

  const bars = (spec) => ({
    aria: { enabled: true, decal: { show: true } },
    grid: { left: BAR_LEFT, right: BAR_RIGHT, top: 6, bottom: 40 },
    xAxis: {
      type: "value", max: 1, axisLabel: { color: INK, formatter: percent }, splitLine: { lineStyle: { color: FAINT } },
      name: "share", nameLocation: "middle", nameGap: 26, nameTextStyle: { color: INK, fontSize: 12 },
    },
    yAxis: { type: "category", data: spec.categories, inverse: true, axisLabel: { color: INK }, axisTick: { show: false } },
    tooltip: {
      trigger: "item", confine: true, transitionDuration: 0,
      formatter: (hit) => `${escape(spec.categories[hit.dataIndex])}, ${escape(spec.series[hit.seriesIndex].name)}<br><b>${(100 * hit.value).toPrecision(3)} %</b>`
        + ` (${escape(spec.series[hit.seriesIndex].texts[hit.dataIndex])})`,
    },
    series: spec.series.map((each) => ({
      type: "bar", name: each.id, stack: "all", barMaxWidth: 30,
      data: each.data.map((value) => ({ value, label: { show: value * room(spec) >= LABEL_WIDTH } })),
      itemStyle: { color: each.look.color, borderColor: SHEET, borderWidth: 0.5 },
      label: {
        color: "#111", fontSize: 11, backgroundColor: "rgba(255,255,255,.85)", padding: [1, 3], borderRadius: 2,
        textBorderWidth: 0, textBorderColor: "transparent",
        formatter: (hit) => `${(100 * hit.value).toPrecision(3)} %`,
      },
    })),
  });

  const draw = (spec) => {
    const place = document.querySelector(`[data-chart="${spec.id}"]`);
    const chart = charts.get(spec.id)?.chart ?? echarts.init(place, null, { renderer: "svg" });
    spec.series.forEach((each, at) => {
      const color = each.cause ? CAUSE_COLORS[each.cause] : each.color;
      each.look = look({ ...each, color }, each.at ?? at);
      // Charts that zoom together would also switch series of one name together.
      each.id = `${spec.id}/${at}`;
    });
    const option = spec.kind === "bars" ? bars(spec) : lines(spec);
    const zooms = spec.kind !== "bars";
    chart.setOption({
      animation: false, textStyle: { fontFamily: "system-ui, 'DejaVu Sans', sans-serif" },
      legend: { show: false, data: spec.series.map((each) => each.id) },
      aria: { enabled: true, label: { description: place.getAttribute("aria-label") } },
      toolbox: zooms ? { show: true, right: -100, feature: { dataZoom: { filterMode: "none" } } } : undefined,
      ...option,
    }, { notMerge: true });
    if (zooms) {
      // Dragging zooms at once, without a tool to be chosen first.
      chart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true });
    }
    if (!charts.has(spec.id)) {
      chart.getZr().on("dblclick", () => {
        const together = [...charts.values()]
          .filter((other) => other.spec.id === spec.id || (spec.group && other.spec.group === spec.group));
        // Each is told to the others of its group as well, so all go back before anything is switched off again.
        for (const other of together) other.chart.dispatchAction({ type: "restore" });
        for (const other of together) {
          other.chart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true });
          // Going back is about the zoom: what was switched off stays off.
          boxes(other.spec.id).forEach((box, at) => {
            if (!box.checked) other.chart.dispatchAction({ type: "legendUnSelect", name: other.spec.series[at].id });
          });
        }
      });
      if (spec.group) chart.group = spec.group;
    }
    charts.set(spec.id, { chart, spec });
    legend(spec, chart);
    return chart;
  };

  for (const spec of DATA.charts ?? []) draw(spec);
  for (const group of new Set((DATA.charts ?? []).map((spec) => spec.group).filter(Boolean))) echarts.connect(group);

  // Paper has its own width; nothing on it can be pressed.
  const fit = (width) => {
    for (const { chart, spec } of charts.values()) {
      chart.resize(width ? { width } : { width: "auto" });
      // Which labels have room has changed.
      if (spec.kind === "bars") chart.setOption({ series: bars(spec).series.map(({ type, name, data }) => ({ type, name, data })) });
      chart.getZr().flush();
    }
  };
  // Legends and zooms begin anew with other colours.
  const repaint = (dark) => {
    paint(dark);
    for (const { spec } of [...charts.values()]) draw(spec);
  };
  night.addEventListener("change", () => repaint(night.matches));
  window.addEventListener("beforeprint", () => { if (night.matches) repaint(false); });
  window.addEventListener("afterprint", () => { if (night.matches) repaint(true); });
  window.addEventListener("resize", () => { if (!onPaper) fit(); });
  window.addEventListener("beforeprint", () => { onPaper = true; fit(PAPER_WIDTH); });
  window.addEventListener("afterprint", () => { onPaper = false; fit(); });

  window.ftlab = { draw, text, escape, DATA };
})();
