#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures plasticity: the digits of examples/data, whose pixels are permuted anew for each task, learned online.

  tools/measure_plasticity.py WEFT [--tasks N] [--samples N] [--seeds FIRST:END] [--lr RATE] [--arms NAME,...]
                              [--mnist DIR]

A network 64-300-150-10 (relu, sgd) sees each sample once; a task is --samples of them. One row an arm: mean online
accuracy over all tasks, of the first and of the last tenth of them. An arm is a row of PULLS, or parts joined by " + ":
one of these rows, "redo EVERY THRESHOLD" or "continual RATE MATURITY" (section renew), "ema DECAY [EPSILON]" or
"welford [EPSILON]" (inputs through running_standardize), "layer_norm" (before each relu, without parameters).
Small form of "input-permuted MNIST" (Elsayed and Mahmood 2024, arXiv:2404.00781). With --mnist the images are MNIST's
training images in DIR (IDX files): their form is --tasks 201 --samples 5000, a million samples.
"""
import argparse
import csv
import gzip
import json
import operator
import pathlib
import random
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PULLS = {
    "plain": {},
    "initial 0.001": {"pull": "initial", "every": 100, "share": 0.001},
    "initial 0.003": {"pull": "initial", "every": 100, "share": 0.003},
    "initial 0.01": {"pull": "initial", "every": 100, "share": 0.01},
    "initial 0.03": {"pull": "initial", "every": 100, "share": 0.03},
    "fresh 0.001": {"pull": "fresh", "every": 100, "share": 0.001, "scale": 0.001},
    "fresh 0.01": {"pull": "fresh", "every": 100, "share": 0.01, "scale": 0.01},
    "fresh 0.03": {"pull": "fresh", "every": 100, "share": 0.03, "scale": 0.03},
}
RENEWALS = {"redo": (("every", int), ("threshold", float)), "continual": (("rate", float), ("maturity", int))}


def digits():
    with gzip.open(ROOT / "examples/data/digits.csv.gz", "rt") as file:
        rows = list(csv.reader(file))
    if not rows[0][0].replace(".", "").isdigit():
        rows = rows[1:]
    return [(row[:-1], row[-1]) for row in rows]


def table(tasks, samples, seed):
    draws, rows, lines = random.Random(seed), digits(), [",".join([f"p{i}" for i in range(64)] + ["class"])]
    for _ in range(tasks):
        order = list(range(64))
        draws.shuffle(order)
        for _ in range(samples):
            x, y = draws.choice(rows)
            lines.append(",".join([x[i] for i in order] + [y]))
    return "\n".join(lines) + "\n"


class Digits:
    """The digits of examples/data as the lines of a table."""
    pixels, scale = 64, 0.0625

    def __init__(self, tasks, samples):
        self.tasks, self.samples = tasks, samples

    def lines(self, seed):
        yield table(self.tasks, self.samples, seed).encode()


class Mnist:
    """MNIST's training images, drawn with replacement, as the lines of a table: a block a task."""
    pixels, scale = 784, 1 / 255

    def __init__(self, folder, tasks, samples):
        self.tasks, self.samples = tasks, samples
        images, self.labels = (gzip.decompress((folder / f"train-{kind}-ubyte.gz").read_bytes())[head:]
                               for kind, head in (("images-idx3", 16), ("labels-idx1", 8)))
        self.images = [images[at:at + 784] for at in range(0, len(images), 784)]

    def lines(self, seed):
        draws, words = random.Random(seed), [str(value).encode() for value in range(256)]
        yield (",".join([f"p{i}" for i in range(784)] + ["class"]) + "\n").encode()
        for _ in range(self.tasks):
            order = list(range(784))
            draws.shuffle(order)
            permuted, block = operator.itemgetter(*order), []
            for _ in range(self.samples):
                chosen = draws.randrange(len(self.images))
                block += map(words.__getitem__, permuted(self.images[chosen]))
                block.append(words[self.labels[chosen]])
            rows = zip(*[iter(block)] * 785)
            yield b"\n".join(map(b",".join, rows)) + b"\n"


