// SPDX-License-Identifier: Apache-2.0
// The game's page: keys, a picture, and a channel between two windows.
//   game.html?room=NAME&delay=MS&jitter=MS&script=1    messages that come late; a player that plays by itself

import { load } from '../../build/web/package/weft.mjs';
import { BERRIES, CREATURES, HEIGHT, WIDTH, World } from './world.mjs';
import { Match } from './match.mjs';

const find = (id) => document.getElementById(id);
const wanted = new URLSearchParams(location.search);
const delay = Number(wanted.get('delay') ?? 0), jitter = Number(wanted.get('jitter') ?? 0);
const STEP = 1000 / 60;
const world = new World(await load());
const channel = new BroadcastChannel(`weft-game-${wanted.get('room') ?? 'field'}`);
const own = Math.floor(Math.random() * 2 ** 48);
let match = null, alone = false;

/** Late as over a line: in order, since a line's later messages wait for earlier ones. */
const leaving = [];
function send(message) {
  const due = Math.max(leaving.at(-1)?.due ?? 0, performance.now() + delay + Math.random() * jitter);
  leaving.push({ due, message: { from: own, ...message } });
  leave();
}
function leave() {
  while (leaving.length > 0 && leaving[0].due <= performance.now()) channel.postMessage(leaving.shift().message);
  if (leaving.length > 0) setTimeout(leave, leaving[0].due - performance.now());
}
function begin(side) {
  match = new Match(world, side, send);
  due = performance.now();
  find('alone').hidden = true;
}
const early = [];
channel.onmessage = ({ data }) => {
  if (data.kind === 'hello' && !match) {
    channel.postMessage({ kind: 'hello', from: own });
    begin(own < data.from ? 0 : 1);
    early.splice(0).forEach((each) => match.receive(each));
  } else if (!match) early.push(data);
  else if (!alone) match.receive(data);
};
channel.postMessage({ kind: 'hello', from: own });
find('alone').onclick = () => {
  if (match) return;
  alone = true;
  begin(0);
  field.focus();
};

// Input: keys, a finger, or a player that changes its mind every few frames.
const KEYS = { ArrowLeft: 1, ArrowRight: 2, ArrowUp: 4, ArrowDown: 8, a: 1, d: 2, w: 4, s: 8 };
let held = 0, pointed = 0;
addEventListener('keydown', (event) => {
  if (!(event.key in KEYS)) return;
  held |= KEYS[event.key];
  event.preventDefault();
});
addEventListener('keyup', (event) => { held &= ~(KEYS[event.key] ?? 0); });
addEventListener('blur', () => { held = pointed = 0; });
const field = find('field');
field.onpointerdown = field.onpointermove = (event) => {
  if (!event.buttons || !match) return;
  const { x, y } = world.player(match.side);
  const scale = WIDTH / field.clientWidth;
  const dx = event.offsetX * scale - x, dy = event.offsetY * scale - y;
  pointed = (dx < -12 ? 1 : dx > 12 ? 2 : 0) | (dy < -12 ? 4 : dy > 12 ? 8 : 0);
};
field.onpointerup = field.onpointercancel = () => { pointed = 0; };
/** Circles, one player's faster; changed at times. */
function scripted(frame, side) {
  const turn = Math.floor(frame / (side ? 19 : 23)) + 2 * side;
  return [2, 2 | 8, 8, 1 | 8, 1, 1 | 4, 4, 2 | 4][(turn + (turn % 5 === 0 ? 3 : 0)) % 8];
}
const isScripted = wanted.has('script');
const input = () => (isScripted ? scripted(match.frame, match.side) : held | pointed);

// Steps of one sixtieth of a second; a window that was away catches up a few at a time.
let due = 0, slowest = 0, busy = 0, firstError = 0;
function run() {
  if (match) {
    let steps = 0;
    for (; due <= performance.now() && steps < 5; steps++) {
      const start = performance.now();
      if (alone) match.receive({ kind: 'input', frame: match.known, input: scripted(match.known, 1) });
      if (!match.advance(input())) {
        due = performance.now() + STEP;
        break;
      }
      due += STEP;
      busy += performance.now() - start;
      slowest = Math.max(slowest, performance.now() - start);
      if (match.frame === 30) firstError = world.errors[0] / world.errors[1];
    }
    if (due < performance.now() - 500) due = performance.now();
    // Figures for a test to read.
    const { counts, parted, frame, side, known } = match;
    globalThis.game = { frame, side, known, parted, ...counts, off: world.errors[0], still: world.errors[1],
                        firstError, share: world.errors[0] / world.errors[1], caught: world.player(side).caught };
  }
  setTimeout(run, match ? Math.max(0, Math.min(due - performance.now(), STEP)) : STEP);
}
run();

// The picture.
const pen = field.getContext('2d');
const COLOURS = ['#4aa3ff', '#ff9d42'];
let pictures = 0, rate = 0, since = performance.now();
function disc(x, y, radius, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}
function draw() {
  pen.clearRect(0, 0, WIDTH, HEIGHT);
  for (let b = 0; b < BERRIES; b++) disc(world.berry(b).x, world.berry(b).y, 5, '#d9466f');
  for (let c = 0; c < CREATURES; c++) {
    const { x, y, aimX, aimY } = world.creature(c);
    pen.strokeStyle = `${COLOURS[c % 2]}66`;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(aimX, aimY);
    pen.stroke();
    disc(x, y, 8, '#7a8794');
    disc(x, y, 3, COLOURS[c % 2]);
  }
  for (let p = 0; p < 2; p++) {
    const { x, y } = world.player(p);
    disc(x, y, 10, COLOURS[p]);
    if (match && p === match.side) {
      pen.strokeStyle = '#fff';
      pen.lineWidth = 2;
      pen.stroke();
      pen.lineWidth = 1;
    }
  }
  pictures += 1;
  const now = performance.now();
  if (now - since > 500) {
    rate = 1000 * pictures / (now - since);
    pictures = 0;
    since = now;
    tell();
  }
  requestAnimationFrame(draw);
}
function tell() {
  if (!match) return;
  const { eaten, caught } = world.player(match.side);
  const { rollbacks, deepest, playedAgain, compared } = match.counts;
  find('you').textContent = `${match.side ? 'orange' : 'blue'}: ${eaten} berries, caught ${caught} times`;
  find('forecast').textContent = `off by ${world.errors[0].toFixed(1)} pixels; who expects you where you are, by ` +
    `${world.errors[1].toFixed(1)}`;
  find('frames').textContent = `${match.frame}, ${rate.toFixed(0)} pictures/s, a step takes ${(busy / Math.max(1, match.frame)).toFixed(2)} ms, ` +
    `the slowest ${slowest.toFixed(1)}`;
  find('rollback').textContent = alone ? 'alone' : `${rollbacks} times, up to ${deepest} frames, ${playedAgain} played again`;
  find('hashes').textContent = match.parted !== null ? `the windows parted at frame ${match.parted}`
    : alone ? 'alone' : `${compared} compared, all equal`;
}
draw();
document.body.dataset.ready = 'yes';
