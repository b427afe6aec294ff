#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learning in the WebAssembly package against one native AVX2 thread, in turns: examples/digits.json, sample by sample.

  WEFT_LIBRARY=build/release/lib/libweft.so bench/bindings/web_bench.py [--rounds 7] [--seconds 1] [--json]

Native: WEFT_ISA=avx2, one thread, blocks of 1,400 samples that one call gives. node: `learnOne` for each sample, and the same
blocks. Rates are by the process's own CPU time, so that other work on the machine weighs little. A figure is the median of
the rounds, with the least and the largest. Also: milliseconds from the import of weft.mjs in
a new process to the end of the first tick, and gzipped sizes.
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "build/web/package"
SECONDS = "WEFT_BENCH_SECONDS"

NATIVE = """
import json, os, sys, time
sys.path[:0] = [sys.argv[1] + "/bindings/python"]
import numpy as np, weft
given = json.load(open(sys.argv[2]))
x, y = np.array(given["x"], np.float32).reshape(-1, 64), np.array(given["y"])
mesh = weft.Mesh(given["network"], threads=1)
learner = weft.Learner(mesh, **given["network"]["learning"])
def block():
    learner.learn({"pixels": x}, {"digit": y})
    learner.scores()
block()
start, samples = time.thread_time(), 0
while time.thread_time() - start < float(os.environ["WEFT_BENCH_SECONDS"]):
    block()
    samples += len(y)
print(json.dumps({"block": samples / (time.thread_time() - start)}))
"""

NODE = """
import { readFileSync } from 'node:fs';
const [, , root, path, simd] = process.argv;
const began = performance.now();
const { load } = await import(`${root}/build/web/package/weft.mjs`);
const { Mesh, Learner } = await load({ simd: simd === 'simd' });
const given = JSON.parse(readFileSync(path, 'utf8'));
const mesh = new Mesh(given.network);
mesh.tick();
const firstTick = performance.now() - began;
const learner = new Learner(mesh, given.network.learning);
const x = Float32Array.from(given.x), y = Uint32Array.from(given.y);
const rows = Array.from(y, (_, i) => x.slice(64 * i, 64 * i + 64));
const rate = (work) => {
  for (let i = 0; i < 3; i++) work();  // until its code is compiled with optimisation
  const now = () => process.cpuUsage().user / 1000;  // of all threads: the engine's compiler and collector are counted too
  const start = now();
  let samples = 0;
  while (now() - start < 1000 * Number(process.env.WEFT_BENCH_SECONDS)) {
    work();
    samples += y.length;
  }
  return 1000 * samples / (now() - start);
};
const one = rate(() => { rows.forEach((row, i) => learner.learnOne(row, y[i])); learner.clearScores(); });
const block = rate(() => { learner.learn({ pixels: x }, { digit: y }, y.length); learner.clearScores(); });
console.log(JSON.stringify({ one, block, firstTick }));
"""


def told(words, **environment):
    done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True,
                          env={**os.environ, **environment})
    return json.loads(done.stdout)


def summary(values, digits=0):
    return [round(value, digits or None) for value in (statistics.median(values), min(values), max(values))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "tests/bindings")]
    from python_test import digits_stream
    x, y = digits_stream(1400)
    network = json.loads((ROOT / "examples/digits.json").read_text())
    found = {name: [] for name in ("native", "simd one", "simd block", "scalar one", "scalar block", "simd first tick",
                                   "scalar first tick")}
    with tempfile.TemporaryDirectory() as folder:
        path, script = pathlib.Path(folder) / "given.json", pathlib.Path(folder) / "bench.mjs"
        path.write_text(json.dumps({"network": network, "x": x.reshape(-1).tolist(), "y": y.tolist()}))
        script.write_text(NODE)
        environment = {SECONDS: str(wanted.seconds)}
        for _ in range(wanted.rounds):
            found["native"].append(told([sys.executable, "-c", NATIVE, ROOT, path], WEFT_ISA="avx2", **environment)["block"])
            for module in ("simd", "scalar"):
                got = told(["node", script, ROOT, path, module], **environment)
                found[f"{module} one"].append(got["one"])
                found[f"{module} block"].append(got["block"])
                found[f"{module} first tick"].append(got["firstTick"])
    shares = {name: summary([value / native for value, native in zip(found[name], found["native"])], 4)
              for name in found if name.startswith(("simd", "scalar")) and "tick" not in name}
    sizes = {name: len(gzip.compress((PACKAGE / f"weft_{name}.wasm").read_bytes(), 9)) for name in ("simd", "scalar")}
    result = {"samples_per_second": {name: summary(values) for name, values in found.items() if "tick" not in name},
              "of_native": shares, "gzipped_bytes": sizes,
              "first_tick_ms": {name.split()[0]: summary(found[name]) for name in found if "tick" in name}}
    if wanted.json:
        print(json.dumps(result, indent=1))
        return
    for name, (median, least, largest) in result["samples_per_second"].items():
        share = f", 1/{1 / shares[name][0]:.1f} of native (1/{1 / shares[name][1]:.1f} to 1/{1 / shares[name][2]:.1f})" \
            if name in shares else ""
        print(f"{name:13} {median:9,} samples/s ({least:,} to {largest:,}){share}")
    for name, size in sizes.items():
        median, least, largest = result["first_tick_ms"][name]
        print(f"{name:13} {size:,} bytes gzipped, first tick after {median} ms ({least} to {largest})")


if __name__ == "__main__":
    main()
