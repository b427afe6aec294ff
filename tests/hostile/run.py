# SPDX-License-Identifier: Apache-2.0
"""Attacks on the program, in tables: tests/hostile/run.py WEFT AREA [TEXT-IN-THE-NAME]. An area is a file beside this
one."""
import importlib, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness

if __name__ == "__main__":
    importlib.import_module(sys.argv[2])
    sys.exit(harness.main(sys.argv[2], harness.Weft(os.path.abspath(sys.argv[1])), sys.argv[3] if len(sys.argv) > 3 else ""))
