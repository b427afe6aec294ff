#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_unity.py: names that files of one batch may not both have."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_unity  # noqa: E402


def source(text, space="weft::mesh"):
    return f"namespace {space} {{\nnamespace {{\n{text}\n}}  // namespace\n}}  // namespace {space}\n"


class CheckUnity(unittest.TestCase):
    def errors(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return "\n".join(check_unity.check(pathlib.Path(folder)))

    def pair(self, a, b):
        return self.errors({"mesh/a.cpp": source(a), "mesh/b.cpp": source(b)})

    def test_finds_what_both_declare(self):
        for text in ("constexpr int kLimit = 3;", "const char* const kLimit[] = {\"a\", \"}\"};", "struct kLimit { int a; };",
                     "constexpr int kOther = min(1, 2), kLimit = 4;", "enum class kLimit { a, b };",
                     "int kLimit(const std::map<int, int>& a) { if (a.empty()) { return 1; } return 2; }",
                     "template <class T>\nT kLimit(const T& a) noexcept {\n  return a;\n}"):
            told = self.pair(text, "int other() { return 0; }\n" + text)
            self.assertIn("mesh/a.cpp and mesh/b.cpp: both have 'kLimit' in the anonymous namespace of weft::mesh", told, text)

    def test_lets_other_functions_and_the_same_alias_pass(self):
        self.assertEqual(self.pair("int a(int b) { return b; }", "int a(float b) { return 1; }"), "")
        self.assertEqual(self.pair("using Clock = std::chrono::steady_clock;", "using Clock = std::chrono::steady_clock;"), "")
        self.assertEqual(self.pair("using Row = int;", "int row() { struct Row { int a; }; return 1; }"), "")
        self.assertEqual(self.pair("struct Row;", "int row;  // struct Row { }"), "")
        self.assertIn("'Row'", self.pair("using Row = int;", "using Row = float;"))

    def test_other_namespaces_and_rooms_are_apart(self):
        text = "constexpr int kLimit = 3;"
        self.assertEqual(self.errors({"mesh/a.cpp": source(text), "mesh/b.cpp": source(text, "weft::mesh::other")}), "")
        self.assertEqual(self.errors({"mesh/a.cpp": source(text), "agent/b.cpp": source(text)}), "")

    def test_a_file_that_stays_alone_may_have_any_name(self):
        alone = '#define WEFT_THIS_FILE "kernels/a.cpp"\n' + source("constexpr int kLimit = 3;")
        self.assertEqual(self.errors({"kernels/a.cpp": alone, "kernels/b.cpp": source("constexpr int kLimit = 3;")}), "")

    def test_a_name_of_a_header_is_not_hidden(self):
        header = "namespace weft {\nstruct Field { int a; };\n}  // namespace weft\n"
        told = self.errors({"core/field.hpp": header, "mesh/a.cpp": source("struct Field { int b; };")})
        self.assertIn("mesh/a.cpp: 'Field' in its anonymous namespace hides that of core/field.hpp", told)

    def test_a_using_declaration_of_a_name_that_a_header_declares(self):
        header = "namespace weft::mesh {\nstruct Field { int a; };\n}  // namespace weft::mesh\n"
        text = "namespace weft::mesh {\nusing core::Field;\nint a() { using core::Field; return 1; }\n}  // namespace weft::mesh\n"
        told = self.errors({"mesh/field.hpp": header, "mesh/a.cpp": text})
        self.assertEqual(told, "mesh/a.cpp: 'using ...::Field' clashes with the Field of mesh/field.hpp in the files after it")
        self.assertEqual(self.errors({"core/field.hpp": header.replace("weft::mesh", "weft"), "mesh/a.cpp": text}), "")

    def test_a_test_file_has_a_namespace_of_its_own(self):
        told = self.errors({"tests/mesh/a_test.cpp": source("int a;"), "tests/mesh/b_test.cpp": source("int a;", "weft::mesh::b_test")})
        self.assertEqual(told, "tests/mesh/a_test.cpp: its namespace ends with ::a_test, so that other tests may have the same names")


if __name__ == "__main__":
    unittest.main()
