#!/usr/bin/env python3
"""Counts the production files that name an operation besides its kernel, its shader and those that use it.

Usage: count_op_files.py [--list NAME]   (fails where an operation is named in more than MOST files)

Counted are: the struct where it is defined and computed (kernels/ops/), its row in kernels/ops.def and in any other
list of operations, the type as an operand (`const ops::Softmax&`), its number (`OpId::softmax`) and a method of a stream by
its name. Not counted: the kernel's own function, shaders, and uses (`stream.softmax({...})`, `ops::Softmax{...}`).
"""
import pathlib
import re
import sys

import rooms

MOST = 5
ROW = re.compile(r"^WEFT_OP\((\w+), (\w+)\)", re.MULTILINE)


# A struct where it is defined and computed, lowered, or named by type or number; ops::Copy{...} is a use.
IN_OPS = re.compile(r"\bstruct (\w+) \{|\b(\w+)::compute\b")
ANYWHERE = re.compile(r"\bops::(\w+)\b(?!\{)|OpId::(\w+)\b")
METHOD = re.compile(r"\b\w*Stream::(\w+)\(|\bvirtual [\w:<>]+ (\w+)\(|^\s+(?:void|bool) (\w+)\([^;]*override",
                    re.MULTILINE)
LIST_ROW = re.compile(r"^WEFT\w*OP\w*\((\w+)[,)]", re.MULTILINE)


def names(path, text):
    """The operations, by name or struct, that a file names."""
    if path.suffix == ".def":
        patterns = [LIST_ROW]
    else:
        patterns = [ANYWHERE, METHOD] + ([IN_OPS] if path.parent.name == "ops" else [])
    return {word for pattern in patterns for match in pattern.finditer(text) for word in match.groups() if word}


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    wanted = sys.argv[sys.argv.index("--list") + 1] if "--list" in sys.argv else None
    rows = ROW.findall((root / "kernels/ops.def").read_text())
    # The room below all others knows no operation; json.cpp has functions of such names.
    named = [(str(path), names(path, text)) for path, text in rooms.sources(root, (".cpp", ".hpp", ".def", ".h"))
             if path.parts[0] != "core"]
    failures, total = [], 0
    for name, kind in rows:
        found = [path for path, words in named if name in words or kind in words]
        total += len(found)
        if name == wanted:
            print("\n".join(found))
        if len(found) > MOST:
            failures.append(f"{name} is named in {len(found)} files, more than {MOST}: {', '.join(found)}")
    if not rows:
        failures.append("kernels/ops.def has no rows")
    print("\n".join(failures) or f"{len(rows)} operations, named in {total / len(rows):.1f} files each, "
                                 f"at most {MOST}")
    return 1 if failures else 0


sys.exit(main())
