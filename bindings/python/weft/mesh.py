# SPDX-License-Identifier: Apache-2.0
"""Meshes that tick."""
from __future__ import annotations

import ctypes
import json
import os
import math
import time
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

import numpy as np

from . import _library
from ._library import address, floats, lib, make_values
from ._slices import Slices, is_finite, rows_of
from .errors import refused, wrong_kind
from .network import Handle, Network, Place, coord

COMMANDS = ("enable", "disable", "set_period", "set_weights", "reset", "probe", "snapshot", "morph",
            "set_rate")


class Snapshot(Handle):
    """A mesh at one moment, in memory. Its memory is used again by the next one taken into it."""
    _destroy = staticmethod(lib.snapshot_destroy)

    def __init__(self) -> None:
        handle = c_void_p()
        lib.snapshot_create(handle)
        super().__init__(handle)


class Answer(Handle):
    """Fate of a command, and its answer."""
    _destroy = staticmethod(lib.answer_destroy)

    @property
    def done_at(self) -> Optional[int]:
        """The tick before which it was executed; None: not yet. Raises what went wrong."""
        is_done, tick = c_int(), c_uint64()
        lib.answer_status(self._handle, is_done, tick)
        return tick.value if is_done.value else None

    @property
    def values(self) -> np.ndarray:
        """Of `probe` and `snapshot`: [values]."""
        return _library.read_floats(lib.answer_values, self._handle)


