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
  await arithmetic(simd);
  const { wrong, count } = compare(weft, expected);
  assert.deepEqual(wrong, []);
  console.log(`${count} hashes equal the native ones`);
  calls(weft);
  commands(weft);
  learners(weft);
  environments(weft);
  lateMisuse(weft);
  await agents(weft);
  refusedFiles(weft);
  typed(weft);
  large(weft);
  misspelt(weft);
  wrongKinds(weft);
  anyArguments(weft);
}
assert.equal(Thrown.name, 'WeftError');
await assert.rejects(load({ wasmBinary: new Uint8Array(8) }), WebAssembly.CompileError);
await assert.rejects(load({ vectors: false }), /unknown_name: option 'vectors'/);
for (const given of [null, 5, { simd: 7 }, { wasmBinary: 5 }, { wasmBinary: null }])
  await assert.rejects(load(given), (error) => error.name === 'WeftError' && error.kind === 'invalid_argument');

/** Whatever a method is given, what it throws has a code, and no text names a call of C. */
function anyArguments({ Mesh, Learner, Agent, Environment, Snapshot, replay }) {
  const odd = [null, undefined, -1, 1.5, 'x', {}, [null], { x: [1, 1] }, Symbol('s'), 10n, new Uint8Array(3), Object.create(null)];
  const told = (name, act) => {
    try {
      act();
    } catch (error) {
      assert.ok(error instanceof Thrown, `${name}: ${error}`);
      assert.ok(error.code > 0 && error.kind && error.text, name);
      assert.doesNotMatch(error.text, /weft_|::/, name);
    }
  };
  const objects = { mesh: new Mesh(XOR), learner: new Learner(new Mesh(XOR), { late: 'meet', patience: 3 }),
                    agent: new Agent({}, { ...XOR, learning: {} }), environment: new Environment('cartpole') };
  const pairs = odd.flatMap((a) => odd.map((b) => [a, b]));
  for (const [name, object] of Object.entries(objects))
    for (let proto = object; proto && proto !== Object.prototype; proto = Object.getPrototypeOf(proto))
      for (const method of Object.getOwnPropertyNames(proto)) {
        if (['constructor', 'destroy'].includes(method) || method.startsWith('_')) continue;
        if (typeof Object.getOwnPropertyDescriptor(proto, method).value !== 'function') continue;
        for (const [a, b] of pairs) told(`${name}.${method}`, () => object[method](a, b));
      }
  for (const type of [Mesh, Learner, Agent, Environment, Snapshot])
    for (const [a, b] of pairs) {
      told(`new ${type.name}`, () => new type(a, b));
      if (type.fromBytes) told(`${type.name}.fromBytes`, () => type.fromBytes(a, b));
    }
  for (const [a, b] of pairs) told('replay', () => replay(a, b));
}

/** Values of another kind are refused with a code, as wrong values are. */
function wrongKinds({ Mesh, Learner, Agent, replay }) {
  const mesh = new Mesh(XOR), learner = new Learner(mesh, { rule: 'backprop' });
  for (const act of [
    () => mesh.setInput('x', null), () => mesh.setInput('x', 5), () => mesh.weights(null), () => mesh.weights({}),
    () => mesh.command('probe', [0], null), () => mesh.run(null), () => mesh.forward({ x: null }),
    () => mesh.restoreSnapshot(null), () => mesh.takeSnapshot({}), () => new Learner(null), () => new Learner(5, {}),
    () => learner.learn({ x: undefined }, { y: [1] }), () => new Agent(null), () => replay(null),
  ])
    throws(act, 'invalid_argument');
}

/** Options of no such name are refused, as in network files. */
function misspelt({ Mesh, Learner, Agent, Environment, replay }) {
  const mesh = new Mesh(XOR);
  for (const act of [
    () => new Mesh(XOR, { maxMemry: 1 }), () => Mesh.fromBytes(mesh.toBytes(), { threads: 2 }),
    () => new Agent({}, XOR, { kept: 1 }), () => new Agent({}, XOR, { mesh: { session: 1 } }),
    () => mesh.command('probe', [0], { tick: 1 }), () => mesh.attachSession(new Uint8Array(1), { otherWeight: true }),
    () => new Environment('cartpole', { lengths: 1 }), () => new Environment('cartpole').reset({ sed: 1 }),
    () => new Learner(mesh, { rul: 'fw_dtp' }), () => replay({}, { verfy: true }),
  ])
    throws(act, 'unknown_name');
  const late = new Learner(mesh, { late: 'meet', patience: 2 });
  throws(() => late.teach(late.observe({ x: [1, 0] }), { y: 1 }, { weight: 1 }), 'unknown_name');
}

