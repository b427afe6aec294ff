#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Line coverage by folder, from what `cmake --workflow --preset coverage` left behind.

  tools/coverage.py [--build build/coverage] [--files]      --files: a row for each file, worst first
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

import rooms

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/coverage", type=pathlib.Path)
    parser.add_argument("--files", action="store_true")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()

    folders = list(rooms.existing())
    hit = collections.defaultdict(lambda: collections.defaultdict(int))  # file -> line -> times, over all programs
    data = sorted(arguments.build.rglob("*.gcda"))
    if not data:
        sys.exit(f"{arguments.build}: no .gcda files; run cmake --workflow --preset coverage first")
    for path in data:
        done = subprocess.run(["gcov", "--json-format", "--stdout", path], cwd=arguments.build, capture_output=True, check=True)
        for text in done.stdout.splitlines():
            for file in json.loads(text)["files"]:
                source = pathlib.Path(arguments.build, file["file"]).resolve()
                if source.is_relative_to(ROOT) and source.relative_to(ROOT).parts[0] in folders:
                    for line in file["lines"]:
                        hit[source.relative_to(ROOT)][line["line_number"]] += line["count"]

    groups = collections.defaultdict(list)
    for source, lines in hit.items():
        groups[source if arguments.files else source.parts[0]] += lines.values()
    groups["all"] = [count for lines in hit.values() for count in lines.values()]
    share = {name: sum(count > 0 for count in counts) / len(counts) for name, counts in groups.items() if counts}
    for name in sorted(share, key=lambda n: (n == "all", share[n] if arguments.files else 0, str(n))):
        print(f"{str(name):<48}{len(groups[name]):>7} lines{100 * share[name]:>8.1f} %")


if __name__ == "__main__":
    main()
