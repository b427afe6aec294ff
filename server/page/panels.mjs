// SPDX-License-Identifier: Apache-2.0
// Panels beside the cells: statistics, events, faults, sessions, weights, what lasts, one cell.

import {json, request} from './api.mjs';
import {kStatuses} from './heatmap.mjs';
import {action, bytes, copy, element, fill, find, grouped, note, paintBars, save, say} from './parts.mjs';

const kMostEvents = 200;
const kDtypes = ['float32', 'bfloat16', 'float16', 'fp8_e4m3', 'int8', 'int4', 'ternary', 'binary'];
const compact = new Intl.NumberFormat('en', {notation: 'compact', maximumSignificantDigits: 4});
const milliseconds = seconds => `${(seconds * 1000).toPrecision(2)} ms`;
const total = counts => Object.values(counts).reduce((sum, each) => sum + each, 0);
const countsText = counts =>
  Object.entries(counts)
    .map(([name, count]) => `${name} ${grouped(count)}`)
    .join(' · ');

/** The row of numbers under the header. */
export function showTiles(now) {
  const faults = total(now.faults) + now.escalations;
  const tiles = [
    ['tick', grouped(now.ticks)],
    ['ticks a second', compact.format(now.ticks_per_second)],
    ['samples', grouped(now.samples)],
    ['accuracy', now.prequential_accuracy === null ? '–' : `${(now.prequential_accuracy * 100).toFixed(1)} %`],
    ['mean loss', now.mean_loss === null ? '–' : now.mean_loss.toPrecision(3)],
    ['weights', `v${now.weight_version} · ${bytes(now.weight_bytes)}`],
    ['sessions', grouped(now.sessions)],
    ['faults', grouped(faults)],
  ];
  const list = find('tiles');
  if (!list.children.length)
    list.append(...tiles.map(([name]) => element('div', {}, element('dt', {}, name), element('dd'))));
  tiles.forEach(([, text], i) => {
    const dd = list.children[i].lastChild;
    if (dd.textContent !== text) dd.textContent = text;
  });
  list.lastChild.className = faults ? 'bad' : '';
  const phase = find('phase');
  phase.textContent = now.phase;
  phase.className = `pill ${now.phase === 'running' ? 'good' : 'bad'}`;
}

const counted = count => (count === 1 ? '1 cell' : `${grouped(count)} cells`);

export function showFaults(now, path) {
  const bar = find('status-bar');
  bar.replaceChildren(
    ...kStatuses
      .filter(name => now.cells[name])
      .map(name => {
        const part = element('span', {className: name, title: `${name}: ${counted(now.cells[name])}`});
        part.style.flexGrow = now.cells[name];
        return part;
      }),
  );
  bar.setAttribute('aria-label', `Cells: ${countsText(now.cells)}`);
  const seen = kStatuses.filter(name => now.cells[name]);
  fill(find('faults'), [
    ['cells', seen.map(name => `${name} ${grouped(now.cells[name])}`).join(' · ')],
    ...(total(now.faults)
      ? [
          ['faults', countsText(now.faults)],
          ['answered by', countsText(now.decisions)],
        ]
      : [['faults', 'none']]),
    ...(now.escalations ? [['escalations', grouped(now.escalations)]] : []),
  ]);
  const actions = find('fault-actions'),
    isHalted = now.phase === 'halted';
  if (isHalted && !actions.children.length)
    actions.append(action('Resume', () => ['POST', `${path}/resume`, {}], {main: true}));
  if (!isHalted) actions.replaceChildren();
}

/** Checkpoint and journal: the part of the ticks that would be lost. */
export function showKept(now) {
  if (!now.has_data_directory)
    return fill(find('kept'), [['kept', 'nothing: the mesh is in memory alone (--state DIR keeps it)']]);
  const gap = now.journal ? now.ticks - now.journal.acknowledged : 0;
  fill(find('kept'), [
    [
      'checkpoint',
      now.checkpoint
        ? [
            `tick ${grouped(now.checkpoint.ticks)}`,
            bytes(now.checkpoint.bytes),
            `pause ${milliseconds(now.checkpoint.pause_seconds)}`,
          ].join(' · ')
        : 'none yet',
    ],
    [
      'journal',
      now.journal ? `tick ${grouped(now.journal.acknowledged)} is on the device · ${bytes(now.journal.bytes)}` : 'none',
    ],
    ['at risk', gap > 0 ? `${grouped(gap)} ticks` : 'nothing'],
    ...(now.failed_checkpoints ? [['failed', grouped(now.failed_checkpoints)]] : []),
    ...(now.journal?.error ? [['error', now.journal.error]] : []),
  ]);
}

