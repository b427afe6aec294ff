#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: its commands run, one after the other in one empty directory, and print what it says.

  tutorial_test.py WEFT [--write]
Each line of a ```text block stands in what was printed before it, as it is; --write puts the output there instead. Blocks of ```sh
after <!-- not run here --> are left out: tests/tasks/tasks_test.py runs them.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tutorial.md"
BLOCK = re.compile(r"(<!-- not run here -->\n)?```(sh|text)\n(.*?)```\n", re.DOTALL)
VARYING = re.compile(r"^(samples|ticks) .*/s\)$|^course")  # rates, and what a terminal's width decides


def run(script, folder, weft):
    environment = os.environ | {"PATH": f"{weft.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env=environment, text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{script}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    weft, is_written = pathlib.Path(sys.argv[1]).resolve(), "--write" in sys.argv
    page, printed, count, changed = PAGE.read_text(), "", 0, []
    setting = f"data={ROOT}/examples/data\n"
    with tempfile.TemporaryDirectory() as folder:
        for skipped, kind, body in BLOCK.findall(page):
            if kind == "sh" and not skipped and not body.startswith("data="):
                printed = run(setting + body, folder, weft)
                count += 1
            if kind != "text":
                continue
            shown = [line for line in printed.splitlines() if not VARYING.match(line)]
            if is_written:
                changed.append((body, "\n".join(shown).strip("\n") + "\n"))
            for line in [] if is_written else body.splitlines():
                if line not in shown:
                    sys.exit(f"docs/tutorial.md has a line that was not printed:\n{line}\nprinted was:\n{printed}")
    for old, new in changed:
        page = page.replace("```text\n" + old, "```text\n" + new, 1)
    PAGE.write_text(page) if is_written else None
    if count < 5:
        sys.exit(f"{count} blocks of commands were found")
    print(f"{count} blocks of commands")


if __name__ == "__main__":
    main()
