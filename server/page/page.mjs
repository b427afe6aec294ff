// SPDX-License-Identifier: Apache-2.0
// The page of `weft serve`: which mesh is shown, and what is read of it when.

import {askForKey, EventStream, json, key, Refusal, request} from './api.mjs';
import {Chart} from './chart.mjs';
import {HeatMap, kPalettes, readFrame} from './heatmap.mjs';
import * as panels from './panels.mjs';
import {action, confirmed, element, find, note, save} from './parts.mjs';
import {beginGenerate, Trial} from './trial.mjs';

const kFrame = 100,
  kStillFrame = 1000,
  kCalmFrame = 500; // ms from picture to picture; without ticks; with reduced motion
const kHidden = 30000; // ms after which a page that nobody sees reads nothing
const kOld = 5000; // ms after which statistics are shown as old
const kLargestMap = 256,
  kMostPulsed = 4096;

const isCalm = matchMedia('(prefers-reduced-motion: reduce)');
const state = {
  mesh: '',
  path: '',
  z: 0,
  grid: [1, 1, 1],
  now: null,
  about: {},
  stream: null,
  heard: 0,
  tick: -1,
  frames: 0,
  version: -1,
  names: '',
};
const chart = new Chart(find('curve'), find('curve-text'));
const trial = new Trial();
const map = new HeatMap(
  find('map'),
  find('scale'),
  {low: find('low'), high: find('high'), cell: find('map-cell')},
  {
    choose: ([y, x]) =>
      panels
        .showCell(state.path, [state.z, y, x], session())
        .then(() => find('cell').scrollIntoView({block: 'nearest'}))
        .catch(error => note(error.message)),
    turn: by => chooseSlice(state.z + by),
  },
);

const session = () => (find('session-label').hidden ? '' : find('session').value);

// --- pictures of the cells

let waiting = 0,
  isAsking = false;

/** Asks for the next picture after `delay` ms, unless one is on its way. */
function schedule(delay) {
  clearTimeout(waiting);
  waiting = setTimeout(takeFrame, delay);
}

async function takeFrame() {
  if (isAsking || document.hidden || !state.path) return;
  isAsking = true;
  let delay = isCalm.matches ? kCalmFrame : kFrame;
  const path = state.path,
    begun = performance.now();
  try {
    const query = new URLSearchParams({
      metric: find('metric').value,
      z: state.z,
      w: kLargestMap,
      h: kLargestMap,
      ...(session() ? {session: session()} : {}),
    });
    const asked = `${path}/heatmap?${query}`;
    const headers = state.shown?.asked === asked && state.shown.tag ? {'If-None-Match': state.shown.tag} : {};
    const answer = await request('GET', asked, {headers});
    if (answer.status === 304) {
      // Pictures of a large grid come less often than they are asked for: ask less often.
      state.apart = Math.min(2 * (state.apart ?? delay), 4 * delay);
      delay = state.now?.ticks_per_second > 0 ? state.apart : kStillFrame;
    } else if (path === state.path) {
      const frame = readFrame(await answer.arrayBuffer());
      state.apart = delay;
      state.shown = {asked, tag: answer.headers.get('ETag')};
      if (frame.tick === state.tick) delay = kStillFrame;
      state.tick = frame.tick;
      document.body.dataset.frames = ++state.frames;
      document.body.dataset.tick = frame.tick;
      requestAnimationFrame(() => map.show(frame, {y: state.grid[1], x: state.grid[2]}));
    }
  } catch (error) {
    delay = error instanceof Refusal && error.status === 429 ? 300 : 2000;
  }
  isAsking = false;
  schedule(Math.max(0, delay - (performance.now() - begun)));
}

function chooseSlice(z) {
  if (z < 0 || z >= state.grid[0]) return;
  state.z = z;
  for (const each of find('slices').children) each.setAttribute('aria-pressed', String(+each.dataset.z === z));
  schedule(0);
}

function makeSlices() {
  const count = state.grid[0];
  find('slices').hidden = count < 2;
  find('slices').replaceChildren(
    ...Array.from({length: Math.min(count, 32)}, (_, z) => {
      const button = element('button', {type: 'button', onclick: () => chooseSlice(z)}, `z ${z}`);
      button.dataset.z = z;
      return button;
    }),
  );
  chooseSlice(0);
}

// --- ticks

