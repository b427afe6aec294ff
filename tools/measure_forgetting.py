#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what learning of one task after another leaves of the first ones, on MNIST: final accuracies as a table.

  tools/measure_forgetting.py DIR [--weft build/release/bin/weft] [--rows NAME ...] [--seeds FIRST:END]
                              [--keep FOLDER] [--set KEY=VALUE ...] [--select] [--list] [--threads N]
  tools/measure_forgetting.py --collect FOLDER

DIR holds the four IDX files of MNIST. Test images are measured after each task, and choose nothing. With --keep each
run writes its result to FOLDER as ROW-SEED.json, and --collect prints the table of what is there. --set changes an
option for a trial: "learning.replay.alpha=0.3", "stream.tasks.samples=1000", "width=100", "at_once=10". --select
measures with 5,000 of the training images, which are not learned from, instead of the test images.

Rows of split_ and turning: one pass, updates of 10 new samples, sgd, 784-100-100-10 relu (turning: 250 wide), after
Buzzega et al. 2020, arXiv:2004.07211; the numbers of stored samples in an update are ours. Rows of permuted_: ten tasks
of one pass each, domain-incremental, 784-1000-1000-10 relu, adamw without decay, updates of 64 new samples,
the network and the rate of van de Ven and Tolias 2019, arXiv:1904.07734.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPLIT = {"kind": "split", "count": 5, "scenario": "class"}
PERMUTED = {"kind": "permuted", "count": 10, "scenario": "domain", "measured": 2000}
TURNING = {"kind": "turning", "count": 1, "scenario": "class"}


def replay(method, capacity, samples, **more):
    return {"replay": {"method": method, "capacity": capacity, "samples": samples} | more}


def row(tasks, lr, goal=None, width=100, at_once=10, outputs=10, optimizer="sgd", seeds=20, **learning):
    optimizer = {"type": optimizer, "lr": lr}
    if optimizer["type"] == "adamw":
        optimizer["weight_decay"] = 0
    return {"tasks": tasks, "goal": goal, "width": width, "at_once": at_once, "outputs": outputs, "seeds": seeds,
            "learning": {"rule": "backprop", "optimizer": optimizer} | learning}


def rows():
    heads = {"loss": "multi_head_cross_entropy", "heads": [2] * 5}
    turning = {"seeds": 12, "outputs": 9, "width": 250}
    made = {
        "split_none": row(SPLIT, 0.03),
        "split_er_200": row(SPLIT, 0.02, 82, **replay("er", 200, 64)),
        "split_er_500": row(SPLIT, 0.05, 87, **replay("er", 500, 128)),
        "split_der_200": row(SPLIT, 0.03, 85, **replay("der++", 200, 64, alpha=0.2)),
        "split_der_500": row(SPLIT, 0.03, 90, **replay("der++", 500, 64, alpha=0.5)),
        "split_domain_none": row(SPLIT | {"scenario": "domain"}, 0.03, outputs=2),
        "split_domain_er_200": row(SPLIT | {"scenario": "domain"}, 0.02, outputs=2, **replay("er", 200, 64)),
        "split_task_none": row(SPLIT | {"scenario": "task"}, 0.03, **heads),
        "split_task_er_200": row(SPLIT | {"scenario": "task"}, 0.02, **heads, **replay("er", 200, 64)),
        "turning_none": row(TURNING, 0.1, **turning),
        "turning_er_500": row(TURNING, 0.15, 61, **turning, **replay("er", 500, 32)),
        "turning_er_1000": row(TURNING, 0.15, 75, **turning, **replay("er", 1000, 32)),
    }
    wide = {"width": 1000, "at_once": 64, "optimizer": "adamw", "seeds": 5}
    every = 60000 // 64  # updates of a task
    made |= {
        "permuted_none": row(PERMUTED, 1e-4, **wide),
        "permuted_er_500": row(PERMUTED, 1e-4, 83, **wide, **replay("er", 500, 64)),
        "permuted_ewc": row(PERMUTED, 1e-4, 85, **wide,
                            consolidation={"method": "ewc", "every": every, "strength": 30000}),
        "permuted_si": row(PERMUTED, 1e-4, 85, **wide,
                           consolidation={"method": "si", "every": every, "strength": 3000}),
        "permuted_lwf": row(PERMUTED, 1e-4, **wide, consolidation={"method": "lwf", "every": every}),
    }
    return made


