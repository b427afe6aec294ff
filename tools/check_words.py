#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the words of code and docs. Run by ctest as tools.words and by tools/check.sh; prints every finding.

1. A comment or docstring begins with a noun or a verb: never What, How, Whether, Where, Who or Which.
2. A term of our own is not used where the field has one (docs/glossary.md has the words that stay).
3. Prose in Markdown wraps at 120 columns; tables, code and links that cannot be cut are exempt.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = 120
WORDS = r"(?:What|How|Whether|Where|Who|Which) "
OPENING = re.compile(r"^\s*(?:///?|#|\"\"\"|/\*\*?)\s*(?:<(?:summary|remarks|returns)>)?\s*" + WORDS)
BARE = re.compile(r"^\s*(?:/\*\*?|/// <(?:summary|remarks|returns)>|\"\"\")\s*$")  # what follows it begins the comment
FIRST = re.compile(r"^\s*(?:\*|///)?\s*" + WORDS)
# coinage: the field's term
TERMS = {
    r"lived|relived|life|lives|(?-i:kLife)|\w+_(?:life|lived|lives)|(?:life|lived|lives)_\w*": "run, replayed",
    r"(?-i:\w*(?:Life|Lived|Lives)(?![a-z])\w*)": "run, replayed",
    r"at_home": "data directory",
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
    r"birth|born": "creation, initial",
    r"troubled?": "last error",
    r"log_floored\w*": "clamped_log",
    r"route_equal": "max_backward",
    r"keep_largest": "top_k_mask",
    r"one_hot_largest": "argmax_one_hot",
    r"gap_displacement": "gap_residual",
    r"trains_otherwise": "has_training_mode",
    r"fault_?plans?|fault plans": "fault injection",
    r"watch_host|watches_host_|(?-i:Touched)": "track accesses, MemoryAccess",
    r"note_(?:not_finite|all_zero|in_last\w*)|notes_kept_at_": "flag",
    r"(?-i:Collector)|collector_": "GraphCapture",
    r"gpu::Program|RecordedProgram|(?:begin|end)_program": "command graph, capture",
    r"give_up\w*": "fall_back",
    r"has_landed_|landed": "readback",
    r"(?:push|pull)_(?:window|flags|updates)": "upload, download",
    r"(?!torch|np)\w+(?:\.|->)zeros|Weight(?:Bytes)?::zeros|(?:load_)?zeros_|load_zeros": "zero_points",
    r"\w+(?:\.|->)pieces?|pieces?(?:\.|->)\w+|kPieces?|pieces_": "region, allocation, chunk",
    r"(?-i:Course)|course_": "accuracy curve",
    r"(?-i:Activity)?(?-i:Board)|board_": "activity table, task queue",
    r"(?-i:Demand)": "workload",
    r"kStretch|stretches|stretch of": "batch, range",
    r"(?:size_t|float>|char>) room|room is used": "capacity, buffer",
    r"stands? still|stand_still": "pause, quiesce",
    r"(?:the|own) books": "state, tracking",
    r"asked for (?:early|ahead)|kAsks": "prefetch",
    r"era_": "epoch",
    r"(?:its|their|the last|other) figures": "statistics",
    r"carr(?:y|ies|ied|ying)(?:_| | it | them | all )out(?! of)|(?-i:\w*Carr(?:y|ies|ied)\w*Out\w*)": "execute",
    r"(?-i:OrderDesk|OrderKind|OrderScope|OrderPlace|OrderRow|OneOrder)|order_desk": "command",
    r"(?:an|the) orders? to (?:a|the) \w+": "command",
    r"(?:the )?original system": "Loom",
    r"held cop(?:y|ies)": "evaluated copies",
    r"(?-i:figures)(?:\.|->)\w+|figures of now": "statistics, metrics",
    r"(?:\w+_)?entity_v1\w*": "loom_entity",
    r"(?-i:struct Letter|\w+::Letter)|check_letter|letters_": "message, entry",
    r"(?-i:k\w*Room)|room\(\)": "capacity",
    r"claim_homes|homes_|assign_homes|worker_?shift": "assigned regions, WorkerRun",
    r"(?:adopt|orphan)(?:s|ed|er|ing|ion)?|(?:next_)?orphan_|adopted_": "steal, unowned",
    r"rests_|is_resting|(?:begin|end|should)_rest": "backoff",
    r"Layer_?Watch|Layer_?Meter": "LayerMonitor, LayerStatistics",
    r"models::Checkpoint|open_checkpoint|models/checkpoint|remembering(?=\()": "ModelFiles, with_context",
    r"self\.passes|passes=\d+|passes: int": "epochs",
    r"committers?_?|covered(?=\()|boundary\(\)": "JournalFlusher, checkpointed, log position",
    r"let_go\w*": "release, acquire",
    r"(?-i:Forks)|forks(?=\(|\.)|forks_": "ParallelParts, parallel operations",
    r"(?-i:is_opaque)_?|opaque layers?": "custom layer",
    r"mixing(?:[ _]matri(?:x|ces))?": "weight matrix",
    r"(?:actor|cell|region|mesh|device|host)'s borders?|borders? on": "boundary, neighbour",
    r"who (?:asks|helps) (?:waits|gets|from)": "caller, worker",
    r"hold_copies|index_limit|(?-i:ConstRows)|silent cells?|(?-i:Milestone|Parting|Companion)": "the word of docs/glossary.md",
}
TERM = re.compile(r"(?<![\w])(" + "|".join(f"(?:{t})" for t in TERMS) + r")(?![\w])", re.IGNORECASE)
EACH = [(re.compile(rf"(?:{term})(?!\w)", re.IGNORECASE), instead) for term, instead in TERMS.items()]
CODE = (".hpp", ".cpp", ".h", ".def", ".comp", ".glsl", ".inc", ".py", ".sh", ".md", ".cmake", "CMakeLists.txt",
        ".mjs", ".js", ".d.ts", ".cs")
