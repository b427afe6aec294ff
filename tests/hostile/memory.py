# SPDX-License-Identifier: Apache-2.0
"""No memory for one allocation after the other, and for all from one on: an error in words, never an abort; what is
on disk is as good as after a kill."""
import collections, os, re
from harness import *

ALLOCATOR = "failing_allocator.so"  # beside the program (failing_allocator.cpp)
LARGE = 4096  # bytes: what is smaller is got where a large one was not
MOST = 40  # places tried of a command


def preloaded(weft, at, more={}):
    library = os.path.join(os.path.dirname(os.path.abspath(weft.program)), ALLOCATOR)
    return {"LD_PRELOAD": library, "FAIL_AT": str(at), "FAIL_SIZE": str(LARGE), **more}


def allocations(weft, arguments):
    out = weft(*arguments, env=preloaded(weft, 1 << 40, {"FAIL_COUNT": "1"}))
    found = re.search(r"^allocations (\d+)$", out.err, re.M)
    expect(found, "not counted", arguments, out)
    return int(found[1])


@case("no memory for", *[(line, *way) for line in ("hash N", "inspect N --json", "new --from {folder}/g.csv", "run N --quiet --threads 2",
                                                   "run N --quiet --save {folder}/{n}.entity", "predict {m} --data {folder}/g.csv",
                                                   "morph {m} --dtype int8 -o {folder}/{n}.entity", "sweep N --seconds 0.001")
                          for way in ((), ("all after it",))])
def one_by_one(weft, folder, line, *way):
    if weft.is_sanitized():
        return  # they have an allocator of their own
    model = entity(weft, folder)
    arguments = lambda n: [f"{folder}/n.json" if word == "N" else word.format(folder=folder, m=model, n=n) for word in line.split()]
    number = allocations(weft, arguments("whole"))
    ends = collections.Counter()
    for at in range(0, number, max(1, number // MOST)):
        out = weft(*arguments(at), env=preloaded(weft, at, {"FAIL_ALL": "1"} if way else {}))
        ends[out.exit] += 1
        expect(out.exit in (0, 1, 3, 5), f"exit {out.exit} at allocation {at} of {number}", arguments(at), out)
        expect(out.exit == 0 or "weft: error: " in out.err, f"no word at allocation {at} of {number}", arguments(at), out)
    expect(ends[0] < sum(ends.values()), f"none was missed: {dict(ends)}", (line,))


@case("an agent goes on to the same end after no memory for", *[(f"allocation {k} of {MOST // 4}", k) for k in range(MOST // 4)])
def agent(weft, folder, _, k):
    if weft.is_sanitized():
        return
    net, directory = prepare(folder), f"{folder}/agent"
    plain = ("run", net, "--epochs", 40, "--quiet", "--threads", 2)
    arguments = (*plain, "--checkpoint-every", 300)
    right = state_hash(weft(*plain))
    number = allocations(weft, (*arguments, "--state", f"{folder}/counted"))
    at = number * k // (MOST // 4)
    out = weft(*arguments, "--state", directory, env=preloaded(weft, at))
    expect(out.exit in (0, 1, 3, 5), f"exit {out.exit} at allocation {at} of {number}", arguments, out)
    expect(out.exit == 0 or "weft: error: " in out.err, f"no word at allocation {at} of {number}", arguments, out)
    last = weft(*arguments, "--state", directory)
    expect(last.exit == 0 and state_hash(last) == right, f"another state hash after allocation {at}", arguments, last)
