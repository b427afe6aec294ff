# SPDX-License-Identifier: Apache-2.0
"""Calls of C that call back, on threads of their own. What a signal raises in a callback of C is lost, and a thread that
is in one when the interpreter ends takes the process along. So what calls back are threads that hear no signals, and
of which none is left then.

A signal can come between any two steps of Python. So nothing here waits for what Python code holds: threads begin by
one call of C, and a queue of C is all that passes between them.
"""
from __future__ import annotations

import _thread
import atexit
import queue
import threading
import time
from typing import Any, Callable, List, Optional, Set


class _Work:
    """A call on its thread, as both sides see it."""

    def __init__(self) -> None:
        self.is_over = False  # nobody wants the rest of it
        self.may_begin = self.is_begun = self.is_done = False
        self.gate: "queue.SimpleQueue[bool]" = queue.SimpleQueue()  # whether it is to begin
        self.given: "queue.SimpleQueue[Optional[Any]]" = queue.SimpleQueue()  # what it gives; None: it has ended
        self.failed: List[BaseException] = []

    def finish(self) -> None:
        """Tells it to end, or not to begin, and waits until it has; signals that come meanwhile are dropped, for the first
        one is being raised already. A thread that does not begin within a second was not started."""
        latest = time.monotonic() + 1
        while self.may_begin and not self.is_done:
            try:
                self.is_over = True
                self.gate.put(False)
                self.may_begin = self.is_begun or time.monotonic() < latest
                self.given.get(timeout=0.05)
            except BaseException:
                pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.finish()


_daemons: Set[_Work] = set()  # of threads that the interpreter does not wait for
_is_ending = [False]


def run(call: Callable[[Callable[[Any], bool]], Any], take: Callable[[Any], Any]) -> None:
    """`call(give)` on a thread of its own; what it gives is taken on the caller's, where a signal raises. `give` is false
    where no more is wanted. Returns, or raises, when that thread has come to its end."""
    is_daemon = threading.current_thread().daemon
    if not is_daemon and threading.current_thread() is not threading.main_thread():
        return _run_here(call, take)  # no signal is heard there, and the interpreter waits for it
    work = _Work()

    def give(value: Any) -> bool:
        if not work.is_over and value:
            work.given.put(value)
        return not work.is_over

    def body() -> None:
        work.is_begun = True
        if is_daemon:
            _daemons.add(work)
        try:
            if not (is_daemon and _is_ending[0]) and work.gate.get():
                call(give)
        except BaseException as error:
            work.failed.append(error)
        _daemons.discard(work)
        work.is_done = True
        work.given.put(None)

    # Eight times, for one more signal can come before each `finish` has begun.
    with work, work, work, work, work, work, work, work:
        work.may_begin = True
        try:
            _thread.start_new_thread(body, ())
        except RuntimeError:  # while the interpreter ends, Python 3.12 begins no thread
            work.may_begin = False
        work.gate.put(work.may_begin)
        while work.may_begin and (value := work.given.get()) is not None:
            take(value)
    if not work.may_begin:
        return _run_here(call, take)
    if is_daemon and _is_ending[0]:
        raise SystemExit  # of this thread: without a word
    if work.failed:
        raise work.failed[0]


def _run_here(call: Callable[[Callable[[Any], bool]], Any], take: Callable[[Any], Any]) -> None:
    """The same without a thread. What `take` raises ends the call, and is raised when it has returned."""
    failed: List[BaseException] = []

    def give(value: Any) -> bool:
        try:
            if value and not failed:
                take(value)
        except BaseException as error:
            failed.append(error)
        return not failed

    try:
        call(give)
    except BaseException:
        if not failed:
            raise
    if failed:
        raise failed[0]


def run_apart(call: Callable[[], Any]) -> None:
    """`call()`, which calls nothing back, on a thread of its own: a signal raises at once, and the call goes on."""
    ended: "queue.SimpleQueue[Optional[BaseException]]" = queue.SimpleQueue()

    def body() -> None:
        try:
            call()
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    try:
        _thread.start_new_thread(body, ())
    except RuntimeError:  # while the interpreter ends
        return call()
    failed = ended.get()
    if failed is not None:
        raise failed


def _end() -> None:
    _is_ending[0] = True
    for work in list(_daemons):
        work.is_over = True
        work.gate.put(False)
        while not work.is_done:
            try:
                time.sleep(0.001)
            except BaseException:  # a signal: the process must not end before them
                pass


# Before the interpreter waits for other threads, which may themselves wait for these.
getattr(threading, "_register_atexit", atexit.register)(_end)
