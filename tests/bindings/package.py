# SPDX-License-Identifier: Apache-2.0
"""The Python package of this tree, and numpy: tests that need both end as skipped (77) where numpy is missing."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings/python"))
try:
    import numpy as np
except ImportError:
    print("no numpy here")
    sys.exit(77)

import weft  # noqa: E402

__all__ = ["ROOT", "np", "weft"]
