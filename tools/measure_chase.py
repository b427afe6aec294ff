#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures every learning rule on the task that turns round: go after the target, or away from it.

  tools/measure_chase.py WEFT [--rules NAME,...] [--schedules settle,pipelined] [--seeds 0:1] [--samples 150000]
                         [--flip 5000] [--defaults] [--set KEY=VALUE ...]

A point and a target on a plane, eight numbers of them, and the right one of four actions; every --flip samples towards
and away change places, of which the learner is told nothing. The network is a chain of dense layers,
8-32-64-64-64-32-4, that learns each sample once, in order, by plain gradient steps (RATES, looked for with seed 100).
--defaults takes the optimiser of the rule, --set changes a key of the section learning. One row a rule and schedule,
means over the seeds: accuracy of the answers before learning, samples until the window of 200 is back at 95 % of what
it was, hits that a change cost (adaptation.area), and answers in 15 s of CPU time of one thread, reading and learning
included.
"""
import argparse
import json
import pathlib
import random
import resource
import statistics
import subprocess
import tempfile

WIDTHS = [32, 64, 64, 64, 32, 4]
RULES = ["backprop", "gap", "chain", "fw_dtp", "dfa", "dtp", "sdtp", "local_ce", "gap_difference", "chain_original",
         "gap_original"]
RATES = {"gap": 0.01, "gap_original": 0.001}  # others 0.03


def rows(samples, flip, seed):
    """Places drawn anew for each sample: along a walk the last label is right for 94 of 100, and nothing need be seen."""
    draw = random.Random(seed)
    made = ["x,y,tx,ty,dx,dy,ax,ay,action"]
    for sample in range(samples):
        x, y, tx, ty = (draw.randrange(64) for _ in range(4))
        while (x, y) == (tx, ty):
            tx, ty = draw.randrange(64), draw.randrange(64)
        dx, dy = tx - x, ty - y
        right = (1 if dx > 0 else 0) if abs(dx) >= abs(dy) else (3 if dy > 0 else 2)
        if sample // flip % 2:
            right ^= 1
        made.append(",".join(f"{v / 64:.6g}" for v in (x, y, tx, ty, dx, dy, abs(dx), abs(dy))) + f",{right}")
    return "\n".join(made) + "\n"


def network(rule, schedule, args):
    layers = [{"at": [0, 0, i, 0], "type": "dense", "out": width, "activation": args.activation}
              for i, width in enumerate(WIDTHS)]
    del layers[-1]["activation"]
    learning = {"rule": rule, "schedule": schedule, "loss": "cross_entropy"}
    if not args.defaults:
        learning["optimizer"] = {"type": "sgd", "lr": RATES.get(rule, 0.03)}
    for change in args.set:
        key, _, value = change.partition("=")
        learning[key] = json.loads(value)
    return {"weft": 2, "name": "chase", "grid": {"x": len(WIDTHS)}, "inputs": {"seen": [8]},
            "layers": [{**layers[0], "from": ["seen"]}, *layers[1:]],
            "outputs": {"action": [0, 0, len(WIDTHS) - 1, 0]}, "learning": learning,
            "stream": {"csv": "-", "label": "action", "classes": ["0", "1", "2", "3"], "change_every": args.flip}}


def run(weft, path, data, seed):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([weft, "run", path, "--data", "-", "--format", "csv", "--json", "--threads", "1", "--seed",
                           str(seed)], input=data, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    events = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0:
        return None
    accuracy = [e["overall_accuracy"] for e in events if e["event"] == "progress"][-1]
    changes = [c for c in events[-1]["adaptation"]["changes"] if c["declared"]]
    back = [c["samples_to_95"] for c in changes if c.get("samples_to_95") is not None]
    return {"accuracy": accuracy, "area": statistics.mean(c["area"] for c in changes), "changes": len(changes),
            "back": back, "rate": (data.count("\n") - 1) / seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--schedules", default="settle,pipelined")
    parser.add_argument("--seeds", default="0:1")
    parser.add_argument("--samples", type=int, default=150000)
    parser.add_argument("--flip", type=int, default=5000)
    parser.add_argument("--activation", default="tanh")
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    first, end = map(int, args.seeds.split(":"))
    print("| rule | schedule | accuracy | samples to 95 % (changes) | hits lost a change | answers in 15 s |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        data = {seed: rows(args.samples, args.flip, seed) for seed in range(first, end)}
        for rule in args.rules.split(","):
            for schedule in args.schedules.split(","):
                path.write_text(json.dumps(network(rule, schedule, args)))
                found = [run(args.weft, path, data[seed], seed) for seed in data]
                if None in found:
                    print(f"| {rule} | {schedule} | halted | | | |", flush=True)
                    continue
                back = [b for f in found for b in f["back"]]
                changes = sum(f["changes"] for f in found)
                print(f"| {rule} | {schedule} | {100 * statistics.mean(f['accuracy'] for f in found):.1f} % | "
                      f"{statistics.median(back) if back else '-'} ({len(back)} of {changes}) | "
                      f"{statistics.mean(f['area'] for f in found):.0f} | "
                      f"{15 * statistics.mean(f['rate'] for f in found):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