/** Inputs of ones, or of zeros. */
const inputsOf = value => Object.fromEntries(state.now.inputs.map(({name, width}) => [name, Array(width).fill(value)]));

function makeTransport() {
  const box = find('transport'),
    {path} = state,
    soon = () => {
      schedule(0);
    };
  if (state.now.learners > 0) {
    box.replaceChildren(element('span', {className: 'quiet'}, 'This mesh ticks when it learns.'));
    return;
  }
  const rate = element(
    'select',
    {ariaLabel: 'Ticks a second'},
    ...[
      [5, '5 a second'],
      [10, '10 a second'],
      [30, '30 a second'],
      [0, 'as fast as it can'],
    ].map(([value, text]) => element('option', {value}, text)),
  );
  rate.value = '10';
  const run = () => ['POST', `${path}/run`, {mode: 'free', tick_rate: +rate.value}];
  const pulse = action('Pulse', () => ['POST', `${path}/tick`, {n: 1, inputs: inputsOf(1), outputs: []}], {
    name: 'Pulse: inputs of one for one tick, then of zero',
    done: async () => {
      await json('POST', `${path}/tick`, {n: 0, inputs: inputsOf(0), outputs: []});
      soon();
    },
  });
  pulse.hidden = state.now.inputs.some(({width}) => width > kMostPulsed);
  box.replaceChildren(
    action('Run', run, {main: true, name: 'Run by itself', done: soon}),
    rate,
    action('Stop', () => ['POST', `${path}/run`, {mode: 'stop'}], {done: soon}),
    action('Step', () => ['POST', `${path}/tick`, {n: 1, outputs: []}], {name: 'One tick', done: soon}),
    pulse,
  );
}

// --- events

function takeStatistics(now) {
  const before = state.now;
  state.now = now;
  state.heard = Date.now();
  panels.showTiles(now);
  panels.showFaults(now, state.path);
  panels.showKept(now);
  if (now.samples > 0 || now.learners > 0) {
    if (chart.unit !== 'samples') beginChart();
    if (now.samples > 0) chart.add(now.samples, [now.prequential_accuracy, now.mean_loss]);
  } else {
    chart.add(now.ticks, [now.ticks_per_second]);
  }
  if (before && now.ticks !== state.tick && !isAsking) schedule(0);
  if (now.weight_version !== state.version) {
    state.version = now.weight_version;
    panels.loadWeights(state.path, state.about.allow_weight_update).catch(error => note(error.message));
  }
}

function beginChart() {
  const {learners} = state.now;
  find('curve-title').textContent = learners > 0 ? 'Learning' : 'Speed';
  if (learners > 0)
    chart.begin('samples', [
      {name: 'accuracy', color: '--accent', fixed: [0, 1]},
      {name: 'mean loss', color: '--blue'},
    ]);
  else chart.begin('ticks', [{name: 'ticks a second', color: '--accent'}]);
}

function takeEvent(name, data) {
  if (name === 'statistics') return takeStatistics(data);
  if (name === 'bye') return undefined;
  const kind = panels.showEvent(name, data);
  if (state.now) chart.mark(data.sample ?? (state.now.learners > 0 ? state.now.samples : state.now.ticks), kind);
  if (name === 'sessions') panels.loadSessions(state.path).catch(error => note(error.message));
  return undefined;
}

function tell(how, more) {
  const link = find('link');
  link.textContent = how === 'live' ? 'live' : how === 'refused' ? more : `reconnecting in ${Math.ceil(more)} s`;
  link.className = `pill ${how === 'live' ? 'good' : how === 'refused' ? 'bad' : 'busy'}`;
  if (how === 'live') {
    state.heard = Date.now();
    schedule(0);
  }
}

setInterval(() => {
  const isOld = state.path !== '' && Date.now() - state.heard > kOld;
  document.querySelector('main').classList.toggle('old', isOld);
}, 1000);

// --- meshes

async function showMesh(name) {
  state.stream?.close();
  Object.assign(state, {
    mesh: name,
    path: `/api/v1/meshes/${encodeURIComponent(name)}`,
    now: null,
    tick: -1,
    version: -1,
  });
  const now = await json('GET', state.path);
  Object.assign(state, {now, grid: now.grid, heard: Date.now()});
  document.title = `${name} · Weft`;
  find('grid').textContent = `${now.grid.join(' × ')} cells, ${now.layers} layers`;
  find('events').replaceChildren();
  find('cell').hidden = true;
  document.querySelector('main').hidden = false;
  find('empty').hidden = true;
  beginChart();
  makeSlices();
  makeTransport();
  panels.makeKeptActions(state.path, now.has_data_directory);
  panels.makeMorph(state.path);
  trial.begin(state.path, now);
  await panels.loadSessions(state.path);
  takeStatistics(now);
  state.stream = new EventStream(`${state.path}/events?every=0.5`, takeEvent, tell);
  if (!document.hidden) state.stream.open();
  schedule(0);
}

