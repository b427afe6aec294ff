// SPDX-License-Identifier: Apache-2.0
// The WebAssembly package in node: hashes of the native program in both modules, errors, files, snapshots, agents.
//   node web_test.mjs PACKAGE EXPECTED.json FILE    EXPECTED: what tests/bindings/web_test.py computed natively

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

import { compare } from './web_rows.mjs';

const [, , folder, expectedPath, file] = process.argv;
const { load, readFolder, WeftError: Thrown } = await import(pathToFileURL(`${folder}/weft.mjs`).href);
const expected = JSON.parse(readFileSync(expectedPath, 'utf8'));
const XOR = { weft: 2, inputs: { x: [2] }, chain: [{ type: 'dense', out: 16, activation: 'tanh' },
                                                  { type: 'dense', out: 2 }], learning: { rule: 'fw_dtp' } };
const x = [[0, 0], [0, 1], [1, 0], [1, 1]];

for (const simd of [true, false]) {
  const began = performance.now();
  const weft = await load({ simd });
  const mesh = new weft.Mesh(XOR);
  mesh.tick();
  console.log(`${simd ? 'vectors' : 'scalars'}: first tick ${Math.round(performance.now() - began)} ms after loading began`);
  const { wrong, count } = compare(weft, expected);
  assert.deepEqual(wrong, []);
  console.log(`${count} hashes equal the native ones`);
  calls(weft);
  lateMisuse(weft);
  await agents(weft);
}
assert.equal(Thrown.name, 'WeftError');
await assert.rejects(load({ wasmBinary: new Uint8Array(8) }), WebAssembly.CompileError);

/** A failure has code, name and text. */
function throws(act, kind) {
  assert.throws(act, (error) => {
    assert.ok(error instanceof Thrown, `${error}`);
    assert.equal(error.kind, kind, error.message);
    assert.ok(error.code > 0 && error.text.length > 0);
    return true;
  });
}

function calls({ Mesh, Learner, Snapshot }) {
  const mesh = new Mesh(XOR);
  const learner = new Learner(mesh);
  for (let i = 0; i < 2000; i++) learner.learnOne(x[i % 4], [0, 1, 1, 0][i % 4]);
  for (let i = 0; i < 4; i++) {
    const y = learner.predictOne(x[i]);
    assert.equal(y[1] > y[0] ? 1 : 0, [0, 1, 1, 0][i]);
  }
  assert.equal(learner.predict({ x: x.flat() }, 4).y.length, 8);
  assert.equal(learner.counts().samples, 2000);
  throws(() => mesh.tick(), 'invalid_argument');
  throws(() => learner.learnOne([1, 2, 3], 0), 'shape_mismatch');
  for (const wrong of [NaN, 1.5, -1, 2 ** 32]) throws(() => learner.learnOne(x[0], wrong), 'invalid_argument');
  throws(() => new Mesh('{'), 'parse_failed');
  throws(() => new Mesh({ ...XOR, sed: 1 }), 'unknown_name');
  throws(() => mesh.tick(-1), 'invalid_argument');
  throws(() => mesh.tick(NaN), 'invalid_argument');
  throws(() => mesh.setInput('x', [1, 2], 1.5), 'invalid_argument');
  throws(() => mesh.setInput('x\0y', [1, 2]), 'invalid_argument');
  throws(() => mesh.output('y', -1), 'invalid_argument');
  throws(() => mesh.outputAt(['a']), 'invalid_argument');
  throws(() => mesh.outputAt([0, 0, 0, 0, 0]), 'invalid_argument');
  throws(() => mesh.weights([0], 0.5), 'invalid_argument');
  throws(() => mesh.run({ x: [1, 2] }, 1.5), 'invalid_argument');
  throws(() => mesh.forward({ x: [1, 2] }, -1), 'invalid_argument');
  learner.destroy();
  learner.destroy();
  throws(() => learner.drain(), 'bad_handle');

  mesh.setInput('x', [1, 0]);
  mesh.tick(5);
  const there = mesh.stateHash();
  const kept = mesh.takeSnapshot();
  const again = Mesh.fromBytes(mesh.toBytes());
  mesh.tick(2);
  assert.notEqual(mesh.stateHash(), there);
  mesh.restoreSnapshot(kept);
  assert.deepEqual([mesh.stateHash(), again.stateHash()], [there, there]);
  throws(() => Mesh.fromBytes(new Uint8Array([69, 78, 84, 73, 84, 89])), 'parse_failed');
  assert.equal(mesh.run({ x: [1, 0, 0, 1] }, 2).y.length, 4);
  assert.equal(mesh.forward({ x: [1, 0, 0, 1] }, 2).y.length, 4);
  assert.equal(mesh.weights([0]).length, 32);
  mesh.morph([1], 'int8');
  assert.equal(mesh.description.layers[1].dtype, 'int8');
  assert.equal(mesh.addSession(), 1);
  assert.ok(new Snapshot() instanceof Snapshot);
  writeFileSync(file, again.toBytes());  // read natively
  writeFileSync(`${file}.hash`, again.stateHash());
}

