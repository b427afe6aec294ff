#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures an agent that has two games in turn and is never reset: examples/turns.json, changed in its games.

  tools/measure_turns.py WEFT [--first falling] [--second lanes] [--every 20000] [--rounds 20] [--seeds 0:1]
                         [--width 128] [--jobs N] [--seconds S] [--set KEY=VALUE ...]

A round is a turn of each game. Of each game: the reward of 1,000 steps in its first and its last --edge rounds, the
share of the last ones of the first ones, and the same of the second halves of the turns alone, where the agent has had
time to find out. --set reinforcement.lambda=0.9 changes a key. Seeds run --jobs at once, one thread each; with
--seconds a run is stopped, and its rounds that are whole by then are counted. Of several seeds the last rows have mean
and standard deviation of the share. The last line has steps a second.
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

ROOT = pathlib.Path(__file__).resolve().parents[1]


def network(args):
    made = json.loads((ROOT / "examples/turns.json").read_text())
    for layer in made["layers"]:
        for inner in layer["layers"]:
            if inner.get("out") == 128:
                inner["out"] = args.width
    made["reinforcement"]["environment"] |= {"first": args.first, "second": args.second, "every": args.every}
    for change in args.set:
        key, _, value = change.partition("=")
        *path, last = [int(part) if part.isdigit() else part for part in key.split(".")]
        place = made
        for part in path:
            place = place[part]
        place[last] = json.loads(value)
    return made


class Turns:
    """Sums over turns: an episode counts where it ends."""

    def __init__(self, every):
        self.every, self.whole, self.late, self.steps = every, [], [], []

    def add(self, episode):
        turn, place = divmod(episode["step"] - 1, self.every)
        while len(self.whole) <= turn:
            self.whole.append(0.0)
            self.late.append(0.0)
            self.steps.append(0)
        self.whole[turn] += episode["return"]
        if place >= self.every // 2:
            self.late[turn] += episode["return"]
            self.steps[turn] += episode["length"]

    def rewards(self, turns):
        """Of each turn, and of its second half: the reward of 1,000 steps."""
        return ([1000 * sum_ / self.every for sum_ in self.whole[:turns]],
                [1000 * sum_ / count if count else float("nan")
                 for sum_, count in zip(self.late[:turns], self.steps[:turns])])


def play(args, path, seed):
    """The rewards of whole rounds, and steps a second."""
    steps = 2 * args.rounds * args.every
    live = subprocess.Popen([args.weft, "live", path, "--seed", str(seed), "--steps", str(steps), "--threads", "1",
                             "--json"], stdout=subprocess.PIPE, text=True)
    turns, begin, reached, is_late = Turns(args.every), time.monotonic(), 0, False
    for line in live.stdout:
        event = json.loads(line)
        if event["event"] == "episode":
            turns.add(event)
            reached = event["step"]
        elif event["event"] == "done":
            reached = event["steps"]
        if args.seconds and not is_late and time.monotonic() - begin > args.seconds:
            is_late = True
            live.terminate()
    live.stdout.close()
    if live.wait() != 0 and not is_late:
        raise SystemExit(f"{args.weft} live ended with {live.returncode}")
    rounds = reached // (2 * args.every)
    return turns.rewards(2 * rounds), reached / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--first", default="falling")
    parser.add_argument("--second", default="lanes")
    parser.add_argument("--every", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--edge", type=int, default=3)
    parser.add_argument("--seeds", default="0:1")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    first, end = map(int, args.seeds.split(":"))
    print("| seed | rounds | game | first rounds | last rounds | share | the same, second halves of turns |")
    print("|---|---|---|---|---|---|---|")
    rates, shares = [], [[], []]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        path = pathlib.Path(folder) / "network.json"
        path.write_text(json.dumps(network(args)))
        for seed, (both, rate) in zip(range(first, end), pool.map(lambda of: play(args, path, of), range(first, end))):
            rates.append(rate)
            rounds = len(both[0]) // 2
            for game, name in enumerate((args.first, args.second)):
                row = []
                for figures in both:
                    mine = figures[game::2]
                    begin, last = statistics.mean(mine[:args.edge]), statistics.mean(mine[-args.edge:])
                    row.append((begin, last, 100 * last / begin if begin > 0 else float("nan")))
                (a, b, share), (c, d, late) = row
                shares[game].append(share)
                print(f"| {seed} | {rounds} | {name} | {a:.1f} | {b:.1f} | {share:.0f} % | {c:.1f}, {d:.1f}, {late:.0f} % |",
                      flush=True)
    for name, of in zip((args.first, args.second), shares):
        if end - first > 1 and not any(map(math.isnan, of)):
            told = f"{statistics.mean(of):.0f} ({statistics.stdev(of):.0f}) %, least {min(of):.0f}"
            print(f"| {end - first} seeds | | {name} | | | {told} | |")
    print(f"{statistics.mean(rates):,.0f} steps a second")


if __name__ == "__main__":
    main()