/** Meshes that need more than there is, or can be addressed at all, are refused with both numbers. */
function large({ Mesh }) {
  const dense = (x, out) => new Mesh({ weft: 2, inputs: { x: [x] }, chain: [{ type: 'dense', out }] });
  for (const [x, out, text] of [
    [2 ** 15, 2 ** 15, /takes 4\.0 GiB, 4\.0 GiB can be addressed/],  // 2^32 bytes: 0 of 32 bits
    [60000, 60000, /takes 13\.4 GiB, 4\.0 GiB can be addressed/],
    [2 ** 24, 2 ** 24, /more than 4294967295 elements/],
    [16000, 30000, /needs 3\.6 GiB of memory .*, [12]\.\d GiB of 2\.0 GiB are free/],
  ])
    assert.throws(() => dense(x, out), (error) => error.kind === 'too_large' && text.test(error.message), `${x} x ${out}`);
  const relu = { weft: 2, inputs: { x: [2 ** 16] }, chain: [{ type: 'activation', activation: 'relu' }] };
  assert.throws(() => new Mesh(relu, { sessions: 2 ** 16 }), /too_large: .*states .* GiB of 2\.0 GiB are free/);  // 2^32 numbers
  dense(2, 2).destroy();
}

/** The module's scalar operations at the edge of what is flushed, as docs/numerics.md has it. */
async function arithmetic(simd) {
  const nothing = new Proxy({}, { get: () => () => 0 });
  const bytes = readFileSync(`${folder}/weft_${simd ? 'simd' : 'scalar'}.wasm`);
  const { instance } = await WebAssembly.instantiate(bytes, { env: nothing, wasi_snapshot_preview1: nothing });
  const { weft_web_add: add, weft_web_sub: sub, weft_web_mul: mul, weft_web_div: div, weft_web_sqrt: sqrt,
          weft_web_narrowed: narrowed } = instance.exports;
  const least = 2 ** -126, below = 1 - 2 ** -24;  // the smallest normal number, and the float below 1
  const rows = [
    [add(1.5 * least, -least), 0], [add(-1.5 * least, least), -0], [add(1.5 * least, least), 2.5 * least],
    [sub(least, 1.5 * least), -0], [sub(least, least), 0], [sub(2 * least, least), least],
    [mul(below, least), 0], [mul(-below, least), -0],  // exact, and tiny
    [mul((1 + 2 ** -23) * 2 ** -63, (1 - 2 ** -23) * 2 ** -63), least],  // 2^-126 - 2^-172 rounds to 2^-126
    [mul(2 ** -100, 2 ** -100), 0], [mul(3, 5), 15], [div(1, 3), Math.fround(1 / 3)],
    [div(below, 2 ** 126), 0], [div(-below, 2 ** 126), -0], [div(1, 2 ** 126), least], [div(1, 0), Infinity],
    [sqrt(2 ** -130), 0], [sqrt(least), 2 ** -63], [sqrt(-1), NaN],
    [narrowed(least - 2 ** -151), least], [narrowed(least - 2 ** -152), least], [narrowed(-(least - 2 ** -150)), -0],
    [narrowed(1e300), Infinity], [narrowed(NaN), NaN], [narrowed(0.1), Math.fround(0.1)],
  ];
  rows.forEach(([got, wanted], i) => assert.ok(Object.is(got, wanted), `operation ${i}: ${got}, expected ${wanted}`));
}

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
  throws(() => mesh.forward({}, 2 ** 31), 'no_memory');  // 2^34 bytes, which are 0 of 32 bits
  throws(() => mesh.run({}, 2 ** 28), 'no_memory');
  throws(() => learner.learn({ x: [1, 2] }, { y: [2 ** 32] }), 'invalid_argument');  // and not the label 0
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

