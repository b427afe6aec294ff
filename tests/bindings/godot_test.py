#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/godot in Debian's engine without a screen: a mesh of `weft serve` learns there to the hash that it has through
Python. Skipped (77), which ctest counts, without godot3-server or numpy.

  WEFT_LIBRARY=.../libweft.so godot_test.py WEFT
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
sys.path[:0] = [str(ROOT / "bindings/python")]
if not shutil.which("godot3-server"):
    print("no godot3-server here (Debian's package of that name)")
    sys.exit(77)
try:
    import weft
except ImportError as error:
    if "numpy" not in str(error):
        raise
    print(error)
    sys.exit(77)


def through_godot(program, folder):
    served = subprocess.Popen([program, "serve", "--json", "--port", "0", "--threads", "1"], stdout=subprocess.PIPE,
                              text=True)
    try:
        port = json.loads(served.stdout.readline())["listen"][0].rpartition(":")[2]
        return subprocess.run(["godot3-server", "--path", ROOT / "examples/godot", "-s", "xor.gd"], capture_output=True,
                              text=True, timeout=120, env={**os.environ, "HOME": folder, "WEFT_PORT": port})
    finally:
        served.kill()
        served.communicate()


def through_python():
    network = re.search(r"const NETWORK := (\{.*?\n\})\n", (ROOT / "examples/godot/xor.gd").read_text(), re.S)[1]
    mesh = weft.Mesh(json.loads(re.sub(r",(\s*\})", r"\1", network)), threads=1)
    learner = weft.Learner(mesh)
    for _ in range(500):
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
            learner.learn_one([a, b], a ^ b)
    return mesh.state_hash()


with tempfile.TemporaryDirectory() as home:
    done = through_godot(sys.argv[1], home)
assert done.returncode == 0, done.stdout + done.stderr
for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
    assert f"{a} xor {b} = {a ^ b}\n" in done.stdout, done.stdout
found = re.search(r"^state (\w{32})$", done.stdout, re.M)[1]
expected = through_python()
assert str(expected) == found, f"{expected} through Python, {found} through Godot"
print(f"through Godot and through Python: {found}")