/** Models of the OpenAI routes that write text: /v1/models is asked only where the server says that it has them. */
async function findModel() {
  if (!(state.about.features ?? []).some(each => /chat|completion/.test(each))) return null;
  const {data} = await json('GET', '/v1/models');
  const writes = each => (each.meta?.capabilities ?? ['completion']).some(one => /chat|complet|generat/.test(one));
  return data.find(writes)?.id ?? null;
}

async function begin() {
  for (;;) {
    try {
      state.about = await json('GET', '/api/v1');
      const {meshes} = await json('GET', '/api/v1/meshes');
      find('mesh').replaceChildren(...meshes.map(({name}) => element('option', {}, name)));
      find('mesh').hidden = !meshes.length;
      findModel()
        .then(beginGenerate)
        .catch(() => beginGenerate(null));
      if (meshes.length)
        return await showMesh(
          meshes.some(({name}) => name === location.hash.slice(1))
            ? (find('mesh').value = location.hash.slice(1))
            : meshes[0].name,
        );
      find('empty').hidden = false;
      find('empty').before(find('generate')); // its place is beside a mesh
      return tell('live');
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) return tell('refused', 'no key');
      tell('broken', 2);
      await new Promise(resolve => setTimeout(resolve, 2000));
    }
  }
}

function listen() {
  find('palette').append(...kPalettes.map(name => element('option', {}, name)));
  find('palette').onchange = () => map.usePalette(find('palette').value);
  const again = () => {
    if (find('table').open) loadTable();
    schedule(0);
  };
  const loadTable = () =>
    panels.loadTable(state.path, find('metric').value, session()).catch(error => note(error.message));
  find('metric').onchange = again;
  find('session').onchange = again;
  find('table').ontoggle = again;
  find('mesh').onchange = () => {
    location.hash = find('mesh').value;
  };
  addEventListener('hashchange', () => showMesh(location.hash.slice(1)).catch(error => note(error.message)));
  find('smooth').oninput = () => {
    chart.smooth = +find('smooth').value;
    chart.paint();
  };
  find('csv').onclick = () => save(`${state.mesh}.csv`, chart.csv(), 'text/csv');
  find('kind').onchange = panels.filterEvents;
  find('cell-close').onclick = () => {
    find('cell').hidden = true;
    find('map').focus();
  };
  find('key').onclick = async () => {
    if (await askForKey('It is kept until this tab is closed.')) begin();
  };
  find('session-add').onsubmit = async event => {
    event.preventDefault();
    try {
      await json('POST', `${state.path}/sessions`, {
        name: find('session-name').value,
        from: find('session-from').value,
      });
      find('session-name').value = '';
      await panels.loadSessions(state.path);
    } catch (error) {
      note(error.message);
    }
  };
  find('upload').onchange = async () => {
    const [file] = find('upload').files;
    if (
      !file ||
      !(await confirmed(`All weights become those of ${file.name}, between two ticks. The version of now is kept.`))
    )
      return;
    panels.uploadWeights(state.path, file).catch(error => note(error.message));
  };
  find('create').onchange = createMesh;
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => chart.paint());
  let leaving = 0;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(leaving);
    if (document.hidden) leaving = setTimeout(() => state.stream?.close(), kHidden);
    else {
      state.stream?.open();
      schedule(0);
    }
  });
}

async function createMesh() {
  const [file] = find('create').files,
    name = file.name.replace(/\.\w+$/, '').replace(/[^\w.-]/g, '_');
  try {
    if (file.name.endsWith('.json'))
      await json('POST', '/api/v1/meshes', {name, network: JSON.parse(await file.text())});
    else
      await json('POST', `/api/v1/meshes?name=${encodeURIComponent(name)}`, file, {
        headers: {'Content-Type': 'application/octet-stream'},
      });
    await begin();
  } catch (error) {
    note(error.message);
  }
}

listen();
begin();
