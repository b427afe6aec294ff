#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All layers and numeric types through C, Python, C# and JavaScript: each replays what the native program did (conformance_rows.py),
and ends in its state; a quarter of the rows in turn (WEFT_TEST_SLICE), or all (WEFT_TEST_FULL=1). A language that is not here is left out and named. Skipped (77) without numpy.

  WEFT_LIBRARY=.../libweft.so conformance_test.py CONFORMANCE_TESTS CAPI_TESTS [NPM_PACKAGE]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/bindings")]
from conformance_rows import write_lines, write_rows  # noqa: E402
from replay_rows import count_mismatches  # noqa: E402


def count_of(output):
    """Rows and mismatches that a program tells."""
    return tuple(map(int, re.search(r"(\d+) rows, (\d+) mismatches", output).groups()))


def through_csharp(rows, folder):
    """The same by Mono."""
    write_lines(rows, folder / "rows.txt")
    os.symlink(pathlib.Path(os.environ["WEFT_LIBRARY"]).resolve(), folder / "libweft.so")
    subprocess.run(["mcs", "-warnaserror+", "-langversion:7", f"-out:{folder}/Replay.exe",
                    ROOT / "bindings/csharp/Weft.cs", ROOT / "tests/bindings/CsharpConformance.cs"], check=True)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return subprocess.run(["mono", folder / "Replay.exe", folder / "rows.txt"], check=False, capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": path}).stdout


def through_javascript(package, rows, module):
    """The same in node, in the package's module with vectors or the one without."""
    done = subprocess.run(["node", ROOT / "tests/bindings/web_conformance.mjs", package, rows, module], check=False,
                          capture_output=True, text=True)
    sys.stderr.write(done.stderr[:4000])
    return done.stdout


program, c_program, package = *sys.argv[1:3], pathlib.Path(*sys.argv[3:])
with tempfile.TemporaryDirectory() as place:
    folder = pathlib.Path(place)
    layers = write_rows(program, folder / "rows")
    lines = (folder / "rows").read_text().splitlines(keepends=True)
    assert len(lines) > 1000, len(lines)
    if os.environ.get("WEFT_TEST_FULL") != "1":  # a quarter of them, in turn
        lines = lines[int(os.environ.get("WEFT_TEST_SLICE") or 0) % 4::4]
        (folder / "rows").write_text("".join(lines))
    rows = [json.loads(line) for line in lines]
    dtypes = {row["name"].split()[2] for row in rows}
    assert len(dtypes) == 21, sorted(dtypes)
    counts = {"Python": (len(rows), count_mismatches(rows))}
    told = subprocess.run([c_program, "--gtest_filter=CConformance.*"], check=False, capture_output=True, text=True,
                          env={**os.environ, "WEFT_CONFORMANCE_ROWS": str(folder / "rows")}).stdout
    counts["C"] = count_of(told)
    if shutil.which("mcs") and shutil.which("mono"):
        counts["C#"] = count_of(through_csharp(rows, folder))
    else:
        print("C#: no mcs and mono here")
    if shutil.which("node") and (package / "weft_simd.wasm").exists():
        for module in ("simd", "scalar"):
            counts[f"JavaScript, {module}"] = count_of(through_javascript(package, folder / "rows", module))
    else:
        print("JavaScript: no node, or no package (tools/build_web.sh)")
for language, (count, mismatches) in counts.items():
    print(f"{language}: {layers} layers, {len(dtypes)} types, {count} rows, {mismatches} mismatches")
assert all(count == (len(rows), 0) for count in counts.values()), counts
