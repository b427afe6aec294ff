#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures memory through time: a bit is shown in a sequence's first tick and asked for after noise of variance 1.

  tools/measure_memory_chain.py WEFT [--ticks N] [--most N] [--seeds FIRST:END] [--jobs N] --arms "ARM,..."

An arm is a cell of 32 units before a dense layer of two, pipelined, adamw at 0.003, no reset between sequences:
  diagonal forward             exact derivatives forward in time; sizes from 0.5 to 0.9
  diagonal backward HORIZON    errors through HORIZON ticks
  gru snap1, gru eprop, lstm snap1, lstm eprop, gru backward HORIZON, ...
A row an arm: the sequences, of at most --most, until 490 of the last 500 answers were right, each answered before it was
learned from, a number for each seed and a dash where it did not come to that; how many seeds did.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import subprocess
import tempfile

WINDOW, WANTED, UNITS, TOGETHER = 500, 490, 32, 25


def network(arm, seed):
    kind, way, *horizon = arm.split()
    cell = {"type": kind, "out": 2 * UNITS if kind == "diagonal" else UNITS, "through_time": way}
    if kind == "diagonal":
        cell |= {"least_size": 0.5, "largest_size": 0.9}
    learning = {"rule": "backprop", "schedule": "pipelined", "optimizer": {"type": "adamw", "lr": 0.003}}
    if horizon:
        learning["horizon"] = int(horizon[0])
    return {"weft": 2, "seed": seed, "inputs": {"x": [3]}, "chain": [cell, {"type": "dense", "out": 2}],
            "learning": learning,
            "stream": {"csv": "-", "label": "bit", "classes": ["0", "1"], "window": WINDOW}}


def line(shown, draws, is_asked, bit=None):
    label = f',"y":"{bit}"' if bit is not None else ""
    return f'{{"x":[{shown},{draws.gauss(0, 1):.6f},{is_asked}]{label}}}\n'


def sequences(draws, ticks):
    """Rows of TOGETHER sequences; where nothing is asked the label is missing."""
    rows, bits = [], []
    for _ in range(TOGETHER):
        bit = draws.randrange(2)
        bits.append(bit)
        rows.append(line(2 * bit - 1, draws, 0))
        rows += [line(0, draws, 0) for _ in range(ticks)]
        rows.append(line(0, draws, 1, bit))
    return "".join(rows), bits


def run(weft, arm, seed, args):
    """Sequences until it was solved, or None."""
    draws, last, count = random.Random(seed), collections.deque(maxlen=WINDOW), 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        path.write_text(json.dumps(network(arm, seed)))
        with subprocess.Popen([weft, "run", str(path), "--data", "-", "--format", "jsonl", "--json", "--answers",
                               "--quiet", "--threads", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as learner:
            # A pipelined answer comes some samples later: those that wait are of the sequences before.
            asked, waiting = collections.deque(), 0
            while count < args.most:
                rows, bits = sequences(draws, args.ticks)
                learner.stdin.write(rows)
                learner.stdin.flush()
                asked += bits
                waiting += TOGETHER
                while waiting > 1:
                    event = json.loads(learner.stdout.readline())
                    if event["event"] != "answer" or (event["row"] + 1) % (args.ticks + 2) != 0:
                        continue
                    waiting, count = waiting - 1, count + 1
                    last.append(event["class"] == str(asked.popleft()))
                if len(last) == WINDOW and sum(last) >= WANTED:
                    learner.kill()
                    return count
            learner.kill()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--ticks", type=int, default=64)
    parser.add_argument("--most", type=int, default=8000)
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--arms", default="diagonal forward,diagonal backward 2")
    args = parser.parse_args()
    seeds = range(*map(int, args.seeds.split(":")))
    print(f"| cell | sequences until solved, {args.ticks} ticks | solved |\n|---|---|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for arm in [each.strip() for each in args.arms.split(",")]:
            found = list(pool.map(lambda seed: run(args.weft, arm, seed, args), seeds))
            solved = sum(each is not None for each in found)
            told = ", ".join("-" if each is None else str(each) for each in found)
            print(f"| {arm} | {told} | {solved} of {len(seeds)} |", flush=True)


if __name__ == "__main__":
    main()
