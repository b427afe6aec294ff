#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes loom_goldens.json: networks and language models of Loom (docs/formats/loom_entity.md) and what they compute,
in float64, by formulas written here alone.

/usr/bin/python3 tests/data/formats/make_loom_goldens.py
"""
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def g(seed, count):
    """Weights of a blob: the test makes the same."""
    i = np.arange(count)
    return ((37 * i + 11 * seed) % 29 - 14) / 16


def codes(seed, count, most):
    """Signed codes of packed blobs, -most to most."""
    i = np.arange(count)
    return (37 * i + 11 * seed) % (2 * most + 1) - most


ACTIVATIONS = {"Linear": lambda z: z, "ReLU": lambda z: np.maximum(z, 0), "Tanh": np.tanh,
               "Sigmoid": lambda z: 1 / (1 + np.exp(-z)), "Silu": lambda z: z / (1 + np.exp(-z))}


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer(kind, **keys):
    return {"z": 0, "y": 0, "x": 0, "l": 0, "type": kind, "activation": "Linear", "dtype": "float32",
            "softmax_type": "Standard", **keys}


def dense(n, m, **keys):
    return layer("Dense", input_height=n, output_height=m, **keys)


class Network:
    """Forward of a list of layers as Loom does it; blobs are noted as they are used."""

    def __init__(self):
        self.blobs = []

    def weights(self, path, count):
        seed = len(self.blobs) + 1
        self.blobs.append({"path": path, "seed": seed, "count": count})
        return g(seed, count)

    def run(self, at, path, x, skip=None):
        kind, n, m = at["type"], at.get("input_height", 0), at.get("output_height", 0)
        if kind == "Dense":
            return ACTIVATIONS[at["activation"]](self.weights(path, n * m).reshape(m, n) @ x.ravel())
        if kind == "RMSNorm":
            return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * self.weights(path, n)
        if kind == "KMeans":
            clusters, flat = at["num_clusters"], x.ravel()
            centres = self.weights(path, clusters * flat.size).reshape(clusters, -1)
            t = at.get("kmeans_temperature", 0) or 1
            p = softmax(-((flat - centres) ** 2).sum(axis=1) / (2 * t * t))
            return ACTIVATIONS[at["activation"]](p @ centres if at.get("output_mode") == "features" else p)
        if kind == "CNN1":
            c, f, k, s, pad = (at[key] for key in ("input_channels", "filters", "kernel_size", "stride", "padding"))
            w = self.weights(path, f * c * k).reshape(f, c, k)
            wide = np.pad(x.reshape(c, -1), ((0, 0), (pad, pad)))
            steps = (wide.shape[1] - k) // s + 1
            out = [[(w[o] * wide[:, i * s:i * s + k]).sum() for i in range(steps)] for o in range(f)]
            return ACTIVATIONS[at["activation"]](np.array(out))
        if kind == "Residual":
            return x + skip.reshape(x.shape) if skip is not None and skip.size == x.size else x
        if kind == "Sequential":
            last = None
            for i, inner in enumerate(at.get("sequential_layers", [])):
                if inner.get("is_disabled"):
                    continue
                y = self.run(inner, f"{path}.sequential_layers.{i}", x, last)
                last, x = x, y
            return x
        if kind == "Parallel":
            outs = [self.run(inner, f"{path}.parallel_branches.{i}", x).ravel()
                    for i, inner in enumerate(at.get("parallel_branches", []))]
            mode = at.get("combine_mode", "")
            if not outs:
                return x
            return sum(outs) if mode == "add" else sum(outs) / len(outs) if mode == "avg" else np.concatenate(outs)
        if kind == "Metacognition":
            return self.run(at["meta_observed_layer"], path + ".meta_observed_layer", x)
        raise ValueError(kind)


def network(name, x, *layers):
    net, value = Network(), np.array(x, float)
    for i, at in enumerate(layers):
        at["l"] = i
        value = net.run(at, f"layers.{i}", value)
    return {"name": name, "layers": layers, "blobs": net.blobs, "x": x, "y": np.ravel(value).tolist()}


def seq(*inner, **keys):
    return layer("Sequential", sequential_layers=list(inner), **keys)


def par(mode, *inner):
    return layer("Parallel", combine_mode=mode, parallel_branches=list(inner))


X3 = [0.5, -1.25, 2.0]
CNN = dict(input_channels=1, filters=2, kernel_size=2, stride=1, padding=0, input_height=4, output_height=3)
NETWORKS = [
    network("sequential", X3, seq(dense(3, 4, activation="Tanh"), dense(4, 3, activation="Silu")), dense(3, 2)),
    network("residual in a sequential", X3,
            seq(dense(3, 3, activation="Tanh"), layer("Residual"), dense(3, 3), layer("Residual"), layer("Residual"))),
    network("residual that has nothing to add", X3,
            seq(layer("Residual"), dense(3, 2), layer("Residual"), dense(2, 2)), layer("Residual")),
    network("residual over another shape", [1, -2, 0.5, 3], dense(4, 4),
            seq(dense(4, 6), layer("CNN1", **CNN | dict(input_height=6, filters=1, kernel_size=1, output_height=6)),
                layer("Residual"))),
    network("parallel, joined", X3, dense(3, 3), par("concat", dense(3, 2, activation="Sigmoid"), dense(3, 4)),
            dense(6, 2)),
    network("parallel, joined, by default", X3, par("", dense(3, 2), dense(3, 1))),
    network("parallel, scattered", X3, par("grid_scatter", dense(3, 2), dense(3, 2))),
    network("parallel, added", X3, par("add", dense(3, 2), dense(3, 2, activation="Tanh"), dense(3, 2))),
    network("parallel, averaged", X3, par("avg", dense(3, 2), dense(3, 2, activation="Tanh"), dense(3, 2))),
    network("parallel, one branch", X3, par("avg", dense(3, 2)), par("concat", dense(2, 3))),
    network("parallel, maps of convolutions", [1, -2, 0.5, 3],
            par("concat", layer("CNN1", **CNN), dense(4, 2), layer("CNN1", **CNN | dict(activation="Tanh"))),
            dense(14, 3)),
    network("parallel, one that passes on", X3, dense(3, 3), par("add", seq(), dense(3, 3), layer("Residual"))),
    network("nested", X3, dense(3, 4, activation="Tanh"),
            par("concat", seq(dense(4, 4), layer("Residual"), layer("RMSNorm", input_height=4)),
                seq(par("add", dense(4, 3), dense(4, 3)), par("avg", dense(3, 2), seq(dense(3, 5), dense(5, 2))))),
            dense(6, 2, activation="ReLU")),
    network("disabled inside", X3, seq(dense(3, 3), dense(3, 3, is_disabled=True), layer("Residual"), dense(3, 2))),
    network("kmeans", X3, dense(3, 4), layer("KMeans", num_clusters=3, input_height=4, activation="ReLU")),
    network("kmeans, a temperature, an activation", X3,
            layer("KMeans", num_clusters=5, input_height=3, kmeans_temperature=0.75, activation="Tanh")),
    network("kmeans, features", X3,
            layer("KMeans", num_clusters=4, input_height=3, output_mode="features", activation="ReLU"), dense(3, 2)),
    network("metacognition without rules", X3,
            layer("Metacognition", meta_rules=None, meta_observed_layer=dense(3, 3, activation="Tanh")), dense(3, 2)),
]


class Model:
    """A decoder as Loom runs it: h += attention(norm h), h += gated(norm h), then the head."""

    def __init__(self, form, tied, vocabulary=12, width=8, heads=2, kv=1, head=4, hidden=12, blocks=2, theta=10000.0,
                 biases=(), norms=False, activation="Silu"):
        self.form, self.d, self.h, self.kv, self.dim, self.hidden = form, width, heads, kv, head, hidden
        self.theta, self.biases, self.activation, self.blobs = theta, biases, activation, []
        self.layers, self.block_weights = [], []
        for b in range(blocks):
            self.layers += [layer("RMSNorm", input_height=width, output_height=width, l=4 * b),
                            layer("MultiHeadAttention", d_model=width, num_heads=heads, num_kv_heads=kv, head_dim=head,
                                  query_dim=heads * head, seq_length=1, l=4 * b + 1),
                            layer("RMSNorm", input_height=width, output_height=width, l=4 * b + 2),
                            layer("SwiGLU", input_height=width, output_height=hidden, l=4 * b + 3)]
            at = f"layers.{4 * b}"
            own = {"norm1": self.numbers(at, width)}
            q, k = heads * head, kv * head
            own |= self.part(f"layers.{4 * b + 1}", [("q", q, width), ("k", k, width), ("v", k, width), ("o", width, q)],
                             200)
            if norms:
                own["qn"] = self.numbers(f"layers.{4 * b + 1}.q_norm", head)
                own["kn"] = self.numbers(f"layers.{4 * b + 1}.k_norm", head)
            if form == "ternary":
                own["in1"] = self.numbers(f"layers.{4 * b + 1}.inner_norm", q)
            own["norm2"] = self.numbers(f"layers.{4 * b + 2}", width)
            own |= self.part(f"layers.{4 * b + 3}",
                             [("gate", hidden, width), ("up", hidden, width), ("down", width, hidden)], 100)
            if form == "ternary":
                own["in2"] = self.numbers(f"layers.{4 * b + 3}.inner_norm", hidden)
            self.block_weights.append(own)
        self.table = self.numbers("transformer.embeddings", vocabulary * width).reshape(vocabulary, width)
        self.head_matrix = self.table
        if not tied:
            self.head_matrix = self.numbers("transformer.lm_head", vocabulary * width).reshape(vocabulary, width)
        self.final = self.numbers("transformer.final_norm", width)
        self.section = {"architecture": "llama_style_decoder", "hidden_size": width, "vocab_size": vocabulary,
                        "has_final_norm": True, "weight_dtype": "float32",
                        "dims": {"num_layers": blocks, "num_heads": heads, "num_kv_heads": kv, "head_dim": head,
                                 "query_dim": heads * head, "kv_dim": kv * head, "intermediate_size": hidden,
                                 "rms_norm_eps": 1e-5, "rope_freq_base": theta, "activation": activation}}
        if tied:
            self.section["lm_head_tied"] = True

    def numbers(self, path, count, zeros=()):
        seed = len(self.blobs) + 1
        self.blobs.append({"path": path, "seed": seed, "count": count, "zeros": [list(z) for z in zeros]})
        values = g(seed, count)
        for first, last in zeros:
            values[first:last] = 0
        return values

    def part(self, path, matrices, key):
        """Matrices, then a bias each; those that the model does not have are zeros, or not there."""
        own = {}
        sizes = [(name, out, inn) for name, out, inn in matrices]
        if self.form == "numbers":
            total = sum(out * inn for _, out, inn in sizes)
            ends, at = [], total
            for name, out, _ in sizes:
                if name not in self.biases:
                    ends.append((at, at + out))
                at += out
            values = self.numbers(path, at, ends)
            first = 0
            for name, out, inn in sizes:
                own[name] = values[first:first + out * inn].reshape(out, inn)
                first += out * inn
            for name, out, _ in sizes:
                own[name + "_b"] = values[first:first + out]
                first += out
            return own
        first = 0
        for i, (name, out, inn) in enumerate(sizes):
            seed = len(self.blobs) + 1
            if self.form == "blocks":
                self.blobs.append({"path": f"{path}.q4_0.{key + i}", "seed": seed, "count": out * inn, "form": "blocks"})
                scales = (1 + np.arange(-(-out * inn // 32)) % 5) / 64
                own[name] = (codes(seed, out * inn, 7) * np.repeat(scales, 32)[:out * inn]).reshape(out, inn)
            else:
                self.blobs.append({"path": f"{path}.bitnet_ternary.{10000 + first}", "seed": seed, "rows": out,
                                   "cols": inn, "offset": first, "form": "ternary"})
                own[name] = codes(seed, out * inn, 1).reshape(out, inn) * (3 / 64)
            own[name + "_b"] = np.zeros(out)
            first += out * inn
        if self.form == "blocks" and key == 100:
            own_zeros = sum(out for _, out, _ in sizes)
            self.numbers(path + ".biases", own_zeros, [(0, own_zeros)])
        return own

    def product(self, w, x):
        """x [T, in] W^T; ternary matrices take their inputs as int8 with one scale a row."""
        if self.form != "ternary":
            return x @ w.T
        most = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-5)
        return np.clip(np.rint(x * (127 / most)), -128, 127) @ w.T * (most / 127)

    def norm(self, x, gain, eps=1e-5):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * gain

    def turned(self, v):
        half = self.dim // 2
        angle = np.arange(v.shape[0])[:, None] / self.theta ** (2 * np.arange(half) / self.dim)
        c, s = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        a, b = v[..., :half], v[..., half:]
        return np.concatenate([a * c - b * s, a * s + b * c], axis=-1)

    def attention(self, w, x):
        t = x.shape[0]
        q, k, v = ((self.product(w[n], x) + w[n + "_b"]).reshape(t, -1, self.dim) for n in "qkv")
        if "qn" in w:
            q, k = self.norm(q, w["qn"]), self.norm(k, w["kn"])
        q, k = self.turned(q), self.turned(k)
        out = np.zeros((t, self.h, self.dim))
        for h in range(self.h):
            scores = q[:, h] @ k[:, h * self.kv // self.h].T / np.sqrt(self.dim)
            scores[np.triu_indices(t, 1)] = -np.inf
            out[:, h] = softmax(scores) @ v[:, h * self.kv // self.h]
        out = out.reshape(t, -1)
        if "in1" in w:
            out = self.norm(out, w["in1"])
        return self.product(w["o"], out) + w["o_b"]

    def gated(self, w, x):
        gate, up = (self.product(w[n], x) + w[n + "_b"] for n in ("gate", "up"))
        act = np.maximum(gate, 0) ** 2 if self.activation == "ReLU2" else gate / (1 + np.exp(-gate))
        inner = act * up
        if "in2" in w:
            inner = self.norm(inner, w["in2"])
        return self.product(w["down"], inner) + w["down_b"]

    def logits(self, tokens):
        h = self.table[tokens]
        for w in self.block_weights:
            h = h + self.attention(w, self.norm(h, w["norm1"]))
            h = h + self.gated(w, self.norm(h, w["norm2"]))
        return self.norm(h, self.final) @ self.head_matrix.T

    def case(self, name, family):
        tokens = [3, 7, 1, 1, 11]
        return {"name": name, "family": family, "transformer": self.section, "layers": self.layers,
                "blobs": self.blobs, "tokens": tokens, "logits": self.logits(tokens).ravel().tolist()}


ALL = ("q", "k", "v", "o", "gate", "up", "down")
MODELS = [
    Model("numbers", True).case("tied", "llama"),
    Model("numbers", False, theta=500000.0).case("untied", "llama"),
    Model("numbers", True, biases=("q", "k", "v")).case("biases of queries, keys and values", "qwen2"),
    Model("numbers", True, biases=ALL).case("all biases", "llama"),
    Model("numbers", True, norms=True).case("norms of queries and keys", "qwen3"),
    Model("blocks", True, width=32, head=16, hidden=64, blocks=1).case("blocks", "llama"),
    Model("blocks", True).case("blocks over the ends of rows", "llama"),
    Model("ternary", True, activation="ReLU2").case("ternary", "bitnet"),
]

(HERE / "loom_goldens.json").write_text(json.dumps({"networks": NETWORKS, "models": MODELS}, separators=(",", ":")) + "\n")
