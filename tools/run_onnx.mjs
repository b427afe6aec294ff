// SPDX-License-Identifier: Apache-2.0
//
// Runs ONNX graphs by onnxruntime:
//   ONNXRUNTIME=FOLDER node tools/run_onnx.mjs MODEL.onnx INPUTS.json [MODEL.onnx INPUTS.json]...
// INPUTS: [{"NAME": {"type": "float32", "shape": [1, 4], "values": [...]}, ...}, ...], a set for each run; what the runs
// give stands in INPUTS.json.out then, likewise. "carry" of a set, {"INPUT": "OUTPUT"}: the input takes what the run
// before gave. FOLDER has node_modules/onnxruntime-node (npm i --ignore-scripts onnxruntime-node@1.30.0).
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';

const require = createRequire((process.env.ONNXRUNTIME ?? process.cwd()) + '/node_modules/');
const ort = require('onnxruntime-node');

const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential' };
const tensor = ({ type, shape, values }) =>
  new ort.Tensor(type, type === 'int64' ? BigInt64Array.from(values.map(BigInt)) : Float32Array.from(values), shape);

for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const session = await ort.InferenceSession.create(process.argv[i], options);
  const made = [];
  let last = {};
  for (const { carry = {}, ...inputs } of JSON.parse(readFileSync(process.argv[i + 1]))) {
    const feeds = Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, tensor(value)]));
    for (const [to, from] of Object.entries(carry)) if (last[from]) feeds[to] = last[from];
    last = await session.run(feeds);
    made.push(Object.fromEntries(Object.entries(last).map(([name, { type, dims, data }]) =>
      [name, { type, shape: [...dims], values: Array.from(data, Number) }])));
  }
  writeFileSync(process.argv[i + 1] + '.out', JSON.stringify(made));
}