def changed(made, settings):
    """The row with options of --set."""
    made = json.loads(json.dumps(made))
    for setting in settings:
        key, value = setting.split("=")
        path = key.replace("stream.tasks", "tasks").split(".")
        section = made
        for inner in path[:-1]:
            section = section.setdefault(inner, {})
        section[path[-1]] = json.loads(value) if value[0] in "0123456789-[tf" else value
    return made


def network_of(made, folder, selects):
    if made["width"] == 0:
        layers = []
    else:
        layers = [{"type": "dense", "out": made["width"], "activation": "relu", "init": "he"} for _ in range(2)]
    layers.append({"type": "dense", "out": made["outputs"]})
    return {"weft": 2, "inputs": {"pixels": [784]}, "chain": layers,
            "learning": {"learners": made["at_once"]} | made["learning"],
            "stream": {"csv": str(folder / "train-images-idx3-ubyte.gz"), "scale": 1 / 255, "tasks": made["tasks"],
                       **({"held_out": 1 / 12, "stratified": True, "split_seed": 0} if selects else
                          {"test": str(folder / "t10k-images-idx3-ubyte.gz")})}}


def run(weft, made, folder, seed, selects=False, threads=1):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(network_of(made, folder, selects), file)
        file.flush()
        words = [weft, "run", file.name, "--json", "--threads", threads, "--seed", seed]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-2000:] + done.stdout[-500:])
    last = json.loads(done.stdout.splitlines()[-1])
    return {"seed": seed, "state_hash": last["state_hash"]} | last["tasks"]


def spread(values, scale=100.0):
    if any(value is None for value in values):
        return "-"
    mean = scale * statistics.mean(values)
    deviation = scale * statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{mean:.2f} +- {deviation:.2f}"


def print_rows(results):
    made = rows()
    print("| row | scenario | seeds | ACC, % | goal | BWT | FWT | forgetting |\n|---|---|---|---|---|---|---|---|")
    for name, runs in results.items():
        of = {key: spread([one[key] for one in runs])
              for key in ("accuracy", "backward_transfer", "forward_transfer", "forgetting")}
        goal = made[name]["goal"] if name in made else None
        print(f"| {name} | {runs[0]['scenario']} | {len(runs)} | {of['accuracy']} | {goal or '-'} | "
              f"{of['backward_transfer']} | {of['forward_transfer']} | {of['forgetting']} |", flush=True)


def main():
    made = rows()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve(), nargs="?")
    parser.add_argument("--weft", default=ROOT / "build/release/bin/weft")
    parser.add_argument("--rows", nargs="+", default=list(made), choices=list(made))
    parser.add_argument("--seeds", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--collect", type=pathlib.Path)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--select", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(made))
        return
    results = {}
    if arguments.collect:
        for name in made:
            files = sorted(arguments.collect.rglob(f"{name}-*.json"), key=lambda file: int(file.stem.split("-")[-1]))
            if files:
                results[name] = [json.loads(file.read_text()) for file in files]
        print_rows(results)
        return
    for name in arguments.rows:
        asked = changed(made[name], arguments.set)
        first, end = map(int, arguments.seeds.split(":")) if arguments.seeds else (0, asked["seeds"])
        for seed in range(first, end):
            one = run(arguments.weft, asked, arguments.folder, seed, arguments.select, arguments.threads)
            results.setdefault(name, []).append(one)
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / f"{name}-{seed}.json").write_text(json.dumps(one))
    print_rows(results)


if __name__ == "__main__":
    main()
