#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the tree may include and that each folder introduces itself. Run by ctest as tools.layers.

  tools/check_layers.py [ROOT]

1. Folders include only what their row of tools/layers.txt names; a row names earlier rows only, so no circle can form.
2. Nobody includes a foreign internal/, and a public header includes no internal/ at all (it is never installed).
3. Vendor headers stay in their home: tbb in scheduler, hwloc in topology, vulkan in gpu, SIMD headers in kernels,
   unicode (ICU) in text, boost and prometheus in server.
4. Headers that are slow to compile are included by one or two files (HEAVY).
5. Public headers include std and Weft only. Texts "re-included once per ISA" are
   no public headers.
6. Each folder has a README.md of at most 15 lines; a fwd.hpp is included by somebody.
"""
import pathlib
import re
import sys

HOMES = {"tbb": "scheduler", "oneapi": "scheduler", "hwloc": "topology", "vulkan": "gpu", "volk": "gpu",
         "hwy": "kernels", "immintrin": "kernels", "x86intrin": "kernels", "arm_neon": "kernels", "unicode": "text",
         "boost": "server", "prometheus": "server"}
# Headers that take a compiler seconds: the only files that may include them.
HEAVY = {"CLI": {"cli/main.cpp", "cli/usage.cpp", "cli/verb.cpp"}, "nlohmann": {"core/json.cpp"}, "spdlog": {"core/log.cpp"}}
INCLUDE = re.compile(r'^[ \t]*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
ALL = ("*.hpp", "*.cpp", "*.h", "*.def")


def read_rows(path, errors):
    rows = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            folder, _, rest = line.partition(":")
            allowed = rest.partition("|")[0]
            errors += [f"{path}: '{folder}' names '{a}', which is no earlier row" for a in allowed.split() if a not in rows]
            rows[folder] = set(allowed.split()) | {folder}
    return rows


def check_file(path, name, rows, included, errors):
    parts = name.split("/")
    folder, owner = parts[0], parts[1] if parts[0] in ("tests", "bench") else parts[0]
    text = path.read_text()
    is_isa_text = "re-included once per ISA" in "\n".join(text.splitlines()[:6])
    is_public = (folder in rows and folder != "cli" and path.suffix in (".hpp", ".h") and "internal" not in parts
                 and not is_isa_text)
    for match in INCLUDE.finditer(text):
        ours, theirs = match.groups()
        included.add(ours)
        where = f"{name}:{text.count(chr(10), 0, match.start()) + 1}: "
        target = (ours or theirs).split("/")
        vendor = HOMES.get(target[0].split(".")[0])
        if vendor and owner != vendor:
            errors.append(f"{where}<{ours or theirs}> belongs to {vendor}/ alone")
        if theirs and folder in rows and not is_public and name not in HEAVY.get(target[0], {name}):
            errors.append(f"{where}<{theirs}> takes seconds to compile; only {', '.join(sorted(HEAVY[target[0]]))} may")
        if ours and folder in rows and target[0] not in rows[folder]:
            errors.append(f"{where}{folder}/ may not include {target[0]}/ (tools/layers.txt)")
        if ours and "internal" in target and (is_public or target[0] != owner and owner != "fuzz"):
            errors.append(f"{where}\"{ours}\" is internal to the .cpp files of {target[0]}/")
        is_std = theirs and re.fullmatch(r"[a-z_0-9]+|std(def|int)\.h", theirs)
        if theirs and is_public and not is_std:
            errors.append(f"{where}<{theirs}> in a public header, which shows std and Weft types only")


def check(root):
    errors, included = [], set()
    rows = read_rows(root / "tools/layers.txt", errors)
    folders = [f for f in (*rows, "tests", "bench", "examples") if (root / f).is_dir()]
    for folder in folders:
        for path in sorted(p for pattern in ALL for p in (root / folder).rglob(pattern)):
            check_file(path, path.relative_to(root).as_posix(), rows, included, errors)
        readme = root / folder / "README.md"
        if not readme.is_file() or len(readme.read_text().splitlines()) > 15:
            errors.append(f"{folder}/README.md: must exist and have at most 15 lines")
    errors += [f"{folder}/fwd.hpp: nobody includes it" for folder in folders
               if (root / folder / "fwd.hpp").is_file() and f"{folder}/fwd.hpp" not in included]
    return errors


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]))
    print("\n".join(found) if found else "layers: fine")
    sys.exit(bool(found))
