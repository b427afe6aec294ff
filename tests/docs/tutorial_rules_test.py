#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test of the tutorial fails where the page shows something else, or nothing."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tutorial_test

COMMANDS = 8  # as many blocks as the page has at least


def page(shown, between=""):
    block = f"```sh\nprintf 'rate 5/s\\nhash 1a\\n'\n```\n{between}{shown}"
    return block * COMMANDS


def outcome(text, *more):
    """The test's findings about the page `text`, empty where it passes, and the page after it."""
    with tempfile.TemporaryDirectory() as folder:
        tutorial_test.PAGE = pathlib.Path(folder) / "page.md"
        tutorial_test.PAGE.write_text(text)
        sys.argv = ["tutorial_test.py", "/nowhere/bin/weft", *more]
        said = None
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                tutorial_test.main()
        except SystemExit as end:
            said = str(end)
        return said, tutorial_test.PAGE.read_text()


class Tutorial(unittest.TestCase):
    def test_passes_what_is_printed_but_for_rates(self):
        self.assertIsNone(outcome(page("```text\nrate 73.1k/s\nhash 1a\n```\n"))[0])
        self.assertIsNone(outcome(page("```text\nhash 2b\n```\n", "<!-- at some moment -->\n"))[0])

    def test_refuses(self):
        for shown, between, words in [("", "", "does not show it"), ("@RUN@\n", "", "placeholder @RUN@"),
                                      ("```text\n```\n", "", "shows nothing"), ("```text\nrate 5/s\n```\n", "", "hash 1a"),
                                      ("```text\nrate 5/s\nhash 1b\n```\n", "", "hash 1b"),
                                      ("```text\nrate 5/s\nhash 1a\nmore\n```\n", "", "more"),
                                      ("```text\nhush 1a\n```\n", "<!-- at some moment -->\n", "hush 1a")]:
            with self.subTest(shown=shown):
                self.assertIn(words, outcome(page(shown, between))[0] or "passed")

    def test_refuses_output_of_nothing_and_commands_that_fail(self):
        right = "```text\nrate 5/s\nhash 1a\n```\n"
        self.assertIn("no command prints", outcome(page(right) + right)[0] or "passed")
        self.assertIn("shows output", outcome(page(right) + "```sh\ntrue\n```\n" + right)[0] or "passed")
        self.assertIn("exit 3", outcome(page(right) + "```sh\nexit 3\n```\n")[0] or "passed")
        self.assertIn("were found", outcome("no commands at all")[0] or "passed")

    def test_fills_empty_blocks(self):
        said, text = outcome(page("```text\n```\n"), "--write")
        self.assertIsNone(said)
        self.assertEqual(text, page("```text\nrate 5/s\nhash 1a\n```\n"))


if __name__ == "__main__":
    unittest.main()
