#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/fuzz/onnx/: small graphs by the onnx package, and tests/data/models/onnx_goldens.json: what
onnxruntime computes for them (tests/models/onnx_import_test.cpp).

    ONNXRUNTIME=FOLDER tools/make_onnx_models.py
    tools/make_onnx_models.py --silero OUT.onnx     silero-vad with the weights of its safetensors file

Needs onnx (Debian's python3-onnx) and tools/run_onnx.mjs with what that needs.
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


def save(name, nodes, inputs, outputs, constants):
    model = h.make_model(h.make_graph(nodes, "g", inputs, outputs, constants), opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 8
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


SHAPES = {"gemm": [1, 2], "conv": [1, 1, 9], "lstm": [1, 1, 2], "if": [1, 2], "moves": [1, 2, 4], "gelu": [1, 3],
          "shapes": [1, 3], "types": [1, 3]}


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
