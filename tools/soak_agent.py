#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long run of an agent: memory, descriptors and disk must not grow, and checkpoints must not hold it up.

  soak_agent.py build/release/bin/weft [--samples N] [--every N] [--durability D]

Prints what it measured and a verdict; exit code 1 where something grew. Times depend on the machine and are no part of
the verdict.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RSS_SLACK = 0.02
SETTLED = 0.1  # of the run: until then it may grow


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError  # a zombie has none


def disk_bytes(folder):
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                pass  # pruned meanwhile
    return total


def look(pid, directory):
    return resident_kib(pid), len(os.listdir(f"/proc/{pid}/fd")), disk_bytes(directory)


def run(arguments, directory, out):
    command = [arguments.weft, "run", ROOT / "examples/digits.json", "--json", "--quiet", "--epochs", "1000000",
               "--max-samples", str(arguments.samples), "--state", directory, "--durability", arguments.durability,
               "--checkpoint-every", str(arguments.every)]
    process = subprocess.Popen(command, stdout=out)
    looks = []
    while process.poll() is None:
        try:
            looks.append((time.monotonic(), *look(process.pid, directory)))
        except (ProcessLookupError, FileNotFoundError):
            pass
        time.sleep(arguments.interval)
    if process.returncode != 0:
        sys.exit(f"weft run: exit {process.returncode}")
    return looks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=10_000)
    parser.add_argument("--durability", default="interval=2s")
    parser.add_argument("--interval", type=float, default=0.5, help="seconds between two looks")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        directory, events_path = os.path.join(folder, "agent"), os.path.join(folder, "events")
        with open(events_path, "wb") as out:
            looks = run(arguments, directory, out)
        events = [json.loads(line) for line in open(events_path, encoding="utf-8")]
    if len(looks) < 10:
        sys.exit(f"only {len(looks)} looks at it: give more --samples or a shorter --interval")
    # The first tenth of the looks: caches and buffers fill. The last look may be of the end, with its evaluation.
    settled = looks[max(1, int(len(looks) * SETTLED)):-1]
    rss, descriptors, disk = ([look[i] for look in settled] for i in (1, 2, 3))
    middle = statistics.median(rss)
    spread = max(abs(value - middle) for value in rss) / middle
    thirds = [rss[i * len(rss) // 3:(i + 1) * len(rss) // 3] for i in range(3)]
    checkpoints = [e for e in events if e["event"] == "checkpoint"]
    pauses, writing = ([e[key] for e in checkpoints] for key in ("pause_seconds", "writing_seconds"))
    # Three checkpoints, a journal since the oldest of them, and the segments that are being filled.
    half = len(disk) // 2
    grows = max(disk[half:]) > 1.5 * max(disk[:half])
    done = events[-1]
    print(f"samples      {done['samples']:,} at {done['ticks_per_second']:,.0f} ticks/s, state {done['state_hash']}")
    print(f"memory       {middle / 1024:.1f} MiB, within {100 * spread:.2f} % over {len(rss)} looks")
    print(f"             {min(rss) / 1024:.1f} to {max(rss) / 1024:.1f} MiB; thirds "
          + ", ".join(f"{statistics.median(third) / 1024:.1f}" for third in thirds))
    print(f"descriptors  {min(descriptors)} to {max(descriptors)}")
    print(f"disk         at most {max(disk) / 2**20:.1f} MiB")
    print(f"checkpoints  {len(checkpoints)}; pause median {1e3 * statistics.median(pauses):.3f} ms, longest "
          f"{1e3 * max(pauses):.3f} ms; written in {1e3 * statistics.median(writing):.1f} ms (median)")
    faults = []
    if spread > RSS_SLACK:
        faults.append("memory is not flat")
    # A file being written or a directory being synced is open for a moment.
    if max(descriptors) - min(descriptors) > 3:
        faults.append("descriptors leak")
    if grows:
        faults.append("disk use grows")
    print("verdict      " + ("; ".join(faults) or "flat"))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
