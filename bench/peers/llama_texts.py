#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of models_decode_bench: libllama of npm's @node-llama-cpp/linux-x64 3.22.1 in this process, with a model of
noise of one of the shapes of tools/make_synthetic_model.py. Tokens a second of one text, of 16 together, of a prompt of
512 tokens, each the best over rounds and their median, without and with flash attention; one line of JSON.

  bench/peers/llama_texts.py FOLDER-OF-LIBRARIES SHAPE TYPE [THREADS] [SECONDS]     2 threads, 2 seconds a figure

TYPE: f32, bf16, f16, q8_0, q4_0, tq2_0 (whose rows are multiples of 256). Tokens are given, not chosen: what choosing
one takes is not in the figures.
"""
import ctypes
import json
import os
import pathlib
import random
import statistics
import struct
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
from make_synthetic_model import SHAPES  # noqa: E402

TEXTS, PROMPT, BEFORE = 16, 512, 32
# ggml's number, weights of a block, bytes of one, bytes of its scale at (first byte, value).
TYPES = {"f32": (0, 1, 4, None), "f16": (1, 1, 2, None), "q4_0": (2, 32, 18, 0), "q8_0": (8, 32, 34, 0),
         "bf16": (30, 1, 2, None), "tq2_0": (35, 256, 66, 64)}
FLOATS = {"f32": struct.pack("<f", 2.0**-7), "f16": struct.pack("<e", 2.0**-7), "bf16": b"\x00\x3c"}
CHUNK = 1 << 12


def tensors(shape, kind):
    """Names, shapes as ggml has them (columns first), types."""
    width, head = shape["width"], shape["width"] // shape["heads"]
    keys, inner = shape["key_heads"] * head, shape["inner"]
    yield "token_embd.weight", (width, shape["tokens"]), kind
    for i in range(shape["layers"]):
        at = f"blk.{i}."
        yield at + "attn_norm.weight", (width,), "f32"
        yield at + "ffn_norm.weight", (width,), "f32"
        for name, rows in (("attn_q", width), ("attn_k", keys), ("attn_v", keys), ("attn_output", width)):
            yield f"{at}{name}.weight", (width, rows), kind
        for name, of in (("ffn_gate", (width, inner)), ("ffn_up", (width, inner)), ("ffn_down", (inner, width))):
            yield f"{at}{name}.weight", of, kind
    yield "output_norm.weight", (width,), "f32"


def block_chunk(kind, draw):
    """CHUNK blocks of noise. Speed does not hang on the values, so they repeat; each value is small."""
    _, _, size, scale_at = TYPES[kind]
    if scale_at is None:
        return b"".join(FLOATS[kind][:-1] + bytes([FLOATS[kind][-1] | draw.randrange(2) << 7]) for _ in range(CHUNK))
    scale, blocks = struct.pack("<e", 2.0**-12), []
    for _ in range(CHUNK):
        codes = draw.randbytes(size - 2)
        blocks.append(codes[:scale_at] + scale + codes[scale_at:])
    return b"".join(blocks)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def write_model(path, shape, kind):
    keys = {"block_count": shape["layers"], "context_length": 2048, "embedding_length": shape["width"],
            "feed_forward_length": shape["inner"], "attention.head_count": shape["heads"],
            "attention.head_count_kv": shape["key_heads"], "vocab_size": shape["tokens"],
            "rope.dimension_count": shape["width"] // shape["heads"]}
    head = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("no_vocab")
    head += text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)
    for key, value in keys.items():
        head += text("llama." + key) + struct.pack("<II", 4, value)
    offset, table, sizes = 0, b"", []
    for name, of, own in tensors(shape, kind):
        number, weights, size, _ = TYPES[own]
        count = of[0] * (of[1] if len(of) == 2 else 1)
        if of[0] % weights:
            sys.exit(f"{kind} has blocks of {weights} weights; {name} has rows of {of[0]}")
        sizes.append((own, count // weights * size))
        table += text(name) + struct.pack(f"<I{len(of)}QIQ", len(of), *of, number, offset)
        offset += (sizes[-1][1] + 31) // 32 * 32
    start = b"GGUF" + struct.pack("<IQQ", 3, len(sizes), len(keys) + 3) + head + table
    noise = block_chunk(kind, random.Random(1))
    with open(path, "wb") as file:
        file.write(start + bytes(-len(start) % 32))
        for own, size in sizes:
            if own == kind != "f32" or size > 1 << 16:
                for at in range(0, size, len(noise)):
                    file.write(noise[:size - at])
            else:
                file.write(struct.pack("<f", 1.0) * (size // 4))
            file.write(bytes(-size % 32))
    return offset


class Parameters(ctypes.Structure):
    _fields_ = [("words", ctypes.c_int32 * 128)]


class Batch(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("seq_count", ctypes.POINTER(ctypes.c_int32)),
                ("seq", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


def load(folder):
    for name in ("libggml-base.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so"):
        library = ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        if name.startswith("libggml.v"):
            library.ggml_backend_load_all_from_path(str(folder).encode())
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    library.llama_log_set(quiet, None)
    library.kept = quiet
    for name, kind in (("llama_model_default_params", Parameters), ("llama_context_default_params", Parameters),
                       ("llama_model_load_from_file", ctypes.c_void_p), ("llama_init_from_model", ctypes.c_void_p),
                       ("llama_get_memory", ctypes.c_void_p), ("llama_batch_init", Batch),
                       ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float))):
        getattr(library, name).restype = kind
    library.llama_memory_clear.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    library.llama_backend_init()
    return library


class Context:
    """A context of its own for each way of attention."""

    def __init__(self, library, model, threads, flash):
        parameters = library.llama_context_default_params()
        assert tuple(parameters.words[:4]) == (512, 2048, 512, 1), "another version of libllama"
        parameters.words[0], parameters.words[3] = 2 * PROMPT * TEXTS, TEXTS
        parameters.words[7] = parameters.words[8] = threads
        parameters.words[13] = flash
        self.library = library
        self.context = ctypes.c_void_p(library.llama_init_from_model(ctypes.c_void_p(model), parameters))
        assert self.context.value, "no context"
        self.batch = library.llama_batch_init(PROMPT, 0, 1)

    def clear(self):
        self.library.llama_memory_clear(ctypes.c_void_p(self.library.llama_get_memory(self.context)), True)

    def take(self, items):
        """Items of token, position, text, and whether its logits are asked for; seconds."""
        batch = self.batch
        batch.count = len(items)
        for i, (token, position, of, asked) in enumerate(items):
            batch.token[i], batch.pos[i], batch.seq_count[i], batch.logits[i] = token, position, 1, asked
            batch.seq[i][0] = of
        begin = time.perf_counter()
        assert self.library.llama_decode(self.context, batch) == 0
        self.library.llama_get_logits_ith(self.context, len(items) - 1)[0]
        return time.perf_counter() - begin

    def read(self, tokens, texts):
        self.clear()
        for of in range(texts):
            seconds = self.take([(17 + 31 * (i + of) % 4000, i, of, i == tokens - 1) for i in range(tokens)])
        return seconds

    def write(self, texts, seconds):
        """Times of steps of one token of each text."""
        self.read(BEFORE, texts)
        took, position, end = [], BEFORE, time.monotonic() + seconds
        while time.monotonic() < end and position < 250:
            took.append(self.take([(17 + 31 * (position + of) % 4000, position, of, 1) for of in range(texts)]))
            position += 1
        return took

    def prefill(self, seconds):
        took, end = [], time.monotonic() + seconds
        while not took or time.monotonic() < end:
            took.append(self.read(PROMPT, 1))
        return took


def main(folder, shape, kind, threads, seconds):
    library = load(folder)
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch, "noise.gguf")
        size = write_model(path, SHAPES[shape], kind)
        begin = time.monotonic()
        model = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
        loading = time.monotonic() - begin
    assert model, "the model cannot be loaded"
    found = {}
    for flash in (0, 1):
        context = Context(library, model, threads, flash)
        for name, texts, took in (("decode", 1, context.write(1, seconds)), ("together", TEXTS, context.write(TEXTS, seconds)),
                                  ("prefill", PROMPT, context.prefill(seconds))):
            found[name] = max(found.get(name, 0.0), texts / statistics.median(took))
        library.llama_free(context.context)
    print(json.dumps({"shape": shape, "type": kind, "threads": threads, "MB": size / 1e6, "load_s": loading, **found}))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    if not 4 <= len(sys.argv) <= 6 or sys.argv[2] not in SHAPES or sys.argv[3] not in TYPES:
        sys.exit(__doc__)
    rest = sys.argv[4:] + ["2", "2"][len(sys.argv) - 4:]
    main(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(rest[0]), float(rest[1]))
