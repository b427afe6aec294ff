#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures every learning rule on the digits: `weft run --json`, 5 seeds, 20 passes, held-out accuracy as a table.

  tools/measure_learning.py [--weft build/release/bin/weft] [--seeds 5] [--no-drift] [--dtypes]
                            [--depths 2 4 8 16 32 [--rules RULE ...] [--lr RATE]] [--memory] [--values]

--no-drift takes the change of task out of examples/digits.json. Nothing is tuned here: each rule runs at its defaults.
--dtypes measures every numeric type instead, trained through (`weft run --dtype`), by backprop and fw_dtp.
--depths measures chains of so many tanh layers of 64 instead, settled and pipelined, with each way to make up for late
gradients (`learning.delay_compensation`). --memory prints what learners of a chain of 16 layers of 512 take by each
rule, with the most bytes that such a run had resident, and whether local learning needs less than backprop. --values
measures activations and errors of narrow types instead, in all layers, and with --memory the history that they take.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RULES = ["backprop", "dfa", "fw_dtp", "dtp", "sdtp", "local_ce", "chain", "chain_original", "gap", "gap_difference",
         "gap_original"]
LOCAL = ["dfa", "local_ce"]  # whose errors do not travel from layer to layer
SCHEDULES = ["settle", "pipelined"]
DTYPES = ["float32", "float64", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "fp4", "int64", "int32", "int16", "int8", "int4",
          "int2", "uint64", "uint32", "uint16", "uint8", "uint4", "uint2", "ternary", "binary"]

# Activations and errors.
VALUES = [("float32", "float32"), ("bfloat16", "bfloat16"), ("fp8_e4m3", "fp8_e5m2"), ("int8", "int8")]


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


def chain(depth, width):
    layers = [{"type": "dense", "out": width, "activation": "tanh"} for _ in range(depth - 1)]
    return {"weft": 2, "inputs": {"pixels": [64]}, "chain": [*layers, {"type": "dense", "out": 10}]}


def measure_depths(arguments, stream):
    arms = [("settle", "none"), *(("pipelined", each) for each in ("none", "spike", "prediction", "both"))]
    print("| rule | depth |", " | ".join(" ".join(each for each in arm if each != "none") for arm in arms), "|")
    print("|---|---" + "|---" * len(arms) + "|")
    for rule in arguments.rules:
        for depth in arguments.depths:
            cells = []
            for schedule, compensation in arms:
                network = chain(depth, 64) | {"stream": stream | {"epochs": 20}}
                # In the file: the flag --rule would take the other options back to their defaults.
                network["learning"] = {"rule": rule, "schedule": schedule, "delay_compensation": compensation,
                                       "optimizer": {"type": "momentum", "lr": arguments.lr or 0}}
                with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                    json.dump(network, file)
                    file.flush()
                    accuracy = [accuracy_of(arguments.weft, file.name, seed) for seed in range(arguments.seeds)]
                lowest = f" ({min(accuracy):.1f})" if len(accuracy) > 1 else ""
                cells.append(f"{statistics.mean(accuracy):.1f}{lowest}")
            print(f"| {rule} | {depth} | {' | '.join(cells)} |", flush=True)


def accuracy_of(weft, network, seed):
    """Held out, in %; 0 where the run halted."""
    words = [weft, "run", network, "--json", "--seed", seed, "--threads", 1]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    last = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    return 100 * last.get("held_out_accuracy", 0.0)


def peak(weft, file):
    """Bytes of resident memory that a run took at most."""
    measured = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    words = [weft, "run", file, "--json", "--threads", "1", "--max-samples", "200", "--held-out", "0"]
    made = subprocess.run(["python3", "-c", measured, *map(str, words)], capture_output=True, text=True, check=True)
    return 1024 * int(made.stdout.split()[-1])


def in_values(network, outputs, errors):
    """The same network, whose activations and errors have other types."""
    made = json.loads(json.dumps(network))
    for layer in made.get("layers", made.get("chain")):
        layer |= {"activation_dtype": outputs, "gradient_dtype": errors}
    return made


