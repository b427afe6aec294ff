# SPDX-License-Identifier: Apache-2.0
"""Weights as named arrays, as safetensors files, and as the `state_dict` of a PyTorch module.

    state = weft.tensors.state_dict(mesh)                        # {"0.weight": [out, in], "0.bias": [out], ...}
    module.load_state_dict(weft.tensors.to_torch(state))         # torch.nn.Sequential(Linear, Tanh, Linear)
    weft.tensors.load_state_dict(mesh, module.state_dict())      # and back
    weft.tensors.save_file(state, "weights.safetensors"); weft.tensors.load_file("weights.safetensors")
"""
from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import _library
from ._library import floats, is_a, items, json_text, listed, numbers
from .errors import of_system, refused
from .mesh import Mesh

_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
          "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_}
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}


def _layers(mesh: Mesh) -> "List[Tuple[List[int], List[Dict[str, Any]]]]":
    return [(row["at"], row["parameters"]) for row in is_a(mesh, Mesh, "mesh").description["layers"] if row["parameters"]]


def names(mesh: Mesh, prefixes: Optional[Sequence[str]] = None) -> "Dict[str, Tuple[List[int], int]]":
    """Place and number of each parameter by its name, "<prefix>.<parameter>".

    prefixes: a word for each layer with parameters, in their order; None: the places of a torch.nn.Sequential in which
    an activation follows each layer that has one, "0", "2", "4".
    """
    layers = _layers(mesh)
    if prefixes is None:
        prefixes, place = [], 0
        for at, _ in layers:
            prefixes.append(str(place))
            place += 1 + _has_activation(mesh, at)
    prefixes = listed(prefixes, "prefixes")
    if len(prefixes) != len(layers):
        raise refused("shape_mismatch", f"{len(prefixes)} prefixes for {len(layers)} layers with parameters")
    return {f"{prefix}.{spec['name']}": (at, number) for prefix, (at, parameters) in zip(prefixes, layers)
            for number, spec in enumerate(parameters)}


def _has_activation(mesh: Mesh, at: List[int]) -> bool:
    row = next(row for row in mesh.description["layers"] if row["at"] == at)
    return row.get("activation", "linear") != "linear"


def state_dict(mesh: Mesh, prefixes: Optional[Sequence[str]] = None) -> Dict[str, np.ndarray]:
    """Copies of all parameters, float32: matrices [out, in], vectors [out]."""
    return {name: mesh.weights(at, number) for name, (at, number) in names(mesh, prefixes).items()}


def load_state_dict(mesh: Mesh, state: Mapping[str, Any], prefixes: Optional[Sequence[str]] = None) -> None:
    """Writes all parameters, from arrays or torch tensors. A name or shape that does not fit changes nothing."""
    known = names(mesh, prefixes)
    state = dict(items(state, "state"))
    if set(known) != set(state):
        raise refused("unknown_name", f"parameters that the mesh lacks: {sorted(set(state) - set(known), key=repr)}; "
                      f"that are missing: {sorted(set(known) - set(state))}")
    arrays = {name: _array(value) for name, value in state.items()}
    shapes = {(tuple(at), number): tuple(spec["shape"]) for at, parameters in _layers(mesh)
              for number, spec in enumerate(parameters)}
    for name, (at, number) in known.items():
        wanted = shapes[tuple(at), number]
        if arrays[name].shape != wanted:
            raise refused("shape_mismatch", f"{name}: {list(arrays[name].shape)} against {list(wanted)} of the mesh")
    for name, (at, number) in known.items():
        mesh.set_weights(at, arrays[name], number)


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().float().numpy()
    return floats(value)


def to_torch(state: Mapping[str, np.ndarray]) -> Dict[str, Any]:
    """The same as torch tensors."""
    arrays = {name: np.array(_known(name, numbers(array, what=name))) for name, array in items(state, "state")}
    import torch
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def save_file(state: Mapping[str, Any], path: "str | os.PathLike[str]",
              notes: Optional[Mapping[str, str]] = None) -> None:
    """A safetensors file of arrays or torch tensors; bfloat16 stays bfloat16."""
    where = os.fsdecode(_library.path(path))
    kept = {} if notes is None else dict(items(notes, "notes"))
    header: Dict[str, Any] = {"__metadata__": kept} if kept else {}
    data: List[bytes] = []
    at = 0
    for name, value in items(state, "state"):
        type_name, array = _stored(name, value)
        raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        header[name] = {"dtype": type_name, "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json_text(header, "names and notes", (",", ":"))
    text += b" " * (-len(text) % 8)
    try:
        with open(where, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + b"".join(data))
    except OSError as error:
        raise of_system(error) from error


def _stored(name: str, value: Any) -> "Tuple[str, np.ndarray]":
    """The type in a safetensors file, and the array; of bfloat16 the upper halves of float32, which it is exactly."""
    if str(value.dtype if hasattr(value, "dtype") else "").endswith("bfloat16"):
        wide = value.detach().cpu().float().numpy() if hasattr(value, "detach") else value
        wide = np.asarray(wide, np.float32, order="C")
        return "BF16", (wide.view(np.uint32) >> 16).astype(np.uint16)
    array = np.asarray(numbers(value.detach().cpu().numpy() if hasattr(value, "detach") else value, what=name), order="C")
    return _NAMES[_known(name, array).dtype], array


def _known(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype not in _NAMES:
        raise refused("unknown_name", f"{name}: {array.dtype} is none of {', '.join([*_TYPES, 'BF16'])}")
    return array


def load_file(path: "str | os.PathLike[str]") -> Dict[str, np.ndarray]:
    """Arrays of a safetensors file; bfloat16 comes as float32."""
    where = os.fsdecode(_library.path(path))  # not the path itself: `open` takes, and closes, the file of a number too
    try:
        with open(where, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise of_system(error) from error
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or length > len(raw) - 8:
        raise refused("parse_failed", f"{path}: no safetensors file: a header of {length} bytes in {len(raw)}")
    body, made = memoryview(raw)[8 + length:], {}
    name = "header"
    try:
        for name, row in json.loads(raw[8:8 + length]).items():
            if name != "__metadata__":
                made[name] = _loaded(row, body)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise refused("parse_failed", f"{path}: no safetensors file: {name}: {error}") from error
    return made


def _loaded(row: Dict[str, Any], body: memoryview) -> np.ndarray:
    begin, end = row["data_offsets"]
    if not 0 <= begin <= end <= len(body):
        raise ValueError(f"bytes {begin} to {end} of {len(body)}")
    if row["dtype"] == "BF16":
        array = (np.frombuffer(body[begin:end], "<u2").astype(np.uint32) << 16).view(np.float32)
    elif row["dtype"] in _TYPES:
        array = np.frombuffer(body[begin:end], np.dtype(_TYPES[row["dtype"]]).newbyteorder("<"))
    else:
        raise ValueError(f"type {row['dtype']} is not known")
    return array.reshape(row["shape"]).copy()
