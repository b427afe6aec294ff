#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures learning rules on MNIST's official split, one sample an update: test error as a table.

  tools/measure_mnist.py DIR [--weft build/release/bin/weft] [--rows NAME ...] [--seeds 5] [--epochs 10]
                         [--select RATE ... | --lr RATE] [--train N] [--first SEED] [--threads N]
                         [--option KEY=VALUE ...] [--dropout RATE]

DIR holds the four IDX files. A row is a network, a rule and a schedule; its rate falls in a straight line to 0, sample
by sample. With --select each rate is tried with seed 100 on 55,000 training images and measured with the other 5,000:
test images are not looked at. Without it the row's rate learns from all 60,000, with the seeds 0, 1, ..., and the test
images measure it once, at the end. --train N learns from the first N images alone. --option sets an option of
learning. --dropout puts a layer `dropout` before each dense layer but the first.
"""

import argparse
import gzip
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TRAIN, SPLIT = 60000, 55000
HALTED = 1  # exit code of a mesh that halted
DTYPES = ["float64", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "fp4", "int64", "int32", "int16", "int8", "int4",
          "int2", "uint64", "uint32", "uint16", "uint8", "uint4", "uint2", "ternary", "binary"]


def mlp(widths, activation, dtype=None, has_signs=False):
    """784-widths-10. `has_signs`: layers hear signs of each other."""
    layers = []
    for width in widths:
        layers.append({"type": "dense", "out": width, "activation": activation})
        if activation == "relu":
            layers[-1]["init"] = "he"
        if has_signs:
            layers.append({"type": "sign"})
    layers.append({"type": "dense", "out": 10})
    for layer in layers:
        if dtype and layer["type"] == "dense":
            layer |= {"dtype": dtype, "qat": True}
    return {"weft": 2, "inputs": {"pixels": [784]}, "chain": layers}


def in_values(network, outputs, errors):
    """The same network, whose activations and errors have other types."""
    for layer in network["chain"]:
        layer |= {"activation_dtype": outputs, "gradient_dtype": errors}
    return network


def cnn(kernel=3, activation="relu", channels=(8, 16)):
    windows = {"kernel": kernel, "padding": kernel // 2, "activation": activation,
               "init": "he" if activation == "relu" else "xavier"}
    return {"weft": 2, "inputs": {"pixels": [784]}, "chain": [
        {"type": "conv2d", "out": channels[0], **windows, "view": [1, 28, 28]},
        {"type": "max_pool", "kernel": 2},
        {"type": "conv2d", "out": channels[1], **windows},
        {"type": "max_pool", "kernel": 2},
        {"type": "dense", "out": 10, "view": [49 * channels[1]]}]}


def paper(by_image=True):
    """The network of Shibuya et al. 2023: no biases, orthogonal weights; each image standardised by itself, or all."""
    layers = [{"type": "dense", "out": 256, "activation": "tanh", "bias": False, "init": "orthogonal"} for _ in range(5)]
    first = ({"type": "layer_norm", "affine": False} if by_image else
             {"type": "standardize", "mean": [0.1307] * 784, "deviation": [0.3081] * 784})
    return {"weft": 2, "inputs": {"pixels": [784]}, "chain": [
        first, *layers,
        {"type": "dense", "out": 10, "bias": False, "init": "orthogonal"}]}


def with_dropout(network, rate):
    """The same network with a layer `dropout` before each dense layer but the first layer of all."""
    layers = []
    for layer in network["chain"]:
        if layers and layer["type"] == "dense":
            layers.append({"type": "dropout", "rate": rate})
        layers.append(layer)
    return network | {"chain": layers}


def rows():
    """{name: (network, rule, rate, goal in % of error)}; a name ends with its schedule."""
    made = {"linear/settle": (mlp([], "linear"), "backprop", 0.001, None)}  # what needs no hidden layer
    for schedule, goal in (("settle", 1.6), ("pipelined", 1.7)):
        made[f"backprop/{schedule}"] = (mlp([256, 256], "relu"), "backprop", 0.01, goal)
        made[f"backprop_tanh/{schedule}"] = (mlp([256, 256], "tanh"), "backprop", 0.02, None)
    for rule, rate, goal in (("dfa", 0.02, 2.2), ("fw_dtp", 0.02, 2.2), ("dtp", 0.02, 2.0), ("sdtp", 0.02, None),
                             ("local_ce", 0.02, 1.8)):
        for schedule in ("settle", "pipelined"):
            made[f"{rule}/{schedule}"] = (mlp([256, 256], "tanh"), rule, rate, goal)
    made["signs_dtp/pipelined"] = (mlp([500, 500], "tanh", has_signs=True), "dtp", 0.02, None)
    made["tanh_dtp/pipelined"] = (mlp([500, 500], "tanh"), "dtp", 0.02, 2.0)
    for rule, rate in (("chain", 0.1), ("gap_difference", 0.01), ("chain_original", 0.02), ("gap", 0.01),
                       ("gap_original", 0.01)):
        for schedule in ("settle", "pipelined"):
            made[f"{rule}/{schedule}"] = (mlp([256, 256], "tanh"), rule, rate, None)
    goals = {"ternary": 2.0, "binary": 2.5}
    for dtype in DTYPES:
        made[f"{dtype}/pipelined"] = (mlp([256, 256], "relu", dtype), "backprop", 0.01, goals.get(dtype))
    for schedule in ("settle", "pipelined"):
        for rule, rate in (("backprop", 0.01), ("fw_dtp", 0.03), ("dfa", 0.01), ("dtp", 0.01), ("sdtp", 0.02),
                           ("local_ce", 0.01), ("chain", 0.1), ("gap_difference", 0.01)):
            made[f"deep_16_{rule}/{schedule}"] = (mlp([64] * 15, "tanh"), rule, rate, None)
    made["paper_fw_dtp/settle"] = (paper(), "fw_dtp", 0.03, 2.0)
    made["paper_all_fw_dtp/settle"] = (paper(by_image=False), "fw_dtp", 0.03, 2.0)
    made["paper_all_backprop/settle"] = (paper(by_image=False), "backprop", 0.03, None)
    for schedule in ("settle", "pipelined"):
        made[f"cnn_5_wide_backprop/{schedule}"] = (cnn(5, channels=(16, 32)), "backprop", 0.01, 0.8)
    for outputs, errors in (("bfloat16", "bfloat16"), ("fp8_e4m3", "fp8_e5m2"), ("int8", "int8")):
        for rule, activation, rate in (("backprop", "relu", 0.01), ("fw_dtp", "tanh", 0.03)):
            network = in_values(mlp([256, 256], activation), outputs, errors)
            made[f"{rule}_values_{outputs}/pipelined"] = (network, rule, rate, None)
    for rule, rate, goal in (("backprop", 0.01, 0.8), ("fw_dtp", 0.01, 2.0), ("dtp", 0.01, 2.0), ("dfa", 0.01, 2.0)):
        made[f"cnn_{rule}/pipelined"] = (cnn(), rule, rate, goal)
        made[f"cnn_5_{rule}/pipelined"] = (cnn(5), rule, rate, goal)
        made[f"cnn_5_tanh_{rule}/pipelined"] = (cnn(5, "tanh"), rule, rate, goal)
    return made


def part_of(folder, to, first, count):
    """The images [first, first + count) of the training files as IDX files of their own."""
    made = {}
    for kind, head in (("images-idx3", 16), ("labels-idx1", 8)):
        data = gzip.decompress((folder / f"train-{kind}-ubyte.gz").read_bytes())
        size = (len(data) - head) // TRAIN
        made[kind] = to / f"part{first}-{kind}-ubyte"
        made[kind].write_bytes(data[:4] + struct.pack(">I", count) + data[8:head] +
                               data[head + first * size:head + (first + count) * size])
    return made["images-idx3"]


def run(weft, network, options, schedule, rule, rate, epochs, seed, files, threads=1):
    network = dict(network)
    optimizer = {"type": "momentum", "lr": rate}
    learning = {"rule": rule, "schedule": schedule, "optimizer": optimizer, "learners": 1,
                "rate_schedule": {"type": "linear"}}
    for option in options:
        key, value = option.split("=")
        section = learning
        for inner in key.split(".")[:-1]:
            section = section.setdefault(inner, {})
        section[key.split(".")[-1]] = json.loads(value) if value[0] in "0123456789-[" or value in ("true", "false") else value
    # A minibatch is one update.
    learning["rate_schedule"].setdefault("updates", epochs * files["samples"] // learning["learners"])
    network |= {"learning": learning, "stream": {"csv": str(files["train"]), "scale": 1 / 255, "epochs": epochs,
                                                 "test": str(files["test"])}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(network, file)
        file.flush()
        words = [weft, "run", file.name, "--json", "--threads", threads, "--seed", seed]
        words += ["--sessions", learning["learners"]]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    last = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    if "held_out_accuracy" not in last:
        told = done.stderr.strip().splitlines()[-1:]
        if done.returncode != HALTED:  # nothing was measured
            sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}: {' '.join(told)}")
        print(told, flush=True)
        return 100.0
    return 100 * (1 - last["held_out_accuracy"])


def main():
    made = rows()
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--weft", default=ROOT / "build/release/bin/weft")
    parser.add_argument("--rows", nargs="+", default=list(made), choices=list(made))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--select", nargs="+", type=float, default=[])
    parser.add_argument("--lr", type=float)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--train", type=int, default=TRAIN)
    parser.add_argument("--option", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--dropout", type=float, default=0.0)
    arguments = parser.parse_args()
    if arguments.dropout:
        made = {name: (with_dropout(row[0], arguments.dropout), *row[1:]) for name, row in made.items()}
    commit = subprocess.run(f"git -C '{ROOT}' describe --always --dirty", shell=True, capture_output=True, text=True,
                            check=False).stdout.strip()
    print(f"`tools/measure_mnist.py --epochs {arguments.epochs} --train {arguments.train} "
          f"{' '.join(arguments.option)} --dropout {arguments.dropout}`, commit {commit}\n")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        if arguments.select:
            files = {"train": part_of(arguments.folder, scratch, 0, SPLIT), "samples": SPLIT,
                     "test": part_of(arguments.folder, scratch, SPLIT, TRAIN - SPLIT)}
            print("| row | rate | validation error, % |\n|---|---|---|")
            for name in arguments.rows:
                network, rule, _, _ = made[name]
                for rate in arguments.select:
                    error = run(arguments.weft, network, arguments.option, name.split("/")[1], rule, rate,
                                arguments.epochs, 100, files, arguments.threads)
                    print(f"| {name} | {rate} | {error:.2f} |", flush=True)
            return
        files = {"train": arguments.folder / "train-images-idx3-ubyte.gz" if arguments.train == TRAIN
                 else part_of(arguments.folder, scratch, 0, arguments.train), "samples": arguments.train,
                 "test": arguments.folder / "t10k-images-idx3-ubyte.gz"}
        print("| row | rate | seeds | test error, mean % | sd | goal |\n|---|---|---|---|---|---|")
        for name in arguments.rows:
            network, rule, rate, goal = made[name]
            rate = arguments.lr or rate
            errors = [run(arguments.weft, network, arguments.option, name.split("/")[1], rule, rate, arguments.epochs,
                          arguments.first + seed, files, arguments.threads) for seed in range(arguments.seeds)]
            print("<!-- each:", *(f"{error:.2f}" for error in errors), "-->")
            spread = statistics.stdev(errors) if len(errors) > 1 else 0.0
            print(f"| {name} | {rate} | {len(errors)} | {statistics.mean(errors):.2f} | {spread:.2f} | {goal or '-'} |",
                  flush=True)


if __name__ == "__main__":
    main()
