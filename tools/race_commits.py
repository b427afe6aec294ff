#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races two builds of weft-bench in alternating pairs, for docs/benchmarks.md.

  tools/race_commits.py OLD NEW OLD_COMMIT NEW_COMMIT MACHINE [ROUNDS [SUITE...]] >bench/results/guard.json

OLD and NEW are programs weft-bench of two commits. Each round runs each suite (learn, mesh) by both, the first of them in turn. A
row's ratio is the median over the rounds of new / old of one pair, with quartiles: above 1 the new one is faster.
"""
import json
import re
import statistics
import subprocess
import sys

RATES = {"samples/s", "ticks/s", "steps/s", "GB/s"}


def rows_of(program, suite):
    out = subprocess.run([program, suite, "--json"], check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    # Without "on 8" of a row's name: the number of regions is the program's choice.
    return {(re.sub(r" on \d+", "", row["name"]), row.get("peer") or ""): row for row in rows if "name" in row}


def main():
    old, new, old_commit, new_commit, machine, *rest = sys.argv[1:]
    rounds = int(rest[0]) if rest else 5
    suites = rest[1:] or ["learn", "mesh"]
    ratios, values = {}, {}
    for i in range(rounds):
        for suite in suites:
            order = [old, new] if i % 2 == 0 else [new, old]
            pair = {program: rows_of(program, suite) for program in order}
            for key in [key for key in pair[old] if key in pair[new]]:
                a, b = pair[old][key], pair[new][key]
                if a["unit"] not in RATES and a["unit"] not in ("ns", "us", "ms", "s"):
                    continue
                ratio = b["weft"] / a["weft"] if a["unit"] in RATES else a["weft"] / b["weft"]
                ratios.setdefault((suite, *key), []).append(ratio)
                values.setdefault((suite, *key), []).append((a["weft"], b["weft"], a["unit"]))
            print(f"round {i + 1} of {rounds}: {suite}", file=sys.stderr)
    rows, medians = [], []
    for key in ratios:
        own = sorted(ratios[key])
        low, middle, high = statistics.quantiles(own, n=4) if len(own) > 1 else own * 3
        medians.append(middle)
        figure = [statistics.median(value[i] for value in values[key]) for i in (0, 1)]
        rows.append([key[1] + (f", beside {key[2]}" if key[2] and key[2] != "ticks alone" else ""),
                     f"{figure[0]:,.4g} {values[key][0][2]}", f"{figure[1]:,.4g}",
                     f"{middle:.3f} ({low:.3f} to {high:.3f})"])
    rows.append(["median of all", "", "", f"{statistics.median(medians):.3f}"])
    result = {"command": f"tools/race_commits.py, {rounds} alternating pairs of {' and '.join(f'weft-bench {s}' for s in suites)}",
              "commit": f"{new_commit} against {old_commit}", "machine": machine,
              "columns": ["row", f"at {old_commit}", f"at {new_commit}", "new / old (quartiles)"], "rows": rows}
    head = json.dumps({k: v for k, v in result.items() if k != "rows"}, indent=1, ensure_ascii=False)[:-2]
    print(head + ',\n "rows": [\n' + ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows) + "\n ]\n}")


main()
