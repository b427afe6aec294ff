# SPDX-License-Identifier: Apache-2.0
"""libweft.so by ctypes: its structs, its functions, and their failures as exceptions."""
from __future__ import annotations

import ctypes
import ctypes.util
import json
import operator
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Dict, ItemsView, Iterator, List, Mapping, Tuple

import numpy as np

from .errors import error_of, refused, wrong_kind


_MOST = {c_size_t: 2 ** (8 * ctypes.sizeof(c_size_t)) - 1, c_uint64: 2 ** 64 - 1, c_uint32: 2 ** 32 - 1,
         c_int: 2 ** 31 - 1}


def whole(value: Any, what: str, most: int = _MOST[c_size_t]) -> int:
    """A number from 0 to `most`: ctypes would wrap others round. @error TypeError, ValueError"""
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong_kind(f"{what}: {value!r} is no whole number") from None
    if not 0 <= number <= most:
        raise refused("out_of_range", f"{what}: {number} is not from 0 to {most}")
    return number


def real(value: Any, what: str) -> float:
    """A number that may have a fraction. @error TypeError, ValueError"""
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        return float(value)
    except TypeError:
        raise wrong_kind(f"{what}: {value!r} is no number") from None
    except (OverflowError, ValueError) as error:
        raise refused("out_of_range", f"{what}: {error}") from None


def truth(value: Any, what: str) -> bool:
    """Any truth will do. @error TypeError: it has none, as an array of several values"""
    try:
        return bool(value)
    except (TypeError, ValueError) as error:
        raise wrong_kind(f"{what}: {error}") from None


def each_of(value: Any, what: str) -> Iterator[Any]:
    """Its items, one by one. @error TypeError: it has none"""
    try:
        return iter(value)
    except TypeError:
        raise wrong_kind(f"{what}: {value!r} is no list") from None


def listed(value: Any, what: str) -> List[Any]:
    """Its items. @error TypeError: it has none"""
    return list(each_of(value, what))


class Error(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("code", c_int), ("name", c_char_p), ("message", c_char_p)]


class Coord(ctypes.Structure):
    _fields_ = [("z", c_uint32), ("y", c_uint32), ("x", c_uint32), ("layer", c_uint32)]


class Values(ctypes.Structure):
    """weft_input and weft_output."""
    _fields_ = [("name", c_char_p), ("values", c_void_p), ("count", c_size_t)]


class Sized(ctypes.Structure):
    """A struct whose first field is its size. A number that its field cannot hold is refused."""
    def __init__(self, **fields: Any) -> None:
        kinds = dict(self._fields_)
        for name, value in fields.items():
            if kinds[name] in _MOST:
                fields[name] = whole(value, name, _MOST[kinds[name]])
            elif kinds[name] is c_double:
                fields[name] = real(value, name)
        super().__init__(size=ctypes.sizeof(self), **fields)


class MeshOptions(Sized):
    _fields_ = [("size", c_size_t), ("threads", c_size_t), ("sessions", c_size_t), ("executor", c_char_p),
                ("executor_seed", c_uint64), ("device", c_char_p), ("max_memory", c_uint64), ("no_pinning", c_int),
                ("no_masters", c_int)]


class Command(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("at", Coord), ("parameter", c_size_t), ("number", c_uint64),
                ("not_before", c_uint64), ("dtype", c_char_p), ("granularity", c_char_p), ("values", c_void_p),
                ("count", c_size_t)]


class Target(Sized):
    _fields_ = [("size", c_size_t), ("output", c_char_p), ("labels", c_void_p), ("label_count", c_size_t),
                ("values", c_void_p), ("value_count", c_size_t), ("gradient", c_void_p),
                ("gradient_count", c_size_t), ("weights", c_void_p), ("weight_count", c_size_t)]


class Counts(Sized):
    _fields_ = [("size", c_size_t), ("samples", c_uint64), ("scored", c_uint64), ("observed", c_uint64),
                ("taught", c_uint64), ("forgone", c_uint64), ("expired", c_uint64), ("hold", c_uint64),
                ("latency", c_uint64), ("ticks_per_sample", c_uint64)]


class AgentOptions(Sized):
    _fields_ = [("size", c_size_t), ("mesh", POINTER(MeshOptions)), ("durability", c_char_p), ("identity", c_char_p),
                ("keep", c_size_t), ("checkpoint_every", c_uint64), ("checkpoint_bytes", c_uint64),
                ("no_learning", c_int), ("salvage", c_int)]


