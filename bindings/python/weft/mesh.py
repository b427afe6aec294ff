# SPDX-License-Identifier: Apache-2.0
"""Meshes that tick."""
from __future__ import annotations

import ctypes
import json
import os
import time
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Dict, Mapping, Optional, Sequence, Union

import numpy as np

from . import _library
from ._library import address, floats, lib, make_values
from .network import Handle, Network, Place, coord

COMMANDS = ("enable", "disable", "set_period", "set_weights", "reset", "probe", "snapshot", "morph",
            "set_rate")
_SLICE_SECONDS = 0.02


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
                 executor: Optional[str] = None, device: Optional[str] = None, max_memory: int = 0) -> None:
        """threads 0: all cores, 1: the caller's alone. sessions: independent states over one set of weights."""
        made = network if isinstance(network, Network) else Network(network)
        handle = c_void_p()
        options = _options(threads, sessions, executor, device, max_memory)
        lib.mesh_build(made._handle, ctypes.byref(options), handle)
        self._begin(handle)

    @classmethod
    def load(cls, source: "Union[str, os.PathLike[str], bytes]", *, threads: int = 0, executor: Optional[str] = None,
             device: Optional[str] = None, max_memory: int = 0) -> "Mesh":
        """From a network file or an .entity file: its path, or its bytes."""
        handle = c_void_p()
        options = _options(threads, 1, executor, device, max_memory)
        if isinstance(source, bytes):
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
        self._slice = 1
        self._description: Optional[Dict[str, Any]] = None

    # Ticks

    def set_input(self, port: str, values: Any, session: int = 0) -> None:
        """Puts values [width] into a port; they stay until replaced."""
        given = floats(values)
        lib.mesh_set_input(self._handle, port.encode(), session, address(given), given.size)

    def output(self, name: Union[str, Place], session: int = 0) -> np.ndarray:
        """Values that an output, or the layer at a place, committed last: [width]."""
        if isinstance(name, str):
            return _library.read_floats(lib.mesh_output, self._handle, name.encode(), session)
        return _library.read_floats(lib.mesh_output_at, self._handle, coord(name), session)

    def tick(self, ticks: int = 1) -> None:
        """So many ticks. KeyboardInterrupt stops between two of them; the mesh is good then."""
        left = int(ticks)
        if left < 0:
            raise ValueError(f"ticks: {ticks}")
        while left > 0:
            now = min(left, self._slice)
            began = time.perf_counter()
            lib.mesh_tick(self._handle, now)
            left -= now
            took = time.perf_counter() - began
            if now == self._slice:  # so long that Ctrl-C is heard soon, so short that calls cost nothing
                self._slice = now * 2 if took < _SLICE_SECONDS else max(1, now // 2) if took > 4 * _SLICE_SECONDS else now

    def tick_for(self, seconds: float) -> int:
        """Ticks until the time is up, at least one; returns how many."""
        ticks = c_uint64()
        lib.mesh_tick_for(self._handle, max(0, int(seconds * 1e9)), ticks)
        return ticks.value

    def run(self, inputs: Mapping[str, Any], ticks: Optional[int] = None,
            outputs: Optional[Sequence[str]] = None) -> Dict[str, np.ndarray]:
        """Inputs [ticks, width], or with several sessions [ticks, sessions, width]; outputs likewise."""
        sessions = self.sessions
        given = {name: floats(values) for name, values in inputs.items()}
        if ticks is None:
            if not given:
                raise ValueError("ticks: how many, where no input says it?")
            ticks = len(next(iter(given.values())))
        made = self._room(outputs, (ticks,) if sessions == 1 else (ticks, sessions))
        (from_, kept), (to, kept_too) = make_values(given), make_values(made)
        lib.mesh_run(self._handle, from_, len(from_), ticks, to, len(to))
        return made

    def forward(self, inputs: Mapping[str, Any], outputs: Optional[Sequence[str]] = None) -> Dict[str, np.ndarray]:
        """One pass without ticks: inputs [rows, width], outputs [rows, width]. Feedback reads zero."""
        given = {name: floats(values) for name, values in inputs.items()}
        rows = len(next(iter(given.values()))) if given else 0
        made = self._room(outputs, (rows,))
        (from_, kept), (to, kept_too) = make_values(given), make_values(made)
        lib.mesh_forward(self._handle, from_, len(from_), rows, to, len(to))
        return made

    def _room(self, outputs: Optional[Sequence[str]], shape: tuple) -> Dict[str, np.ndarray]:
        widths = {row["name"]: row["width"] for row in self.description["outputs"]}
        names = widths if outputs is None else outputs
        return {name: np.empty((*shape, widths.get(name, 0)), np.float32) for name in names}

    def resume(self) -> None:
        """Goes on after a fault halted the mesh."""
        lib.mesh_resume(self._handle)

    # State

    @property
    def ticks(self) -> int:
        ticks = c_uint64()
        lib.mesh_ticks(self._handle, ticks)
        return ticks.value

    @property
    def sessions(self) -> int:
        sessions = c_size_t()
        lib.mesh_sessions(self._handle, sessions)
        return sessions.value

    def state_hash(self, session: int = 0) -> str:
        """32 hex digits: equal states, equal text."""
        return _library.read_text(lib.mesh_state_hash, self._handle, session)

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
        """An .entity file; live: with sessions and all that ticks change."""
        lib.mesh_save(self._handle, _library.path(path), live)

    def to_bytes(self, live: bool = True) -> bytes:
        return _library.read_bytes(lib.mesh_save_bytes, self._handle, live)

    def take_snapshot(self, to: Optional[Snapshot] = None) -> Snapshot:
        kept = to or Snapshot()
        lib.mesh_take_snapshot(self._handle, kept._handle)
        return kept

    def restore_snapshot(self, snapshot: Snapshot) -> None:
        """Ticks after it are those after it was taken, to the bit."""
        lib.mesh_restore_snapshot(self._handle, snapshot._handle)

    def add_session(self) -> int:
        session = c_size_t()
        lib.mesh_add_session(self._handle, session)
        return session.value

    def remove_session(self, session: int) -> None:
        lib.mesh_remove_session(self._handle, session)

    def reset_session(self, session: int = 0) -> None:
        lib.mesh_reset_session(self._handle, session)

    def detach_session(self, session: int = 0) -> bytes:
        """One session as a file's bytes; the mesh keeps it."""
        return _library.read_bytes(lib.mesh_detach_session, self._handle, session)

    def attach_session(self, file: bytes, other_weights: bool = False) -> int:
        session = c_size_t()
        lib.mesh_attach_session(self._handle, file, len(file), other_weights, session)
        return session.value

    # Weights and commands

    def weights(self, at: Place, parameter: int = 0) -> np.ndarray:
        """A copy of a layer's parameter: [out, in], or a vector."""
        place = coord(at)
        values = _library.read_floats(lib.mesh_read_weights, self._handle, place, parameter)
        where = [place.z, place.y, place.x, place.layer]
        row = next(row for row in self.description["layers"] if row["at"] == where)
        return values.reshape(row["parameters"][parameter]["shape"])

    def set_weights(self, at: Place, values: Any, parameter: int = 0) -> None:
        given = floats(values)
        lib.mesh_write_weights(self._handle, coord(at), parameter, address(given), given.size)

    def morph(self, at: Place, dtype: str, granularity: Optional[str] = None) -> None:
        """Stores a layer's matrices in another numeric type."""
        lib.mesh_morph(self._handle, coord(at), dtype.encode(), _library.text(granularity))
        self._description = None

    def command(self, kind: str, at: Place, *, number: int = 0, parameter: int = 0, not_before: int = 0,
                dtype: Optional[str] = None, granularity: Optional[str] = None, values: Any = ()) -> Answer:
        """Sends a command to a cell, to be executed at its next tick: one of COMMANDS."""
        if kind not in COMMANDS:
            raise ValueError(f"command {kind!r} is none of {', '.join(COMMANDS)}")
        given = floats(values)
        made = _library.Command(kind=COMMANDS.index(kind), at=coord(at), parameter=parameter, number=number,
                                not_before=not_before, dtype=_library.text(dtype),
                                granularity=_library.text(granularity), values=address(given), count=given.size)
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

    def __reduce__(self):
        return Mesh.load, (self.to_bytes(),)


def _options(threads: int, sessions: int, executor: Optional[str], device: Optional[str],
             max_memory: int) -> _library.MeshOptions:
    return _library.MeshOptions(threads=threads, sessions=sessions, executor=_library.text(executor),
                                device=_library.text(device), max_memory=max_memory)
