#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conformance rows (conformance_rows.py) through the Python package: how many, and how many end in another state.

  WEFT_LIBRARY=.../libweft.so replay_rows.py FILE
"""
import json
import pathlib
import sys

from package import np, weft


def replay(row):
    """The state in which a row ends through Python."""
    mesh = weft.Mesh(row["network"], threads=1)
    x = np.array(row["x"], np.float32)
    if "learning" not in row:
        mesh.run({"x": x.reshape(-1, mesh.description["inputs"][0]["width"])})
        return mesh.state_hash()
    with weft.Learner(mesh, **row["learning"]) as learner:
        learner.learn({"x": x.reshape(len(row["labels"]), -1)}, {"y": row["labels"]})
        learner.drain()
        return mesh.state_hash()


def count_mismatches(rows):
    mismatches = 0
    for row in rows:
        found = replay(row)
        if found != row["hash"]:
            mismatches += 1
            print(f"{row['name']}: {found}, native {row['hash']}", file=sys.stderr)
    return mismatches


if __name__ == "__main__":
    given = [json.loads(line) for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
    wrong = count_mismatches(given)
    print(f"{len(given)} rows, {wrong} mismatches")
    sys.exit(1 if wrong or not given else 0)