class Mesh(Handle):
    """A network that runs. Values move one link a tick; the same network, seed and inputs give the same bits.

    One thread at a time: another one gets WeftError `busy`.
    """
    _destroy = staticmethod(lib.mesh_destroy)

    def __init__(self, network: Union[Network, str, Dict[str, Any]], *, threads: int = 0, sessions: int = 1,
                 executor: Optional[str] = None, device: Optional[str] = None, max_memory: int = 0,
                 executor_seed: int = 0, pin: bool = True, keeps_masters: bool = True) -> None:
        """threads 0: all cores, 1: the caller's alone. sessions: independent states over one set of weights.

        executor: auto, resident, graph, deterministic (in an order drawn from executor_seed). device: cpu, vulkan,
        vulkan:N. max_memory: bytes that it may take by estimate, else WeftMemoryError; 0: what the system has.
        pin False: workers are not kept on their cores. keeps_masters False: quantized weights take their true size,
        and cannot learn.
        """
        made = network if isinstance(network, Network) else Network(network)
        handle = c_void_p()
        options = mesh_options(threads=threads, sessions=sessions, executor=executor, device=device,
                               max_memory=max_memory, executor_seed=executor_seed, no_pinning=not _library.truth(pin, "pin"),
                               no_masters=not _library.truth(keeps_masters, "keeps_masters"))
        lib.mesh_build(made._handle, ctypes.byref(options), handle)
        self._begin(handle)

    @classmethod
    def load(cls, source: "Union[str, os.PathLike[str], bytes]", *, threads: int = 0, executor: Optional[str] = None,
             device: Optional[str] = None, max_memory: int = 0, executor_seed: int = 0, pin: bool = True,
             keeps_masters: bool = True) -> "Mesh":
        """From a network file or an .entity file: its path, or its bytes. `Learner.load` takes a learner along."""
        handle = c_void_p()
        options = mesh_options(threads=threads, executor=executor, device=device, max_memory=max_memory,
                               executor_seed=executor_seed, no_pinning=not _library.truth(pin, "pin"),
                               no_masters=not _library.truth(keeps_masters, "keeps_masters"))
        if isinstance(source, (bytes, bytearray, memoryview)):
            source = _library.buffer(source, "source")
            lib.mesh_load_bytes(source, len(source), ctypes.byref(options), handle)
        else:
            lib.mesh_load(_library.path(source), ctypes.byref(options), handle)
        return cls._of(handle)

    @classmethod
    def _of(cls, handle: c_void_p) -> "Mesh":
        made = cls.__new__(cls)
        made._begin(handle)
        return made

    def _begin(self, handle: c_void_p) -> None:
        Handle.__init__(self, handle)
        self._ticks, self._runs, self._rows = Slices(), Slices(), Slices()
        self._description: Optional[Dict[str, Any]] = None

    # Ticks

    def set_input(self, port: str, values: Any, session: int = 0) -> None:
        """Puts values [width] into a port; they stay until replaced."""
        given = floats(values)
        lib.mesh_set_input(self._handle, _library.text(port, "port"), _library.whole(session, "session"),
                           address(given), given.size)

    def output(self, name: Union[str, Place], session: int = 0) -> np.ndarray:
        """Values that an output, or the layer at a place, committed last: [width]."""
        session = _library.whole(session, "session")
        if isinstance(name, str):
            return _library.read_floats(lib.mesh_output, self._handle, _library.text(name, "name"), session)
        return _library.read_floats(lib.mesh_output_at, self._handle, coord(name), session)

    def tick(self, ticks: int = 1) -> None:
        """So many ticks. KeyboardInterrupt stops between two of them; the mesh is good then."""
        for begin, end in self._ticks(_library.whole(ticks, "ticks", 2 ** 64 - 1)):
            lib.mesh_tick(self._handle, end - begin)

    def tick_for(self, seconds: float) -> int:
        """Ticks until the time is up; returns how many: at least one where there is any time. KeyboardInterrupt stops between two of them."""
        seconds = _library.real(seconds, "seconds")
        if not 0 <= seconds < math.inf:
            raise refused("out_of_range", f"seconds: {seconds} is not 0 or more")
        end = time.perf_counter() + seconds
        done, ticks, slowest = 0, c_uint64(), 0.0
        while True:
            began = time.perf_counter()
            if done and began + slowest > end:
                return done
            lib.mesh_tick_for(self._handle, max(0, int(min(end - began, 0.02) * 1e9)), ticks)
            if ticks.value == 0:
                return done
            done += ticks.value
            slowest = (time.perf_counter() - began) / ticks.value

    def run(self, inputs: Mapping[str, Any], ticks: Optional[int] = None,
            outputs: Optional[Sequence[str]] = None) -> Dict[str, np.ndarray]:
        """Inputs [ticks, width], or with several sessions [ticks, sessions, width]; outputs likewise, float32.

        KeyboardInterrupt stops between two ticks.
        """
        sessions = self.sessions
        given = {name: floats(values) for name, values in _library.items(inputs, "inputs")}
        if ticks is None:
            if not given:
                raise refused("invalid_argument", "ticks: how many, where no input says it?")
            ticks = first_length(given)
        ticks = _library.whole(ticks, "ticks")
        made = self._room(outputs, (ticks,) if sessions == 1 else (ticks, sessions))

        def part(from_: Any, count: int, to: Any) -> None:
            lib.mesh_run(self._handle, from_, len(from_), count, to, len(to))

        call_in_slices(self._runs, ticks, given, made, part)
        return made

    def forward(self, inputs: Mapping[str, Any], outputs: Optional[Sequence[str]] = None) -> Dict[str, np.ndarray]:
        """One pass without ticks: inputs [rows, width], outputs [rows, width], float32. Feedback reads zero."""
        given = {name: floats(values) for name, values in _library.items(inputs, "inputs")}
        rows = first_length(given)
        made = self._room(outputs, (rows,))

        def part(from_: Any, count: int, to: Any) -> None:
            lib.mesh_forward(self._handle, from_, len(from_), count, to, len(to))

        call_in_slices(self._rows, rows, given, made, part)
        return made

    def _room(self, outputs: Optional[Sequence[str]], shape: tuple) -> Dict[str, np.ndarray]:
        widths = {row["name"]: row["width"] for row in self.description["outputs"]}
        names = widths if outputs is None else _library.listed(outputs, "outputs")
        for name in names:
            _library.text(name, "output")
        return {name: np.empty((*shape, widths.get(name, 0)), np.float32) for name in names}

    def resume(self) -> None:
        """Goes on after a fault halted the mesh."""
        lib.mesh_resume(self._handle)

    # State

    @property
    def ticks(self) -> int:
        """Ticks since it was built, or since the mesh was that a file holds."""
        ticks = c_uint64()
        lib.mesh_ticks(self._handle, ticks)
        return ticks.value

    @property
    def sessions(self) -> int:
        """Independent states over its weights."""
        sessions = c_size_t()
        lib.mesh_sessions(self._handle, sessions)
        return sessions.value

    def state_hash(self, session: int = 0) -> str:
        """32 hex digits: equal states, equal text."""
        return _library.read_text(lib.mesh_state_hash, self._handle, _library.whole(session, "session"))

    @property
    def description(self) -> Dict[str, Any]:
        """The network as it was built: inputs, outputs and layers with shapes, parameters and latencies."""
        if self._description is None:
            self._description = json.loads(_library.read_text(lib.mesh_describe, self._handle))
        return self._description

    def statistics(self) -> Dict[str, Any]:
        """Statistics of now: ticks, cells by status, faults, memory, device."""
        return json.loads(_library.read_text(lib.mesh_statistics, self._handle))

    def save(self, path: "str | os.PathLike[str]", live: bool = True) -> None:
        """An .entity file; live: with sessions and all that ticks change, and the learner that drives it, if any:
        `Learner.load` goes on with both."""
        lib.mesh_save(self._handle, _library.path(path), _library.truth(live, "live"))

    def to_bytes(self, live: bool = True) -> bytes:
        """The file that `save` would write."""
        return _library.read_bytes(lib.mesh_save_bytes, self._handle, _library.truth(live, "live"))

    def take_snapshot(self, to: Optional[Snapshot] = None) -> Snapshot:
        """All that ticks change, and weights where a learner drives it; `to`: a snapshot whose memory is used again."""
        kept = Snapshot() if to is None else _library.is_a(to, Snapshot, "to")
        lib.mesh_take_snapshot(self._handle, kept._handle)
        return kept

    def restore_snapshot(self, snapshot: Snapshot) -> None:
        """Ticks after it are those after it was taken, to the bit."""
        lib.mesh_restore_snapshot(self._handle, _library.is_a(snapshot, Snapshot, "snapshot")._handle)

    def add_session(self) -> int:
        """A new session at zero state; its number."""
        session = c_size_t()
        lib.mesh_add_session(self._handle, session)
        return session.value

    def remove_session(self, session: int) -> None:
        """Later sessions move down by one."""
        lib.mesh_remove_session(self._handle, _library.whole(session, "session"))

    def reset_session(self, session: int = 0) -> None:
        """Puts a session back to zero state."""
        lib.mesh_reset_session(self._handle, _library.whole(session, "session"))

    def detach_session(self, session: int = 0) -> bytes:
        """One session as a file's bytes; the mesh keeps it."""
        return _library.read_bytes(lib.mesh_detach_session, self._handle, _library.whole(session, "session"))

    def attach_session(self, file: bytes, other_weights: bool = False) -> int:
        """Adds a session that goes on where the detached one stood; its number. other_weights: also of a mesh with
        other weights."""
        session, given = c_size_t(), _library.buffer(file, "file")
        lib.mesh_attach_session(self._handle, given, len(given), _library.truth(other_weights, "other_weights"), session)
        return session.value

    # Weights and commands

    def weights(self, at: Place, parameter: int = 0) -> np.ndarray:
        """A copy of a layer's parameter: [out, in], or a vector."""
        place = coord(at)
        parameter = _library.whole(parameter, "parameter")
        values = _library.read_floats(lib.mesh_read_weights, self._handle, place, parameter)
        where = [place.z, place.y, place.x, place.layer]
        row = next(row for row in self.description["layers"] if row["at"] == where)
        return values.reshape(row["parameters"][parameter]["shape"])

    def set_weights(self, at: Place, values: Any, parameter: int = 0) -> None:
        """Writes a layer's parameter: [out, in], or a vector."""
        given = floats(values)
        lib.mesh_write_weights(self._handle, coord(at), _library.whole(parameter, "parameter"), address(given),
                               given.size)

    def morph(self, at: Place, dtype: str, granularity: Optional[str] = None) -> None:
        """Stores a layer's matrices in another numeric type."""
        lib.mesh_morph(self._handle, coord(at), _library.text(dtype, "dtype"),
                       _library.text_or_none(granularity, "granularity"))
        self._description = None

    def command(self, kind: str, at: Place, *, number: int = 0, parameter: int = 0, not_before: int = 0,
                dtype: Optional[str] = None, granularity: Optional[str] = None, values: Any = ()) -> Answer:
        """Sends a command to a cell, to be executed at its next tick: one of COMMANDS."""
        if _library.text(kind, "command").decode() not in COMMANDS:
            raise refused("unknown_name", f"command {kind!r} is none of {', '.join(COMMANDS)}")
        given = floats(values)
        made = _library.Command(kind=COMMANDS.index(kind), at=coord(at), parameter=parameter, number=number,
                                not_before=not_before, dtype=_library.text_or_none(dtype, "dtype"),
                                granularity=_library.text_or_none(granularity, "granularity"), values=address(given), count=given.size)
        handle = c_void_p()
        lib.mesh_command(self._handle, ctypes.byref(made), handle)
        self._description = None
        return Answer(handle)

    def __repr__(self) -> str:
        if self._handle is None:
            return "<weft.Mesh, closed>"
        return f"<weft.Mesh {self.description['name']!r}, {len(self.description['layers'])} layers, tick {self.ticks}>"

    def _repr_svg_(self) -> str:
        from .picture import mesh_svg
        return mesh_svg(self.description)

    def __reduce__(self) -> Any:
        return Mesh.load, (self.to_bytes(),)