class ModelOptions(Sized):
    _fields_ = [("size", c_size_t), ("mesh", POINTER(MeshOptions)), ("tokenizer", c_char_p)]


class FileBytes(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("bytes", c_void_p), ("count", c_size_t)]


class GenerateOptions(Sized):
    _fields_ = [("size", c_size_t), ("tokens", c_uint64), ("temperature", c_double), ("top_k", c_uint64),
                ("top_p", c_double), ("min_p", c_double), ("seed", c_uint64), ("context", c_uint64),
                ("stops", c_void_p), ("stop_count", c_size_t), ("is_greedy", c_int), ("ignores_ends", c_int),
                ("max_memory", c_uint64), ("typical_p", c_double), ("repetition_penalty", c_double),
                ("presence_penalty", c_double), ("frequency_penalty", c_double), ("penalty_window", c_uint64),
                ("no_repeat_ngram", c_uint64), ("bias_ids", c_void_p), ("biases", c_void_p), ("bias_count", c_size_t),
                ("grammar", c_char_p), ("json_schema", c_char_p), ("preset", c_char_p), ("samplers", c_char_p),
                ("dynatemp_range", c_double), ("dynatemp_exponent", c_double), ("top_n_sigma", c_double),
                ("xtc_probability", c_double), ("xtc_threshold", c_double), ("mirostat_tau", c_double),
                ("mirostat_eta", c_double), ("dry_multiplier", c_double), ("dry_base", c_double),
                ("mirostat", c_int64), ("dry_allowed_length", c_int64), ("dry_penalty_last_n", c_int64),
                ("dry_sequence_breakers", c_void_p), ("dry_sequence_breaker_count", c_size_t)]


class EnvironmentOptions(Sized):
    _fields_ = [("size", c_size_t), ("length", c_uint32), ("reserved", c_uint32)]


class EnvironmentShape(Sized):
    _fields_ = [("size", c_size_t), ("observations", c_size_t), ("choices", c_size_t), ("values", c_size_t),
                ("limit", c_uint64)]


class EnvironmentResult(Sized):
    _fields_ = [("size", c_size_t), ("reward", c_double), ("terminated", c_int), ("truncated", c_int),
                ("steps", c_uint64)]


DIAGNOSTICS = np.dtype([("size", np.uintp), ("at", "u4", 4), ("error", "f4"), ("budget", "f4"), ("update", "f4"),
                        ("relative_update", "f4"), ("weight", "f4"), ("reserved", "f4"), ("error_age", "u8")], align=True)
SCORE = np.dtype([("sample", "u8"), ("session", "u4"), ("prediction", "u4"), ("label", "u4"), ("loss", "f4"),
                  ("token", "u4"), ("anomaly", "f4")])
TextFunction = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p)

# Functions by the types of their arguments: H a handle or an address, T a text, Z a size, Q 64 bits, I an int,
# U 32 bits, C a coordinate, h a place for a handle, z for a size, q for 64 bits, i for an int, f for a float.
_TYPES: Dict[str, Any] = {"H": c_void_p, "T": c_char_p, "Z": c_size_t, "Q": c_uint64, "I": c_int, "U": c_uint32,
                          "C": Coord, "h": POINTER(c_void_p), "z": POINTER(c_size_t), "q": POINTER(c_uint64),
                          "i": POINTER(c_int), "f": POINTER(c_float)}
