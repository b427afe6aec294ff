// SPDX-License-Identifier: Apache-2.0
// The peer of server_forward_bench: Node's HTTP server around onnxruntime, with a network of the size of the digits
// network (64-64-64-10, tanh) and random weights. Requests and answers are those of POST .../forward. npm's
// onnxruntime-node 1.20.1 is looked for in the folder that is given.
//   node bench/server/onnx_server.mjs node_modules/onnxruntime-node 8081 &
//   WEFT_BENCH_PEER=127.0.0.1:8081 build/release/bin/server_forward_bench --benchmark_filter=peer
import http from 'node:http';
import {createRequire} from 'node:module';
import path from 'node:path';

const [folder, port = '8081'] = process.argv.slice(2);
const ort = createRequire(import.meta.url)(path.resolve(folder));

// --- an ONNX file, written by hand (onnx.proto3)

function varint(value) {
  const out = [];
  for (; value > 127; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  return Buffer.from([...out, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
function bytes(field, ...parts) {
  const all = Buffer.concat(parts.map(each => (typeof each === 'string' ? Buffer.from(each) : each)));
  return Buffer.concat([varint(field * 8 + 2), varint(all.length), all]);
}
function tensor(name, dims) {
  const count = dims.reduce((a, b) => a * b, 1);
  const data = Float32Array.from({length: count}, () => (Math.random() - 0.5) / 4);
  return bytes(5, ...dims.map(each => number(1, each)), number(2, 1), bytes(8, name), bytes(9, Buffer.from(data.buffer)));
}
const node = (type, inputs, output) =>
  bytes(1, ...inputs.map(each => bytes(1, each)), bytes(2, output), bytes(4, type));
const end = (field, name, width) =>
  bytes(field, bytes(1, name), bytes(2, bytes(1, number(1, 1), bytes(2, bytes(1, bytes(2, 'rows')), bytes(1, number(1, width))))));

const graph = bytes(
  7,
  node('MatMul', ['pixels', 'w1'], 'a1'),
  node('Tanh', ['a1'], 'h1'),
  node('MatMul', ['h1', 'w2'], 'a2'),
  node('Tanh', ['a2'], 'h2'),
  node('MatMul', ['h2', 'w3'], 'digit'),
  bytes(2, 'digits'),
  tensor('w1', [64, 64]),
  tensor('w2', [64, 64]),
  tensor('w3', [64, 10]),
  end(11, 'pixels', 64),
  end(12, 'digit', 10),
);
const model = Buffer.concat([number(1, 8), graph, bytes(8, number(2, 13))]);
const session = await ort.InferenceSession.create(model, {intraOpNumThreads: 1});

http
  .createServer((request, response) => {
    const parts = [];
    request.on('data', each => parts.push(each));
    request.on('end', async () => {
      const rows = JSON.parse(Buffer.concat(parts)).inputs.pixels;
      const given = new ort.Tensor('float32', Float32Array.from(rows.flat()), [rows.length, 64]);
      const {digit} = await session.run({pixels: given});
      const outputs = rows.map((_, i) => [...digit.data.subarray(10 * i, 10 * i + 10)]);
      const body = JSON.stringify({outputs: {digit: outputs}, rows: rows.length});
      response.writeHead(200, {'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body)});
      response.end(body);
    });
  })
  .listen(+port, '127.0.0.1', () => console.log(`listening on ${port}`));
