#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures every learning rule on the digits: `weft run --json`, 5 seeds, 20 passes, held-out accuracy as a table.

  tools/measure_learning.py [--weft build/release/bin/weft] [--seeds 5] [--no-drift] [--dtypes]

--no-drift takes the change of task out of examples/digits.json. Nothing is tuned here: each rule runs at its defaults.
--dtypes measures every numeric type instead, trained through (`weft run --dtype`), by backprop and fw_dtp.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RULES = ["backprop", "dfa", "fw_dtp", "dtp", "sdtp", "local_ce", "chain", "gap"]
SCHEDULES = ["settle", "pipelined"]
DTYPES = ["float32", "float64", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "fp4", "int64", "int32", "int16", "int8", "int4",
          "int2", "uint64", "uint32", "uint16", "uint8", "uint4", "uint2", "ternary", "binary"]


def run(weft, network, rule, schedule, seed, *more):
    words = [weft, "run", network, "--json", "--rule", rule, "--schedule", schedule, "--seed", seed, "--epochs", 20, *more]
    out = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def measure_rules(arguments, network):
    print("| rule | schedule | held out, mean % | lowest | highest | recovery, mean samples |\n|---|---|---|---|---|---|")
    for rule in RULES:
        for schedule in SCHEDULES:
            done = [run(arguments.weft, network, rule, schedule, seed) for seed in range(arguments.seeds)]
            accuracy = [100 * d["held_out_accuracy"] for d in done]
            recovery = [d["recovery_samples"] for d in done if d["recovery_samples"] is not None]
            lasted = f"{statistics.mean(recovery):.0f}" if len(recovery) == len(done) else "-"
            print(f"| {rule} | {schedule} | {statistics.mean(accuracy):.1f} | {min(accuracy):.1f} | "
                  f"{max(accuracy):.1f} | {lasted} |", flush=True)


def measure_dtypes(arguments, network):
    print("| type | backprop, mean % | lowest | fw_dtp, mean % | lowest |\n|---|---|---|---|---|")
    for dtype in DTYPES:
        cells = []
        for rule, schedule in (("backprop", "settle"), ("fw_dtp", "pipelined")):
            done = [run(arguments.weft, network, rule, schedule, seed, "--dtype", dtype)
                    for seed in range(arguments.seeds)]
            accuracy = [100 * d["held_out_accuracy"] for d in done]
            cells += [f"{statistics.mean(accuracy):.1f}", f"{min(accuracy):.1f}"]
        print(f"| {dtype} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weft", default=ROOT / "build/release/bin/weft")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--no-drift", action="store_true")
    parser.add_argument("--dtypes", action="store_true")
    arguments = parser.parse_args()
    network = json.loads((ROOT / "examples/digits.json").read_text())
    network["stream"]["csv"] = str(ROOT / "examples" / network["stream"]["csv"])
    if arguments.no_drift:
        del network["stream"]["drift"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(network, file)
        file.flush()
        (measure_dtypes if arguments.dtypes else measure_rules)(arguments, file.name)


if __name__ == "__main__":
    main()
