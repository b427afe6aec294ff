#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coinages are found in names as in prose, and English words that hold one are not."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_words  # noqa: E402


def found(text):
    return [match.group(0) for match in check_words.TERM.finditer(text)]


class Words(unittest.TestCase):
    def test_names_of_tests_hold_none(self):
        for text in ["TEST(A, LivesOn) {", "struct Lived {", "kLife", "expect_life(x)", "life_end", "it lived on",
                     "AsTheLifeDid", "at_home(x)", "two lives"]:
            self.assertEqual(len(found(text)), 1, text)

    def test_the_fields_terms_stay(self):
        for text in ["w.zeros = null", "bytes->zeros", "&WeightBytes::zeros", "entry.piece.use", "for kPiece bytes",
                     "bool mixing_matrix()", "class Board {", "void give_up_segment();", "it stands still"]:
            self.assertEqual(len(found(text)), 1, text)

    def test_names_of_commands_workers_and_messages(self):
        for text in ["class OrderDesk {", "command carried out", "carry it out", "it carries out",
                     "TEST(A, CarriesItOutAt) {", "an order to a cell",
                     "the original system",
                     "held copies", "figures->device", "figures.at", "bench/gpu/figures.hpp", "decode_entity_v1(bytes)", "Figures of now", "Inbox::Letter x", "kRoom",
                     "kCommandRoom", "p.late.room()", "claim_homes()", "WorkerShift", "worker_shift.hpp", "adopted_",
                     "two orphans", "LayerWatch", "layer_meter.hpp", "models::Checkpoint", "remembering(x)",
                     "self.passes", "fit(passes=2)"]:
            self.assertEqual(len(found(text)), 1, text)

    def test_names_of_logs_devices_and_parallel_parts(self):
        for text in ["committer_->flush()", "a committer", "void covered(LogPosition at)", "appended(boundary());",
                     "void let_go(const Error&)", "class Forks {", "cpu.forks()", "kernels/forks.hpp", "forks_.count()",
                     "places.is_opaque[node]", "is_opaque_[node]", "const int mixing = 0;", "the actor's border",
                     "who borders on whom", "Who asks waits"]:
            self.assertEqual(len(found(text)), 1, text)

    def test_every_hit_has_the_fields_term(self):
        text = "remembering(x), room(), covered(at), mixing, GPU's Touched, \"figures.at\""
        terms = [check_words.instead_of(match) for match in check_words.TERM.finditer(text)]
        self.assertEqual(terms[:4], ["ModelFiles, with_context", "capacity", "JournalFlusher, checkpointed, log position",
                                     "weight matrix"])
        self.assertEqual(len(terms), 6)

    def test_a_finding_names_file_line_and_term(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "init", "-q", folder], check=True)
            (pathlib.Path(folder) / "a.hpp").write_text("int a;\nint b = remembering(a);\n")
            subprocess.run(["git", "-C", folder, "add", "."], check=True)
            self.assertEqual(list(check_words.findings(pathlib.Path(folder))), [
                ("a.hpp", 2, "'remembering': say ModelFiles, with_context (docs/glossary.md)")])

    def test_comments_begin_with_a_noun_or_a_verb_in_every_language(self):
        for text in ["/// What it does", "/* What it does. */", "/** Whether it does. */", "/*\n * How it does\n */",
                     "    /// <summary>Where it is.</summary>", "/// <summary>\n/// Who it is.\n/// </summary>",
                     '    """Which it is."""', "# What it is"]:
            self.assertEqual(len(list(check_words.openings(text.split("\n")))), 1, text)
        for text in ["/* The answer. What it says is text. */", "/*\n * The answer.\n * What it says\n */",
                     "/// <summary>Values.</summary>", "int what;  // What it is not"]:
            self.assertEqual(list(check_words.openings(text.split("\n"))), [], text)
        for name in ["a.mjs", "a.js", "a.d.ts", "a.cs", "a.h", "a.py"]:
            self.assertTrue(name.endswith(check_words.CODE), name)

    def test_english_is_allowed(self):
        for text in ["in pieces. Then", "a row of zeros", "np.zeros(3)", "torch.zeros(1)", "room for more", "on demand",
                     "of course", "they give up", "a board", "lands",
                     "it must outlive the store", "with live state", "restore_live(mesh)", "a lifetime", "Lifetime",
                     "HOME", "home cores", "EachTestIsAlive", "a carry out of the mantissa",
                     "three letters", "a token passes", "the original", "orders of magnitude",
                     "pid_t child = fork();", "the parent forks", "the border of the grid", "an opaque handle",
                     "a boundary", "it is covered by a checkpoint", "at their borders", "let it go",
                     "in the order of their stamps", "no order to it"]:
            self.assertEqual(found(text), [], text)


if __name__ == "__main__":
    unittest.main()
