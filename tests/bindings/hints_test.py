#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Type hints of the Python package pass mypy, every function has them, and every public one a docstring. Without mypy
(Debian: mypy) only docstrings are looked at, and the test counts as skipped (77).
"""
import ast
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings/python/weft"


def without_docstring(path):
    """Public functions and classes of a module's public classes, and its own, that say nothing."""
    def visit(node, prefix):
        for child in node.body:
            if not isinstance(child, (ast.FunctionDef, ast.ClassDef)) or child.name.startswith("_"):
                continue
            if not ast.get_docstring(child):
                yield f"{path.name}: {prefix}{child.name}"
            if isinstance(child, ast.ClassDef):
                yield from visit(child, child.name + ".")

    return list(visit(ast.parse(path.read_text()), ""))


found = [name for path in sorted(PACKAGE.glob("*.py")) if not path.name.startswith("_") for name in without_docstring(path)]
assert not found, f"without a docstring: {found}"
if not shutil.which("mypy"):
    print("no mypy here")
    sys.exit(77)
# As the oldest Python that the package says it runs on: what that knows, later ones do. numpy's own hints take mypy a
# minute on a slow machine, so once.
oldest = re.search(r'^requires-python = ">=(3\.\d+)"$', (PACKAGE.parent / "pyproject.toml").read_text(), re.M)[1]
done = subprocess.run(["mypy", "--ignore-missing-imports", "--disallow-untyped-defs", "--cache-dir=/dev/null",
                       f"--python-version={oldest}", PACKAGE], check=False)
sys.exit(done.returncode)
