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


class WeftTypeError(WeftError, TypeError):
    """An argument of a kind that does not do."""


class WeftLookupError(WeftError, LookupError):
    """Something that is not there, or not yet: a key of a network, the answer to a sample or a command."""


class WeftFileError(WeftError, OSError):
    """A file or directory that is damaged, or cannot be read or written."""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class WeftFileNotFoundError(WeftFileError, FileNotFoundError):
    """A file or directory that is not there, or has not in it what is looked for."""


class WeftMemoryError(WeftError, MemoryError):
    """More memory than there is."""


_KINDS: Dict[str, Type[WeftError]] = {
    **dict.fromkeys(("invalid_argument", "shape_mismatch", "out_of_range", "parse_failed", "unknown_name",
                     "duplicate_name", "not_finite", "bad_handle"), WeftValueError),
    **dict.fromkeys(("corrupt", "storage"), WeftFileError), "not_found": WeftLookupError,
    **dict.fromkeys(("too_large", "no_memory"), WeftMemoryError),
}
_CODES = {"invalid_argument": 2, "shape_mismatch": 3, "out_of_range": 4, "parse_failed": 5, "unknown_name": 6,
          "duplicate_name": 7, "corrupt": 9, "unsupported": 10, "not_found": 11, "storage": 12, "not_finite": 15,
          "halted": 16}  # as in weft.h


def error_of(code: int, name: str, text: str, of_files: bool = False) -> WeftError:
    """The exception for a failed call; `of_files`: it looks for something on a disk or in a file."""
    if of_files and name == "not_found":
        return WeftFileNotFoundError(code, name, text)
    return _KINDS.get(name, WeftError)(code, name, text)


def refused(name: str, text: str) -> WeftError:
    """The exception for what this package refuses, as the library would."""
    return error_of(_CODES[name], name, text)


def wrong_kind(text: str) -> WeftTypeError:
    """The exception for an argument of another kind."""
    return WeftTypeError(_CODES["invalid_argument"], "invalid_argument", text)


def of_system(error: OSError) -> WeftError:
    """The exception for what the system refuses of a file."""
    name = "not_found" if isinstance(error, FileNotFoundError) else "storage"
    return error_of(_CODES[name], name, str(error), of_files=True)
