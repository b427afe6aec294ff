#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/losses.json: losses and their gradients as PyTorch has them, in float64.

  /usr/bin/python3 tools/make_loss_goldens.py

Inputs are floats written in full; the loss of a row is the mean over its values, of heads the mean over these.
"""
import json
import pathlib
import random

import torch
import torch.nn.functional as F

ROWS, COLS, HEADS = 3, 23, [3, 1, 5, 14]
LARGE = [-200.0, -90.0, 90.0, 200.0, 0.0]  # logits at which sigmoid is 0 or 1


def floats(count, scale, generator):
    """The value rounded to float32."""
    return torch.tensor([generator.gauss(0, scale) for _ in range(count)], dtype=torch.float32).double()


def case(loss, delta, per_row, x, target):
    x = x.reshape(ROWS, COLS).requires_grad_()
    losses = per_row(x, target)
    losses.sum().backward()
    return {"loss": loss, "delta": delta, "rows": ROWS, "cols": COLS, "x": x.detach().flatten().tolist(),
            "target": target.flatten().tolist(), "losses": losses.tolist(), "dx": x.grad.flatten().tolist()}


def values(loss, delta, of_values, x, target):
    return case(loss, delta, lambda x, t: of_values(x, t).mean(dim=1), x, target.reshape(ROWS, COLS))


def heads(x, labels):
    return sum(F.cross_entropy(part, labels[:, i], reduction="none")
               for i, part in enumerate(x.split(HEADS, dim=1))) / len(HEADS)


def main():
    generator = random.Random(7)
    n, cases = ROWS * COLS, []
    for scale in (0.5, 4.0):
        x, target = floats(n, scale, generator), floats(n, scale, generator)
        target[::5] = x[::5]  # no difference: a slope of 0
        cases.append(values("mse", 1.0, lambda x, t: F.mse_loss(x, t, reduction="none"), x, target))
        cases.append(values("mae", 1.0, lambda x, t: F.l1_loss(x, t, reduction="none"), x, target))
        for delta in (1.0, 0.25):
            cases.append(values("huber", delta, lambda x, t: F.huber_loss(x, t, reduction="none", delta=delta), x, target))
        x[3:8] = torch.tensor(LARGE, dtype=torch.float64)
        chance = torch.tensor([generator.random() for _ in range(n)], dtype=torch.float32).double()
        chance[::3], chance[1::3] = 0.0, 1.0
        cases.append(values("binary_cross_entropy", 1.0,
                            lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"), x, chance))
    x = floats(n, 2.0, generator)
    labels = torch.tensor([[generator.randrange(width) for width in HEADS] for _ in range(ROWS)])
    cases.append({**case("multi_head_cross_entropy", 1.0, heads, x, labels), "heads": HEADS})
    path = pathlib.Path(__file__).resolve().parents[1] / "tests/data/losses.json"
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in cases) + "\n]\n")


if __name__ == "__main__":
    main()