_FUNCTIONS = {
    "set_log": "HHI", "keep_log": "I", "next_log": "QiHZz", "devices": "HZz", "take_flushed_results": "i",
    "network_read": "TZTh", "network_load": "Th", "network_create": "TUUUUh", "network_add_input": "HTHZ",
    "network_add_layer": "HT", "network_add_output": "HTC", "network_set": "HTT", "network_text": "HHZz",
    "network_destroy": "H",
    "mesh_build": "HHh", "mesh_load": "THh", "mesh_load_bytes": "HZHh", "mesh_save": "HTI", "mesh_save_bytes": "HIHZz",
    "mesh_destroy": "H", "mesh_set_input": "HTZHZ", "mesh_output": "HTZHZz", "mesh_output_at": "HCZHZz",
    "mesh_tick": "HQ", "mesh_tick_for": "HQq", "mesh_run": "HHZQHZ", "mesh_forward": "HHZZHZ", "mesh_resume": "H",
    "mesh_ticks": "Hq", "mesh_sessions": "Hz", "mesh_state_hash": "HZHZz", "mesh_describe": "HHZz",
    "mesh_statistics": "HHZz", "mesh_add_session": "Hz", "mesh_remove_session": "HZ", "mesh_reset_session": "HZ",
    "mesh_detach_session": "HZHZz", "mesh_attach_session": "HHZIz", "mesh_read_weights": "HCZHZz",
    "mesh_write_weights": "HCZHZ", "mesh_morph": "HCTT", "mesh_command": "HHh", "answer_status": "Hiq",
    "answer_values": "HHZz", "answer_destroy": "H", "snapshot_create": "h", "snapshot_destroy": "H",
    "mesh_take_snapshot": "HH", "mesh_restore_snapshot": "HH",
    "learner_build": "HTh", "learner_load": "THhh", "learner_load_bytes": "HZHhh", "learner_destroy": "H", "learner_learn": "HHZHZQ", "learner_drain": "H",
    "learner_predict": "HHZZHZZ", "learner_predict_one": "HHZHZ", "learner_learn_one": "HHZU",
    "learner_learn_one_values": "HHZHZ", "learner_score_one": "HHZUf", "learner_score_one_values": "HHZHZf", "learner_observe": "HHZq", "learner_answer": "HQTHZz",
    "learner_teach": "HQHZ", "learner_forgo": "HQ", "learner_expired": "HHZz", "learner_scores": "HHZz",
    "learner_clear_scores": "H", "learner_count": "HH", "learner_measure": "HI", "learner_diagnostics": "HHZz",
    "agent_open": "THHh", "agent_mesh": "Hh", "agent_learner": "Hh", "agent_acknowledge": "H", "agent_checkpoint": "H",
    "agent_act": "HQ", "agent_note": "HTT", "agent_mark": "H", "agent_statistics": "HHZz", "agent_close": "H",
    "environments": "HZz", "environment_create": "THh", "environment_destroy": "H", "environment_describe": "HH",
    "environment_reset": "HQQ", "environment_step": "HUHZH", "environment_observation": "HHZz",
    "environment_state": "HHZz", "environment_save": "HHZz", "environment_restore": "HHZ", "environment_hash": "HHZz",
    "model_load": "THh", "model_load_bytes": "HZHh", "model_destroy": "H", "model_tokenize": "HTHZz", "model_detokenize": "HHZHZz",
    "model_generate": "HTHHH", "model_result": "HHZz",
}
# Of these, `not_found` is a file, or something in one.
_OF_FILES = {"network_load", "mesh_load", "mesh_load_bytes", "mesh_save", "learner_load", "learner_load_bytes", "agent_open",
             "agent_acknowledge", "agent_checkpoint", "agent_close", "model_load", "model_load_bytes"}
# The others give no status.
_PLAIN = {"last_error": ([], POINTER(Error)), "status_name": ([c_int], c_char_p), "version": ([], c_char_p)}


def _find() -> str:
    """WEFT_LIBRARY, the library beside this file (a wheel), or the system's."""
    named = os.environ.get("WEFT_LIBRARY")
    if named:
        return named
    beside = pathlib.Path(__file__).with_name("libweft.so.0")
    return str(beside) if beside.exists() else (ctypes.util.find_library("weft") or "libweft.so.0")


_bundled: List[ctypes.CDLL] = []


def _load_bundled(folder: pathlib.Path) -> None:
    """Libraries that a wheel brings along, in their order: the loader takes what is there already by its name."""
    listed = folder / "order.txt"
    if listed.exists():
        _bundled.extend(ctypes.CDLL(str(folder / name)) for name in listed.read_text().split())


class Library:
    """Functions of libweft.so without their `weft_`; a status that is not 0 is raised as a WeftError."""

    def __init__(self, path: str) -> None:
        try:
            _load_bundled(pathlib.Path(path).parent / "libs")
            self.dll = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError(f"libweft.so was not found: {error}. Install Weft, or set WEFT_LIBRARY to its path") \
                from error
        for name, (arguments, result) in _PLAIN.items():
            function = getattr(self.dll, "weft_" + name)
            function.argtypes, function.restype = arguments, result
            setattr(self, name, function)
        last_error = self.last_error

        def checked(of_files: bool) -> Callable[[int, Any, Any], int]:
            def check(status: int, _function: Any, _arguments: Any) -> int:
                if status:
                    error = last_error().contents
                    raise error_of(error.code, error.name.decode(), error.message.decode(errors="replace"), of_files)
                return status
            return check

        check, check_of_files = checked(False), checked(True)
        for name, types in _FUNCTIONS.items():
            function = getattr(self.dll, "weft_" + name)
            function.argtypes, function.restype = [_TYPES[t] for t in types], c_int
            function.errcheck = check_of_files if name in _OF_FILES else check
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Callable[..., Any]:  # for those who check types
        raise AttributeError(name)


