// SPDX-License-Identifier: Apache-2.0
// Trying a mesh: drawing a digit, typing inputs, teaching the right answer, generating text.

import {curlOf, json, readEvents, request} from './api.mjs';
import {action, copy, curlButton, element, find, note} from './parts.mjs';

const kSides = {64: 8, 784: 28};
const kPen = 0.085; // of the paper
const kMostTyped = 4096; // inputs
const kMostTaught = 64; // labels that have a button
const kApart = 120; // ms between two requests while a hand draws

/** Gray values 0 to 1 of a drawing, as the sets of digits have them: the drawing fills 8 x 8 (optdigits), or 20 x 20 in
 * the middle of 28 x 28 (MNIST). `alpha`: [size][size] of the paper, 0 to 255. */
export function digitOf(alpha, size, side) {
  let left = size,
    top = size,
    right = -1,
    bottom = -1;
  for (let i = 0; i < alpha.length; ++i) {
    if (alpha[i] < 24) continue;
    const x = i % size,
      y = Math.floor(i / size);
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  const out = new Float32Array(side * side);
  if (right < 0) return out;
  const box = side === 28 ? 20 : side,
    scale = Math.max(right - left + 1, bottom - top + 1) / box;
  const x0 = (left + right + 1) / 2 - (side / 2) * scale,
    y0 = (top + bottom + 1) / 2 - (side / 2) * scale;
  const fine = 6; // points each way that a value is the mean of
  for (let y = 0; y < side; ++y)
    for (let x = 0; x < side; ++x) {
      let sum = 0;
      for (let k = 0; k < fine * fine; ++k) {
        const px = Math.floor(x0 + (x + ((k % fine) + 0.5) / fine) * scale),
          py = Math.floor(y0 + (y + (Math.floor(k / fine) + 0.5) / fine) * scale);
        if (px >= 0 && py >= 0 && px < size && py < size) sum += alpha[py * size + px];
      }
      out[y * side + x] = sum / (255 * fine * fine);
    }
  return out;
}

/** Shares of a softmax, largest first, as [index, share]; values that are shares already stay. */
export function ranked(values) {
  const all = values.reduce((a, b) => a + b, 0);
  if (Math.abs(all - 1) < 1e-3 && values.every(value => value >= 0))
    return values.map((value, i) => [i, value]).sort((a, b) => b[1] - a[1]);
  const most = Math.max(...values),
    powers = values.map(value => Math.exp(value - most)),
    sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power, i) => [i, power / sum]).sort((a, b) => b[1] - a[1]);
}

export class Trial {
  #values = [];
  #side = 0;
  #timer = 0;
  #pen = null;
  #isEmpty = true;

