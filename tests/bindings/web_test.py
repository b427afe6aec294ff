#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The WebAssembly package in node, to the hashes of the native library. Skipped (77), which ctest counts, where there is
no node or no package: `tools/build_web.sh` builds one, CI does not.

  WEFT_LIBRARY=.../libweft.so web_test.py PACKAGE
"""
import base64
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "tests/bindings")]
package = pathlib.Path(sys.argv[1])
node = shutil.which("node")
if not node or not (package / "weft_module.wasm").exists():
    print(f"{'no node' if not node else f'no {package}/weft_module.wasm: tools/build_web.sh'}")
    sys.exit(77)
import numpy as np  # noqa: E402
from python_test import digits_stream  # noqa: E402

import weft  # noqa: E402

DTYPES = ("float64 float32 float16 bfloat16 fp8_e4m3 fp8_e5m2 fp4 int64 int32 int16 int8 int4 int2 uint64 uint32 uint16 "
          "uint8 uint4 uint2 ternary binary").split()


def learned(name, network, inputs, labels=None, values=None, options=None, samples=None):
    mesh = weft.Mesh(network, threads=1)
    learner = weft.Learner(mesh, **(options or {}))
    targets = labels if labels is not None else values
    learner.learn(inputs, targets, samples)
    learner.drain()
    row = {"name": name, "network": network, "options": options, "hash": mesh.state_hash(),
           "samples": len(next(iter(inputs.values()))),
           "inputs": {key: np.asarray(x, np.float32).reshape(-1).tolist() for key, x in inputs.items()}}
    row["labels" if labels is not None else "values"] = {
        key: np.asarray(y).reshape(-1).tolist() for key, y in targets.items()}
    return row


def ticked(name, network, random, ticks=6):
    mesh = weft.Mesh(network, threads=1)
    inputs = {port["name"]: random.randn(port["width"]).astype(np.float32) for port in mesh.description["inputs"]}
    for port, values in inputs.items():
        mesh.set_input(port, values)
    mesh.tick(ticks)
    return {"name": name, "network": network, "ticks": ticks, "hash": mesh.state_hash(),
            "inputs": {key: x.tolist() for key, x in inputs.items()}}


def expected():
    """Rows for node: networks, samples, and the native hashes."""
    random = np.random.RandomState(1)
    digits = json.loads((ROOT / "examples/digits.json").read_text())
    x, y = digits_stream(300)
    hashes = json.loads((ROOT / "tests/data/golden_hashes.json").read_text())
    rows = {"learned": [], "ticked": []}
    for rule in ("backprop", "fw_dtp", "dfa", "chain", "gap"):
        for schedule in ("settle", "pipelined"):
            options = json.loads(json.dumps(digits["learning"]))
            if rule != options["rule"]:
                del options["step_limit"], options["optimizer"]["lr"]
            row = learned(f"digits {rule} {schedule}", digits, {"pixels": x}, {"digit": y},
                          options={**options, "rule": rule, "schedule": schedule})
            golden = hashes.get(f"examples/digits.json --rule {rule} --schedule {schedule} --max-samples 300")
            assert golden in (None, row["hash"]), row["name"]
            rows["learned"].append(row)
    for example in ("digits_cnn", "digits_gru", "digits_transformer", "digits_moe"):
        network = json.loads((ROOT / f"examples/{example}.json").read_text())
        (port, _), = network["inputs"].items()
        (output, _), = network["outputs"].items() if "outputs" in network else [("y", None)]
        rows["learned"].append(learned(example, network, {port: x[:40]}, {output: y[:40]}))
    for dtype in DTYPES:
        network = {"weft": 2, "inputs": {"x": [40]}, "chain": [
            {"type": "dense", "out": 33, "activation": "tanh", "dtype": dtype}, {"type": "dense", "out": 5, "dtype": dtype}]}
        rows["ticked"].append(ticked(f"dense {dtype}", network, random))
        rows["learned"].append(learned(f"dense {dtype} learns", network, {"x": random.randn(20, 40)},
                                       {"y": random.randint(0, 5, 20)}))
    for activation in ("relu", "leaky_relu", "tanh", "sigmoid", "elu", "silu", "gelu", "gelu_tanh", "softplus", "mish"):
        network = {"weft": 2, "inputs": {"x": [20]}, "chain": [
            {"type": "dense", "out": 17, "activation": activation}, {"type": "dense", "out": 2}]}
        rows["learned"].append(learned(activation, network, {"x": random.randn(20, 20)}, values={"y": random.randn(20, 2)},
                                       options={"loss": "mse", "optimizer": {"type": "adamw"}}))
    for layer in ({"type": "lstm", "out": 4}, {"type": "rnn", "out": 4}, {"type": "gru", "out": 4},
                  {"type": "layer_norm"}, {"type": "rms_norm"}, {"type": "attention", "heads": 2, "head_dim": 2},
                  {"type": "swiglu", "hidden": 6}, {"type": "softmax"}):
        network = {"weft": 2, "inputs": {"x": [3, 4]}, "chain": [layer, {"type": "dense", "out": 2}]}
        try:
            rows["ticked"].append(ticked(layer["type"], network, random))
        except weft.WeftError as error:
            print(f"left out: {layer['type']}: {error}")
    mesh = weft.Mesh(digits, threads=1)
    mesh.tick(3)
    rows["rate"] = {"network": digits, "options": digits["learning"], "input": "pixels", "output": "digit",
                    "x": x.reshape(-1).tolist(), "y": y.tolist()}
    return rows


with tempfile.TemporaryDirectory() as folder:
    path, file = pathlib.Path(folder) / "expected.json", pathlib.Path(folder) / "web.entity"
    path.write_text(json.dumps(expected()))
    subprocess.run([node, ROOT / "tests/bindings/web_test.mjs", package, path, file], check=True)
    mesh = weft.Mesh.load(file)  # written by the module
    assert mesh.state_hash() == file.with_name("web.entity.hash").read_text()
    print("a file of the module's is read natively, to the same hash")