lib = Library(_find())


def text(value: str, what: str) -> bytes:
    """As the C ABI takes it, which would end at a NUL. @error TypeError, ValueError"""
    if not isinstance(value, str):
        raise wrong_kind(f"{what}: {value!r} is no str")
    if "\0" in value:
        raise refused("invalid_argument", f"{what}: {value!r} has a NUL in it")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise refused("invalid_argument", f"{what}: {value!r}: {error}") from None


def json_text(value: Any, what: str, separators: "Tuple[str, str] | None" = None) -> bytes:
    """As JSON. @error WeftTypeError, WeftValueError: it has what JSON has not"""
    try:
        return json.dumps(value, separators=separators).encode()
    except TypeError as error:
        raise wrong_kind(f"{what}: {error}") from None
    except (RecursionError, ValueError) as error:
        raise refused("invalid_argument", f"{what}: {error}") from None


def items(value: Any, what: str) -> "ItemsView[str, Any]":
    """Of a dictionary, or of what has its `items` as a table of pandas has. @error TypeError"""
    if not hasattr(value, "items") or isinstance(value, type):
        raise wrong_kind(f"{what}: {value!r} has no names with values")
    return value.items()


def is_a(value: Any, kind: type, what: str) -> Any:
    """The value. @error TypeError: it is of another kind"""
    if not isinstance(value, kind):
        raise wrong_kind(f"{what}: {value!r} is no weft.{kind.__name__}")
    return value


def text_or_none(value: "str | None", what: str) -> "bytes | None":
    return None if value is None else text(value, what)


def path(value: "str | os.PathLike[str]") -> bytes:
    try:
        encoded = os.fsencode(value)
    except TypeError:
        raise wrong_kind(f"path: {value!r} is no path") from None
    except UnicodeEncodeError as error:
        raise refused("invalid_argument", f"path: {value!r}: {error}") from None
    if b"\0" in encoded:
        raise refused("invalid_argument", f"path: {value!r} has a NUL in it")
    return encoded


def buffer(value: Any, what: str) -> bytes:
    """The bytes of bytes, a bytearray or a memoryview."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, (bytearray, memoryview)):
        raise wrong_kind(f"{what}: {value!r} is no bytes")
    return bytes(value)


def read_text(ask: Callable[..., int], *before: Any) -> str:
    """The text of a call that ends with buffer, capacity and size."""
    return read_bytes(ask, *before)[:-1].decode()


def read_bytes(ask: Callable[..., int], *before: Any) -> bytes:
    needed = c_size_t()
    ask(*before, None, 0, needed)
    while True:
        buffer = ctypes.create_string_buffer(max(needed.value, 1))
        ask(*before, buffer, len(buffer), needed)
        return buffer.raw[:needed.value]


def read_floats(ask: Callable[..., int], *before: Any) -> np.ndarray:
    needed = c_size_t()
    ask(*before, None, 0, needed)
    values = np.empty(needed.value, np.float32)
    if values.size:
        ask(*before, address(values), values.size, needed)
    return values


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def floats(values: Any) -> np.ndarray:
    """As float32, row-major; what is so already is not copied."""
    if type(values) is np.ndarray and values.dtype == np.float32 and values.flags.c_contiguous:
        return values
    return np.ascontiguousarray(numbers(values, np.float32))


def numbers(values: Any, dtype: Any = None, what: str = "no array of numbers") -> np.ndarray:
    """An array of real numbers; of the type that numpy finds, where none is given. @error TypeError, ValueError"""
    try:
        given = np.asarray(values)
        if given.dtype.kind == "c":
            raise TypeError("complex numbers, where real ones are wanted")
        return given if dtype is None else given.astype(dtype, copy=False)
    except TypeError as error:
        raise wrong_kind(f"{what}: {error}") from None
    except (OverflowError, ValueError) as error:
        raise refused("invalid_argument", f"{what}: {error}") from None


def make_values(arrays: Mapping[str, np.ndarray]) -> "Tuple[ctypes.Array[Values], List[Any]]":
    """An array of weft_input or weft_output, and what must outlive it."""
    made = (Values * len(arrays))()
    kept: List[Any] = []
    for row, (name, array) in zip(made, arrays.items()):
        encoded = text(name, "name")
        kept += [encoded, array]
        row.name, row.values, row.count = encoded, address(array), array.size
    return made, kept
