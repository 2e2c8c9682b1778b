"use strict";
// The parts of the chart that know nothing of its state: scales, ticks, numbers, SVG elements.
const chartParts = (function () {
  const NS = "http://www.w3.org/2000/svg";
  const scale = (value, log) => (log ? Math.log10(value) : value);
  const unscale = (value, log) => (log ? Math.pow(10, value) : value);

  // What all lines cover, with a little room above and below.
  function extent(lines) {
    const all = lines.flatMap((line) => line.points);
    if (!all.length) return { x0: 0, x1: 1, y0: 0, y1: 1 };
    const xs = all.map((p) => p.x);
    const ys = all.map((p) => p.y);
    const fold = (f, values) => values.reduce((a, b) => f(a, b));
    let [x0, x1] = [fold(Math.min, xs), fold(Math.max, xs)];
    let [y0, y1] = [fold(Math.min, ys), fold(Math.max, ys)];
    if (x0 === x1) x1 = x0 + 1;
    const room = (y1 - y0 || Math.abs(y1) || 1) * 0.05;
    return { x0, x1, y0: y0 - room, y1: y1 + room };
  }

  function make(name, attributes, parent, text) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  // Round numbers inside a range: 1, 2 or 5 times a power of ten; on a log axis the powers themselves.
  function ticks(low, high, log, count) {
    if (log && high - low >= 1) {
      const found = [];
      const every = Math.max(1, Math.ceil((high - low) / count));
      for (let p = Math.ceil(low); p <= high; p += every) found.push(p);
      return found;
    }
    const [a, b] = [unscale(low, log), unscale(high, log)];
    const rough = (b - a) / count;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let v = Math.ceil(a / step) * step; v <= b + step * 1e-9; v += step) found.push(scale(v, log));
    return found.filter(Number.isFinite);
  }

  function number(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1).replace("e+", "e");
    return String(Number(value.toPrecision(4)));
  }

  return { scale, unscale, extent, make, ticks, number };
})();
