#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accuracy on held-out rows of what `weft new` writes for a table, beside a network without hidden layers.

  tools/measure_new.py WEFT [--splits N]     prints the rows of the table in docs/cli.md, "weft new"

Each split holds out another fifth of each class; standardisation is of its training part. The same figures everywhere.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

IRIS = pathlib.Path(__file__).resolve().parent.parent / "examples/data/iris.csv"


def quadrants(path):
    """Exclusive or: the sign of a product, which no line divides."""
    draw = random.Random(1)
    rows = [(draw.uniform(-1, 1), draw.uniform(-1, 1)) for _ in range(400)]
    path.write_text("a,b,signs\n" + "".join(f"{a:.4f},{b:.4f},{'alike' if a * b > 0 else 'unlike'}\n" for a, b in rows))
    return path


def accuracy(weft, table, folder, split, *more):
    network = pathlib.Path(folder) / "n.json"
    subprocess.run([weft, "new", "--from", table, "--split-seed", str(split), "--force", "-o", network, *more], check=True,
                   stderr=subprocess.DEVNULL)
    done = subprocess.run([weft, "run", network, "--json", "--quiet"], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])["held_out_accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--splits", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, table in (("iris.csv", IRIS), ("exclusive or", quadrants(pathlib.Path(folder) / "t.csv"))):
            cells = [name]
            for more in ((), ("--hidden", "none")):
                found = [accuracy(arguments.weft, table, folder, split, *more) for split in range(arguments.splits)]
                cells.append(f"{statistics.mean(found):.1%} ({min(found):.1%} to {max(found):.1%})")
            print("| " + " | ".join(cells).replace("%", " %") + " |")


if __name__ == "__main__":
    main()