/** weft.d.ts declares what there is: every member of every class, and of the module. */
function typed(weft) {
  const text = readFileSync(`${folder}/weft.d.ts`, 'utf8').replace(/\/\*\*[^]*?\*\//g, '');
  const members = (kind, name) => {
    const body = text.match(new RegExp(`export ${kind} ${name}\\b[^{]*\\{\\n([^]*?)\\n\\}`))[1];
    return new Set([...body.matchAll(/^ {2}(?:static |readonly )*(\w+)\??[(:]/gm)].map(([, member]) => member));
  };
  const mesh = new weft.Mesh(XOR);
  const agent = new weft.Agent({}, XOR);
  const made = { Mesh: mesh, Learner: new weft.Learner(mesh), Agent: agent, Snapshot: new weft.Snapshot(),
                 Answer: agent.mesh.command('probe', [0]), Environment: new weft.Environment('cartpole') };
  for (const [name, object] of Object.entries(made)) {
    const there = new Set(Object.getOwnPropertyNames(object).filter((key) => !key.startsWith('_') && key !== 'directory'));
    for (let type = weft[name]; type.prototype; type = Object.getPrototypeOf(type)) {
      Object.getOwnPropertyNames(type.prototype).forEach((key) => there.add(key));
      Object.entries(Object.getOwnPropertyDescriptors(type)).forEach(([key, { value }]) => {
        if (typeof value === 'function' && key !== 'prototype') there.add(key);
      });
    }
    for (const key of there) if (key.startsWith('_') || key === 'calls') there.delete(key);
    const declared = members('declare class', name).add('constructor').add('destroy');
    assert.deepEqual([...there].sort(), [...declared].sort(), name);
  }
  const declared = members('interface', 'Weft').add('module');
  assert.deepEqual(Object.keys(weft).sort(), [...declared].sort());
  agent.destroy();
}

/** Commands change what they should, and cells' answers are those of the calls beside them. */
function commands({ Mesh, Learner, Answer, COMMANDS, takeFlushedResults }) {
  assert.equal(COMMANDS.length, 9);
  const mesh = new Mesh(XOR);
  mesh.setInput('x', [1, -1]);
  const probe = mesh.command('probe', [0, 0, 1, 0]);
  assert.ok(probe instanceof Answer);
  assert.equal(probe.doneAt, null);
  throws(() => probe.values, 'not_found');
  mesh.tick();
  assert.deepEqual([probe.doneAt, [...probe.values]], [0, [0, 0]]);
  mesh.tick();
  const stored = mesh.command('snapshot', [0, 0, 0, 0], { notBefore: 4 });
  mesh.tick();
  assert.equal(stored.doneAt, null);
  mesh.tick(2);
  assert.equal(stored.doneAt, 4);
  assert.deepEqual([...stored.values].slice(0, 32), [...mesh.weights([0])]);
  const written = Float32Array.from({ length: 4 }, (_, i) => i - 1.5);
  const small = new Mesh({ weft: 2, inputs: { x: [2] }, chain: [{ type: 'dense', out: 2 }] });
  small.command('set_weights', [0], { values: written }).destroy();
  small.tick();
  assert.deepEqual([...small.weights([0])], [...written]);
  small.command('morph', [0], { dtype: 'int8', granularity: 'channel' });
  small.tick();
  assert.equal(small.description.layers[0].dtype, 'int8');
  small.morph([0], 'int4', 'tensor');
  assert.equal(small.description.layers[0].dtype, 'int4');
  throws(() => small.morph([0], 'int4', 'rows'), 'unknown_name');

  const still = () => {
    const before = mesh.output('y').join();
    mesh.setInput('x', [Math.random(), Math.random()]);
    mesh.tick(2);
    return mesh.output('y').join() === before;
  };
  assert.ok(!still());
  mesh.command('disable', [0]);
  assert.ok(still());
  mesh.command('enable', [0]);
  mesh.command('reset', [0]);
  assert.ok(!still());
  mesh.command('set_period', [0], { number: 1000 });
  mesh.tick();
  assert.ok(still());
  const none = mesh.command('set_period', [0], { number: 0 });
  mesh.tick();
  throws(() => none.doneAt, 'invalid_argument');

  const learning = new Mesh(XOR);
  learning.command('set_rate', [0, 0, 0, 0], { values: [0] });
  const [first, second] = [[...learning.weights([0])], [...learning.weights([0, 0, 1, 0])]];
  const learner = new Learner(learning);
  for (let i = 0; i < 20; i++) learner.learnOne(x[i % 4], [0, 1, 1, 0][i % 4]);
  assert.deepEqual([...learning.weights([0])], first, 'frozen');
  assert.notDeepEqual([...learning.weights([0, 0, 1, 0])], second);

  throws(() => mesh.command('fly', [0]), 'invalid_argument');
  throws(() => mesh.command('probe', [9, 0, 0, 0]), 'out_of_range');
  throws(() => mesh.command('probe', [0], { number: -1 }), 'invalid_argument');
  throws(() => mesh.command('morph', [0], { dtype: 'int8\0' }), 'invalid_argument');
  const gone = mesh.command('probe', [0]);
  gone.destroy();
  throws(() => gone.doneAt, 'bad_handle');
  assert.equal(takeFlushedResults(), true);

  const size = { weft: 2, inputs: { x: [1000] }, chain: [{ type: 'dense', out: 1000 }] };
  assert.throws(() => new Mesh(size, { maxMemory: 2 ** 20 }), (error) => {
    assert.equal(error.kind, 'too_large');
    assert.match(error.text, /needs \d+\.\d MiB of memory .weights 3\.8 MiB,.*, 1\.0 MiB are allowed/);
    return true;
  });
  new Mesh(size, { maxMemory: 2 ** 24 }).destroy();
  for (const maxMemory of [-1, 0.5, NaN]) throws(() => new Mesh(size, { maxMemory }), 'invalid_argument');
}

/** Learners from files, scores, sessions that move. */
function learners({ Mesh, Learner }) {
  const options = { rule: 'backprop', late: 'meet', patience: 4 };
  const learner = new Learner(new Mesh(XOR), options);
  const open = learner.observe({ x: [0, 1] });
  for (let i = 0; i < 6; i++) learner.teach(learner.observe({ x: x[i % 4] }), { y: [i % 2] });
  const scores = learner.scores();
  assert.equal(scores.length, 6);
  assert.deepEqual(scores.map(({ label }) => label), [0, 1, 0, 1, 0, 1]);
  assert.ok(scores.every(({ loss, prediction, session, token }) => loss > 0 && prediction < 2 && !session && !token));
  learner.clearScores();
  assert.deepEqual(learner.scores(), []);
  // Of C++: tests/learning/anomaly_test.cpp.
  const watched = { weft: 2, seed: 5, inputs: { x: [2] },
                    chain: [{ type: 'dense', out: 8, activation: 'tanh' }, { type: 'dense', out: 2 }] };
  const watching = new Learner(new Mesh(watched), { optimizer: { type: 'sgd', lr: 0.1 }, anomaly: { score: 'deviation' } });
  const said = [];
  for (let i = 0; i < 20; i++) {
    said.push(watching.scoreOne(x[i % 4], [0, 1, 1, 0][i % 4]));
    watching.learnOne(x[i % 4], [0, 1, 1, 0][i % 4]);
  }
  assert.deepEqual(watching.scores().map(({ anomaly }) => anomaly), said);
  const bits = (value) => new Uint32Array(new Float32Array([value]).buffer)[0].toString(16);
  assert.equal(bits(watching.scoreOne([1, 1], 1)), '3c6c39d4');
  throws(() => watching.scoreOne([1, 1], 2), 'shape_mismatch');
  const losing = new Learner(new Mesh(watched), { loss: 'mse', anomaly: { score: 'loss' } });
  assert.equal(bits(losing.scoreOne([1, 1], [0.25, -1.5])), '3fdfecb8');
  throws(() => losing.scoreOne([1, 1], [0, NaN]), 'not_finite');
  throws(() => new Learner(new Mesh(watched)).scoreOne([1, 1], 1), 'invalid_argument');
  const measured = new Learner(new Mesh(XOR), { rule: 'fw_dtp' });
  assert.deepEqual(measured.diagnostics(), []);
  measured.measure();
  for (let i = 0; i < 4; i++) measured.learnOne(x[i], i % 2);
  const layers = measured.diagnostics();
  assert.equal(layers.length, 2);
  assert.ok(layers.every(({ error, budget, update, relativeUpdate, weight, errorAge }) =>
    error > 0 && budget >= 0 && budget <= 1 && update > 0 && weight > update &&
    Math.abs(relativeUpdate - update / weight) < 1e-6 && Number.isInteger(errorAge)));
  assert.notDeepEqual(layers[0].at, layers[1].at);
  const young = new Learner(new Mesh(XOR), options);
  const later = young.observe({ x: [0, 1] });
  const again = Learner.fromBytes(young.toBytes());
  for (const each of [young, again]) {
    each.teach(later, { y: [1] });
    for (let i = 0; i < 6; i++) each.teach(each.observe({ x: x[i % 4] }), { y: [i % 2] });
  }
  assert.equal(again.mesh.stateHash(), young.mesh.stateHash(), 'a learner goes on to the bit');
  throws(() => Learner.fromBytes(new Mesh(XOR).toBytes()), 'not_found');
  throws(() => Learner.fromBytes('text'), 'invalid_argument');
  assert.ok(open >= 0);

  const mesh = new Mesh(XOR, { sessions: 2 });
  mesh.setInput('x', [1, 0.5], 1);
  mesh.tick(4);
  const session = mesh.detachSession(1);
  const other = new Mesh(XOR);
  assert.equal(other.attachSession(session), 1);
  assert.equal(mesh.attachSession(session), 2);
  assert.equal(mesh.sessions, 3);
  for (const [of, number] of [[mesh, 1], [mesh, 2], [other, 1]])
    assert.deepEqual([...of.output('y', number)], [...mesh.output('y', 1)]);
  mesh.tick(3);
  assert.deepEqual([...mesh.output('y', 2)], [...mesh.output('y', 1)]);
  const trained = new Mesh({ ...XOR, seed: 9 });
  throws(() => trained.attachSession(session), 'invalid_argument');
  assert.equal(trained.attachSession(session, { otherWeights: true }), 1);
  throws(() => mesh.attachSession(session.slice(0, 40)), 'corrupt');
  throws(() => mesh.detachSession(7), 'out_of_range');
  throws(() => mesh.detachSession(-1), 'invalid_argument');
}

/** Trajectories are those of C++, to the bit (tests/data/environment_trajectories.json). */
function environments({ Environment, environments: listed, Agent }) {
  const file = JSON.parse(readFileSync(new URL('../data/environment_trajectories.json', import.meta.url), 'utf8'));
  assert.deepEqual(listed().map(({ name }) => name).sort(), Object.keys(file.worlds).sort());
  let count = 0;
  const bits = (reward) => `${new BigUint64Array(Float64Array.of(reward).buffer)[0]}`;
  for (const [name, rows] of Object.entries(file.worlds)) {
    const world = new Environment(name, { length: file.length });
    const { observations, choices, values, limit } = listed().find((row) => row.name === name);
    assert.deepEqual([world.observations, world.choices, world.values], [observations, choices, values]);
    if (name !== 'memory_chain') assert.equal(world.limit, limit);
    let observation = world.reset({ seed: file.seed });
    rows.forEach((row, step) => {
      assert.deepEqual([...new Uint32Array(observation.buffer)], row.observation, `${name} ${step}`);
      const action = choices > 0 ? Math.floor(step * 7 / 3) % choices : [step % 9 / 2 - 2];
      const saved = world.toBytes(), hash = world.stateHash();
      const answer = world.step(action);
      const other = new Environment(name, { length: file.length });
      other.restore(saved);
      assert.equal(other.stateHash(), hash);
      assert.deepEqual(other.step(action), answer);
      assert.deepEqual([bits(answer.reward), answer.terminated, answer.truncated],
                       [row.reward, row.terminated, row.truncated]);
      ({ observation } = answer);
      if (answer.terminated || answer.truncated) {
        throws(() => world.step(action), 'invalid_argument');
        observation = world.reset();
      }
      other.destroy();
      count++;
    });
  }
  assert.equal(count, 60 * Object.keys(file.worlds).length);
  const world = new Environment('cartpole');
  throws(() => world.step(0), 'invalid_argument');
  assert.deepEqual(world.reset({ seed: 2n ** 64n - 1n }), world.reset({ seed: 2n ** 64n - 1n, episode: 0 }));
  assert.equal(world.state().length, 4);
  throws(() => world.step(2), 'out_of_range');
  throws(() => world.step(0.5), 'invalid_argument');
  throws(() => world.reset({ seed: -1 }), 'invalid_argument');
  throws(() => new Environment('chess'), 'unknown_name');
  throws(() => world.restore(new Uint8Array(8)), 'corrupt');
  throws(() => new Environment('pendulum').restore(world.toBytes()), 'invalid_argument');
  const still = new Agent({}, XOR);
  throws(() => still.act(1), 'unsupported');
  still.destroy();
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
  assert.throws(() => learner.observe(undefined), { name: 'WeftError', kind: 'invalid_argument' });
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

/** Files are put into the module when all are good, and go where one of them is refused there. */
function refusedFiles({ Agent, replay, module }) {
  const { _weft_web_put: put, _weft_web_forget: forget } = module;
  let puts = 0, forgets = 0;
  module._weft_web_put = (...args) => (++puts === 2 ? 2 : put(...args));
  module._weft_web_forget = (...args) => (forgets++, forget(...args));
  const bytes = new Uint8Array(1);
  for (const name of [5, null, undefined, Symbol('name'), {}, Object.create(null), ['a'], 'a\0b', '', '../a', 'a//b'])
    for (const act of [(files) => new Agent(files, XOR), replay])
      throws(() => act(new Map([['good', bytes], [name, bytes]])), 'invalid_argument');
  assert.equal(puts, 0);
  for (const act of [(files) => new Agent(files, XOR), replay]) {
    [puts, forgets] = [0, 0];
    assert.throws(() => act({ one: bytes, two: bytes }), Thrown);
    assert.deepEqual([puts, forgets], [2, 1]);
  }
  [module._weft_web_put, module._weft_web_forget] = [put, forget];
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
