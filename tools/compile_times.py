#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time that a build took, by kind of file, and the files that take too long; read from ninja's log, so of the last time that
each was built there. What ccache kept shows as nothing: build with CCACHE_DISABLE=1 to measure.

  tools/compile_times.py [BUILD]   BUILD: build/release. Ends with status 1 when a file took over 15 s, one of tests over
                                   10 s, or a batch of files (WEFT_UNITY) over 30 s
"""
import collections
import pathlib
import re
import sys

FILE_LIMIT, TEST_LIMIT, BATCH_LIMIT = 15.0, 10.0, 30.0
ROOT = pathlib.Path(__file__).resolve().parents[1]
OBJECT = re.compile(r"(?:^|/)CMakeFiles/([^/]+)\.dir/(.+)\.o$")


def read(log):
    """Seconds by output, of the last time that it was made."""
    seconds = {}
    for line in log.read_text().splitlines():
        if not line.startswith("#"):
            begin, end, _, output, _ = line.split("\t")
            seconds[output] = (int(end) - int(begin)) / 1000
    return seconds


def kind(output):
    found = OBJECT.search(output)
    if not found:
        return "shaders" if "shaders/" in output else "libraries and links"
    target, source = found.groups()
    if "cmake_pch" in source:
        return "precompiled headers"
    if target.endswith("_headers"):
        return "headers alone"
    if target.endswith(("_tests", "_test", "_testing")) or output.startswith("tests/"):
        return "tests"
    if source.startswith("Unity/"):
        return "cli" if target == "weft" else target.removeprefix("weft_").partition("-")[0]
    return "examples" if output.startswith("examples/") else source.partition("/")[0]


def limit(output):
    if "/Unity/" in output:
        return BATCH_LIMIT
    return TEST_LIMIT if kind(output) == "tests" else FILE_LIMIT


def main(build):
    seconds = read(build / ".ninja_log")
    kinds = collections.defaultdict(list)
    for output, took in seconds.items():
        kinds[kind(output)].append(took)
    print(f"{'':20} {'files':>5} {'seconds':>8} {'longest':>8}")
    for name, took in sorted(kinds.items(), key=lambda item: -sum(item[1])):
        print(f"{name:20} {len(took):5} {sum(took):8.1f} {max(took):8.1f}")
    print(f"{'all':20} {len(seconds):5} {sum(seconds.values()):8.1f}")
    slow = [(took, output) for output, took in seconds.items()
            if OBJECT.search(output) and took > limit(output)]
    for took, name in sorted(slow, reverse=True):
        print(f"too long: {took:5.1f} s  {name}")
    return bool(slow)


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else ROOT / "build/release"))
