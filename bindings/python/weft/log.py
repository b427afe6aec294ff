# SPDX-License-Identifier: Apache-2.0
"""Log lines for a function of Python."""
from __future__ import annotations

import _thread
import atexit
import ctypes
import os
import time
import traceback
from typing import Callable, List, Optional, Tuple

from . import _library
from ._library import lib
from .errors import WeftError

_SECONDS = 0.05  # that a reader waits for a line


class _Reader:
    """Takes lines out of the library and gives them to the function, on a thread of its own: the library's threads never
    enter Python, and a signal is never heard in the function."""

    def __init__(self, function: Callable[[int, str], None]) -> None:
        self.function = function
        self.is_over = self.is_done = False
        self.thread: Optional[int] = None

    def read(self) -> None:
        self.thread = _thread.get_ident()
        try:
            while True:
                is_last = self.is_over
                line = _next(0 if is_last else _SECONDS)
                if line is not None:
                    self.give(*line)
                elif is_last:
                    break
        finally:  # `end` waits for it
            self.is_done = True

    def give(self, level: int, text: str) -> None:
        """One line for the function. Exceptions of it go to stderr, where there is one, and end nothing."""
        try:
            self.function(level, text)
        except BaseException:
            try:
                traceback.print_exc()
            except BaseException:
                pass

    def end(self, seconds: float = float("inf")) -> None:
        """Returns when the lines so far were given, or the time is up."""
        end = time.monotonic() + seconds
        self.is_over = True
        while not self.is_done and self.thread != _thread.get_ident() and time.monotonic() < end:
            time.sleep(0.002)


_reader: List[_Reader] = []  # at most one
# A child process has no such thread: nothing is to wait for it.
getattr(os, "register_at_fork", lambda **_: None)(after_in_child=_reader.clear)
_buffer = ctypes.create_string_buffer(4096)


def _next(seconds: float) -> Optional[Tuple[int, str]]:
    """Level and text of the next line. None: none came."""
    level, needed, buffer = ctypes.c_int(), ctypes.c_size_t(), _buffer
    while True:
        try:
            lib.next_log(int(seconds * 1e9), level, buffer, len(buffer), needed)
            return level.value, buffer.value.decode(errors="replace")
        except WeftError as error:
            if error.name != "too_small":
                return None
            buffer = ctypes.create_string_buffer(needed.value)


def set_log(function: Optional[Callable[[int, str], None]], level: int = 3) -> None:
    """Log lines of `level` (0 trace to 4 error, 5 none) and above go to `function(level, text)`; None: to stderr.

    It is called on a thread of its own, soon after a line was logged, one at a time; for lines before this call the
    function before is called, before this returns. A child process after os.fork() calls it anew.
    """
    level = _library.whole(level, "level", 5)
    if function is None:
        lib.set_log(None, None, level)
    else:
        if not callable(function):
            raise _library.wrong_kind(f"function: {function!r} cannot be called")
        lib.keep_log(level)
    before, _reader[:] = _reader[:], []
    for reader in before:
        reader.end()
    if function is not None:
        _reader.append(_Reader(function))
        _thread.start_new_thread(_reader[-1].read, ())


@atexit.register
def _end() -> None:
    for reader in _reader:
        lib.set_log(None, None, 3)
        reader.end(1.0)
