#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libweft.so exports what capi/exports.txt lists, weft.h declares just that, and compiles as C89 and as C++98.

  exports_test.py LIBRARY CC CXX
"""
import ctypes
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
library, *compilers = sys.argv[1:]


def difference(found, wanted, what):
    assert found == wanted, f"{what}: too many {sorted(found - wanted)}, missing {sorted(wanted - found)}"


listed = (ROOT / "capi/exports.txt").read_text().split()
assert listed == sorted(set(listed)), "capi/exports.txt is not sorted, or has a name twice"
header = (ROOT / "capi/weft.h").read_text()
declared = re.findall(r"^WEFT_API [^(;]*?\b(weft_\w+)\(", header, re.M)
difference(set(declared), set(listed), "capi/weft.h against capi/exports.txt")
assert len(declared) == header.count("\nWEFT_API "), "a declaration was not understood"

if not shutil.which("nm"):
    print("no nm here")
    sys.exit(77)
symbols = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True,
                         text=True, check=True).stdout.splitlines()
exported = {line.split()[-1] for line in symbols if line.split()[-2] != "A"}  # A: the version itself
difference(exported, {name + "@@WEFT_0.1" for name in listed}, f"nm -D {library}")

# As bindings load it: late, when little of a thread's static memory is left.
assert ctypes.CDLL(library).weft_version, library

for compiler, language, standard in zip(compilers, ("c", "c++"), ("c89", "c++98")):
    subprocess.run([compiler, "-x", language, "-std=" + standard, "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
                    "-fsyntax-only", "-"], input=f'#include "{ROOT}/capi/weft.h"\n', text=True, check=True)
print(f"{len(listed)} symbols")
