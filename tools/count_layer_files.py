#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the files that a layer type needs: those of the program that make or declare it, and its tests.

Usage: count_layer_files.py [--list NAME]   (fails where a layer needs other files than CONTRIBUTING.md says)

Of the program: the .hpp and the .cpp that hold make_<type> and declare_<type>, and its row in mesh/layers/layers.def. Of the
tests: its rows in tests/conformance/layers.json; mesh.layers fails where a layer has neither values of PyTorch in
tests/data/layers nor a model in tests/mesh/layers_test.cpp. Not counted: layers that are built of it
(mesh/layers/parallel.cpp makes an identity), and readers of foreign files that write its name as they write any other.
"""
import json
import pathlib
import re
import sys

import rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 3
USES = {"identity": {"mesh/layers/parallel.cpp"}}


def main():
    wanted = sys.argv[sys.argv.index("--list") + 1] if "--list" in sys.argv else None
    types = re.findall(r"^WEFT_LAYER\((\w+),", (ROOT / "mesh/layers/layers.def").read_text(), re.MULTILINE)
    texts = [(str(path), text) for path, text in rooms.sources()]
    conformance = json.loads((ROOT / "tests/conformance/layers.json").read_text())
    failures = [] if types else ["mesh/layers/layers.def has no rows"]
    for layer in types:
        name = re.compile(rf"\b(?:make|declare)_{layer}\b|^WEFT_LAYER\({layer},", re.MULTILINE)
        found = {path for path, text in texts if name.search(text)} - USES.get(layer, set())
        if layer == wanted:
            golden = f"tests/data/layers/{layer}.json"
            reference = golden if (ROOT / golden).exists() else "tests/mesh/layers_test.cpp"
            print("\n".join([*sorted(found), reference, "tests/conformance/layers.json"]))
        if len(found) > MOST:
            failures.append(f"{layer} is known to {len(found)} files, more than {MOST}: {', '.join(sorted(found))}")
        if not any(path.endswith(".cpp") and re.search(rf"\bdeclare_{layer}\(\) \{{", text) for path, text in texts):
            failures.append(f"{layer}: no declare_{layer}")
        if layer not in conformance:
            failures.append(f"{layer} has no rows in tests/conformance/layers.json")
    print("\n".join(failures) or f"{len(types)} layers, each in {MOST} files of the program and 2 tables of tests")
    return 1 if failures else 0


sys.exit(main())
