#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures plasticity: the digits of examples/data, whose pixels are permuted anew for each task, learned online.

  tools/measure_plasticity.py WEFT [--tasks N] [--samples N] [--seeds FIRST:END] [--lr RATE] [--arms NAME,...]

A network 64-300-150-10 (relu, sgd) sees each sample once; a task is --samples of them. One row an arm: mean online
accuracy over all tasks, of the first and of the last tenth of them.
Small form of "input-permuted MNIST" (Elsayed and Mahmood 2024, arXiv:2404.00781).
"""
import argparse
import csv
import gzip
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ARMS = {
    "plain": {},
    "initial 0.001": {"pull": "initial", "every": 100, "share": 0.001},
    "initial 0.01": {"pull": "initial", "every": 100, "share": 0.01},
    "initial 0.03": {"pull": "initial", "every": 100, "share": 0.03},
    "fresh 0.01": {"pull": "fresh", "every": 100, "share": 0.01, "scale": 0.01},
    "fresh 0.03": {"pull": "fresh", "every": 100, "share": 0.03, "scale": 0.03},
}


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


def run(weft, arm, text, lr, samples, seed):
    made = {"weft": 2, "seed": seed, "grid": {"x": 3}, "inputs": {"x": [64]},
            "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 300, "activation": "relu", "from": ["x"],
                        "init": "he_uniform"},
                       {"at": [0, 0, 1, 0], "type": "dense", "out": 150, "activation": "relu", "init": "he_uniform"},
                       {"at": [0, 0, 2, 0], "type": "dense", "out": 10}],
            "outputs": {"y": [0, 0, 2, 0]},
            "learning": {"rule": "backprop", "optimizer": {"type": "sgd", "lr": lr}, "plasticity": ARMS[arm]},
            "stream": {"csv": "-", "label": "class", "classes": [str(i) for i in range(10)], "scale": 0.0625,
                       "window": samples, "change_every": samples}}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        path.write_text(json.dumps(made))
        done = subprocess.run([weft, "run", str(path), "--data", "-", "--format", "csv", "--json", "--threads", "1"],
                              input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout[-2000:] + done.stderr)
    # The accuracy before a change is that of the task: its window is as long.
    changes = json.loads(done.stdout.splitlines()[-1])["adaptation"]["changes"]
    return [change["before"] for change in changes if change["declared"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--tasks", type=int, default=101)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seeds", default="0:1")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--arms", default=",".join(ARMS))
    args = parser.parse_args()
    first, end = map(int, args.seeds.split(":"))
    tenth = max((args.tasks - 1) // 10, 1)
    print(f"| arm | online accuracy of {args.tasks - 1} tasks | first {tenth} | last {tenth} | last over first |")
    print("|---|---|---|---|---|")
    texts = {seed: table(args.tasks, args.samples, seed) for seed in range(first, end)}
    for arm in args.arms.split(","):
        runs = [run(args.weft, arm, texts[seed], args.lr, args.samples, seed) for seed in range(first, end)]
        of = [statistics.mean(100 * statistics.mean(part) for part in parts)
              for parts in ([r for r in runs], [r[:tenth] for r in runs], [r[-tenth:] for r in runs])]
        print(f"| {arm} | {of[0]:.1f} % | {of[1]:.1f} % | {of[2]:.1f} % | {of[2] / of[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
