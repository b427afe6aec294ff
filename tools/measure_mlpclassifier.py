#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures scikit-learn's MLPClassifier on the digits, under the protocol of `weft run examples/digits.json`.

Per seed: shuffle the 1,797 digits (pixels / 16), hold out 20 %, 20 passes over the rest, score the held-out part.
The network has the example's shape: 64 pixels, two hidden layers of 64 tanh units, 10 logits with cross-entropy.
Seconds are CPU seconds of one thread, the least of all seeds, so a busy machine does not spoil them.
Rows named "stream" see one sample an update, as Weft does; rows named "batch" are the library's everyday use.

Needs python3-sklearn:  /usr/bin/python3 tools/measure_mlpclassifier.py [--seeds 5] [--epochs 20] [--json]
"""

import argparse
import json
import os
import statistics
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # matrices this small only lose time to a thread pool
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import sklearn  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402

HELD_OUT = 0.2

# Learning rates: the best of a coarse sweep (two to four values a solver; seeds 100 to 103, stream rows 100 and 101).
ROWS = [
    ("sgd 0.9 nesterov, stream", {"solver": "sgd", "momentum": 0.9, "learning_rate_init": 0.005, "batch_size": 1}),
    ("adam, stream", {"solver": "adam", "learning_rate_init": 0.001, "batch_size": 1}),
    ("sgd 0.9 nesterov, batch 32", {"solver": "sgd", "learning_rate_init": 0.1, "batch_size": 32}),
    ("adam, batch 32", {"solver": "adam", "learning_rate_init": 0.01, "batch_size": 32}),
    ("adam, defaults", {}),
]


def split(seed, count):
    """Returns (train, held out) row numbers of one seed."""
    order = np.random.default_rng(seed).permutation(count)
    held_out = int(round(count * HELD_OUT))
    return order[held_out:], order[:held_out]


def measure(options, seed, passes, pixels, labels):
    """Trains one classifier; returns its held-out accuracy in percent and the CPU seconds of its training."""
    train, held_out = split(seed, len(labels))
    network = MLPClassifier((64, 64), activation="tanh", max_iter=passes, n_iter_no_change=passes + 1, tol=0.0,
                            random_state=seed, **options)
    start = time.process_time()
    network.fit(pixels[train], labels[train])
    seconds = time.process_time() - start
    return 100.0 * network.score(pixels[held_out], labels[held_out]), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 .. N-1 (default 5)")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training part (default 20)")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    arguments = parser.parse_args()
    if arguments.seeds < 1 or arguments.epochs < 1:
        parser.error("--seeds and --epochs must be at least 1")

    warnings.simplefilter("ignore", ConvergenceWarning)  # stopping after N passes is the protocol
    digits = load_digits()
    pixels, labels = digits.data / 16.0, digits.target
    samples = arguments.epochs * (len(labels) - int(round(len(labels) * HELD_OUT)))

    if not arguments.json:
        print(f"scikit-learn {sklearn.__version__}, MLPClassifier 64-64-64-10 tanh, {arguments.epochs} passes, "
              f"{arguments.seeds} seeds, held out {HELD_OUT:.0%}")
        print(f"{'setting':<28}{'mean %':>8}{'min %':>8}{'max %':>8}{'CPU s':>9}{'samples/s':>11}")
    for name, options in ROWS:
        runs = [measure(options, seed, arguments.epochs, pixels, labels) for seed in range(arguments.seeds)]
        accuracy = [run[0] for run in runs]
        seconds = min(run[1] for run in runs)
        row = {"name": name, "mean": statistics.mean(accuracy), "min": min(accuracy), "max": max(accuracy),
               "cpu_seconds": seconds, "samples_per_second": samples / seconds}
        if arguments.json:
            print(json.dumps(row), flush=True)
        else:
            print(f"{name:<28}{row['mean']:>8.2f}{row['min']:>8.2f}{row['max']:>8.2f}{seconds:>9.2f}"
                  f"{row['samples_per_second']:>11.0f}", flush=True)


if __name__ == "__main__":
    main()
