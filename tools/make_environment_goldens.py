#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/environments.json: short rollouts of the environments with equations of motion, in float64.

Equations and numbers are those of the papers that agent/environments/ names, written down anew from them: accelerations
from the linear systems of the equations of motion, not solved by hand as there.
"""
import json
import math
import pathlib
import random

STEPS = 60


def solve(a, b, c, d, p, q):
    """x, y with a x + b y = p and c x + d y = q."""
    det = a * d - b * c
    return (p * d - b * q) / det, (a * q - p * c) / det


def cartpole(state, action):
    """Florian 2007, "Correct equations for the dynamics of the cart-pole system", without friction:
    (M + m) x'' + m l cos(t) t'' = F + m l t'^2 sin(t);  cos(t) x'' + 4/3 l t'' = g sin(t)."""
    x, v, t, w = state
    m, l = 0.1, 0.5
    push, turn = solve(1.1, m * l * math.cos(t), math.cos(t), 4 / 3 * l,
                       (10 if action else -10) + m * l * w * w * math.sin(t), 9.8 * math.sin(t))
    after = [x + 0.02 * v, v + 0.02 * push, t + 0.02 * w, w + 0.02 * turn]
    return after, 1.0, abs(after[0]) > 2.4 or abs(after[2]) > math.radians(12)


def acrobot(state, action):
    """Spong's equations: D(q) q'' + c(q, q') + phi(q) = (0, torque), one Runge-Kutta step of 0.2 s."""
    def slope(s):
        t1, t2, w1, w2 = s
        d11, d12, d22 = 0.25 + 1.25 + math.cos(t2) + 2, 0.25 + 0.5 * math.cos(t2) + 1, 0.25 + 1
        c1 = -0.5 * math.sin(t2) * (w2 * w2 + 2 * w1 * w2)
        c2 = 0.5 * math.sin(t2) * w1 * w1
        phi2 = 0.5 * 9.8 * math.cos(t1 + t2 - math.pi / 2)
        phi1 = 1.5 * 9.8 * math.cos(t1 - math.pi / 2) + phi2
        a1, a2 = solve(d11, d12, d12, d22, -c1 - phi1, (action - 1) - c2 - phi2)
        return [w1, w2, a1, a2]

    def moved(s, k, time):
        return [a + time * b for a, b in zip(s, k)]
    k1 = slope(state)
    k2 = slope(moved(state, k1, 0.1))
    k3 = slope(moved(state, k2, 0.1))
    k4 = slope(moved(state, k3, 0.2))
    t1, t2, w1, w2 = (s + 0.2 / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4))
    after = [math.remainder(t1, 2 * math.pi), math.remainder(t2, 2 * math.pi),
             max(min(w1, 4 * math.pi), -4 * math.pi), max(min(w2, 9 * math.pi), -9 * math.pi)]
    is_up = -math.cos(after[0]) - math.cos(after[0] + after[1]) > 1
    return after, 0.0 if is_up else -1.0, is_up


def mountain_car(state, action):
    x, v = state
    v = max(min(v + (action - 1) * 0.001 - 0.0025 * math.cos(3 * x), 0.07), -0.07)
    x = max(min(x + v, 0.6), -1.2)
    if x == -1.2:
        v = max(v, 0.0)
    return [x, v], -1.0, x >= 0.5 and v >= 0


def pendulum(state, torque):
    t, w = state
    torque = max(min(torque, 2), -2)
    cost = math.remainder(t, 2 * math.pi) ** 2 + 0.1 * w * w + 0.001 * torque * torque
    w = max(min(w + 0.05 * (15 * math.sin(t) + 3 * torque), 8), -8)
    return [t + 0.05 * w, w], -cost, False


def rollout(step, start, actions):
    state, rows = list(start), []
    for action in actions:
        state, reward, is_over = step(state, action)
        rows.append({"action": action, "state": state, "reward": reward, "terminated": is_over})
        if is_over:
            break
    return {"start": list(start), "steps": rows}


def main():
    draw = random.Random(21)
    choices = {3: [0, 1, 2], 2: [0, 1]}
    worlds = {
        "cartpole": [rollout(cartpole, [0.03, -0.02, 0.01, 0.04], [draw.choice(choices[2]) for _ in range(STEPS)]),
                     rollout(cartpole, [-2.3, -1.5, 0.0, 0.0], [0] * STEPS)],
        "acrobot": [rollout(acrobot, [0.05, -0.08, 0.02, 0.1], [draw.choice(choices[3]) for _ in range(STEPS)]),
                    rollout(acrobot, [2.6, 0.2, 3.0, -1.0], [2] * STEPS)],
        "mountain_car": [rollout(mountain_car, [-0.5, 0.0], [draw.choice(choices[3]) for _ in range(STEPS)]),
                         rollout(mountain_car, [-1.1, -0.06], [0] * STEPS),
                         rollout(mountain_car, [0.3, 0.05], [2] * STEPS)],
        "pendulum": [rollout(pendulum, [3.0, 0.5], [round(draw.uniform(-3, 3), 3) for _ in range(STEPS)])],
    }
    path = pathlib.Path(__file__).resolve().parents[1] / "tests/data/environments.json"
    path.write_text(json.dumps(worlds, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
