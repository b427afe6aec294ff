#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/lora.json: a network 6-24-9-3 that learns by adapters of low rank, by PyTorch in float64.

Hu et al. 2021, arXiv:2106.09685: W0 + alpha / rank B A with A drawn and B 0, W0 and biases still. Gradients are
PyTorch's own, and so are its optimisers. A: Philox, as core/philox.hpp says, with the purpose `adapter` and the
parameter's number, uniform within 1 / sqrt(in).
"""
import json
import math
import pathlib

import torch

from make_drift_goldens import Draws
from make_renewal_goldens import INIT, SEED, WIDTHS, draw, sample

ADAPTER, SAMPLES, RATE = 14, 250, 0.05
CASES = [
    {"rank": 2, "alpha": 6, "optimizer": {"type": "momentum", "lr": RATE, "momentum": 0.5, "dampening": 0, "weight_decay": 0.01}},
    {"rank": 4, "alpha": 0, "optimizer": {"type": "adamw", "lr": 0.01, "weight_decay": 0.1}},
    {"rank": 3, "alpha": 1, "optimizer": {"type": "sgd", "lr": RATE, "weight_decay": 0, "clip": "global_norm",
                                          "clip_limit": 0.5}},
]


def first_a(layer, rank):
    draws, n = Draws(SEED, 2 * layer, ADAPTER), WIDTHS[layer]
    return torch.tensor([(2 * draws.uniform() - 1) / math.sqrt(n) for _ in range(rank * n)]).reshape(rank, n)


def optimizer_of(case, parameters):
    o = case["optimizer"]
    if o["type"] == "adamw":
        return torch.optim.AdamW(parameters, lr=o["lr"], weight_decay=o["weight_decay"], eps=1e-8)
    return torch.optim.SGD(parameters, lr=o["lr"], momentum=o.get("momentum", 0), weight_decay=o["weight_decay"])


def run(case):
    rank = case["rank"]
    scale = (case["alpha"] or rank) / rank
    w0 = [torch.tensor(draw(i, SEED, INIT)) for i in range(3)]
    a = [first_a(i, rank).requires_grad_() for i in range(3)]
    b = [torch.zeros(WIDTHS[i + 1], rank, requires_grad=True) for i in range(3)]
    optimizer = optimizer_of(case, a + b)
    weights = lambda i: w0[i] + scale * b[i] @ a[i]
    for s in range(SAMPLES):
        x, y = (torch.tensor(v) for v in sample(s))
        for i in range(3):
            x = weights(i) @ x
            x = torch.relu(x) if i < 2 else x
        optimizer.zero_grad()
        ((x - y) ** 2).mean().backward()
        if case["optimizer"].get("clip"):
            limit = case["optimizer"]["clip_limit"]
            norm = math.sqrt(sum(float((p.grad ** 2).sum()) for p in a + b))
            for p in a + b:
                p.grad *= limit / max(norm, limit)
        optimizer.step()
    return case | {"weights": [[float(f"{v:.9g}") for v in weights(i).detach().ravel().tolist()] for i in range(3)]}


def main():
    torch.set_default_dtype(torch.float64)
    golden = {"samples": SAMPLES, "cases": [run(c) for c in CASES]}
    path = pathlib.Path(__file__).parent.parent / "tests/data/lora.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    for case in golden["cases"]:
        print(case["rank"], case["optimizer"]["type"], case["weights"][2][:4])


if __name__ == "__main__":
    main()
