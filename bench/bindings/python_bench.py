#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package's calls beside native ones, as JSON: ticks beside Mesh::tick of C++ (build/release/bin/capi_tick_bench,
in turn with it), one sample at a time beside a C loop over the same library, on the thread's own time.

  WEFT_LIBRARY=.../libweft.so bench/bindings/python_bench.py TICK_BENCH      needs cc
"""
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings/python"))
import numpy as np  # noqa: E402

import weft  # noqa: E402
from weft._library import address  # noqa: E402

LOOP = r"""
#include <weft.h>
int predict_and_learn(weft_learner* learner, const float* x, size_t in, float* y, size_t out, int n) {
  int i;
  for (i = 0; i < n; ++i)
    if (weft_learner_predict_one(learner, x, in, y, out) || weft_learner_learn_one(learner, x, in, (uint32_t)(i % 2)))
      return 1;
  return 0;
}
"""
CELLS = {"weft": 2, "inputs": {"x": [64]}, "chain": 64 * [{"type": "dense", "activation": "tanh", "out": 64}]}
SMALL = {"weft": 2, "inputs": {"x": [8]}, "chain": [{"type": "dense", "out": 16, "activation": "tanh"},
                                                    {"type": "dense", "out": 2}]}


def race(own, native, rounds=15):
    """Medians of seconds, in turn."""
    taken = ([], [])
    for _ in range(rounds):
        for call, times in zip((own, native), taken):
            begin = time.thread_time()
            call()
            times.append(time.thread_time() - begin)
    return [statistics.median(times) for times in taken]


rows = []
mesh = weft.Mesh(CELLS, threads=1)


def native_us():
    """Microseconds of a tick of the same network through C++."""
    told = subprocess.run([sys.argv[1], "--benchmark_filter=tick/64/64", "--benchmark_format=json"], check=True,
                          capture_output=True, text=True).stdout
    return json.loads(told)["benchmarks"][0]["floor_us"]


def python_us(ticks):
    taken = []
    for _ in range(9):
        begin = time.perf_counter()
        mesh.tick(ticks)
        taken.append((time.perf_counter() - begin) / ticks * 1e6)
    return statistics.median(taken)


for ticks in (1000, 10000):
    mesh.tick(ticks)
    pairs = [(python_us(ticks), native_us()) for _ in range(5)]
    own, native = (statistics.median(each) for each in zip(*pairs))
    rows.append({"name": f"tick({ticks}), 64 cells", "us": own, "native_us": native,
                 "ratio": statistics.median(a / b for a, b in pairs)})

with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(folder, "loop.c")
    source.write_text(LOOP)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}/capi", source, "-o", f"{folder}/loop.so",
                    os.environ["WEFT_LIBRARY"]], check=True)
    loop = ctypes.CDLL(f"{folder}/loop.so").predict_and_learn
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    learner = weft.Learner(weft.Mesh(SMALL, threads=1))
    x, y, n = np.ones(8, np.float32), np.empty(2, np.float32), 2000

    def python():
        for i in range(n):
            learner.predict_one(x)
            learner.learn_one(x, i % 2)
        learner.scores()

    def native():
        assert loop(learner._handle, address(x), 8, address(y), 2, n) == 0
        learner.scores()

    own, floor = race(python, native)
    rows.append({"name": "predict_one + learn_one, 8-16-2", "us": own / n * 1e6, "native_us": floor / n * 1e6,
                 "above_us": (own - floor) / n * 1e6})
print(json.dumps({"version": weft.__version__, "rows": rows}, indent=1))
