# SPDX-License-Identifier: Apache-2.0
"""Learning in a mesh's ticks, and agents that keep it in a directory."""
from __future__ import annotations

import ctypes
import json
import os
import threading
from ctypes import c_float, c_size_t, c_uint64, c_void_p
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _library, _threads
from ._library import address, floats, lib, make_values
from ._slices import Slices, is_finite
from .errors import refused
from .mesh import Mesh, call_in_slices, first_length, mesh_options
from .network import Handle, Network

NO_LABEL = 2 ** 32 - 1
_NO_SESSION = ctypes.c_size_t(-1).value
_SMALL = 4096  # values of a sample that is copied
_predict_one, _learn_one = lib.learner_predict_one, lib.learner_learn_one


class Learner(Handle):
    """Learns in the ticks of a mesh, which it drives until it is closed.

    Targets are whole numbers (labels) or floats (values), [samples] or [samples, width].
    """
    _destroy = staticmethod(lib.learner_destroy)

    def __init__(self, mesh: Mesh, **options: Any) -> None:
        """Options are those of a network file's section "learning"; none: the network's own."""
        handle = c_void_p()
        lib.learner_build(_library.is_a(mesh, Mesh, "mesh")._handle, _library.json_text(options, "options") if options else None, handle)
        self._begin(handle, mesh)

    @classmethod
    def load(cls, source: "Union[str, os.PathLike[str], bytes]", *, threads: int = 0, executor: Optional[str] = None,
             device: Optional[str] = None, max_memory: int = 0) -> "Learner":
        """A learner and its mesh (`.mesh`) from a file that was saved live while it learned: its path, or its bytes.

        What they do from here on is what they would have done, to the bit: optimizer, errors under way and samples
        that wait for their targets are in the file. @error WeftFileError `not_found`: it holds no learner
        """
        options = mesh_options(threads=threads, executor=executor, device=device, max_memory=max_memory)
        mesh, learner = c_void_p(), c_void_p()
        if isinstance(source, (bytes, bytearray, memoryview)):
            file = _library.buffer(source, "source")
            lib.learner_load_bytes(file, len(file), ctypes.byref(options), mesh, learner)
        else:
            lib.learner_load(_library.path(source), ctypes.byref(options), mesh, learner)
        made = cls.__new__(cls)
        made._begin(learner, Mesh._of(mesh))
        return made

    def save(self, path: "str | os.PathLike[str]") -> None:
        """An .entity file of the mesh with this learner: `Learner.load` goes on with both."""
        self.mesh.save(path)

    def to_bytes(self) -> bytes:
        """The file that `save` would write."""
        return self.mesh.to_bytes()

    def __reduce__(self) -> Any:
        return Learner.load, (self.to_bytes(),)

    def _begin(self, handle: c_void_p, mesh: Mesh) -> None:
        Handle.__init__(self, handle)
        self.mesh = mesh
        self._samples, self._rows = Slices(), Slices()
        inputs, outputs = mesh.description["inputs"], mesh.description["outputs"]
        self._width = outputs[0]["width"] if len(outputs) == 1 else 0
        # Places for one sample and its answer, since finding an array's address takes longer than copying a small one.
        self._x = np.empty(inputs[0]["width"] if len(inputs) == 1 else 0, np.float32)
        self._y = np.empty(self._width, np.float32)
        self._x_size, self._at = self._x.size, (address(self._x), address(self._y))
        self._places = threading.Lock()  # never waited for: a second thread is to be told `busy`

    def learn(self, inputs: Mapping[str, Any], targets: Mapping[str, Any], samples: Optional[int] = None) -> None:
        """Runs samples and learns: inputs [samples, width], or [samples, sessions, width].

        KeyboardInterrupt stops between two samples. Samples of which one is refused change nothing.
        """
        given = {name: floats(values) for name, values in _library.items(inputs, "inputs")}
        wanted = {name: _target_values(values) for name, values in _library.items(targets, "targets")}
        samples = first_length(given) if samples is None else _library.whole(samples, "samples")
        for name, array in {**given, **wanted}.items():
            if array.shape[:1] != (samples,):
                raise refused("shape_mismatch", f"{name}: {list(array.shape)} of {samples} samples")
        widths = {row["name"]: row["width"] for row in self.mesh.description["outputs"]}
        # Samples of which one could be refused go in one call, which refuses all.
        is_one = not all(map(is_finite, [*given.values(), *wanted.values()])) or self._may_refuse(wanted, widths)
        for begin, end in ((0, samples),) if is_one else self._samples(samples):
            from_, kept = make_values({name: array[begin:end] for name, array in given.items()})
            made, kept_too = _targets({name: array[begin:end] for name, array in wanted.items()})
            lib.learner_learn(self._handle, from_, len(from_), made, len(made), end - begin)

    @staticmethod
    def _may_refuse(wanted: Mapping[str, np.ndarray], widths: Mapping[str, int]) -> bool:
        for name, array in wanted.items():
            if name not in widths:
                return True
            if array.dtype == np.uint32 and bool(((array >= widths[name]) & (array != NO_LABEL)).any()):
                return True
        return False

    def drain(self) -> None:
        """Runs on until every sample is learned from (schedule pipelined).

        KeyboardInterrupt is raised at once; the errors under way arrive all the same, and until then calls of the
        mesh and the learner fail with `busy`.
        """
        handle = self._handle
        _threads.run_apart(lambda: lib.learner_drain(handle))

    def predict(self, inputs: Mapping[str, Any], outputs: Optional[Sequence[str]] = None,
                session: Optional[int] = None) -> Dict[str, np.ndarray]:
        """Answers [rows, width] to inputs [rows, width]: nothing is learned, nothing changes.

        Copies begin as `session` stands; None: at zero. KeyboardInterrupt stops between two rows.
        """
        given = {name: floats(values) for name, values in _library.items(inputs, "inputs")}
        rows = first_length(given)
        made = self.mesh._room(outputs, (rows,))
        begins = _NO_SESSION if session is None else _library.whole(session, "session", _NO_SESSION - 1)

        def part(from_: Any, count: int, to: Any) -> None:
            lib.learner_predict(self._handle, from_, len(from_), count, to, len(to), begins)

        call_in_slices(self._rows, rows, given, made, part)
        return made

    def predict_one(self, x: Any) -> np.ndarray:
        """The answer [width] to x [width]; of a network with one input, one output and one session."""
        places = self._places
        if places.acquire(False):
            try:
                if self._takes(x):
                    _predict_one(self._handle, self._at[0], self._x_size, self._at[1], self._width)
                    return self._y.copy()
            finally:
                places.release()
        given = floats(x)
        answer = np.empty(self._width, np.float32)
        lib.learner_predict_one(self._handle, address(given), given.size, address(answer), answer.size)
        return answer

    def learn_one(self, x: Any, y: Any) -> None:
        """Learns one sample: by its label (a whole number) or its values [width]."""
        places = self._places
        if type(y) is int and 0 <= y <= NO_LABEL and places.acquire(False):
            try:
                if self._takes(x):
                    _learn_one(self._handle, self._at[0], self._x_size, y)
                    return
            finally:
                places.release()
        given = floats(x)
        if _is_label(y):
            lib.learner_learn_one(self._handle, address(given), given.size, int(y))
        else:
            values = floats(y)
            lib.learner_learn_one_values(self._handle, address(given), given.size, address(values), values.size)

    def score_one(self, x: Any, y: Any) -> float:
        """Anomaly score (option `anomaly`) of a sample x [width] with its label or values [width], as `learn_one` would
        take it; nothing is learned. @error WeftValueError `invalid_argument`: the option is off"""
        given, score = floats(x), c_float()
        if _is_label(y):
            lib.learner_score_one(self._handle, address(given), given.size, int(y), score)
        else:
            values = floats(y)
            lib.learner_score_one_values(self._handle, address(given), given.size, address(values), values.size, score)
        return score.value

    def _takes(self, x: Any) -> bool:
        """Copies a small sample to its place. False: it is none, or `floats` is to say what is wrong."""
        try:
            if len(x) != self._x_size or self._x_size > _SMALL or np.ndim(x) != 1 or \
                    type(x) is np.ndarray and x.dtype.kind == "c":
                return False
            self._x[:] = x
            return True
        except (OverflowError, TypeError, ValueError):
            return False

    def observe(self, inputs: Mapping[str, Any]) -> int:
        """One sample of which the target comes later, or never: its ticket."""
        from_, kept = make_values({name: floats(values) for name, values in _library.items(inputs, "inputs")})
        ticket = c_uint64()
        lib.learner_observe(self._handle, from_, len(from_), ticket)
        return ticket.value

    def answer(self, ticket: int, output: str) -> np.ndarray:
        """Answer of the mesh: [width], or [sessions * width]."""
        return _library.read_floats(lib.learner_answer, self._handle, _ticket(ticket),
                                    _library.text(output, "output"))

    def teach(self, ticket: int, targets: Mapping[str, Any], *, gradients: Optional[Mapping[str, Any]] = None,
              weights: Any = None) -> None:
        """The target, at last. `gradients`: instead, dLoss/d output; `weights`: factors of the gradients."""
        wanted = _library.items(targets, "targets")
        slopes = _library.items({} if gradients is None else gradients, "gradients")
        made, kept = _targets({name: _target_values(values) for name, values in wanted},
                              {name: floats(values) for name, values in slopes},
                              None if weights is None else floats(weights))
        lib.learner_teach(self._handle, _ticket(ticket), made, len(made))

    def forgo(self, ticket: int) -> None:
        """No target will come."""
        lib.learner_forgo(self._handle, _ticket(ticket))

    def expired(self) -> List[int]:
        """Tickets that expired since scores were last cleared: their targets would be refused."""
        needed = c_size_t()
        lib.learner_expired(self._handle, None, 0, needed)
        made = np.empty(needed.value, np.uint64)
        if made.size:
            lib.learner_expired(self._handle, address(made), made.size, needed)
        return made.tolist()

    def scores(self, clear: bool = True) -> np.ndarray:
        """Predictions before they were learned from: a structured array of sample, session, prediction, label,
        loss, token (or head), and anomaly: the score of the option `anomaly`."""
        is_clear, needed = _library.truth(clear, "clear"), c_size_t()
        lib.learner_scores(self._handle, None, 0, needed)
        made = np.empty(needed.value, _library.SCORE)
        if made.size:
            lib.learner_scores(self._handle, address(made), made.size, needed)
        if is_clear:
            lib.learner_clear_scores(self._handle)
        return made

    def measure(self, is_on: bool = True) -> None:
        """Layers are measured as they learn, from now on, or no more: it takes time and a copy of all weights."""
        lib.learner_measure(self._handle, _library.truth(is_on, "is_on"))

    def diagnostics(self) -> np.ndarray:
        """Of each layer that an error has reached since `measure`: a structured array of at, error, budget, update,
        relative_update, weight, error_age (ticks). budget is -1 where the rule has no targets.
        """
        needed = c_size_t()
        lib.learner_diagnostics(self._handle, None, 0, needed)
        made = np.zeros(needed.value, _library.DIAGNOSTICS)
        made["size"] = made.itemsize
        if made.size:
            lib.learner_diagnostics(self._handle, address(made), made.size, needed)
        names: List[str] = [name for name in made.dtype.names or () if name not in ("size", "reserved")]
        return made[names]

    def counts(self) -> Dict[str, int]:
        """Samples given and scored; observed, taught, forgone, expired; hold, latency, ticks_per_sample in ticks."""
        made = _library.Counts()
        lib.learner_count(self._handle, ctypes.byref(made))
        return {name: getattr(made, name) for name, *_ in made._fields_ if name != "size"}


