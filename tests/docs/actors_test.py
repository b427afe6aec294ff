#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program of docs/actors.md: killed at several ticks and run again, it comes to the same state.

  actors_test.py PROGRAM SOURCE
"""
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

program, source = sys.argv[1:]


def run(*words, expected=0):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == expected, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def main():
    example = (pathlib.Path(source) / "examples/actors/gatekeeper.cpp").read_text()
    assert len(example.splitlines()) <= 60, "the example is to fit 60 lines"
    document = (pathlib.Path(source) / "docs/actors.md").read_text()
    assert "quote: examples/actors/gatekeeper.cpp" in document
    rows = (pathlib.Path(source) / "mesh/runtime/messages.def").read_text()
    for name, way in re.findall(r"^WEFT_MESSAGE\((\w+), (\w+),", rows, re.MULTILINE):
        assert re.search(rf"^\| `{name}` \| {way} \|", document, re.MULTILINE), f"docs/actors.md has no row for {name}"
    with tempfile.TemporaryDirectory() as folder:
        whole = run(folder + "/whole")
        assert re.fullmatch(r"shut [1-9]\d* times, state [0-9a-f]{32}\n", whole), whole
        assert whole == run(folder + "/whole"), "opened again it stands where it stood"
        # Once while a command is under way, and twice in one run.
        for times in ([29], [1], [150, 227], [299]):
            name = folder + "/" + "-".join(map(str, times))
            for tick in times:
                run(name, str(tick), expected=-signal.SIGKILL)
            assert run(name) == whole, times


main()
