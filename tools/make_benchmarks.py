#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/benchmarks.md, made of the figures in bench/results/.

  tools/make_benchmarks.py                 writes the tables anew
  tools/make_benchmarks.py --check         fails where the page says anything else
  weft bench kernels --json | tools/make_benchmarks.py --take gemm COMMIT MACHINE
                                           replaces the figures of a race (gemv, gemm) by those of a run

A table stands between `<!-- table NAME -->` and `<!-- end -->`; NAME is that of its file. A file says which command, commit and
machine its rows come from. The rows of races (GEMV, GEMM) are those that `weft bench` prints, one a size and a rival.

--check also looks for each commit that documents and results name: it is in the history, or a row of the table `merged`, whose
commits are. Skipped without git, and in a clone without the history.
"""
import json
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs/benchmarks.md", ROOT / "bench/results"
HEX = r"(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,12}|(?<=commit )\d{7}"
COMMIT = re.compile(rf"(?<![\w/.-])(?:{HEX})(?![\w/-]|\.\w)")
MARKED = re.compile(r"(<!-- table ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def lines_of(heads, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, *rows)).replace(
        "\n", "\n|" + "---|" * len(heads) + "\n", 1) + "\n"


def race_table(kind, rows):
    """Sizes in columns; a line for each rival, and one for the machine's best."""
    own = [row for row in rows if row["name"].startswith(kind + "/")]
    sizes = list(dict.fromkeys(row["name"].partition("/")[2] for row in own))
    lines = []
    for peer in dict.fromkeys(row["peer"] for row in own):
        ratios = {row["name"].partition("/")[2]: row["ratio"] for row in own if row["peer"] == peer}
        lines.append([f"against {peer}", *(f"{ratios[size]:.2f}" for size in sizes)])
    floors = {row["name"].partition("/")[2]: row["of_floor"] for row in own if "of_floor" in row}
    lines.append(["of a plain read loop" if kind == "gemv" else "of the FMA peak",
                  *(f"{floors[size]:.2f}" for size in sizes)])
    return lines_of([kind.upper(), *sizes], lines)


def table(result):
    if "columns" in result:
        text = lines_of(result["columns"], [[str(cell) for cell in row] for row in result["rows"]])
    else:
        kinds = dict.fromkeys(row["name"].partition("/")[0] for row in result["rows"])
        text = "\n".join(race_table(kind, result["rows"]) for kind in kinds)
    if "commit" not in result:
        return text
    source = f"`{result['command']}`, commit {result['commit']}, {result['machine']}."
    return f"{text}\n{textwrap.fill(source, 120, break_on_hyphens=False)}\n"


def page(text):
    shown = [name for _, name, _ in MARKED.findall(text)]
    stored = [path.stem for path in RESULTS.glob("*.json")]
    if sorted(shown) != sorted(stored):
        sys.exit(f"{PAGE.name} shows {', '.join(sorted(shown))}; bench/results has {', '.join(sorted(stored))}")
    by_hand = [line for line in MARKED.sub("", text).splitlines() if line.startswith("|")]
    if by_hand:
        sys.exit(f"{PAGE.name} has a table that no file in bench/results has: {by_hand[0]}")
    return MARKED.sub(lambda m: m[1] + table(json.loads((RESULTS / f"{m[2]}.json").read_text())) + m[3], text)


def taken_row(row):
    """The cells of a table for a line of `weft bench --json`."""
    is_time = row["unit"] in ("ns", "us", "ms", "s")
    kept = {"name": row["name"], "peer": row["peer"], "ratio": round(row["ratio"], 3)}
    if row.get("floor"):
        kept["of_floor"] = round(row["floor"] / row["weft"] if is_time else row["weft"] / row["floor"], 3)
    return kept


def written(result):
    """A row a line."""
    head = {key: value for key, value in result.items() if key != "rows"}
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in result["rows"])
    return json.dumps(head, indent=1, ensure_ascii=False)[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n'


def taken(old, lines, commit, machine):
    """The result `old` with the rows of a run that it has, one for each size and rival."""
    wanted = {(row["name"], row["peer"]) for row in old["rows"]}
    rows = [taken_row(row) for row in map(json.loads, lines) if (row["name"], row.get("peer")) in wanted]
    missing = wanted - {(row["name"], row["peer"]) for row in rows}
    if missing:
        sys.exit(f"the run has no {', '.join(' against '.join(pair) for pair in sorted(missing))}")
    return {"command": old["command"], "commit": commit, "machine": machine, "rows": rows}


def take(name, commit, machine):
    path = RESULTS / f"{name}.json"
    old = json.loads(path.read_text())
    if "columns" in old:
        sys.exit(f"{name} is no race: edit {path.relative_to(ROOT)}")
    path.write_text(written(taken(old, sys.stdin, commit, machine)))


def git(*arguments, text=None):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, input=text, check=False)


def has_history():
    try:
        return git("rev-parse", "--is-shallow-repository").stdout.strip() == "false"
    except OSError:
        return False


def named_commits():
    """The commits that documents and results name: {commit: the first file that does}."""
    found = {}
    for path in [*sorted(RESULTS.glob("*.json")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]:
        for commit in COMMIT.findall(path.read_text()):
            found.setdefault(commit, path.relative_to(ROOT))
    return found


def lost_commits(named):
    """Those that are neither in the history nor rows of the table `merged`."""
    asked = "".join(f"{commit}^{{commit}}\n" for commit in named)
    answers = git("cat-file", "--batch-check", text=asked).stdout.splitlines()
    merged = {row[0] for row in json.loads((RESULTS / "merged.json").read_text())["rows"]}
    return [commit for commit, answer in zip(named, answers) if answer.endswith("missing") and commit not in merged]


def check_commits():
    if not has_history():
        print("commits that documents name: not looked for, there is no history")
        return
    named = named_commits()
    if lost := lost_commits(named):
        sys.exit("\n".join(f"{named[commit]} names commit {commit}, which is not in the history; where it was merged as another, say so "
                           "in bench/results/merged.json" for commit in lost))


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "--take":
        take(*arguments[1:])
    elif arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    text = PAGE.read_text()
    made = page(text)
    if arguments != ["--check"]:
        PAGE.write_text(made)
    elif made != text:
        sys.exit("docs/benchmarks.md does not say what bench/results says: run tools/make_benchmarks.py")
    else:
        check_commits()


if __name__ == "__main__":
    main(sys.argv[1:])