export function makeKeptActions(path, hasHome) {
  const hash = action('State hash', () => ['GET', `${path}/hash`], {
    done: answer => copy(`${answer.hash} (tick ${answer.tick})`),
  });
  const entity = element(
    'button',
    {
      type: 'button',
      onclick: async () => {
        try {
          save('mesh.entity', await (await request('GET', `${path}/entity`)).arrayBuffer(), 'application/octet-stream');
        } catch (error) {
          note(error.message);
        }
      },
    },
    'Download .entity',
  );
  find('kept-actions').replaceChildren(
    ...(hasHome ? [action('Checkpoint now', () => ['POST', `${path}/checkpoint`, {}], {main: true})] : []),
    hash,
    entity,
  );
}

// --- events

const kTold = {
  checkpoint: data =>
    `tick ${grouped(data.tick)}, ${bytes(data.bytes)}, pause ${milliseconds(data.pause_s)}`,
  fault: data => `${countsText(data.faults)}${data.escalations ? `, ${data.escalations} escalated` : ''}`,
  weights: data => `version ${data.version} (${data.op})`,
  sessions: data =>
    `${data.sessions.length}: ${data.sessions.slice(0, 8).join(', ')}${data.sessions.length > 8 ? ', ...' : ''}`,
  phase: data => data.phase,
  drift: data =>
    `at sample ${grouped(data.sample)}: ${(data.before * 100).toFixed(0)} % before, ${(data.after * 100).toFixed(0)} %` +
    (data.recovery_samples ? ` after ${grouped(data.recovery_samples)} samples` : ' now'),
  gap: data => `${data.lost} events are gone`,
};

/** Adds an event to the list; returns its kind, for the chart's marks. */
export function showEvent(name, data) {
  const list = find('events'),
    kinds = find('kind');
  const kind = name === 'drift' ? data.kind : name;
  const row = element(
    'li',
    {className: kind},
    element('time', {}, new Date().toLocaleTimeString('en-GB')),
    element('span', {}, element('b', {}, kind), ` ${kTold[name]?.(data) ?? ''}`),
  );
  row.hidden = kinds.value !== '' && kinds.value !== kind;
  list.prepend(row);
  while (list.children.length > kMostEvents) list.lastChild.remove();
  if (![...kinds.options].some(each => each.value === kind)) kinds.append(element('option', {value: kind}, kind));
  if (['fault', 'drift', 'phase'].includes(name)) say(row.lastChild.textContent);
  return kind;
}

export function filterEvents() {
  const wanted = find('kind').value;
  for (const row of find('events').children) row.hidden = wanted !== '' && row.className !== wanted;
}

// --- sessions and weights

export async function loadSessions(path) {
  const {sessions} = await json('GET', `${path}/sessions`);
  const again = () => loadSessions(path).catch(error => note(error.message));
  find('sessions').replaceChildren(
    ...sessions.map(({session, lane}) => {
      const one = `${path}/sessions/${encodeURIComponent(session)}`;
      const actions = element(
        'td',
        {},
        action('Reset', () => ['POST', `${one}/reset`, {}], {
          name: `Reset session ${session}`,
          warning: `Session "${session}" goes back to zero: what it holds is lost.`,
        }),
      );
      if (sessions.length > 1)
        actions.append(
          action('Remove', () => ['DELETE', one], {
            name: `Remove session ${session}`,
            warning: `Session "${session}" is removed with all that it holds.`,
            done: again,
          }),
        );
      return element('tr', {}, element('td', {}, session), element('td', {className: 'number'}, lane), actions);
    }),
  );
  for (const [id, first] of [
    ['session', []],
    ['session-from', [element('option', {value: 'zero'}, 'zero')]],
  ]) {
    const select = find(id),
      before = select.value,
      prefix = first.length ? 'clone:' : '';
    select.replaceChildren(
      ...first,
      ...sessions.map(({session}) =>
        element('option', {value: prefix + session}, prefix ? `a copy of ${session}` : session),
      ),
    );
    if ([...select.options].some(each => each.value === before)) select.value = before;
  }
  find('session-label').hidden = sessions.length < 2;
}

