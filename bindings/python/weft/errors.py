# SPDX-License-Identifier: Apache-2.0
"""Failures of Weft as exceptions."""
from __future__ import annotations

from typing import Any, Dict, Type


class WeftError(RuntimeError):
    """A call that failed: `code` (as in weft.h), `name` ("shape_mismatch") and `text`."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.code, self.name, self.text = code, name, text

    def __reduce__(self) -> Any:
        return type(self), (self.code, self.name, self.text)


class WeftValueError(WeftError, ValueError):
    """An argument, a shape, a name or a text that is wrong."""


class WeftFileError(WeftError, OSError):
    """A file or directory that is missing, damaged or cannot be written."""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class WeftMemoryError(WeftError, MemoryError):
    """More memory than there is."""


_KINDS: Dict[str, Type[WeftError]] = {
    **dict.fromkeys(("invalid_argument", "shape_mismatch", "out_of_range", "parse_failed", "unknown_name",
                     "duplicate_name", "not_finite", "bad_handle"), WeftValueError),
    **dict.fromkeys(("corrupt", "not_found", "storage"), WeftFileError),
    **dict.fromkeys(("too_large", "no_memory"), WeftMemoryError),
}


def error_of(code: int, name: str, text: str) -> WeftError:
    """The exception for a failed call."""
    return _KINDS.get(name, WeftError)(code, name, text)
