# SPDX-License-Identifier: Apache-2.0
"""The part of the module `welvet` that planetbridging's reload of .entity files calls, over the package `weft`.

    from welvet import Network
    network = Network.deserialize_entity(open("m.entity", "rb").read())
    network.forward_polymorphic([1.0, 2.0, 3.0], [1, 3])       # a list of numbers
    network.free()

Put bindings/python/compat and the package `weft` on PYTHONPATH. Own words on a published interface; no code of it.
"""
from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence

import numpy as np
import weft

__all__ = ["Network"]


class Network:
    """A mesh out of an .entity file, asked one sample at a time without ticks: state begins at zero at every call."""

    def __init__(self, mesh: weft.Mesh) -> None:
        self._mesh = mesh

    @classmethod
    def deserialize_entity(cls, data: bytes) -> "Network":
        """From the bytes of an .entity file. Raises weft.WeftError where they are none."""
        return cls(weft.Mesh.load(bytes(data), threads=1))

    def sync_inference_weights(self) -> None:
        """Nothing: weights are ready as they are loaded."""

    def forward_polymorphic(self, values: Sequence[float], shape: Sequence[int]) -> List[float]:
        """The outputs of one sample, flat. `shape`: of the sample without a batch; a leading 1 may stand before it.

        A network of several inputs takes their values one behind the other, in the order of its file. Values that are
        missing for inputs after the first count as zeros: the second operand of a residual, tokens of a mixer.
        Ids outside an embedding's table stand for its last entry where that is all zeros, as loom-stream writes it.
        """
        given = np.asarray(values, np.float64).reshape(-1)
        if any(int(extent) <= 0 for extent in shape) or math.prod(int(extent) for extent in shape) != given.size:
            raise ValueError(f"shape {list(shape)} against {given.size} values")
        ports = self._mesh.description["inputs"]
        wanted = sum(port["width"] for port in ports)
        if not ports or not ports[0]["width"] <= given.size <= wanted:
            raise ValueError(f"{given.size} values against inputs " +
                             ", ".join(f"{port['name']} {port['shape']}" for port in ports))
        filled = np.zeros(wanted)
        filled[:given.size] = given
        inputs: Dict[str, Any] = {}
        at = 0
        for port in ports:
            inputs[port["name"]] = self._prepared(port, filled[at:at + port["width"]]).reshape(1, -1)
            at += port["width"]
        outputs = self._mesh.forward(inputs)
        return [float(value) for name in outputs for value in outputs[name].reshape(-1)]

    def _prepared(self, port: Dict[str, Any], values: np.ndarray) -> np.ndarray:
        """Values as float32, prepared for the layers that read the port."""
        readers = [layer for layer in self._mesh.description["layers"] if port["name"] in layer["sources"]]
        types = {layer["type"] for layer in readers}
        if types == {"embedding"} and len(readers) == 1:
            return self._entries(readers[0], values)
        if types == {"layer_norm"}:
            # It gives the same for a row and the row plus a constant; float32 would round the offset's digits away.
            rows = values.reshape(-1, port["shape"][-1])
            values = rows - rows.mean(axis=1, keepdims=True)
        return np.asarray(values, np.float32)

    def _entries(self, layer: Dict[str, Any], values: np.ndarray) -> np.ndarray:
        """Token ids, those outside the table as its entry of zeros where it has one."""
        ids = np.trunc(values)
        last = layer["parameters"][0]["shape"][1] - 1
        outside = ~((ids >= 0) & (ids < last))
        if outside.any() and not self._mesh.weights(tuple(layer["at"]))[:, last].any():
            ids = np.where(outside, last, ids)
        return np.asarray(ids, np.float32)

    def free(self) -> None:
        """Gives the memory back; twice is once."""
        self._mesh.close()
