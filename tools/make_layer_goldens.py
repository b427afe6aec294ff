#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/layers/<type>.json: values and gradients of layers as PyTorch computes them, in float64.

Parameters, inputs, states and the outputs' gradients are not in the files: both sides draw them from `draw`. The loss is
the sum of dy y over all ticks plus that of dnext over the last hidden state. Needs Debian's python3-torch (1.13.1).

  /usr/bin/python3 tools/make_layer_goldens.py
"""
import json
import pathlib

import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests/data/layers"
X, STATE, DY, DNEXT, PARAMETERS = 1, 2, 3, 4, 10  # streams of `draw`


def draw(stream, shape, scale=1.0):
    """Numbers in [-1, 1) that float32 holds, a function of the stream and the place alone (tests/mesh/goldens.hpp)."""
    mask = 0xFFFFFFFF
    values = []
    for k in range(torch.Size(shape).numel()):
        u = (k * 2654435761 + stream * 2246822519 + 12345) & mask
        for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
            u = (u ^ (u >> shift)) * factor & mask
        u ^= u >> 15
        values.append(((u >> 8) / 2**23 - 1.0) * scale)
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def recurrent(row):
    kind, width, is_sequence = row["type"], row["out"], isinstance(row["in"], list)
    n = row["in"][-1] if is_sequence else row["in"]
    options = {"bias": row["options"].get("bias", True)}
    if kind == "rnn":
        options["nonlinearity"] = row["options"].get("activation", "tanh")
    module = getattr(torch.nn, kind.upper())(n, width, **options).double()
    parameters = list(module.parameters())  # weight_ih, weight_hh, bias_ih, bias_hh: our order too
    with torch.no_grad():
        for i, p in enumerate(parameters):
            p.copy_(draw(PARAMETERS + i, p.shape, 0.5))
    blocks = 2 if kind == "lstm" else 1
    tokens = row["in"][0] if is_sequence else 1
    x = draw(X, (row["ticks"], row["rows"], tokens * n)).requires_grad_()
    # PyTorch's [time, batch, features]: a tick's tokens follow each other.
    steps = x.reshape(row["ticks"], row["rows"], tokens, n).transpose(1, 2).reshape(-1, row["rows"], n)
    state = draw(STATE, (row["rows"], blocks * width)).requires_grad_()

    def run(steps, parts):
        y, last = module(steps, tuple(parts) if blocks == 2 else parts[0])
        return y, torch.cat(last if blocks == 2 else (last,), dim=2)[0]

    if row["options"].get("stateful", not is_sequence):
        y, last = run(steps, [part.unsqueeze(0).contiguous() for part in state.split(width, dim=1)])
    else:
        zero = torch.zeros(1, row["rows"], width, dtype=torch.float64)
        y, state, last = torch.cat([run(tick, [zero] * blocks)[0] for tick in steps.split(tokens)]), None, None
    y = y.reshape(row["ticks"], tokens, row["rows"], width).transpose(1, 2)
    if row["options"].get("output") == "last":
        y = y[:, :, -1]
    return parameters, x, state, y, last


def swiglu(row):
    n, width, hidden = row["in"], row["out"], row["hidden"]
    shapes = [(hidden, n), (hidden, n), (width, hidden)]
    if row["options"].get("bias", False):
        shapes += [(hidden,), (hidden,), (width,)]
    parameters = [draw(PARAMETERS + i, s, 0.5).requires_grad_() for i, s in enumerate(shapes)]
    gate, up, down, *biases = parameters
    gate_bias, up_bias, down_bias = biases or (None, None, None)
    act = {"silu": F.silu, "gelu": F.gelu, "relu2": lambda v: F.relu(v) ** 2}[row["options"].get("gate", "silu")]
    x = draw(X, (row["ticks"], row["rows"], n)).requires_grad_()
    y = F.linear(act(F.linear(x, gate, gate_bias)) * F.linear(x, up, up_bias), down, down_bias)
    return parameters, x, None, y, None


def golden(row):
    parameters, x, state, y, last = (swiglu if row["type"] == "swiglu" else recurrent)(row)
    loss = (draw(DY, y.shape) * y).sum()
    if last is not None:
        loss = loss + (draw(DNEXT, last.shape) * last).sum()
    loss.backward()
    numbers = lambda t: [float(f"{v:.9g}") for v in t.detach().flatten().tolist()]
    result = {**row, "y": numbers(y), "dx": numbers(x.grad), "gradients": [numbers(p.grad) for p in parameters]}
    if last is not None:
        result |= {"state": numbers(last), "dstate": numbers(state.grad)}
    return result


def rows(kind):
    """in, out, ticks, rows, options."""
    sizes = [(1, 1, 1, 1), (3, 5, 1, 3), (5, 3, 4, 1), (4, 4, 3, 3), (7, 2, 5, 2), (2, 7, 6, 1), (17, 3, 2, 3), (3, 17, 2, 1),
             (16, 6, 2, 1), (5, 11, 3, 3)]
    if kind == "swiglu":
        options = [{}, {"gate": "gelu"}, {"gate": "relu2"}, {"bias": True}, {"gate": "gelu", "bias": True},
                   {"gate": "relu2", "bias": True}]
        hiddens = [1, 0, 7, 16, 19, 0, 5, 33, 3, 2]
    else:
        options = [{}, {"bias": False}]
        if kind == "rnn":
            options += [{"activation": "relu"}, {"activation": "relu", "bias": False}]
    cases = [(*size, option) for i, size in enumerate(sizes) for option in [options[i % len(options)]]]
    # Every option at one more size, batch 3.
    cases += [(6, 5, 3, 3, option) for option in options]
    cases += [(2, 3, 7, 3, option) for option in options[:2]]
    for i, (n, width, ticks, batch, option) in enumerate(cases):
        row = {"type": kind, "in": n, "out": width, "ticks": ticks, "rows": batch, "options": dict(option)}
        if kind == "swiglu":
            hidden = (hiddens * 2)[i]
            if hidden:
                row["options"]["hidden"] = hidden
            row["hidden"] = hidden or -(-8 * n // 48) * 16
        yield row
    if kind == "swiglu":
        return
    sequences = [(4, 3, 5, 1, 1, {}), (5, 3, 4, 2, 3, {"stateful": True}), (3, 2, 7, 1, 3, {"output": "last"}),
                 (6, 5, 2, 2, 2, {"output": "last", "stateful": True}), (1, 4, 3, 3, 2, {"stateful": True}),
                 (1, 4, 3, 2, 2, {}), (9, 1, 1, 2, 1, {"bias": False})]
    for tokens, n, width, ticks, batch, option in sequences:
        yield {"type": kind, "in": [tokens, n], "out": width, "ticks": ticks, "rows": batch, "options": option}


if __name__ == "__main__":
    for kind in ("rnn", "lstm", "gru", "swiglu"):
        OUT.mkdir(exist_ok=True)
        lines = [json.dumps(golden(row), separators=(",", ":")) for row in rows(kind)]
        (OUT / f"{kind}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        print(kind, len(lines), "rows")
