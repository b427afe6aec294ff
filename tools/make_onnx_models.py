#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/fuzz/onnx/: small graphs by the onnx package, and tests/data/models/onnx_goldens.json: what
onnxruntime computes for them (tests/models/onnx_import_test.cpp).

    ONNXRUNTIME=FOLDER tools/make_onnx_models.py
    tools/make_onnx_models.py --silero OUT.onnx     silero-vad with the weights of its safetensors file

Needs onnx (Debian's python3-onnx), PyTorch (python3-torch) and tools/run_onnx.mjs with what that needs.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests/data/fuzz/onnx"
NODE, PORT = h.make_node, h.make_tensor_value_info


def floats(name, values):
    return numpy_helper.from_array(np.array(values, np.float32), name)


def wholes(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def save(name, nodes, inputs, outputs, constants, opset=17):
    model = h.make_model(h.make_graph(nodes, "g", inputs, outputs, constants), opset_imports=[h.make_opsetid("", opset)])
    model.ir_version = 8 if opset == 17 else 10
    (MODELS / name).write_bytes(model.SerializeToString())


def save_all():
    y = PORT("y", T.FLOAT, None)
    save("gemm", [NODE("Gemm", ["x", "w", "b"], ["a"], transB=1), NODE("Relu", ["a"], ["c"]),
                  NODE("MatMul", ["c", "v"], ["d"]), NODE("Add", ["d", "e"], ["y"])],
         [PORT("x", T.FLOAT, ["n", 2])], [y],
         [floats("w", [[1, 2], [3, 4], [5, 6]]), floats("b", [1, 2, 3]), floats("v", np.ones((3, 2))),
          h.make_tensor("e", T.FLOAT, [2], [0.5, 1.5])])
    save("conv", [NODE("Conv", ["x", "w"], ["a"], pads=[0, 1], strides=[2]),
                  NODE("BatchNormalization", ["a", "s", "s", "z", "s"], ["b"]), NODE("MaxPool", ["b"], ["c"], kernel_shape=[2]),
                  NODE("GlobalAveragePool", ["c"], ["d"]), NODE("Flatten", ["d"], ["y"])],
         [PORT("x", T.FLOAT, [1, 1, 9])], [y], [floats("w", np.ones((2, 1, 3))), floats("s", [1, 2]), floats("z", [0, 1])])
    state = [PORT("h", T.FLOAT, [1, 1, 1]), PORT("c", T.FLOAT, [1, 1, 1])]
    save("lstm", [NODE("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["", "h2", "c2"], hidden_size=1),
                  NODE("Squeeze", ["h2", "zero"], ["y"])],
         [PORT("x", T.FLOAT, [1, 1, 2]), *state], [y, PORT("h2", T.FLOAT, None), PORT("c2", T.FLOAT, None)],
         [floats("w", [[[.1, .2], [.3, -.4], [.5, .6], [-.7, .8]]]), floats("r", [[[.5], [.25], [-.5], [1]]]),
          floats("b", [[.1, .2, .3, .4, .5, .6, .7, .8]]), wholes("zero", [0])])
    taken = h.make_graph([NODE("Relu", ["x"], ["t"])], "t", [], [PORT("t", T.FLOAT, None)])
    other = h.make_graph([NODE("Constant", [], ["k"], value=floats("k", [1, 2])), NODE("Add", ["x", "k"], ["e"])], "e", [],
                         [PORT("e", T.FLOAT, None)])
    save("if", [NODE("Shape", ["x"], ["s"]), NODE("Gather", ["s", "one"], ["n"], axis=0), NODE("Cast", ["n"], ["m"], to=T.INT64),
                NODE("Equal", ["m", "two"], ["q"]), NODE("If", ["q"], ["y"], then_branch=taken, else_branch=other)],
         [PORT("x", T.FLOAT, [1, 2])], [y], [wholes("one", [1]), wholes("two", [2])])
    save("moves", [NODE("Pad", ["x", "p"], ["a"], mode="reflect"), NODE("Slice", ["a", "f", "t", "ax", "st"], ["b"]),
                   NODE("Transpose", ["b"], ["c"], perm=[0, 2, 1]), NODE("Split", ["c"], ["d", "e"], axis=2),
                   NODE("Sigmoid", ["e"], ["g"]), NODE("Mul", ["d", "g"], ["k"]), NODE("Concat", ["k", "k"], ["l"], axis=1),
                   NODE("Reshape", ["l", "rs"], ["y"])],
         [PORT("x", T.FLOAT, [1, 2, 4])], [y],
         [wholes("p", [0, 0, 1, 0, 0, 2]), wholes("f", [-1]), wholes("t", [-9]), wholes("ax", [2]), wholes("st", [-2]),
          wholes("rs", [0, -1])])
    save("gelu", [NODE("Div", ["x", "r"], ["a"]), NODE("Erf", ["a"], ["b"]), NODE("Add", ["b", "o"], ["c"]),
                  NODE("Mul", ["x", "c"], ["d"]), NODE("Mul", ["d", "hf"], ["e"]), NODE("LayerNormalization", ["e", "g", "g"], ["n"]),
                  NODE("Softmax", ["n"], ["y"])],
         [PORT("x", T.FLOAT, [1, 3])], [y], [floats("r", 1.41421356), floats("o", 1), floats("hf", 0.5), floats("g", [1, 2, 3])])
    save("shapes", [NODE("ConstantOfShape", ["sh"], ["z"], value=h.make_tensor("v", T.INT64, [1], [3])),
                    NODE("Range", ["a0", "b0", "c0"], ["rg"]), NODE("Where", ["cond", "z", "rg"], ["wh"]),
                    NODE("Expand", ["wh", "ex"], ["xp"]), NODE("ReduceProd", ["z"], ["pr"], keepdims=0),
                    NODE("Div", ["pr", "two"], ["dv"]), NODE("Cast", ["dv"], ["fl"], to=T.FLOAT),
                    NODE("Cast", ["xp"], ["mx"], to=T.FLOAT), NODE("Transpose", ["mx"], ["tr"]),
                    NODE("MatMul", ["x", "tr"], ["pd"]), NODE("Add", ["pd", "fl"], ["y"])],
         [PORT("x", T.FLOAT, [1, 3])], [y],
         [wholes("sh", [3]), wholes("a0", 0), wholes("b0", 3), wholes("c0", 1), h.make_tensor("cond", T.BOOL, [3], [1, 0, 1]),
          wholes("ex", [2, 3]), wholes("two", 2)])
    save("types", [NODE("DequantizeLinear", ["q", "s", "zp"], ["w"], axis=0), NODE("Gather", ["tb", "x"], ["a"], axis=0),
                   NODE("Cast", ["a"], ["b"], to=T.FLOAT), NODE("MatMul", ["b", "w"], ["y"])],
         [PORT("x", T.INT64, [1, 3])], [y],
         [h.make_tensor("q", T.INT8, [2, 2], [1, -2, 3, 4]), floats("s", [0.5, 2]), h.make_tensor("zp", T.INT8, [2], [0, 1]),
          numpy_helper.from_array((np.arange(10).reshape(5, 2) / 8).astype(np.float16), "tb")])
    save_functions(y)
    save_rotary(y)


def random_floats(name, shape, rng=np.random.default_rng(4)):
    return floats(name, rng.normal(0, 0.6, shape))


def heads(x, name, at, heads_of, dim, perm):
    """Nodes that make heads [1, heads, tokens, dim], or with perm [0, 2, 3, 1] [1, heads, dim, tokens], of x."""
    return [NODE("Reshape", [x, at], [name + "_r"]), NODE("Transpose", [name + "_r"], [name], perm=perm)]


def save_functions(y):
    """Functions that exporters write as many nodes."""
    x = [PORT("x", T.FLOAT, [1, 5, 6])]
    causal = np.triu(np.full((5, 5), -np.inf), 1)
    save("attention",
         [NODE("MatMul", ["x", "wq"], ["q0"]), NODE("Add", ["bq", "q0"], ["q1"]), NODE("MatMul", ["x", "wk"], ["k0"]),
          NODE("MatMul", ["x", "wv"], ["v0"]), NODE("Add", ["v0", "bv"], ["v1"]),
          *heads("q1", "q", "split", 2, 3, [0, 2, 1, 3]), *heads("k0", "k", "split", 2, 3, [0, 2, 3, 1]),
          *heads("v1", "v", "split", 2, 3, [0, 2, 1, 3]), NODE("MatMul", ["q", "k"], ["s"]),
          NODE("Div", ["s", "root"], ["d"]), NODE("Add", ["d", "mask"], ["m"]), NODE("Softmax", ["m"], ["p"], axis=-1),
          NODE("MatMul", ["p", "v"], ["o"]), NODE("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]),
          NODE("Reshape", ["t", "join"], ["j"]), NODE("MatMul", ["j", "wo"], ["c"]), NODE("Add", ["c", "bo"], ["e"]),
          NODE("Add", ["x", "e"], ["y"])],
         x, [y], [*[random_floats(n, (6, 6)) for n in ("wq", "wk", "wv", "wo")],
                  *[random_floats(n, 6) for n in ("bq", "bv", "bo")], floats("root", 3 ** 0.5), floats("mask", causal),
                  wholes("split", [1, 5, 2, 3]), wholes("join", [1, 5, 6])])
    # One matrix for all three, four heads of queries and two of keys and values, no mask, scaled queries.
    repeat = [NODE("Unsqueeze", ["k2", "two"], ["k3"]), NODE("Expand", ["k3", "four"], ["k4"]),
              NODE("Reshape", ["k4", "flat_k"], ["k"]), NODE("Unsqueeze", ["v2", "two"], ["v3"]),
              NODE("Expand", ["v3", "four_v"], ["v4"]), NODE("Reshape", ["v4", "flat_v"], ["v"])]
    save("grouped_attention",
         [NODE("MatMul", ["x", "w"], ["a"]), NODE("Split", ["a", "parts"], ["q0", "k0", "v0"], axis=2),
          *heads("q0", "q1", "split_q", 4, 2, [0, 2, 1, 3]), NODE("Mul", ["q1", "scale"], ["q"]),
          *heads("k0", "k2", "split_k", 2, 2, [0, 2, 3, 1]), *heads("v0", "v2", "split_k", 2, 2, [0, 2, 1, 3]), *repeat,
          NODE("MatMul", ["q", "k"], ["s"]), NODE("Softmax", ["s"], ["p"], axis=3), NODE("MatMul", ["p", "v"], ["o"]),
          NODE("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]), NODE("Reshape", ["t", "join"], ["y"])],
         x, [y], [random_floats("w", (6, 16)), wholes("parts", [8, 4, 4]), wholes("split_q", [1, 5, 4, 2]),
                  wholes("split_k", [1, 5, 2, 2]), floats("scale", 0.7), wholes("two", [2]),
                  wholes("four", [1, 2, 2, 2, 5]), wholes("flat_k", [1, 4, 2, 5]), wholes("four_v", [1, 2, 2, 5, 2]),
                  wholes("flat_v", [1, 4, 5, 2]), wholes("join", [1, 5, 8])])
    save("rms_swiglu",
         [NODE("Pow", ["x", "two"], ["a"]), NODE("ReduceMean", ["a"], ["b"], axes=[-1], keepdims=1),
          NODE("Add", ["b", "eps"], ["c"]), NODE("Sqrt", ["c"], ["d"]), NODE("Div", ["one", "d"], ["e"]),
          NODE("Mul", ["x", "e"], ["f"]), NODE("Mul", ["gain", "f"], ["h"]), NODE("MatMul", ["h", "wg"], ["g0"]),
          NODE("Add", ["g0", "bg"], ["g1"]), NODE("Sigmoid", ["g1"], ["g2"]), NODE("Mul", ["g1", "g2"], ["g3"]),
          NODE("MatMul", ["h", "wu"], ["u"]), NODE("Mul", ["g3", "u"], ["m"]), NODE("MatMul", ["m", "wd"], ["n"]),
          NODE("Add", ["n", "x"], ["y"])],
         x, [y], [floats("two", 2), floats("eps", 1e-5), floats("one", 1), random_floats("gain", 6),
                  random_floats("wg", (6, 8)), random_floats("bg", 8), random_floats("wu", (6, 8)),
                  random_floats("wd", (8, 6))])
    save("gelu_tanh",
         [NODE("Pow", ["x", "three"], ["a"]), NODE("Mul", ["a", "c"], ["b"]), NODE("Add", ["x", "b"], ["d"]),
          NODE("Mul", ["d", "root"], ["e"]), NODE("Tanh", ["e"], ["f"]), NODE("Add", ["f", "one"], ["g"]),
          NODE("Mul", ["x", "half"], ["h"]), NODE("Mul", ["h", "g"], ["k"]),
          # The other spelling, x (1 + c x x).
          NODE("Mul", ["k", "k"], ["a2"]), NODE("Mul", ["c", "a2"], ["b2"]), NODE("Add", ["one", "b2"], ["d2"]),
          NODE("Mul", ["k", "root"], ["r2"]), NODE("Mul", ["r2", "d2"], ["e2"]), NODE("Tanh", ["e2"], ["f2"]),
          NODE("Add", ["one", "f2"], ["g2"]), NODE("Mul", ["k", "g2"], ["h2"]), NODE("Mul", ["h2", "half"], ["y"])],
         x, [y], [floats("three", 3), floats("c", 0.044715), floats("root", 0.7978845608), floats("one", 1),
                  floats("half", 0.5)])
    x = [PORT("x", T.FLOAT, [5, 1, 2])]
    save("two_way",
         [NODE("LSTM", ["x", "w", "r", "b"], ["a", "ah"], hidden_size=3, direction="bidirectional"),
          NODE("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3]), NODE("Reshape", ["t", "rows"], ["c"]),
          NODE("GRU", ["c", "w2", "r2"], ["d", "dh"], hidden_size=2, direction="reverse", linear_before_reset=1),
          NODE("Reshape", ["d", "flat"], ["e"]), NODE("Reshape", ["ah", "ends"], ["f"]),
          NODE("Reshape", ["dh", "end"], ["g"]), NODE("Concat", ["e", "f", "g"], ["y"], axis=1)],
         x, [y], [random_floats("w", (2, 12, 2)), random_floats("r", (2, 12, 3)), random_floats("b", (2, 24)),
                  random_floats("w2", (1, 6, 6)), random_floats("r2", (1, 6, 2)), wholes("rows", [5, 1, 6]),
                  wholes("flat", [1, 10]), wholes("ends", [1, 6]), wholes("end", [1, 2])])


def save_rotary(y):
    """Heads that turn: as PyTorch exports them from the usual code of a decoder's block, and by version 23's operator."""
    import torch

    torch.manual_seed(6)
    heads_, kv, dim, tokens, width = 4, 2, 4, 6, 8

    class Norm(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.gain = torch.nn.Parameter(1 + 0.2 * torch.randn(size))

        def forward(self, x):
            return self.gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))

    def half_turned(x):
        return torch.cat((-x[..., dim // 2:], x[..., :dim // 2]), dim=-1)

    def every_second_turned(x):
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)

    class Block(torch.nn.Module):
        def __init__(self, turns_half):
            super().__init__()
            self.turns_half = turns_half
            self.q, self.k = torch.nn.Linear(width, heads_ * dim), torch.nn.Linear(width, kv * dim)
            self.v, self.o = torch.nn.Linear(width, kv * dim), torch.nn.Linear(heads_ * dim, width, bias=False)
            self.q_norm, self.k_norm, self.norm, self.last = Norm(dim), Norm(dim), Norm(width), Norm(width)
            self.gate, self.up = (torch.nn.Linear(width, 10, bias=False) for _ in range(2))
            self.down = torch.nn.Linear(10, width, bias=False)
            self.register_buffer("frequencies", 5000.0 ** (-torch.arange(0, dim, 2).float() / dim))

        def forward(self, x):
            h = self.norm(x)
            positions = torch.arange(x.shape[1], device=x.device)[None, :]
            angles = (self.frequencies[None, :, None] @ positions[:, None, :].float()).transpose(1, 2)
            turned = half_turned if self.turns_half else every_second_turned
            angles = torch.cat((angles, angles), -1) if self.turns_half else torch.stack((angles, angles), -1).flatten(-2)
            cos, sin = angles.cos()[:, None] * 1.25, angles.sin()[:, None] * 1.25

            def split(y, count):
                return y.view(1, -1, count, dim).transpose(1, 2)

            def repeated(y):
                return y[:, :, None].expand(1, kv, heads_ // kv, tokens, dim).reshape(1, heads_, tokens, dim)

            q = self.q_norm(self.q(h).view(1, -1, heads_, dim)).transpose(1, 2)
            k = self.k_norm(self.k(h).view(1, -1, kv, dim)).transpose(1, 2)
            q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
            mask = torch.full((tokens, tokens), float("-inf")).triu(1)
            scores = q @ repeated(k).transpose(2, 3) / dim ** 0.5
            shares = torch.softmax(scores + mask, dim=-1)
            x = x + self.o((shares @ repeated(split(self.v(h), kv))).transpose(1, 2).reshape(1, -1, heads_ * dim))
            h = self.last(x)
            return x + self.down(torch.nn.functional.silu(self.gate(h)) * self.up(h))

    for name, turns_half in (("rotary_half", True), ("rotary_pairs", False)):
        torch.onnx.export(Block(turns_half).eval(), torch.zeros(1, tokens, width), MODELS / name, opset_version=16,
                          input_names=["x"], output_names=["y"])
    angles = np.arange(9)[:, None] * 300.0 ** (-np.arange(2) / 2)
    save("rotary_operator",
         [NODE("MatMul", ["x", "w"], ["a"]), NODE("Split", ["a", "parts"], ["q0", "k0", "v0"], axis=2),
          NODE("RotaryEmbedding", ["q0", "cos", "sin", "at"], ["q1"], num_heads=2, interleaved=1, rotary_embedding_dim=4),
          NODE("RotaryEmbedding", ["k0", "cos", "sin", "at"], ["k1"], num_heads=2, interleaved=1, rotary_embedding_dim=4),
          *heads("q1", "q", "split", 2, 6, [0, 2, 1, 3]), *heads("k1", "k", "split", 2, 6, [0, 2, 3, 1]),
          *heads("v0", "v", "split", 2, 6, [0, 2, 1, 3]), NODE("MatMul", ["q", "k"], ["s0"]),
          NODE("Mul", ["s0", "third"], ["s1"]), NODE("Tanh", ["s1"], ["s2"]), NODE("Mul", ["s2", "three"], ["s"]),
          NODE("Softmax", ["s"], ["p"], axis=3), NODE("MatMul", ["p", "v"], ["o"]),
          NODE("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]), NODE("Reshape", ["t", "join"], ["y"])],
         [PORT("x", T.FLOAT, [1, 5, 6])], [y],
         [random_floats("w", (6, 36)), wholes("parts", [12, 12, 12]), wholes("split", [1, 5, 2, 6]),
          floats("cos", np.cos(angles)), floats("sin", np.sin(angles)), wholes("at", [[0, 1, 2, 3, 4]]),
          floats("third", 1 / 3), floats("three", 3), wholes("join", [1, 5, 12])], opset=23)


SHAPES = {"gemm": [1, 2], "conv": [1, 1, 9], "lstm": [1, 1, 2], "if": [1, 2], "moves": [1, 2, 4], "gelu": [1, 3],
          "shapes": [1, 3], "types": [1, 3], "attention": [1, 5, 6], "grouped_attention": [1, 5, 6],
          "rms_swiglu": [1, 5, 6], "gelu_tanh": [1, 5, 6], "two_way": [5, 1, 2],
          "rotary_half": [1, 6, 8], "rotary_pairs": [1, 6, 8], "rotary_operator": [1, 5, 6]}


def golden(name, shape, folder):
    values = [((k * 7 + 3) % 11 - 5) * 0.375 for k in range(int(np.prod(shape)))]
    if name == "types":
        values = [4, 0, 2]
    runs = [{"x": {"type": "int64" if name == "types" else "float32", "shape": shape, "values": values}}]
    if name == "lstm":
        zero = {"type": "float32", "shape": [1, 1, 1], "values": [0]}
        runs = [dict(runs[0], h=zero, c=zero, carry={"h": "h2", "c": "c2"})] * 3
    inputs = folder / (name + ".json")
    inputs.write_text(json.dumps(runs))
    subprocess.run(["node", ROOT / "tools/run_onnx.mjs", MODELS / name, inputs], check=True)
    made = json.loads((folder / (name + ".json.out")).read_text())
    return {"x": values, "runs": len(runs), "y": [value for run in made for value in run["y"]["values"]]}


def tensors_of(graph):
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "then_branch" and node.input[0] == "Equal_0_C":
                yield from tensors_of(attribute.g)
            elif attribute.name == "value" and attribute.t.data_type == T.FLOAT and len(attribute.t.dims) > 0:
                yield attribute.t


def save_silero(out):
    """The branch of 16 kHz has its weights as constants, in the order of the safetensors file."""
    folder = ROOT / "../shared/data/silero-vad"
    data = (folder / "silero_vad_16k.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    model = onnx.load(folder / "silero_vad.onnx")
    held = list(tensors_of(model.graph))
    for tensor, row in zip(held, header.values(), strict=True):
        assert list(tensor.dims) == row["shape"], (tensor.name, row)
        begin, end = (8 + size + at for at in row["data_offsets"])
        tensor.ClearField("float_data")
        tensor.raw_data = data[begin:end]
    onnx.save(model, out)


def main():
    if sys.argv[1:2] == ["--silero"]:
        return save_silero(sys.argv[2])
    MODELS.mkdir(parents=True, exist_ok=True)
    save_all()
    with tempfile.TemporaryDirectory() as folder:
        goldens = {name: golden(name, shape, pathlib.Path(folder)) for name, shape in SHAPES.items()}
    (ROOT / "tests/data/models/onnx_goldens.json").write_text(json.dumps(goldens, indent=1) + "\n")


if __name__ == "__main__":
    main()