def measure_values(arguments, network):
    names = [outputs if outputs == errors else f"{outputs}, {errors}" for outputs, errors in VALUES]
    print("| rule | schedule |", " | ".join(names), "|\n|---|---" + "|---" * len(names) + "|")
    for rule in arguments.rules:
        for schedule in SCHEDULES:
            cells = []
            for outputs, errors in VALUES:
                with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                    json.dump(in_values(network, outputs, errors), file)
                    file.flush()
                    done = [run(arguments.weft, file.name, rule, schedule, seed, "--threads", 1)
                            for seed in range(arguments.seeds)]
                accuracy = [100 * d["held_out_accuracy"] for d in done]
                cells.append(f"{statistics.mean(accuracy):.1f} ({min(accuracy):.1f})")
            print(f"| {rule} | {schedule} | {' | '.join(cells)} |", flush=True)


def measure_value_memory(arguments, stream):
    print("| schedule | activations | history, MiB | resident, at most, MiB |\n|---|---|---|---|")
    for schedule in SCHEDULES:
        for outputs, errors in VALUES:
            network = chain(16, 512) | {"learning": {"schedule": schedule}, "stream": stream}
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(in_values(network, outputs, errors), file)
                file.flush()
                shown = subprocess.run([str(arguments.weft), "inspect", "--json", file.name], capture_output=True,
                                       text=True, check=True)
                history = json.loads(shown.stdout)["memory"]["learn"]["history"] / 2**20
                print(f"| {schedule} | {outputs} | {history:.3f} | {peak(arguments.weft, file.name) / 2**20:.1f} |",
                      flush=True)


def measure_memory(arguments, stream):
    parts = ["history", "messages", "optimizer", "feedback weights", "samples", "total"]
    print("| rule | schedule |", ", MiB | ".join(parts) + ", MiB | resident, at most, bytes |")
    print("|---|---" + "|---" * (len(parts) + 1) + "|")
    most = {}
    for rule in arguments.rules:
        for schedule in SCHEDULES:
            network = chain(16, 512) | {"learning": {"rule": rule, "schedule": schedule}, "stream": stream}
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(network, file)
                file.flush()
                shown = subprocess.run([str(arguments.weft), "inspect", "--json", file.name], capture_output=True,
                                       text=True, check=True)
                learn = json.loads(shown.stdout)["memory"]["learn"]
                cells = [f"{learn.get(part, 0) / 2**20:.2f}" for part in parts]
                most[rule, schedule] = peak(arguments.weft, file.name)
                print(f"| {rule} | {schedule} | {' | '.join(cells)} | {most[rule, schedule]} |", flush=True)
    for schedule in SCHEDULES:
        if ("backprop", schedule) not in most:
            continue
        for rule in (each for each in LOCAL if (each, schedule) in most):
            share = most[rule, schedule] / most["backprop", schedule]
            print(f"{schedule}: {rule} needs less memory than backprop: {str(share < 1).lower()} ({share:.3f} of it)")


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
    parser.add_argument("--depths", nargs="+", type=int)
    parser.add_argument("--rules", nargs="+", default=RULES, choices=RULES)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--values", action="store_true")
    arguments = parser.parse_args()
    network = json.loads((ROOT / "examples/digits.json").read_text())
    network["stream"]["csv"] = str(ROOT / "examples" / network["stream"]["csv"])
    if arguments.no_drift or arguments.depths or arguments.memory or arguments.values:
        del network["stream"]["drift"]
    if arguments.depths:
        return measure_depths(arguments, network["stream"])
    if arguments.values:
        return (measure_value_memory(arguments, network["stream"]) if arguments.memory
                else measure_values(arguments, network))
    if arguments.memory:
        return measure_memory(arguments, network["stream"])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(network, file)
        file.flush()
        (measure_dtypes if arguments.dtypes else measure_rules)(arguments, file.name)


if __name__ == "__main__":
    main()
