#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/python.md print what it says, with the package out of a wheel. Skipped (77) without numpy.

  python_docs_test.py LIBRARY
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = re.compile(r"<!-- run: prints (.*?) -->\n```python\n(.*?)```", re.DOTALL)

try:
    import numpy  # noqa: F401
except ImportError:
    print("no numpy here")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    make = [sys.executable, "-B", ROOT / "bindings/python/make_wheel.py", sys.argv[1], folder]
    wheel = subprocess.run(make, check=True, capture_output=True, text=True).stdout.strip()
    zipfile.ZipFile(wheel).extractall(folder)
    environment = {key: value for key, value in os.environ.items() if key != "WEFT_LIBRARY"} | {"PYTHONPATH": folder}
    programs = PROGRAM.findall((ROOT / "docs/python.md").read_text())
    assert len(programs) == 4, len(programs)
    ten = ROOT / "examples/python/ten_lines.py"  # which the page quotes, and names in the two commands
    assert "build/python/bin/python examples/python/ten_lines.py" in (ROOT / "docs/python.md").read_text()
    text = ten.read_text().partition("\n\n")[2]
    assert len(text.splitlines()) == 10, text
    programs.append(("[0 1 1 0]", text))
    for printed, program in programs:
        done = subprocess.run([sys.executable, "-B", "-c", program], cwd=folder, env=environment, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0 and done.stdout.strip() == printed, f"{program}\n{done.stdout}{done.stderr}"
    print(f"{len(programs)} programs")
