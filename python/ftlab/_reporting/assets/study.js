"use strict";

(() => {
  const { draw, text, escape, DATA } = window.ftlab;
  const { axes, metrics, first, columns } = DATA.study;
  const column = new Map(columns.map((each) => [each.key, each]));
  const values = (key) => column.get(key);
  const at = (key, row) => ("same" in values(key) ? values(key).same : values(key).values[row]);
  const rows = (columns.find((each) => each.values)?.values ?? [0]).map((_, row) => row);
  const done = rows.filter((row) => at("status", row) === "done");
  const name = document.getElementById("study-name").textContent;
  const unique = (key, among = done) => [...new Set(among.map((row) => at(key, row)))];
  const shownAs = (key, value) => (key === "seed" ? String(value ?? "-") : text(values(key), value));
  const grouping = [...axes, ...(axes.includes("seed") ? [] : ["seed"])];

  // The chart

  const place = document.getElementById("controls");

  const choice = (label, options, chosen) => {
    const box = document.createElement("select");
    box.setAttribute("aria-label", label);
    for (const [value, shown] of options) box.add(new Option(shown, value, value === chosen, value === chosen));
    const outer = document.createElement("label");
    outer.append(label, box);
    place.append(outer);
    box.addEventListener("change", show);
    return box;
  };

  const tick = (label) => {
    const box = document.createElement("input");
    box.type = "checkbox";
    const outer = document.createElement("label");
    outer.className = "box";
    outer.append(box, label);
    place.append(outer);
    box.addEventListener("change", show);
    return box;
  };

  // Where a value of numbers stands on a logarithmic axis by itself: powers, such as 32 KiB, 64 KiB, 128 KiB.
  const geometric = (numbers) => {
    const sorted = [...numbers].sort((a, b) => a - b);
    if (sorted.length < 3 || sorted[0] <= 0) return false;
    const ratios = sorted.slice(1).map((value, i) => value / sorted[i]);
    return Math.min(...ratios) >= 1.5 && Math.max(...ratios) / Math.min(...ratios) < 1.6;
  };

  let pick = {};

  const show = () => {
    const metric = pick.metric.value;
    const x = pick.x.value;
    const color = pick.color.value === x ? "" : pick.color.value;
    let chosen = done;
    const only = [];
    for (const [axis, box] of pick.only) {
      box.closest("label").hidden = axis === x || axis === color;
      if (axis !== x && axis !== color && box.value !== "") {
        const value = unique(axis)[Number(box.value)];
        chosen = chosen.filter((row) => at(axis, row) === value);
        only.push(`${axis} = ${shownAs(axis, value)}`);
      }
    }
    chosen = chosen.filter((row) => typeof at(metric, row) === "number");
    const xs = unique(x, chosen);
    const numeric = xs.every((value) => typeof value === "number");
    const log2 = numeric && geometric(xs);
    const ticks = numeric && xs.length > 0 && xs.length <= 16 ? [...xs].sort((a, b) => a - b) : undefined;
    const scale = !numeric ? "category" : log2 ? "log" : "linear";
    const where = (row) => (scale === "category" ? xs.indexOf(at(x, row)) : at(x, row));
    const groups = color ? unique(color, chosen) : [null];
    const series = [];
    let most = 0;
    groups.forEach((group, index) => {
      const members = chosen.filter((row) => !color || at(color, row) === group);
      const by = new Map();
      for (const row of members) by.set(where(row), [...(by.get(where(row)) ?? []), row]);
      const means = [...by].sort((a, b) => a[0] - b[0]).map(([position, list]) => {
        most = Math.max(most, list.length);
        const mean = list.reduce((sum, row) => sum + at(metric, row), 0) / list.length;
        return { value: [position, mean], told: list.length > 1 ? [`mean of ${list.length} runs`] : [] };
      });
      const called = color ? shownAs(color, group) : "mean";
      // Between names there is nothing that a line could lead through.
      series.push({ name: called, data: means, marked: true, at: index, bare: scale === "category" || x === "seed" });
      if (most > 1) {
        series.push({
          name: color ? `${called}, each run` : "each run", dots: true, size: 5, at: index, pick: true,
          data: members.map((row) => ({
            value: [where(row), at(metric, row)], row,
            told: grouping.filter((key) => key !== x).map((key) => `${values(key).name} ${shownAs(key, at(key, row))}`),
          })),
        });
      }
    });
    const all = chosen.map((row) => at(metric, row));
    const title = `${values(metric).name} against ${values(x).name}`;
    document.getElementById("study-title").textContent = title;
    const place = document.querySelector('[data-chart="study"]');
    place.setAttribute("aria-label", title);
    const chart = draw({
      id: "study", kind: "lines", trigger: "item", series, legend: color ? values(color).name : "",
      x: { ...values(x), scale, log2, ticks, values: xs, far: true },
      y: {
        ...values(metric), far: !pick.zero.checked,
        scale: pick.log.checked && all.every((value) => value > 0) ? "log" : "linear",
      },
    });
    const averaged = grouping.filter((key) => key !== x && key !== color && unique(key, chosen).length > 1);
    const mixed = averaged.length ? ` Large marks are means over ${averaged.map((key) => values(key).name).join(", ")}.` : "";
    document.getElementById("study-note").textContent =
      `${chosen.length} runs; ${metric} against ${x}${color ? `, coloured by ${color}` : ""}.${mixed}`
      + only.map((told) => ` Only ${told}.`).join("");
    chart.off("click");
    chart.on("click", (hit) => {
      const row = hit.data?.row ?? chosen.find((each) => where(each) === hit.value[0] && at(metric, each) === hit.value[1]);
      if (row !== undefined) open(row);
    });
  };

  if (place) {
    const names = columns.map((each) => each.name);
    const several = (name) => names.indexOf(name) !== names.lastIndexOf(name);
    const named = (key) => [key, several(values(key).name) ? `${values(key).name} (${key})` : values(key).name];
    const varied = grouping.filter((key) => unique(key).length > 1);
    const along = varied.length ? varied : grouping.slice(0, 1);
    pick = {
      metric: choice("Show", metrics.map(named), first.metric),
      x: choice("against", along.map(named), first.x),
      color: choice("coloured by", [["", "nothing"], ...along.map(named)], first.color ?? ""),
      only: [],
    };
    pick.only = along.map((key) => {
      const options = unique(key).map((value, index) => [String(index), shownAs(key, value)]);
      // At first one value each: means over different policies or workloads say little.
      const begin = key === "seed" || key === first.x || key === first.color ? "" : "0";
      return [key, choice(`only ${values(key).name}`, [["", "all"], ...options], begin)];
    });
    pick.log = tick("logarithmic");
    // Where values differ tenfold, small ones would lie on the axis.
    const wide = () => {
      const all = done.map((row) => at(pick.metric.value, row)).filter((value) => typeof value === "number");
      const [least, most] = [Math.min(...all), Math.max(...all)];
      pick.log.checked = all.length > 0 && least > 0 && most >= 10 * least;
    };
    pick.zero = tick("from zero");
    wide();
    pick.metric.addEventListener("change", () => { wide(); show(); });
    show();
  }

  // Details of a run

  const dialog = document.getElementById("details");

  const open = (row) => {
    const key = at("key", row);
    const where = grouping.map((axis) => `${values(axis).name} ${shownAs(axis, at(axis, row))}`).join(", ");
    document.getElementById("details-title").textContent = where;
    const skip = new Set([...grouping, "status", "error", "key"]);
    const numbers = columns.filter((each) => !skip.has(each.key) && at(each.key, row) !== null);
    const list = numbers.map((each) => `<div><dt>${escape(each.key)}</dt><dd>${escape(JSON.stringify(at(each.key, row)))}</dd></div>`);
    const error = at("error", row) ? `<p class="error">${escape(at("error", row))}</p>` : "";
    document.getElementById("details-body").innerHTML = `${error}
      <p>Key of the run in the store: <code>${escape(key)}</code></p>
      <pre><code>${escape(`ftlab report DIR --run ${key}\nftlab study show DIR --study ${name} --sql "SELECT * FROM runs WHERE key = '${key}'"`)}</code></pre>
      <dl class="keys">${list.join("")}</dl>`;
    dialog.showModal();
  };

  // The table of runs

  const table = document.getElementById("grid");
  const body = table.tBodies[0];
  const lines = [...body.rows].map((line) => ({ line, sort: JSON.parse(line.dataset.sort), words: line.textContent.toLowerCase() }));
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));

  [...table.tHead.rows[0].cells].forEach((head, index) => {
    // No buttons: browsers leave them out where a heading comes again on the next sheet of paper.
    const sort = head.querySelector(".sort");
    sort?.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort.click();
    });
    sort?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      lines.sort((a, b) => (down ? -1 : 1) * compare(a.sort[index], b.sort[index]));
      body.append(...lines.map((each) => each.line));
    });
  });

  document.getElementById("filter").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const { line, words: found } of lines) {
      line.hidden = !words.every((word) => found.includes(word));
      left += !line.hidden;
    }
    document.getElementById("count").textContent = words.length ? `${left} of ${lines.length}` : "";
  });

  body.addEventListener("click", (event) => {
    if (event.target.closest("button.details")) open(Number(event.target.closest("tr").dataset.at));
  });
})();
