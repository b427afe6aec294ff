#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/Containerfile, read: what it names is in the tree, its commands are those of the tools, each stage takes what
the one before it makes, and the program does not run as root.

  container_test.py            what it says
  container_test.py --build    podman or buildah builds it, and the program runs in it: half an hour of two cores, so only
                               with WEFT_TEST_FULL=1; else, and without either of them, skipped (77)
"""
import fnmatch
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = ROOT / "packaging/Containerfile"
KINDS = {"FROM", "COPY", "WORKDIR", "RUN", "USER", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


def load_debs():
    spec = importlib.util.spec_from_file_location("make_debs", ROOT / "packaging/make_debs.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def read_stages(text):
    """[{name, image, steps: [(KIND, words)]}]; a RUN has its commands, each a list of words."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    stages = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        kind, rest = line.split(None, 1)
        if kind not in KINDS:
            raise ValueError(f"{kind} is none of {sorted(KINDS)}")
        if kind == "FROM":
            image, *name = re.fullmatch(r"(\S+)(?: AS (\S+))?", rest).groups()
            stages.append({"name": name[0], "image": image, "steps": []})
        elif kind == "RUN":
            stages[-1]["steps"].append((kind, [shlex.split(part) for part in rest.split("&&")]))
        else:
            words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
            stages[-1]["steps"].append((kind, words))
    return stages


def groups_of_packages():
    groups, group = {}, None
    for line in (ROOT / "tools/packages.txt").read_text().splitlines():
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            group.append(line)
    return groups


