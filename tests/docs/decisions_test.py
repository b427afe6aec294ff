#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/decisions: each note has its number, its state and what was rejected, and README.md lists each in a line.

  decisions_test.py [--write]
--write makes the list of README.md anew.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/decisions"
HEADING = re.compile(r"# (\d+)\. (\S.*)\n\nState: \S")
COLUMNS = 120
REJECTED = re.compile(r"^(?:\*\*Rejected\b|## Rejected$)", re.MULTILINE)


def mistakes(name, text):
    """Parts that a note lacks."""
    heading = HEADING.match(text)
    if not heading or int(heading[1]) != int(name[:4]):
        yield f"{name}: begins with no \"# {int(name[:4])}. Title\", an empty line and \"State: ...\""
    if not REJECTED.search(text):
        yield f"{name}: has no part **Rejected.**"


def listed(notes):
    """The lines of README.md; a title that is too long for one ends at its first colon."""
    titles = {name: HEADING.match(text) for name, text in notes.items()}
    for name, title in sorted(titles.items()):
        line = f"- [{name[:4]}]({name}): "
        if title:
            yield line + (title[2] if len(line + title[2]) <= COLUMNS else title[2].partition(":")[0])


def main():
    notes = {path.name: path.read_text() for path in FOLDER.glob("[0-9]*.md")}
    found = [each for name, text in sorted(notes.items()) for each in mistakes(name, text)]
    for number in {name[:4] for name in notes if sum(other[:4] == name[:4] for other in notes) > 1}:
        found.append(f"{number}: a number of two notes")
    page = FOLDER / "README.md"
    text = page.read_text()
    head = text[:text.index("\n- [") + 1]
    made = head + "\n".join(listed(notes)) + "\n"
    if "--write" in sys.argv:
        page.write_text(made)
    elif made != text:
        wrong = sorted(set(made.splitlines()) ^ set(text.splitlines()))
        found.append(f"README.md: run tests/docs/decisions_test.py --write; differs in {wrong[0] if wrong else 'order'}")
    print("\n".join(found) or f"decisions: {len(notes)}, each listed")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
