#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures every learning rule on networks of every kind, at its defaults: held-out accuracy, and runs that halted.

  tools/measure_rules.py [--weft build/release/bin/weft] [--seeds 2] [--epochs 10] [--networks ...] [--rules ...]
                         [--schedules ...] [--option KEY=VALUE ...]

Networks: examples/digits.json with other activations and without its change of task; chains of 8 and 16 tanh layers;
the shipped CNN, transformer and GRU, of whose files backprop takes the rate. A halted run counts as 0 %. --option sets
an option of learning, for what is not the default.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RULES = ["backprop", "chain", "gap", "fw_dtp", "dfa", "dtp", "sdtp", "local_ce", "gap_difference", "chain_original",
         "gap_original"]
SCHEDULES = ["settle", "pipelined"]
ACTIVATIONS = ["tanh", "relu", "silu", "gelu", "linear"]


def digits(activation):
    network = json.loads((ROOT / "examples/digits.json").read_text())
    for layer in network["layers"]:
        if "activation" in layer:
            layer["activation"] = activation
    del network["stream"]["drift"]
    for key in ("step_limit", "optimizer"):  # what is measured are the defaults
        network["learning"].pop(key)
    return network


def deep(layers):
    network = digits("tanh")
    network |= {"name": f"deep_{layers}", "grid": {"x": layers}, "outputs": {"digit": [0, 0, layers - 1, 0]},
                "layers": [{"at": [0, 0, x, 0], "type": "dense", "out": 64, "activation": "tanh"}
                           for x in range(layers - 1)]}
    network["layers"].append({"at": [0, 0, layers - 1, 0], "type": "dense", "out": 10})
    return network


def networks():
    all_of = {f"digits_{activation}": digits(activation) for activation in ACTIVATIONS}
    all_of |= {f"deep_{layers}": deep(layers) for layers in (8, 16)}
    for name in ("digits_cnn", "digits_transformer", "digits_gru"):
        all_of[name] = json.loads((ROOT / f"examples/{name}.json").read_text())
    return all_of


def with_rule(network, rule, schedule, options):
    """The network with the rule in its file: the flag --rule would take the other options back to their defaults."""
    learning = dict(network["learning"])
    if rule != "backprop":
        learning.pop("optimizer", None)
    learning |= {"rule": rule, "schedule": schedule}
    for option in options:
        key, value = option.split("=")
        section = learning
        for part in key.split(".")[:-1]:
            section = section.setdefault(part, {})
        section[key.split(".")[-1]] = json.loads(value) if value[0] in "0123456789-[" or value in ("true", "false") else value
    return network | {"learning": learning}


def run(weft, network, seed, epochs):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(network, file)
        file.flush()
        return run_file(weft, file.name, seed, epochs)


def run_file(weft, file, seed, epochs):
    words = [weft, "run", file, "--json", "--seed", seed, "--epochs", epochs, "--threads", 1]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    accuracy = [event["held_out_accuracy"] for event in events if "held_out_accuracy" in event]
    if done.returncode == 0 and accuracy:
        return 100 * accuracy[-1], None
    return 0.0, next((each for each in ("update_not_finite", "output_not_finite") if each in done.stderr + done.stdout),
                     done.stderr.strip().splitlines()[-1] if done.stderr else f"exit {done.returncode}")


def main():
    made = networks()
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--weft", default=ROOT / "build/release/bin/weft")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--networks", nargs="+", default=list(made))
    parser.add_argument("--rules", nargs="+", default=RULES)
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES)
    parser.add_argument("--option", nargs="*", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    commit = subprocess.run(f"git -C '{ROOT}' describe --always --dirty", shell=True, capture_output=True, text=True,
                            check=False).stdout.strip()
    print(f"`tools/measure_rules.py`, commit {commit}, {arguments.seeds} seeds, {arguments.epochs} passes "
          f"{' '.join(arguments.option)}\n")
    print("| network | rule | schedule | held out, mean % | sd | lowest | halts |\n|---|---|---|---|---|---|---|")
    for name in arguments.networks:
        network = made[name]
        network["stream"]["csv"] = str(ROOT / "examples" / network["stream"]["csv"])
        for rule in arguments.rules:
            for schedule in arguments.schedules:
                own = with_rule(network, rule, schedule, arguments.option)
                done = [run(arguments.weft, own, seed, arguments.epochs) for seed in range(arguments.seeds)]
                accuracy = [each for each, _ in done]
                halts = [why for _, why in done if why]
                spread = statistics.stdev(accuracy) if len(accuracy) > 1 else 0.0
                print(f"| {name} | {rule} | {schedule} | {statistics.mean(accuracy):.1f} | {spread:.1f} | "
                      f"{min(accuracy):.1f} | {len(halts)}{' ' + halts[0] if halts else ''} |", flush=True)


if __name__ == "__main__":
    main()