def mesh_options(*, executor: Optional[str] = None, device: Optional[str] = None, **numbers: Any) -> _library.MeshOptions:
    """Options of a mesh as the C ABI takes them. @error ValueError: a number below 0 or too large"""
    return _library.MeshOptions(executor=_library.text_or_none(executor, "executor"),
                                device=_library.text_or_none(device, "device"), **numbers)


def first_length(arrays: Mapping[str, np.ndarray]) -> int:
    """Rows of the first one; 0: there is none. @error ValueError: it is one number"""
    for name, array in arrays.items():
        if array.ndim == 0:
            raise refused("shape_mismatch", f"{name}: one number, where rows of values are expected")
        return len(array)
    return 0


def call_in_slices(slices: Slices, rows: int, given: Mapping[str, np.ndarray], made: Mapping[str, np.ndarray],
                   part: Callable[[Any, int, Any], None]) -> None:
    """`part(inputs, rows, outputs)` for slices of the rows; for all at once where a part could be refused after others
    were done."""
    cut = {name: rows_of(array, rows) for name, array in given.items()}
    room = {name: rows_of(array, rows) for name, array in made.items()}
    if any(array is None or not is_finite(array) for array in cut.values()) or \
            any(array is None for array in room.values()):
        (from_, kept), (to, kept_too) = make_values(given), make_values(made)
        part(from_, rows, to)
        return
    for begin, end in slices(rows):
        from_, kept = make_values({name: array[begin:end] for name, array in cut.items() if array is not None})
        to, kept_too = make_values({name: array[begin:end] for name, array in room.items() if array is not None})
        part(from_, end - begin, to)
