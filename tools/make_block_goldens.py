#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/formats/gguf_blocks.safetensors: blocks of every quantized GGUF type, by ggml itself.

  LLAMA_LIBS=DIR tools/make_block_goldens.py

DIR holds libggml-base.so of npm's @node-llama-cpp/linux-x64 3.22.1 (bins/linux-x64). Of type T: T.bytes are ggml's
blocks of x, T.random.bytes blocks of arbitrary bits with finite scales. What ggml decodes of them is kept as a digest
(XXH3-128 of the float32 values, subnormal ones taken as 0) in the note T.values. Needs python3-numpy, python3-xxhash."""
import ctypes
import json
import os
import pathlib
import struct

import numpy as np
import xxhash

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests/data/formats/gguf_blocks.safetensors"
# type: elements and bytes of a block, offsets of its binary16 scales
TYPES = {"q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]), "q5_0": (32, 22, [0]), "q5_1": (32, 24, [0, 2]),
         "q8_0": (32, 34, [0]), "q2_K": (256, 84, [80, 82]), "q3_K": (256, 110, [108]), "q4_K": (256, 144, [0, 2]),
         "q5_K": (256, 176, [0, 2]), "q6_K": (256, 210, [208]), "q8_K": (256, 292, []), "tq1_0": (256, 54, [52]),
         "tq2_0": (256, 66, [64]), "iq4_nl": (32, 18, [0]), "iq4_xs": (256, 136, [0]), "mxfp4": (32, 17, []),
         "nvfp4": (64, 36, []), "q1_0": (128, 18, [0]), "q2_0": (64, 18, [0])}
RANDOM_ELEMENTS = 1024


def rows(rng):
    n = 256
    spread = np.repeat(10.0 ** rng.integers(-6, 4, 8), 32)
    return np.array([rng.standard_normal(n) * .02, rng.uniform(-1, 1, n), np.zeros(n),
                     np.where(np.arange(n) == 37, -3.5, 0), rng.integers(-1, 2, n) * .7, rng.standard_normal(n) * spread,
                     np.linspace(-1, 1, n), np.abs(rng.standard_normal(n)) + .5, rng.integers(-8, 8, n) / 8.0,
                     np.where(rng.random(n) < .02, rng.standard_normal(n) * 50, rng.standard_normal(n) * .1)], np.float32)


class Ggml:
    def __init__(self, folder):
        self.library = ctypes.CDLL(folder + "/libggml-base.so")

    def call(self, name, source, target, elements):
        function = getattr(self.library, name)
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
        function(source.ctypes.data, target.ctypes.data, elements)

    def quantize(self, kind, x):
        elements, size, _ = TYPES[kind]
        blocks = np.zeros((x.size // elements, size), np.uint8)
        self.call(f"quantize_row_{kind}_ref", x, blocks, x.size)
        return blocks

    def dequantize(self, kind, blocks):
        values = np.zeros(len(blocks) * TYPES[kind][0], np.float32)
        self.call(f"dequantize_row_{kind}", blocks, values, values.size)
        return values


def random_blocks(kind, rng):
    elements, size, scales = TYPES[kind]
    blocks = rng.integers(0, 256, (RANDOM_ELEMENTS // elements, size), dtype=np.uint8)
    for number, block in enumerate(blocks):
        for at in scales:
            block[at:at + 2] = (rng.standard_normal(1) * .01).astype(np.float16).view(np.uint8)
        if kind == "mxfp4":
            block[0] = rng.integers(100, 140) if number > 2 else number
        if kind == "nvfp4":
            block[:3] = [0, 0x7f, 0xff]
        if kind == "q8_K":
            block[:4] = np.array([.01 * (number + 1)], np.float32).view(np.uint8)
    return blocks


def digest(values):
    subnormal = (values != 0) & (np.abs(values) < np.finfo(np.float32).tiny)
    flushed = np.where(subnormal, np.copysign(np.float32(0), values), values).astype(np.float32)
    return xxhash.xxh3_128_hexdigest(flushed.tobytes())


def write(path, tensors, notes):
    header, data = {"__metadata__": notes}, b""
    for name, array in tensors.items():
        dtype = {"float32": "F32", "uint8": "U8"}[str(array.dtype)]
        begin = len(data)
        data += array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    ggml, rng = Ggml(os.environ["LLAMA_LIBS"]), np.random.default_rng(20260101)
    x = rows(rng)
    tensors, notes = {"x": x}, {"made_by": "libggml-base of @node-llama-cpp/linux-x64 3.22.1 (llama.cpp v0.5.0), seed 20260101"}
    for kind in TYPES:
        for name, blocks in ((kind, ggml.quantize(kind, x)), (kind + ".random", random_blocks(kind, rng))):
            tensors[name + ".bytes"] = blocks
            notes[name + ".values"] = digest(ggml.dequantize(kind, blocks))
    write(OUT, tensors, notes)
    print(OUT, OUT.stat().st_size)


if __name__ == "__main__":
    main()
