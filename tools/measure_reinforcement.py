#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures `weft live`: returns of streaming actor-critic with two networks of 2x128, examples/cartpole.json changed in
its environment.

  tools/measure_reinforcement.py WEFT ENVIRONMENT [--steps N] [--seeds FIRST:END] [--paper] [--set KEY=VALUE...]
                                 [--network FILE]

--paper: all layers sparse and lambda 0.8, as the paper has it. --set layers.0.layers.0.init='"uniform"' changes a key.
--network: a network of the environment itself, such as examples/mountain_car.json.

One line a seed: the first step at which the mean return of 20 episodes in a row reached --reached, the mean return of
the last 100 episodes, steps a second. Seeds go one after the other on one thread. The last line is the table's row,
with mean, standard deviation, least and most of the seeds' means.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# observations, numbers of the actor's output (of a real value two), return that counts as reached
WORLDS = {"cartpole": (4, 2, 475), "acrobot": (6, 3, -90), "mountain_car": (2, 3, -115), "catch_ball": (50, 3, 0.99),
          "memory_chain": (3, 2, 0.9), "falling": (400, 5, 10), "lanes": (400, 5, 5), "shooter": (400, 5, 10),
          "snake": (400, 5, 3), "chase": (8, 4, 25), "pendulum": (3, 2, -250)}


PAPER = ['layers.0.layers.0.init="sparse"', 'layers.1.layers.0.init="sparse"', "reinforcement.lambda=0.8"]


def network(environment, changes, file=None):
    made = json.loads(pathlib.Path(file or ROOT / "examples/cartpole.json").read_text())
    if file is None:
        observations, actor, _ = WORLDS[environment]
        made["name"] = environment
        made["inputs"]["observation"] = [observations]
        made["layers"][0]["layers"][-1]["out"] = actor
        made["reinforcement"]["environment"] = {"type": environment}
    for change in changes:
        key, _, value = change.partition("=")
        *path, last = [int(part) if part.isdigit() else part for part in key.split(".")]
        place = made
        for part in path:
            place = place[part]
        place[last] = json.loads(value)
    return made


def events_of(weft, path, seed, steps):
    command = [weft, "live", path, "--seed", str(seed), "--steps", str(steps), "--threads", "1", "--json"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def run(weft, path, seed, steps):
    events = events_of(weft, path, seed, steps)
    return [e for e in events if e["event"] == "episode"], events[-1]


def reached(episodes, wanted, count=20):
    for i in range(count, len(episodes) + 1):
        if statistics.mean(e["return"] for e in episodes[i - count:i]) >= wanted:
            return episodes[i - 1]["step"]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("environment", choices=WORLDS)
    parser.add_argument("--steps", type=int, default=200000)
    parser.add_argument("--seeds", default="0:10")
    parser.add_argument("--reached", type=float)
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--network", metavar="FILE")
    arguments = parser.parse_args()
    wanted = WORLDS[arguments.environment][2] if arguments.reached is None else arguments.reached
    first, end = map(int, arguments.seeds.split(":"))
    firsts, lasts, rates = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        changes = PAPER * arguments.paper + arguments.set
        path.write_text(json.dumps(network(arguments.environment, changes, arguments.network)))
        for seed in range(first, end):
            episodes, done = run(arguments.weft, path, seed, arguments.steps)
            firsts.append(reached(episodes, wanted))
            lasts.append(statistics.mean(e["return"] for e in episodes[-100:]) if episodes else float("nan"))
            rates.append(done["steps_per_second"])
            print(f"seed {seed}: reached {wanted:g} at {firsts[-1]}, last 100 episodes {lasts[-1]:.2f}, "
                  f"{rates[-1]:.0f} steps/s, {done['state_hash']}", flush=True)
    there = sorted(step for step in firsts if step is not None)
    within = f"{there[0]} to {there[-1]}" if there else "never"
    print(f"| {arguments.environment} | {arguments.steps} | {len(there)} of {len(firsts)} ({within}) | "
          f"{statistics.mean(lasts):.2f} ({statistics.stdev(lasts) if len(lasts) > 1 else 0:.2f}) | "
          f"{min(lasts):.2f} | {max(lasts):.2f} | "
          f"{1e6 / statistics.median(rates):.0f} us |")


if __name__ == "__main__":
    main()
