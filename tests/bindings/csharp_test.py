#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C# binding under Mono: the golden hash of digits, errors, files, agents, nonsense, builders, gradients,
environments, models, and the program of docs/csharp.md. Skipped (77), which ctest counts, without Mono's compiler and runtime or numpy.

  WEFT_LIBRARY=.../libweft.so csharp_test.py
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
SHARED = ROOT.parent / "shared/data/language"
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "tests/bindings")]
if not shutil.which("mcs") or not shutil.which("mono"):
    print("no mcs and mono here: Debian's mono-mcs, mono-runtime")
    sys.exit(77)
from python_test import digits_stream  # noqa: E402  (77 without numpy)

import weft  # noqa: E402


def late_hash():
    """The hash of what CsharpTest.Gradients does, through Python."""
    mesh = weft.Mesh({"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 16, "activation": "tanh"},
                                                                 {"type": "dense", "out": 2}]}, threads=1)
    learner = weft.Learner(mesh, rule="backprop", late="meet", patience=2)
    for i in range(12):
        ticket = learner.observe({"x": [i & 1, 1]})
        if i % 4 == 0:
            learner.teach(ticket, {}, gradients={"y": [0.25, -0.25]}, weights=[0.5])
        elif i % 4 == 1:
            learner.teach(ticket, {"y": [1]}, weights=[0.5])
        elif i % 4 == 2:
            learner.teach(ticket, {}, gradients={"y": [-1, 2]})
        else:
            learner.teach(ticket, {"y": [0]})
    return mesh.state_hash()


def trajectories():
    """Lines of CsharpTest.Worlds."""
    file = json.loads((ROOT / "tests/data/environment_trajectories.json").read_text())
    for name, rows in file["worlds"].items():
        for row in rows:
            yield (f"{name} {file['length']} {file['seed']} {','.join(map(str, row['observation']))} {row['reward']} "
                   f"{row['terminated']:d} {row['truncated']:d}\n")


model = []
if SHARED.exists():
    golden = json.loads((SHARED / "tinystories-656k-golden_greedy.json").read_text())
    begin = len(golden["prompt_ids"])
    lists = golden["prompt_ids"], golden["ids"][begin:begin + 30]
    model = [SHARED / "tinystories-656k", *(",".join(map(str, ids)) for ids in lists)]

x, y = digits_stream(300)
network = json.loads((ROOT / "examples/digits.json").read_text())
row = f"examples/digits.json --rule {network['learning']['rule']} --schedule {network['learning']['schedule']} --max-samples 300"
digest = json.loads((ROOT / "tests/data/golden_hashes.json").read_text())[row]
with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    (place / "samples.txt").write_text("".join(
        f"{label} {' '.join(format(value, '.9g') for value in values)}\n" for values, label in zip(x, y)))
    (place / "worlds.txt").write_text("".join(trajectories()))
    os.symlink(pathlib.Path(os.environ["WEFT_LIBRARY"]).resolve(), place / "libweft.so")
    # C# 7 is enough, and the core library alone: nothing that .NET Standard 2.0 lacks comes from elsewhere.
    for version in ("7", "7.2"):
        subprocess.run(["mcs", "-noconfig", "-warnaserror+", f"-langversion:{version}", "-target:library", f"-out:{place}/Weft.dll",
                        ROOT / "bindings/csharp/Weft.cs"], check=True)
    subprocess.run(["mcs", "-warnaserror+", "-langversion:7", f"-out:{place}/CsharpTest.exe",
                    ROOT / "bindings/csharp/Weft.cs", ROOT / "tests/bindings/CsharpTest.cs"], check=True)
    # And the program of docs/csharp.md.
    program = re.search(r"```csharp\n(.*?)```", (ROOT / "docs/csharp.md").read_text(), re.DOTALL)[1]
    using, rest = program.split("\n\n", 1)
    (place / "Program.cs").write_text(f"{using}\ninternal static class Program {{ private static void Main() {{\n{rest}}} }}\n")
    subprocess.run(["mcs", "-warnaserror+", "-langversion:7", f"-out:{place}/Program.exe", place / "Program.cs",
                    ROOT / "bindings/csharp/Weft.cs"], check=True)
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    subprocess.run(["mono", place / "CsharpTest.exe", ROOT / "examples/digits.json", place / "samples.txt", digest, folder,
                    place / "worlds.txt", late_hash(), *model], check=True, env={**os.environ, "LD_LIBRARY_PATH": path})
    done = subprocess.run(["mono", place / "Program.exe"], check=True, capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": path})
    assert done.stdout.strip() == "True", done.stdout