def layers_of(parts):
    """The layers of an arm in the grid, its pull and its renewals."""
    layers, pull, renew, has_norm = [], {}, {}, "layer_norm" in parts
    for part in parts:
        kind, *numbers = part.split()
        if kind in ("ema", "welford"):
            names = ("decay", "epsilon") if kind == "ema" else ("epsilon",)
            layers.append({"type": "running_standardize", "kind": kind, **dict(zip(names, map(float, numbers)))})
        elif kind in RENEWALS:
            renew = {"method": kind} | {key: of(number) for (key, of), number in zip(RENEWALS[kind], numbers)}
        elif part != "layer_norm":
            pull = PULLS[part]
    for width in (300, 150):
        layers.append({"type": "dense", "out": width, "init": "he_uniform"})
        if has_norm:
            layers += [{"type": "layer_norm", "affine": False}, {"type": "activation", "activation": "relu"}]
        else:
            layers[-1]["activation"] = "relu"
    layers.append({"type": "dense", "out": 10})
    layers[0]["from"] = ["x"]
    return [{"at": [0, 0, x, 0], **layer} for x, layer in enumerate(layers)], pull, renew


def run(weft, arm, data, lr, seed):
    samples = data.samples
    layers, pull, renew = layers_of(arm.split(" + "))
    made = {"weft": 2, "seed": seed, "grid": {"x": len(layers)}, "inputs": {"x": [data.pixels]}, "layers": layers,
            "outputs": {"y": [0, 0, len(layers) - 1, 0]},
            "learning": {"rule": "backprop", "optimizer": {"type": "sgd", "lr": lr}, "plasticity": pull,
                         **({"renew": renew} if renew else {})},
            "stream": {"csv": "-", "label": "class", "classes": [str(i) for i in range(10)], "scale": data.scale,
                       "window": samples, "change_every": samples}}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        path.write_text(json.dumps(made))
        with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as errors:
            with subprocess.Popen([weft, "run", str(path), "--data", "-", "--format", "csv", "--json", "--threads", "1"],
                                  stdin=subprocess.PIPE, stdout=told, stderr=errors) as running:
                try:
                    for block in data.lines(seed):
                        running.stdin.write(block)
                    running.stdin.close()
                except BrokenPipeError:
                    pass  # its exit code says why
                code = running.wait()
            told.seek(0)
            errors.seek(0)
            printed, errors_told = told.read(), errors.read()
    if code != 0:
        raise SystemExit(printed[-2000:] + errors_told)
    # The accuracy before a change is that of the task: its window is as long.
    changes = json.loads(printed.splitlines()[-1])["adaptation"]["changes"]
    return [change["before"] for change in changes if change["declared"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--tasks", type=int, default=101)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seeds", default="0:1")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--arms", default=",".join(PULLS))
    parser.add_argument("--mnist", type=pathlib.Path)
    args = parser.parse_args()
    data = Mnist(args.mnist, args.tasks, args.samples) if args.mnist else Digits(args.tasks, args.samples)
    first, end = map(int, args.seeds.split(":"))
    tenth = max((args.tasks - 1) // 10, 1)
    print(f"| arm | online accuracy of {args.tasks - 1} tasks | first {tenth} | last {tenth} | last over first |")
    print("|---|---|---|---|---|")
    for arm in args.arms.split(","):
        runs = [run(args.weft, arm, data, args.lr, seed) for seed in range(first, end)]
        of = [statistics.mean(100 * statistics.mean(part) for part in parts)
              for parts in ([r for r in runs], [r[:tenth] for r in runs], [r[-tenth:] for r in runs])]
        print(f"| {arm} | {of[0]:.1f} % | {of[1]:.1f} % | {of[2]:.1f} % | {of[2] / of[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
