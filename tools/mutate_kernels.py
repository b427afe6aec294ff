#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutants of the kernels that the kernels' tests kill: small faults (another operator, constant or bound), one at a time.

  tools/mutate_kernels.py [--build build/release] [--count 40] [--files softmax,norm] [--filter NAME=FILTER]... [--jobs 2]

Needs a build with the program kernels_tests whose files are compiled one by one (-DWEFT_UNITY=OFF); changes neither
it nor the tree: a mutant's object is compiled beside them, lightly optimised, and linked in place of the right one.
Of each file in turn the candidates are taken evenly spread, so the same tree has the same mutants. Each --filter
(GoogleTest's) is a set of tests to be judged; without any, all tests. About half a minute of CPU for each mutant: for
a person who changes tests, not for CI.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHANGES = [(r"(?<=[\w)\]]) \+ (?=[\w(])", " - "), (r"(?<=[\w)\]]) - (?=[\w(])", " + "), (r"(?<=[\w)\]]) \* (?=[\w(])", " + "),
           (r" < (?=[\w(])", " <= "), (r" <= ", " < "), (r" > (?=[\w(])", " >= "), (r" >= ", " > "), (r" == ", " != "),
           (r"\bAdd\(", "Sub("), (r"\bSub\(", "Add("), (r"\bMul\(", "Add("), (r"\bMulAdd\(", "NegMulAdd("),
           (r"\bMax\(", "Min("), (r"\bMin\(", "Max("), (r"\bstd::fma\(", "0.5f * std::fma("), (r"\b1\.0f\b", "2.0f"),
           (r"\b0\.5f\b", "0.25f"), (r"\b2\.0f\b", "1.0f"), (r"(?<== )0(?=[;,])", "1")]
SKIPPED = re.compile(r"^\s*(//|#|using|template|static_assert|WEFT_ASSERT|HWY_)")


def candidates(text):
    """(first, last, text in its place, line number) of each fault that fits somewhere."""
    found, start = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        code = line.split("//")[0]
        if not SKIPPED.match(line):
            for pattern, other in CHANGES:
                found += [(start + m.start(), start + m.end(), other, number) for m in re.finditer(pattern, code)]
        start += len(line) + 1
    return sorted(found)


def spread(items, count):
    return [items[(2 * i + 1) * len(items) // (2 * count)] for i in range(min(count, len(items)))]


class Builder:
    def __init__(self, build):
        self.build = build
        self.commands = {e["file"]: e for e in json.loads((build / "compile_commands.json").read_text())}
        if str(ROOT / "kernels/softmax.cpp") not in self.commands:
            sys.exit(f"{build}: compiles files in batches; configure a build with -DWEFT_UNITY=OFF -DWEFT_PRECOMPILE=programs")
        out = subprocess.run(["ninja", "-t", "commands", "kernels_tests"], cwd=build, capture_output=True, text=True, check=True)
        self.link = out.stdout.strip().split("\n")[-1]

    def make(self, folder, source, text):
        """The program with this text of a source, in a folder of its own; None where it does not compile."""
        overlay = folder / "overlay"
        changed = overlay / source  # found before the tree's own, by the file's own re-inclusion too
        changed.parent.mkdir(parents=True)
        changed.write_text(text)
        entry = self.commands[str(ROOT / source)]
        words = shlex.split(entry["command"])
        while "++" not in pathlib.Path(words[0]).name:  # ccache and its settings
            words.pop(0)
        made = pathlib.Path(words[words.index("-o") + 1]).name
        words = [words[0], f"-I{overlay}"] + [w for w in words[1:] if not w.startswith(("-O3", "-O2"))] + ["-O1", "-w"]
        words[words.index("-o") + 1] = str(folder / made)
        words[words.index(str(ROOT / source))] = str(changed)
        if subprocess.run(words, cwd=entry["directory"], capture_output=True).returncode != 0:
            return None
        program = folder / "mutant"
        # Before the archive: what the object defines is not looked for there.
        link = self.link.replace("-o bin/kernels_tests", f"{folder / made} -o {program}")
        subprocess.run(link, shell=True, cwd=self.build, check=True, capture_output=True)
        return program


def is_killed(program, tests):
    try:
        done = subprocess.run([program, "--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={tests}"], capture_output=True,
                              timeout=600)
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True


def mutants(texts, count):
    """(source, text, what was changed) of `count` faults, as many in each source."""
    each, left = -(-count // len(texts)), count
    for source, text in texts.items():
        for first, last, other, line in spread(candidates(text), min(each, left)):
            left -= 1
            what = f"{source}:{line}: '{text[first:last].strip()}' -> '{other.strip()}'"
            yield source, text[:first] + other + text[last:], what


def judge(builder, filters, mutant):
    """The names of the filters whose tests kill the mutant; None where it does not compile."""
    source, text, what = mutant
    with tempfile.TemporaryDirectory() as folder:
        program = builder.make(pathlib.Path(folder), source, text)
        killers = program and [name for name, tests in filters.items() if is_killed(program, tests)]
    outcomes = [f"{name} {'kills' if name in killers else 'SPARES'}" for name in filters] if program else ["does not compile"]
    print(f"{what}: " + ", ".join(outcomes), flush=True)
    return killers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--count", default=40, type=int)
    parser.add_argument("--files", default="", help="names without .cpp; all that have candidates if not given")
    parser.add_argument("--filter", action="append", default=[], metavar="NAME=FILTER")
    parser.add_argument("--jobs", default=1, type=int)
    arguments = parser.parse_args()
    filters = dict(each.split("=", 1) for each in arguments.filter) or {"all": "*"}
    names = arguments.files.split(",") if arguments.files else sorted(p.stem for p in (ROOT / "kernels").glob("*.cpp"))
    texts = {f"kernels/{name}.cpp": (ROOT / f"kernels/{name}.cpp").read_text() for name in names}
    texts = {source: text for source, text in texts.items() if candidates(text)}
    builder = Builder(arguments.build.resolve())
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        killed = list(pool.map(lambda mutant: judge(builder, filters, mutant), mutants(texts, arguments.count)))
    made = [each for each in killed if each is not None]
    for name in filters:
        print(f"{name}: {sum(name in each for each in made)} of {len(made)} mutants killed")


if __name__ == "__main__":
    sys.exit(main())
