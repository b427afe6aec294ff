#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/make_benchmarks.py: tables of rows, and rows of what `weft bench --json` prints."""
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import make_benchmarks  # noqa: E402

OLD = {"command": "weft bench kernels", "commit": "a", "machine": "m",
       "rows": [{"name": "gemm/256", "peer": "openblas", "ratio": 2.0, "of_floor": 0.5},
                {"name": "gemm/256", "peer": "onednn", "ratio": 1.0}]}
RUN = [{"name": "gemm/256", "weft": 200.0, "peer": "openblas", "peer_value": 250.0, "ratio": 1.25, "floor": 150.0, "unit": "us"},
       {"name": "gemm/256", "weft": 200.0, "peer": "onednn", "peer_value": 190.0, "ratio": 0.95, "floor": 150.0, "unit": "us"},
       {"name": "gemv/64", "weft": 1.0, "peer": "onednn", "peer_value": 2.0, "ratio": 2.0, "floor": None, "unit": "us"}]


class Benchmarks(unittest.TestCase):
    def test_a_run_takes_the_place_of_the_rows_of_its_race(self):
        new = make_benchmarks.taken(OLD, map(json.dumps, RUN), "b", "n")
        self.assertEqual(make_benchmarks.table(new), """\
| GEMM | 256 |
|---|---|
| against openblas | 1.25 |
| against onednn | 0.95 |
| of the FMA peak | 0.75 |

`weft bench kernels`, commit b, n.
""")
        self.assertEqual(json.loads(make_benchmarks.written(new)), new)

    def test_a_run_without_a_rival_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "no gemm/256 against onednn"):
            make_benchmarks.taken(OLD, map(json.dumps, RUN[:1]), "b", "n")

    def test_the_page_shows_every_result_and_no_other(self):
        text = make_benchmarks.PAGE.read_text()
        self.assertEqual(make_benchmarks.page(text), text)
        with self.assertRaisesRegex(SystemExit, "bench/results has"):
            make_benchmarks.page(text.replace("<!-- table gemm -->", "<!-- table gem -->"))
        self.assertNotEqual(make_benchmarks.page(text.replace("3.08", "3.09")), text.replace("3.08", "3.09"))

    def test_a_table_written_by_hand_is_refused(self):
        text = make_benchmarks.PAGE.read_text()
        with self.assertRaisesRegex(SystemExit, "no file in bench/results has: . what"):
            make_benchmarks.page(text + "\n| what | ns |\n|---|---|\n| a tick | 1 |\n")

    def test_commits_that_are_not_in_the_history_are_merged_as_others(self):
        if not make_benchmarks.has_history():
            self.skipTest("no history")
        self.assertEqual(make_benchmarks.lost_commits(make_benchmarks.named_commits()), [])
        head = make_benchmarks.git("rev-parse", "--short=7", "HEAD").stdout.strip()
        self.assertEqual(make_benchmarks.lost_commits({head: "a", "0123abc": "b", "117eaec": "c"}), ["0123abc"])
        rows = json.loads((make_benchmarks.RESULTS / "merged.json").read_text())["rows"]
        self.assertEqual(make_benchmarks.lost_commits({row[1]: "merged" for row in rows}), [])

    def test_commits_are_told_from_other_numbers(self):
        text = ("(commit 7fd07c9, at 117eaec and c90b5fd8.) commit 8225484; 1234567 rows, deface1deface1, 1.1e1234, "
                "a/7fd07c9/b, defaced")
        self.assertEqual(make_benchmarks.COMMIT.findall(text), ["7fd07c9", "117eaec", "c90b5fd8", "8225484"])


if __name__ == "__main__":
    unittest.main()
