// SPDX-License-Identifier: Apache-2.0
//
// Runs an ONNX graph by onnxruntime, once for each set of inputs:
//   node tools/run_onnx.mjs MODEL.onnx INPUTS.json > OUTPUTS.json
// INPUTS: [{"NAME": {"type": "float32", "shape": [1, 4], "values": [...]}, ...}, ...]; OUTPUTS likewise. A name in
// "carry" of a set, {"INPUT": "OUTPUT"}, takes the value that the run before gave. NODE_PATH or ONNXRUNTIME names the
// folder with onnxruntime-node (npm i --ignore-scripts onnxruntime-node@1.30.0).
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const require = createRequire((process.env.ONNXRUNTIME ?? process.cwd()) + '/node_modules/');
const ort = require('onnxruntime-node');

const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential' };
const session = await ort.InferenceSession.create(process.argv[2], options);
const tensor = ({ type, shape, values }) =>
  new ort.Tensor(type, type === 'int64' ? BigInt64Array.from(values.map(BigInt)) : Float32Array.from(values), shape);

const made = [];
let last = {};
for (const { carry = {}, ...inputs } of JSON.parse(readFileSync(process.argv[3]))) {
  const feeds = Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, tensor(value)]));
  for (const [to, from] of Object.entries(carry)) if (last[from]) feeds[to] = last[from];
  last = await session.run(feeds);
  made.push(Object.fromEntries(Object.entries(last).map(([name, { type, dims, data }]) =>
    [name, { type, shape: [...dims], values: Array.from(data, Number) }])));
}
console.log(JSON.stringify(made));
