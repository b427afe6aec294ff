#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/embedding.md do what it says.

  embedding_test.py WEFT SOURCE PROGRAM...      programs: load, predict_while_learning, sixty_hz, two_agents, rollback,
      late_labels, watchdog
"""
import sys
import tempfile

from quoted_programs import quoted, run

weft, source, *programs = sys.argv[1:]
PROGRAMS = quoted(source, "docs/embedding.md", "examples/embedding", "embedding_", programs)


def main():
    with tempfile.TemporaryDirectory() as folder:
        entity = folder + "/digits.entity"
        run(weft, "run", source + "/examples/digits.json", "--quiet", "--max-samples", "300", "--save", entity)
        trained = run(PROGRAMS["load"], entity)
        fresh = run(PROGRAMS["load"], source + "/examples/digits.json")
        # The trained one goes on at its tick; the network file begins at tick 0.
        assert int(trained.split("tick ")[1].split(",")[0]) > 12 and "tick 12," in fresh, trained + fresh
        assert trained == run(PROGRAMS["load"], entity)
        missing = run(PROGRAMS["load"], folder + "/none.entity", expected=1)
        assert missing.startswith(folder + "/none.entity: "), missing

        assert run(PROGRAMS["predict_while_learning"]) == "100 of the last 100 answers were right\n"
        assert run(PROGRAMS["sixty_hz"]) == "30 frames, every one with ticks\n"
        assert run(PROGRAMS["rollback"]) == "the same bits\n"
        assert run(PROGRAMS["watchdog"]) == "0 hangs\n"
        whole = run(PROGRAMS["late_labels"], folder + "/whole")
        assert whole.startswith("1000 samples, 995 trained, 5 open, state "), whole
        for stop in ("3", "500", "777"):
            run(PROGRAMS["late_labels"], folder + "/cut", stop, expected=-9)
        assert run(PROGRAMS["late_labels"], folder + "/cut") == whole
        replayed = run(weft, "replay", folder + "/cut")
        assert whole.split("state ")[1].strip() in replayed, replayed
        for times in (1, 2, 3):
            assert run(PROGRAMS["two_agents"], folder) == f"ada has seen {times} samples\n"


main()
