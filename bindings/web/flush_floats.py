#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes every scalar sum, difference, product, quotient, root and narrowing of binary32 in a WebAssembly module flush its
result, since no mode of the machine does: by a call of the module's own function (single/float_arithmetic.cpp), which of
sums, differences, products and narrowings only a result of at most 2^-126 takes, since calls cost more than arithmetic.
After the compiler, so that no line of the rooms is forgotten: ends of rows, kernels without vectors, rules' own numbers.

  flush_floats.py FROM.wasm TO.wasm
"""
import pathlib
import sys

# Instructions, and the exported functions that stand in for them.
FUNCTIONS = {0x91: "weft_web_sqrt", 0x92: "weft_web_add", 0x93: "weft_web_sub", 0x94: "weft_web_mul",
             0x95: "weft_web_div", 0xb6: "weft_web_narrowed"}
CALL, END, EXPORTS, CODE, IMPORTS, FUNCTION, TYPES, TYPES_OF_FUNCTIONS = 0x10, 0x0b, 7, 10, 2, 0, 1, 3
BINARY, NARROWING = (0x92, 0x93, 0x94), 0xb6
GET, SET, TEE, ELSE, F32, F64 = 0x20, 0x21, 0x22, 0x05, 0x7d, 0x7c
# After local.tee of a result: f32.abs, f32.const 2^-126, f32.le, if (result f32).
IS_SMALL = bytes([0x8b, 0x43, 0, 0, 0x80, 0, 0x5f, 0x04, F32])


class Bytes:
    """Numbers of a module, one after the other. WebAssembly core specification 2.0, chapter 5, and the instructions of
    exceptions (phase 3, as emscripten 3.1.6 writes them)."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def name(self):
        size = self.number()
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def skip_instruction(self):
        """Skips one instruction and gives its code."""
        code = self.byte()
        if code in (0x43, 0x44):
            self.at += 4 if code == 0x43 else 8
        elif 0x28 <= code <= 0x3e or code == 0x11:  # alignment and offset; a type and a table
            self.number(), self.number()
        elif code == 0x0e or code == 0x1c:  # a table of branches has a default at its end
            for _ in range(self.number() + (code == 0x0e)):
                self.number()
        elif code in (2, 3, 4, 6, 7, 8, 9, 0x0c, 0x0d, CALL, 0x18, *range(0x20, 0x27), 0x3f, 0x40, 0x41, 0x42, 0xd0, 0xd2):
            self.number()
        elif code == 0xfc:
            for _ in range({8: 2, 10: 2, 12: 2, 14: 2}.get(part := self.number(), int(part > 7))):
                self.number()
        elif code == 0xfd:
            part = self.number()
            if part <= 11 or 84 <= part <= 93:
                self.number(), self.number()
            self.at += 16 if part in (12, 13) else 1 if 21 <= part <= 34 or 84 <= part <= 91 else 0
        elif code not in (0, 1, 5, END, 0x0f, 0x19, 0x1a, 0x1b, 0xd1) and not 0x45 <= code <= 0xc4:
            raise ValueError(f"instruction {code:#x} at {self.at - 1}")
        return code


def coded(number):
    """LEB128, unsigned."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def sections(module):
    at = Bytes(module, 8)
    while at.at < len(module):
        kind, size = at.byte(), at.number()
        yield kind, module[at.at:at.at + size]
        at.at += size


def functions(content):
    """Exported functions' numbers."""
    of = Bytes(content)
    named = {}
    for _ in range(of.number()):
        name, kind, number = of.name(), of.byte(), of.number()
        if kind == FUNCTION:
            named[name] = number
    return named


def imported(content):
    """Number of imported functions, to which the first indices belong."""
    of = Bytes(content)
    count = 0
    for _ in range(of.number()):
        of.name(), of.name()
        kind = of.byte()
        if kind != FUNCTION:
            raise ValueError(f"an import of kind {kind}")
        count += 1
        of.number()
    return count


