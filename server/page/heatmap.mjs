// SPDX-License-Identifier: Apache-2.0
// Pictures of a grid of cells: reading frames, colors, painting, moving about by keyboard and pointer.

const kHead = 32,
  kNoCell = 255,
  kLargest = 254;
export const kMetrics = ['activity', 'value', 'faults', 'status'];
export const kStatuses = ['running', 'held', 'isolated', 'halted', 'restarted'];
const kLetters = ['', 'H', 'I', '!', 'R'];

// Points of the color maps, evenly apart: matplotlib's magma, viridis and cividis; blue, dark, orange for numbers
// with a sign.
const kPoints = {
  magma: '000004 1d1147 51127c 832681 b73779 e75263 fc8961 fec488 fcfdbf',
  viridis: '440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725',
  cividis: '00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 fee838',
  signed: '9fdcff 4aa3ff 2160c4 152c5e 09070d 5e2412 b9481a ff8d3a ffdf9c',
};
export const kPalettes = ['magma', 'viridis', 'cividis'];

/** 256 colors, RGBA in a Uint32Array as ImageData has them; the last one is transparent. */
export function palette(name) {
  const points = kPoints[name].split(' ').map(hex => [0, 2, 4].map(at => parseInt(hex.slice(at, at + 2), 16)));
  const bytes = new Uint8ClampedArray(1024);
  for (let i = 0; i < kNoCell; ++i) {
    const at = (i / kLargest) * (points.length - 1),
      left = Math.min(Math.floor(at), points.length - 2);
    for (let c = 0; c < 3; ++c)
      bytes[4 * i + c] = points[left][c] + (points[left + 1][c] - points[left][c]) * (at - left);
    bytes[4 * i + 3] = 255;
  }
  return new Uint32Array(bytes.buffer);
}

function statusPalette() {
  const bytes = new Uint8ClampedArray(1024);
  [
    [47, 143, 98],
    [240, 140, 60],
    [130, 124, 140],
    [222, 70, 60],
    [90, 150, 240],
  ].forEach((color, i) => bytes.set([...color, 255], 4 * i));
  return new Uint32Array(bytes.buffer);
}

/** The frame of a buffer, or an error that says what is wrong with it. */
export function readFrame(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < kHead || view.getUint32(0, false) !== 0x57484d31)
    throw new Error('the server sent no heat map');
  const frame = {
    width: view.getUint16(4, true),
    height: view.getUint16(6, true),
    z: view.getUint16(8, true),
    metric: kMetrics[view.getUint8(10)],
    isSigned: (view.getUint8(11) & 1) !== 0,
    isPooled: (view.getUint8(11) & 2) !== 0,
    tick: Number(view.getBigUint64(16, true)),
    low: view.getFloat32(24, true),
    high: view.getFloat32(28, true),
    codes: new Uint8Array(buffer, kHead),
  };
  if (frame.codes.length !== frame.width * frame.height) throw new Error('the server sent part of a heat map');
  return frame;
}

/** A place's number, null where no cell is. */
export function valueAt(frame, place) {
  const code = frame.codes[place];
  if (code === kNoCell) return null;
  return frame.metric === 'status' ? code : frame.low + ((frame.high - frame.low) * code) / kLargest;
}

export const shown = value =>
  Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential(2)
    : String(+value.toPrecision(4));

/** The widget: one tab stop, arrows move the focused cell. Callbacks: `choose(y, x)`, `turn(by)` to another plane. */
export class HeatMap {
  #small = document.createElement('canvas');
  #image = null;
  #colors = palette(kPalettes[0]);
  #signed = palette('signed');
  #statuses = statusPalette();
  #at = {x: 0, y: 0};
  #isFocused = false;
  #scaled = null; // the colors of the scale as it is painted

  constructor(canvas, scale, texts, callbacks) {
    Object.assign(this, {canvas, scale, texts, callbacks, frame: null, extent: null});
    canvas.addEventListener('keydown', event => this.#key(event));
    canvas.addEventListener('pointermove', event => this.#point(event));
    canvas.addEventListener('pointerleave', () => {
      this.#isFocused = document.activeElement === canvas;
      this.paint();
    });
    canvas.addEventListener('click', event => {
      this.#point(event);
      callbacks.choose(this.place());
    });
    canvas.addEventListener('focus', () => {
      this.#isFocused = canvas.matches(':focus-visible');
      this.paint();
    });
    canvas.addEventListener('blur', () => {
      this.#isFocused = false;
      this.paint();
    });
    new ResizeObserver(() => this.paint()).observe(canvas);
  }

  usePalette(name) {
    this.#colors = palette(name);
    this.paint();
  }

  /** The grid place [y, x] under the focus; of a pooled frame its first one. */
  place() {
    const {x, y} = this.#at,
      frame = this.frame,
      extent = this.extent ?? {x: 1, y: 1};
    return frame ? [Math.ceil((y * extent.y) / frame.height), Math.ceil((x * extent.x) / frame.width)] : [0, 0];
  }

  show(frame, extent) {
    this.frame = frame;
    this.extent = extent;
    this.#at = {x: Math.min(this.#at.x, frame.width - 1), y: Math.min(this.#at.y, frame.height - 1)};
    this.paint();
  }

  #table() {
    return this.frame.metric === 'status' ? this.#statuses : this.frame.isSigned ? this.#signed : this.#colors;
  }

  paint() {
    const {frame, canvas} = this;
    if (!frame || !canvas.clientWidth) return;
    const ratio = devicePixelRatio || 1,
      width = canvas.clientWidth;
    const height = Math.round(
      Math.max(width * 0.16, Math.min((width * frame.height) / frame.width, innerHeight * 0.74)),
    );
    const wide = Math.round(width * ratio),
      high = Math.round(height * ratio);
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.height = `${height}px`;
    }
    if (this.#image?.width !== frame.width || this.#image.height !== frame.height) {
      this.#small.width = frame.width;
      this.#small.height = frame.height;
      this.#image = new ImageData(frame.width, frame.height);
    }
    const image = this.#image,
      pixels = new Uint32Array(image.data.buffer),
      table = this.#table();
    for (let i = 0; i < pixels.length; ++i) pixels[i] = table[frame.codes[i]];
    this.#small.getContext('2d').putImageData(image, 0, 0);
    const to = canvas.getContext('2d');
    to.imageSmoothingEnabled = false;
    const area = this.#area();
    to.clearRect(0, 0, wide, high);
    if (area.side >= 24 * ratio) this.#paintSquares(to, table, area);
    else to.drawImage(this.#small, area.left, area.top, area.side * frame.width, area.side * frame.height);
    if (this.#isFocused) {
      to.lineWidth = 2 * ratio;
      to.strokeStyle = '#fff';
      to.strokeRect(
        area.left + this.#at.x * area.side - ratio,
        area.top + this.#at.y * area.side - ratio,
        area.side + 2 * ratio,
        area.side + 2 * ratio,
      );
    }
    this.#tell();
  }

  /** The grid on the canvas: squares, centered. */
  #area() {
    const {canvas, frame} = this;
    const side = Math.min(canvas.width / frame.width, canvas.height / frame.height);
    return {side, left: (canvas.width - side * frame.width) / 2, top: (canvas.height - side * frame.height) / 2};
  }

