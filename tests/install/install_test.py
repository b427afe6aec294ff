#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's program is tests/install/main.cpp, works against an installed Weft, and prints what the README says.

  install_test.py --build DIR [--write]      --write puts program and output into the README instead of comparing
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"


def block(text, mark):
    """Begin and end of the fenced block after <!-- mark --> in `text`."""
    start = text.index("\n", text.index("```", text.index(f"<!-- {mark} -->"))) + 1
    return start, text.index("```\n", start)


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def build_and_run(arguments, folder):
    prefix, build = folder / "prefix", folder / "build"
    run([arguments.cmake, "--install", arguments.build, "--prefix", prefix])
    flags = f"-fsanitize={arguments.sanitize}" if arguments.sanitize else ""
    run([arguments.cmake, "-S", HERE, "-B", build, "-G", arguments.generator, "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_PREFIX_PATH={prefix};{arguments.prefix_path}", f"-DCMAKE_CXX_COMPILER={arguments.compiler}",
         f"-DCMAKE_CXX_FLAGS={flags}", f"-DCMAKE_C_FLAGS={flags}",
         # The runtime of a sanitizer is the compiler's own.
         *([f"-DCMAKE_C_COMPILER={'clang' if 'clang' in arguments.compiler else 'gcc'}"] if arguments.sanitize else [])])
    run([arguments.cmake, "--build", build])
    outputs = {isa: run([build / "consumer"], env=os.environ | ({"WEFT_ISA": isa} if isa else {})) for isa in ("", "scalar")}
    if outputs[""] != outputs["scalar"]:
        sys.exit(f"the best ISA and scalar code differ:\n{outputs['']}\n{outputs['scalar']}")
    for of_c in ("c89_consumer", "cpp98_consumer"):
        if not run([build / of_c], cwd=folder):
            sys.exit(f"{of_c} prints nothing")
    return outputs[""]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--sanitize", default="")
    parser.add_argument("--prefix-path", default="")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()

    program = (HERE / "main.cpp").read_text().partition("\n\n")[2]  # without the SPDX line
    with tempfile.TemporaryDirectory() as folder:
        output = build_and_run(arguments, pathlib.Path(folder))
    for mark, found in (("program", program), ("output", output)):
        text = README.read_text()
        start, end = block(text, mark)
        if arguments.write:
            README.write_text(text[:start] + found + text[end:])
        elif text[start:end] != found:
            sys.exit(f"README.md, block '{mark}' differs (install_test.py --write mends it). README:\n{text[start:end]}\n"
                     f"here:\n{found}")
    print(output, end="")


if __name__ == "__main__":
    main()
