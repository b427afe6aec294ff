#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_layers.py finds what it says it finds: each test plants one fault in a tree that is otherwise fine."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # noqa: E402

GOOD = {
    "tools/layers.txt": "# rows\ncore:\nkernels: core\nscheduler: core\nformats: core\nmesh: core kernels scheduler\n",
    "core/README.md": "# core\n", "core/words.hpp": "#include <vector>\n",
    "kernels/README.md": "# kernels\n", "kernels/fwd.hpp": "",
    "kernels/sum.cpp": '#include "kernels/internal/part.hpp"\n#include <immintrin.h>\n#include "core/words.hpp"\n',
    "kernels/internal/part.hpp": "#include <hwy/base.h>\n",
    "kernels/each.hpp": "// Not a header of its own: re-included once per ISA\n#include <hwy/highway.h>\n",
    "scheduler/README.md": "# scheduler\n", "scheduler/run.cpp": "#include <tbb/task_arena.h>\n",
    "formats/README.md": "# formats\n", "core/json.cpp": "#include <nlohmann/json.hpp>\n",
    "mesh/README.md": "# mesh\n", "mesh/runtime/cell.hpp": '#include "kernels/fwd.hpp"\n#include <cstdint>\n',
    "tests/README.md": "# tests\n",
    "tests/kernels/sum_test.cpp": '#include "kernels/internal/part.hpp"\n#include <gtest/gtest.h>\n',
    "tests/mesh/cell_test.cpp": '#include "mesh/runtime/cell.hpp"\n#include "tests/kernels/comparing.hpp"\n',
}


def faults(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (GOOD | changes).items():
            if text is not None:
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        return check_layers.check(pathlib.Path(folder))


class CheckLayers(unittest.TestCase):
    def assert_one(self, changes, *words):
        found = faults(changes)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_passes_a_tree_that_keeps_the_rules(self):
        self.assertEqual(faults({}), [])

    def test_refuses_an_edge_that_no_row_names(self):
        self.assert_one({"core/up.cpp": '#include <vector>\n\n#include "mesh/runtime/cell.hpp"\n'}, "core/up.cpp:3:", "mesh/")

    def test_refuses_tests_as_a_source_of_library_code(self):
        self.assert_one({"mesh/bad.cpp": '  #  include "tests/mesh/thing.hpp"\n'}, "mesh/bad.cpp:1:", "tests/")

    def test_refuses_an_include_without_its_folder(self):
        self.assert_one({"mesh/bad.cpp": '#include "cell.hpp"\n'}, "mesh/bad.cpp:1:", "cell.hpp")

    def test_refuses_a_foreign_internal(self):
        self.assert_one({"mesh/bad.cpp": '#include "kernels/internal/part.hpp"\n'}, "internal to", "kernels/")
        self.assert_one({"tests/mesh/bad.cpp": '#include "kernels/internal/part.hpp"\n'}, "internal to", "kernels/")

    def test_refuses_internal_in_a_public_header(self):
        self.assert_one({"kernels/bad.hpp": '#include "kernels/internal/part.hpp"\n'}, "kernels/bad.hpp:1:", "internal to")

    def test_keeps_vendors_at_home(self):
        for header, home in [("tbb/task_arena.h", "scheduler"), ("hwloc.h", "topology"), ("vulkan/vulkan.h", "gpu"),
                             ("volk.h", "gpu"), ("immintrin.h", "kernels"), ("arm_neon.h", "kernels"),
                             ("hwy/highway.h", "kernels")]:
            self.assert_one({"mesh/bad.cpp": f"#include <{header}>\n"}, "belongs to", home)
            self.assert_one({"tests/mesh/bad.cpp": f"#include <{header}>\n"}, "belongs to", home)

    def test_keeps_vendors_out_of_public_headers(self):
        for header in ["nlohmann/json_fwd.hpp", "sys/mman.h", "spdlog/spdlog.h", "unistd.h"]:
            self.assert_one({"mesh/bad.hpp": f"#include <{header}>\n"}, "public header", header)
        self.assert_one({"formats/bad.hpp": "#include <nlohmann/json.hpp>\n"}, "public header")
        self.assert_one({"kernels/bad.hpp": "#include <immintrin.h>\n"}, "public header")

    def test_keeps_headers_that_are_slow_to_compile_to_one_file(self):
        self.assert_one({"mesh/bad.cpp": "#include <spdlog/spdlog.h>\n"}, "mesh/bad.cpp:1:", "only core/log.cpp may")
        self.assertEqual(faults({"core/log.cpp": "#include <spdlog/spdlog.h>\n"}), [])

    def test_refuses_a_circle_in_the_rows(self):
        self.assert_one({"tools/layers.txt": GOOD["tools/layers.txt"].replace("core:", "core: mesh")}, "no earlier row")

    def test_wants_each_folder_introduced(self):
        self.assert_one({"mesh/README.md": None}, "mesh/README.md")
        self.assert_one({"mesh/README.md": "line\n" * 16}, "at most 15")
        self.assert_one({"mesh/fwd.hpp": ""}, "mesh/fwd.hpp", "nobody includes")
        self.assert_one({"tests/README.md": None}, "tests/README.md")


if __name__ == "__main__":
    unittest.main()