OWN = ("tools/check_words.py", "tests/tools/check_words_test.py", "docs/glossary.md", "CHANGELOG.md", "docs/decisions/0032-final-names.md")


def long_prose(lines):
    """Numbers of lines of Markdown prose that are too long."""
    in_code = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
        words = line.split(" ")
        is_prose = not in_code and not line.startswith("    ") and not line.lstrip().startswith(("|", "<", "!["))
        if is_prose and len(line) > COLUMNS and max(map(len, words)) < COLUMNS - 40:
            yield number


def openings(lines):
    """Numbers of lines on which a comment begins with no noun or verb."""
    previous = ""
    for number, line in enumerate(lines, 1):
        if OPENING.match(line) or (BARE.match(previous) and FIRST.match(line)):
            yield number
        previous = line


def instead_of(match):
    """The field's term for a hit of TERM: looked up where it stands, as some terms look at what follows them."""
    return next(use for term, use in EACH if term.match(match.string, match.start()))


def findings(root=ROOT):
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in names:
        path = root / name
        if not name.endswith(CODE) or not path.is_file():
            continue
        lines = path.read_text(errors="replace").split("\n")
        if name not in OWN and not name.endswith(".md"):
            for number in openings(lines):
                yield name, number, f"begins with no noun or verb: {lines[number - 1].strip()}"
        for number, line in enumerate(lines, 1) if name not in OWN else ():
            for match in TERM.finditer(line):
                yield name, number, f"'{match.group(0)}': say {instead_of(match)} (docs/glossary.md)"
        if name.endswith(".md"):
            for number in long_prose(lines):
                yield name, number, f"over {COLUMNS} columns"


def main():
    found = list(findings())
    for name, number, text in found:
        print(f"{name}:{number}: {text}")
    print(f"words: {len(found)} findings" if found else "words: fine")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
