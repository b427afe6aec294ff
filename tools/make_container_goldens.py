#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/layers/{sequential,parallel}.json: containers as PyTorch computes them, in float64.

A row's "layer" is the layer of a network file. Its parameters, inputs and errors come from `draw`, as in
tools/make_layer_goldens.py. Needs Debian's python3-torch (1.13.1).

  /usr/bin/python3 tools/make_container_goldens.py
"""
import json

import torch
import torch.nn.functional as F
from make_layer_goldens import DNEXT, DY, OUT, PARAMETERS, STATE, X, draw

ACTIVATIONS = {"linear": lambda v: v, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu}
MERGES = {"concat": lambda ys: torch.cat(ys, -1), "add": sum, "avg": lambda ys: sum(ys) / len(ys),
          "gate": lambda ys: ys[0] * torch.sigmoid(ys[1]), "max": lambda ys: torch.stack(ys).amax(0)}


class Net:
    """One container: parameters in the order they are met, a state, and what computes."""

    def __init__(self, state):
        self.parameters, self.state, self.last, self.extra = [], state, None, 0

    def weight(self, *shape):
        self.parameters.append(draw(PARAMETERS + len(self.parameters), shape, 0.5).requires_grad_())
        return self.parameters[-1]

    def run(self, spec, x):
        if "view" in spec:
            x = x.reshape(x.shape[0], *spec["view"])
        return getattr(self, spec["type"])(spec, x)

    def dense(self, spec, x):
        weight = self.weight(spec["out"], x.shape[-1])
        bias = self.weight(spec["out"]) if spec.get("bias", True) else None
        return ACTIVATIONS[spec.get("activation", "linear")](F.linear(x, weight, bias))

    def layer_norm(self, spec, x):
        return F.layer_norm(x, x.shape[-1:], self.weight(x.shape[-1]), self.weight(x.shape[-1]), 1e-5)

    def softmax(self, spec, x):
        return torch.softmax(x / spec.get("temperature", 1), -1)

    def identity(self, spec, x):
        return x

    residual = identity

    def sequential(self, spec, x):
        values, last = {"input": x}, x
        for layer in spec["layers"]:
            sources = [values[name] for name in layer.get("from", [])] or [last]
            merge = "add" if layer["type"] == "residual" else layer.get("combine", "concat")
            last = self.run(layer, sources[0] if len(sources) == 1 else MERGES[merge](sources))
            values[layer.get("name", "")] = last
        return last

    def parallel(self, spec, x):
        ys, merge = [self.run(layer, x) for layer in spec["layers"]], spec.get("merge", "concat")
        if merge in MERGES:
            return MERGES[merge](ys)
        if merge == "grid_scatter":
            grid = torch.zeros(x.shape[0], *spec["grid"], ys[0].shape[-1], dtype=x.dtype)
            for i, y in enumerate(ys):
                z, r, c = spec["places"][3 * i:3 * i + 3]
                grid[:, z, r, c] = y
            return grid
        logits = F.linear(x, self.weight(len(ys), x.shape[-1]))
        if k := spec.get("top_k", 0):
            kept = torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, logits.topk(k).indices, True)
            logits = logits.masked_fill(~kept, -torch.inf)
        p = torch.softmax(logits / spec.get("temperature", 1), -1)
        if balance := spec.get("balance", 0):
            rate, m = spec.get("balance_rate", 0.01), self.state
            mean = p.reshape(p.shape[0], -1, len(ys)).mean(1)
            # The loss takes m as it was; what comes back through later values of m is not wanted.
            self.extra = self.extra + balance * len(ys) * (m.detach() * mean).sum()
            self.last = m.detach() + rate * (mean.detach() - m.detach())
        return sum(p[..., e:e + 1] * y for e, y in enumerate(ys))


def golden(spec, shape, batch):
    experts = len(spec["layers"])
    state = draw(STATE, (batch, experts)) if spec.get("balance") else None
    net = Net(state)
    x = draw(X, (batch, *shape)).requires_grad_()
    y = net.run(spec, x)
    ((draw(DY, y.shape) * y).sum() + net.extra).backward()
    numbers = lambda t: [float(f"{v:.9g}") for v in t.detach().flatten().tolist()]
    row = {"type": spec["type"], "layer": spec, "in": list(shape), "out": 0, "ticks": 1, "rows": batch, "options": {}}
    row |= {"y": numbers(y), "dx": numbers(x.grad), "gradients": [numbers(p.grad) for p in net.parameters]}
    if state is not None:
        row |= {"state": numbers(net.last), "dstate": [0.0] * state.numel()}
    return row


def dense(out, activation="tanh", **more):
    return {"type": "dense", "out": out, "activation": activation, **more}


def sequential(*layers):
    return {"type": "sequential", "layers": list(layers)}


def parallel(*layers, **options):
    return {"type": "parallel", "layers": list(layers), **options}


BLOCK = sequential({"type": "layer_norm", "name": "n"}, dense(9, "silu"), dense(5, "linear", name="f"),
                   {"type": "residual", "from": ["input", "f"]})
ROWS = {
    "sequential": [
        (sequential(dense(3)), (4,), 1),
        (sequential(dense(7), dense(5, "sigmoid"), dense(2, "linear")), (3,), 3),
        (BLOCK, (5,), 3),
        (BLOCK, (6, 5), 3),
        (sequential(BLOCK, BLOCK), (2, 5), 2),
        (sequential(dense(12), {"type": "layer_norm", "view": [3, 4]}, dense(2), dense(3, view=[6])), (5,), 3),
        (sequential(dense(4, name="a"), dense(4, name="b"), {"type": "identity", "from": ["a", "b", "input"]}), (3,), 3),
        (sequential(dense(4, name="a"), dense(4, name="b", **{"from": ["input"]}),
                    {"type": "identity", "from": ["a", "b"], "combine": "gate"}), (3,), 3),
        (sequential(dense(4, name="a"), dense(4, name="b", **{"from": ["input"]}),
                    {"type": "softmax", "temperature": 0.5, "from": ["a", "b"], "combine": "max"}), (3,), 3),
        (sequential(dense(3, name="a"), dense(2, name="b", **{"from": ["input"]}),
                    dense(4, **{"from": ["a", "b", "a", "input"]})), (5, 3), 3),
        (sequential(dense(3, name="a"), dense(3, **{"from": ["a", "input"], "combine": "avg"})), (3,), 2),
        (sequential(parallel(dense(3), sequential(dense(6), dense(2))), dense(4, "linear")), (3, 4), 3),
    ],
    "parallel": [
        (parallel(dense(3)), (4,), 1),
        (parallel(dense(3), dense(5, "sigmoid"), dense(1, bias=False)), (4,), 3),
        (parallel(dense(3), dense(5), merge="concat"), (7, 4), 3),
        (parallel(dense(3), dense(3), dense(3), merge="add"), (4,), 3),
        (parallel(dense(3), dense(3), dense(3), merge="avg"), (2, 4), 3),
        (parallel({"type": "identity"}, dense(4), merge="add"), (4,), 3),
        (parallel(dense(3), dense(3), merge="grid_scatter", grid=[2, 3, 2], places=[1, 2, 0, 0, 0, 1]), (4,), 3),
        (parallel(dense(2), dense(2), dense(2), dense(2), merge="grid_scatter", grid=[1, 2, 2],
                  places=[0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1]), (5,), 2),
        (parallel(dense(3), dense(3), merge="filter"), (4,), 3),
        (parallel(*[dense(3)] * 5, merge="filter", top_k=2), (4,), 3),
        (parallel(*[dense(3)] * 4, merge="filter", top_k=1, temperature=2), (6, 4), 3),
        (parallel(*[dense(3)] * 4, merge="filter", temperature=0.5, balance=0.7, balance_rate=0.2), (4,), 3),
        (parallel(*[dense(3)] * 4, merge="filter", top_k=3, balance=0.3), (5, 4), 3),
        (parallel(parallel(dense(2), dense(3)), sequential(dense(4), dense(5)), merge="add"), (4,), 3),
        (parallel(parallel(dense(2), dense(2), merge="filter"), parallel(dense(2), dense(2), merge="filter", top_k=1)),
         (3, 4), 3),
    ],
}

for kind, rows in ROWS.items():
    lines = [json.dumps(golden(*row), separators=(",", ":")) for row in rows]
    (OUT / f"{kind}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(kind, len(lines), "rows")
