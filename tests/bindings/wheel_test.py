#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed by pip into an environment of its own without a network: weft learns, welvet is there, and it is
removed again; the one that brings what the library needs takes it from there. docs/python.md and make_wheel.py name all of
that. Skipped (77) without numpy or python3-venv.

  wheel_test.py LIBRARY
"""
import os
import pathlib
import re
import shutil
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
NEEDS = {"tbb": "oneTBB", "hwloc": "hwloc", "spdlog": "spdlog", "fmt": "fmt", "zstd": "zstd", "z": "zlib",
         "xxhash": "xxhash", "icui18n": "ICU", "icuuc": "ICU", "icudata": "ICU"}


def check_needs(library):
    """Libraries that it is linked with, but for the compiler's and libc's, stand in both lists, and nothing else does."""
    told = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    linked = set(re.findall(r"\(NEEDED\).*\[lib([a-z0-9_]*)[-.].*\]", told.replace("libtbb12", "libtbb")))
    others = linked - {"c", "m", "stdc++", "gcc_s", "pthread", "dl"} - NEEDS.keys()
    assert not others, f"{library} needs {sorted(others)} too: name it in docs/python.md and make_wheel.py"
    wanted = {NEEDS[name] for name in linked & NEEDS.keys()}
    for file, pattern in (("docs/python.md", r"what that needs: ([^.]*?),[^,.]*packages"),
                          ("bindings/python/make_wheel.py", r"own needs \((.*?)\)")):
        text = " ".join((ROOT / file).read_text().split())
        named = {name.removesuffix(" 72") for name in re.split(r", | and ", re.search(pattern, text)[1])}
        assert named == wanted, f"{file} names {sorted(named)}, {library} needs {sorted(wanted)}"


try:
    import ensurepip  # noqa: F401
    import numpy  # noqa: F401
    import venv  # noqa: F401
except ImportError as missing:
    print(f"{missing}: python3-venv and python3-numpy are needed")
    sys.exit(77)
if shutil.which("readelf"):
    check_needs(sys.argv[1])
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

    if shutil.which("ldd"):
        wheel = pathlib.Path(run(sys.executable, "-B", ROOT / "bindings/python/make_wheel.py",
                                 pathlib.Path(sys.argv[1]).resolve(), place / "bundled", "--bundle"))
        assert re.fullmatch(rf"weft-{version}-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name), wheel
        run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
        # Each library that it brought is mapped from there, and none of that name from elsewhere.
        mapped = run(python, "-c", PROGRAM + "print(*{line.split()[-1] for line in open('/proc/self/maps') if '.so' in line})")
        paths = [pathlib.Path(path) for path in mapped.split()[1:]]
        names = {path.name for path in (place / "env").rglob("weft/libs/*.so*")}
        assert names >= {"libtbb.so.12"} and not any(name.startswith(("libc.", "libm.", "libstdc++")) for name in names), names
        assert {path.name for path in paths if "weft/libs" in str(path)} == names, (mapped, names)
        assert not [path for path in paths if path.name in names and "weft/libs" not in str(path)], mapped
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, with {len(names)} libraries")
