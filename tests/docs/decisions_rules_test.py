#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test of decisions names what a note lacks, and lists a long title up to its colon."""
import unittest

import decisions_test

NOTE = "# 7. Rows: in order\n\nState: supported.\n\n**Choice.** Rows.\n\n**Rejected.** Columns.\n"


class Decisions(unittest.TestCase):
    def test_a_note_has_number_state_and_what_was_rejected(self):
        self.assertEqual(list(decisions_test.mistakes("0007-rows.md", NOTE)), [])
        self.assertEqual(list(decisions_test.mistakes("0007-rows.md", NOTE.replace("**Rejected.**", "## Rejected\n"))), [])
        for text in (NOTE.replace("# 7.", "# 0007:"), NOTE.replace("# 7.", "# 8."), NOTE.replace("State: supported.\n\n", "")):
            self.assertEqual(len(list(decisions_test.mistakes("0007-rows.md", text))), 1, text)
        self.assertIn("Rejected", next(decisions_test.mistakes("0007-rows.md", NOTE.replace("Rejected", "Not taken"))))

    def test_the_index_has_a_line_each_in_order(self):
        notes = {"0008-b.md": NOTE.replace("7. Rows: in order", "8. B: " + "b" * 120), "0007-a.md": NOTE}
        self.assertEqual(list(decisions_test.listed(notes)), ["- [0007](0007-a.md): Rows: in order", "- [0008](0008-b.md): B"])


if __name__ == "__main__":
    unittest.main()
