#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures memory through time on a text: the next byte of a stream, answered before it is learned, one pass.

  tools/measure_text.py WEFT TEXT [--bytes N] [--seeds FIRST:END] [--jobs N] --arms "ARM RATE,..."

An arm is a stack behind an embedding of the bytes that the text has, and before a dense layer of as many outputs:
  diagonal WIDTH UNITS DEPTH   DEPTH times a cell `diagonal` of UNITS complex units and a dense layer of WIDTH (silu);
                               exact derivatives forward in time
  diagonal_tanh, diagonal_state  the same with `activation` tanh, of the `output` or of the `state`
  skip WIDTH UNITS             all in one cell, `diagonal` as in diagonal_state, and the dense layer reads the embedding too
  state_normed WIDTH UNITS INNER  a cell as in diagonal_state, its output divided by its root mean square, a dense layer of
                               INNER
  tanh_normed WIDTH UNITS INNER  the same by a cell as in diagonal_tanh, |l| from 0.1 to 0.95, all layers in one cell
  gru UNITS HORIZON            a cell `gru`, errors through HORIZON ticks
  gru_normed UNITS HORIZON     the same, its output divided by its root mean square
RATE is that of adamw. A row an arm: bits a byte over the whole pass, mean and sd over seeds, parameters, samples a second.
Protocol: rates are chosen on the first 100,000 bytes (--bytes), then used once on all.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time


BENT = {"diagonal": {}, "diagonal_tanh": {"activation": "tanh"},
        "diagonal_state": {"activation": "tanh", "activation_of": "state"}}


def cell(units, kind):
    return {"type": "diagonal", "out": 2 * units, "least_size": 0.5, "largest_size": 0.99, **BENT[kind]}


def dense(width):
    return {"type": "dense", "out": width, "activation": "silu", "init": "he_uniform"}


def layers_of(arm, vocabulary):
    kind, *numbers = arm.split()
    width, *rest = map(int, numbers)
    layers = [{"type": "embedding", "vocabulary": vocabulary, "out": width, "from": ["x"]}]
    horizon = None
    if kind.startswith("gru"):
        layers.append({"type": "gru", "out": width})
        if kind == "gru_normed":
            layers.append({"type": "rms_norm"})
        horizon = rest[0]
    elif kind == "state_normed":
        units, inner = rest
        layers += [cell(units, "diagonal_state"), {"type": "rms_norm"}, dense(inner)]
    elif kind == "tanh_normed":
        units, inner = rest
        layers += [cell(units, "diagonal_tanh") | {"least_size": 0.1, "largest_size": 0.95}, {"type": "rms_norm"},
                   dense(inner), {"type": "dense", "out": vocabulary}]
        del layers[0]["from"]
        return [{"at": [0, 0, 0, 0], "type": "sequential", "from": ["x"], "layers": layers}], horizon
    elif kind == "skip":
        inner = [layers[0] | {"name": "e"}, cell(rest[0], "diagonal_state") | {"name": "d"},
                 dense(width) | {"from": ["e", "d"], "combine": "concat"}, {"type": "dense", "out": vocabulary}]
        del inner[0]["from"]
        return [{"at": [0, 0, 0, 0], "type": "sequential", "from": ["x"], "layers": inner}], horizon
    else:
        units, depth = rest
        for _ in range(depth):
            layers += [cell(units, kind), dense(width)]
    layers.append({"type": "dense", "out": vocabulary})
    return [{"at": [0, 0, x, 0], **layer} for x, layer in enumerate(layers)], horizon


def parameters_of(arm, vocabulary):
    kind, *numbers = arm.split()
    width, *rest = map(int, numbers)
    count = vocabulary * width + width * vocabulary + vocabulary
    if kind.startswith("gru"):
        return count + 3 * (2 * width * width + 2 * width) + (width if kind == "gru_normed" else 0)
    if kind.endswith("_normed"):
        units, inner = rest
        return vocabulary * (width + inner + 1) + 2 * units * (width + 2) + (2 * units + 1) * inner
    units, depth = rest if kind != "skip" else (*rest, 1)
    skipped = width * width if kind == "skip" else 0
    return count + depth * (2 * units * width + 2 * units + 2 * units * width + width) + skipped


def run(weft, arm, rate, rows, vocabulary, count, seed):
    layers, horizon = layers_of(arm, vocabulary)
    made = {"weft": 2, "seed": seed, "grid": {"x": len(layers)}, "inputs": {"x": [1]}, "layers": layers,
            "outputs": {"y": [0, 0, len(layers) - 1, 0]},
            "learning": {"rule": "backprop", "schedule": "pipelined", **({"horizon": horizon} if horizon else {}),
                         "optimizer": {"type": "adamw", "lr": rate, "weight_decay": 0}},
            "stream": {"csv": "-", "label": "next", "classes": [str(i) for i in range(vocabulary)], "window": count}}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        path.write_text(json.dumps(made))
        ran = subprocess.run([weft, "run", str(path), "--data", "-", "--format", "csv", "--json", "--threads", "1"],
                             input=rows, capture_output=True)
    if ran.returncode != 0:
        raise SystemExit(f"{arm}: " + (ran.stdout[-2000:] + ran.stderr).decode())
    done = json.loads(ran.stdout.splitlines()[-1])
    return done["mean_loss"] / math.log(2), count / (time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--bytes", type=int)
    parser.add_argument("--seeds", default="0:3")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--arms", default="diagonal 64 64 1 0.002,gru 64 32 0.002")
    arguments = parser.parse_args()
    text = arguments.text.read_bytes()[:arguments.bytes]
    places = {byte: place for place, byte in enumerate(sorted(set(arguments.text.read_bytes())))}
    codes = [places[byte] for byte in text]
    rows = b"x,next\n" + b"".join(b"%d,%d\n" % pair for pair in zip(codes, codes[1:]))
    first, end = map(int, arguments.seeds.split(":"))
    print("| arm | rate | parameters | bits a byte, mean | sd | seeds | bytes/s |\n|---|---|---|---|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        made = []
        for each in arguments.arms.split(","):
            arm, _, rate = each.strip().rpartition(" ")
            made.append((arm, rate, [pool.submit(run, arguments.weft, arm, float(rate), rows, len(places),
                                                 len(codes) - 1, seed) for seed in range(first, end)]))
        for arm, rate, runs in made:
            bits, speeds = zip(*[each.result() for each in runs])
            sd = statistics.stdev(bits) if len(bits) > 1 else 0.0
            print(f"| {arm} | {rate} | {parameters_of(arm, len(places)):,} | {statistics.mean(bits):.3f} | {sd:.3f} | "
                  f"{len(bits)} | {statistics.median(speeds):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
