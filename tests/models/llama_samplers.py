#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/models/llama_samplers.json: what samplers of libllama of npm's @node-llama-cpp/linux-x64 3.22.1 leave of
random logits, with their shares, for random settings in random orders. Mirostat's rows are first draws, whose cut is
2 tau; `mu` is what it was after them.

  tests/models/llama_samplers.py .../bins/linux-x64
"""
import ctypes
import json
import math
import pathlib
import random
import struct
import sys
from ctypes import c_bool, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/peers"))
import llama_texts  # noqa: E402

ROWS, MIROSTAT_ROWS = 120, 40
DRY = "_Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE"


class Datum(ctypes.Structure):
    _fields_ = [("id", c_int32), ("logit", c_float), ("p", c_float)]


class Data(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(Datum)), ("size", c_size_t), ("selected", c_int64), ("sorted", c_bool)]


class Vector(ctypes.Structure):
    """std::vector of libstdc++."""
    _fields_ = [("begin", c_void_p), ("end", c_void_p), ("capacity", c_void_p)]


def vector(values, kept):
    kept.append(values)
    at = ctypes.addressof(values)
    return Vector(at, at + ctypes.sizeof(values), at + ctypes.sizeof(values))


class Samplers:
    def __init__(self, folder):
        self.library = llama_texts.load(folder)
        self.library.llama_sampler_apply.argtypes = [c_void_p, ctypes.POINTER(Data)]
        self.library.llama_sampler_accept.argtypes = [c_void_p, c_int32]

    def make(self, name, *arguments):
        call = getattr(self.library, name if name == DRY else "llama_sampler_init_" + name)
        call.restype = c_void_p
        return c_void_p(call(*arguments))

    def step(self, name, o):
        if name == "penalties":
            return self.make("penalties", c_int32(o["vocabulary"]), c_int32(o["penalty_window"]), c_float(o["repetition_penalty"]),
                             c_float(o["frequency_penalty"]), c_float(o["presence_penalty"]))
        if name == "dry":
            kept = []
            each = [vector((c_int32 * len(b))(*b), kept) for b in o["breakers"]]
            all_of = vector((Vector * len(each))(*each), kept)
            return self.make(DRY, c_float(o["dry_multiplier"]), c_float(o["dry_base"]),
                             c_int32(o["dry_allowed_length"]), c_int32(o["dry_penalty_last_n"]),
                             ctypes.byref(all_of))
        if name == "top_n_sigma":
            return self.make("top_n_sigma", c_float(o["top_n_sigma"]))
        if name == "top_k":
            return self.make("top_k", c_int32(o["top_k"]))
        if name == "typ_p":
            return self.make("typical", c_float(o["typical_p"]), c_size_t(0))
        if name in ("top_p", "min_p"):
            return self.make(name, c_float(o[name]), c_size_t(0))
        if name == "xtc":
            return self.make("xtc", c_float(o["xtc_probability"]), c_float(o["xtc_threshold"]), c_size_t(0),
                             c_uint32(1))
        return self.make("temp_ext", c_float(o["temperature"]), c_float(o["dynatemp_range"]),
                         c_float(o["dynatemp_exponent"]))

    def apply(self, chain, logits, ids):
        data = (Datum * len(logits))(*[Datum(i, logit, 0) for i, logit in enumerate(logits)])
        array = Data(data, len(logits), -1, False)
        for each in chain:
            for token in ids:
                self.library.llama_sampler_accept(each, token)
            self.library.llama_sampler_apply(each, array)
            # top_n_sigma makes those that it leaves out -inf. In typ_p they are NaN then, dynatemp counts them.
            there = [(d.id, d.logit, d.p) for d in array.data[:array.size] if d.logit != -math.inf]
            if len(there) < array.size:
                data = (Datum * len(there))(*there)
                array = Data(data, len(there), -1, array.sorted)
        return array


def left(array):
    """[id, share] of those that are left, the likeliest first."""
    all_of = [(array.data[i].id, array.data[i].p) for i in range(array.size) if array.data[i].p > 0]
    return [[token, float(f"{p:.7g}")] for token, p in sorted(all_of, key=lambda each: (-each[1], each[0]))]


def rounded(draw, low, high):
    return round(draw.uniform(low, high), 3)


def options(draw, vocabulary):
    def sometimes(value, off):
        return value if draw.random() < 0.4 else off
    return {"vocabulary": vocabulary, "temperature": rounded(draw, 0.3, 2), "dynatemp_range": sometimes(rounded(draw, 0.1, 1.5), 0),
            "dynatemp_exponent": sometimes(rounded(draw, 0.3, 2), 1),
            "top_n_sigma": sometimes(rounded(draw, 0.3, 2), 0), "top_k": sometimes(draw.randint(1, vocabulary), 0),
            "typical_p": sometimes(rounded(draw, 0.2, 0.95), 1), "top_p": sometimes(rounded(draw, 0.3, 1), 1),
            "min_p": sometimes(rounded(draw, 0.01, 0.2), 0), "xtc_probability": sometimes(1, 0),
            "xtc_threshold": rounded(draw, 0.02, 0.5), "penalty_window": draw.randint(1, 30),
            "repetition_penalty": sometimes(rounded(draw, 0.7, 1.8), 1),
            "frequency_penalty": sometimes(rounded(draw, -0.5, 0.5), 0),
            "presence_penalty": sometimes(rounded(draw, -1, 1), 0),
            "dry_multiplier": sometimes(rounded(draw, 0.2, 1.5), 0), "dry_base": rounded(draw, 1, 2),
            "dry_allowed_length": draw.randint(0, 4), "dry_penalty_last_n": draw.randint(1, 60),
            "breakers": [[draw.randrange(5) for _ in range(draw.randint(1, 2))] for _ in range(draw.randint(0, 2))]}


def text(draw, vocabulary):
    """Tokens that repeat themselves."""
    ids = [draw.randrange(min(5, vocabulary)) for _ in range(draw.randint(0, 20))]
    while ids and len(ids) < 45:
        at = draw.randrange(len(ids))
        ids += ids[at:at + draw.randint(1, 8)] + [draw.randrange(vocabulary)] * draw.randint(0, 1)
    return ids


def main():
    samplers = Samplers(pathlib.Path(sys.argv[1]))
    draw = random.Random(7)
    names = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
    rows = []
    for i in range(ROWS + MIROSTAT_ROWS):
        vocabulary = draw.randint(3, 30)
        spread = draw.choice((1, 3, 8))
        logits = [struct.unpack("<f", struct.pack("<f", rounded(draw, -spread, spread)))[0] for _ in range(vocabulary)]
        o = options(draw, vocabulary)
        row = {"logits": [round(each, 3) for each in logits], "options": o}
        if i < ROWS:
            order = list(names)
            if draw.random() < 0.5:
                draw.shuffle(order)
                del order[draw.randint(4, 9):]
            row.update(samplers=order, ids=text(draw, vocabulary))
            # Its constructor by tokens expects that it is on.
            chain = [samplers.step(name, o) for name in order if name != "dry" or o["dry_multiplier"] != 0]
            chain.append(samplers.make("dist", c_uint32(1)))
            row["left"] = left(samplers.apply(chain, logits, row["ids"]))
        else:
            o["mirostat"], o["mirostat_tau"], o["mirostat_eta"] = 1 + i % 2, rounded(draw, 0.2, 3), rounded(draw, 0, 1)
            temperature = samplers.make("temp", c_float(o["temperature"]))
            tail = (c_float(o["mirostat_tau"]), c_float(o["mirostat_eta"]))
            last = samplers.make("mirostat_v2", c_uint32(1), *tail) if o["mirostat"] == 2 else \
                samplers.make("mirostat", c_int32(vocabulary), c_uint32(1), *tail, c_int32(100))
            array = samplers.apply([temperature, last], logits, [])
            row.update(samplers=names, ids=[], left=left(array), drawn=array.data[array.selected].id)
        rows.append(row)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (ROOT / "tests/data/models/llama_samplers.json").write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
