#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/c.md do what it says.

  c_test.py SOURCE PROGRAM...      programs: c_xor, c_late, c_agent
"""
import re
import sys
import tempfile

from quoted_programs import quoted, run

source, *programs = sys.argv[1:]
PROGRAMS = quoted(source, "docs/c.md", "examples/c", "c_", programs)


def main():
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
