#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: its commands run, one after the other in one empty directory, and print what it shows.

  tutorial_test.py WEFT [--write]
What a block of ```sh prints stands in the ```text block behind it, line for line; times, rates and what the moment of a
kill decides may differ. After <!-- at some moment --> a block shows some lines, of which the first words are compared.
--write puts the output there instead. Blocks of ```sh after <!-- not run here --> are left out:
tests/tasks/tasks_test.py runs them.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tutorial.md"
MOMENT = "<!-- at some moment -->\n"
BLOCK = re.compile(rf"(<!-- not run here -->\n|{MOMENT})?```(sh|text)\n(.*?)```\n", re.DOTALL)
PLACEHOLDER = re.compile(r"@[A-Z_]+@")
# Rates, times, and how much of a run its killer left to do.
VARYING = re.compile(r"[\d.,]+[kMG]?(?=/s\b)|[\d.,]+ (ns|us|ms|s|min)\b|[\d,]+(?= (records|markers)\b)|(?<=checkpoint of tick )[\d,]+")
SETTING = f"data={ROOT}/examples/data\n"


def run(script, folder, weft):
    environment = os.environ | {"PATH": f"{weft.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-ec", SETTING + script + "\nwait\n"], cwd=folder, env=environment, text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{script}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def masked(text):
    return VARYING.sub("N", "\n".join(line.rstrip() for line in text.strip("\n").splitlines()))


def first_words(text):
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def difference(shown, printed, is_moment):
    """The first line that differs, in words; nothing where there is none."""
    if is_moment:
        words = first_words(printed)
        lines = [line for line in shown.splitlines() if line.split()[0] not in words]
        return f"this line was not printed: {lines[0]}" if lines else None
    if masked(shown) == masked(printed):
        return None
    left, right = masked(shown).splitlines(), masked(printed).splitlines()
    at = next((i for i, pair in enumerate(zip(left, right)) if pair[0] != pair[1]), min(len(left), len(right)))
    return "\n".join(["it shows", *left[at:at + 1], "and this was printed", *right[at:at + 1]])


def written(shown, printed, is_moment):
    """The lines that the page is to show: at some moment those that it shows now, otherwise all."""
    lines = printed.strip("\n").splitlines()
    if is_moment and shown:
        lines = [line for line in lines if line.split() and line.split()[0] in first_words(shown)]
    return "".join(line.rstrip() + "\n" for line in lines)


def steps(page):
    """Each block of commands that is run, with the block of output behind it (a match) or None."""
    blocks = [block for block in BLOCK.finditer(page) if not block[3].startswith("data=")]
    if blocks and blocks[0][2] == "text":
        sys.exit(f"docs/tutorial.md shows output before any command:\n{blocks[0][0]}")
    for block, after in zip(blocks, blocks[1:] + [None]):
        if block[2] == "text" and after and after[2] == "text":
            sys.exit(f"docs/tutorial.md shows output that no command prints:\n{after[0]}")
        if block[2] == "sh" and not (block[1] or "").startswith("<!-- not run"):
            yield block[3], after if after and after[2] == "text" else None


def main():
    weft, is_written = pathlib.Path(sys.argv[1]).resolve(), "--write" in sys.argv
    page, changes, count, compared = PAGE.read_text(), [], 0, 0
    if not is_written and (found := PLACEHOLDER.search(page)):
        sys.exit(f"docs/tutorial.md holds the placeholder {found[0]}")
    with tempfile.TemporaryDirectory() as folder:
        for script, output in steps(page):
            printed = run(script, folder, weft)
            count += 1
            if bool(printed.strip()) != (output is not None):
                sys.exit(f"{script}prints {printed!r}, and docs/tutorial.md {'shows output' if output else 'does not show it'}")
            if output is None:
                continue
            compared += 1
            is_moment = output[1] == MOMENT
            if is_written:
                changes.append((output.span(3), written(output[3], printed, is_moment)))
            elif not output[3].strip() or (words := difference(output[3], printed, is_moment)):
                sys.exit(f"docs/tutorial.md, after\n{script}{words if output[3].strip() else 'shows nothing'}")
    for (begin, end), text in reversed(changes):
        page = page[:begin] + text + page[end:]
    if is_written:
        PAGE.write_text(page)
    if count < 8 or compared < 6:
        sys.exit(f"{count} blocks of commands and {compared} outputs were found")
    print(f"{count} blocks of commands, {compared} outputs")


if __name__ == "__main__":
    main()