class Agent(Handle):
    """A mesh and its learner kept in a directory: opened again it is where it was, to the bit, also after a crash."""
    _destroy = staticmethod(lib.agent_close)

    def __init__(self, directory: "str | os.PathLike[str]", network: Union[Network, str, Dict[str, Any], None] = None,
                 *, threads: int = 0, device: Optional[str] = None, durability: Optional[str] = None,
                 identity: Optional[str] = None, checkpoint_every: int = 0, learns: bool = True,
                 salvage: bool = False, keep: int = 0, checkpoint_bytes: int = 0, executor: Optional[str] = None,
                 executor_seed: int = 0, max_memory: int = 0, sessions: int = 1, pin: bool = True) -> None:
        """`network` None: the one that the directory has.

        durability: tick, interval, interval=2s, checkpoint. keep: checkpoints, 0: 3. checkpoint_every: ticks, 0: by
        checkpoint_bytes, and each 100,000 of an agent that acts. checkpoint_bytes: of the journal, 0: 256 MiB. salvage: goes on where a damaged journal ends. learns
        False: although the network has a section "learning"; it stays as the directory began. The others: Mesh.
        """
        made = network if network is None or isinstance(network, Network) else Network(network)
        mesh = mesh_options(threads=threads, device=device, executor=executor, executor_seed=executor_seed,
                            max_memory=max_memory, sessions=sessions, no_pinning=not _library.truth(pin, "pin"))
        options = _library.AgentOptions(mesh=ctypes.pointer(mesh),
                                        durability=_library.text_or_none(durability, "durability"),
                                        identity=_library.text_or_none(identity, "identity"), keep=keep,
                                        checkpoint_every=checkpoint_every, checkpoint_bytes=checkpoint_bytes,
                                        no_learning=not _library.truth(learns, "learns"),
                                        salvage=_library.truth(salvage, "salvage"))
        handle = c_void_p()
        lib.agent_open(_library.path(directory), made._handle if made else None, ctypes.byref(options), handle)
        super().__init__(handle)
        self._acts = Slices()
        mesh_handle, learner_handle = c_void_p(), c_void_p()
        lib.agent_mesh(handle, mesh_handle)
        self.mesh = Mesh._of(mesh_handle)
        self.learner: Optional[Learner] = None
        if learns:
            lib.agent_learner(handle, learner_handle)
            self.learner = Learner.__new__(Learner)
            self.learner._begin(learner_handle, self.mesh)

    def acknowledge(self) -> None:
        """Waits until everything so far survives a power cut."""
        lib.agent_acknowledge(self._handle)

    def checkpoint(self) -> None:
        """Takes a checkpoint, and waits until it is on the device."""
        lib.agent_checkpoint(self._handle)

    def act(self, steps: int) -> None:
        """Acts in the environment of the network's section "reinforcement" and learns from it; see `statistics`.

        KeyboardInterrupt stops between two steps.
        """
        steps = _library.whole(steps, "steps", 2 ** 64 - 1)
        for begin, end in self._acts(steps) if steps else [(0, 0)]:  # none: an agent without an environment is refused
            lib.agent_act(self._handle, end - begin)

    def note(self, topic: str, text: str) -> None:
        """Appends an annotation to the journal (a reward, a seed)."""
        lib.agent_note(self._handle, _library.text(topic, "topic"), _library.text(text, "text"))

    def mark(self) -> None:
        """Appends tick and state hash, for `weft replay --verify`."""
        lib.agent_mark(self._handle)

    def statistics(self) -> Dict[str, Any]:
        """Positions, bytes of the journal, failures, and steps and returns of `act`."""
        return json.loads(_library.read_text(lib.agent_statistics, self._handle))


