#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sheet of 1,000,000 cells of docs/formats/network.md, as it stands there, ticks within the memory that it names.

  million_cells_test.py WEFT
It learns two samples, with keys of learning and a stream added and nothing else changed. Memory is bounded by a limit
on address space and by the peak of resident memory; time is not.
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIB = 1 << 30
ADDRESSES = 8 * GIB  # estimates are compared with what is left of them
RESIDENT = 4.5 * GIB  # the page says about 4
CELLS = 1_000_000


def sheet():
    page = (ROOT / "docs/formats/network.md").read_text()
    found = re.findall(r'^    \{"weft": 2, "name": "sheet".*?\}\}$', page, re.DOTALL | re.MULTILINE)
    if len(found) != 1 or "1,000,000 cells; they take about 4 GiB" not in page:
        sys.exit("docs/formats/network.md: its sheet of 1,000,000 cells, or the memory that it takes, is not there")
    return json.loads(found[0])


def available():
    return int(re.search(r"^MemAvailable: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE)[1]) * 1024


def peak(command, folder):
    """The stdout of a program that must succeed, and its peak of resident bytes."""
    with open(f"{folder}/out", "w+") as out, open(f"{folder}/err", "w+") as err:
        child = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if child.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {child.returncode}\n{out.read()}{err.read()}")
        return out.read(), usage.ru_maxrss * 1024


def main():
    if available() < RESIDENT:
        print(f"{available() / GIB:.1f} GiB of memory are available, {RESIDENT / GIB} are needed")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    network = sheet()
    network["learning"] = {"rule": "backprop", "schedule": "pipelined", "horizon": 1}
    network["stream"] = {"csv": "data.csv", "input": "drive", "output": "corner", "held_out": 0}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "data.csv").write_text("0.5,0\n0.25,0\n")
        pathlib.Path(folder, "sheet.json").write_text(json.dumps(network))
        out, resident = peak([sys.argv[1], "run", "sheet.json", "--threads", "1", "--max-samples", "2", "--json", "--quiet"], folder)
    done = json.loads(out.splitlines()[-1])
    if done["event"] != "done" or done["samples"] != 2 or done["ticks"] < 2:
        sys.exit(f"not two samples, a tick or more for each: {done}")
    if resident > RESIDENT:
        sys.exit(f"{resident / GIB:.2f} GiB resident, at most {RESIDENT / GIB} for {CELLS:,} cells")
    print(f"{CELLS:,} cells, {done['ticks']} ticks, {resident / GIB:.2f} GiB resident")


if __name__ == "__main__":
    main()
