#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the files of the program that name a loss, a rule, an optimiser, a schedule or a numeric type.

Usage: count_addition_files.py [--list NAME]   (fails where one needs more files than CONTRIBUTING.md says)

Counted are its own file, its row, and every other file of the program that names it as an enumerator or in a string.
Not counted: comments, files that name one as a default or as something else (USES), and the types of Loom's files.
"""
import pathlib
import re
import sys

import rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent
# kind, as CONTRIBUTING.md says it: list of names, its row there, the enumerators' type
KINDS = {
    "a loss": ("kernels/formulas/losses.def", r'losses/(\w+)\.inc', "kernels/formulas/losses/{}.inc", "Loss"),
    "a learning rule": ("learning/rules/rules.def", r"^WEFT_RULE\((\w+)\)", "learning/rules/{}.cpp", "Rule"),
    "an optimiser": ("kernels/formulas/optimizers.def", r'optimizers/(\w+)\.inc', "kernels/formulas/optimizers/{}.inc",
                     "OptimizerKind"),
    "a schedule of rates": ("kernels/formulas/schedules.def", r'schedules/(\w+)\.inc',
                            "kernels/formulas/schedules/{}.inc", "RateScheduleKind"),
    "a numeric type": ("core/dtypes.def", r"^WEFT_DTYPE\((\w+),", None, "Dtype"),
}
# Named as a default, or something else of that name.
USES = {
    "chain": {"mesh/network/network_json.cpp"},
    "linear": {"mesh/layers/attention.cpp", "learning/options.cpp", "models/rope_scaling.cpp"},
    "constant": {"kernels/rate_schedule.hpp", "kernels/rate_schedule.cpp", "cli/import.cpp",
                 "models/onnx/internal/onnx_moves.cpp", "models/onnx/internal/onnx_operators.cpp"},  # values of ONNX
    "cross_entropy": {"learning/options.hpp"},
    "backprop": {"learning/options.hpp", "cli/new.cpp"},
    "sgd": {"kernels/ops/optimizer.hpp"},
    "momentum": {"kernels/optimizer.hpp", "cli/new.cpp", "kernels/ops/optimizer.hpp",
                 "learning/optimizer_options.cpp",  # the option of that name
                 "kernels/optimizer.cpp"},  # WebAssembly has a form of its own for it
}
# Types in which sums, weights and codes are computed, not additions to them.
COMPUTED = ("float32", "float64", "int8", "uint8")
# In a condition ("type=adamw|lion"), or among the names of a message.
STRING = r'|"\w+=(?:\w+\|)*{0}[|"]|"[^"\n]*(?:`{0}`|[" ]{0}(?:, | or ))[^"\n]*"'


def stated():
    """The numbers in CONTRIBUTING.md: "- a loss: 2 files"."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return {kind: int(number) for kind, number in re.findall(r"^- (an? [\w ]+): (\d+) files", text, re.MULTILINE)}


def main():
    wanted = sys.argv[sys.argv.index("--list") + 1] if "--list" in sys.argv else None
    texts = [(str(path), text) for path, text in rooms.sources() if path.parent.name != "loom"]
    numbers, failures, lines = stated(), [], []
    for kind, (rows, pattern, own, enumeration) in KINDS.items():
        names = re.findall(pattern, (ROOT / rows).read_text(), re.MULTILINE)
        most = 0
        for name in names:
            if name in COMPUTED:
                continue
            named = re.compile(rf"\b{enumeration}::{name}\b" + (STRING.format(name) if own else ""))
            found = {path for path, text in texts if named.search(text)} - USES.get(name, set())
            found |= {rows} | ({own.format(name)} if own else set())
            most = max(most, len(found))
            if name == wanted:
                print("\n".join(sorted(found)))
            if len(found) > numbers.get(kind, 0):
                failures.append(f"{name}: {len(found)} files, CONTRIBUTING.md says {numbers.get(kind, 'nothing')} of "
                                f"{kind}: {', '.join(sorted(found))}")
        if not names:
            failures.append(f"{rows} has no rows")
        if most < numbers.get(kind, 0):
            failures.append(f"CONTRIBUTING.md says {numbers[kind]} files of {kind}, and {most} are enough")
        lines.append(f"{kind}: {most} files")
    print("\n".join(failures or lines))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
