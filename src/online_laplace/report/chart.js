"use strict";
// The interactive chart: one quantity of one table through training, drawn as SVG from the data in the page.
(function () {
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const box = document.getElementById("chart");
  const words = document.getElementById("chart-words");
  const COLOURS = { ol: "#0072B2", lm: "#D55E00", offline: "#009E73" };
  const LABELS = { ol: "OL", lm: "LM", offline: "offline" };
  const MARGIN = { left: 62, right: 14, top: 12, bottom: 38 };
  const { scale, unscale, extent, make, ticks, number } = chartParts;
  const get = (id) => document.getElementById("chart-" + id);
  const chosen = { table: get("table"), quantity: get("quantity"), split: get("split") };
  const logs = { x: get("log-x"), y: get("log-y") };
  const procedures = {};
  let whole = null; // the extent of everything that is shown
  let view = null; // the part of it that is on screen, in the units of the axes (logarithms where chosen)
  let lines = [];

  function option(select, value, label) {
    const entry = document.createElement("option");
    entry.value = value;
    entry.textContent = label;
    select.append(entry);
  }

  function fillControls() {
    data.tables.forEach((name) => option(chosen.table, name, name));
    data.quantities.forEach((q) => option(chosen.quantity, q.name, q.label));
    option(chosen.split, "all", "all");
    for (let i = 0; i < data.splits; i++) option(chosen.split, String(i), String(i));
    for (const name of data.procedures) {
      const label = document.createElement("label");
      const tick = document.createElement("input");
      const swatch = document.createElement("span");
      tick.type = "checkbox";
      tick.checked = name !== "offline";
      tick.id = "chart-" + name;
      swatch.className = "swatch";
      swatch.style.background = COLOURS[name];
      label.append(tick, swatch, LABELS[name] + " ");
      get("procedures").append(label);
      procedures[name] = tick;
    }
  }

  const quantity = () => data.quantities.find((q) => q.name === chosen.quantity.value);
  // The runs that are asked for, as points in the units of the axes; what a log axis cannot show is left out.
  function collect() {
    const splits = chosen.split.value === "all" ? [...Array(data.splits).keys()] : [Number(chosen.split.value)];
    lines = [];
    for (const procedure of data.procedures.filter((name) => procedures[name].checked)) {
      for (const split of splits) {
        const run = data.runs[chosen.table.value + "/" + procedure + "/" + split];
        const points = [];
        run.steps.forEach((step, i) => {
          const value = run[quantity().name][i];
          if (value === null || (logs.x.checked && step <= 0) || (logs.y.checked && value <= 0)) return;
          points.push({ step, value, x: scale(step, logs.x.checked), y: scale(value, logs.y.checked) });
        });
        if (points.length) lines.push({ procedure, split, points });
      }
    }
    whole = extent(lines);
    view = { ...whole };
  }

  const size = () => ({ width: box.clientWidth, height: box.clientHeight });
  function place() {
    const { width, height } = size();
    const w = width - MARGIN.left - MARGIN.right;
    const h = height - MARGIN.top - MARGIN.bottom;
    return {
      x: (v) => MARGIN.left + ((v - view.x0) / (view.x1 - view.x0)) * w,
      y: (v) => MARGIN.top + (1 - (v - view.y0) / (view.y1 - view.y0)) * h,
      backX: (px) => view.x0 + ((px - MARGIN.left) / w) * (view.x1 - view.x0),
      backY: (py) => view.y0 + (1 - (py - MARGIN.top) / h) * (view.y1 - view.y0),
      w,
      h,
    };
  }

  function draw() {
    box.querySelectorAll("svg, .tip").forEach((old) => old.remove());
    const { width, height } = size();
    const at = place();
    const svg = make("svg", { viewBox: "0 0 " + width + " " + height, "aria-hidden": "true" }, box);
    const clip = make("clipPath", { id: "chart-clip" }, make("defs", {}, svg));
    make("rect", { x: MARGIN.left, y: MARGIN.top, width: at.w, height: at.h }, clip);
    const axis = { "font-size": 12, fill: "#595959" };
    for (const v of ticks(view.x0, view.x1, logs.x.checked, width < 500 ? 4 : 8)) {
      make("line", { x1: at.x(v), x2: at.x(v), y1: MARGIN.top, y2: MARGIN.top + at.h, stroke: "#eee" }, svg);
      const where = { x: at.x(v), y: height - 20, "text-anchor": "middle", ...axis };
      make("text", where, svg, number(unscale(v, logs.x.checked)));
    }
    for (const v of ticks(view.y0, view.y1, logs.y.checked, 6)) {
      make("line", { x1: MARGIN.left, x2: MARGIN.left + at.w, y1: at.y(v), y2: at.y(v), stroke: "#eee" }, svg);
      const where = { x: MARGIN.left - 6, y: at.y(v) + 4, "text-anchor": "end", ...axis };
      make("text", where, svg, number(unscale(v, logs.y.checked)));
    }
    make("text", { x: MARGIN.left + at.w / 2, y: height - 4, "text-anchor": "middle", ...axis }, svg, "step");
    const inside = make("g", { "clip-path": "url(#chart-clip)" }, svg);
    for (const line of lines) {
      const path = line.points.map((p, i) => (i ? "L" : "M") + at.x(p.x).toFixed(1) + " " + at.y(p.y).toFixed(1));
      make("path", {
        d: path.join(""), fill: "none", stroke: COLOURS[line.procedure], "stroke-width": 1.6,
        "stroke-opacity": lines.length > 6 ? 0.65 : 1, "data-procedure": line.procedure, "data-split": line.split,
      }, inside);
    }
    make("circle", { id: "chart-dot", r: 4, fill: "none", "stroke-width": 2, visibility: "hidden" }, inside);
    make("rect", { id: "chart-band", y: MARGIN.top, height: at.h, fill: "#0072B2", "fill-opacity": 0.12, width: 0 }, svg);
    describe();
  }

  function describe() {
    const q = quantity();
    const ends = data.procedures.filter((name) => procedures[name].checked).map((name) => {
      const last = lines.filter((l) => l.procedure === name).map((l) => l.points[l.points.length - 1].value);
      if (!last.length) return LABELS[name] + " has nothing to show on this axis";
      last.sort((a, b) => a - b);
      return LABELS[name] + " ends at " + number(last[Math.floor(last.length / 2)]) + (last.length > 1 ? " (median)" : "");
    });
    const which = chosen.split.value === "all" ? "all splits" : "split " + chosen.split.value;
    words.textContent = q.label + " on " + chosen.table.value + ", " + which + ". " + ends.join("; ") + ".";
  }

  // Keep `share` of the view around a point; a share above 1 zooms out, never beyond the whole. Deeper than a
  // ten-thousandth there is nothing to see.
  function zoom(share, centreX, centreY) {
    if (share < 1 && view.x1 - view.x0 < 1e-4 * (whole.x1 - whole.x0)) return;
    const cut = (low, high, centre, min, max) => [
      Math.max(min, centre - (centre - low) * share), Math.min(max, centre + (high - centre) * share),
    ];
    [view.x0, view.x1] = cut(view.x0, view.x1, centreX, whole.x0, whole.x1);
    [view.y0, view.y1] = cut(view.y0, view.y1, centreY, whole.y0, whole.y1);
    draw();
  }
  const middle = () => [(view.x0 + view.x1) / 2, (view.y0 + view.y1) / 2];
  function reset() { view = { ...whole }; draw(); }
  function move(dx, dy) {
    const [w, h] = [view.x1 - view.x0, view.y1 - view.y0];
    const x0 = Math.min(Math.max(view.x0 + dx * w, whole.x0), whole.x1 - w);
    const y0 = Math.min(Math.max(view.y0 + dy * h, whole.y0), whole.y1 - h);
    view = { x0, x1: x0 + w, y0, y1: y0 + h };
    draw();
  }

  function spot(event) {
    const frame = box.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  }

  function hover(px, py) {
    const at = place();
    let best = null;
    for (const line of lines) {
      for (const p of line.points) {
        const far = Math.hypot(at.x(p.x) - px, at.y(p.y) - py);
        if (far < 40 && (!best || far < best.far)) best = { far, line, p };
      }
    }
    const dot = document.getElementById("chart-dot");
    box.querySelectorAll(".tip").forEach((old) => old.remove());
    dot.setAttribute("visibility", best ? "visible" : "hidden");
    if (!best) return;
    dot.setAttribute("cx", at.x(best.p.x));
    dot.setAttribute("cy", at.y(best.p.y));
    dot.setAttribute("stroke", COLOURS[best.line.procedure]);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.textContent = LABELS[best.line.procedure] + ", split " + best.line.split + ", step " + best.p.step + ": " + number(best.p.value);
    box.append(tip);
    const left = Math.min(Math.max(at.x(best.p.x) - tip.offsetWidth / 2, 4), size().width - tip.offsetWidth - 4);
    const above = at.y(best.p.y) - tip.offsetHeight - 10;
    tip.style.left = left + "px";
    tip.style.top = (above > 0 ? above : at.y(best.p.y) + 12) + "px";
  }

  // A drag marks a range of steps; two fingers pinch; everything else is a hover.
  function listen() {
    const fingers = new Map();
    let from = null;
    box.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, spot(event));
      if (event.pointerType === "mouse") { from = spot(event)[0]; box.setPointerCapture(event.pointerId); }
    });
    box.addEventListener("pointermove", (event) => {
      const [px, py] = spot(event);
      if (fingers.size === 2 && fingers.has(event.pointerId)) {
        const [a, b] = [...fingers.values()];
        const before = Math.hypot(a[0] - b[0], a[1] - b[1]);
        fingers.set(event.pointerId, [px, py]);
        const [c, d] = [...fingers.values()];
        const now = Math.hypot(c[0] - d[0], c[1] - d[1]);
        if (now > 0) zoom(before / now, place().backX((c[0] + d[0]) / 2), place().backY((c[1] + d[1]) / 2));
        return;
      }
      if (from !== null) {
        const band = document.getElementById("chart-band");
        band.setAttribute("x", Math.min(from, px));
        band.setAttribute("width", Math.abs(px - from));
      } else hover(px, py);
    });
    const release = (event) => {
      fingers.delete(event.pointerId);
      if (from === null) return;
      const to = spot(event)[0];
      const at = place();
      const [a, b] = [at.backX(Math.min(from, to)), at.backX(Math.max(from, to))];
      from = null;
      // Redrawing between two clicks would take the chart from under a double click.
      document.getElementById("chart-band").setAttribute("width", 0);
      if (event.type === "pointerup" && at.x(b) - at.x(a) > 8) {
        view.x0 = Math.max(a, whole.x0);
        view.x1 = Math.min(b, whole.x1);
        draw();
      }
    };
    box.addEventListener("pointerup", release);
    box.addEventListener("pointercancel", release);
    box.addEventListener("pointerleave", () => hover(-1e6, -1e6));
    box.addEventListener("dblclick", reset);
    // A page that is scrolled past the chart must not be caught by it.
    box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== box) return;
      event.preventDefault();
      const [px, py] = spot(event);
      zoom(event.deltaY < 0 ? 0.8 : 1.25, place().backX(px), place().backY(py));
    }, { passive: false });
    const keys = {
      "+": () => zoom(0.7, ...middle()), "=": () => zoom(0.7, ...middle()), "-": () => zoom(1.4, ...middle()), 0: reset,
      ArrowLeft: () => move(-0.2, 0), ArrowRight: () => move(0.2, 0), ArrowUp: () => move(0, 0.2), ArrowDown: () => move(0, -0.2),
    };
    box.addEventListener("keydown", (event) => {
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
    get("in").addEventListener("click", () => zoom(0.7, ...middle()));
    get("out").addEventListener("click", () => zoom(1.4, ...middle()));
    get("reset").addEventListener("click", reset);
    window.addEventListener("resize", draw);
  }

  function show() { collect(); draw(); }
  fillControls();
  logs.y.checked = quantity().log;
  chosen.quantity.addEventListener("change", () => { logs.y.checked = quantity().log; });
  for (const control of [...Object.values(chosen), ...Object.values(procedures), ...Object.values(logs)])
    control.addEventListener("change", show);
  document.querySelector(".controls").addEventListener("submit", (event) => event.preventDefault());
  listen();
  show();
})();
