// SPDX-License-Identifier: Apache-2.0
// A visitor draws digits, and a mesh learns from them; its state is kept in IndexedDB.

import { load } from '../../build/web/package/weft.mjs';

const began = performance.now();
const find = (id) => document.getElementById(id);
const { Mesh, Learner } = await load();

// The browser's database: one entry, the mesh as an .entity file.
const database = await new Promise((resolve, reject) => {
  const request = indexedDB.open('weft-digits', 1);
  request.onupgradeneeded = () => request.result.createObjectStore('mesh');
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});
const kept = (mode, act) => new Promise((resolve, reject) => {
  const request = act(database.transaction('mesh', mode).objectStore('mesh'));
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const network = await (await fetch('../digits.json')).json();
const options = { ...network.learning, schedule: 'settle' };
const saved = await kept('readonly', (store) => store.get('mesh'));
let samples = saved?.samples ?? 0;
let mesh = saved ? Mesh.fromBytes(saved.bytes) : new Mesh(network);
let learner = new Learner(mesh, options);

async function save() {
  await kept('readwrite', (store) => store.put({ bytes: mesh.toBytes(false), samples }, 'mesh'));
}

// The drawing, and the 8 x 8 numbers from 0 to 1 that the network takes of it.
const canvas = find('drawing');
const pen = canvas.getContext('2d', { willReadFrequently: true });
pen.lineWidth = 26;
pen.lineCap = pen.lineJoin = 'round';
pen.strokeStyle = '#fff';

function pixels() {
  const { data } = pen.getImageData(0, 0, 256, 256);
  const x = new Float32Array(64);
  for (let row = 0; row < 256; row++)
    for (let column = 0; column < 256; column++) x[(row >> 5) * 8 + (column >> 5)] += data[4 * (row * 256 + column)];
  return x.map((sum) => Math.round(sum / 1024 / 255 * 16) / 16);
}

const rows = Array.from({ length: 10 }, (_, digit) => {
  const row = find('answers').appendChild(document.createElement('li'));
  const button = row.appendChild(document.createElement('button'));
  button.textContent = digit;
  button.title = `This is a ${digit}: learn it`;
  button.onclick = () => teach(digit);
  return { row, bar: row.appendChild(document.createElement('span')), share: row.appendChild(document.createElement('output')) };
});

function show(said = '') {
  const answer = learner.predictOne(pixels());
  const largest = Math.max(...answer);
  const shares = Array.from(answer, (value) => Math.exp(value - largest));
  const sum = shares.reduce((a, b) => a + b);
  rows.forEach(({ row, bar, share }, digit) => {
    const part = shares[digit] / sum;
    row.className = answer[digit] === largest ? 'best' : '';
    bar.style.width = `${100 * part}%`;
    share.textContent = `${(100 * part).toFixed(1)} %`;
  });
  find('state').textContent = `${said}${samples} samples learned, state ${mesh.stateHash()}`;
}

async function teach(digit) {
  learner.learnOne(pixels(), digit);
  learner.clearScores();
  samples += 1;
  show();
  await save();
}

canvas.onpointerdown = (event) => {
  canvas.setPointerCapture(event.pointerId);
  pen.beginPath();
  pen.moveTo(event.offsetX, event.offsetY);
};
canvas.onpointermove = (event) => {
  if (!event.buttons) return;
  pen.lineTo(event.offsetX, event.offsetY);
  pen.stroke();
  show();
};
find('clear').onclick = () => {
  pen.clearRect(0, 0, 256, 256);
  show();
};
find('forget').onclick = async () => {
  learner.destroy();
  mesh.destroy();
  mesh = new Mesh(network);
  learner = new Learner(mesh, options);
  samples = 0;
  await save();
  show('Forgotten. ');
};
find('data').onclick = async () => {
  const packed = await fetch('../data/digits.csv.gz');
  const text = await new Response(packed.body.pipeThrough(new DecompressionStream('gzip'))).text();
  const table = text.trim().split('\n').map((line) => line.split(',').map(Number)).filter((row) => Number.isFinite(row[0]));
  const train = table.filter((_, i) => i % 5 !== 0);
  const start = performance.now();
  const x = Float32Array.from(train.flatMap((row) => row.slice(0, 64).map((value) => value / 16)));
  learner.learn({ pixels: x }, { digit: Uint32Array.from(train, (row) => row[64]) }, train.length);
  learner.clearScores();
  const seconds = (performance.now() - start) / 1000;
  samples += train.length;
  const test = table.filter((_, i) => i % 5 === 0);
  const right = test.filter((row) => {
    const y = learner.predictOne(row.slice(0, 64).map((value) => value / 16));
    return y.indexOf(Math.max(...y)) === row[64];
  }).length;
  show(`${train.length} digits in ${seconds.toFixed(2)} s; ${right} of ${test.length} others right. `);
  await save();
};

show(`Ready after ${Math.round(performance.now() - began)} ms. `);
document.body.dataset.ready = 'yes';