def _is_label(y: Any) -> bool:
    """@error WeftValueError: a number that no label can be"""
    if not isinstance(y, (int, np.integer)):
        return False
    if not 0 <= y <= NO_LABEL:
        raise refused("out_of_range", f"label {y}: it is from 0 to 2^32 - 1")
    return True


def _ticket(ticket: int) -> int:
    return _library.whole(ticket, "ticket", 2 ** 64 - 1)


def _target_values(values: Any) -> np.ndarray:
    array = _library.numbers(values)
    if array.dtype.kind in "iub":
        if array.size and (array.min() < 0 or array.max() > NO_LABEL):
            raise refused("out_of_range", f"labels from {array.min()} to {array.max()}: they are from 0 to 2^32 - 1")
        return np.ascontiguousarray(array, np.uint32)
    return floats(array)


def _targets(targets: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray] = {},
             weights: Optional[np.ndarray] = None) -> "Tuple[ctypes.Array[_library.Target], List[Any]]":
    rows: List[_library.Target] = []
    kept: List[Any] = [weights]
    for name in {**targets, **gradients}:
        encoded = _library.text(name, "output")
        row = _library.Target(output=encoded)
        array, slope = targets.get(name), gradients.get(name)  # the library refuses both of one output
        kept += [encoded, array, slope]
        if slope is not None:
            row.gradient, row.gradient_count = address(slope), slope.size
        if array is not None and array.dtype == np.uint32:
            row.labels, row.label_count = address(array), array.size
        elif array is not None:
            row.values, row.value_count = address(array), array.size
        if weights is not None:
            row.weights, row.weight_count = address(weights), weights.size
        rows.append(row)
    return (_library.Target * len(rows))(*rows), kept
