#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/setup.sh installs the group [build] and those that are named, and refuses lists of packages that are broken."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPOKEN = re.compile(r"tools/setup\.sh((?: [a-z]+)+)")


def run(packages, *groups):
    """The packages that setup.sh installs of a list: its dpkg-query has none, its apt-get writes down what it is asked."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(ROOT / "tools/setup.sh", folder / "setup.sh")
        (folder / "packages.txt").write_text(packages)
        programs = folder / "bin"
        programs.mkdir()
        for name, text in {"dpkg-query": "exit 1", "apt-get": f'echo "$@" >> {folder}/asked',
                           "sudo": 'shift; exec "$@"', "id": "echo 0"}.items():
            (programs / name).write_text("#!/bin/sh\n" + text + "\n")
            (programs / name).chmod(0o755)
        done = subprocess.run(["sh", folder / "setup.sh", *groups], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        asked = (folder / "asked").read_text().splitlines()[-1].split() if (folder / "asked").exists() else []
        return done, [word for word in asked if not word.startswith("-") and word not in ("install", "Dpkg::Use-Pty=0")]


class Setup(unittest.TestCase):
    def test_build_always_others_by_name(self):
        packages = "# A list.\n[build]\ncompiler\n[gpu]\ndriver\n[web]\nnode\n"
        self.assertEqual(run(packages)[1], ["compiler"])
        self.assertEqual(run(packages, "gpu")[1], ["compiler", "driver"])

    def test_this_list_builds(self):
        packages = (ROOT / "tools/packages.txt").read_text()
        done, asked = run(packages, "gpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("g++", "cmake", "ninja-build", "libtbb-dev", "libhwloc-dev", "nlohmann-json3-dev", "libvulkan-dev",
                     "glslang-tools", "libgtest-dev", "libbenchmark-dev", "mesa-vulkan-drivers"):
            self.assertIn(name, asked)

    def test_a_package_without_a_group_is_refused(self):
        done, asked = run("# A list. [build]\ncompiler\n[gpu]\ndriver\n", "gpu")
        self.assertEqual((done.returncode, asked), (1, []))
        self.assertIn("compiler before any [group]", done.stderr)

    def test_an_unknown_group_is_refused(self):
        done, asked = run("[build]\ncompiler\n", "graphics")
        self.assertEqual((done.returncode, asked), (1, []))
        self.assertIn("no group [graphics]", done.stderr)

    def test_groups_that_scripts_and_pages_name_are_there(self):
        groups = re.findall(r"^\[(\w+)\]$", (ROOT / "tools/packages.txt").read_text(), re.M)
        named = set()
        for path in [ROOT / ".ci/run", ROOT / "README.md", *ROOT.glob("tools/*.sh"), *ROOT.glob("docs/**/*.md")]:
            for words in SPOKEN.findall(path.read_text()):
                named.add(words.split()[0])
        self.assertLessEqual({"gpu", "fuzz", "neon", "web"}, named)
        self.assertEqual(named - set(groups) - {"installs"}, set())


if __name__ == "__main__":
    unittest.main()
