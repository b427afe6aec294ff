#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package's calls beside a C loop over the same library, on one thread's own time, as JSON.

  WEFT_LIBRARY=.../libweft.so bench/bindings/python_bench.py      needs cc
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
from weft._library import address, lib  # noqa: E402

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
CELLS = {"weft": 2, "grid": {"y": 8, "x": 8}, "inputs": {"x": [64]}, "layers": [
    {"type": "dense", "at": [0, y, x, 0], "out": 64, "activation": "tanh",
     "from": ["x"] if x == y == 0 else [[0, y, x - 1, 0] if x else [0, y - 1, 7, 0]]}
    for y in range(8) for x in range(8)], "outputs": {"y": [0, 7, 7, 0]}}
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
for ticks in (1000, 10000):
    mesh.tick(ticks)
    own, native = race(lambda: mesh.tick(ticks), lambda: lib.mesh_tick(mesh._handle, ticks), 9 if ticks > 1000 else 31)
    rows.append({"name": f"tick({ticks}), 64 cells", "us": own * 1e6, "native_us": native * 1e6, "ratio": own / native})

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
