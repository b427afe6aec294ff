#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/layers/<type>.json for convolutions and pools, as make_layer_goldens.py does for other layers.

Needs Debian's python3-torch (1.13.1).

  /usr/bin/python3 tools/make_window_goldens.py
"""
import json

import torch
import torch.nn.functional as F

from make_layer_goldens import DY, OUT, PARAMETERS, X, draw

ACTIVATIONS = {"linear": lambda v: v, "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def convolved(row, x):
    axes, options = len(row["in"]) - 1, dict(row["options"])
    is_transposed = row["type"].startswith("conv_transposed")
    groups, channels = options.get("groups", 1), row["in"][0]
    kernel = options.pop("kernel")
    kernel = kernel if isinstance(kernel, list) else [kernel] * axes
    inner, outer = (row["out"], channels) if is_transposed else (channels, row["out"])
    parameters = [draw(PARAMETERS, (outer, inner // groups, *kernel), 0.5).requires_grad_()]
    if options.pop("bias", True):
        parameters.append(draw(PARAMETERS + 1, (row["out"],), 0.5).requires_grad_())
    activation = ACTIVATIONS[options.pop("activation", "linear")]
    function = getattr(F, f"conv_transpose{axes}d" if is_transposed else f"conv{axes}d")
    bias = parameters[1] if len(parameters) > 1 else None
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return parameters, activation(function(x, parameters[0], bias, **options))


def pooled(row, x):
    axes, options = len(row["in"]) - 1, dict(row["options"])
    kind = row["type"].removesuffix("_pool")
    if kind.startswith("adaptive"):
        size = options["size"]
        return [], getattr(F, f"{kind}_pool{axes}d")(x, tuple(size) if isinstance(size, list) else size)
    kernel = options.pop("kernel")
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return [], getattr(F, f"{kind}_pool{axes}d")(x, kernel, **options)


def golden(row):
    x = draw(X, (row["rows"], *row["in"])).requires_grad_()
    parameters, y = (pooled if row["type"].endswith("_pool") else convolved)(row, x)
    (draw(DY, y.shape) * y).sum().backward()
    numbers = lambda t: [float(f"{v:.8g}") for v in t.detach().flatten().tolist()]
    return {**row, "shape": list(y.shape[1:]), "y": numbers(y), "dx": numbers(x.grad),
            "gradients": [numbers(p.grad) for p in parameters]}


def convolutions(kind, axes):
    """in, out, rows, options; of extents the last `axes` count."""
    plane = lambda *extents: list(extents[-axes:])
    is_transposed = kind.startswith("conv_transposed")
    # Transposed ones grow; volumes are large as they are.
    size = lambda *extents: [-(-e // (2 if is_transposed else 1)) for e in plane(*extents)]
    cases = [
        ([1, *size(1, 1, 1)], 1, 1, {"kernel": 1}),
        ([2, *size(3, 4, 5)], 3, 3, {"kernel": 3 if axes < 3 else 2}),
        ([3, *size(3, 5, 7)], 2, 3, {"kernel": 3, "padding": 1, "activation": "relu"}),
        ([2, *size(4, 5, 9)], 3, 1, {"kernel": plane(2, 3, 4), "stride": 2, "padding": plane(0, 1, 1)}),
        ([1, *size(3, 7, 11)], 4, 2, {"kernel": plane(2, 2, 3), "stride": plane(2, 1, 3), "bias": False}),
        ([2, *size(5, 7, 9)], 3, 1, {"kernel": plane(2, 3, 3), "dilation": plane(2, 1, 3), "activation": "tanh"}),
        ([4, *size(2, 4, 5)], 6, 3, {"kernel": plane(1, 3, 2), "groups": 2, "padding": plane(0, 1, 1)}),
        ([3, *size(3, 5, 6)], 3, 3, {"kernel": plane(2, 3, 3), "groups": 3, "padding": plane(1, 1, 1)}),
        ([3, *size(2, 5, 7)], 6, 1, {"kernel": plane(1, 3, 3), "groups": 3, "stride": plane(1, 2, 2)}),
        ([4, *size(3, 5, 6)], 4, 1, {"kernel": plane(2, 2, 3), "groups": 2, "stride": 2, "dilation": 2,
                                      "padding": plane(1, 1, 2), "bias": False, "activation": "sigmoid"}),
        ([17, *size(1, 2, 3)], 5, 3, {"kernel": 1}),
        ([3, *size(2, 2, 4)], 18, 1, {"kernel": plane(1, 1, 3), "padding": plane(0, 0, 1)}),
        ([1, *size(2, 3, 70 if axes < 3 else 20)], 2, 1, {"kernel": plane(1, 2, 5), "padding": plane(0, 0, 2)}),
        ([2, *size(2, 3, 4)], 2, 2, {"kernel": 1, "padding": 0 if is_transposed else 1, "stride": plane(1, 2, 3)}),
    ]
    if is_transposed:
        cases += [
            ([2, *size(2, 3, 4)], 3, 2, {"kernel": 3, "stride": 2, "padding": 1, "output_padding": 1}),
            ([4, *size(2, 3, 3)], 2, 1, {"kernel": plane(2, 2, 3), "stride": plane(1, 2, 3), "groups": 2,
                                          "dilation": plane(2, 1, 1), "output_padding": plane(1, 1, 2)}),
            ([2, *size(2, 3, 4)], 2, 3, {"kernel": 2, "dilation": 3, "output_padding": 2, "padding": 1}),
        ]
    else:
        cases.append(([2, *size(5, 6, 8)], 3, 2, {"kernel": plane(3, 3, 4), "stride": plane(1, 2, 2), "padding": 2,
                                                   "dilation": plane(1, 2, 2)}))
    return cases


def pools(kind):
    if kind.startswith("adaptive"):
        sizes = [([1, 1], 1), ([3, 7], 3), ([2, 70], [9]), ([2, 5], 7), ([3, 4, 6], 1), ([2, 5, 7], 3), ([1, 6, 9], [2, 4]),
                 ([2, 3, 4], [5, 2]), ([2, 8, 8], [8, 4]), ([2, 3, 4, 5], 1), ([1, 5, 6, 7], [2, 3, 4]), ([2, 2, 3, 5], [3, 1, 2])]
        return [(shape, (1, 3, 2)[i % 3], {"size": size}) for i, (shape, size) in enumerate(sizes)]
    cases = [
        ([1, 1], 1, {"kernel": 1}), ([3, 9], 3, {"kernel": 2}), ([2, 70], 1, {"kernel": 5, "stride": 1, "padding": 2}),
        ([2, 11], 2, {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True}), ([3, 6, 8], 3, {"kernel": 2}),
        ([2, 7, 9], 1, {"kernel": 3, "stride": 2, "padding": 1}), ([2, 7, 8], 2, {"kernel": [3, 2], "stride": [2, 3]}),
        ([1, 5, 36], 2, {"kernel": [2, 3], "stride": 1, "padding": [1, 1]}),
        ([2, 6, 7], 1, {"kernel": 3, "stride": 2, "ceil_mode": True}),
        ([2, 8, 8], 1, {"kernel": [4, 5], "stride": [3, 4], "padding": 2, "ceil_mode": True}),
        ([2, 4, 5, 6], 2, {"kernel": 2}),
        ([1, 5, 4, 7], 3, {"kernel": [3, 2, 3], "stride": [2, 1, 2], "padding": [1, 1, 0], "ceil_mode": True}),
    ]
    if kind == "max_pool":
        cases += [([2, 20], 2, {"kernel": 3, "dilation": 4, "stride": 2}),
                  ([2, 9, 11], 1, {"kernel": [2, 3], "dilation": [3, 2], "padding": [1, 1], "stride": [2, 1]})]
    else:
        cases += [([2, 11], 2, {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
                  ([2, 7, 9], 3, {"kernel": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
                  ([1, 5, 4, 7], 1, {"kernel": 2, "padding": 1, "count_include_pad": False})]
    return cases


def rows(kind):
    if kind.endswith("_pool"):
        for shape, batch, options in pools(kind):
            yield {"type": kind, "in": shape, "out": 0, "ticks": 1, "rows": batch, "options": options}
    else:
        for shape, out, batch, options in convolutions(kind, int(kind[-2])):
            yield {"type": kind, "in": shape, "out": out, "ticks": 1, "rows": batch, "options": options}


if __name__ == "__main__":
    kinds = [f"{kind}{axes}d" for kind in ("conv", "conv_transposed") for axes in (1, 2, 3)]
    for kind in (*kinds, "max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool"):
        OUT.mkdir(exist_ok=True)
        lines = [json.dumps(golden(row), separators=(",", ":")) for row in rows(kind)]
        (OUT / f"{kind}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        print(kind, len(lines), "rows")