class Container(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = PATH.read_text()
        cls.stages = read_stages(cls.text)
        cls.build, cls.last = cls.stages

    def steps(self, stage, kind):
        return [words for each, words in stage["steps"] if each == kind]

    def test_stages_resolve_and_are_the_debian_of_the_packages(self):
        seen = []
        for stage in self.stages:
            self.assertRegex(stage["image"], r"^docker\.io/library/debian:bookworm(-slim)?$")
            for words in self.steps(stage, "COPY"):
                for word in words:
                    if word.startswith("--from="):
                        self.assertIn(word.partition("=")[2], seen)
            seen.append(stage["name"])
        self.assertEqual(seen, ["build", None])

    def test_the_context_has_what_the_build_reads(self):
        (source, place), = self.steps(self.build, "COPY")
        self.assertEqual(source, ".")
        self.assertEqual(self.steps(self.build, "WORKDIR"), [[place]])
        ignored = (ROOT / ".containerignore").read_text().split()
        if (ROOT / ".git").exists():
            tracked = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files"], capture_output=True, text=True,
                                     check=True).stdout.split("\n")
            for name in sorted({path.partition("/")[0] for path in tracked if path} - {".git"}):
                for pattern in ignored:
                    self.assertFalse(fnmatch.fnmatch(name, pattern), f".containerignore: {pattern} leaves {name} out")
        self.assertTrue(any(fnmatch.fnmatch("build", pattern) for pattern in ignored), "a build of the host would go along")

    def test_commands_are_those_of_the_tools(self):
        (commands,) = self.steps(self.build, "RUN")
        setup, configure, compiled, packed = commands
        self.assertEqual(setup[0], "tools/setup.sh")
        groups = groups_of_packages()
        for group in setup[1:]:
            self.assertIn(group, groups)
        self.assertIn("dpkg-dev", [package for group in setup[1:] for package in groups[group]], "make_debs.py needs it")
        for command in (setup, packed):
            self.assertTrue(os.access(ROOT / command[0], os.X_OK), command[0])
        presets = json.loads((ROOT / "CMakePresets.json").read_text())
        self.assertEqual(configure[:2], ["cmake", "--preset"])
        preset = configure[2]
        self.assertIn(preset, [each["name"] for each in presets["configurePresets"] if not each.get("hidden")])
        self.assertEqual(compiled, ["cmake", "--build", "--preset", preset])
        self.assertIn(preset, [each["name"] for each in presets["buildPresets"] if each["configurePreset"] == preset])
        cmake = "\n".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")])
        for option in configure[3:]:
            name = re.fullmatch(r"-D(WEFT_\w+)=\w+", option)[1]
            self.assertRegex(cmake, rf"(option|set)\({name} ")
        fast = [option for option in configure[3:] if "PRECOMPILE" in option or "UNITY" in option]
        for tool in ("tools/run.sh", "tools/python.sh"):
            self.assertIn(f"cmake --preset {preset} {' '.join(fast)}", (ROOT / tool).read_text(), tool)
        self.assertEqual(packed[:2], ["packaging/make_debs.py", f"build/{preset}"])

    def test_the_last_stage_takes_the_packages_that_the_first_makes(self):
        folder = self.steps(self.build, "RUN")[0][-1][2]
        version_less = {pathlib.PurePath(word).name.replace("_*.deb", "")
                        for words in self.steps(self.last, "COPY") for word in words[1:-1]}
        self.assertEqual(version_less, {"weft", "libweft0", "python3-weft"})
        debs = load_debs()
        self.assertLessEqual(version_less, set(debs.FIELDS))
        ((origin, *files, place),) = self.steps(self.last, "COPY")
        self.assertEqual(origin, "--from=build")
        for file in files:
            self.assertEqual(str(pathlib.PurePath(file).parent), folder)
        for name in version_less:  # what one of them needs of Weft's is there too
            for needed in re.findall(r"(\S+) \(= \{version\}\)", debs.FIELDS[name]["Depends"]):
                self.assertIn(needed, version_less)
        (commands,) = self.steps(self.last, "RUN")
        installed = next(command for command in commands if "install" in command)
        self.assertEqual([word for word in installed if not word.startswith("-")][-1], place + "*.deb")
        self.assertTrue(any(command[0] == "rm" and place + "*.deb" in command for command in commands))

    def test_the_program_is_in_a_package_and_runs_as_nobody_special(self):
        ((program,),) = self.steps(self.last, "ENTRYPOINT")
        debs = load_debs()
        homes = [name for name, patterns in debs.FILES.items()
                 if any(fnmatch.fnmatch(program.lstrip("/"), pattern) for pattern in patterns)]
        self.assertEqual(homes, ["weft"])
        ((user,),) = self.steps(self.last, "USER")
        self.assertNotIn(user, ("root", "0"))
        (commands,) = self.steps(self.last, "RUN")
        added = next(command for command in commands if command[0] == "useradd")
        self.assertEqual((added[-1], "--system" in added, "--create-home" in added), (user, True, True))
        home = added[added.index("--home-dir") + 1]
        self.assertEqual((self.steps(self.last, "WORKDIR"), self.steps(self.last, "VOLUME")), ([[home]], [[home]]))
        kinds = [kind for kind, _ in self.last["steps"]]
        self.assertLess(kinds.index("RUN"), kinds.index("USER"))
        self.assertEqual(kinds.count("RUN"), 1, "nothing runs after USER")

    def test_its_head_says_how_to_build_and_run_it(self):
        built = re.search(r"^#   podman (build .*)$", self.text, re.M)[1]
        self.assertEqual(built, "build -f packaging/Containerfile -t weft .")
        self.assertIn("podman " + built, (ROOT / "packaging/README.md").read_text())
        file = re.search(r"^#   podman run --rm weft run (\S+)$", self.text, re.M)[1]
        self.assertTrue(file.startswith("/usr/share/doc/weft/"))
        self.assertTrue((ROOT / file.replace("/usr/share/doc/weft/", "")).exists(), file)


def build():
    """Built and run by what is at hand."""
    tools = [tool for tool in ("podman", "buildah") if shutil.which(tool)]
    if os.environ.get("WEFT_TEST_FULL") != "1":
        print("WEFT_TEST_FULL=1 builds it")
        sys.exit(77)
    if not tools:
        print("neither podman nor buildah is here")
        sys.exit(77)
    tool = tools[0]
    run = lambda *words: subprocess.run(list(words), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: E731
    run(tool, "build", "-f", "packaging/Containerfile", "-t", "localhost/weft-test", ".")
    if tool == "podman":
        said = run("podman", "run", "--rm", "localhost/weft-test", "--version")
    else:
        place = run("buildah", "from", "localhost/weft-test").strip()
        try:
            said = run("buildah", "run", place, "--", "weft", "--version")
        finally:
            run("buildah", "rm", place)
    run(tool, "rmi", "localhost/weft-test")
    assert said.startswith("weft "), said
    print(f"{tool}: {said.strip()}")


if __name__ == "__main__":
    if "--build" in sys.argv:
        build()
    else:
        unittest.main()
