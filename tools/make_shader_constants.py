#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the constants of kernels/math_constants.hpp and the rows of kernels/activations.def as GLSL, so that no number is
typed twice. Run by the build.

  tools/make_shader_constants.py kernels/math_constants.hpp CONSTANTS.glsl kernels/activations.def ROWS.glsl

Literals round to float as C++ rounds them; what is computed of them must be a float without rounding. Printed are 17 digits,
which name one double: the float itself.
"""
import pathlib
import re
import struct
import sys

NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F.]+[pP][+-]?\d+|\d+\.\d*(?:[eE][+-]?\d+)?)f\b")
ROW = re.compile(r"^WEFT_ACTIVATION\((\w+),", re.MULTILINE)
DECLARATION = re.compile(r"inline constexpr float ([^;]+);")
NAMED = re.compile(r"(\w+)(\[\])?\s*=\s*(\{[^}]*\}|[^,{]+)")


def nearest(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def literal(text):
    return nearest(float.fromhex(text) if "x" in text.lower() else float(text))


def to_float(value):
    """The value, when it is a float as it stands: products with powers of two are, sums would not be."""
    rounded = nearest(value)
    if rounded != value:
        raise SystemExit(f"make_shader_constants: {value!r} is no float32: GLSL and C++ would round it differently")
    return rounded


def constants(text):
    text = re.sub(r"//[^\n]*", "", text)
    known = {}
    for declaration in DECLARATION.findall(text):
        for name, _, value in NAMED.findall(declaration):
            python = NUMBER.sub(lambda m: f"number('{m[1]}')", value)
            items = eval(python.strip().replace("{", "[").replace("}", "]"), {"number": literal, **known})  # our own header
            known[name] = [to_float(i) for i in items] if isinstance(items, list) else to_float(items)
    return known


def glsl(value):
    text = f"{value:.17e}"
    return text if float(text) == value else sys.exit(f"make_shader_constants: {value!r} does not survive printing")


def activation_rows(text):
    rows = ROW.findall(text)
    if not rows:
        sys.exit("make_shader_constants: no row of activations found: has their form changed?")
    return " ".join(f"X({name}, {number})" for number, name in enumerate(rows))


def main(source, output, activations, rows):
    lines = ["// Made by tools/make_shader_constants.py of kernels/math_constants.hpp."]
    for name, value in constants(pathlib.Path(source).read_text()).items():
        if isinstance(value, list):
            items = ", ".join(glsl(v) for v in value)
            lines.append(f"const float {name}[{len(value)}] = float[{len(value)}]({items});")
        else:
            lines.append(f"const float {name} = {glsl(value)};")
    if len(lines) < 30:
        sys.exit(f"make_shader_constants: only {len(lines) - 1} constants found in {source}: has its form changed?")
    pathlib.Path(output).write_text("\n".join(lines) + "\n")
    pathlib.Path(rows).write_text("// Made by tools/make_shader_constants.py of kernels/activations.def.\n"
                                  f"#define WEFT_ACTIVATION_ROWS(X) {activation_rows(pathlib.Path(activations).read_text())}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
