# SPDX-License-Identifier: Apache-2.0
"""Networks, and the machine around them."""
from __future__ import annotations

import ctypes
import json
import os
from ctypes import c_size_t, c_void_p
from typing import Any, Dict, List, Optional, Sequence, TypeVar, Union

import numpy as np

from . import _library
from ._library import lib
from .errors import refused, wrong_kind

Place = Sequence[int]
_Self = TypeVar("_Self", bound="Handle")


def coord(at: Place) -> _library.Coord:
    """[z, y, x, layer], or fewer numbers: the last ones of z, y, x, with layer 0."""
    numbers = [_library.whole(number, "place", 2 ** 32 - 1) for number in _library.listed(at, "place [z, y, x, layer]")]
    if len(numbers) > 4:
        raise refused("invalid_argument", f"place: {len(numbers)} numbers, where [z, y, x, layer] are 4")
    if len(numbers) < 4:
        numbers = [0] * (3 - len(numbers)) + numbers + [0]
    return _library.Coord(*numbers)


class Handle:
    """Something of the library's; destroyed with its Python object, or by `close`."""
    _destroy: Any  # takes the handle

    def __init__(self, handle: c_void_p) -> None:
        self._handle: Optional[c_void_p] = handle

    def close(self) -> None:
        """Gives it back to the library. Twice is once."""
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None:
            type(self)._destroy(handle)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at the end of the interpreter, or while another thread is in a call
            pass

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Network(Handle):
    """A description, to build meshes of: docs/formats/network.md.

    >>> network = Network.grid("xor", x=2).input("bits", 2)
    >>> network.layer("dense", (0,), out=16, activation="tanh", source=["bits"]).layer("dense", (1,), out=2)
    >>> network.output("answer", (1,))
    """
    _destroy = staticmethod(lib.network_destroy)

    def __init__(self, description: Union[str, Dict[str, Any]], source: Optional[str] = None) -> None:
        """A network file's text, or the object that it holds."""
        encoded = description.encode(errors="replace") if isinstance(description, str) else \
            _library.json_text(description, "network")
        handle = c_void_p()
        lib.network_read(encoded, len(encoded), _library.text_or_none(source, "source"), handle)
        super().__init__(handle)

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> "Network":
        """From a network file, or the network of an .entity file."""
        handle = c_void_p()
        lib.network_load(_library.path(path), handle)
        return cls._of(handle)

    @classmethod
    def grid(cls, name: str = "unnamed", z: int = 1, y: int = 1, x: int = 1, layers: int = 1) -> "Network":
        """An empty one of z * y * x cells."""
        handle = c_void_p()
        lib.network_create(_library.text(name, "name"), *[
            _library.whole(extent, axis, 2 ** 32 - 1) for extent, axis in
            ((z, "z"), (y, "y"), (x, "x"), (layers, "layers"))], handle)
        return cls._of(handle)

    @classmethod
    def chain(cls, inputs: int, layers: Sequence[Dict[str, Any]], **keys: Any) -> "Network":
        """Layers one behind the other, from the input `x` [inputs] to the output `y`."""
        return cls({"weft": 2, "inputs": {"x": [inputs]}, "chain": _library.listed(layers, "layers"), **keys})

    @classmethod
    def _of(cls, handle: c_void_p) -> "Network":
        made = cls.__new__(cls)
        Handle.__init__(made, handle)
        return made

    def input(self, name: str, shape: Union[int, Sequence[int]]) -> "Network":
        """A port of a width, or of a shape, outermost axis first."""
        extents = [_library.whole(extent, "shape") for extent in np.atleast_1d(np.asarray(shape, object))]
        lib.network_add_input(self._handle, _library.text(name, "name"), (c_size_t * len(extents))(*extents), len(extents))
        return self

    def layer(self, type: str, at: Optional[Place] = None, *, source: Optional[Sequence[Any]] = None,
              **options: Any) -> "Network":
        """A layer at a place; `source`: names of inputs and places (the file's key "from")."""
        row: Dict[str, Any] = {"type": type, **options}
        if at is not None:
            place = coord(at)
            row["at"] = [place.z, place.y, place.x, place.layer]
        if source is not None:
            row["from"] = [name if isinstance(name, (str, dict)) else
                           [getattr(coord(name), axis) for axis in ("z", "y", "x", "layer")]
                           for name in _library.listed(source, "source")]
        lib.network_add_layer(self._handle, _library.json_text(row, "layer"))
        return self

    def output(self, name: str, at: Place) -> "Network":
        """Names the output of the layer at a place."""
        lib.network_add_output(self._handle, _library.text(name, "name"), coord(at))
        return self

    def set(self, **keys: Any) -> "Network":
        """Other keys of a network file: name, seed, device, supervision, learning, stream, reinforcement."""
        for key, value in keys.items():
            lib.network_set(self._handle, _library.text(key, "key"), _library.json_text(value, key))
        return self

    @property
    def text(self) -> str:
        """Its network file."""
        return _library.read_text(lib.network_text, self._handle)

    def __repr__(self) -> str:
        found = json.loads(self.text)
        return f"<weft.Network {found['name']!r}, {len(found['layers'])} layers>"

    def _repr_svg_(self) -> str:
        from .picture import network_svg
        return network_svg(json.loads(self.text))

    def __getstate__(self) -> str:
        return self.text

    def __setstate__(self, text: str) -> None:
        Network.__init__(self, text)


def devices() -> List[Dict[str, Any]]:
    """Every device of this machine, the CPU first; `missing` says why Weft cannot use one."""
    return json.loads(_library.read_text(lib.devices))


def take_flushed_results() -> bool:
    """True where results since the last call of this may differ from x86-64's: never there, on ARM where some were flushed
    to zero (docs/numerics.md)."""
    flushed = ctypes.c_int()
    lib.take_flushed_results(flushed)
    return bool(flushed.value)
