#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/python.sh makes an environment in which the ten lines of docs/python.md run, and a wheel beside it. In a copy of
what it reads, with a cmake that notes how it is called and gives the library that is built already. Skipped (77) without
numpy.

  python_sh_test.py LIBRARY
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = """#!/bin/sh
echo "$@" >> cmake.calls
mkdir -p build/release/lib
cp "$GIVEN_LIBRARY" build/release/lib/libweft.so
"""
try:
    import numpy  # noqa: F401
except ImportError:
    print("no numpy here")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    shutil.copytree(ROOT / "bindings/python", place / "bindings/python")
    (place / "tools").mkdir()
    (place / "bin").mkdir()
    shutil.copy(ROOT / "tools/python.sh", place / "tools")
    # Packages are there, or this test would not have been built.
    for name, text in (("tools/setup.sh", "#!/bin/sh\necho setup.sh >> cmake.calls\n"), ("bin/cmake", CMAKE)):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key not in ("WEFT_LIBRARY", "PYTHONPATH")}
    environment |= {"PATH": f"{place}/bin:{os.environ['PATH']}", "GIVEN_LIBRARY": str(pathlib.Path(sys.argv[1]).resolve())}
    text = (ROOT / "docs/python.md").read_text()
    ran, printed = re.search(r"^build/python/bin/python (\S+) +# the program below: (.*)$", text, re.MULTILINE).groups()
    for arguments, made in ([], "build"), (["elsewhere/env"], "elsewhere"):
        (place / "cmake.calls").write_text("")
        done = subprocess.run(["sh", place / "tools/python.sh", *arguments], env=environment, cwd="/", capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"python\.sh: weft \d+\.\d+\.\d+ in ", done.stdout), done.stdout
        calls = (place / "cmake.calls").read_text().splitlines()
        assert calls == ["setup.sh", "--preset release -DWEFT_PRECOMPILE=all -DWEFT_UNITY=ON",
                         "--build --preset release --target weft_shared"], calls
        assert len(list((place / made / "wheels").glob("weft-*.whl"))) == 1
        python = place / made / ("env" if arguments else "python") / "bin/python"
        said = subprocess.run([python, ROOT / ran], env=environment, cwd="/", capture_output=True, text=True, check=False)
        assert said.returncode == 0 and said.stdout.strip() == printed, said.stdout + said.stderr
    print("two environments, in which the ten lines print", printed)
