#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures plasticity: the digits of examples/data, whose pixels are permuted anew for each task, learned online.

  tools/measure_plasticity.py WEFT [--tasks N] [--samples N] [--seeds FIRST:END] [--lr RATE] [--arms NAME,...]
                              [--mnist DIR] [--jobs N] [--json FILE]

A network 64-300-150-10 (relu, sgd) sees each sample once; a task is --samples of them. One row an arm: mean online
accuracy over all tasks, of the first and of the last tenth of them. An arm is a row of PULLS, or parts joined by " + ":
one of these rows, "redo EVERY THRESHOLD" or "continual RATE MATURITY" (section renew), "ema DECAY [EPSILON]" or
"welford [EPSILON]" (inputs through running_standardize), "layer_norm" (before each relu, without parameters), "crelu"
(in place of each relu), "upgd NOISE DECAY [WEIGHT_DECAY]" (section perturb), "lr RATE". With --jobs runs of several
arms and seeds go on at once, of a weft and a process that makes samples each.
--json writes what is known of each run every 30 seconds; runs that the file has whole are not made again.
Small form of "input-permuted MNIST" (Elsayed and Mahmood 2024, arXiv:2404.00781). With --mnist the images are MNIST's
training images in DIR (IDX files): their form is --tasks 201 --samples 5000, a million samples.
"""
import argparse
import csv
import functools
import gzip
import json
import operator
import pathlib
import random
import statistics
import subprocess
import tempfile

import parallel_runs

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


def learning_of(parts, rate):
    """The section "learning" of an arm but for the rule, and the parts that are none of its."""
    learning, others = {"optimizer": {"type": "sgd", "lr": rate}}, []
    for part in parts:
        kind, *numbers = part.split()
        if kind in RENEWALS:
            learning["renew"] = {"method": kind} | {
                key: of(number) for (key, of), number in zip(RENEWALS[kind], numbers)}
        elif kind in ("upgd", "upgd_nonprotecting"):
            noise, decay, *weight_decay = map(float, numbers)
            learning["perturb"] = {"method": kind, "noise": noise, "decay": decay}
            learning["optimizer"] |= {"weight_decay": of for of in weight_decay}
        elif kind == "lr":
            learning["optimizer"]["lr"] = float(numbers[0])
        elif part in PULLS:
            learning["plasticity"] = PULLS[part]
        else:
            others.append(part)
    return learning, others


def learner_of(parts, rate):
    """The layers of an arm in the grid, and its section "learning" but for the rule."""
    layers, (learning, others) = [], learning_of(parts, rate)
    for part in others:
        kind, *numbers = part.split()
        if kind in ("ema", "welford"):
            names = ("decay", "epsilon") if kind == "ema" else ("epsilon",)
            layers.append({"type": "running_standardize", "kind": kind, **dict(zip(names, map(float, numbers)))})
        elif part not in ("layer_norm", "crelu"):
            raise SystemExit(f"{part}: no part of an arm")
    has_norm, is_double = "layer_norm" in others, "crelu" in others
    for width in (300, 150):
        layers.append({"type": "dense", "out": width, "init": "he_uniform"})
        if has_norm:
            layers.append({"type": "layer_norm", "affine": False})
        if has_norm or is_double:
            layers.append({"type": "crelu"} if is_double else {"type": "activation", "activation": "relu"})
        else:
            layers[-1]["activation"] = "relu"
    layers.append({"type": "dense", "out": 10})
    layers[0]["from"] = ["x"]
    return [{"at": [0, 0, x, 0], **layer} for x, layer in enumerate(layers)], learning


@functools.cache
def samples_of(folder, tasks, samples):
    return Mnist(folder, tasks, samples) if folder else Digits(tasks, samples)


def feed(running, data, seed, tell):
    """Gives a run its samples; tell(): between tasks."""
    try:
        for block in data.lines(seed):
            running.stdin.write(block)
            tell()
        running.stdin.close()
    except BrokenPipeError:
        running.stdin = None  # its exit code says why


def run(key, args, told_to):
    """One run; tells {"samples", "accuracy"} now and then, and returns the accuracy of each task."""
    arm, seed = key
    data = samples_of(args.mnist, args.tasks, args.samples)
    layers, learning = learner_of(arm.split(" + "), args.lr)
    made = {"weft": 2, "seed": seed, "grid": {"x": len(layers)}, "inputs": {"x": [data.pixels]}, "layers": layers,
            "outputs": {"y": [0, 0, len(layers) - 1, 0]}, "learning": {"rule": "backprop", **learning},
            "stream": {"csv": "-", "label": "class", "classes": [str(i) for i in range(10)], "scale": data.scale,
                       "window": data.samples, "change_every": data.samples}}
    with (tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors):
        network, told = pathlib.Path(folder) / "network.json", pathlib.Path(folder) / "told.jsonl"
        network.write_text(json.dumps(made))

        def tell():
            lines = [line for line in told.read_text().split("\n")[:-1] if '"event":"progress"' in line]
            if lines:
                last = json.loads(lines[-1])
                told_to.put((key, {"samples": last["samples"], "accuracy": last["overall_accuracy"]}))

        with open(told, "w") as output, subprocess.Popen(
                [args.weft, "run", str(network), "--data", "-", "--format", "csv", "--json", "--threads", "1"],
                stdin=subprocess.PIPE, stdout=output, stderr=errors) as running:
            feed(running, data, seed, tell)
            code = running.wait()
        errors.seek(0)
        printed = told.read_text()
        if code != 0:
            raise RuntimeError(f"{arm}, seed {seed}: " + printed[-2000:] + errors.read())
    # The accuracy before a change is that of the task: its window is as long.
    changes = json.loads(printed.splitlines()[-1])["adaptation"]["changes"]
    return {"tasks": [change["before"] for change in changes if change["declared"]]}


def row_of(arm, runs, tenth):
    parts = [runs, [r[:tenth] for r in runs], [r[-tenth:] for r in runs]]
    each = [[100 * statistics.mean(r) for r in part] for part in parts]
    mean = [statistics.mean(part) for part in each]
    spread = f" ({statistics.stdev(each[0]):.2f})" if len(runs) > 1 else ""
    return f"| {arm} | {mean[0]:.1f} %{spread} | {mean[1]:.1f} % | {mean[2]:.1f} % | {mean[2] / mean[1]:.3f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--tasks", type=int, default=101)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seeds", default="0:1")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--arms", default=",".join(PULLS))
    parser.add_argument("--mnist", type=pathlib.Path)
    parallel_runs.add_arguments(parser)
    args = parser.parse_args()
    seeds, arms = range(*map(int, args.seeds.split(":"))), args.arms.split(",")
    for arm in arms:
        learner_of(arm.split(" + "), args.lr)  # a word that it does not know stops here
    protocol = {"tasks": args.tasks, "samples": args.samples, "lr": args.lr, "mnist": bool(args.mnist)}
    results, tenth = parallel_runs.Results(args.json, protocol, "tasks"), max((args.tasks - 1) // 10, 1)
    print(f"| arm | online accuracy of {args.tasks - 1} tasks | first {tenth} | last {tenth} | last over first |")
    print("|---|---|---|---|---|", flush=True)
    parallel_runs.measure(run, args, arms, seeds, results, lambda arm: print(
        row_of(arm, [results.runs[arm, seed]["tasks"] for seed in seeds], tenth), flush=True))


if __name__ == "__main__":
    main()
