#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/rooms.py --check finds each list that differs from the table: each test makes one differ in a tree that
agrees."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import rooms  # noqa: E402

TABLE = "# rooms\ncore: | xxhash | sanitized\nkernels: core | hwy |\ntext: core\nmesh: core kernels text\ncli: core kernels mesh\n"
PICTURE = """floor  room        rests on
    3  cli         mesh
    2  mesh        kernels
    1  kernels     core
    0  core"""
GOOD = {
    "tools/layers.txt": TABLE,
    "README.md": "| folder | what | may include |\n|---|---|---|\n| [core](core/README.md) | words | nothing |\n"
                 "| [kernels](kernels/README.md) | sums | core |\n| [mesh](mesh/README.md) | cells | core kernels |\n"
                 "| [cli](cli/README.md) | `weft` | all |\n",
    "docs/architecture.md": f"{rooms.OPEN}\n```text\n{PICTURE}\n```\n{rooms.CLOSE}\n",
    ".clang-format": "".join('  - {Regex: "^\\"%s/", Priority: %d}\n' % row
                             for row in [("cli", 1), ("mesh", 2), ("(kernels|text)", 3), ("core", 4)]),
    ".clang-tidy": "HeaderFilterRegex: '/(core|kernels|mesh|cli)/'\n",
    "core/README.md": "", "kernels/README.md": "", "mesh/README.md": "", "cli/README.md": "",
}


def faults(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (GOOD | changes).items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return rooms.check(pathlib.Path(folder))


class Rooms(unittest.TestCase):
    def assert_one(self, name, before, after, *words):
        self.assertIn(before, GOOD[name])
        found = faults({name: GOOD[name].replace(before, after)})
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_passes_lists_that_agree(self):
        self.assertEqual(faults({}), [])

    def test_finds_a_room_that_the_readme_lacks_or_says_wrong(self):
        self.assert_one("README.md", "| [kernels](kernels/README.md) | sums | core |\n", "", "README.md", "kernels")
        self.assert_one("README.md", "| core kernels |", "| core |", "mesh", "core kernels")
        self.assert_one("README.md", "| core kernels |", "| all |", "mesh", "core kernels")
        self.assert_one("README.md", "| [", "| (", "no table")

    def test_finds_another_picture(self):
        self.assert_one("docs/architecture.md", "2  mesh        kernels", "2  mesh        core", "architecture.md")

    def test_finds_an_order_of_includes_that_is_not_the_table_s(self):
        self.assert_one(".clang-format", 'text)/", Priority: 3', 'text)/", Priority: 1', ".clang-format", "kernels stands above mesh")
        self.assert_one(".clang-format", "kernels|text", "kernels|texts", "texts", "no room")

    def test_finds_a_lint_that_leaves_a_room_out(self):
        self.assert_one(".clang-tidy", "core|kernels|", "core|", ".clang-tidy", "kernels")


if __name__ == "__main__":
    unittest.main()
