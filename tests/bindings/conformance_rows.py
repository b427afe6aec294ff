# SPDX-License-Identifier: Apache-2.0
"""Conformance rows for other languages: each layer of tests/conformance/layers.json in each numeric type, written by the
native program: {name, network, learning (absent: ticks alone), x, labels, hash}, a line of JSON each.

  conformance_rows.py CONFORMANCE_TESTS FILE      writes them all; for those who read the file themselves
  conformance_rows.py --lines FILE LINES          rows of a file as lines of text, for C#
"""
import concurrent.futures
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_rows(program, path):
    """All rows into one file, in the order of layers.json."""
    layers = list(json.loads((ROOT / "tests/conformance/layers.json").read_text()))

    def lines_of(layer):
        with tempfile.TemporaryDirectory() as folder:
            part = pathlib.Path(folder) / "rows"
            subprocess.run([program, "--gtest_filter=Conformance.WritesRowsForOtherLanguages"], check=True,
                           stdout=subprocess.DEVNULL,
                           env={**os.environ, "WEFT_CONFORMANCE_LAYER": layer, "WEFT_CONFORMANCE_ROWS": str(part)})
            return part.read_text()

    with concurrent.futures.ThreadPoolExecutor(2) as pool, open(path, "w") as file:
        for text in pool.map(lines_of, layers):
            assert text.count("\n") > 0
            file.write(text)
    return len(layers)


def write_lines(rows, path):
    """Six lines of text a row, for class libraries without JSON: name, network, learning or nothing, x as bits, labels,
    hash."""
    lines = []
    for row in rows:
        bits = [struct.unpack("<I", struct.pack("<f", value))[0] for value in row["x"]]
        lines += [row["name"], json.dumps(row["network"]), json.dumps(row["learning"]) if "learning" in row else "",
                  " ".join(map(str, bits)), " ".join(map(str, row["labels"])), row["hash"]]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--lines":
        write_lines(map(json.loads, pathlib.Path(sys.argv[2]).read_text().splitlines()), sys.argv[3])
    else:
        write_rows(sys.argv[1], sys.argv[2])
