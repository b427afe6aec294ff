// SPDX-License-Identifier: Apache-2.0
// Curves over samples or ticks, with marks.

const kCapacity = 4096;

/** Points of a curve in memory of one size: when it is full, pairs of the older half become one, with their least and
 * their most, so that the whole history stays. */
export class Series {
  constructor(capacity = kCapacity) {
    this.capacity = capacity;
    this.count = 0;
    for (const name of ['x', 'low', 'high', 'mean']) this[name] = new Float64Array(capacity);
  }

  add(x, value) {
    if (!Number.isFinite(value)) return;
    if (this.count && x <= this.x[this.count - 1]) return;
    if (this.count === this.capacity) this.#halve();
    this.x[this.count] = x;
    this.low[this.count] = this.high[this.count] = this.mean[this.count] = value;
    ++this.count;
  }

  #halve() {
    const half = this.capacity / 2;
    for (let to = 0; to < half / 2; ++to) {
      const a = 2 * to,
        b = a + 1;
      this.x[to] = this.x[b];
      this.low[to] = Math.min(this.low[a], this.low[b]);
      this.high[to] = Math.max(this.high[a], this.high[b]);
      this.mean[to] = (this.mean[a] + this.mean[b]) / 2;
    }
    for (const name of ['x', 'low', 'high', 'mean']) this[name].copyWithin(half / 2, half, this.capacity);
    this.count = this.capacity - half / 2;
  }
}

const kMarks = {
  checkpoint: ['C', '--blue'],
  weights: ['W', '--accent'],
  fault: ['F', '--red'],
  drift: ['D', '--accent'],
  recovered: ['R', '--green'],
  sessions: ['S', '--quiet'],
};

/** One or two curves, each with a scale of its own: the first's on the left, the second's on the right. */
export class Chart {
  constructor(canvas, text) {
    Object.assign(this, {canvas, text, curves: [], marks: [], unit: 'samples', smooth: 0.6});
    new ResizeObserver(() => this.paint()).observe(canvas);
  }

  /** Curves as {name, color, fixed: [low, high] or nothing}. */
  begin(unit, curves) {
    this.unit = unit;
    this.marks = [];
    this.curves = curves.map(each => ({...each, series: new Series()}));
    this.paint();
  }

  add(x, values) {
    values.forEach((value, i) => {
      if (value !== null) this.curves[i].series.add(x, value);
    });
    this.paint();
  }

  mark(x, kind) {
    this.marks.push({x, kind});
    if (this.marks.length > 200) this.marks.shift();
    this.paint();
  }

