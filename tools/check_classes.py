#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that classes have one job and that the user's header stays cheap. Run by ctest as tools.classes.

  tools/check_classes.py [ROOT]           check
  tools/check_classes.py --list [ROOT]    the largest classes, and what the headers include

1. No class has more than 20 data members or 45 functions. Plain records (members without functions) are lists of named
   values and may be longer.
2. Includers of a header of HEADERS see at most so many Weft headers through it.
3. Words of FEW_FILES occur in at most so many production files.

KNOWN lists the classes that are over the limit. A row goes when its class is divided; a class that is not over the limit
any more fails too, so no row outlives its reason.
Needs Universal Ctags.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

MOST_MEMBERS, MOST_FUNCTIONS = 20, 45
KNOWN = {}
HEADERS = {"mesh/mesh.hpp": 25}
FEW_FILES = {r"metacognition|\bWatch(er|Rule)\b": 6}
TEST_ROOMS = {"tests", "bench", "examples", "tools", "docs", "cmake"}
INCLUDE = re.compile(r'^[ \t]*#\s*include\s*"([^"]+)"', re.MULTILINE)


def sources(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.hpp", "*.cpp", "*.def"], cwd=root,
                            capture_output=True, text=True, check=True).stdout.split()
    return [f for f in listed if f.split("/")[0] not in TEST_ROOMS and (root / f).is_file()]


def tags(root, files):
    out = subprocess.run(["ctags", "--output-format=json", "--languages=C++", "--langmap=C++:.hpp.cpp",
                          "--kinds-C++=cspfm", "--fields=+sKneS", "-L", "-", "-o", "-"], cwd=root, text=True,
                         input="\n".join(f for f in files if not f.endswith(".def")), capture_output=True, check=True)
    return [t for t in map(json.loads, out.stdout.splitlines()) if t["_type"] == "tag"]


def classes(found):
    """(file, name, members, functions) of each class: functions as its body declares them."""
    spans = {}
    for tag in found:
        if tag["kind"] in ("class", "struct"):
            name = tag["scope"] + "::" + tag["name"] if "scope" in tag else tag["name"]
            spans[tag["path"], name] = (tag["line"], tag.get("end", tag["line"]))
    members, functions = collections.Counter(), collections.Counter()
    for tag in found:
        key = tag["path"], tag.get("scope", "")
        if tag.get("scopeKind") not in ("class", "struct") or key not in spans:
            continue
        first, last = spans[key]
        if not first <= tag["line"] <= last:
            continue
        if tag["kind"] == "member" and " static " not in f" {tag.get('typeref', '')} ":
            members[key] += 1
        elif tag["kind"] in ("prototype", "function") and not tag["name"].startswith("operator"):
            functions[key] += 1
    return [(*key, members[key], functions[key]) for key in spans]


def closure(root, header):
    seen, left = set(), [header]
    while left:
        for name in INCLUDE.findall((root / left.pop()).read_text()):
            if name not in seen and (root / name).is_file():
                seen.add(name)
                left.append(name)
    return seen


def check_classes(found):
    errors, over = [], set()
    for path, name, members, functions in classes(found):
        if functions == 0 or members <= MOST_MEMBERS and functions <= MOST_FUNCTIONS:
            continue
        over.add(name)
        if name not in KNOWN:
            errors.append(f"{path}: {name} has {members} data members and {functions} functions, more than "
                          f"{MOST_MEMBERS} or {MOST_FUNCTIONS}: divide it by its jobs")
    errors += [f"tools/check_classes.py: KNOWN names {name}, which is within the limits: take the row out"
               for name in KNOWN if name not in over]
    return errors


def check(root):
    files = sources(root)
    errors = check_classes(tags(root, files))
    for header, most in HEADERS.items():
        seen = closure(root, header)
        if len(seen) > most:
            errors.append(f"{header}: its includers see {len(seen)} Weft headers, more than {most}: declare forward, "
                          f"or move what needs them to mesh/mesh_access.hpp: {' '.join(sorted(seen))}")
    for word, most in FEW_FILES.items():
        those = [f for f in files if re.search(word, (root / f).read_text(), re.IGNORECASE)]
        if len(those) > most:
            errors.append(f"'{word}' is named in {len(those)} production files, more than {most}: {' '.join(those)}")
    return errors


def show(root):
    rows = sorted((r for r in classes(tags(root, sources(root))) if r[3]), key=lambda r: (-r[2], -r[3]))
    for path, name, members, functions in rows[:15] + sorted(rows, key=lambda r: -r[3])[:15]:
        print(f"{members:4} members {functions:4} functions  {name}  ({path})")
    for header in HEADERS:
        print(f"{header}: {len(closure(root, header))} Weft headers")


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--list"]
    top = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parents[1])
    if "--list" in sys.argv:
        show(top)
        sys.exit()
    wrong = check(top)
    print("\n".join(wrong) if wrong else "classes: fine")
    sys.exit(bool(wrong))
