#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libweft.so exports what capi/exports.txt lists, each under its version; weft.h declares just that, and compiles as
C89 and as C++98. A version that was released has the names that it had.

  exports_test.py LIBRARY CC CXX
"""
import ctypes
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
library, *compilers = sys.argv[1:]


def difference(found, wanted, what):
    assert found == wanted, f"{what}: too many {sorted(found - wanted)[:20]}, missing {sorted(wanted - found)[:20]}"


# Names of released versions: a symbol that comes later belongs to a later one.
RELEASED = {"WEFT_0.1": "5444652340885ce4a2fac7129c829c678a0b2d430ff3010bd880c327df859bcd"}


def read_exports(text):
    """Symbols by version."""
    versions = {}
    for line in text.splitlines():
        if re.fullmatch(r"WEFT_\d+\.\d+", line):
            assert line not in versions, f"capi/exports.txt: {line} twice"
            names = versions[line] = []
        elif not line.startswith("#"):
            assert re.fullmatch(r"weft_[a-z0-9_]+", line), f"capi/exports.txt: '{line}' is no symbol"
            assert versions, f"capi/exports.txt: {line} stands under no version"
            names.append(line)
    for version, names in versions.items():
        assert names == sorted(names), f"capi/exports.txt: {version} is not sorted"
    return versions


def check_released(versions):
    for version, digest in RELEASED.items():
        found = hashlib.sha256("\n".join(versions[version]).encode()).hexdigest()
        assert found == digest, f"capi/exports.txt: {version} is released and has other names now ({found}); " \
                                "new symbols belong to a new version"


def refuses(text):
    try:
        check_released(read_exports(text))
    except AssertionError:
        return True
    return False


text = (ROOT / "capi/exports.txt").read_text()
versions = read_exports(text)
check_released(versions)
assert refuses(text.replace("WEFT_0.1\n", "WEFT_0.1\nweft_added\n")), "a symbol slipped into a released version"
assert refuses("weft_added\n" + text), "a symbol without a version passed"
assert refuses(text.replace("weft_version\n", "")), "a symbol that went passed"
listed = [name for names in versions.values() for name in names]
assert len(listed) == len(set(listed)), "capi/exports.txt has a name twice"
header = (ROOT / "capi/weft.h").read_text()
declared = re.findall(r"^WEFT_API [^(;]*?\b(weft_\w+)\(", header, re.M)
difference(set(declared), set(listed), "capi/weft.h against capi/exports.txt")
assert len(declared) == header.count("\nWEFT_API "), "a declaration was not understood"
structs = re.findall(r"^typedef struct (weft_\w+) \{\n  ([^;]*;)", header, re.M)
growing = re.search(r"^ \* Structs .*?(?=^ \* Arrays)", header, re.M | re.S).group()
difference(set(re.findall(r"weft_\w+", growing)), {name for name, first in structs if first != "size_t size;"},
           "structs without `size` that the head of capi/weft.h names")

# Symbols that a binding does not reach, as the table of docs/c.md says; the fuzzer calls all.
LACKING = {
    "tests/fuzz/c_calls_fuzz.cpp": set(),
    "bindings/python/weft/_library.py": set(),
    "bindings/csharp/Weft.cs": {"weft_mesh_sessions", "weft_status_name", "weft_keep_log", "weft_next_log"},
    "bindings/web/weft.mjs": {name for name in listed if re.match(r"weft_(model|network)_", name)} - {
        "weft_network_read", "weft_network_destroy"} | {
        "weft_devices", "weft_mesh_load", "weft_mesh_save", "weft_learner_load", "weft_set_log", "weft_keep_log",
        "weft_next_log", "weft_status_name"},
}
for path, lacking in LACKING.items():
    text = (ROOT / path).read_text()
    if path.startswith("tests/fuzz"):
        text += "".join(each.read_text() for each in (ROOT / "tests/fuzz").glob("c_calls*.hpp"))
    words = set(re.findall(r"\w+", text))
    found = {name for name in listed if words & {name, "_" + name, *([name[5:]] if path.endswith(".py") else [])}}
    difference(found, set(listed) - lacking, path)

if not shutil.which("nm"):
    print("no nm here")
    sys.exit(77)
symbols = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True,
                         text=True, check=True).stdout.splitlines()
exported = {line.split()[-1] for line in symbols if line.split()[-2] != "A"}  # A: the version itself
difference(exported, {f"{name}@@{version}" for version, names in versions.items() for name in names}, f"nm -D {library}")

# As bindings load it: late, when little of a thread's static memory is left.
assert ctypes.CDLL(library).weft_version, library

for compiler, language, standard in zip(compilers, ("c", "c++"), ("c89", "c++98")):
    subprocess.run([compiler, "-x", language, "-std=" + standard, "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
                    "-fsyntax-only", "-"], input=f'#include "{ROOT}/capi/weft.h"\n', text=True, check=True)
print(f"{len(listed)} symbols")