def parameters(content):
    """Number of parameters of each function of the module."""
    types, of = [], Bytes(content[TYPES])
    for _ in range(of.number()):
        if of.byte() != 0x60:
            raise ValueError("a type of no function")
        sizes = []
        for _ in range(2):
            sizes.append(of.number())
            of.at += sizes[-1]
        types.append(sizes[0])
    of = Bytes(content[TYPES_OF_FUNCTIONS])
    return [types[of.number()] for _ in range(of.number())]


def tested(code, call, first):
    """An instruction whose result goes through the call where it is small; four locals from `first` on are its own."""
    one, other, result, wide = (coded(first + i) for i in range(4))
    get, put, tee = bytes([GET]), bytes([SET]), bytes([TEE])
    before, again = (tee + wide, get + wide) if code == NARROWING else (
        put + other + tee + one + get + other, get + one + get + other)
    return (before + bytes([code]) + tee + result + IS_SMALL + again + call + bytes([ELSE]) + get + result +
            bytes([END]))


def is_tested(body, at):
    """True where a test stands behind an instruction already."""
    of = Bytes(body, at)
    return of.byte() == TEE and of.number() >= 0 and body.startswith(IS_SMALL, of.at)


def flushed(body, calls, arguments, is_new):
    """A function's body with calls in the place of instructions, and how many. A new one has no tests of its own."""
    of, out, count, locals_ = Bytes(body), bytearray(), 0, arguments
    groups = of.number()
    begin_of_groups = of.at
    for _ in range(groups):
        locals_ += of.number()
        of.byte()
    kept = end_of_groups = of.at
    while of.at < len(body):
        begin = of.at
        code = of.skip_instruction()
        call = calls.get(code)
        if not call:
            continue
        can_be_tested = code in BINARY or code == NARROWING
        if can_be_tested and is_tested(body, of.at):
            if is_new:
                raise ValueError(f"a test that looks like one of this program at {begin}")
            continue
        out += body[kept:begin] + (tested(code, call, locals_) if can_be_tested else call)
        kept = of.at
        count += 1
    if body[-1] != END or of.at != len(body):
        raise ValueError("a function without its end")
    if not count:
        return body, 0
    own = coded(3) + bytes([F32]) + coded(1) + bytes([F64])
    head = coded(groups + 2) + body[begin_of_groups:end_of_groups] + own
    return bytes(head + out + body[kept:]), count


def called(body):
    """Numbers of functions that a function calls."""
    of, numbers = Bytes(body), set()
    for _ in range(of.number()):
        of.number(), of.byte()
    while of.at < len(body):
        begin = of.at
        if of.skip_instruction() == CALL:
            numbers.add(Bytes(body, begin + 1).number())
    return numbers


def bodies(section):
    of = Bytes(section)
    for _ in range(of.number()):
        size = of.number()
        yield section[of.at:of.at + size]
        of.at += size


def with_callees(numbers, section, first):
    """These functions and what they call: a compiler may share a part of them."""
    all_bodies, own, rest = list(bodies(section)), set(), list(numbers)
    while rest:
        number = rest.pop()
        if number < first:
            raise ValueError("arithmetic calls an import")
        if number not in own:
            own.add(number)
            rest += called(all_bodies[number - first])
    return own


def rewrite(module, is_new=False):
    content = dict(sections(module))
    named = functions(content[EXPORTS])
    first = imported(content.get(IMPORTS, b"\0"))
    own = with_callees([named[name] for name in FUNCTIONS.values()], content[CODE], first)
    calls = {code: bytes([CALL]) + coded(named[name]) for code, name in FUNCTIONS.items()}
    out, total = bytearray(module[:8]), 0
    for kind, section in sections(module):
        if kind == CODE:
            parts = [coded(Bytes(section).number())]
            arguments = parameters(content)
            for index, body in enumerate(bodies(section), first):
                if index not in own:
                    body, count = flushed(body, calls, arguments[index - first], is_new)
                    total += count
                parts += [coded(len(body)), body]
            section = b"".join(parts)
        out += bytes([kind]) + coded(len(section)) + section
    return bytes(out), total


if __name__ == "__main__":
    written, replaced = rewrite(pathlib.Path(sys.argv[1]).read_bytes(), is_new=True)
    pathlib.Path(sys.argv[2]).write_bytes(written)
    print(f"{sys.argv[2]}: {replaced} operations of binary32 flush their results")
