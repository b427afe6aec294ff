#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a C++ source that holds files: name, digest, size and content, compressed by gzip, by name. Run by the build.

  tools/embed_files.py OUTPUT.cpp HEADER NAMESPACE FUNCTION FILE...

HEADER declares `EmbeddedFile` and `std::span<const EmbeddedFile> FUNCTION() noexcept` in NAMESPACE. The same files give
the same bytes.
"""
import gzip
import hashlib
import pathlib
import sys


def array(number, packed):
    lines = [",".join(str(byte) for byte in packed[i:i + 32]) for i in range(0, len(packed), 32)]
    return f"const unsigned char kFile{number}[] = {{\n" + ",\n".join(lines) + "};\n"


def main(output, header, namespace, function, *names):
    arrays, rows = "", ""
    for number, path in enumerate(sorted(map(pathlib.Path, names), key=lambda path: path.name)):
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()[:32]
        arrays += array(number, gzip.compress(data, 9, mtime=0))
        rows += f'    {{"{path.name}", "{digest}", {len(data)}, kFile{number}}},\n'
    pathlib.Path(output).write_text(
        f'#include "{header}"\n\nnamespace {namespace} {{\nnamespace {{\n{arrays}'
        f"const EmbeddedFile kFiles[] = {{\n{rows}}};\n}}  // namespace\n"
        f"std::span<const EmbeddedFile> {function}() noexcept {{ return kFiles; }}\n}}  // namespace {namespace}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
