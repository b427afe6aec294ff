#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/c.md do what it says.

  c_test.py SOURCE PROGRAM...      programs: c_xor, c_late, c_agent
"""
import pathlib
import re
import subprocess
import sys
import tempfile

source, *programs = sys.argv[1:]
PROGRAMS = {pathlib.Path(program).name.removeprefix("c_"): program for program in programs}
DOCUMENT = (pathlib.Path(source) / "docs/c.md").read_text()


def run(program, *words, expected=0):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == expected, f"{program}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if expected == 0 else done.stderr


def main():
    for name in PROGRAMS:
        assert f"quote: examples/c/{name}.c" in DOCUMENT, f"docs/c.md does not quote {name}.c"
    learned = run(PROGRAMS["xor"])
    assert learned.startswith("0 xor 0 = 0\n0 xor 1 = 1\n1 xor 0 = 1\n1 xor 1 = 0\nstate "), learned
    assert learned == run(PROGRAMS["xor"])
    late = run(PROGRAMS["late"])
    assert re.fullmatch(r"100 of the last 100 answers were right; 2000 samples, 1997 trained\n", late), late
    with tempfile.TemporaryDirectory() as folder:
        seen = [run(PROGRAMS["agent"], folder + "/agent") for _ in range(3)]
        assert [text.split(",")[0] for text in seen] == ["1 samples", "2 samples", "3 samples"], seen
        assert len(set(seen)) == 3, seen
        refused = run(PROGRAMS["agent"], folder + "/no/such/parent", expected=1)
        assert "no/such" in refused, refused


main()
