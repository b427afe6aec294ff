#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coinages are found in names as in prose, and English words that hold one are not."""
import pathlib
import sys
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

    def test_english_is_allowed(self):
        for text in ["in pieces. Then", "a row of zeros", "np.zeros(3)", "torch.zeros(1)", "room for more", "on demand",
                     "of course", "they give up", "a board", "lands",
                     "it must outlive the store", "with live state", "restore_live(mesh)", "a lifetime", "Lifetime",
                     "HOME", "home cores", "EachTestIsAlive"]:
            self.assertEqual(found(text), [], text)


if __name__ == "__main__":
    unittest.main()
