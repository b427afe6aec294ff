#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/perturbation.json: a network 6-24-9-3 that learns by perturbed steps, in float64.

Elsayed and Mahmood 2024, arXiv:2404.00781, algorithm 1 with utilities of first order, written down anew with numpy. The
bias correction of utilities is a factor of the largest one too, and cancels. Noise: a Philox word for each stored value
(kernels/perturb.hpp; matrices are stored in panels of 16 rows), by a key of the seed and the parameter's number.
"""
import json
import math
import pathlib

import numpy as np

from make_drift_goldens import Draws
from make_renewal_goldens import INIT, SEED, WIDTHS, draw, sample

PERTURB, SAMPLES, RATE, PANEL = 13, 300, 0.05, 16
CASES = [
    {"method": "upgd", "noise": 0.5, "decay": 0.9, "weight_decay": 0.01},
    {"method": "upgd_nonprotecting", "noise": 0.25, "decay": 0.99, "weight_decay": 0.0},
]


class Noise:
    """The numbers of one parameter."""

    def __init__(self, layer, number, out, columns):
        key = Draws(SEED, layer * 2 + number, PERTURB)
        self.seed = key.word() | key.word() << 32
        rows, lanes = np.divmod(np.arange(out), PANEL)
        # Place of [o, k] among the stored values; a bias is stored in a row.
        at = rows[:, None] * PANEL * columns + np.arange(columns) * PANEL + lanes[:, None] if columns else np.arange(out)
        self.at = at.ravel()
        self.shape = (out, columns) if columns else (out,)

    def draw(self, update):
        """Word w of block 16 c + i is that of the stored value 64 c + 16 w + i."""
        stream, values, blocks = Draws(self.seed, 0, 0), [], {}
        stream.place = (update >> 32 | 0, 1)
        for at in self.at:
            chunk, place = divmod(int(at), 64)
            word, i = divmod(place, 16)
            block = chunk * 16 + i
            if block not in blocks:
                stream.position = 4 * (block | (update & 0xFFFFFFFF) << 32)
                blocks[block] = [stream.word() for _ in range(4)]
            total = sum(blocks[block][word] >> shift & 255 for shift in (0, 8, 16, 24))
            values.append((total - 510) / math.sqrt(4 * (256 ** 2 - 1) / 12))
        return np.array(values).reshape(self.shape)


class Network:
    def __init__(self, case):
        self.case = case
        self.w = [draw(i, SEED, INIT) for i in range(3)] + [np.zeros(n) for n in WIDTHS[1:]]
        self.u = [np.zeros_like(w) for w in self.w]
        self.noise = [Noise(i % 3, i // 3, WIDTHS[i % 3 + 1], 0 if i > 2 else WIDTHS[i]) for i in range(6)]

    def gradients(self, x, y):
        h, g = [x], [None] * 6
        for i in range(3):
            z = self.w[i] @ h[-1] + self.w[3 + i]
            h.append(np.maximum(z, 0) if i < 2 else z)
        error = 2 * (h[3] - y) / 3
        for i in (2, 1, 0):
            if i < 2:
                error = error * (h[i + 1] > 0)
            g[i], g[3 + i] = np.outer(error, h[i]), error
            error = self.w[i].T @ error
        return g

    def learn(self, x, y, update):
        case, g = self.case, self.gradients(x, y)
        for u, w, each in zip(self.u, self.w, g):
            u[:] = case["decay"] * u - (1 - case["decay"]) * each * w
        largest = max(u.max() for u in self.u)
        for p, (u, each) in enumerate(zip(self.u, g)):
            rest = 1 - 1 / (1 + np.exp(-u / (largest if largest > 0 else 1)))
            noise = case["noise"] * self.noise[p].draw(update)
            step = (each + noise) * rest if case["method"] == "upgd" else each + noise * rest
            kept = 1 - RATE * case["weight_decay"] if p < 3 else 1  # biases are spared
            self.w[p] = kept * self.w[p] - RATE * step


def run(case):
    network = Network(case)
    for s in range(SAMPLES):
        network.learn(*sample(s), s + 1)
    rounded = [[float(f"{v:.9g}") for v in w.ravel()] for w in network.w]
    return case | {"weights": rounded[:3], "biases": rounded[3:]}


def main():
    golden = {"samples": SAMPLES, "cases": [run(c) for c in CASES]}
    path = pathlib.Path(__file__).parent.parent / "tests/data/perturbation.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    for case in golden["cases"]:
        print(case["method"], case["weights"][2][:4])


if __name__ == "__main__":
    main()
