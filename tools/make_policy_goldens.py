#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/policies.json: actions that a policy of real values draws, and the gradients that it learns by, in
float64.

Draws: Philox 4x32-10 (Salmon et al. 2011) at the addresses of an agent's exploration, Box and Muller's formula. The
gradients are analytic and held against central differences of -(log p(a) + weight H(p)), each density written out.
"""
import json
import math
import pathlib
import random

EXPLORE = 7  # purpose of the stream
SEED = 5


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        low, high = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(high >> 32) ^ c[1] ^ k[0], high & 0xFFFFFFFF, (low >> 32) ^ c[3] ^ k[1], low & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniforms(place):
    """Multiples of 2^-24, of one place of the stream."""
    block = 0
    while True:
        for word in philox([block, 0, place, EXPLORE << 4], [SEED, 0]):
            yield (word >> 8) * 2.0 ** -24
        block += 1


def deviation(raw, least):
    return least + math.log1p(math.exp(-abs(raw))) + max(raw, 0.0)


def objective(outputs, action, weight, least):
    """-(log p(a) + weight H(p)) of independent normal distributions."""
    n = len(action)
    value = 0.0
    for mean, raw, a in zip(outputs[:n], outputs[n:], action):
        s = deviation(raw, least)
        log_p = -0.5 * ((a - mean) / s) ** 2 - math.log(s) - 0.5 * math.log(2 * math.pi)
        entropy = 0.5 * math.log(2 * math.pi * math.e * s * s)
        value -= log_p + weight * entropy
    return value


def gradient(outputs, action, weight, least):
    n = len(action)
    means, deviations = [], []
    for mean, raw, a in zip(outputs[:n], outputs[n:], action):
        s = deviation(raw, least)
        means.append(-(a - mean) / s ** 2)
        slope = 1 / (1 + math.exp(-raw))
        deviations.append(-(((a - mean) ** 2 / s ** 3 - 1 / s) + weight / s) * slope)
    return means + deviations


def checked(outputs, action, weight, least):
    found, step = gradient(outputs, action, weight, least), 1e-5
    for i, slope in enumerate(found):
        sides = []
        for sign in (1, -1):
            moved = list(outputs)
            moved[i] += sign * step
            sides.append(objective(moved, action, weight, least))
        difference = (sides[0] - sides[1]) / (2 * step)
        assert abs(difference - slope) <= 1e-6 * max(1.0, abs(slope)), (i, difference, slope)
    return found


def main():
    rows, choose = [], random.Random(3)
    for place in range(60):
        n, least = 1 + place % 3, [0.01, 0.25, 1e-3][place % 3]
        spread = 6.0 if place >= 40 else 1.0
        outputs = [round(choose.uniform(-2, 2), 3) for _ in range(n)]
        outputs += [round(choose.uniform(-1, 1) * spread, 3) for _ in range(n)]
        weight = [0.01, -0.01, 0.0, 0.5][place % 4]
        draw, action = uniforms(place), []
        for i in range(n):
            radius = math.sqrt(-2 * math.log(1 - next(draw)))
            normal = radius * math.cos(2 * math.pi * next(draw))
            action.append(outputs[i] + deviation(outputs[n + i], least) * normal)
        rows.append({"place": place, "least_deviation": least, "outputs": outputs, "weight": weight, "action": action,
                     "gradient": checked(outputs, action, weight, least)})
    to = pathlib.Path(__file__).resolve().parents[1] / "tests/data/policies.json"
    to.write_text("[" + ",\n".join(json.dumps(row) for row in rows) + "]\n")


if __name__ == "__main__":
    main()
