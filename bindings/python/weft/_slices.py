# SPDX-License-Identifier: Apache-2.0
"""Long calls in parts, so that KeyboardInterrupt is heard between two of them."""
from __future__ import annotations

import time
from typing import Iterator, Optional, Tuple

import numpy as np

_SECONDS = 0.02


class Slices:
    """Sizes of the parts that calls of one kind are cut into: so short that Ctrl-C is heard soon, so long that calls
    cost nothing. What one call learned about its time, the next one uses."""

    def __init__(self) -> None:
        self.size = 1

    def __call__(self, total: int) -> Iterator[Tuple[int, int]]:
        """Begin and end of each part; the caller does its work before it takes the next one."""
        begin = 0
        while begin < total:
            size = self.size
            end = min(total, begin + size)
            began = time.perf_counter()
            yield begin, end
            took = time.perf_counter() - began
            if end - begin == size:
                self.size = size * 2 if took < _SECONDS else max(1, size // 2) if took > 2 * _SECONDS else size
            begin = end


def rows_of(array: np.ndarray, rows: int) -> Optional[np.ndarray]:
    """[rows, values of one], without a copy; None: it has no such form."""
    return array.reshape(rows, -1) if rows > 0 and array.size > 0 and array.size % rows == 0 else None


def is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
