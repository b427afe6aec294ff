#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each source of this folder twice: as it stands, which must work, and with WEFT_BAD defined, which must fail
with an error that matches its `expect:`.

  run.py COMPILER
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def compile_source(compiler, source, *options):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Werror=unused-result", f"-I{HERE.parents[1]}", *options, source]
    return subprocess.run(command, capture_output=True, text=True)


def main():
    failures = []
    sources = sorted(HERE.glob("*.cpp"))
    for source in sources:
        expected = re.search(r"expect: (\S+)", source.read_text()).group(1)
        good, bad = (compile_source(sys.argv[1], source, *options) for options in ([], ["-DWEFT_BAD"]))
        if good.returncode != 0:
            failures.append(f"{source.name}: does not compile at all\n{good.stderr}")
        if bad.returncode == 0:
            failures.append(f"{source.name}: compiles, though it must not")
        elif not re.search(f"error:.*({expected})", bad.stderr):
            failures.append(f"{source.name}: fails, but not with '{expected}'\n{bad.stderr}")
    print("\n".join(failures) or f"{len(sources)} sources compile, and fail where they must")
    sys.exit(bool(failures) or not sources)


if __name__ == "__main__":
    main()