  #smoothed(series) {
    const out = new Float64Array(series.count);
    let value = series.mean[0];
    for (let i = 0; i < series.count; ++i) out[i] = value = value * this.smooth + series.mean[i] * (1 - this.smooth);
    return out;
  }

  paint() {
    const {canvas} = this,
      ratio = devicePixelRatio || 1;
    if (!canvas.clientWidth) return;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    const to = canvas.getContext('2d'),
      style = getComputedStyle(document.documentElement);
    const color = name => style.getPropertyValue(name).trim();
    to.scale(ratio, ratio);
    const area = {
      left: 40,
      top: 16,
      right: canvas.clientWidth - (this.curves.length > 1 ? 44 : 8),
      bottom: canvas.clientHeight - 22,
    };
    to.font = '11.5px ui-monospace, monospace';
    const used = this.curves.filter(each => each.series.count > 1);
    this.#describe();
    if (!used.length) {
      to.fillStyle = color('--quiet');
      to.textAlign = 'center';
      to.fillText('begins with the next ' + this.unit, canvas.clientWidth / 2, canvas.clientHeight / 2);
      return;
    }
    const first = Math.min(...used.map(each => each.series.x[0])),
      last = Math.max(...used.map(each => each.series.x[each.series.count - 1]));
    const across = x => area.left + ((x - first) / (last - first || 1)) * (area.right - area.left);
    this.#axes(to, area, color, first, last);
    this.#paintMarks(to, area, color, across, first, last);
    used.forEach(each => this.#paintCurve(to, area, color, across, each));
  }

  #range(curve) {
    if (curve.fixed) return curve.fixed;
    let high = 0;
    for (let i = 0; i < curve.series.count; ++i) high = Math.max(high, curve.series.high[i]);
    return [0, high * 1.08 || 1];
  }

  #axes(to, area, color, first, last) {
    to.strokeStyle = color('--edge');
    to.lineWidth = 1;
    for (let i = 0; i <= 4; ++i) {
      const y = area.bottom - (i / 4) * (area.bottom - area.top);
      to.beginPath();
      to.moveTo(area.left, Math.round(y) + 0.5);
      to.lineTo(area.right, Math.round(y) + 0.5);
      to.stroke();
      this.curves.forEach((curve, k) => {
        const [low, high] = this.#range(curve);
        to.fillStyle = color(curve.color);
        to.textAlign = k ? 'left' : 'right';
        to.fillText(
          new Intl.NumberFormat('en', {maximumSignificantDigits: 2, notation: 'compact'}).format(
            low + ((high - low) * i) / 4,
          ),
          k ? area.right + 6 : area.left - 6,
          y + 4,
        );
      });
    }
    const number = new Intl.NumberFormat('en', {notation: 'compact', maximumSignificantDigits: 4});
    to.fillStyle = color('--quiet');
    to.textAlign = 'left';
    to.fillText(number.format(first), area.left, area.bottom + 16);
    to.textAlign = 'right';
    to.fillText(`${number.format(last)} ${this.unit}`, area.right, area.bottom + 16);
  }

  #paintMarks(to, area, color, across, first, last) {
    to.textAlign = 'center';
    let free = 0;
    for (const {x, kind} of this.marks) {
      if (x < first || x > last || !kMarks[kind]) continue;
      const at = Math.round(across(x)) + 0.5,
        [letter, name] = kMarks[kind];
      to.strokeStyle = to.fillStyle = color(name);
      to.setLineDash([3, 3]);
      to.beginPath();
      to.moveTo(at, area.top);
      to.lineTo(at, area.bottom);
      to.stroke();
      to.setLineDash([]);
      if (at < free) continue;
      to.fillText(letter, at, area.top - 5);
      free = at + 10;
    }
  }

  #paintCurve(to, area, color, across, curve) {
    const {series} = curve,
      [low, high] = this.#range(curve),
      line = this.#smoothed(series);
    const down = value => area.bottom - ((value - low) / (high - low)) * (area.bottom - area.top);
    to.strokeStyle = color(curve.color);
    to.lineJoin = 'round';
    const draw = (values, width, alpha) => {
      to.globalAlpha = alpha;
      to.lineWidth = width;
      to.beginPath();
      for (let i = 0; i < series.count; ++i) to.lineTo(across(series.x[i]), down(values[i]));
      to.stroke();
    };
    draw(series.low, 1, 0.25);
    draw(series.high, 1, 0.25);
    draw(line, 2.2, 1);
    to.globalAlpha = 1;
  }

  #describe() {
    const told = this.curves
      .filter(each => each.series.count)
      .map(({name, series}) => {
        const now = series.mean[series.count - 1],
          begun = series.mean[0];
        return `${name} ${+now.toPrecision(4)}, ${+begun.toPrecision(4)} at the beginning`;
      });
    this.text.textContent = told.join(' · ');
    this.canvas.setAttribute('aria-label', told.length ? `Curves: ${told.join('; ')}` : 'No curve yet');
  }

  csv() {
    const rows = [[this.unit, 'curve', 'low', 'mean', 'high']];
    for (const {name, series} of this.curves)
      for (let i = 0; i < series.count; ++i)
        rows.push([series.x[i], name, series.low[i], series.mean[i], series.high[i]]);
    return rows.map(row => row.join(',')).join('\n') + '\n';
  }
}
