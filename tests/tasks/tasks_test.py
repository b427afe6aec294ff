#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/tasks do what they say, in at most five commands, each of which docs/tutorial.md has.

  tasks_test.py WEFT BUILD TASK...      BUILD: a build folder to install from, for embed and serve
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TASKS = ROOT / "examples/tasks"
# No commands: comments, where things stand, the end of what ran in the background.
PLAIN = re.compile(r"^(#.*|set -e|\w+=\$\(.*\)\S*|wait \$! \|\| true|)$")

MOST = 5  # commands of a task
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
SEVERAL = re.compile(r";|&&|&(?!$)")  # a pipe is one command, and so is one that may fail

# Output expected at the end. Figures of the model are the same bits on every machine.
EXPECTED = {
    "train.sh": [r"^held out +9\d\.\d %|^held out +100\.0 %", r"^loss +\d", r"^setosa +10 ", r"^label . answer +setosa"],
    "predict.sh": [r"^class,setosa,versicolor,virginica$", r"^setosa,0\.9", r"^versicolor,", r"^virginica,",
                   r"^accuracy +9\d\.\d %", r"^class +samples +precision +recall +F1"],
    "survive.sh": [r"^compared +\S+ markers, all equal$", r"^held out +\d"],
    "pipe.sh": [r"^samples +\S+", r"^compared +\S+ markers, all equal$", r"^class\n1\n0$"],
    "serve.sh": [r"^iris +running", r"^samples +[\d,]+ of [\d,]+ \(\S+/s\)$"],
    "embed.sh": [r"^60 frames"],
}


def commands(script):
    return [line for line in script.read_text().splitlines() if not PLAIN.match(line)]


def told(page):
    """The lines of a page's blocks of commands."""
    return {line for block in re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) for line in block.splitlines()}


def check_commands(script):
    found = commands(script)
    assert 1 <= len(found) <= MOST, f"{script.name}: {len(found)} commands"
    for line in found:
        assert not SEVERAL.search(QUOTED.sub("", line)), f"{script.name}: several commands in one line: {line}"
    known = told((ROOT / "docs/tutorial.md").read_text())
    for line in found:
        assert line in known, f"{script.name}: no block of commands of docs/tutorial.md has the line: {line}"


def needs(name):
    """Programs beside weft that a task calls."""
    return {"serve.sh": ["systemd-analyze"], "embed.sh": ["cmake"]}.get(name, [])


def run(script, weft, build, folder):
    environment = os.environ | {"PATH": f"{weft.parent}:{os.environ['PATH']}"}
    if script.name in ("embed.sh", "serve.sh"):
        prefix = folder / "prefix"
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        environment["WEFT_PREFIX"] = str(prefix)
        environment["WEFT_UNIT"] = str(next(prefix.glob("lib/systemd/system/weft@.service")))
        environment["PATH"] = f"{prefix}/bin:{environment['PATH']}"
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(["sh", script], cwd=work, env=environment, text=True, timeout=600, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{script.name}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    for pattern in EXPECTED[script.name]:
        if not re.search(pattern, done.stdout, re.MULTILINE):
            sys.exit(f"{script.name}: nothing like {pattern} in\n{done.stdout}{done.stderr}")


def main():
    weft, build = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    scripts = {script.name for script in TASKS.glob("*.sh")}
    assert scripts == set(EXPECTED), f"expectations for {sorted(EXPECTED)}, scripts {sorted(scripts)}"
    missing = set()
    for name in sys.argv[3:]:
        script = TASKS / name
        check_commands(script)
        missing |= {program for program in needs(name) if not shutil.which(program)}
        if missing:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run(script, weft, build, pathlib.Path(folder))
        print(f"{name}: fine")
    if missing:
        print("not here:", ", ".join(sorted(missing)))
        sys.exit(77)


if __name__ == "__main__":
    main()
