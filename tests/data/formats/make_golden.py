#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden.entity (and two inputs of entity_fuzz) from docs/formats/entity.md alone: a second writer, so that ours
is compared with something.

Needs Debian's python3-xxhash.  /usr/bin/python3 tests/data/formats/make_golden.py
"""
import ctypes
import json
import pathlib
import struct

import xxhash


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 64)


blobs = [
    ("layers/0,0,0,0/weights", "float32", [2, 3], struct.pack("<6f", 1, -2.5, 0.1, -0.0, 1e-40, 3.4e38)),
    ("layers/0,0,0,0/codes", "int4", [5], bytes([0x21, 0x43, 0x05])),
    ("signs", "binary", [3, 3], bytes([0b10110101, 0b1])),
    ("state/tick", "u64", [], struct.pack("<Q", 2**63 + 5)),
    ("state/empty", "float32", [0, 4], b""),
    ("state/label", "u32", [2], struct.pack("<2I", 7, 4294967295)),
    ("notes", "bytes", [70], bytes(range(70))),
]
offset = 0
table = []
for name, kind, shape, data in blobs:
    table.append({"name": name, "offset": offset, "shape": shape, "size": len(data), "type": kind,
                  "xxh3_128": xxhash.xxh3_128_hexdigest(data)})
    offset += len(pad(data))
header = json.dumps({"blobs": table, "meta": {"made": "gr\u00fcn", "rate": 0.03}, "network": {"weft": 2, "layers": []}},
                    sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
fixed = struct.pack("<8sHHIQ", b"ENTITY\0\0", 2, 0, 0, len(header))
checksum = xxhash.xxh3_128_digest(fixed + header)
out = pad(fixed + checksum + bytes(24) + header) + b"".join(pad(data) for *_, data in blobs)
pathlib.Path(__file__).with_name("golden.entity").write_bytes(out)

# For entity_fuzz: the header, a zero, the blobs (tests/fuzz/entity_fuzz.cpp seals it), with a packed blob and a plain
# one.
zstd = ctypes.CDLL("libzstd.so.1")
zstd.ZSTD_compress.restype = zstd.ZSTD_compressBound.restype = ctypes.c_size_t


def packed(data: bytes) -> bytes:
    buffer = ctypes.create_string_buffer(zstd.ZSTD_compressBound(ctypes.c_size_t(len(data))))
    size = zstd.ZSTD_compress(buffer, ctypes.c_size_t(len(buffer)), data, ctypes.c_size_t(len(data)), 3)
    return buffer.raw[:size]


for name, raw in (("packed", bytes(range(16)) * 40), ("zeros", bytes(70000))):
    frame, plain = packed(raw), bytes(range(65, 70))
    rows = [{"name": "p", "offset": 0, "packed": "zstd", "shape": [len(raw)], "size": len(raw), "stored": len(frame),
             "stored_xxh3_128": xxhash.xxh3_128_hexdigest(frame), "type": "bytes", "xxh3_128": xxhash.xxh3_128_hexdigest(raw)},
            {"name": "q", "offset": len(pad(frame)), "shape": [5], "size": 5, "type": "x-own",
             "xxh3_128": xxhash.xxh3_128_hexdigest(plain)}]
    header = json.dumps({"blobs": rows, "meta": None, "network": 1, "x-by": name}, separators=(",", ":")).encode()
    corpus = pathlib.Path(__file__).parents[1] / "fuzz" / "entity" / f"{name}.sealed"
    corpus.write_bytes(header + b"\0" + pad(frame) + plain)
