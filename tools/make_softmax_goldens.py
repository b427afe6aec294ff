#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/layers/<type>.json of the layers that choose: softmax, adaptive_softmax, mixture_of_softmaxes,
kmeans.

As make_layer_goldens.py, in float64. adaptive_softmax is torch.nn.AdaptiveLogSoftmaxWithLoss itself; the others are their
formulas in autograd, written from the papers. Sparsemax and entmax, which PyTorch lacks, have float64 models in
tests/mesh/layers_test.cpp.

  /usr/bin/python3 tools/make_softmax_goldens.py
"""
import json
import math

import torch
import torch.nn.functional as F
from make_layer_goldens import DY, OUT, PARAMETERS, X, draw


def parameters_of(shapes):
    return [draw(PARAMETERS + i, s, 0.5).requires_grad_() for i, s in enumerate(shapes)]


def softmax(row, x):
    options = row["options"]
    t = options.get("temperature", 1.0)
    kind = options.get("kind", "standard")
    if kind == "hierarchical":
        y, first = torch.ones(x.shape[:-1] + (1,), dtype=x.dtype), 0
        for branch in options["branches"]:
            width = y.shape[-1] * branch
            p = F.softmax(x[..., first:first + width].unflatten(-1, (-1, branch)) / t, dim=-1)
            y, first = (y.unsqueeze(-1) * p).flatten(-2), first + width
        return [], y
    if kind == "grid":
        axes = [2 + axis for axis in sorted(options["axes"])]  # after ticks and rows
        e = torch.exp((x - x.amax(dim=axes, keepdim=True)) / t)
        return [], e / e.sum(dim=axes, keepdim=True)
    groups = options.get("groups", 1)
    parts = x.unflatten(-1, (groups, -1)) / t
    if kind == "masked":
        mask = torch.tensor(options["mask"], dtype=torch.float64).reshape(groups, -1)
        parts = parts.masked_fill(mask == 0, -math.inf)
    return [], F.softmax(parts, dim=-1).flatten(-2)


def adaptive_softmax(row, x):
    options = row["options"]
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(x.shape[-1], row["out"], options["cutoffs"], options.get("div_value", 4.0),
                                                 options.get("head_bias", False)).double()
    parameters = list(module.parameters())  # head, its bias, then each tail's two: our order too
    with torch.no_grad():
        for i, p in enumerate(parameters):
            p.copy_(draw(PARAMETERS + i, p.shape, 0.5))
    y = module.log_prob(x.flatten(0, -2)).unflatten(0, x.shape[:-1])
    return parameters, y if options.get("output", "log_probabilities") == "log_probabilities" else y.exp()


def mixture_of_softmaxes(row, x):
    options = row["options"]
    n, classes, k = x.shape[-1], row["out"], options.get("components", 4)
    hidden = options.get("hidden", n)
    shapes = [(k, n), (k * hidden, n), (classes, hidden)]
    if options.get("bias", True):
        shapes += [(k * hidden,), (classes,)]
    parameters = parameters_of(shapes)
    prior, contexts, output, *biases = parameters
    context_bias, output_bias = biases or (None, None)
    pi = F.softmax(F.linear(x, prior), dim=-1)
    h = torch.tanh(F.linear(x, contexts, context_bias)).unflatten(-1, (k, hidden))
    p = F.softmax(F.linear(h, output, output_bias), dim=-1)
    y = (pi.unsqueeze(-1) * p).sum(dim=-2)
    return parameters, y.log() if options.get("output", "log_probabilities") == "log_probabilities" else y


def kmeans(row, x):
    options = row["options"]
    clusters, n = options["clusters"], x.shape[-1]
    parameters = parameters_of([(clusters, n)])
    d = ((x.unsqueeze(-2) - parameters[0]) ** 2).sum(dim=-1)
    if options.get("distance", "squared") == "euclidean":
        d = d.sqrt()
    p = F.softmax(-d / options.get("temperature", 1.0), dim=-1)
    features = p @ parameters[0]
    return parameters, {"probabilities": p, "features": features, "both": torch.cat((p, features), dim=-1)}[
        options.get("output", "probabilities")]


def golden(kind, case):
    shape, out, batch, options = case
    shape = shape if isinstance(shape, list) else [shape]
    row = {"type": kind, "in": shape, "out": out, "ticks": 1, "rows": batch, "options": options}
    x = draw(X, (1, batch, *shape)).requires_grad_()
    parameters, y = globals()[kind](row, x)
    (draw(DY, y.shape) * y).sum().backward()
    numbers = lambda t: [float(f"{v:.9g}") for v in t.detach().flatten().tolist()]
    return {**row, "y": numbers(y), "dx": numbers(x.grad), "gradients": [numbers(p.grad) for p in parameters]}


# Input's shape, out, rows, options.
CASES = {
    "softmax": [
        (1, 1, 1, {}), (7, 7, 3, {"temperature": 0.5}), ([3, 5], 5, 3, {"temperature": 2.0}),
        ([2, 3, 6], 6, 2, {"groups": 3}), (64, 64, 1, {"kind": "standard", "groups": 4, "temperature": 3.0}),
        ([3, 4, 5], 5, 3, {"kind": "grid", "axes": [1, 2]}), ([3, 4, 5], 5, 3, {"kind": "grid", "axes": [0]}),
        ([3, 4, 5], 5, 1, {"kind": "grid", "axes": [1], "temperature": 0.5}),
        ([3, 4, 5], 5, 2, {"kind": "grid", "axes": [2, 0]}), ([2, 3, 2, 3], 3, 2, {"kind": "grid", "axes": [1, 3]}),
        ([4, 7], 7, 3, {"kind": "grid", "axes": [0, 1], "temperature": 2.5}), (9, 9, 3, {"kind": "grid", "axes": [0]}),
        ([17, 19], 19, 1, {"kind": "grid", "axes": [0]}),
        (5, 5, 3, {"kind": "masked", "mask": [1, 0, 1, 1, 0]}), (5, 5, 1, {"kind": "masked", "mask": [0, 0, 0, 1, 0]}),
        ([3, 4], 4, 3, {"kind": "masked", "mask": [0, 1, 1, 1], "temperature": 0.7}),
        ([2, 6], 6, 3, {"kind": "masked", "mask": [1, 1, 0, 0, 0, 1], "groups": 2}),
        (6, 6, 2, {"kind": "masked", "mask": [1, 1, 1, 1, 1, 1], "groups": 3}),
        (3, 3, 3, {"kind": "hierarchical", "branches": [3]}), (8, 6, 3, {"kind": "hierarchical", "branches": [2, 3]}),
        (4, 1, 2, {"kind": "hierarchical", "branches": [1, 1, 1, 1]}),
        (15, 8, 1, {"kind": "hierarchical", "branches": [1, 2, 2, 2]}),
        (32, 24, 3, {"kind": "hierarchical", "branches": [2, 3, 4], "temperature": 0.5}),
        ([3, 33], 24, 2, {"kind": "hierarchical", "branches": [3, 2, 4], "temperature": 2.0}),
        ([2, 20], 15, 3, {"kind": "hierarchical", "branches": [5, 3]}),
    ],
    "adaptive_softmax": [
        (4, 5, 1, {"cutoffs": [2]}), (4, 5, 3, {"cutoffs": [1], "div_value": 1}), (16, 12, 3, {"cutoffs": [3, 7]}),
        (16, 12, 3, {"cutoffs": [3, 7], "output": "probabilities"}), (7, 9, 2, {"cutoffs": [4, 6], "div_value": 2}),
        (7, 9, 3, {"cutoffs": [4, 6], "div_value": 2, "head_bias": True}),
        (9, 20, 3, {"cutoffs": [2, 5, 11], "div_value": 1.5, "head_bias": True, "output": "probabilities"}),
        ([3, 5], 8, 2, {"cutoffs": [3], "div_value": 2.5}),
        ([2, 6], 10, 3, {"cutoffs": [4, 9], "div_value": 2, "output": "probabilities"}),
        (3, 17, 1, {"cutoffs": [16], "div_value": 3}), (8, 33, 2, {"cutoffs": [5, 20], "div_value": 2}),
        (17, 7, 3, {"cutoffs": [1, 2, 3], "div_value": 2, "output": "probabilities"}),
        (5, 6, 3, {"cutoffs": [5], "head_bias": True, "output": "log_probabilities"}),
    ],
    "mixture_of_softmaxes": [
        (1, 1, 1, {"components": 1}), (4, 5, 3, {}), (4, 5, 3, {"components": 1}), (3, 7, 2, {"components": 2, "hidden": 5}),
        (5, 3, 3, {"components": 3, "bias": False}), (7, 4, 1, {"components": 2, "output": "probabilities"}),
        (4, 6, 3, {"components": 5, "hidden": 2, "output": "probabilities", "bias": False}),
        ([3, 4], 5, 2, {"components": 2}), ([2, 5], 3, 3, {"components": 3, "hidden": 4, "output": "probabilities"}),
        (6, 17, 2, {"components": 2, "hidden": 3, "output": "log_probabilities"}), (9, 2, 3, {"components": 4, "hidden": 1}),
        ([4, 2], 4, 1, {"components": 2, "hidden": 7, "bias": False}), (16, 16, 2, {"components": 2, "hidden": 3}),
    ],
    "kmeans": [
        (1, 1, 1, {"clusters": 1}), (3, 4, 3, {"clusters": 4}), (5, 3, 2, {"clusters": 3, "temperature": 0.5}),
        (5, 5, 3, {"clusters": 4, "output": "features"}), (3, 8, 3, {"clusters": 5, "output": "both"}),
        (4, 6, 3, {"clusters": 6, "distance": "euclidean"}),
        (7, 7, 2, {"clusters": 3, "distance": "euclidean", "output": "features", "temperature": 2.0}),
        (6, 9, 1, {"clusters": 3, "distance": "euclidean", "output": "both", "temperature": 0.25}),
        ([3, 4], 5, 2, {"clusters": 5}), ([2, 3], 3, 3, {"clusters": 7, "output": "features"}),
        ([3, 2], 6, 3, {"clusters": 4, "output": "both", "distance": "euclidean"}), (17, 17, 2, {"clusters": 17}),
        (65, 3, 1, {"clusters": 3, "temperature": 20.0}), (2, 33, 3, {"clusters": 33, "temperature": 0.3}),
    ],
}

if __name__ == "__main__":
    for kind, cases in CASES.items():
        lines = [json.dumps(golden(kind, case), separators=(",", ":")) for case in cases]
        (OUT / f"{kind}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        print(kind, len(lines), "rows")
