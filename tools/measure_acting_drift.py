#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures detectors of drift of an agent that acts: examples/cartpole.json in `chase`, whose task turns round.

  tools/measure_acting_drift.py WEFT [--every 10000] [--turns 6] [--seeds 0:5] [--rows NAME...] [--set KEY=VALUE...]

A row is a detector with its input and what is done at a change. Of each: changes that were seen before the next one
came, the steps until then (mean and standard deviation), alarms that were false (in the first turn, or a second one in
the same turn), and the reward of 1,000 steps from the first change on. Seeds go one after the other on one thread.
"""
import argparse
import json
import pathlib
import statistics
import tempfile

import measure_reinforcement

RETURN = {"input": "return", "detector": "page_hinkley", "warm_up": 30, "tolerance": 2, "threshold": 60}
ERROR = {"input": "td_error", "detector": "page_hinkley", "warm_up": 30, "tolerance": 0.1, "threshold": 50}
ROWS = {
    "return, page_hinkley": RETURN,
    "return, adwin": {"input": "return", "detector": "adwin", "clock": 4},
    "return, kswin": {"input": "return", "detector": "kswin"},
    "td_error, page_hinkley": ERROR,
    "td_error, adwin": {"input": "td_error", "detector": "adwin"},
    "td_error, kswin": {"input": "td_error", "detector": "kswin"},
    "return, page_hinkley, rates doubled": RETURN | {"rate_boost": 2, "boost_samples": 100},
    "return, page_hinkley, initial weights": RETURN | {"swap": "initial"},
}


def delays(alarms, every, turns):
    """Steps from each change to its first alarm, and the number of all other alarms."""
    found, others = [], 0
    for turn in range(turns):
        mine = [step - turn * every for step in alarms if turn * every < step <= (turn + 1) * every]
        if turn > 0 and mine:
            found.append(mine[0])
        others += len(mine) - (turn > 0 and len(mine) > 0)
    return found, others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--every", type=int, default=10000)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    first, end = map(int, args.seeds.split(":"))
    steps = args.every * args.turns
    print("| input, detector, reaction | changes seen | steps until then | false alarms a run | reward of 1,000 steps |\n"
          "|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        for name in args.rows:
            made = measure_reinforcement.network("chase", args.set)
            made["reinforcement"]["environment"]["every"] = args.every
            made["learning"]["drift"] = ROWS[name]
            path.write_text(json.dumps(made))
            seen, false, rewards = [], 0, []
            for seed in range(first, end):
                events = measure_reinforcement.events_of(args.weft, path, seed, steps)
                alarms = [e["step"] for e in events if e["event"] == "drift_seen" and e["level"] == "change"]
                found, others = delays(alarms, args.every, args.turns)
                seen += found
                false += others
                late = [e["return"] for e in events if e["event"] == "episode" and e["step"] > args.every]
                rewards.append(1000 * sum(late) / (steps - args.every))
            changes = (end - first) * (args.turns - 1)
            spread = f"{statistics.mean(seen):,.0f} ({statistics.pstdev(seen):,.0f})" if seen else "-"
            deviation = statistics.stdev(rewards) if len(rewards) > 1 else 0.0
            print(f"| {name} | {len(seen)} of {changes} | {spread} | {false / (end - first):.1f} | "
                  f"{statistics.mean(rewards):.0f} ({deviation:.0f}) |", flush=True)


if __name__ == "__main__":
    main()
