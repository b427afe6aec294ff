#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/layers/running_standardize.json: values, states and gradients of the layer in float64.

Of each tick mean and variance are those of all samples taken in so far, weighted by their age, from their definition:
no recurrence. `taken` says how many rows of a tick are samples, `offset` what is added to the drawn inputs.

  /usr/bin/python3 tools/make_running_standardize_goldens.py
"""
import json
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests/data/layers/running_standardize.json"
X, DY = 1, 3  # streams of `draw`


def draw(stream, count):
    """Numbers in [-1, 1) that float32 holds (tests/mesh/goldens.hpp)."""
    mask, values = 0xFFFFFFFF, []
    for k in range(count):
        u = (k * 2654435761 + stream * 2246822519 + 12345) & mask
        for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
            u = (u ^ (u >> shift)) * factor & mask
        u ^= u >> 15
        values.append((u >> 8) / 2**23 - 1.0)
    return np.array(values)


def golden(row):
    width, ticks, rows, options = row["in"], row["ticks"], row["rows"], row["options"]
    decay = float(np.float32(options.get("decay", 0.99))) if options.get("kind", "ema") == "ema" else 1.0
    epsilon = float(np.float32(options.get("epsilon", 0.01)))
    size = int(np.prod(width))
    x = draw(X, ticks * rows * size).reshape(ticks, rows, size)
    x = np.float32(np.float32(x) + np.float32(row["offset"])).astype(np.float64)
    dy = draw(DY, ticks * rows * size).reshape(ticks, rows, size)
    y, dx, states = np.zeros_like(x), np.zeros_like(x), []
    for b in range(rows):
        samples = []
        for t in range(ticks):
            if b < row["taken"][t]:
                samples.append(x[t, b])
            mean, variance, total = np.zeros(size), np.ones(size), 0.0
            if samples:
                weights = decay ** np.arange(len(samples) - 1, -1, -1)
                total = weights.sum()
                mean = weights @ np.array(samples) / total
                variance = weights @ (np.array(samples) - mean) ** 2 / total
            deviation = np.sqrt(variance + epsilon)
            y[t, b], dx[t, b] = (x[t, b] - mean) / deviation, dy[t, b] / deviation
        states.append([mean, variance if samples else np.zeros(size), np.full(size, total)])
    return {**row, "out": 0, "y": y, "dx": dx, "gradients": [], "state": np.array(states),
            "dstate": np.zeros((rows, 3 * size))}


def main():
    rows, plain = [], {"type": "running_standardize", "offset": 0.0}
    for number, options in enumerate([{}, {"decay": 0.9, "epsilon": 1e-8}, {"decay": 0.5, "epsilon": 0.01}, {"decay": 0.9999},
                                      {"kind": "welford"}, {"kind": "welford", "epsilon": 1e-5}]):
        rows.append({**plain, "in": [1, 13, 64][number % 3], "ticks": 12, "rows": 1, "options": options,
                     "taken": [1] * 12})
        rows.append({**plain, "in": [[3, 5], 17, [2, 3, 3]][number % 3], "ticks": 9, "rows": 3, "options": options,
                     "taken": [0, 3, 2, 0, 3, 1, 3, 2, 0]})
    for options in ({}, {"kind": "welford"}):
        rows.append({**plain, "in": 7, "ticks": 60, "rows": 2, "options": options, "taken": [2, 1] * 30, "offset": 4.0})
    text = []
    for row in map(golden, rows):
        for key in ("y", "dx", "state", "dstate"):
            row[key] = [float(f"{v:.9g}") for v in row[key].ravel()]
        text.append(json.dumps(row, separators=(",", ":")))
    OUT.write_text("[\n" + ",\n".join(text) + "\n]\n")


main()