export async function loadWeights(path, isAllowed) {
  const {weights} = await json('GET', `${path}/weights`);
  const again = () => loadWeights(path, isAllowed).catch(error => note(error.message));
  find('weights').replaceChildren(
    ...weights.reverse().map(({version, label, current}) => {
      const actions = element('td', {});
      if (current) actions.append('in use');
      else if (isAllowed)
        actions.append(
          action('Roll back', () => ['POST', `${path}/weights/rollback`, {to: version}], {
            name: `Roll back to version ${version}`,
            done: again,
            warning:
              `All weights become those of version ${version} again, under a new number. ` +
              'What was learned since is kept as a version.',
          }),
        );
      return element('tr', {}, element('td', {className: 'number'}, version), element('td', {}, label || '–'), actions);
    }),
  );
  find('weights-note').textContent = isAllowed
    ? ''
    : 'They are replaced only where the server runs with --allow-weight-update.';
  find('upload-label').hidden = !isAllowed;
}

export async function uploadWeights(path, file) {
  const answer = await json('POST', `${path}/weights`, file, {headers: {'Content-Type': 'application/octet-stream'}});
  note(`Version ${answer.version} is in use; the mesh paused for ${answer.pause_ms.toPrecision(2)} ms.`);
}

export function makeMorph(path) {
  const select = find('dtype');
  if (!select.children.length) select.append(...kDtypes.map(name => element('option', {}, name)));
  find('morph').replaceChildren(
    action('Morph', () => ['POST', `${path}/control`, {command: 'morph', dtype: select.value}], {
      warning: 'All layers that can are stored in the chosen type: outputs change by its rounding.',
      done: answer => note(`${answer.layers} layers are stored as ${select.value}.`),
    }),
  );
}

// --- one cell

export async function showCell(path, place, session) {
  const cell = await json(
    'GET',
    `${path}/cells/${place.join(',')}${session ? `?session=${encodeURIComponent(session)}` : ''}`,
  );
  find('cell-title').textContent = `Cell ${place.join(', ')}`;
  const facts = cell.layers.flatMap(layer => [
    [`layer ${layer.at[3]}`, `${layer.type} ${layer.in} → ${layer.out}, ${layer.dtype}`],
    [`reads ${layer.sources}`, layer.from.map(each => (Array.isArray(each) ? `[${each}]` : each)).join(' ') || '–'],
    [`read by ${layer.readers}`, layer.to.map(each => `[${each}]`).join(' ') || '–'],
  ]);
  fill(find('cell-facts'), [
    ['status', `${cell.status}${cell.enabled ? '' : ', disabled'}`],
    ['fires', cell.period === 1 ? 'every tick' : `every ${cell.period} ticks`],
    [
      'faults',
      cell.faults ? `${cell.faults}, last at tick ${cell.last_fault_tick}, ${cell.restarts} restarts` : 'none',
    ],
    ...facts,
  ]);
  const again = () => showCell(path, place, session).catch(error => note(error.message));
  const send = (label, command, warning) =>
    action(label, () => ['POST', `${path}/control`, {command, cell: place}], {
      warning,
      done: again,
      name: `${label} cell ${place}`,
    });
  find('cell-actions').replaceChildren(
    cell.enabled
      ? send('Disable', 'disable', `Cell ${place} stops firing and keeps its last output.`)
      : send('Enable', 'enable'),
    send('Reset', 'reset'),
  );
  find('cell').hidden = false;
  paintBars(
    find('cell-outputs'),
    cell.outputs,
    `${cell.outputs.length} outputs, from ${Math.min(...cell.outputs)} to ${Math.max(...cell.outputs)}`,
  );
}

export async function loadTable(path, metric, session) {
  const query = new URLSearchParams({metric, most: 20, ...(session ? {session} : {})});
  const {cells} = await json('GET', `${path}/cells?${query}`);
  find('table')
    .querySelector('tbody')
    .replaceChildren(
      ...cells.map(each =>
        element(
          'tr',
          {},
          element('td', {}, each.cell.join(',')),
          element('td', {}, each.type),
          element('td', {}, each.out),
          element('td', {className: 'number'}, +each.value.toPrecision(4)),
          element('td', {}, each.status),
        ),
      ),
    );
}
