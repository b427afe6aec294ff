# SPDX-License-Identifier: Apache-2.0
"""Payloads of random weights in the client's layout, and the same networks in float64 by numpy."""
import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": sigmoid, "linear": lambda x: x}


def weights(random, *shape):
    """Values that float32 holds, so that both sides compute with the same ones; as large as new layers have them, so
    that outputs are near 1."""
    size = 0.5 if len(shape) == 1 else 1 / np.sqrt(np.prod(shape[1:]))
    return (random.standard_normal(shape) * size).astype(np.float32).astype(np.float64)


def flat(*arrays):
    return [float(value) for array in arrays for value in np.ravel(array)]


def dense(random):
    widths, layers, held = [7, 9, 5, 3], [], []
    for i, act in enumerate(("relu", "Sigmoid", "TANH")):
        w, b = weights(random, widths[i + 1], widths[i]), weights(random, widths[i + 1])
        layers.append({"index": i, "input_dim": widths[i], "output_dim": widths[i + 1], "activation": act,
                       "weights": flat(w), "bias": flat(b) if i else None})
        held.append((w, b if i else 0, ACTIVATIONS[act.lower()]))

    def reference(x):
        for w, b, act in held:
            x = act(w @ x + b)
        return x
    return {"input_dim": 7, "layers": layers}, (7,), reference


def convolution(axes):
    names = {1: ["input_length"], 2: ["input_height", "input_width"],
             3: ["input_depth", "input_height", "input_width"]}[axes]
    tops = {1: ["seq_len"], 2: ["height", "width"], 3: ["depth", "height", "width"]}[axes]

    def make(random):
        extents, channels, layers, held = [6, 5, 4][:axes], 2, [], []
        for i, (filters, kernel, stride, padding, act) in enumerate([(3, 3, 2, 1, "relu"), (2, 2, 1, 1, "tanh")]):
            w = weights(random, filters, channels, *[kernel] * axes)
            layers.append({"kind": f"cnn{axes}", "index": i, "in_channels": channels, "filters": filters,
                           **dict(zip(names, extents)), "kernel_size": kernel, "stride": stride, "padding": padding,
                           "activation": act, "weights": flat(w)})
            held.append((w, stride, padding, ACTIVATIONS[act]))
            extents, channels = [(e + 2 * padding - kernel) // stride + 1 for e in extents], filters

        def reference(x):
            for w, stride, padding, act in held:
                x = np.pad(x, [(0, 0)] + [(padding, padding)] * axes)
                windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], tuple(range(1, axes + 1)))
                windows = windows[(slice(None), *[slice(None, None, stride)] * axes)]
                places = windows.shape[1:1 + axes]
                columns = np.moveaxis(windows, 0, axes).reshape(int(np.prod(places)), -1)
                x = act(w.reshape(len(w), -1) @ columns.T).reshape(len(w), *places)
            return x
        shape = (2, *[6, 5, 4][:axes])
        return {"input_channels": 2, **dict(zip(tops, shape[1:])), "layers": layers}, shape, reference
    return make


def mha(random):
    tokens, width, heads, groups, size, layers, held = 5, 6, 4, 2, 4, [], []
    for i in range(2):
        q, k, v = weights(random, heads * size, width), weights(random, groups * size, width), weights(random,
                                                                                                       groups * size,
                                                                                                       width)
        o, qb, ob = weights(random, width, heads * size), weights(random, heads * size), weights(random, width)
        layers.append({"kind": "mha", "index": i, "d_model": width, "num_heads": heads, "num_kv_heads": groups,
                       "head_dim": size, "seq_len": tokens, "q_weights": flat(q), "q_bias": flat(qb),
                       "k_weights": flat(k), "k_bias": None, "v_weights": flat(v), "o_weights": flat(o),
                       "o_bias": flat(ob)})
        held.append((q, k, v, o, qb, ob))

    def turned(z):
        half = size // 2
        angle = np.arange(tokens)[:, None] / 10000 ** (2 * np.arange(half) / size)
        u, w = z[:, :half], z[:, half:]
        return np.concatenate([u * np.cos(angle) - w * np.sin(angle), u * np.sin(angle) + w * np.cos(angle)], 1)

    def reference(x):
        for q, k, v, o, qb, ob in held:
            all_q, all_k, all_v, parts = x @ q.T + qb, x @ k.T, x @ v.T, []
            for head in range(heads):
                group = head // (heads // groups)
                own, theirs = slice(head * size, (head + 1) * size), slice(group * size, (group + 1) * size)
                scores = turned(all_q[:, own]) @ turned(all_k[:, theirs]).T / np.sqrt(size)
                scores[np.triu_indices(tokens, 1)] = -np.inf
                p = np.exp(scores - scores.max(1, keepdims=True))
                parts.append(p / p.sum(1, keepdims=True) @ all_v[:, theirs])
            x = np.concatenate(parts, 1) @ o.T + ob
        return x
    return {"d_model": width, "seq_len": tokens, "layers": layers}, (tokens, width), reference


