#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/optimizers.txt (kind, options and numbers, with tabs between): PyTorch's optimisers, schedules
and clipping over the same weights and gradients.

In float64, from starts and gradients that are float32. Lion, which PyTorch 1.13 lacks, is algorithm 2 of Chen et al. 2023
(arXiv:2302.06675), in numpy.

  /usr/bin/python3 tools/make_optimizer_goldens.py
"""
import json
import pathlib

import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/optimizers.txt"
N, STEPS, LR = 5, 40, 0.0625


def floats(values):
    return [float(np.float32(v)) for v in values]


def start_and_gradients():
    random = np.random.default_rng(7)
    return floats(random.normal(size=N)), [floats(random.normal(size=N)) for _ in range(STEPS)]


def by_torch(make, weights, gradients, clip=None):
    w = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    optimizer = make([w])
    for g in gradients:
        w.grad = torch.tensor(g, dtype=torch.float64)
        if clip:
            clip([w])
        optimizer.step()
    return w.tolist()


def lion(weights, gradients, beta1, beta2, decay):
    w, m = np.array(weights), np.zeros(N)
    for g in np.array(gradients):
        w = w - LR * (np.sign(beta1 * m + (1 - beta1) * g) + decay * w)
        m = beta2 * m + (1 - beta2) * g
    return w.tolist()


def optimizer_rows(weights, gradients):
    def row(options, make, clip=None):
        return {"options": options, "weights": by_torch(make, weights, gradients, clip)}

    optim = torch.optim
    yield row({"type": "sgd", "weight_decay": 0.125}, lambda p: optim.SGD(p, LR, weight_decay=0.125))
    for nesterov in (False, True):
        yield row({"type": "momentum", "momentum": 0.875, "dampening": 0, "nesterov": nesterov},
                  lambda p, nesterov=nesterov: optim.SGD(p, LR, momentum=0.875, nesterov=nesterov))
    yield row({"type": "adamw", "weight_decay": 0.125, "beta1": 0.875, "beta2": 0.96875, "epsilon": 2.0**-20},
              lambda p: optim.AdamW(p, LR, betas=(0.875, 0.96875), eps=2.0**-20, weight_decay=0.125))
    for momentum in (0, 0.75):
        for centered in (False, True):
            for decay in (0, 0.125):
                options = {"type": "rmsprop", "alpha": 0.9375, "epsilon": 2.0**-20, "momentum": momentum,
                           "centered": centered, "weight_decay": decay}
                yield row(options, lambda p, o=options: optim.RMSprop(p, LR, alpha=o["alpha"], eps=o["epsilon"],
                                                                      momentum=o["momentum"], centered=o["centered"],
                                                                      weight_decay=o["weight_decay"]))
    for beta1, beta2, decay in ((0.875, 0.96875, 0), (0.75, 0.9375, 0.125)):
        yield {"options": {"type": "lion", "beta1": beta1, "beta2": beta2, "weight_decay": decay},
               "weights": lion(weights, gradients, beta1, beta2, decay)}
    yield row({"type": "sgd", "clip": "value", "clip_limit": 0.5}, lambda p: optim.SGD(p, LR),
              lambda p: torch.nn.utils.clip_grad_value_(p, 0.5))
    yield row({"type": "rmsprop", "alpha": 0.9375, "epsilon": 2.0**-20, "clip": "norm", "clip_limit": 1.5},
              lambda p: optim.RMSprop(p, LR, alpha=0.9375, eps=2.0**-20),
              lambda p: torch.nn.utils.clip_grad_norm_(p, 1.5))


def shares(make, updates):
    optimizer = torch.optim.SGD([torch.zeros(1)], 1.0)
    schedule, found = make(optimizer), []
    for _ in range(updates):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def schedule_rows():
    s = torch.optim.lr_scheduler
    rows = [
        ({"type": "constant", "warmup": 8}, lambda o: s.LinearLR(o, 1 / 8, 1.0, 7)),
        ({"type": "linear", "updates": 25, "end": 0.125}, lambda o: s.LinearLR(o, 1.0, 0.125, 25)),
        ({"type": "cosine", "updates": 60, "end": 0.0625}, lambda o: s.CosineAnnealingLR(o, 60, 0.0625)),
        ({"type": "warm_restarts", "updates": 7, "growth": 1, "end": 0.25},
         lambda o: s.CosineAnnealingWarmRestarts(o, 7, 1, 0.25)),
        ({"type": "warm_restarts", "updates": 4, "growth": 2}, lambda o: s.CosineAnnealingWarmRestarts(o, 4, 2)),
        ({"type": "exponential", "factor": 0.96875}, lambda o: s.ExponentialLR(o, 0.96875)),
        ({"type": "step", "updates": 9, "factor": 0.375}, lambda o: s.StepLR(o, 9, 0.375)),
        ({"type": "polynomial", "updates": 30, "power": 2.5}, lambda o: s.PolynomialLR(o, 30, 2.5)),
        ({"type": "cosine", "updates": 40, "warmup": 10},
         lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 9), s.CosineAnnealingLR(o, 40)], [10])),
    ]
    for options, make in rows:
        yield {"options": options, "shares": shares(make, 50)}


def main():
    weights, gradients = start_and_gradients()
    lines = ["start\t\t" + " ".join(map(repr, weights))]
    lines += ["gradient\t\t" + " ".join(map(repr, g)) for g in gradients]
    lines += ["optimizer\t" + json.dumps({"lr": LR, **row["options"]}) + "\t" + " ".join(map(repr, row["weights"]))
              for row in optimizer_rows(weights, gradients)]
    lines += ["schedule\t" + json.dumps(row["options"]) + "\t" + " ".join(map(repr, row["shares"]))
              for row in schedule_rows()]
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    main()
