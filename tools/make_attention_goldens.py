#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/layers/attention.json and embedding.json: values and gradients as PyTorch computes them, in
float64.

Parameters, inputs and the outputs' gradients are not in the files: both sides draw them (make_layer_goldens.py). With a
context, the ticks of a row are one sequence. Needs Debian's python3-torch (1.13.1).

  /usr/bin/python3 tools/make_attention_goldens.py
"""
import json
import math

import torch
import torch.nn.functional as F

from make_layer_goldens import DY, OUT, PARAMETERS, X, draw


def frequencies(n, o):
    """The formulas of the papers and of Llama 3's code."""
    theta, factor = o.get("rope_theta", 10000.0), o.get("rope_factor", 1.0)
    scaling = o.get("rope_scaling", "none")
    if scaling == "ntk":
        theta = theta * factor ** (n / (n - 2))
    f = 1.0 / theta ** (torch.arange(0, n, 2, dtype=torch.float64) / n)
    if scaling == "linear":
        f = f / factor
    if scaling == "llama3":
        low, high = o.get("rope_low_freq_factor", 1.0), o.get("rope_high_freq_factor", 4.0)
        original = o.get("rope_original_context", 8192)
        wavelength = 2 * math.pi / f
        smooth = (original / wavelength - low) / (high - low)
        mixed = (1 - smooth) * f / factor + smooth * f
        f = torch.where(wavelength < original / high, f, torch.where(wavelength > original / low, f / factor, mixed))
    return f


