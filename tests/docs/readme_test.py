#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md has no command and no block that no test runs. tools/run.sh is run here, but installs and compiles nothing.

  readme_test.py WEFT
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
WEFT = pathlib.Path(sys.argv.pop(1)).resolve()

# Each command, and the line by which it is run: a file, and text that stands in it.
COMMANDS = {
    "sh examples/tasks/survive.sh": ("tests/CMakeLists.txt", "survive.sh pipe.sh)"),
    "ninja -C build/release lockstep && build/release/bin/lockstep --demo":
        ("examples/lockstep/CMakeLists.txt", "COMMAND lockstep --demo --frames 400"),
    "sh examples/tasks/serve.sh": ("tests/CMakeLists.txt", "${PROJECT_BINARY_DIR} serve.sh)"),
    "tools/run.sh": ("tests/docs/readme_test.py", 'folder / "tools/run.sh"'),
    "tools/test.sh": (".ci/run", " tools/test.sh\n"),
}
# Blocks that are no commands: a picture, and what install.consumer compiles and compares.
BLOCKS = ["text", "cpp", "text"]
COMMAND = re.compile(r"`((?:sh|ninja|cmake|python3?|pip|weft|tools/\S+\.sh|build/\S+|\./\S+) ?[^`\n]*)`")


def commands():
    plain = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    found = COMMAND.findall(plain)
    for block in re.findall(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE):
        found += [line.split("#")[0].strip() for line in block.splitlines() if line.strip()]
    return [command for command in found if command not in ("weft serve", "build/release/bin")]  # names of things


class Readme(unittest.TestCase):
    def test_has_no_command_that_no_test_runs(self):
        self.assertEqual(sorted(commands()), sorted(COMMANDS))
        for command, (path, text) in COMMANDS.items():
            with self.subTest(command=command):
                self.assertIn(text, (ROOT / path).read_text())

    def test_has_no_block_of_another_kind(self):
        kinds = re.findall(r"^```(\w+)\n", README, re.MULTILINE)
        self.assertEqual([kind for kind in kinds if kind != "sh"], BLOCKS)
        for mark in ("program", "output"):
            self.assertIn(f"<!-- {mark} -->", README)  # those of tests/install/install_test.py

    def test_run_sh_builds_and_then_learns_digits(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "tools").mkdir()
            (folder / "programs").mkdir()
            shutil.copy(ROOT / "tools/run.sh", folder / "tools/run.sh")
            (folder / "examples").symlink_to(ROOT / "examples")
            told = folder / "told"
            for program, path in (("setup", folder / "tools/setup.sh"), ("cmake", folder / "programs/cmake")):
                build = f"mkdir -p build/release/bin\nln -sf '{WEFT}' build/release/bin/weft\n" if program == "cmake" else ""
                path.write_text(f"#!/bin/sh\necho {program} \"$@\" >> '{told}'\n{build}")
                path.chmod(0o755)
            done = subprocess.run(["sh", folder / "tools/run.sh", "--quiet"], capture_output=True, text=True, check=False,
                                  timeout=100, env=os.environ | {"PATH": f"{folder}/programs:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            steps = [" ".join(line.split()[:3]) for line in told.read_text().splitlines()]
            self.assertEqual(steps, ["setup", "cmake --preset release", "cmake --build --preset"])
            held_out = re.search(r"^held out +([\d.]+) %", done.stdout, re.MULTILINE)
            self.assertTrue(held_out, done.stdout)
            self.assertGreater(float(held_out[1]), 95)


if __name__ == "__main__":
    unittest.main()
