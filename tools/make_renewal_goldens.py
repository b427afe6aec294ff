#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/renewal.json: a network 6-24-9-3 that learns by momentum while units begin anew, in float64.

Sokar et al. 2023, algorithm 1 (redo), and Dohare et al. 2024, algorithm 1 (continual), written down anew with numpy:
which units of which layer begin anew after which sample, and the weights at the end. Draws: Philox, as core/philox.hpp
says, with the purpose `renew_unit`, the seed plus the number of draws so far.
"""
import json
import math
import pathlib

import numpy as np

from make_drift_goldens import Draws

INIT, TEST, RENEW_UNIT = 0, 5, 12
WIDTHS, SEED, SAMPLES, RATE, MOMENTUM = [6, 24, 9, 3], 3, 400, 0.05, 0.5
CASES = [
    {"method": "redo", "every": 50, "threshold": 0.25},
    {"method": "continual", "rate": 0.002, "decay": 0.875, "maturity": 20},
]


def draw(layer, seed, purpose):
    """Weights [out, in] by xavier."""
    n, m = WIDTHS[layer], WIDTHS[layer + 1]
    draws = Draws(seed, layer * 16, purpose)
    return np.array([(2 * draws.uniform() - 1) * math.sqrt(6 / (n + m)) for _ in range(n * m)]).reshape(m, n)


def sample(number):
    """Inputs, and targets that depend on them and turn over halfway."""
    draws = Draws(7, number, TEST)
    x = np.array([2 * draws.uniform() - 1 for _ in range(6)])
    y = np.array([x[0] * x[1], abs(x[2]) - x[3], x[4] - x[5]])
    return x, -y if number >= SAMPLES // 2 else y


class Network:
    def __init__(self, case):
        self.case = case
        self.w = [draw(i, SEED, INIT) for i in range(3)]
        self.b = [np.zeros(n) for n in WIDTHS[1:]]
        self.vw, self.vb = [np.zeros_like(w) for w in self.w], [np.zeros_like(b) for b in self.b]
        self.values, self.ages = [np.zeros(24), np.zeros(9)], [np.zeros(24, int), np.zeros(9, int)]
        self.due, self.draws = [0.0, 0.0], 0

    def learn(self, x, y):
        """One step; the outputs of the hidden layers before it."""
        h = [x]
        for i in range(3):
            z = self.w[i] @ h[-1] + self.b[i]
            h.append(np.maximum(z, 0) if i < 2 else z)
        error = 2 * (h[3] - y) / 3
        for i in (2, 1, 0):
            if i < 2:
                error = error * (h[i + 1] > 0)
            back = self.w[i].T @ error
            self.vw[i] = MOMENTUM * self.vw[i] + np.outer(error, h[i])
            self.vb[i] = MOMENTUM * self.vb[i] + error
            self.w[i] = self.w[i] - RATE * self.vw[i]
            self.b[i] = self.b[i] - RATE * self.vb[i]
            error = back
        return h[1:3]

    def choose(self, i, h, number):
        """Units of hidden layer i that begin anew after sample `number`, from 1."""
        case, values, ages = self.case, self.values[i], self.ages[i]
        if case["method"] == "redo":
            values += np.abs(h)
            if number % case["every"]:
                return []
            units = [u for u in range(len(values)) if values[u] <= case["threshold"] * values.mean()]
            values[:] = 0
            return units
        ages += 1
        values[:] = case["decay"] * values + (1 - case["decay"]) * np.abs(h) * np.abs(self.w[i + 1]).sum(axis=0)
        units, ready = [], [u for u in range(len(values)) if ages[u] > case["maturity"]]
        self.due[i] += case["rate"] * len(ready)
        while self.due[i] > 1 and ready:
            unit = min(ready, key=lambda u: (values[u], u))
            ready.remove(unit)
            units.append(unit)
            values[unit], ages[unit] = 0, 0
            self.due[i] -= 1
        return units

    def renew(self, i, units):
        fresh = draw(i, SEED + self.draws, RENEW_UNIT)
        self.draws += 1
        self.w[i][units], self.b[i][units], self.w[i + 1][:, units] = fresh[units], 0, 0
        self.vw[i][units], self.vb[i][units], self.vw[i + 1][:, units] = 0, 0, 0


def run(case):
    network, renewed = Network(case), []
    for s in range(SAMPLES):
        hidden = network.learn(*sample(s))
        for i in range(2):
            units = network.choose(i, hidden[i], s + 1)
            if units:
                network.renew(i, units)
                renewed += [[s, i, u] for u in units]
    return {"renew": case, "renewed": renewed, "weights": [[float(f"{v:.9g}") for v in w.ravel()] for w in network.w]}


def main():
    golden = {"samples": SAMPLES, "cases": [run(c) for c in CASES]}
    path = pathlib.Path(__file__).parent.parent / "tests/data/renewal.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    for case in golden["cases"]:
        print(case["renew"], len(case["renewed"]), case["renewed"][:6])


if __name__ == "__main__":
    main()
