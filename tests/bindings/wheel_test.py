#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed by pip into an environment of its own without a network: weft learns, welvet is there, and it is
removed again. Skipped (77) without numpy or python3-venv.

  wheel_test.py LIBRARY
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
import pathlib, sys
import numpy as np
import weft, welvet
assert str(pathlib.Path(weft.__file__)).startswith(sys.prefix), weft.__file__
mesh = weft.Mesh(weft.Network.chain(2, [{"type": "dense", "out": 2}]), threads=1)
learner = weft.Learner(mesh)
learner.learn_one([1, 0], 1)
network = welvet.Network.deserialize_entity(mesh.to_bytes(live=False))
assert network.forward_polymorphic([1.0, 0.0], [2]) == mesh.forward({"x": [[1, 0]]})["y"][0].tolist()
print(weft.__version__)
"""
try:
    import ensurepip  # noqa: F401
    import numpy  # noqa: F401
    import venv  # noqa: F401
except ImportError as missing:
    print(f"{missing}: python3-venv and python3-numpy are needed")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)

    environment = {key: value for key, value in os.environ.items() if key not in ("WEFT_LIBRARY", "PYTHONPATH")}

    def run(*words):
        return subprocess.run(words, check=True, capture_output=True, text=True, cwd=folder, env=environment).stdout.strip()

    wheel = run(sys.executable, "-B", ROOT / "bindings/python/make_wheel.py", pathlib.Path(sys.argv[1]).resolve(), place / "wheels")
    run(sys.executable, "-m", "venv", "--system-site-packages", place / "env")  # numpy is the system's
    python = place / "env/bin/python"
    run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    version = run(python, "-c", PROGRAM)
    assert f"weft-{version}-" in wheel, (version, wheel)
    run(python, "-m", "pip", "uninstall", "-y", "weft")
    gone = subprocess.run([python, "-c", "import weft"], capture_output=True, cwd=folder, env=environment, check=False)
    assert gone.returncode != 0
    print(f"{pathlib.Path(wheel).name}: installed, used and removed")
