#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures detectors of drift on streams of `weft stream`, by a network that learns them one sample at a time.

  tools/measure_drift.py WEFT [--samples N] [--change-every N] [--seeds FIRST:END] [--streams NAME,...]
                         [--detectors NAME,...] [--boost K,...] [--actions ACTION,...] [--jobs N]

A network of one hidden layer (32, tanh, momentum 0.01) learns the rows as they come. An alarm (level `change`) is right
when it is the first within half a task behind a change. Precision: right alarms of all; recall: changes that have one;
delay: samples from the change to it, in the mean. The column of hits lost is `adaptation.area` a change. One row a
stream, detector and action, over all seeds; each run on one thread. An action is what is done at a change: none,
`boost K`, `renew SHARE`, `swap initial`, `swap best`, or several joined by +. Columns of accuracy and hits lost have
standard deviations over the seeds.
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import tempfile

WIDTHS = {"sea": (3, 2, 0.1), "agrawal": (9, 2, 1), "led": (24, 10, 1), "hyperplane": (10, 2, 1)}
DETECTORS = ["adwin", "kswin", "page_hinkley", "ddm", "eddm", "hddm_a", "hddm_w"]
# Of agrawal's features, so that none drowns the others: from 0 to about 1.
AGRAWAL = [150e3, 75e3, 80, 4, 20, 8, 1.35e6, 30, 500e3]


def drift_of(detector, action):
    drift = {"detector": detector}
    for part in action.split("+"):
        name, *value = part.split()
        if name == "boost" and int(value[0]) > 1:
            drift.update(rate_boost=int(value[0]), boost_samples=100)
        elif name == "renew":
            drift["renew"] = float(value[0])
        elif name == "swap":
            drift["swap"] = value[0]
            if value[0] == "best":
                drift["swap_every"] = int(value[1]) if len(value) > 1 else 250
    return drift


def network(stream, detector, action, change_every):
    features, classes, scale = WIDTHS[stream]
    drift = drift_of(detector, action)
    return {"weft": 2, "grid": {"x": 2}, "inputs": {"x": [features]},
            "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 32, "activation": "tanh", "from": ["x"]},
                       {"at": [0, 0, 1, 0], "type": "dense", "out": classes}],
            "outputs": {"y": [0, 0, 1, 0]},
            "learning": {"rule": "backprop", "optimizer": {"type": "momentum", "lr": 0.01}, "drift": drift},
            "stream": {"csv": "-", "label": "class", "classes": [str(i) for i in range(classes)], "scale": scale,
                       "change_every": change_every}}


def rows(weft, stream, args, seed):
    made = subprocess.run([weft, "stream", stream, "--samples", str(args.samples), "--seed", str(seed),
                           "--change-every", str(args.change_every)], capture_output=True, text=True, check=True).stdout
    if stream != "agrawal":
        return made
    head, *lines = made.splitlines()
    scaled = [",".join([f"{float(v) / s:.6g}" for v, s in zip(line.split(","), AGRAWAL)] + [line.split(",")[-1]])
              for line in lines]
    return "\n".join([head, *scaled]) + "\n"


def run(weft, stream, detector, action, args, seed):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.json"
        path.write_text(json.dumps(network(stream, detector, action, args.change_every)))
        done = subprocess.run([weft, "run", str(path), "--data", "-", "--format", "csv", "--json", "--threads", "1", "--seed",
                               str(seed)], input=rows(weft, stream, args, seed), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout[-2000:] + done.stderr)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    alarms = [e["sample"] for e in events if e["event"] == "drift_seen" and e["level"] == "change"]
    overall = [e["overall_accuracy"] for e in events if e["event"] == "progress"][-1]
    return alarms, {**events[-1], "overall_accuracy": overall}


def judge(alarms, args):
    """Right alarms' delays, and the number of changes."""
    delays = []
    changes = range(args.change_every, args.samples, args.change_every)
    for change in changes:
        found = [a - change for a in alarms if change <= a < change + args.change_every // 2]
        delays += found[:1]
    return delays, len(changes)


def mean_sd(values, digits):
    spread = statistics.stdev(values) if len(values) > 1 else float("nan")
    return f"{statistics.mean(values):.{digits}f} ({spread:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--change-every", type=int, default=4000)
    parser.add_argument("--seeds", default="0:3")
    parser.add_argument("--streams", default="sea,agrawal,led,hyperplane")
    parser.add_argument("--detectors", default=",".join(DETECTORS))
    parser.add_argument("--boost", help="factors of the rates: actions `boost K`")
    parser.add_argument("--actions", default="none")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    actions = [f"boost {k}" for k in args.boost.split(",")] if args.boost else args.actions.split(",")
    first, end = map(int, args.seeds.split(":"))
    print("| stream | detector | at a change | precision | recall | F1 | delay | false alarms a run | accuracy | hits lost |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for stream in args.streams.split(","):
        for detector in args.detectors.split(","):
            for action in actions:
                all_delays, raised, changes, accuracy, area = [], 0, 0, [], []
                with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                    found = list(pool.map(lambda seed: run(args.weft, stream, detector, action, args, seed),
                                          range(first, end)))
                for alarms, done in found:
                    delays, count = judge(alarms, args)
                    all_delays += delays
                    raised += len(alarms)
                    changes += count
                    declared = [c for c in done["adaptation"]["changes"] if c["declared"]]
                    area.append(statistics.mean(c["area"] for c in declared))
                    accuracy.append(done["overall_accuracy"])
                right = len(all_delays)
                precision, recall = right / max(raised, 1), right / changes
                f1 = 2 * precision * recall / max(precision + recall, 1e-9)
                print(f"| {stream} | {detector} | {action} | {precision:.2f} | {recall:.2f} | {f1:.2f} | "
                      f"{statistics.mean(all_delays) if all_delays else float('nan'):.0f} | "
                      f"{(raised - right) / (end - first):.1f} | {mean_sd([100 * a for a in accuracy], 1)} % | "
                      f"{mean_sd(area, 0)} |", flush=True)


if __name__ == "__main__":
    main()