def recurrent(kind):
    def make(random):
        tokens, sizes, layers, held = 6, [3, 5, 4], [], []
        for i in range(2):
            n, h = sizes[i], sizes[i + 1]
            gates = [(weights(random, h, n), weights(random, h, h), weights(random, h))
                     for _ in range(4 if kind == "lstm" else 1)]
            fields = [f"{gate}_weights" for gate in "ifgo"] if kind == "lstm" else ["weights"]
            layers.append({"kind": kind, "index": i, "input_size": n, "hidden_size": h, "seq_len": tokens,
                           **{field: flat(*gate) for field, gate in zip(fields, gates)}})
            held.append((gates, h))

        def reference(x):
            for gates, size in held:
                h, c, out = np.zeros(size), np.zeros(size), []
                for row in x:
                    z = [w @ row + u @ h + b for w, u, b in gates]
                    if kind == "lstm":
                        c = sigmoid(z[1]) * c + sigmoid(z[0]) * np.tanh(z[2])
                        h = sigmoid(z[3]) * np.tanh(c)
                    else:
                        h = np.tanh(z[0])
                    out.append(h)
                x = np.array(out)
            return x
        return {"input_size": 3, "hidden_size": 5, "seq_len": tokens, "layers": layers}, (tokens, 3), reference
    return make


def layernorm(random):
    """Rows whose offset is large against their spread: what float32 rounds away of them is most of it."""
    gain, bias = weights(random, 8), weights(random, 8)

    def reference(x):
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5) * gain + bias
    payload = {"dim": 8, "seq_len": 3, "layers": [{"kind": "layernorm", "index": 0, "dim": 8, "weights": flat(gain,
                                                                                                              bias)}]}
    return payload, (3, 8), reference


def rmsnorm(random):
    gain = weights(random, 8)
    payload = {"dim": 8, "seq_len": 3, "layers": [{"kind": "rmsnorm", "index": 0, "dim": 8, "weights": flat(gain)}]}
    return payload, (3, 8), lambda x: x / np.sqrt((x ** 2).mean(1, keepdims=True) + 1e-6) * gain


def swiglu(random):
    n, m = 5, 7
    gate, up, down = weights(random, m, n), weights(random, m, n), weights(random, n, m)
    biases = weights(random, m), weights(random, m), weights(random, n)

    def reference(x):
        z = x @ gate.T + biases[0]
        return (z * sigmoid(z) * (x @ up.T + biases[1])) @ down.T + biases[2]
    payload = {"input_dim": n, "intermediate_dim": m, "seq_len": 4,
               "layers": [{"kind": "swiglu", "index": 0, "input_dim": n, "intermediate_dim": m,
                           "weights": flat(gate, up, down, *biases)}]}
    return payload, (4, n), reference


def embedding(random):
    table = weights(random, 16, 4)

    def reference(ids):
        ids = np.trunc(ids).astype(int)
        return np.where(((ids >= 0) & (ids < 16))[:, None], table[np.clip(ids, 0, 15)], 0)
    payload = {"vocab_size": 16, "seq_len": 6, "embed_dim": 4,
               "layers": [{"kind": "embedding", "index": 0, "vocab_size": 16, "embedding_dim": 4,
                           "weights": flat(table)}]}
    return payload, (6,), reference


def residual(random):
    payload = {"dim": 4, "seq_len": 3, "layers": [{"kind": "residual", "index": 0, "dim": 4}]}
    return payload, (2, 3, 4), lambda x: x[0] + x[1]


KINDS = {"dense": dense, "cnn1": convolution(1), "cnn2": convolution(2), "cnn3": convolution(3), "mha": mha,
         "lstm": recurrent("lstm"), "rnn": recurrent("rnn"), "layernorm": layernorm, "embedding": embedding,
         "rmsnorm": rmsnorm, "swiglu": swiglu, "residual": residual}


def samples(bedrock, random, count, shape):
    if bedrock == "embedding":
        return random.integers(-3, 64, (count, *shape)).astype(float)
    if bedrock == "layernorm":
        return 3.0 + 0.05 * random.standard_normal((count, *shape))
    return random.standard_normal((count, *shape))