  constructor() {
    const paper = find('paper');
    paper.addEventListener('pointerdown', event => {
      paper.setPointerCapture(event.pointerId);
      this.#draw(event, true);
    });
    paper.addEventListener('pointermove', event => {
      if (event.buttons) this.#draw(event, false);
    });
    paper.addEventListener('keydown', event => this.#key(event));
    find('numbers').addEventListener('input', () => this.#later());
  }

  /** Sets the box up for a mesh: its statistics, and the path of its routes. */
  begin(path, mesh) {
    this.path = path;
    this.mesh = mesh;
    this.input = mesh.inputs[0];
    this.output = mesh.outputs[0];
    this.#side = mesh.inputs.length === 1 ? (kSides[this.input?.width] ?? 0) : 0;
    const typed = mesh.inputs.length === 1 && this.input.width <= kMostTyped && !this.#side;
    find('try').hidden = (!this.#side && !typed) || !this.output;
    find('draw').hidden = !this.#side;
    find('values').hidden = !typed;
    if (find('try').hidden) return;
    find('try-title').textContent = this.#side ? 'Draw a digit' : `Try it: ${this.input.width} inputs`;
    if (typed) find('numbers').value = Array.from({length: this.input.width}, (_, i) => (i === 0 ? 1 : 0)).join(', ');
    find('try-actions').replaceChildren(
      element('button', {type: 'button', onclick: () => this.clear()}, 'Clear'),
      curlButton('ask the mesh', () => this.#call()),
    );
    this.#makeTeach();
    this.clear();
  }

  clear() {
    const paper = find('paper');
    paper.getContext('2d').clearRect(0, 0, paper.width, paper.height);
    this.#isEmpty = true;
    find('answers').replaceChildren();
    this.#see();
    for (const each of find('teach').querySelectorAll('button')) each.disabled = this.#side > 0;
  }

  #call() {
    return ['POST', `${this.path}/forward`, {inputs: {[this.input.name]: [this.#values]}, outputs: [this.output.name]}];
  }

  #makeTeach() {
    const box = find('teach'),
      {learners, sessions} = this.mesh;
    box.replaceChildren();
    box.hidden = learners !== 1 || sessions !== 1 || this.output.width < 2 || this.output.width > kMostTaught;
    if (box.hidden) return;
    const call = label => [
      'POST',
      `${this.path}/learn`,
      {samples: [{inputs: {[this.input.name]: this.#values}, targets: {[this.output.name]: label}}]},
    ];
    box.append(
      element('span', {className: 'quiet'}, 'Teach it: this is'),
      ...Array.from({length: this.output.width}, (_, label) => {
        const button = element('button', {type: 'button', ariaLabel: `Teach it: this is ${label}`}, label);
        button.onclick = async () => {
          try {
            await json(...call(label));
            await this.ask();
          } catch (error) {
            note(error.message);
          }
        };
        return button;
      }),
    );
  }

  #draw(event, begins) {
    const paper = find('paper'),
      box = paper.getBoundingClientRect(),
      scale = paper.width / box.width;
    this.#stroke((event.clientX - box.left) * scale, (event.clientY - box.top) * scale, begins);
  }

  #stroke(x, y, begins) {
    const paper = find('paper'),
      to = paper.getContext('2d');
    if (begins || !this.#pen) this.#pen = {x, y};
    to.strokeStyle = '#fff';
    to.lineWidth = paper.width * kPen;
    to.lineCap = to.lineJoin = 'round';
    to.beginPath();
    to.moveTo(this.#pen.x, this.#pen.y);
    to.lineTo(x, y + 0.01);
    to.stroke();
    this.#pen = {x, y};
    this.#isEmpty = false;
    this.#later();
  }

  #key(event) {
    const paper = find('paper'),
      step = paper.width / 16,
      moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]};
    const move = moves[event.key],
      at = this.#pen ?? {x: paper.width / 2, y: paper.height / 4};
    if (event.key === 'Delete' || event.key === 'Backspace') this.clear();
    else if (event.key === ' ') this.isDown = !this.isDown;
    else if (!move) return;
    event.preventDefault();
    if (!move) return;
    const to = {
      x: Math.max(0, Math.min(paper.width, at.x + move[0])),
      y: Math.max(0, Math.min(paper.height, at.y + move[1])),
    };
    if (this.isDown) this.#stroke(to.x, to.y, false);
    else this.#pen = to;
  }

  /** The picture as the mesh gets it. */
  #see() {
    if (!this.#side) return;
    const paper = find('paper'),
      data = paper.getContext('2d').getImageData(0, 0, paper.width, paper.height).data;
    const alpha = new Uint8Array(paper.width * paper.height).map((_, i) => data[4 * i + 3]);
    this.#values = [...digitOf(alpha, paper.width, this.#side)].map(value => +value.toFixed(3));
    const seen = find('seen'),
      image = new ImageData(this.#side, this.#side);
    seen.width = seen.height = this.#side;
    seen.style.imageRendering = 'pixelated';
    this.#values.forEach((value, i) => image.data.set([255 * value, 225 * value, 190 * value, 255], 4 * i));
    seen.getContext('2d').putImageData(image, 0, 0);
  }

  #later() {
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      this.ask();
    }, kApart);
  }

  async ask() {
    if (this.#side) this.#see();
    else
      this.#values = find('numbers')
        .value.split(/[\s,;]+/)
        .filter(Boolean)
        .map(Number);
    if (this.#side && this.#isEmpty) return;
    for (const each of find('teach').querySelectorAll('button')) each.disabled = false;
    try {
      const answer = await json(...this.#call());
      this.#show(answer.outputs[this.output.name][0]);
    } catch (error) {
      find('answers').replaceChildren(element('p', {className: 'quiet'}, error.message));
    }
  }

  #show(values) {
    const isClass = (this.output.width > 1 && this.mesh.learners > 0) || this.#side > 0;
    const rows = isClass
      ? ranked(values)
          .slice(0, 3)
          .map(([i, share]) => [i, share, `${(share * 100).toFixed(1)} %`])
      : values
          .slice(0, 16)
          .map((value, i) => [i, Math.abs(value) / Math.max(...values.map(Math.abs), 1e-12), +value.toPrecision(4)]);
    find('answers').replaceChildren(
      ...rows.map(([name, part, text]) => {
        const bar = element('i');
        bar.style.setProperty('--part', `${Math.round(part * 100)}%`);
        return element('div', {className: 'answer'}, element('span', {}, name), bar, element('span', {}, text));
      }),
    );
  }
}

// --- text

/** Shows the box where a language model answers, and lets it write. */
export async function beginGenerate(model) {
  const box = find('generate');
  box.hidden = !model;
  if (!model) return;
  let stop = null;
  const call = () => [
    'POST',
    '/v1/completions',
    {
      model,
      prompt: find('prompt').value,
      max_tokens: +find('max-tokens').value,
      temperature: +find('temperature').value,
      top_p: +find('top-p').value,
      seed: +find('seed').value,
      stream: true,
    },
  ];
  find('generate-curl').onclick = () => copy(curlOf(...call()));
  find('generate-stop').onclick = () => stop?.abort();
  box.querySelector('form').onsubmit = async event => {
    event.preventDefault();
    stop?.abort();
    stop = new AbortController();
    find('generate-stop').disabled = false;
    try {
      await write(call(), stop.signal);
    } catch (error) {
      if (error.name !== 'AbortError') note(error.message);
    }
    find('generate-stop').disabled = true;
  };
}

async function write([method, path, body], signal) {
  const out = find('generated'),
    begun = performance.now();
  out.textContent = '';
  let first = 0,
    tokens = 0;
  await readEvents(await request(method, path, {body, signal}), ({data}) => {
    if (data === '[DONE]') return;
    const part = JSON.parse(data);
    if (part.error) throw new Error(part.error.message);
    first ||= performance.now();
    ++tokens;
    out.textContent += part.choices[0]?.text ?? '';
    const rate =
      tokens > 1 ? `, ${(((tokens - 1) / (performance.now() - first)) * 1000).toFixed(1)} parts a second` : '';
    find('generate-speed').textContent = `${(first - begun).toFixed(0)} ms to the first${rate}`;
  });
}
