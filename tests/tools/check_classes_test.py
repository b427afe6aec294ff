#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_classes.py finds what it says it finds: each test plants one fault in a tree that is otherwise fine."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_classes  # noqa: E402

HEADER = '#include "core/words.hpp"\nnamespace weft::mesh { class Mesh { public: void tick(); private: int ticks_; }; }\n'


def of(members, functions, name="Engine"):
    body = "".join(f"  void f{i}(int);\n" for i in range(functions))
    body += "".join(f"  int m{i}_ = 0, n{i}_;\n" for i in range(members // 2)) + "  int last_;\n" * (members % 2)
    return f"namespace weft::mesh {{\nclass {name} {{\n public:\n{body}}};\n}}\n"


def faults(changes):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        tree = {"mesh/mesh.hpp": HEADER, "core/words.hpp": "", "mesh/runtime/engine.hpp": of(20, 45)} | changes
        for name, text in tree.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_classes.check(pathlib.Path(folder))


class CheckClasses(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(check_classes, "KNOWN", {})
        patch.start()
        self.addCleanup(patch.stop)

    def expect(self, changes, *texts):
        found = faults(changes)
        self.assertEqual(len(found), 1, found)
        for text in texts:
            self.assertIn(text, found[0])

    def test_a_tree_at_the_limits_is_fine(self):
        self.assertEqual(faults({}), [])

    def test_members(self):
        self.expect({"mesh/runtime/engine.hpp": of(21, 3)}, "mesh/runtime/engine.hpp", "weft::mesh::Engine", "21 data members")

    def test_functions(self):
        self.expect({"mesh/runtime/engine.hpp": of(2, 46)}, "46 functions")

    def test_a_record_may_be_long(self):
        self.assertEqual(faults({"mesh/runtime/engine.hpp": of(40, 0)}), [])

    def test_definitions_elsewhere_count_once(self):
        body = "".join(f"void Engine::f{i}(int) {{}}\n" for i in range(45))
        self.assertEqual(faults({"mesh/runtime/engine.cpp": f'#include "mesh/runtime/engine.hpp"\nnamespace weft::mesh {{\n{body}}}\n'}),
                         [])

    def test_tests_are_not_looked_at(self):
        self.assertEqual(faults({"tests/mesh/big.hpp": of(30, 50)}), [])

    def test_known_classes(self):
        with mock.patch.object(check_classes, "KNOWN", {"weft::mesh::Engine": "reason"}):
            self.assertEqual(faults({"mesh/runtime/engine.hpp": of(21, 46)}), [])
            self.expect({}, "KNOWN names weft::mesh::Engine")

    def test_headers_behind_the_users_header(self):
        chain = {f"core/h{i}.hpp": f'#include "core/h{i + 1}.hpp"\n' for i in range(25)} | {"core/h25.hpp": ""}
        self.expect(chain | {"core/words.hpp": '#include "core/h0.hpp"\n'}, "mesh/mesh.hpp", "see 27 Weft headers")
        self.assertEqual(faults(chain | {"core/words.hpp": '#include "core/h2.hpp"\n'}), [])

    def test_words_of_few_files(self):
        named = {f"mesh/a{i}.cpp": "// Metacognition\n" for i in range(7)}
        self.expect(named, "7 production files")
        named.pop("mesh/a6.cpp")
        self.assertEqual(faults(named), [])


if __name__ == "__main__":
    unittest.main()
