#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/layers/<type>.json for the layers without windows, gates or heads: dense, activation, layer_norm,
rms_norm, residual, identity, leaky_integrator; as PyTorch's autograd has them in float64. Inputs are vectors, tokens
[tokens, features] or of three axes. As tools/make_layer_goldens.py otherwise.

  /usr/bin/python3 tools/make_basic_goldens.py
"""
import json
import sys

import torch
import torch.nn.functional as F

sys.dont_write_bytecode = True
from make_layer_goldens import DNEXT, DY, OUT, PARAMETERS, STATE, X, draw  # noqa: E402

ACTIVATIONS = {
    "linear": lambda v: v,
    "relu": F.relu,
    "leaky_relu": lambda v: F.leaky_relu(v, 0.01),
    "relu2": lambda v: F.relu(v) ** 2,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "elu": F.elu,
    "mish": F.mish,
}


def parameters(shapes):
    return [draw(PARAMETERS + i, shape, 0.5).requires_grad_() for i, shape in enumerate(shapes)]


def dense(row, x, _):
    weights = parameters([(row["out"], x.shape[-1])] + ([(row["out"],)] if row["options"].get("bias", True) else []))
    y = F.linear(x, weights[0], weights[1] if len(weights) > 1 else None)
    return weights, ACTIVATIONS[row["options"].get("activation", "linear")](y), None


def activation(row, x, _):
    return [], ACTIVATIONS[row["options"].get("activation", "relu")](x), None


def layer_norm(row, x, _):
    weights = parameters([(x.shape[-1],), (x.shape[-1],)])
    return weights, F.layer_norm(x, (x.shape[-1],), *weights, eps=row["options"].get("epsilon", 1e-5)), None


def rms_norm(row, x, _):
    weights = parameters([(x.shape[-1],)])
    mean_square = (x * x).mean(dim=-1, keepdim=True)
    return weights, x / torch.sqrt(mean_square + row["options"].get("epsilon", 1e-5)) * weights[0], None


def identity(row, x, _):
    return [], x * 1.0, None


def leaky_integrator(row, x, state):
    """In closed form: h_n = (1 - rate)^n h_0 + sum over t <= n of rate (1 - rate)^(n - t) x_t, as one product."""
    # The layer's rate is a float32.
    rate = torch.tensor(row["options"].get("rate", 0.5), dtype=torch.float32).double()
    ticks = torch.arange(row["ticks"], dtype=torch.float64)
    since = ticks[:, None] - ticks[None, :]
    share = torch.where(since >= 0, rate * (1 - rate) ** since.clamp(min=0), torch.zeros_like(since))
    left = (1 - rate) ** (ticks + 1)
    h = torch.einsum("nt,tbi->nbi", share, x) + left[:, None, None] * state
    return [], h, h[-1]


LAYERS = {"dense": dense, "activation": activation, "layer_norm": layer_norm, "rms_norm": rms_norm, "residual": identity,
          "identity": identity, "leaky_integrator": leaky_integrator}


def golden(row):
    extents = row["in"] if isinstance(row["in"], list) else [row["in"]]
    x = draw(X, (row["ticks"], row["rows"], *extents)).requires_grad_()
    state = draw(STATE, (row["rows"], *extents)).requires_grad_() if row["type"] == "leaky_integrator" else None
    weights, y, last = LAYERS[row["type"]](row, x, state)
    loss = (draw(DY, y.shape) * y).sum()
    if last is not None:
        loss = loss + (draw(DNEXT, last.shape) * last).sum()
    loss.backward()
    numbers = lambda t: [float(f"{v:.9g}") for v in t.detach().flatten().tolist()]
    result = {**row, "y": numbers(y), "dx": numbers(x.grad), "gradients": [numbers(w.grad) for w in weights]}
    if last is not None:
        result |= {"state": numbers(last), "dstate": numbers(state.grad)}
    return result


# in, ticks, rows: odd sizes, 3 sessions most of the time; vectors, tokens, three axes.
SIZES = [(1, 1, 1), (5, 2, 3), (17, 1, 3), (7, 3, 1), (33, 1, 3), (16, 2, 2), ([3, 5], 1, 3), ([1, 7], 2, 3), ([5, 1], 1, 2),
         ([4, 19], 1, 3), ([2, 3, 5], 1, 3), ([3, 1, 7], 2, 3), ([1, 2, 9], 1, 1), ([2, 2, 17], 1, 3)]


def rows(kind):
    options = {
        "dense": [{"activation": name, "bias": i % 3 != 1} for i, name in enumerate(ACTIVATIONS)] + [{}, {"bias": False}],
        "activation": [{"activation": name} for name in ACTIVATIONS] + [{}],
        "layer_norm": [{}, {"epsilon": 1e-3}, {"epsilon": 1e-12}, {"epsilon": 1.0}],
        "rms_norm": [{}, {"epsilon": 1e-3}, {"epsilon": 1e-12}, {"epsilon": 1.0}],
        "residual": [{}],
        "identity": [{}],
        "leaky_integrator": [{}, {"rate": 0.25}, {"rate": 1.0}, {"rate": 0.1}, {"rate": 1e-6}],
    }[kind]
    sizes = SIZES
    if kind.endswith("_norm"):  # of one value, and of two less their mean, only signs are left, and gradients of rounding
        sizes = [(4 if n == 1 else [5, 3] if n == [5, 1] else n, ticks, batch) for n, ticks, batch in SIZES]
    if kind == "leaky_integrator":
        sizes = [(n, ticks, batch) for n, ticks, batch in [
            (1, 1, 1), (5, 2, 3), (17, 1, 3), (7, 3, 1), (33, 4, 3), (16, 2, 2), (3, 9, 3), (9, 6, 3), (2, 17, 3), (19, 5, 2),
            (11, 3, 3), (6, 1, 3)]]
    widths = [1, 6, 9, 3, 19, 16, 7, 2, 5, 17, 11, 4, 8, 13]
    cases = list(zip(sizes, widths, (options * len(sizes))[:len(sizes)]))
    # The options that are left at one more size.
    cases += [(([3, 7], 1, 3), 5, option) for option in options[len(sizes):]]
    if kind in ("dense", "activation"):  # every function on vectors and on tokens
        cases += [((13, 1, 3) if isinstance(SIZES[i % len(SIZES)][0], list) else ([3, 7], 1, 3), 6, option)
                  for i, option in enumerate(options[:len(ACTIVATIONS)])]
    for (extents, ticks, batch), width, option in cases:
        out = width if kind == "dense" else extents[-1] if isinstance(extents, list) else extents
        yield {"type": kind, "in": extents, "out": out, "ticks": ticks, "rows": batch, "options": dict(option)}


if __name__ == "__main__":
    for kind in LAYERS:
        lines = [json.dumps(golden(row), separators=(",", ":")) for row in rows(kind)]
        (OUT / f"{kind}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        print(kind, len(lines), "rows")