def rope(x, o):
    """x [..., tokens, n]."""
    kind = o.get("rope", "none")
    if kind == "none":
        return x
    tokens, n = x.shape[-2:]
    angle = torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies(n, o))
    if kind == "interleaved":  # complex numbers, as in RoFormer
        turned = torch.view_as_complex(x.reshape(*x.shape[:-1], n // 2, 2)) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned).flatten(-2)
    a, b = x.chunk(2, dim=-1)  # rotate_half, as in GPT-NeoX
    angle = torch.cat((angle, angle), dim=-1)
    return x * angle.cos() + torch.cat((-b, a), dim=-1) * angle.sin()


def norm(x, gain, o):
    kind = o.get("qk_norm", "none")
    epsilon = o.get("epsilon", 1e-5)
    if kind == "none":
        return x
    if kind == "layer":
        return F.layer_norm(x, x.shape[-1:], gain, None, epsilon)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * gain


def mask_of(x, o, heads):
    """The values [batch, tokens, d], and what their mask's columns add to the scores [batch, heads, tokens, tokens]."""
    tokens, kind = x.shape[1], o.get("mask", "none")
    if kind == "none":
        return x, torch.zeros((), dtype=x.dtype)
    d = x.shape[-1] - {"keys": 1, "scores": tokens, "heads": heads * tokens}[kind]
    mask = x[..., d:]
    if kind == "keys":
        return x[..., :d], mask.transpose(1, 2).unsqueeze(1)
    return x[..., :d], mask.unflatten(-1, (-1, tokens)).transpose(1, 2)


def attend(x, p, o, out):
    """x [batch, tokens, d and the mask's columns]."""
    heads = o.get("heads", 1)
    x, mask = mask_of(x, o, heads)
    d = x.shape[-1]
    kv = o.get("kv_heads", heads)
    n = o.get("head_dim", d // heads)
    split = lambda y, count: y.unflatten(-1, (count, n)).transpose(1, 2)
    q = split(F.linear(x, p["query"], p.get("query_bias")), heads)
    k = split(F.linear(x, p["key"], p.get("key_bias")), kv)
    v = split(F.linear(x, p["value"], p.get("value_bias")), kv)
    q, k = rope(norm(q, p.get("query_gain"), o), o), rope(norm(k, p.get("key_gain"), o), o)
    k, v = (t.repeat_interleave(heads // kv, dim=1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * o.get("scale", 1 / math.sqrt(n))
    tokens = x.shape[1]
    behind = torch.arange(tokens).unsqueeze(1) - torch.arange(tokens)
    hidden = torch.zeros(tokens, tokens, dtype=torch.bool)
    if o.get("causal", "context" in o):
        hidden |= behind < 0
    for reach in (o.get("window", 0), o.get("context", 0)):
        if reach:
            hidden |= behind.abs() >= reach
    y = (scores + mask).masked_fill(hidden, -math.inf).softmax(-1) @ v
    return F.linear(y.transpose(1, 2).flatten(2), p["output"], p.get("output_bias"))


def check_against_the_module(x, p, heads):
    """`attend` is what torch.nn.MultiheadAttention computes where that can."""
    d = x.shape[-1]
    module = torch.nn.MultiheadAttention(d, heads, batch_first=True).double()
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat((p["query"], p["key"], p["value"])))
        module.in_proj_bias.copy_(torch.cat((p["query_bias"], p["key_bias"], p["value_bias"])))
        module.out_proj.weight.copy_(p["output"])
        module.out_proj.bias.copy_(p["output_bias"])
    torch.testing.assert_close(module(x, x, x)[0], attend(x, p, {"heads": heads}, d))
    tokens = x.shape[1]
    mask = torch.rand(len(x), heads, tokens, tokens, dtype=x.dtype) * 4 - 2
    mask[0, :, :, 0] = -1e30
    columns = lambda m: torch.cat((x, m), -1)
    want = lambda kind, m: attend(columns(m), p, {"heads": heads, "mask": kind}, d)
    torch.testing.assert_close(module(x, x, x, attn_mask=mask.flatten(0, 1))[0],
                               want("heads", mask.transpose(1, 2).flatten(2)))
    torch.testing.assert_close(module(x, x, x, attn_mask=mask[0, 0])[0],
                               want("scores", mask[0, 0].expand(len(x), -1, -1)))
    padding = torch.arange(tokens).expand(len(x), -1) >= tokens - torch.arange(len(x)).unsqueeze(1)
    torch.testing.assert_close(module(x, x, x, key_padding_mask=padding)[0],
                               want("keys", -1e30 * padding.to(x.dtype).unsqueeze(-1)))


def attention(row):
    tokens, d, out, o = row["tokens"], row["d"], row["out"], row["options"]
    heads = o.get("heads", 1)
    kv, n = o.get("kv_heads", heads), o.get("head_dim", d // heads)
    shapes = {"query": (heads * n, d), "key": (kv * n, d), "value": (kv * n, d), "output": (out, heads * n)}
    if o.get("bias", True):
        shapes |= {"query_bias": (heads * n,), "key_bias": (kv * n,), "value_bias": (kv * n,)}
    if o.get("out_bias", o.get("bias", True)):
        shapes["output_bias"] = (out,)
    if o.get("qk_norm", "none") != "none":
        shapes |= {"query_gain": (n,), "key_gain": (n,)}
    p = {name: draw(PARAMETERS + i, s, 0.5).requires_grad_() for i, (name, s) in enumerate(shapes.items())}
    x = draw(X, (row["ticks"], row["rows"], tokens, row["in"][-1])).requires_grad_()
    if o.get("context"):
        y = attend(x.transpose(0, 1).flatten(1, 2), p, o, out).unflatten(1, (row["ticks"], tokens)).transpose(0, 1)
    else:
        y = torch.stack([attend(tick, p, o, out) for tick in x])
    if set(o) == {"heads"} and out == d:
        check_against_the_module(x[0], p, heads)
    return list(p.values()), x, y


def embedding(row):
    vocabulary, padding = row["options"]["vocabulary"], row["options"].get("padding_index")
    table = draw(PARAMETERS, (row["out"], vocabulary), 0.5).requires_grad_()
    x = draw(X, (row["ticks"], row["rows"], row["in"][0]))
    index = torch.floor((x + 1) / 2 * vocabulary).long()
    return [table], x, F.embedding(index, table.T, padding_idx=padding)


def golden(row):
    parameters, x, y = (attention if row["type"] == "attention" else embedding)(row)
    (draw(DY, y.shape) * y).sum().backward()
    numbers = lambda t: [float(f"{v:.9g}") for v in t.detach().flatten().tolist()]
    dx = x.grad if x.requires_grad else torch.zeros_like(x)
    return {**row, "y": numbers(y), "dx": numbers(dx), "gradients": [numbers(p.grad) for p in parameters]}


def attention_rows():
    """tokens (None: a vector), d, out, ticks, rows, options."""
    llama3 = {"rope": "half", "rope_scaling": "llama3", "rope_factor": 8, "rope_original_context": 64,
              "rope_low_freq_factor": 1, "rope_high_freq_factor": 4, "rope_theta": 500}
    cases = [
        (5, 6, 6, 1, 3, {"heads": 2}),
        (3, 5, 5, 1, 1, {"heads": 1, "bias": False}),
        (7, 8, 3, 1, 3, {"heads": 4, "kv_heads": 2, "causal": True}),
        (4, 6, 6, 2, 2, {"heads": 6, "kv_heads": 1, "bias": False, "out_bias": True}),
        (9, 4, 5, 1, 2, {"heads": 2, "causal": True, "window": 3}),
        (6, 4, 4, 1, 3, {"heads": 2, "window": 2, "scale": 0.9}),
        (5, 4, 4, 1, 2, {"heads": 2, "head_dim": 6, "rope": "half", "causal": True}),
        (5, 4, 4, 1, 2, {"heads": 2, "head_dim": 6, "rope": "interleaved", "rope_theta": 100}),
        (6, 5, 7, 1, 1, {"heads": 3, "kv_heads": 3, "head_dim": 4, "rope": "half", "rope_scaling": "linear", "rope_factor": 4}),
        (6, 8, 8, 1, 1, {"heads": 2, "rope": "interleaved", "rope_scaling": "ntk", "rope_factor": 8}),
        (19, 3, 3, 1, 1, {"heads": 1, "head_dim": 8, **llama3}),
        (5, 6, 6, 1, 3, {"heads": 3, "qk_norm": "rms", "causal": True}),
        (5, 6, 6, 1, 2, {"heads": 2, "kv_heads": 1, "qk_norm": "layer", "rope": "half", "head_dim": 4, "epsilon": 1e-3}),
        (None, 4, 4, 12, 3, {"heads": 2, "context": 5, "rope": "half"}),
        (3, 6, 6, 5, 2, {"heads": 2, "kv_heads": 1, "context": 7, "rope": "interleaved", "qk_norm": "rms", "head_dim": 4}),
        (8, 4, 3, 3, 1, {"heads": 4, "kv_heads": 2, "context": 20, "window": 6, "bias": False}),
        (11, 3, 3, 2, 1, {"heads": 1, "context": 4}),
        (1, 7, 2, 1, 3, {"heads": 7, "causal": True}),
        (5, 6, 6, 1, 2, {"heads": 2, "mask": "keys"}),
        (7, 4, 3, 2, 2, {"heads": 2, "mask": "scores", "causal": True, "rope": "half"}),
        (4, 8, 8, 1, 3, {"heads": 4, "kv_heads": 2, "mask": "heads", "qk_norm": "rms", "window": 3}),
        (1, 3, 3, 1, 2, {"heads": 3, "mask": "keys", "bias": False}),
    ]
    for tokens, d, out, ticks, rows, options in cases:
        numbers = {"none": 0, "keys": 1, "scores": tokens, "heads": (tokens or 1) * options["heads"]}
        width = d + numbers[options.get("mask", "none")]
        shape = [width] if tokens is None else [tokens, width]
        yield {"type": "attention", "in": shape, "tokens": tokens or 1, "d": d, "out": out, "ticks": ticks, "rows": rows,
               "options": options}


def embedding_rows():
    sizes = [(1, 1, 1, 1), (1, 5, 7, 3), (4, 3, 9, 1), (3, 17, 5, 3), (5, 16, 33, 2), (2, 33, 2, 3)]
    for i, (tokens, out, vocabulary, rows) in enumerate(sizes):
        for padding in [None, vocabulary // 2]:
            options = {"vocabulary": vocabulary} | ({} if padding is None else {"padding_index": padding})
            yield {"type": "embedding", "in": [tokens], "out": out, "ticks": 1 + i % 3, "rows": rows, "options": options}


def main():
    for kind, rows in (("attention", attention_rows()), ("embedding", embedding_rows())):
        lines = [json.dumps(golden(row), separators=(",", ":")) for row in rows]
        (OUT / f"{kind}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        print(kind, len(lines), "rows")


if __name__ == "__main__":
    main()
