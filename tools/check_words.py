#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the words of code and docs. Run by ctest as tools.words and by tools/check.sh.

  tools/check_words.py            compares with tools/words_allowance.txt: a count may fall, never rise
  tools/check_words.py --list     prints every finding
  tools/check_words.py --write    writes the counts as they are now

1. A doc comment begins with a noun or a verb: never What, How, Whether, Where, Who or Which.
2. A term of our own is not used where the field has one (docs/glossary.md has the words that stay).
The allowance lists, by folder, the findings that are left from before the check; it goes when it is empty.
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ALLOWANCE = ROOT / "tools/words_allowance.txt"
OPENING = re.compile(r"^\s*///? ?(What|How|Whether|Where|Who|Which) ")
# coinage: the field's term
TERMS = {
    r"lived again|lives again|relived": "replayed",
    r"landings?": "readback",
    r"arrears": "pending transfers",
    r"complaints?": "validation error",
    r"onlookers?": "observer",
    r"summon(s|ed)?": "request, wake",
    r"worthwhile": "grain size",
    r"lenders?|borrowers?|sharers": "tied weights",
    r"for want of": "without",
    r"crews?": "worker pool",
    r"seats?": "core assignment",
    r"twins?": "device copy, second buffer",
    r"mirror(s|ed|ing)?": "device copy, shadow",
    r"unrest": "scheduling exceptions",
    r"lessons?": "batch, sample",
    r"taught": "trained",
    r"birth|born": "creation, initial",
    r"patience": "timeout",
    r"troubled?": "last error",
    r"log_floored\w*": "clamped_log",
    r"route_equal": "max_backward",
    r"keep_largest": "top_k_mask",
    r"one_hot_largest": "argmax_one_hot",
    r"gap_displacement": "gap_residual",
}
TERM = re.compile(r"(?<![\w])(" + "|".join(f"(?:{t})" for t in TERMS) + r")(?![\w])", re.IGNORECASE)
CODE = (".hpp", ".cpp", ".h", ".def", ".comp", ".glsl", ".py", ".sh", ".md")
OWN = ("tools/check_words.py", "docs/glossary.md", "CHANGELOG.md")


def findings(root=ROOT):
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in names:
        path = root / name
        if not name.endswith(CODE) or name in OWN or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
            if name.endswith((".hpp", ".cpp", ".h")) and OPENING.match(line):
                yield name, number, "opening", line.strip()
            for match in TERM.finditer(line):
                yield name, number, "term", f"'{match.group(0)}' in: {line.strip()[:100]}"


def main():
    found = list(findings())
    if "--list" in sys.argv:
        for name, number, kind, text in found:
            print(f"{name}:{number}: {kind}: {text}")
        return 0
    counts = collections.Counter((name.split("/")[0] if "/" in name else ".", kind) for name, _, kind, _ in found)
    rows = "".join(f"{folder} {kind} {count}\n" for (folder, kind), count in sorted(counts.items()))
    if "--write" in sys.argv:
        ALLOWANCE.write_text("# folder, finding, count: may only fall (tools/check_words.py)\n" + rows)
        return 0
    allowed = {}
    if ALLOWANCE.is_file():
        for line in ALLOWANCE.read_text().split("\n"):
            if line and not line.startswith("#"):
                folder, kind, count = line.split()
                allowed[folder, kind] = int(count)
    more = [(key, count) for key, count in sorted(counts.items()) if count > allowed.get(key, 0)]
    for (folder, kind), count in more:
        print(f"{folder}: {count} of '{kind}', {allowed.get((folder, kind), 0)} allowed (tools/check_words.py --list)")
    print(f"words: {sum(counts.values())} findings, {sum(allowed.values())} allowed")
    return bool(more)


if __name__ == "__main__":
    sys.exit(main())
