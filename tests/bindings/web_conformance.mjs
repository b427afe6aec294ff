// SPDX-License-Identifier: Apache-2.0
// Rows of tests/bindings/conformance_rows.py through the npm package, in one of its modules.
//   node web_conformance.mjs PACKAGE ROWS simd|scalar

import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [, , folder, path, module] = process.argv;
const { load } = await import(pathToFileURL(`${folder}/weft.mjs`).href);
const { Mesh, Learner } = await load({ simd: module === 'simd' });

function replay({ network, learning, x, labels }) {
  const mesh = new Mesh(network);
  const inputs = { x: Float32Array.from(x) };
  let learner;
  if (learning === undefined) {
    mesh.run(inputs, x.length / mesh.description.inputs[0].width);
  } else {
    learner = new Learner(mesh, learning);
    learner.learn(inputs, { y: Uint32Array.from(labels) }, labels.length);
    learner.drain();
  }
  const hash = mesh.stateHash();  // a learner's state is a part of it
  learner?.destroy();
  mesh.destroy();
  return hash;
}

let rows = 0, mismatches = 0;
for await (const line of createInterface({ input: createReadStream(path) })) {
  const row = JSON.parse(line);
  rows++;
  let got;
  try {
    got = replay(row);
  } catch (error) {
    got = error.message;
  }
  if (got === row.hash) continue;
  mismatches++;
  console.error(`${row.name}: ${got}, native ${row.hash}`);
}
console.log(`${rows} rows, ${mismatches} mismatches`);
