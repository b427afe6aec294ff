#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a SPIR-V module exact and turns it into bytes for a C++ array: its size in bytes (32 bits, little-endian), then
its words, compressed by zlib (a fifth of their size). Run by the build.

  tools/embed_shader.py MODULE.spv OUTPUT.inc

Every float instruction that a driver could contract or regroup is decorated NoContraction, whether its source said
`precise` or not: one forgotten word must not cost the contract. Names and source lines are dropped.
tests/gpu/spirv_test.cpp checks what comes out.
"""
import pathlib
import struct
import sys
import zlib

MAGIC = 0x07230203
OP_NAME_AND_SOURCE = {2, 3, 4, 5, 6, 7, 8, 317, 330}  # continued source, source, extension, name, member, string, line
OP_DECORATE, NO_CONTRACTION = 71, 42
# FNegate, FAdd, FSub, FMul, FDiv, FRem, FMod, VectorTimesScalar .. OuterProduct, Dot
ARITHMETIC = {127, 129, 131, 133, 136, 140, 141, 142, 143, 144, 145, 146, 147, 148}
FIRST_TYPE, LAST_CONSTANT, OP_FUNCTION = 19, 52, 54
ANNOTATIONS = {71, 72, 73, 74, 75, 332, 5632, 5633}


def instructions(words):
    at = 5
    while at < len(words):
        length = words[at] >> 16
        if length == 0:
            sys.exit("embed_shader: a broken module")
        yield words[at] & 0xFFFF, words[at:at + length]
        at += length


def exact(words):
    body = [(op, w) for op, w in instructions(words) if op not in OP_NAME_AND_SOURCE]
    decorated = {w[1] for op, w in body if op == OP_DECORATE and w[2] == NO_CONTRACTION}
    wanted = [w[2] for op, w in body if op in ARITHMETIC and w[2] not in decorated]
    # Annotations stand before all types, constants and functions.
    is_after = lambda op: op not in ANNOTATIONS and (FIRST_TYPE <= op <= LAST_CONSTANT or op == OP_FUNCTION or op == 59)
    split = next(i for i, (op, _) in enumerate(body) if is_after(op))
    added = [(OP_DECORATE, [3 << 16 | OP_DECORATE, result, NO_CONTRACTION]) for result in wanted]
    return words[:5] + [word for _, w in body[:split] + added + body[split:] for word in w]


def main(module, output):
    data = pathlib.Path(module).read_bytes()
    words = list(struct.unpack(f"<{len(data) // 4}I", data))
    if words[0] != MAGIC:
        sys.exit(f"embed_shader: {module} is no SPIR-V module")
    words = exact(words)
    data = struct.pack(f"<{len(words)}I", *words)
    packed = struct.pack("<I", len(data)) + zlib.compress(data, 9)
    lines = [",".join(str(byte) for byte in packed[i:i + 32]) for i in range(0, len(packed), 32)]
    pathlib.Path(output).write_text(",\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
