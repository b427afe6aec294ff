// SPDX-License-Identifier: Apache-2.0
// A visitor draws digits, and an agent learns from them; its data directory is kept in IndexedDB, so that it goes on after
// a reload, to the bit.

import { load } from '../../build/web/package/weft.mjs';

const began = performance.now();
const find = (id) => document.getElementById(id);
const { Agent } = await load();

// The browser's database: one entry, the agent's files.
const database = await new Promise((resolve, reject) => {
  const request = indexedDB.open('weft-digits', 2);
  request.onupgradeneeded = () => {
    for (const old of request.result.objectStoreNames) request.result.deleteObjectStore(old);
    request.result.createObjectStore('agent');
  };
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});
const kept = (mode, act) => new Promise((resolve, reject) => {
  const request = act(database.transaction('agent', mode).objectStore('agent'));
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const network = await (await fetch('../digits.json')).json();
network.learning.schedule = 'settle';
const saved = await kept('readonly', (store) => store.get('agent'));
let samples = saved?.samples ?? 0;
let agent = new Agent(saved?.files ?? {}, network);

/** A checkpoint now and then keeps the journal, and thus the next start, short. */
let journaled = 0;
async function save() {
  journaled += 1;
  if (journaled % 50 === 0) agent.checkpoint();
  const now = samples;
  await kept('readwrite', (store) => store.put({ files: agent.files(), samples: now }, 'agent'));
  document.body.dataset.saved = now;
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
  const answer = agent.learner.predictOne(pixels());
  const largest = Math.max(...answer);
  const shares = Array.from(answer, (value) => Math.exp(value - largest));
  const sum = shares.reduce((a, b) => a + b);
  rows.forEach(({ row, bar, share }, digit) => {
    const part = shares[digit] / sum;
    row.className = answer[digit] === largest ? 'best' : '';
    bar.style.width = `${100 * part}%`;
    share.textContent = `${(100 * part).toFixed(1)} %`;
  });
  const hash = agent.mesh.stateHash();
  find('state').textContent = `${said}${samples} samples learned, state ${hash}`;
  document.body.dataset.hash = hash;
}

async function teach(digit) {
  agent.learner.learnOne(pixels(), digit);
  agent.learner.clearScores();
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
  agent.destroy();
  agent = new Agent({}, network);
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
  agent.learner.learn({ pixels: x }, { digit: Uint32Array.from(train, (row) => row[64]) }, train.length);
  agent.learner.clearScores();
  const seconds = (performance.now() - start) / 1000;
  samples += train.length;
  const test = table.filter((_, i) => i % 5 === 0);
  const right = test.filter((row) => {
    const y = agent.learner.predictOne(row.slice(0, 64).map((value) => value / 16));
    return y.indexOf(Math.max(...y)) === row[64];
  }).length;
  show(`${train.length} digits in ${seconds.toFixed(2)} s; ${right} of ${test.length} others right. `);
  await save();
};

show(`Ready after ${Math.round(performance.now() - began)} ms. `);
document.body.dataset.ready = 'yes';
