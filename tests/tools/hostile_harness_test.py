#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The harness of tests/hostile: skips are bounded, and an area in which nothing ran has not passed."""
import contextlib
import io
import os
import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hostile"))
import harness


def run(area, *functions):
    """The exit code and the words of an area of these cases."""
    os.environ.pop("CI", None)
    os.environ.pop("WEFT_TEST_SLICE", None)
    harness.CASES[:] = [(f"case {number}", function, ()) for number, function in enumerate(functions)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        return harness.main(area, None, ""), out.getvalue()


def passes(weft, folder):
    pass


def fails(weft, folder):
    harness.expect(False, "wrong")


def skips(weft, folder):
    raise harness.Skip("not root")


class Harness(unittest.TestCase):
    def test_bounds_skips_by_area(self):
        known = harness.REASONS["not root"]["limits"]
        self.assertEqual(harness.skip_problems("limits", {"not root": known}, False, True), [])
        self.assertEqual(len(harness.skip_problems("limits", {"not root": known + 1}, False, True)), 1)
        self.assertEqual(len(harness.skip_problems("tables", {"not root": 1}, False, False)), 1)

    def test_allows_no_skip_as_root_under_ci(self):
        for reason in harness.REASONS:
            self.assertEqual(len(harness.skip_problems("outputs", {reason: 1}, True, True)), 1)
            self.assertEqual(harness.skip_problems("outputs", {reason: 1}, True, False), [])
        self.assertEqual(harness.skip_problems("outputs", {}, True, True), [])

    def test_knows_each_reason(self):
        with self.assertRaises(AssertionError):
            harness.Skip("no time")

    def test_passes_where_a_case_passed_and_none_failed(self):
        self.assertEqual(run("tables", passes)[0], 0)
        self.assertEqual(run("tables", passes, fails)[0], 1)
        self.assertEqual(run("tables")[0], 1)
        code, words = run("tables", passes, skips)
        self.assertEqual(code, 1)
        self.assertIn("at most 0: not root", words)
        self.assertIn("1 skipped (1 not root)", words)
        self.assertEqual(run("limits", skips)[0], 1)

    def test_takes_every_other_case_of_a_slice(self):
        cases = list(range(5))
        for slices in ({}, {"WEFT_TEST_SLICE": "1", "WEFT_TEST_FULL": "1"}):
            with unittest.mock.patch.dict(os.environ, slices, clear=True):
                self.assertEqual(harness.in_slice(cases), cases)
        for turn, mine in (("6", [0, 2, 4]), ("7", [1, 3])):
            with unittest.mock.patch.dict(os.environ, {"WEFT_TEST_SLICE": turn, "WEFT_TEST_FULL": "0"}):
                self.assertEqual(harness.in_slice(cases), mine)


if __name__ == "__main__":
    unittest.main()
