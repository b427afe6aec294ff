// SPDX-License-Identifier: Apache-2.0
//
// Makes tests/data/models/silero_golden.json: what onnxruntime computes for silero-vad over a sound that rings like
// speech: pulses at a changing pitch through three resonances, noise between them, and silence. The sound is made of
// whole numbers alone, so that the test (tests/models/onnx_import_test.cpp) makes the same one.
//   tools/make_onnx_models.py --silero /tmp/other.onnx
//   ONNXRUNTIME=FOLDER node tools/make_onnx_goldens.mjs ../shared/data/silero-vad/silero_vad.onnx /tmp/other.onnx
// The second one is the same graph with the weights of silero_vad_16k.safetensors, which is of another training.
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';

const require = createRequire((process.env.ONNXRUNTIME ?? process.cwd()) + '/node_modules/');
const ort = require('onnxruntime-node');
const kFrames = 60, kFrame = 512, kContext = 64;

function sound(count) {
  const resonances = [[30985, -15815], [28497, -15735], [16694, -15575]];  // of 700, 1220 and 2600 Hz, in 2^-14
  const before = resonances.map(() => [0, 0]);
  const samples = [];
  let noise = 12345, next = 0;
  for (let n = 0; n < count; ++n) {
    noise = (noise * 16807) % 2147483647;
    const hiss = (noise >> 8) % 256 - 128, part = Math.floor(n / 6400) % 5;  // voice, voice, silence, noise, voice
    let x = 0;
    if (part !== 2 && part !== 3 && Math.floor(n / 1600) % 4 !== 3) {
      if (n >= next) {
        x = 4000;
        next = n + 110 + Math.floor(n / 200) % 40;
      }
      x += hiss >> 2;
    } else if (part === 3) {
      x = hiss * 8;
    }
    let y = 0;
    resonances.forEach(([a1, a2], i) => {
      const value = x + Math.floor((a1 * before[i][0] + a2 * before[i][1]) / 16384);
      before[i] = [value, before[i][0]];
      y += value >> i;
    });
    samples.push(Math.max(-32768, Math.min(32767, y)) / 32768);
  }
  return samples;
}

async function heard(path, samples) {
  const session = await ort.InferenceSession.create(path, { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1 });
  let state = new ort.Tensor('float32', new Float32Array(256), [2, 1, 128]), context = new Array(kContext).fill(0);
  const sr = new ort.Tensor('int64', BigInt64Array.from([16000n]), []);
  const probabilities = [];
  for (let f = 0; f < kFrames; ++f) {
    const frame = samples.slice(f * kFrame, (f + 1) * kFrame);
    const input = new ort.Tensor('float32', Float32Array.from([...context, ...frame]), [1, kContext + kFrame]);
    const made = await session.run({ input, state, sr });
    probabilities.push(made.output.data[0]);
    state = made.stateN;
    context = frame.slice(kFrame - kContext);
  }
  console.log(probabilities.map((p) => p.toFixed(3)).join(' '));
  return probabilities;
}

const samples = sound(kFrames * kFrame);
const probabilities = await heard(process.argv[2], samples), other_probabilities = await heard(process.argv[3], samples);
const golden = { made_by: 'tools/make_onnx_goldens.mjs, onnxruntime-node ' + require('onnxruntime-node/package.json').version, last_sample: samples.at(-1), sum: samples.reduce((a, b) => a + Math.abs(b), 0), probabilities, other_probabilities };
writeFileSync(new URL('../tests/data/models/silero_golden.json', import.meta.url), JSON.stringify(golden) + '\n');
