#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""State hashes of the shipped examples by rule, schedule, type and device, against tests/data/golden_hashes.json.

  golden_hashes_test.py WEFT                 checks; a row that differs names its command
  golden_hashes_test.py WEFT --write FILE    runs the rows of the file and writes what they give (a new row: an empty value)

A row is the arguments of `weft run`, or `hash` and those of `weft hash` (weights as a network's seed draws them). Its value
is the state hash, or "halted: REASON" where the run ends with a fault. The device's rows are compared with the CPU's values
of the same arguments: skipped, and counted, without a Vulkan device. The first values were written by commit 7fd07c9.
A check takes every eighth row, in turn (WEFT_TEST_SLICE), or all (WEFT_TEST_FULL=1).
"""
import json
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/data/golden_hashes.json"
TURNS = 8


def run(weft, arguments):
    words = arguments.split()
    command = [weft, *(words if words[0] == "hash" else ["run", *words]), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    hashes = [event["state_hash"] for event in events if "state_hash" in event]
    if done.returncode == 0 and hashes:
        return hashes[-1]
    for reason in ("update_not_finite", "output_not_finite"):
        if reason in done.stderr + done.stdout:
            return "halted: " + reason
    return f"exit {done.returncode}: {done.stderr.strip()[-200:]}"


def has_device(weft):
    probe = subprocess.run([weft, "run", "examples/digits.json", "--device", "vulkan", "--max-samples", "1"], cwd=ROOT,
                           capture_output=True, text=True, check=False)
    return probe.returncode == 0


def main():
    weft = sys.argv[1]
    rows = json.loads(TABLE.read_text())
    writes = "--write" in sys.argv
    if not writes and os.environ.get("WEFT_TEST_FULL") != "1":
        turn = int(os.environ.get("WEFT_TEST_SLICE") or 0) % TURNS
        rows = dict(list(rows.items())[turn::TURNS])
    work = dict(rows)
    skipped = 0
    device = [row for row in rows if "--on-device" in row]
    if device and not has_device(weft):
        skipped = len(device)
        work = {row: value for row, value in rows.items() if row not in device}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(work, pool.map(lambda row: run(weft, row.replace("--on-device", "--device vulkan")), work)))
    if writes:
        pathlib.Path(sys.argv[sys.argv.index("--write") + 1]).write_text(json.dumps(rows | found, indent=1) + "\n")
        return 0
    wrong = [row for row, value in work.items() if found[row] != value]
    for row in wrong:
        print(f"weft {'' if row.startswith('hash ') else 'run '}{row}\n  expected {work[row]}\n  found    {found[row]}")
    print(f"golden hashes: {len(work) - len(wrong)} of {len(work)} equal, {skipped} skipped (no Vulkan device)")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