function lateMisuse({ Mesh, Learner }) {
  const mesh = new Mesh(XOR);
  throws(() => new Learner(mesh).observe({ x: [0, 1] }), 'unsupported');
  const other = new Mesh(XOR);
  const learner = new Learner(other, { late: 'meet', patience: 3 });
  const ticket = learner.observe({ x: [0, 1] });
  assert.equal(learner.answer(ticket, 'y').length, 2);
  const before = other.stateHash();
  throws(() => learner.answer(ticket, 'z'), 'unknown_name');
  for (const act of [(t) => learner.teach(t, { y: [1] }), (t) => learner.forgo(t), (t) => learner.answer(t, 'y')]) {
    throws(() => act(999), 'out_of_range');
    for (const wrong of [NaN, -1, 0.5, '0', undefined]) throws(() => act(wrong), 'invalid_argument');
  }
  throws(() => learner.teach(ticket, { y: [7] }), 'out_of_range');
  throws(() => learner.teach(ticket, { q: [1] }), 'unknown_name');
  throws(() => learner.teach(ticket, { y: [1] }, { gradients: { y: [1, 2] } }), 'invalid_argument');
  throws(() => learner.teach(ticket, {}, { gradients: { y: [NaN, 1] } }), 'not_finite');
  throws(() => learner.teach(ticket, { y: [1] }, { weights: [NaN] }), 'not_finite');
  throws(() => learner.observe({ x: [1] }), 'shape_mismatch');
  assert.throws(() => learner.observe(undefined), TypeError);
  assert.equal(other.stateHash(), before, 'refused calls change nothing');
  learner.teach(ticket, { y: [1] });
  throws(() => learner.teach(ticket, { y: [1] }), 'invalid_argument');
  throws(() => learner.forgo(ticket), 'invalid_argument');
  const old = learner.observe({ x: [1, 1] });
  for (let i = 0; i < 4; i++) learner.observe({ x: [i & 1, 1] });
  throws(() => learner.teach(old, { y: [0] }), 'timed_out');
  assert.deepEqual(learner.expired().slice(0, 1), [old]);
  learner.clearScores();
  assert.deepEqual(learner.expired(), []);
}

async function agents({ Agent, replay }) {
  const agent = new Agent({}, XOR);
  for (let i = 0; i < 20; i++) {
    agent.learner.learnOne(x[i % 4], [0, 1, 1, 0][i % 4]);
    if (i === 9) agent.checkpoint();
  }
  agent.note('reward', '1');
  agent.mark();
  throws(() => agent.mesh.takeSnapshot(), 'unsupported');
  const files = agent.files();
  const hash = agent.mesh.stateHash();
  assert.deepEqual([replay(files, { verify: true }).stateHash, replay(files).tick], [hash, agent.mesh.ticks]);
  const again = new Agent(files);
  assert.equal(again.mesh.stateHash(), hash);
  for (const each of [agent, again]) each.learner.learnOne(x[1], 1);
  assert.equal(again.mesh.stateHash(), agent.mesh.stateHash());
  again.destroy();
  again.destroy();
  agent.destroy();
  throws(() => replay({}), 'not_found');
  throws(() => new Agent(files, { ...XOR, seed: 5 }), 'invalid_argument');
  throws(() => new Agent({ '../etc/passwd': new Uint8Array(1) }, XOR), 'invalid_argument');
  throws(() => new Agent({ name: 'text' }, XOR), 'invalid_argument');
  throws(() => replay(files, { until: -1 }), 'invalid_argument');
  const journal = [...files.keys()].filter((name) => name.startsWith('journal/journal-')).pop();
  const damaged = new Map(files);
  damaged.set(journal, Uint8Array.from(files.get(journal), (byte, i) => (i === 200 ? byte ^ 1 : byte)));
  throws(() => new Agent(damaged), 'corrupt');
  const { tick, stateHash } = expected.directories[0];
  const native = replay(await readFolder(expected.folder), { verify: true });
  assert.deepEqual([native.tick, native.stateHash], [tick, expected.directories[0].hash ?? stateHash]);
}
console.log('errors, files, snapshots, late targets and agents as described');
