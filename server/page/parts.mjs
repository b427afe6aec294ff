// SPDX-License-Identifier: Apache-2.0
// Elements, notes, confirmation, and buttons that act on the server.

import {curlOf, json} from './api.mjs';

export const find = id => document.getElementById(id);
export const grouped = value => new Intl.NumberFormat('en').format(value);
export const bytes = value =>
  new Intl.NumberFormat('en', {
    notation: 'compact',
    style: 'unit',
    unit: 'byte',
    unitDisplay: 'narrow',
    maximumSignificantDigits: 3,
  }).format(value);

/** An element; texts go in as text alone, since names come from files. */
export function element(tag, properties = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...inside.map(each => (each instanceof Node ? each : String(each))));
  return made;
}

/** Fills a list of terms with pairs of a name and a text. */
export function fill(list, pairs) {
  list.replaceChildren(...pairs.flatMap(([name, text]) => [element('dt', {}, name), element('dd', {}, text)]));
}

let hiding = 0;
export function note(text) {
  const box = find('note');
  box.textContent = text;
  box.className = '';
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    box.className = 'hidden-note';
  }, 6000);
}

const kBetween = 5000; // ms between two messages to a screen reader
let said = 0;
export function say(text) {
  if (Date.now() - said < kBetween) return;
  said = Date.now();
  find('say').textContent = text;
}

export function confirmed(text) {
  const dialog = find('confirm');
  find('confirm-text').textContent = text;
  dialog.showModal();
  // Not by the event `close`: it may come when the next question stands there already.
  return new Promise(resolve => {
    dialog.querySelector('form').onsubmit = event => resolve(event.submitter.value === 'ok');
    dialog.oncancel = () => resolve(false);
  });
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    note(`Copied: ${text.length > 300 ? `${text.slice(0, 300)} ...` : text}`);
  } catch {
    note(text); // it can be selected and copied there
  }
}

/** A button that copies a request as a command line. `call`: a function that gives [method, path, body]. */
export function curlButton(label, call) {
  return element(
    'button',
    {
      type: 'button',
      className: 'curl',
      title: 'copy as curl',
      ariaLabel: `Copy as curl: ${label}`,
      onclick: () => copy(curlOf(...call())),
    },
    'curl',
  );
}

/** A button that sends a request, and one that copies it. Options: warning (asked first), done (what to do with the
 * answer), main. */
export function action(label, call, {warning, done, main = false, name = label} = {}) {
  const button = element('button', {type: 'button', className: main ? 'main' : '', ariaLabel: name}, label);
  button.onclick = async () => {
    if (warning && !(await confirmed(warning))) return;
    button.disabled = true;
    try {
      const [method, path, body] = call();
      const answer = await json(method, path, body);
      await done?.(answer);
      say(`${name}: done`);
    } catch (error) {
      note(`${name}: ${error.message}`);
    }
    button.disabled = false;
  };
  return element('span', {className: 'pair'}, button, curlButton(name, call));
}

export function save(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], {type}));
  element('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Bars of values around zero, for pictures of outputs. */
export function paintBars(canvas, values, label) {
  const ratio = devicePixelRatio || 1,
    style = getComputedStyle(document.documentElement);
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  const to = canvas.getContext('2d'),
    most = Math.max(...values.map(Math.abs), 1e-12),
    middle = canvas.height / 2;
  const step = canvas.width / values.length;
  values.forEach((value, i) => {
    to.fillStyle = style.getPropertyValue(value < 0 ? '--blue' : '--accent');
    to.fillRect(i * step, middle, Math.max(step - (step > 4 ? 1 : 0), 0.5), (-value / most) * middle);
  });
  canvas.setAttribute('aria-label', label);
}