  /** Few cells: rounded squares with their numbers in them, so that color is not all that tells. */
  #paintSquares(to, table, {side, left, top}) {
    const {frame} = this,
      gap = Math.max(2, side * 0.03);
    to.textAlign = 'center';
    to.textBaseline = 'middle';
    to.font = `600 ${Math.round(Math.min(side * 0.2, 30))}px ui-monospace, monospace`;
    for (let i = 0; i < frame.codes.length; ++i) {
      const value = valueAt(frame, i),
        x = left + (i % frame.width) * side,
        y = top + Math.floor(i / frame.width) * side;
      const [red, green, blue] = new Uint8Array(new Uint32Array([table[frame.codes[i]]]).buffer);
      to.fillStyle = value === null ? '#88888822' : `rgb(${red},${green},${blue})`;
      to.beginPath();
      to.roundRect(x + gap, y + gap, side - 2 * gap, side - 2 * gap, Math.min(side * 0.08, 16));
      to.fill();
      if (value === null || side < 54) continue;
      to.fillStyle = red * 0.3 + green * 0.6 + blue * 0.1 > 130 ? '#000c' : '#fffc';
      to.fillText(frame.metric === 'status' ? kLetters[value] || 'ok' : shown(value), x + side / 2, y + side / 2);
    }
  }

  #tell() {
    const {frame, texts} = this,
      isStatus = frame.metric === 'status';
    const [y, x] = this.place(),
      value = valueAt(frame, this.#at.y * frame.width + this.#at.x);
    // Only changes are written: ten pictures a second would lay out the page as often.
    const write = (at, text) => at.textContent === text || (at.textContent = text);
    write(texts.low, isStatus ? '' : shown(frame.low));
    write(texts.high, isStatus ? '' : shown(frame.high));
    if (this.#scaled !== this.#table()) this.#paintScale(isStatus);
    const what = value === null ? 'no cell' : isStatus ? kStatuses[value] : `${frame.metric} ${shown(value)}`;
    const text = this.#isFocused
      ? `cell ${frame.z},${y},${x}: ${what}${frame.isPooled ? ', with those beside it' : ''}`
      : isStatus
        ? kStatuses.map((name, i) => `${name}${kLetters[i] ? ` (${kLetters[i]})` : ''}`).join(' · ')
        : '';
    write(texts.cell, text);
  }

  #paintScale(isStatus) {
    this.#scaled = this.#table();
    this.scale.hidden = isStatus;
    const line = this.scale.getContext('2d'),
      image = line.createImageData(255, 1);
    new Uint32Array(image.data.buffer).set(this.#scaled.subarray(0, 255));
    line.putImageData(image, 0, 0);
  }

  #point(event) {
    if (!this.frame) return;
    const box = this.canvas.getBoundingClientRect(),
      area = this.#area(),
      ratio = this.canvas.width / box.width;
    const x = Math.floor(((event.clientX - box.left) * ratio - area.left) / area.side);
    const y = Math.floor(((event.clientY - box.top) * ratio - area.top) / area.side);
    this.#isFocused = x >= 0 && y >= 0 && x < this.frame.width && y < this.frame.height;
    if (this.#isFocused) this.#at = {x, y};
    this.paint();
  }

  #key(event) {
    if (!this.frame) return;
    const {width, height} = this.frame,
      at = this.#at;
    const moves = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
      Home: [-width, 0],
      End: [width, 0],
    };
    const move = moves[event.key];
    if (move)
      this.#at = {
        x: Math.max(0, Math.min(width - 1, at.x + move[0])),
        y: Math.max(0, Math.min(height - 1, at.y + move[1])),
      };
    else if (event.key === 'PageUp') this.callbacks.turn(-1);
    else if (event.key === 'PageDown') this.callbacks.turn(1);
    else if (event.key === 'Enter') this.callbacks.choose(this.place());
    else return;
    event.preventDefault();
    this.#isFocused = true;
    this.paint();
  }
}
