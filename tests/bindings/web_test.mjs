// SPDX-License-Identifier: Apache-2.0
// The WebAssembly package in node: golden hashes of the native program, errors, files, snapshots.
//   node web_test.mjs PACKAGE EXPECTED.json      EXPECTED: what tests/bindings/web_test.py computed natively

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [, , folder, expectedPath] = process.argv;
const began = performance.now();
const { load } = await import(pathToFileURL(`${folder}/weft.mjs`).href);
const { Mesh, Learner, Snapshot, WeftError, version } = await load();
const XOR = { weft: 2, inputs: { x: [2] }, chain: [{ type: 'dense', out: 16, activation: 'tanh' },
                                                  { type: 'dense', out: 2 }], learning: { rule: 'fw_dtp' } };
new Mesh(XOR).tick();
console.log(`version ${version}, first tick ${Math.round(performance.now() - began)} ms after loading began`);

// Results of the native library, JSON of networks, samples and hashes.
const expected = JSON.parse(readFileSync(expectedPath, 'utf8'));
let count = 0;
for (const row of expected.learned) {
  const mesh = new Mesh(row.network);
  const learner = new Learner(mesh, row.options);
  const inputs = Object.fromEntries(Object.entries(row.inputs).map(([k, v]) => [k, Float32Array.from(v)]));
  const targets = row.labels ? Object.fromEntries(Object.entries(row.labels).map(([k, v]) => [k, Uint32Array.from(v)]))
    : Object.fromEntries(Object.entries(row.values).map(([k, v]) => [k, Float32Array.from(v)]));
  learner.learn(inputs, targets, row.samples);
  learner.drain();
  assert.equal(mesh.stateHash(), row.hash, row.name);
  learner.destroy();
  mesh.destroy();
  count += 1;
}
const wrong = [];
for (const row of expected.ticked) {
  const mesh = new Mesh(row.network);
  for (const [port, values] of Object.entries(row.inputs)) mesh.setInput(port, values);
  mesh.tick(row.ticks);
  if (mesh.stateHash() !== row.hash) wrong.push(row.name);
  mesh.destroy();
  count += 1;
}
assert.deepEqual(wrong, []);
console.log(`${count} hashes equal the native ones`);

// Calls.
const mesh = new Mesh(XOR);
const learner = new Learner(mesh);
const x = [[0, 0], [0, 1], [1, 0], [1, 1]];
for (let i = 0; i < 2000; i++) learner.learnOne(x[i % 4], [0, 1, 1, 0][i % 4]);
for (let i = 0; i < 4; i++) {
  const y = learner.predictOne(x[i]);
  assert.equal(y[1] > y[0] ? 1 : 0, [0, 1, 1, 0][i]);
}
assert.deepEqual([...learner.predict({ x: x.flat() }, 4).y].length, 8);
assert.equal(learner.counts().samples, 2000);
assert.throws(() => mesh.tick(), (error) => error instanceof WeftError && error.kind === 'invalid_argument');
assert.throws(() => learner.learnOne([1, 2, 3], 0), { kind: 'shape_mismatch' });
assert.throws(() => new Mesh('{'), { kind: 'parse_failed' });
assert.throws(() => new Mesh({ ...XOR, sed: 1 }), { kind: 'unknown_name' });
assert.throws(() => mesh.tick(-1), RangeError);
learner.destroy();
learner.destroy();
assert.throws(() => learner.drain(), { kind: 'bad_handle' });

mesh.setInput('x', [1, 0]);
mesh.tick(5);
const there = mesh.stateHash();
const kept = mesh.takeSnapshot();
const again = Mesh.fromBytes(mesh.toBytes());
mesh.tick(2);
assert.notEqual(mesh.stateHash(), there);
mesh.restoreSnapshot(kept);
assert.deepEqual([mesh.stateHash(), again.stateHash()], [there, there]);
assert.throws(() => Mesh.fromBytes(new Uint8Array([69, 78, 84, 73, 84, 89])), WeftError);
assert.equal(mesh.run({ x: [1, 0, 0, 1] }, 2).y.length, 4);
assert.equal(mesh.forward({ x: [1, 0, 0, 1] }, 2).y.length, 4);
assert.equal(mesh.weights([0]).length, 32);
mesh.morph([1], 'int8');
assert.equal(mesh.description.layers[1].dtype, 'int8');
assert.equal(mesh.addSession(), 1);
assert.equal(new Snapshot() instanceof Snapshot, true);

// Files written here are read natively, and the other way round.
if (expected.entity?.plain) {
  const native = Mesh.fromBytes(new Uint8Array(Buffer.from(expected.entity.plain, 'base64')));
  assert.equal(native.stateHash(), expected.entity.hash);
}
if (process.argv[4]) {
  const { writeFileSync } = await import('node:fs');
  writeFileSync(process.argv[4], again.toBytes());
  writeFileSync(`${process.argv[4]}.hash`, again.stateHash());
}

// Rates.
if (expected.rate) {
  const digits = new Mesh(expected.rate.network);
  const teacher = new Learner(digits, expected.rate.options);
  const inputs = { [expected.rate.input]: Float32Array.from(expected.rate.x) };
  const targets = { [expected.rate.output]: Uint32Array.from(expected.rate.y) };
  teacher.learn(inputs, targets, expected.rate.y.length);
  const start = performance.now();
  let samples = 0;
  while (performance.now() - start < 1000) {
    teacher.learn(inputs, targets, expected.rate.y.length);
    teacher.clearScores();
    samples += expected.rate.y.length;
  }
  console.log(`digits: ${Math.round(samples / (performance.now() - start) * 1000)} samples/s`);
}
