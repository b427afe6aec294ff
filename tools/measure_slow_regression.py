#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures learning of slowly changing regression: `weft stream slowly_changing`, learned online by five hidden units.

  tools/measure_slow_regression.py WEFT [--samples N] [--change-every N] [--seeds FIRST:END] [--arms NAME,...]
                                   [--jobs N] [--json FILE]

A network 20-5-1 (relu) sees each sample once; a bit flips every --change-every samples (Dohare et al. 2024, Nature 632).
One row an arm: the squared error over the second and over the last tenth of the samples, mean over the seeds and its
standard error. An arm is parts joined by " + ", those of tools/measure_plasticity.py but for layers. The last line tells
the best rate without tools and the arms that end below it. Small form: --samples 100000 --change-every 1000.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time

import parallel_runs
from measure_plasticity import learning_of

RATES = ("0.003", "0.01", "0.03")
ARMS = [f"lr {rate}" for rate in RATES] + [f"continual 0.0001 100 + lr {rate}" for rate in RATES]


def network(arm, seed, window):
    learning, others = learning_of(arm.split(" + "), 0.01)
    if others:
        raise SystemExit(f"{others[0]}: no part of an arm")
    return {"weft": 2, "seed": seed, "inputs": {"x": [20]},
            "chain": [{"type": "dense", "out": 5, "activation": "relu", "init": "he_uniform"},
                      {"type": "dense", "out": 1}],
            "learning": {"rule": "backprop", "loss": "mse", **learning},
            "stream": {"csv": "-", "targets": ["value"], "window": window}}


def run(key, args, told_to):
    """One run; returns {"second", "last"}: the mean loss over the second and the last tenth."""
    arm, seed = key
    tenth = args.samples // 10
    losses = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        path.write_text(json.dumps(network(arm, seed, tenth)))
        stream = [args.weft, "stream", "slowly_changing", "--seed", str(seed), "--change-every", str(args.change_every),
                  "--samples"]
        learn = [args.weft, "run", str(path), "--data", "-", "--format", "csv", "--json", "--threads", "1"]
        # The stream's samples are functions of seed and number: the shorter run is the beginning of the longer one.
        for name, samples in (("second", 2 * tenth), ("last", args.samples)):
            with (subprocess.Popen(stream + [str(samples)], stdout=subprocess.PIPE) as source,
                  subprocess.Popen(learn, stdin=source.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True) as learner):
                source.stdout.close()
                printed, errors = learner.communicate()
            if learner.returncode != 0:
                raise RuntimeError(f"{arm}, seed {seed}: " + printed[-2000:] + errors)
            losses[name] = json.loads(printed.splitlines()[-1])["mean_loss"]
            told_to.put((key, {"samples": samples, "loss": losses[name]}))
    return losses


def means(runs):
    """{"second": (mean, standard error), "last": ...}"""
    found = {}
    for name in ("second", "last"):
        values = [one[name] for one in runs]
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        found[name] = (statistics.mean(values), error)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--samples", type=int, default=1000000)
    parser.add_argument("--change-every", type=int, default=10000)
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--arms", default=",".join(ARMS))
    parallel_runs.add_arguments(parser)
    args = parser.parse_args()
    seeds, arms = range(*map(int, args.seeds.split(":"))), args.arms.split(",")
    for arm in arms:
        network(arm, 0, 1)  # a word that it does not know stops here
    results = parallel_runs.Results(args.json, {"samples": args.samples, "change_every": args.change_every}, "last")
    found, began = {}, time.monotonic()

    def print_row(arm):
        found[arm] = means([results.runs[arm, seed] for seed in seeds])
        second, last = ("{:.3f} ({:.3f})".format(*found[arm][name]) for name in ("second", "last"))
        print(f"| {arm} | {second} | {last} |", flush=True)

    print(f"| arm | squared error of the second tenth | of the last tenth, {len(seeds)} seeds |")
    print("|---|---|---|", flush=True)
    parallel_runs.measure(run, args, arms, seeds, results, print_row)
    plain = {arm: each["last"][0] for arm, each in found.items() if arm.startswith("lr ")}
    if plain:
        best = min(plain, key=plain.get)
        below = [arm for arm, each in found.items() if arm not in plain and each["last"][0] <= plain[best]]
        print(f"best without tools: {best}, {plain[best]:.3f}; not above it: {', '.join(below) or 'none'}; "
              f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
