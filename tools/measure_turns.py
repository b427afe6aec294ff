#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures an agent that has two games in turn and is never reset: examples/turns.json, changed in its games.

  tools/measure_turns.py WEFT [--first falling] [--second lanes] [--every 20000] [--rounds 20] [--seeds 0:1]
                         [--width 128] [--set KEY=VALUE ...]

A round is a turn of each game. Of each game: the reward of 1,000 steps in its first and its last --edge rounds, the
share of the last ones of the first ones, and the same of the second halves of the turns alone, where the agent has had
time to find out. --set reinforcement.lambda=0.9 changes a key. The last line has steps a second.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

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


def rewards(episodes, every, turns):
    """Of each turn, and of its second half: the reward of 1,000 steps. An episode counts where it ends."""
    whole, late = [0.0] * turns, [0.0] * turns
    steps = [0] * turns
    for episode in episodes:
        turn, place = divmod(episode["step"] - 1, every)
        whole[turn] += episode["return"]
        if place >= every // 2:
            late[turn] += episode["return"]
            steps[turn] += episode["length"]
    return ([1000 * sum_ / every for sum_ in whole],
            [1000 * sum_ / count if count else float("nan") for sum_, count in zip(late, steps)])


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
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    first, end = map(int, args.seeds.split(":"))
    turns = 2 * args.rounds
    print("| seed | game | first rounds | last rounds | share | the same, second halves of turns |")
    print("|---|---|---|---|---|---|")
    rates = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        path.write_text(json.dumps(network(args)))
        for seed in range(first, end):
            done = subprocess.run([args.weft, "live", path, "--seed", str(seed), "--steps", str(turns * args.every),
                                   "--threads", "1", "--json"], capture_output=True, text=True, check=True)
            events = [json.loads(line) for line in done.stdout.splitlines()]
            both = rewards([e for e in events if e["event"] == "episode"], args.every, turns)
            rates.append(events[-1]["steps_per_second"])
            for game, name in enumerate((args.first, args.second)):
                row = []
                for figures in both:
                    mine = figures[game::2]
                    begin, last = statistics.mean(mine[:args.edge]), statistics.mean(mine[-args.edge:])
                    row.append((begin, last, 100 * last / begin if begin > 0 else float("nan")))
                (a, b, share), (c, d, late) = row
                print(f"| {seed} | {name} | {a:.1f} | {b:.1f} | {share:.0f} % | {c:.1f}, {d:.1f}, {late:.0f} % |", flush=True)
    print(f"{statistics.mean(rates):,.0f} steps a second")


if __name__ == "__main__":
    main()
