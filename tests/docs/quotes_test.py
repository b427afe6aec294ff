#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents quote the tree as it is, and their links lead somewhere.

<!-- quote: PATH --> before a code block: the block is that file (without its SPDX line).
<!-- excerpt: PATH --> before a code block: the block's lines stand in that file, in one piece (indentation aside).
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [p for p in sorted(ROOT.rglob("*.md")) if not p.relative_to(ROOT).parts[0].startswith(("build", "."))]
QUOTE = re.compile(r"<!-- (quote|excerpt): (\S+) -->\n```\w*\n(.*?)```\n", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def unindented(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


class Documents(unittest.TestCase):
    def test_quote_what_the_tree_holds(self):
        count = 0
        for document in DOCUMENTS:
            for kind, path, block in QUOTE.findall(document.read_text()):
                count += 1
                with self.subTest(document=document.name, path=path):
                    text = (ROOT / path).read_text()
                    if kind == "quote":
                        self.assertEqual(block, text.partition("\n\n")[2])
                    else:
                        self.assertIn("\n".join(unindented(block)), "\n".join(unindented(text)))
        self.assertGreater(count, 3)

    def test_point_at_something(self):
        for document in DOCUMENTS:
            for target in LINK.findall(re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)):
                with self.subTest(document=document.name, target=target):
                    self.assertTrue((document.parent / target).exists())

    def test_hold_no_placeholder(self):
        for document in DOCUMENTS:
            text = re.sub(r"`[^`\n]*`", "", document.read_text())  # `@PREFIX@` may be spoken of
            with self.subTest(document=document.name):
                self.assertEqual(re.findall(r"@[A-Z_]+@", text), [])


if __name__ == "__main__":
    unittest.main()
